"""Resamples of cases at once, against one after the other by the definition."""

import math

import numpy as np
import pytest

import oracles_leaderboard as oracle
import oracles_ranking
from attributionlab.leaderboard.resampling import (
    Draws,
    draws_of,
    fused_draws,
    mean_scores,
    single_cases,
)

# A few hundred additions and a solution of 5 equations in float64: far below 1e-12 of numbers up to 10.
ROUNDING = 1e-11


@pytest.fixture(params=[0.0, 0.25], ids=["complete", "with missing methods"])
def ranks(request):
    drawing = np.random.default_rng(3)
    values = drawing.integers(1, 5, size=(5, 8)).astype(float)
    values[drawing.random(values.shape) < request.param] = np.nan
    values[:, 0] = [1, 2, 3, 4, 5]
    return values


def drawn(ranks, draws):
    """Each resample's cases, written out."""
    for times in draws.cases:
        yield ranks[:, np.repeat(np.arange(ranks.shape[1]), times)]


def test_every_resample_is_fused_by_least_squares_over_its_pairs(ranks):
    draws = draws_of(np.arange(8), np.arange(5), 40, seed=0)
    found = fused_draws(ranks, draws)
    fused = 0
    for row, cases in zip(found, drawn(ranks, draws), strict=True):
        if np.isnan(row).any():
            assert np.isnan(row).all()
            continue
        expected, _ = oracles_ranking.meta_rank(cases.tolist())
        assert row == pytest.approx(expected, abs=ROUNDING)
        fused += 1
    assert fused > 30


def test_a_resample_without_a_method_or_a_link_has_no_scores():
    ranks = np.array([[1, np.nan, 1], [2, np.nan, 2], [np.nan, 1, 3], [np.nan, 2, 4]])
    cases = np.array([[1, 1, 0], [2, 0, 0], [1, 1, 1]])
    found = fused_draws(ranks, Draws(cases, np.zeros((3, 4), dtype=np.int64)))
    assert np.isnan(found).any(1).tolist() == [True, True, False]


def test_chains_of_common_cases_connect_methods():
    ranks = np.full((6, 5), np.nan)
    for case in range(5):  # each case ranks two neighbors
        ranks[[case, case + 1], case] = 1, 2
    found = fused_draws(ranks, Draws(np.ones((1, 5), dtype=np.int64), np.arange(6)[None]))
    steps = np.diff(found[0])
    assert steps == pytest.approx([-math.log(3)] * 5, abs=ROUNDING)  # P = (1 + 1/2) / 2


def test_pairs_are_drawn_whole_and_as_many_as_there_are():
    pairs = np.array([0, 0, 1, 1, 1, 2])
    draws = draws_of(pairs, np.array([4, 7]), 200, seed=1)
    assert (draws.cases[:, 0] == draws.cases[:, 1]).all()
    assert (draws.cases[:, 2] == draws.cases[:, 4]).all()
    assert (draws.cases[:, [0, 2, 5]].sum(1) == 3).all()
    assert set(draws.methods.flatten().tolist()) == {4, 7}
    assert draws.methods.shape == (200, 2)
    again = draws_of(pairs, np.array([4, 7]), 200, seed=1)
    assert (again.cases == draws.cases).all()
    assert (draws_of(pairs, np.array([4, 7]), 200, seed=2).cases != draws.cases).any()


def test_means_are_of_the_drawn_cases_that_have_a_value():
    values = np.array([[1.0, 2.0, np.nan], [np.nan, np.nan, 5.0]])
    found = mean_scores(values, Draws(np.array([[1, 3, 1], [2, 0, 0]]), np.zeros((2, 2), int)))
    assert found[0].tolist() == [7 / 4, 5.0]
    assert found[1, 0] == 1.0
    assert np.isnan(found[1, 1])


def test_single_cases_are_correlated_one_by_one(ranks):
    draws = draws_of(np.arange(8), np.arange(5), 20, seed=0)
    targets = np.random.default_rng(1).random((20, 5))
    found = single_cases(ranks, targets, draws)
    for value, cases, target in zip(found, drawn(ranks, draws), targets, strict=True):
        written = [[None if math.isnan(each) else each for each in case] for case in cases.T]
        expected = oracle.single_cases(written, target.tolist())
        assert value == pytest.approx(expected, abs=ROUNDING)
