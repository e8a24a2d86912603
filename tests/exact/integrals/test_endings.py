"""Integrals of the softmax's derivative along lines of logits."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attributionlab.base.exact.integrals.segments import logit_weights, probability_weights
from oracles import midpoint_rule

POINTS = torch.tensor([0.0, 0.25, 1.0]).double()


def test_a_logit_counts_for_the_width_of_each_panel():
    assert logit_weights(POINTS, torch.zeros(3, 2).double(), 1).tolist() == [[0, 0.25], [0, 0.75]]


@pytest.mark.parametrize("target", [0, 2])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_probabilities_as_brute_force(target, scale):
    ends = torch.tensor([[0.3, -1.0, 0.5], [-0.7, 1.5, 0.0]]).double() * scale
    n = 5_000

    def derivative(s):
        p = (ends[0] + s * (ends[1] - ends[0])).softmax(0)
        return [float(p[target] * (float(target == k) - p[k])) for k in range(3)]

    got = probability_weights(POINTS[[0, 2]], ends, target)[0]
    near = torch.tensor(midpoint_rule(derivative, n), dtype=torch.float64)
    # The midpoint rule is off by |f''| / (24 n^2); each derivative brings a factor of at most the
    # largest difference of rates, 3.5 scale, and small numbers: f'' <= 10 * (3.5 * 30)^2.
    assert (got - near).abs().max() <= 2e-4


@given(
    st.lists(st.lists(st.floats(-50, 50), min_size=3, max_size=3), min_size=2, max_size=2),
    st.sampled_from([1.0, 1e3, 1e6]),
)
def test_weights_times_change_are_the_change_of_the_probability(ends, scale):
    logits = torch.tensor(ends).double() * scale
    weights = probability_weights(POINTS[[0, 2]], logits, 1)
    change = logits.softmax(1)[1, 1] - logits.softmax(1)[0, 1]
    assert weights.sum().abs() <= 1e-15
    # The probabilities at the ends know their logits to 1e-16 of their size.
    size = float(logits.abs().max())
    assert ((weights * logits.diff(dim=0)).sum() - change).abs() <= 1e-14 + 1e-15 * size


def test_a_tie_far_above_a_third_logit_is_not_cut_to_pieces():
    logits = torch.tensor([[0.0, 0.0, -1e9], [1.0, 1.0, -2e9]]).double()
    weights = probability_weights(POINTS[[0, 2]], logits, 0)
    assert weights[0].tolist() == pytest.approx([0.25, -0.25, 0.0], abs=1e-16)


def test_a_logit_far_behind_still_counts():
    # p_1 falls from exp(-6) to nothing, along a path on which logit 0 leads throughout.
    logits = torch.tensor([[0.0, -6.0], [0.0, -66.0]]).double()
    weights = probability_weights(POINTS[[0, 2]], logits, 1)
    expected = (1 / (1 + math.exp(66)) - 1 / (1 + math.exp(6))) / -60
    assert weights[0].tolist() == pytest.approx([-expected, expected], rel=1e-13)


def test_one_class_is_certain():
    assert probability_weights(POINTS, torch.randn(3, 1).double(), 0).tolist() == [[0.0], [0.0]]
