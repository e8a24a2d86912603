"""Scores of images are averaged where they apply, and told apart from what is none."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attributionlab import AttributionLabError
from attributionlab.stats.intervals import (
    applicable,
    checked_scores,
    mean_score,
    of_the_same_images,
)


@given(st.lists(st.one_of(st.floats(0, 1), st.just(math.nan)), max_size=20))
def test_a_mean_is_that_of_the_applicable_images(values):
    there = [value for value in values if not math.isnan(value)]
    array = np.array(values, dtype=float)
    assert applicable(array) == len(there)
    if there:
        # Sums of 20 numbers of at most 1, a rounding of at most 20 x 2^-53 each.
        assert mean_score(array) == pytest.approx(math.fsum(there) / len(there), abs=20 * 2.0**-52)
    else:
        assert math.isnan(mean_score(array))


@given(st.floats(0, 1), st.integers(1, 50))
def test_the_mean_of_equal_scores_is_their_score(value, n):
    assert mean_score(np.full(n, value)) == value


def test_numbers_of_any_real_type_are_scores():
    for values in ([0, 1], (0.0, 1.0), np.array([False, True]), np.array([0, 1], dtype=np.float32)):
        scores = checked_scores(values, "values")
        assert scores.dtype == np.float64
        assert scores.tolist() == [0, 1]


def test_all_lengths_are_told_where_they_differ():
    with pytest.raises(AttributionLabError, match=r"numbers of images differ \(a 1, b 2, c 1\)"):
        of_the_same_images({"a": [1], "b": [1, 2], "c": [3]})
