"""Rank correlations agree with their definition, and intervals with what they promise.

Distances of curves agree with their definition.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import oracles_soundness
from attributionlab.metrics import ranking

PAIRS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=9)


def naive_spearman(first, second):
    """Pearson's correlation of ranks; equal values share the mean of the places that they take."""

    def ranks(values):
        places = {v: [] for v in values}
        for place, value in enumerate(sorted(values)):
            places[value].append(place)
        return [sum(places[v]) / len(places[v]) for v in values]

    a, b = ranks(first), ranks(second)
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    product = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    squares = sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b)
    return product / math.sqrt(squares) if squares else math.nan


@given(PAIRS)
def test_spearman_is_pearsons_correlation_of_average_ranks(pairs):
    first, second = zip(*pairs, strict=True)
    # A dozen float64 operations on numbers below 100.
    assert ranking.spearman(first, second) == pytest.approx(
        naive_spearman(first, second), abs=1e-13, nan_ok=True
    )


def test_only_the_order_matters_and_infinite_scores_have_a_place():
    assert ranking.spearman([1, 2, 3], [-math.inf, 1e-300, math.inf]) == 1
    assert ranking.spearman([1, 2, 3], [9, 4, 1]) == -1


def test_a_constant_score_or_a_single_item_has_no_correlation():
    for pair in (([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [1, 1, 1]), ([1], [2]), ([], [])):
        assert math.isnan(ranking.spearman(*pair))
        assert all(math.isnan(each) for each in ranking.spearman_interval(*pair))


def test_pairs_with_nan_may_be_left_out():
    first, second = [1, 2, math.nan, 4], [1, math.nan, 9, 0]
    assert ranking.spearman(first, second, missing="omit") == -1
    assert ranking.spearman_interval(first * 9, second * 9, missing="omit").value == -1


def test_the_interval_depends_on_its_seed_alone_and_widens_with_confidence():
    rng = np.random.default_rng(0)
    first = rng.normal(size=40)
    second = first + rng.normal(size=40)
    narrow = ranking.spearman_interval(first, second, confidence=0.5)
    wide = ranking.spearman_interval(first, second, confidence=0.99)
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
    assert ranking.spearman_interval(first, second) == ranking.spearman_interval(first, second)
    assert ranking.spearman_interval(first, second) != ranking.spearman_interval(
        first, second, seed=1
    )


@pytest.mark.long
def test_the_bootstrap_interval_covers_the_true_correlation_about_as_often_as_it_says():
    rng, rho = np.random.default_rng(1), 0.7
    truth = 6 / math.pi * math.asin(rho / 2)  # Spearman's correlation of normal values
    covered = 0
    for trial in range(150):
        x = rng.normal(size=100)
        y = rho * x + math.sqrt(1 - rho**2) * rng.normal(size=100)
        interval = ranking.spearman_interval(x, y, resamples=300, seed=trial)
        covered += interval.low <= truth <= interval.high
    # 95 % of 150 is 142.5 with a standard deviation of 2.7; percentile intervals cover a little less.
    assert 132 <= covered <= 149


def test_with_eight_methods_a_correlation_of_0_65_may_be_minus_0_1_or_0_93():
    _, low, high = ranking.fisher_interval(0.65, 8)
    assert (round(low, 2), round(high, 2)) == (-0.1, 0.93)


@pytest.mark.parametrize(("r", "n", "confidence"), [(0.3, 20, 0.9), (-0.8, 5, 0.95)])
def test_fishers_interval_is_scipys_for_pearson(r, n, confidence):
    # Values with exactly this Pearson correlation.
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    x = (x - x.mean()) / x.std()
    e = rng.normal(size=n)
    e = e - e.mean() - x * (x @ e) / n
    y = r * x + math.sqrt(1 - r**2) * e / e.std()
    expected = stats.pearsonr(x, y).confidence_interval(confidence)
    interval = ranking.fisher_interval(r, n, confidence=confidence)
    assert interval[1:] == pytest.approx(tuple(expected), abs=1e-9)


def test_a_perfect_correlation_has_no_width():
    assert ranking.fisher_interval(-1, 8) == (-1, -1, -1)


def test_rows_are_correlated_one_by_one_and_nan_stays_in_its_row():
    first = np.array([[1.0, 2, 3], [1, 2, 3], [1, 1, 1], [1, np.nan, 3]])
    second = np.array([[1.0, 2, 3], [3, 2, 1], [1, 2, 3], [1, 2, 3]])
    found = ranking.row_correlations(ranking.centered_ranks(first), ranking.centered_ranks(second))
    np.testing.assert_array_equal(found, [1, -1, np.nan, np.nan])


def curves(dimensions):
    point = st.tuples(*[st.integers(-3, 3)] * dimensions)
    return st.lists(point, min_size=1, max_size=6)


@given(st.integers(1, 3).flatmap(lambda d: st.tuples(curves(d), curves(d))))
def test_the_hausdorff_distance_is_that_of_the_point_farthest_from_the_other_curve(pair):
    # Square roots of integers, each rounded once or twice.
    expected = pytest.approx(oracles_soundness.hausdorff(*pair), rel=1e-15)
    assert ranking.hausdorff(*pair) == expected
    assert ranking.hausdorff(*reversed(pair)) == expected


def test_curves_of_the_same_points_have_no_distance_in_whatever_order_they_come():
    curve = [[0, 1], [1, 0.5], [2, 0]]
    assert ranking.hausdorff(curve, curve[::-1] + curve) == 0
    # A part of a curve is near to all of it only if nothing of it is far off.
    assert ranking.hausdorff(curve[:2], curve) == math.hypot(1, 0.5)


def test_distances_of_curves_scale_with_them_and_leave_the_global_generator_alone():
    rng = np.random.default_rng(0)
    first, second = rng.random((20, 2)), rng.random((30, 2))
    before = np.random.get_state()[1].tolist()
    assert ranking.hausdorff(4 * first + 8, 4 * second + 8) == pytest.approx(
        4 * ranking.hausdorff(first, second)
    )
    assert np.random.get_state()[1].tolist() == before
