"""The number checker I_N and the comparison I_{>i}."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attributionlab.nets import evaluate, greater_than, number_checker, to_convolutions, to_linears
from cases import NUMBERS
from oracles import is_greater, is_number

ALL_VALUES = list(range(256))


def column(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)[:, None]


def test_each_number_checker_answers_1_for_its_number_and_0_for_all_other_255():
    answers = evaluate(number_checker(ALL_VALUES), column(ALL_VALUES))[-1]
    assert answers.tolist() == [[is_number(x, n) for n in ALL_VALUES] for x in ALL_VALUES]


@pytest.mark.parametrize("numbers", NUMBERS)
def test_convolutions_in_float32_give_the_same_answers(numbers):
    image = torch.arange(256.0).reshape(1, 1, 16, 16)
    answers = nn.Sequential(*to_convolutions(number_checker(numbers)))(image)
    expected = [[is_number(x, n) for x in ALL_VALUES] for n in numbers]
    assert answers.flatten(2)[0].tolist() == expected


@given(st.integers(-(2**20), 2**20), st.integers(-3, 3))
def test_numbers_may_be_negative_or_large(number, distance):
    x = number + distance
    answer = nn.Sequential(*to_linears(number_checker([number])))(column([x]))
    assert answer.tolist() == [[is_number(x, number)]]


def test_between_integers_the_number_checker_is_a_hat():
    # I_{>i}(x) is x - i cut off at 0 and 1; the difference of two, one apart, is 1 - |x - N|.
    quarters = torch.arange(0, 10, 0.25)
    answers = evaluate(number_checker([5]), quarters[:, None])[-1]
    assert answers[:, 0].tolist() == [max(0.0, 1 - abs(x - 5)) for x in quarters.tolist()]


def test_a_number_takes_three_thresholds_two_comparisons_and_one_answer():
    shapes = [tuple(stage.weight.shape) for stage in number_checker([3, 9])]
    assert shapes == [(6, 1), (4, 6), (2, 4)]


def test_comparisons_are_right_for_all_values_and_thresholds():
    thresholds = [-300, -1, 0, 1, 100, 254, 255, 256, 100_000]
    answers = evaluate(greater_than(thresholds), column(ALL_VALUES))[-1]
    assert answers.tolist() == [[is_greater(x, i) for i in thresholds] for x in ALL_VALUES]


@given(st.integers(-(2**20), 2**20), st.integers(-3, 3))
def test_comparisons_are_right_around_any_threshold(threshold, distance):
    x = threshold + distance
    answer = nn.Sequential(*to_linears(greater_than([threshold])))(column([x]))
    assert answer.tolist() == [[is_greater(x, threshold)]]


def test_the_checker_is_the_difference_of_two_comparisons():
    x = column(ALL_VALUES)
    compared = evaluate(greater_than([41, 42]), x)[-1]
    checked = evaluate(number_checker([42]), x)
    assert torch.equal(checked[1], compared)
    assert torch.equal(checked[2][:, 0], torch.relu(compared[:, 0] - compared[:, 1]))
