"""Ranking methods in worlds from rules, where nothing is unseen."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.cli import main as command
from attributionlab.verdicts import Pair, explained, f1_of, rank_methods
from attributionlab.verdicts.leaderboard.study import areas_of
from attributionlab.worlds import FEATURES
from schemas import problems

SIDE = 24
TWO = ["input-x-gradient", "deconvolution"]
WORLDS = [Pair(name, removed_to="true baseline") for name in ("quadrants", "random:2:easy:3")]


@pytest.fixture(scope="module")
def board():
    return rank_methods(TWO, 2, 3, pairs=WORLDS, size=SIDE)


@pytest.mark.long
def test_the_output_of_a_regression_is_followed_pixel_by_pixel():
    env = al.load("all-four", image_size=12)
    seen = explained(["random"], env, 2, 0)
    found = areas_of(seen, env, "true baseline", "accuracy")
    for protocol, sign in (("MoRF", -1), ("LeRF", 1)):
        for number, image in enumerate(seen.images):
            values = seen.maps["random"][number].flatten().numpy()
            left, outputs = image.clone(), []
            for pixel in [None, *np.argsort(sign * values, kind="stable").tolist()]:
                if pixel is not None:
                    left.view(3, -1)[:, pixel] = env.baseline.flatten()
                outputs.append(float(env.model(left[None])[0, 0].detach()))
            # Counts are integers, so the outputs are exact; a mean of 144 float64 trapezoids is off by
            # less than 144 x 2^-53 of the largest output.
            area = float(np.mean([(a + b) / 2 for a, b in pairwise(outputs)]))
            assert found[protocol][0, number] == pytest.approx(area, abs=1e-12)


@pytest.mark.long
def test_what_is_not_asked_counts_for_no_f1():
    seen = explained(["input-x-gradient"], al.load("several-objects", image_size=SIDE), 4, 0)
    asked = seen.truth.asked
    assert not asked.all()
    noise = torch.randn(asked.shape, generator=torch.Generator().manual_seed(0))
    other = {name: torch.where(asked, maps, noise) for name, maps in seen.maps.items()}
    before, after = f1_of(seen), f1_of(seen._replace(maps=other))
    assert all(np.array_equal(before[part], after[part], equal_nan=True) for part in before)


def test_random_worlds_are_further_pairs_with_images_of_their_own(board):
    drawn = al.random_worlds(2, 3, "easy", SIDE)
    named = [case.data for case in board.cases]
    assert named == [name for name in ("quadrants", *(e.name for e in drawn)) for _ in range(2)]
    assert [case.features for case in board.cases[::2]] == [
        None,
        *(each.features for each in drawn),
    ]
    assert not any(case.unseen for case in board.cases)
    assert all(case.in_world for case in board.cases)
    own = explained(TWO, drawn[1], 2, drawn[1].spec.seed)
    areas = areas_of(own, drawn[1], "true baseline", "accuracy")["LeRF"].mean(1)
    assert board.cases[-1].areas["deconvolution"] == areas[1]
    assert any("no unseen data" in note for note in board.notes)
    assert "by accuracy, in regressions by the output; 2 images" in board.title
    elsewhere = rank_methods(TWO, 1, pairs=[Pair("multi-color-sum", 0)], size=16)
    assert not any("no unseen data" in note for note in elsewhere.notes)
    assert elsewhere.by_feature().empty


@pytest.mark.long
def test_features_split_the_random_worlds(board):
    table = board.by_feature().set_index("feature")
    assert list(table.index) == list(FEATURES)
    features = [case.features for case in board.cases[2::2]]
    for feature, row in table.iterrows():
        assert row.worlds_with == sum(feature in each for each in features)
        assert row.worlds_with + row.worlds_without == 2
    document = board.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert [case["in_world"] for case in document["cases"]] == [True] * 6


@pytest.mark.long
def test_two_processes_give_the_same_board(board):
    again = rank_methods(TWO, 2, 3, pairs=WORLDS, size=SIDE, jobs=2)
    assert again.to_dict() == board.to_dict()


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        (Pair("quadrants"), "removed_to is 'black', but quadrants has no unseen data"),
        (
            Pair(al.load("quadrants", image_size=16), removed_to="true baseline"),
            f"have 16 pixels a side, not {SIDE}: pass size=16",
        ),
        (Pair(al.load("multi-color-sum", image_size=SIDE)), "is not a world from a rule"),
        (Pair("single-color-modulo"), "or a world from a rule"),
        (Pair("random:0", removed_to="true baseline"), "n is 0"),
        (
            Pair("random:2:easy:3"),
            "removed_to is 'black', but random-world-3-0-easy has no",
        ),
    ],
)
def test_what_cannot_be_ranked_in_is_refused(pair, told):
    with pytest.raises(al.AttributionLabError) as refused:
        rank_methods(TWO, 1, pairs=[pair], size=SIDE)
    assert told in str(refused.value)


@pytest.mark.long
def test_the_command_ranks_in_random_worlds_too(tmp_path, capsys):
    path = tmp_path / "board.json"
    words = ["leaderboard", *TWO, "--quick", "--n", "1", "--env", "random:1:easy"]
    assert command([*words, "--jobs", "1", "--json", str(path)]) == 0
    assert "in random worlds with and without a feature" in capsys.readouterr().out
    document = json.loads(path.read_text(encoding="utf-8"))
    assert problems(document, "leaderboard") == []
    cases = document["cases"]
    assert [case["in_world"] for case in cases] == [False] * 26 + [True] * 2
