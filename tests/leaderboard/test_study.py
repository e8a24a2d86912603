"""Ranking methods: what a leaderboard holds, says, writes and refuses.

Maps and curves of one network, against forward passes.

The cases: 13 pairs of images and network, each in two orders.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import attributionlab as al
import oracles_leaderboard as oracle
from attributionlab.methods import declares, figure_label
from attributionlab.metrics import accuracy, label_probability, parts_f1
from attributionlab.metrics.ranking import CorrelationInterval, meta_rank
from attributionlab.verdicts import (
    PAIRS,
    PROTOCOLS,
    CaseScores,
    Leaderboard,
    Pair,
    explained,
    f1_of,
    rank_methods,
    removed_pixel,
)
from attributionlab.verdicts.leaderboard.cases import ALL
from attributionlab.verdicts.leaderboard.report import WHERE_MISSING
from attributionlab.verdicts.leaderboard.study import areas_of, indicated
from cases import loaded
from pages import explained_columns

FEW = (PAIRS[0], PAIRS[2], PAIRS[4])
METHODS = ["input-x-gradient", "gradcam", "deconvolution"]


@pytest.fixture(scope="module")
def board():
    return rank_methods(METHODS, 2, pairs=FEW, size=16)


def failing(model, inputs, targets):
    """Saliency that takes four classes only."""
    if model(inputs).shape[1] != 4:
        raise ValueError("four classes only")
    x = inputs.clone().requires_grad_()
    model(x).gather(1, targets[:, None]).sum().backward()
    return x.grad


def made_up(areas, truth, unseen=(False, True), data=None):
    """A board of pairs from (methods, cases) areas."""
    cases = [
        CaseScores(
            column // 2,
            data or f"images {column // 2}",
            "network",
            ("MoRF", "LeRF")[column % 2],
            unseen[column // 2],
            {name: values[column] for name, values in areas.items() if values[column] is not None},
            {name: dict.fromkeys(("overall", "positive", "signed"), truth[name]) for name in areas},
            {name: "no layer" for name, values in areas.items() if values[column] is None},
        )
        for column in range(2 * len(unseen))
    ]
    return Leaderboard([name for name in areas if name != "oracle"], cases, "accuracy", 4, 16, 0)


TRUE = {"a": 0.9, "b": 0.5, "c": 0.1, "random": 0.0, "oracle": 1.0}
RIGHT = {
    "a": [0.1, 0.9, 0.1, 0.9],
    "b": [0.2, 0.8, 0.2, 0.8],
    "c": [0.3, 0.7, 0.3, 0.7],
    "random": [0.5, 0.5, 0.5, 0.5],
    "oracle": [0.1, 0.9, 0.0, 1.0],
}


def many_pairs(areas):
    """Four pairs like these two, and two methods more, so that there is something to tell."""
    more = {"d": [0.4, 0.6, 0.4, 0.6], "e": [0.45, 0.55, 0.45, 0.55]}
    return {name: values * 2 for name, values in (areas | more).items()}


FOUR = (False, True, False, True)
FIVE_TRUE = TRUE | {"d": 0.05, "e": 0.02}


def test_the_columns_of_the_file_are_explained():
    table = made_up(RIGHT, TRUE).to_frame()
    assert [*table] == explained_columns("attributionlab leaderboard --csv")


def test_every_pair_is_ranked_in_both_orders(board):
    assert [case.name for case in board.cases] == [
        f"{pair.name}, {protocol}" for pair in FEW for protocol in ("MoRF", "LeRF")
    ]
    assert [case.unseen for case in board.cases] == [False, False, True, True, False, False]
    assert board.methods == [*METHODS, "random"]
    assert board.is_method == [True, True, True, False]
    assert board.areas.shape == board.ranks.shape == (4, 6)


@pytest.mark.long
def test_the_leaderboard_is_meta_rank_of_the_ranks(board):
    table = board.to_frame()
    expected = dict(zip(board.methods, meta_rank(board.ranks), strict=True))
    assert dict(zip(table.method, table.score, strict=True)) == pytest.approx(expected, abs=1e-9)
    assert table.score.is_monotonic_decreasing
    assert table.place.tolist() == sorted(table.place)
    assert (table.cases == 6).all()


def test_a_network_that_is_asked_twice_has_the_same_maps_and_truth(board):
    assert board.truth[:, 2].tolist() == board.truth[:, 3].tolist()
    assert board.truth[:, 2].tolist() == board.truth[:, 4].tolist()  # both have dose 1


def test_the_control_is_ranked_once_when_it_is_named():
    named = rank_methods([*METHODS[:2], "random"], 1, pairs=FEW[:1], size=16)
    assert named.methods == [*METHODS[:2], "random"]


def test_the_seed_draws_images_and_weights(board):
    other = rank_methods(METHODS, 2, 1, pairs=FEW, size=16)
    assert other.areas.tolist() != board.areas.tolist()


def test_the_indicator_decides_what_areas_are_of(board):
    graded = rank_methods(METHODS, 2, pairs=FEW, size=16, indicator="label-probability")
    assert graded.areas.tolist() != board.areas.tolist()
    assert "by label probability" in graded.title


@pytest.mark.long
def test_a_method_that_fails_in_a_case_is_missing_there_and_it_is_said():
    pairs = [PAIRS[0], next(pair for pair in PAIRS if pair.data == "two colors")]
    found = rank_methods([failing, "gradcam"], 1, pairs=pairs, size=16)
    assert np.isnan(found.ranks[0]).tolist() == [False, False, True, True]
    table = found.to_frame().set_index("method")
    assert table.cases.to_dict() == {"failing": 2, "gradcam": 4, "random": 4}
    [row] = found.missing().itertuples(index=False)
    assert tuple(row)[:3] == ("failing", 1, 2)
    assert "four classes only" in row.reason


@pytest.mark.long
def test_below_a_method_that_optimizes_stand_its_lowest_and_highest_place():
    @declares(runs=2)
    def method(model, inputs, targets, *, nudge):
        return inputs * (-1) ** nudge

    def other(model, inputs, targets):
        return -inputs

    def ranked(first):
        others = ["saliency", "guided-backprop"]
        return rank_methods([first, *others], 1, pairs=PAIRS[:2], size=16).to_frame()

    both = ranked(method).set_index("method")
    names = both.index.tolist()
    place = names.index("method")
    assert names[place + 1 : place + 3] == ["method, lowest of 2 runs", "method, highest of 2 runs"]
    assert [name for name in names if "runs" in name] == names[place + 1 : place + 3]
    alone = ranked(other).set_index("method").loc["other"]
    for column in ("place", "score", "truth_place", "truth", "cases"):
        two = [both.loc["method", column], alone[column]]
        assert both[column][place + 1 : place + 3].tolist() == [min(two), max(two)]


def answers(board):
    """By the first words of a check: its answer, its value and of how many."""
    return {row.check[:18]: (row.answer, row.value, row.of) for row in board.checks().itertuples()}


RECOVERS, GAINS, UNSEEN, BEHIND, ORACLE_WINS, _, SETS, MOVES = (
    *("fusing recovers th", "the fused ranking ", "cases without unse", "methods behind the"),
    *("cases in which no ", "mean correlation o", "sets of images tha", "methods and contro"),
)


def test_a_ranking_that_is_the_truth_s_is_found_to_be():
    board = made_up(RIGHT, TRUE)
    assert board.fusions[ALL].agreement["signed"].correlation.value == 1
    table = board.to_frame()
    assert table.method.iloc[[0, -1]].tolist() == ["a", "random"]
    assert table.truth_place.iloc[[0, -1]].tolist() == [1, 4]
    found = answers(board)
    assert found[RECOVERS][:2] == ("fewer than 5 methods", 1)
    assert found[BEHIND][1:] == (0, 3)
    assert found[ORACLE_WINS][1:] == (4, 4)


@pytest.mark.long
def test_a_ranking_that_is_the_opposite_does_not_recover_it():
    wrong = {**FIVE_TRUE, "a": 0.02, "b": 0.05, "d": 0.5, "e": 0.9}
    assert answers(made_up(many_pairs(RIGHT), wrong, FOUR))[RECOVERS][0] == "no"


@pytest.fixture(scope="module")
def of_many_pairs():
    return made_up(many_pairs(RIGHT), FIVE_TRUE, FOUR)


def changed(board, **intervals):
    """Answers as they would be with other intervals; the board stays as it is."""
    fit = board.fusions[ALL]
    signed = fit.agreement["signed"]._replace(
        **{name: CorrelationInterval(*each) for name, each in intervals.items()}
    )
    board.fusions[ALL] = fit._replace(agreement={**fit.agreement, "signed": signed})
    try:
        return answers(board)
    finally:
        board.fusions[ALL] = fit


NO_INTERVAL = "too few pairs for an interval"


@pytest.mark.parametrize(
    ("value", "pairs", "methods", "answer"),
    [
        (0.65, (0.7, 0.9), (0.7, 0.9), "yes"),
        (0.65, (0.7, 0.9), (0.6, 0.9), "undecided"),
        (0.65, (0.6, 0.7), (0.6, 0.7), "undecided"),
        (0.65, (0.1, 0.69), (0.1, 0.69), "no"),
        (0.65, (0.1, 0.69), (0.1, 0.7), "undecided"),
        (0.65, (math.nan,) * 2, (math.nan,) * 2, NO_INTERVAL),
        (math.nan, (math.nan,) * 2, (math.nan,) * 2, "all scores are equal"),
    ],
)
def test_whether_fusing_recovers_the_truth_follows_both_intervals(
    of_many_pairs, value, pairs, methods, answer
):
    intervals = {"correlation": (value, *pairs), "for_other_methods": (value, *methods)}
    found = changed(of_many_pairs, **intervals)
    assert found[RECOVERS][0] == answer


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (0.1, 0.2, "yes"),
        (-0.2, -0.1, "no"),
        (-0.1, 0.1, "undecided"),
        (math.nan, math.nan, NO_INTERVAL),
    ],
)
def test_what_fusing_gains_follows_the_interval(low, high, answer):
    assert changed(made_up(RIGHT, TRUE), gain=(0.0, low, high))[GAINS][0] == answer


@pytest.mark.long
def test_pairs_that_share_images_are_counted():
    assert answers(made_up(RIGHT, TRUE))[UNSEEN][0] == NO_INTERVAL
    shared = made_up(many_pairs(RIGHT), FIVE_TRUE, FOUR, data="squares")
    assert shared.by_images().to_numpy().tolist() == [["squares", 1]]
    assert answers(shared)[SETS][1:] == (1, 4)


@pytest.mark.long
def test_places_that_depend_on_another_method_are_counted():
    """A third method decides which of two that are close is ahead."""
    ranked = {"a": [3, 4, 2, 1, 1, 3], "b": [1, 3, 4, 3, 3, 4], "c": [2, 2, 1, 4, 2, 2]}
    ranked |= {"d": [4, 1, 3, 2, 4, 1], "random": [5] * 6, "oracle": [0] * 6}
    areas = {
        name: [rank if case % 2 == 0 else -rank for case, rank in enumerate(ranks)]
        for name, ranks in ranked.items()
    }
    board = made_up(areas, TRUE | {"d": 0.2}, (False,) * 3)
    moved = board.left_out().set_index("left_out").moved.to_dict()
    for index, name in enumerate(board.methods):
        rest = [row for row in range(5) if row != index]
        whole = meta_rank(board.ranks)[rest].round(9)
        alone = meta_rank(board.ranks[rest]).round(9)
        places = [[int((each > score).sum()) for score in each] for each in (whole, alone)]
        assert moved[name] == sum(one != other for one, other in zip(*places, strict=True))
    assert answers(board)[MOVES][1:] == (sum(count > 0 for count in moved.values()), 5)
    assert max(moved.values()) > 0


def test_the_truth_s_places_do_not_depend_on_which_cases_a_method_is_missing_in():
    """b is missing where the truth is low for all, and does not gain by it."""
    cases = made_up(RIGHT, TRUE).cases
    easy, hard = ({"a": 0.9, "b": 0.5, "random": 0.0}, {"a": 0.05, "random": 0.0})
    cases = [
        case._replace(
            areas={name: case.areas[name] for name in (*f1, "oracle")},
            truth={name: dict.fromkeys(("overall", "positive", "signed"), f1[name]) for name in f1},
        )
        for case, f1 in zip(cases, (easy, easy, hard, hard), strict=True)
    ]
    board = Leaderboard(["a", "b", "random"], cases, "accuracy", 4, 16, 0)
    table = board.to_frame().set_index("method")
    assert table.truth["b"] > table.truth["a"]  # means, over other cases
    assert table.truth_place.to_dict() == {"a": 1, "b": 2, "random": 3}
    assert WHERE_MISSING in board.notes
    assert WHERE_MISSING not in made_up(RIGHT, TRUE).notes


def test_unseen_data_matters_where_rankings_are_right_without_it_and_wrong_with_it():
    turned = {name: [*values[:2], *RIGHT[other][2:]] for (name, values), other in zip(
        RIGHT.items(), ["c", "b", "a", "random", "oracle"], strict=True
    )}  # fmt: skip
    found = made_up(turned, TRUE)
    assert found.fusions["no unseen data"].agreement["signed"].correlation.value == 1
    assert found.fusions["unseen data"].agreement["signed"].correlation.value == -1
    assert found.agreement().fused.unique().tolist() == list(found.fusions)
    assert answers(found)[UNSEEN][1] == 2


def test_subsets_are_of_their_cases():
    areas = {**RIGHT, "a": [0.1, 0.1, 0.1, 0.1]}
    fusions = made_up(areas, TRUE).fusions
    assert fusions["MoRF"].cases == fusions["LeRF"].cases == 2
    assert fusions["MoRF"].agreement["signed"].correlation.value == 1
    assert fusions["LeRF"].agreement["signed"].correlation.value == -0.5
    assert "unseen data" not in made_up(RIGHT, TRUE, unseen=(False, False)).fusions


def test_a_subset_without_a_method_is_left_out():
    areas = {**RIGHT, "b": [0.2, 0.8, None, None]}
    found = made_up(areas, TRUE)
    assert "unseen data" not in found.fusions
    assert "no unseen data" in found.fusions


def test_a_method_that_beats_the_oracle_is_counted():
    areas = {**RIGHT, "oracle": [0.15, 0.9, 0.1, 0.8]}
    found = made_up(areas, TRUE)
    assert found.oracle_wins() == [False, True, True, False]
    assert answers(found)[ORACLE_WINS][1:] == (2, 4)


def test_methods_behind_the_control_are_counted():
    areas = {**RIGHT, "random": [0.0, 1.0, 0.0, 1.0]}
    assert answers(made_up(areas, TRUE))[BEHIND][1:] == (3, 3)


def test_files_hold_everything(board, tmp_path):
    replace(board, command="again").to_json(tmp_path / "board.json")
    document = json.loads((tmp_path / "board.json").read_text())
    assert document["command"] == "again"
    assert len(document["cases"]) == 6
    assert document["cases"][0]["areas"]["gradcam"] == board.areas[1, 0]
    for key, table in (("checks", board.checks()), ("left_out", board.left_out())):
        assert [row.keys() for row in document[key]] == [set(table)] * len(table)
    assert document["notes"] == board.notes
    board.to_csv(tmp_path / "board.csv")
    written = pd.read_csv(tmp_path / "board.csv")
    assert written.method.tolist() == board.to_frame().method.tolist()
    board.to_parquet(tmp_path / "board.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "board.parquet"), board.to_frame())
    assert str(board).startswith("3 methods and a control ranked in 6 cases (3 pairs of images")
    assert repr(board) == "Leaderboard(4 methods, 6 cases)"


def test_the_figure_has_a_row_for_each_method_and_a_column_for_each_case(board):
    fused, truth, ranks, _ = board.figure().axes
    names = [figure_label(each) for each in board.to_frame().method]
    assert [each.get_text() for each in fused.get_yticklabels()] == names
    assert len(truth.patches) == 4
    assert ranks.get_images()[0].get_array().shape == (4, 6)


def test_the_truth_s_rankings_of_pairs_are_compared_with_each_other():
    assert made_up(RIGHT, TRUE).truth_by_case() == 1
    one = rank_methods(METHODS, 1, pairs=FEW[:1], size=16)
    assert math.isnan(one.truth_by_case())


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"methods": ["saliency"]}, "methods are ['saliency']: name at least two"),
        ({"methods": ["saliency", "random"]}, "name at least two beside 'random'"),
        ({"methods": "saliency"}, "methods are 'saliency': name at least two, in a list"),
        ({"methods": ["lrp", "lrp"]}, "methods name 'lrp' twice"),
        ({"methods": ["lrp", "oracle"]}, "always scored"),
        ({"methods": ["lrp", "saliencyy"]}, "saliencyy"),
        ({"pairs": []}, "pairs are empty: name at least one"),
        ({"pairs": [PAIRS[0], PAIRS[0]]}, "twice: give each a label"),
        ({"pairs": ["multi-color-sum"]}, "pass a list of attributionlab.verdicts.leaderboard.Pair"),
        ({"indicator": "logit"}, "indicator is 'logit': take accuracy or label-probability"),
        ({"n": 0}, "n is 0"),
        ({"size": 7}, "size is 7"),
        ({"seed": -1}, "seed is -1"),
        ({"confidence": 1}, "confidence is 1: take"),
    ],
)
def test_impossible_questions_are_refused_in_one_line(arguments, said):
    asked = {"methods": ["lrp", "saliency"], "n": 1, "pairs": FEW[:1], "size": 16} | arguments
    with pytest.raises(al.AttributionLabError) as refusal:
        rank_methods(**asked)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_method_that_is_missing_everywhere_is_refused_with_its_reason():
    two = [Pair("multi-color-sum", 0, changes={"colors": [[220, 120, 20], [220, 20, 120]]})]
    with pytest.raises(al.AttributionLabError, match=r"failing could not be run in any case.*four"):
        rank_methods([failing, "lrp"], 1, pairs=two, size=16)


def test_methods_none_of_which_runs_are_refused():
    def other(model, inputs, targets):
        raise ValueError("never")

    def another(model, inputs, targets):
        raise ValueError("never")

    with pytest.raises(al.AttributionLabError, match=r"no method ran on .*never"):
        rank_methods([other, another], 1, pairs=FEW[:1], size=16)


def test_the_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    rank_methods(METHODS[:2], 1, pairs=FEW[:1], size=16)
    assert torch.equal(torch.get_rng_state(), before)


# Sums of at most 145 numbers in [0, 1] in float64.
ROUNDING = 1e-13
env = loaded("multi-color-sum", image_size=12, redundant_strength=4.0)


@pytest.fixture(scope="module")
def seen(env):
    return explained(["input-x-gradient", "random", "oracle"], env, 2, 0)


def test_maps_are_those_of_the_methods(env, seen):
    images, labels = env.batch(2, 0)
    assert torch.equal(seen.images, images)
    assert torch.equal(seen.targets, labels)
    truth = env.truth(images, labels, "probability").signed
    assert torch.equal(seen.truth.signed, truth)
    assert torch.equal(seen.maps["oracle"], truth.float())
    assert list(seen.maps) == ["input-x-gradient", "random", "oracle"]
    assert not torch.equal(seen.maps["random"][0], seen.maps["random"][1])
    assert seen.reasons == {}


def test_a_method_that_cannot_be_run_has_a_reason_and_no_map(env):
    def broken(model, inputs, targets):
        raise ValueError("not today")

    found = explained([broken, "saliency"], env, 1, 0)
    assert list(found.maps) == ["saliency"]
    assert "not today" in found.reasons["broken"]


@pytest.mark.long
@pytest.mark.parametrize("removed_to", ["black", "true baseline"])
@pytest.mark.parametrize("indicator", ["accuracy", "label-probability"])
def test_areas_are_those_of_forward_passes(env, seen, removed_to, indicator):
    found = areas_of(seen, env, removed_to, indicator)
    assert list(found) == ["MoRF", "LeRF"]
    pixel = torch.tensor([0.0] * 3 if removed_to == "black" else env.recipe.background)
    for protocol, areas in found.items():
        for row, maps in enumerate(list(seen.maps.values())[:2]):
            for index, image in enumerate(seen.images[: 1 + row]):
                values, label = maps[index].flatten().tolist(), int(seen.targets[index])
                sign = -1 if protocol == "MoRF" else 1
                order = sorted(range(144), key=lambda place: (sign * values[place], place))

                def answer(current, label=label):
                    logits = env.model(current[None])[0].tolist()
                    if indicator == "accuracy":
                        return oracle.accuracy(logits, label)
                    return oracle.probability(logits, label, env.temperature)

                curve = oracle.curve(answer, image, order, pixel)
                assert areas[row, index] == pytest.approx(oracle.area(curve), abs=ROUNDING)


def test_indicators_are_those_of_the_metrics():
    drawing = torch.Generator().manual_seed(0)
    outputs = torch.randint(0, 3, (4, 50, 3), generator=drawing).float() * 100
    labels = torch.full((200,), 2)
    rows = outputs.flatten(0, 1)
    by_accuracy = indicated(outputs, 2, "accuracy", 1.0).flatten()
    assert torch.equal(by_accuracy, accuracy(rows, labels))
    by_probability = indicated(outputs, 2, "label-probability", 16.0).flatten()
    assert torch.equal(by_probability, label_probability(rows, labels, temperature=16.0))


def test_removed_pixels_are_black_or_background(env):
    assert removed_pixel(env, "black").flatten().tolist() == [0, 0, 0]
    assert removed_pixel(env, "true baseline").flatten().tolist() == [20, 20, 20]


def test_f1_is_of_every_part(seen):
    found = f1_of(seen)
    for row, maps in enumerate(seen.maps.values()):
        for part, values in parts_f1(maps, seen.truth.signed).items():
            assert np.array_equal(found[part][row], values.numpy())
    assert found["overall"][2].tolist() == pytest.approx([1, 1])


def test_there_are_26_cases_with_names_of_their_own():
    assert len(PAIRS) * len(PROTOCOLS) == 26
    assert len({pair.name for pair in PAIRS}) == 13
    assert PROTOCOLS == {"MoRF": "morf", "LeRF": "lerf"}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_only_black_and_redundant_channels_make_unseen_data(pair):
    env = pair.load(12, 0)
    black = torch.zeros(1, 3, 12, 12)
    background = env.baseline.expand(1, 3, 12, 12)
    reacts = not torch.equal(env.model(black), env.model(background))
    assert pair.shows_unseen_data(env) == (reacts and pair.removed_to == "black")
    assert env.task == "classification"


@pytest.mark.long
def test_images_and_doses_differ_as_they_say():
    sizes = {
        pair.name: pair.load(16, 0).model(torch.zeros(1, 3, 16, 16)).shape[1] for pair in PAIRS
    }
    assert sizes["two colors, dose 0"] == 2
    assert sizes["four colors, dose 4"] == 4
    images = {pair.data: pair.load(16, 0).batch(4)[0] for pair in PAIRS}
    assert len(images) == 4
    assert not torch.equal(images["four colors"], images["shapes"])
    strengths = {pair.name: pair.load(16, 0).spec.constants["redundant_strength"] for pair in PAIRS}
    assert strengths["distractors, dose 4"] == 4
    assert strengths["four colors, dose 1, true baseline"] == 1


def test_networks_of_the_same_images_share_random_weights_and_others_do_not():
    def weight_seed(pair, seed):
        return pair.load(12, seed).spec.constants["weight_seed"]

    first, second, *_, other = PAIRS
    assert weight_seed(first, 0) == weight_seed(second, 0)
    assert weight_seed(first, 0) != weight_seed(other, 0)
    assert weight_seed(first, 0) != weight_seed(first, 1)


def test_a_pair_without_a_dose_is_the_environment_as_it_is():
    pair = Pair("multi-color-sum-in-distribution")
    assert pair.name == "multi-color-sum-in-distribution, as it is"
    env = pair.load(None, 0)
    assert env.recipe.image_size == 224
    assert not pair.shows_unseen_data(env)


def test_a_regression_is_refused():
    with pytest.raises(al.AttributionLabError, match="number-checker is a regression"):
        Pair("number-checker").load(16, 0)


@pytest.mark.parametrize("dose", [0.1, "a", float("nan")])
def test_a_dose_between_the_steps_is_refused(dose):
    with pytest.raises(al.AttributionLabError, match=r"dose is .*: take a multiple of 0.25"):
        Pair("multi-color-sum", dose).load(16, 0)


def test_an_unknown_replacement_is_refused():
    with pytest.raises(al.AttributionLabError, match="removed_to is 'white': take 'black' or"):
        Pair("multi-color-sum", removed_to="white").load(16, 0)
