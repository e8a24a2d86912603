"""Distances of curves agree with their definition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles_soundness
from attributionlab.metrics.ranking import hausdorff


def curves(dimensions):
    point = st.tuples(*[st.integers(-3, 3)] * dimensions)
    return st.lists(point, min_size=1, max_size=6)


@given(st.integers(1, 3).flatmap(lambda d: st.tuples(curves(d), curves(d))))
def test_the_hausdorff_distance_is_that_of_the_point_farthest_from_the_other_curve(pair):
    # Square roots of integers, each rounded once or twice.
    expected = pytest.approx(oracles_soundness.hausdorff(*pair), rel=1e-15)
    assert hausdorff(*pair) == expected
    assert hausdorff(*reversed(pair)) == expected


def test_curves_of_the_same_points_have_no_distance_in_whatever_order_they_come():
    curve = [[0, 1], [1, 0.5], [2, 0]]
    assert hausdorff(curve, curve[::-1] + curve) == 0
    # A part of a curve is near to all of it only if nothing of it is far off.
    assert hausdorff(curve[:2], curve) == math.hypot(1, 0.5)


def test_distances_of_curves_scale_with_them_and_leave_the_global_generator_alone():
    rng = np.random.default_rng(0)
    first, second = rng.random((20, 2)), rng.random((30, 2))
    before = np.random.get_state()[1].tolist()
    assert hausdorff(4 * first + 8, 4 * second + 8) == pytest.approx(4 * hausdorff(first, second))
    assert np.random.get_state()[1].tolist() == before
