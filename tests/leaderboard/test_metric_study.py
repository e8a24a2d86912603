"""Ranking metrics in worlds: what a row holds, what is computed once, what is kept, what is refused."""

import math
from functools import partial
from itertools import count
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import attributionlab as al
from attributionlab.base import AttributionLabError, Stopped
from attributionlab.metrics import cosine, metric
from attributionlab.verdicts import DEFAULT_METRICS, rank_metrics
from attributionlab.verdicts.leaderboard import metric_study
from attributionlab.verdicts.metric_trials.registry import METRICS, SHORT_NAMES
from trials import metric_trial

SIDE = 24
calls = []
stop_at = []


@metric(higher_is_better=False, per_sample=True)
def watched(model, images, targets, attributions, *, values):
    """The cosine to Shapley values, reversed; raises at the calls in `stop_at`."""
    calls.append(len(attributions))
    if len(calls) - 1 in stop_at:
        raise KeyboardInterrupt
    return -cosine(attributions, values) + 0 * model(images).sum()


@pytest.fixture(autouse=True)
def begun_anew():
    calls.clear()
    stop_at.clear()


def ranked(metrics, *environments, **options):
    """In a default environment and a drawn world, if none is named."""
    given = {"image_size": SIDE, "n": 2, "seed": 1} | options
    return rank_metrics(metrics, environments or ("all-four", "random:1:easy:1"), **given)


def same(first, second):
    """Two tables but for times."""
    pd.testing.assert_frame_equal(first.drop(columns="seconds"), second.drop(columns="seconds"))


@pytest.mark.long
def test_a_row_is_what_metric_test_finds_alone_though_worlds_are_shared():
    board = ranked(["insertion", "sparseness", "pixel-flipping"])
    world = al.random_worlds(1, 1, "easy", SIDE)[0]
    places = (
        (al.load("all-four", image_size=SIDE), "", 1),
        (world, "random:1:easy:1", world.spec.seed),
    )
    for env, called, seed in places:
        for name in ("insertion", "pixel-flipping"):
            [row] = [e for e in board.results if (e.metric, e.world) == (name, called or env.name)]
            alone = metric_trial(name, env, 2, seed)
            assert (row.verdict, row.agreement) == (alone.verdict, alone.trial.agreement)
            assert row.contrast == alone.trial.contrast.mean
            assert math.isnan(row.drop.value)
    assert board.results[0].features is None
    assert isinstance(board.results[3].features, tuple)


@pytest.mark.long
def test_the_drop_is_that_of_replacing_all_by_an_unseen_color():
    [row] = ranked(["insertion"], "multi-color-sum-distractors").results
    env = al.load("multi-color-sum-distractors", image_size=SIDE)
    [dose] = metric_trial("insertion", env, 2, 1, doses={"share": [1.0]}).doses
    assert row.drop == dose.drop
    assert row.drop.value != 0


@pytest.mark.long
def test_scores_are_ranked_by_their_direction_and_one_map_is_timed(monkeypatch):
    clock = SimpleNamespace(process_time=partial(next, count(1.0, 2.5)))
    monkeypatch.setattr(metric_study, "time", clock)
    board = ranked([watched, "cosine", "foreground-share"], "all-four")
    reversed_, straight, blind = board.results
    assert reversed_.correlations[1] == straight.correlations[1] == 1
    assert np.array_equal(reversed_.correlations, straight.correlations, equal_nan=True)
    assert np.array_equal(reversed_.differences, straight.differences, equal_nan=True)
    assert reversed_.agreement == straight.agreement
    assert blind.contrast.value == 0
    assert calls[-1] == 1
    assert [each.seconds for each in board.results] == [2.5] * 3


@pytest.mark.long
def test_what_the_network_says_is_worked_out_once_for_all_metrics(monkeypatch):
    made = []
    own = metric_study.definition_panel
    monkeypatch.setattr(metric_study, "definition_panel", lambda *a: made.append(a) or own(*a))
    ranked(["f1", "recall", "precision"])
    assert len(made) == 4  # two questions in two worlds
    assert metric_study._panels_of.cache_info().currsize == 0


@pytest.mark.long
def test_a_metric_that_is_added_leaves_the_others_as_they_are(tmp_path):
    first = ranked([watched], out=tmp_path / "kept")
    asked = len(calls)
    both = ranked(["recall", watched], out=tmp_path / "kept").by_world()
    assert len(calls) == asked
    for name, board in {"watched": first, "recall": ranked(["recall"])}.items():
        same(both[both["metric"] == name].reset_index(drop=True), board.by_world())


@pytest.mark.long
@pytest.mark.parametrize("n", [2, 3])
def test_a_stopped_ranking_is_of_what_is_done_and_goes_on(tmp_path, n):
    """Of three questions two of the last metric are done, beside three of the first."""
    undisturbed = ranked(["f1", watched], n=n)
    in_all = len(calls)
    calls.clear()
    stop_at.append(
        in_all - n - 2
    )  # before the second panel and the timed map, in the last question
    with pytest.raises(Stopped, match="3 of 4 metrics in a world were done") as stopped:
        ranked(["f1", watched], n=n, out=tmp_path / "kept")
    part = stopped.value.result
    assert part.incomplete
    same(part.by_world(), undisturbed.by_world()[:3])
    calls.clear()
    stop_at.clear()
    whole = ranked(["f1", watched], n=n, out=tmp_path / "kept")
    assert len(calls) == in_all // 2
    assert not whole.incomplete
    for name in ("by_world", "to_frame"):
        same(getattr(whole, name)(), getattr(undisturbed, name)())
    pd.testing.assert_frame_equal(whole.definitions(), undisturbed.definitions())
    calls.clear()
    stop_at.append(0)
    with pytest.raises(Stopped, match="0 of 2") as stopped:
        ranked([watched])
    assert stopped.value.result is None


