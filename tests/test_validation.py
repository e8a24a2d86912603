"""Settings are refused in one sentence each, whatever was passed in their place."""

import math
from typing import Any

import numpy as np
import pytest

from attributionlab.validation import boolean_problem, integer_problem, number_problem

NO_NUMBERS: list[Any] = [True, False, np.True_, "3", None, [3], math.nan, math.inf, -math.inf, 1j]


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(1), 10**400])
def test_integers_in_range_are_fine(value: Any) -> None:
    assert integer_problem("steps", value, 1) == []


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0, -1, 2.0, 10.5, np.float64(2), np.int64(0)])
def test_anything_but_an_integer_in_range_is_named_with_its_remedy(value: Any) -> None:
    assert integer_problem("steps", value, 1) == [
        f"steps is {value!r}: take an integer of at least 1"
    ]


def test_the_upper_end_of_integers_is_included() -> None:
    assert integer_problem("cells", 8, 1, 8) == []
    assert integer_problem("cells", 9, 1, 8) == ["cells is 9: take an integer from 1 to 8"]


@pytest.mark.parametrize("value", [0, 0.5, 1, np.float32(0.25), np.int16(1)])
def test_numbers_in_range_are_fine(value: Any) -> None:
    assert number_problem("ratio", value, least=0, most=1) == []


@pytest.mark.parametrize("value", [*NO_NUMBERS, -0.1, 1.5, np.float32(2)])
def test_anything_but_a_number_in_range_is_named_with_its_remedy(value: Any) -> None:
    assert number_problem("ratio", value, least=0, most=1) == [
        f"ratio is {value!r}: take a number of at least 0 and of at most 1"
    ]


@pytest.mark.parametrize("value", [-5, 0.0, 10**400])
def test_any_finite_number_is_fine_without_limits(value: Any) -> None:
    assert number_problem("shift", value) == []


def test_infinity_is_refused_without_limits() -> None:
    assert number_problem("shift", math.inf) == ["shift is inf: take a finite number"]


def test_the_end_that_a_number_must_exceed_is_left_out() -> None:
    assert number_problem("width", 1e-300, above=0) == []
    assert number_problem("width", 0.0, above=0) == ["width is 0.0: take a number above 0"]


@pytest.mark.parametrize("value", [True, False, np.True_])
def test_truth_values_are_fine(value: Any) -> None:
    assert boolean_problem("relu", value) == []


@pytest.mark.parametrize("value", ["false", 0, 1, None, [], np.int64(1)])
def test_what_is_only_truthy_or_falsy_is_refused(value: Any) -> None:
    assert boolean_problem("relu", value) == [f"relu is {value!r}: take True or False"]
