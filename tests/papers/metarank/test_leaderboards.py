"""Figure 3, small: what cases differ in, and what the claims rest on."""

import math

import pandas as pd
import pytest

from attributionlab.metrics.ranking import spearman
from attributionlab.papers.catalog import Run
from attributionlab.papers.metarank import leaderboards
from attributionlab.papers.metarank.leaderboards import LEVELS
from attributionlab.verdicts import PAIRS, PAPER_METHODS, CaseScores, rank_methods

CONSISTENCY = "metarank-figure-3"

FEW = tuple(pair for pair in PAIRS if pair.data in ("two colors", "distractors") and pair.dose != 4)
SIZES = {"image_size": 12, "seeds": 2}


@pytest.fixture(scope="module")
def small_boards():
    """Leaderboards of two draws of four pairs."""
    return [rank_methods(PAPER_METHODS, 1, seed, pairs=FEW, size=12) for seed in (0, 1)]


@pytest.fixture
def with_small_boards(small_boards, monkeypatch):
    monkeypatch.setattr(leaderboards, "_boards", lambda *_: small_boards)


def test_boards_are_of_the_paper_s_methods_and_of_consecutive_seeds(monkeypatch):
    methods = ("input-x-gradient", "saliency", "gradcam", "deconvolution")
    monkeypatch.setattr(leaderboards, "PAIRS", FEW[:1])
    monkeypatch.setattr(leaderboards, "PAPER_METHODS", methods)
    found = leaderboards._boards(Run(CONSISTENCY, n=1, seed=5), 12, 2)
    assert [board.seed for board in found] == [5, 6]
    assert found[0].methods == [*methods, "random"]


def test_cases_are_compared_where_they_differ_in_one_thing(small_boards, with_small_boards):
    found = leaderboards.consistency(Run(CONSISTENCY, n=1), **SIZES)
    board, table = small_boards[0], found.tables["correlations"]
    first = table[table.seed == 0]
    # Two data sets with two doses in two orders: 8 cases.
    assert first.level.value_counts().to_dict() == {"model": 4, "data set": 4, "protocol": 4}
    names = [case.name for case in board.cases]
    for row in first.itertuples():
        one, other = names.index(row.first), names.index(row.second)
        expected = spearman(board.ranks[:8, one], board.ranks[:8, other])
        assert row.correlation == pytest.approx(expected, nan_ok=True)
    levels = found.tables["levels"].set_index(["differ_in", "cases"])
    means = table[table.level == "model"].groupby("seed").correlation.mean()
    assert levels.correlation["model", "all"] == pytest.approx(means.mean())
    assert levels.pairs["model", "no unseen data"] == 0
    assert levels.pairs["data set", "no unseen data"] == 2
    panels = [len(figure.axes) - 1 for figure in found.figures.values()]  # without color bars
    assert panels == [4, 4, 1]


def case(data, network, protocol):
    return CaseScores(0, data, network, protocol, False, {}, {}, {})


def test_cases_that_differ_in_two_things_are_at_no_level():
    one = case("a", "dose 0", "MoRF")
    assert leaderboards.level_of(one, case("a", "dose 1", "MoRF")) == "model"
    assert leaderboards.level_of(one, case("b", "dose 0", "MoRF")) == "data set"
    assert leaderboards.level_of(one, case("a", "dose 0", "LeRF")) == "protocol"
    assert leaderboards.level_of(one, case("b", "dose 0", "LeRF")) is None
    assert leaderboards.level_of(one, one) is None


@pytest.mark.parametrize(
    ("low", "high", "strong"),
    [(0.8, 0.9, True), (0.5, 0.6, False), (0.6, 0.8, None), (math.nan, math.nan, None)],
)
def test_claims_about_consistency_follow_intervals(low, high, strong):
    levels = pd.DataFrame({"differ_in": [*LEVELS], "cases": "all"})
    none = levels.assign(low=math.nan, high=math.nan, truth_low=math.nan, truth_high=math.nan)
    weak = None if strong is None else not strong
    for level, check in zip(
        LEVELS, ("models_differ", "data_sets_differ", "protocols_differ"), strict=True
    ):
        table = none.copy()
        table.loc[table.differ_in == level, ["low", "high"]] = low, high
        assert getattr(leaderboards, check)({"levels": table}) is weak
    truth = {"levels": none.assign(truth_low=low, truth_high=high)}
    assert leaderboards.truth_is_consistent(truth) is strong
    truth["levels"].loc[0, ["truth_low", "truth_high"]] = 0.75, 0.95
    assert leaderboards.truth_is_consistent(truth) is strong