@pytest.mark.long
def test_panels_are_let_go_after_an_error(monkeypatch):
    def full(cells, what, running):
        cells[0].compute(None)
        assert metric_study._panels_of.cache_info().currsize == 1
        raise OSError("no space left")

    monkeypatch.setattr(metric_study, "outcomes_of", full)
    with pytest.raises(OSError, match="no space left"):
        ranked(["recall"], "all-four")
    assert metric_study._panels_of.cache_info().currsize == 0


@pytest.mark.long
def test_metrics_that_never_look_at_the_network_estimate_nothing():
    board = ranked(["foreground-share", "edge-share", watched], "random:7:easy:1")
    table = board.to_frame().set_index("metric")
    assert table.loc["foreground-share", "estimates"] == "none"
    assert table.loc["edge-share", "estimates"] == "none"
    assert table.loc["foreground-share", "contrast"] == 0
    assert table.loc["watched", "estimates"] in ("shapley", "not told apart")


@pytest.mark.long
def test_a_metric_that_ranks_nothing_in_a_world_is_refused_there():
    @metric(higher_is_better=True, per_sample=True)
    def nothing(attributions):
        return attributions.sum((1, 2, 3)) * math.nan

    board = ranked([nothing, "recall"], "all-four")
    assert [each.verdict for each in board.results] == ["refused", "undecided"]
    [[name, reason, worlds]] = board.refused().values.tolist()
    assert (name, worlds) == ("nothing", 1)
    assert "is NaN for every attribution" in reason


def test_a_world_without_twins_counts_for_no_metric():
    board = ranked(["recall"], "single-color-modulo")
    [row] = board.results
    assert row.verdict == "not built"
    assert "no networks with other roles" in row.reason
    [line] = board.to_frame().itertuples()
    assert line.tested == 0
    assert math.isnan(line.valid)  # of no world
    assert len(board.refused()) == 0
    assert board.not_built().values.tolist() == [[row.world, row.reason]]


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(AttributionLabError) as error:
        rank_metrics(
            ["insertionn", "infidelity", "infidelity", lambda maps: maps],
            ["random:0", "all-fourr", "quadrants", "quadrants", "random:2:mild"],
            seed=-2,
            n=1,
        )
    said = str(error.value)
    for text in (
        "no metric named 'insertionn': did you mean 'insertion'?",
        "metrics name 'infidelity' twice: name each once",
        "does not say which direction is better",
        "n is 0",
        "no environment named 'all-fourr'",
        "environments name 'quadrants' twice: name each once",
        "difficulty is 'mild'",
        "seed is -2",
        "n is 1",
    ):
        assert said.count(text) == 1, text
    assert "\n" not in said
    for wrong in ([], "insertion"):
        with pytest.raises(AttributionLabError, match="name at least one, in a list"):
            rank_metrics(wrong)
    for wrong, told in (
        ({"jobs": 0}, "jobs is 0"),
        ({"out": 7}, "out is 7"),
        ({"retry_failed": "no"}, "retry_failed is 'no'"),
        ({"image_size": 3}, "image_size is 3"),
    ):
        with pytest.raises(AttributionLabError, match=told):
            rank_metrics(["recall"], "all-four", **({"image_size": SIDE} | wrong))


def test_by_default_every_metric_that_ranks_maps_is_taken_once(monkeypatch):
    asked = []

    def nothing(cells, *_, **__):
        asked.extend(cells)
        yield from ()

    monkeypatch.setattr("attributionlab.runs.running.run_cells", nothing)
    board = rank_metrics(environments="all-four", image_size=SIDE)
    assert [cell.place["metric"] for cell in asked] == list(DEFAULT_METRICS) == list(board.metrics)
    assert {*METRICS} == {*DEFAULT_METRICS, *SHORT_NAMES}
    assert not {*DEFAULT_METRICS} & {*SHORT_NAMES}
    assert {cell.inputs["n"] for cell in asked} == {6}


@pytest.mark.parametrize(("quick", "worlds", "side"), [(False, 50, 48), (True, 10, 24)])
def test_by_default_they_are_ranked_in_default_environments_and_random_worlds(
    monkeypatch, quick, worlds, side
):
    loaded = []

    def load(name, image_size):
        loaded.append((name, image_size))
        raise AttributionLabError("enough")

    monkeypatch.setattr(metric_study, "load", load)
    with pytest.raises(AttributionLabError, match="enough"):
        rank_metrics(["recall"], seed=5, quick=quick)
    names = [*metric_study.FLAT_ENVIRONMENTS, f"random:{worlds}:medium:5"]
    assert loaded == [(name, side) for name in names]
