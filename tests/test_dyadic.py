"""Grid steps: how finely numbers are spaced, and how many steps floating point counts."""

import math
from fractions import Fraction

import torch
from hypothesis import given
from hypothesis import strategies as st

from attributionlab.base import EXACT_STEPS, grid_step
from attributionlab.base.dyadic import exact_steps


def naive_grid_step(value: float) -> Fraction:
    """Largest power of two of which the value is an integer multiple."""
    numerator, denominator = Fraction(abs(value)).as_integer_ratio()  # the denominator is 2^k
    power = Fraction(1, denominator)
    while numerator % 2 == 0:
        numerator //= 2
        power *= 2
    return power


@given(st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool))
def test_the_grid_step_is_the_largest_power_of_two_that_divides_the_value(value):
    assert Fraction(float(grid_step(torch.tensor(value)))) == naive_grid_step(value)


@given(st.integers(-(2**53) + 1, 2**53 - 1).filter(bool), st.integers(-60, 60))
def test_the_grid_step_is_right_for_every_float64_that_arithmetic_meets(integer, exponent):
    value = math.ldexp(integer, exponent)
    step = grid_step(torch.tensor(value, dtype=torch.float64))
    assert Fraction(float(step)) == naive_grid_step(value)


def test_zero_lies_on_every_grid():
    assert grid_step(torch.tensor([0.0, -0.0])).tolist() == [math.inf, math.inf]


def test_grid_steps_keep_the_shape():
    assert grid_step(torch.tensor([[6.0, 0.75], [-1.0, 96.0]])).tolist() == [[2, 0.25], [1, 32]]


def test_float32_counts_to_2_to_the_24_and_no_further():
    edge = torch.tensor(float(EXACT_STEPS))
    assert float(edge - 1) == EXACT_STEPS - 1
    assert float(edge + 1) == EXACT_STEPS


def test_every_type_counts_as_far_as_its_significand_reaches():
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        edge = torch.tensor(float(exact_steps(dtype)), dtype=torch.float64)
        assert edge.to(dtype) == edge
        assert (edge - 1).to(dtype) == edge - 1
        assert (edge + 1).to(dtype) != edge + 1
