"""Correlations of resampled items are those of items that are written down several times."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles_ranking
from attributionlab.metrics import ranking

RNG = np.random.default_rng(0)


@st.composite
def drawn_items(draw):
    items = draw(st.integers(2, 7))
    scores = st.lists(st.integers(0, 3), min_size=items, max_size=items)
    times = st.lists(st.integers(0, 3), min_size=items, max_size=items).filter(any)
    return draw(scores), draw(scores), draw(st.lists(times, min_size=1, max_size=3))


@given(drawn_items())
def test_resampled_correlations_are_those_of_repeated_items(case):
    first, second, times = case
    found = ranking.resampled_correlations(
        np.array(first, float), np.array(second, float), np.array(times)
    )
    expected = [oracles_ranking.repeated_correlation(first, second, each) for each in times]
    # One division and one root of exact numbers, each rounded once.
    np.testing.assert_allclose(found, np.array(expected, float), rtol=1e-15, atol=0)


def panel(images=8, families=10, size=6):
    truth = RNG.normal(size=(images, families * size))
    names = [f"damage {place // size}" for place in range(families * size)]
    return truth, names


def test_intervals_hold_the_mean_and_need_two_images():
    truth, names = panel()
    scores = truth + RNG.normal(size=truth.shape)
    resamples = ranking.Resamples(names, 0.95, 0)
    found = resamples.correlations(scores, truth)
    interval = resamples.interval(found)
    assert interval.value == found.each.mean()
    assert interval.low < interval.value < interval.high
    alone = ranking.Correlations(found.each[:1], found.drawn[:, :1])
    assert math.isnan(resamples.interval(alone).low)


def test_a_family_that_decides_alone_makes_the_interval_wide():
    truth, names = panel()
    noise = 0.5 * RNG.normal(size=truth.shape)
    one = truth.copy()
    one[:, :6] *= 20  # a single kind of damage spans most of both rankings, and rightly
    one[:, 6:] = RNG.normal(size=one[:, 6:].shape)
    resamples, fixed = ranking.Resamples(names, 0.95, 0), ranking.Resamples(None, 0.95, 0)

    def width(scores, how):
        low, high = how.interval(how.correlations(scores, truth))[1:]
        return high - low

    assert width(one, resamples) > 1.5 * width(one, fixed)
    assert width(truth + noise, resamples) < width(one, resamples)


def test_an_image_without_a_ranking_is_left_out():
    truth, names = panel()
    scores = truth.copy()
    scores[0], scores[1, 3] = 0.5, math.nan
    resamples = ranking.Resamples(names, 0.95, 0)
    found = resamples.correlations(scores, truth)
    assert np.isnan(found.each).tolist() == [True, True, *[False] * 6]
    assert resamples.interval(found) == pytest.approx((1, 1, 1), abs=1e-12)


def test_as_many_rankings_stay_known_as_are_stated(monkeypatch):
    truth, names = panel(images=3)
    scores = truth + RNG.normal(size=truth.shape)
    expected = ranking.Resamples(names, 0.95, 0).correlations(scores, truth)
    ranked, rank = [], ranking.resampled._resampled_ranks
    monkeypatch.setattr(ranking.resampled, "KEPT", 2)
    monkeypatch.setattr(
        ranking.resampled, "_resampled_ranks", lambda *given: ranked.append(1) or rank(*given)
    )
    resamples = ranking.Resamples(names, 0.95, 0)
    for rankings in (3 + 3, 3 + 1):
        ranked.clear()
        found = resamples.correlations(scores, truth)
        assert np.array_equal(found.drawn, expected.drawn)
        assert len(ranked) == rankings


def test_differences_are_paired():
    truth, names = panel()
    scores = truth + RNG.normal(size=truth.shape)
    for resamples in (ranking.Resamples(names, 0.95, 0), ranking.Resamples(None, 0.95, 0)):
        found = resamples.correlations(scores, truth)
        assert resamples.interval(found.less(found)) == (0, 0, 0)
