"""Indicators are their definitions, ties are shared, and nonsense is refused in one line."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attributionlab as al
import oracles_soundness as oracles
from attributionlab import AttributionLabError
from attributionlab.metrics import accuracy, label_probability
from attributionlab.metrics.performance import indicator_of, precision_of

ROWS = st.integers(2, 4).flatmap(
    lambda classes: st.tuples(
        st.lists(
            st.lists(st.integers(-2, 2), min_size=classes, max_size=classes), min_size=1, max_size=4
        ),
        st.integers(0, classes - 1),
    )
)


@settings(max_examples=20)
@given(ROWS, st.sampled_from([torch.float16, torch.float32, torch.float64, torch.int64]))
def test_accuracy_is_the_chance_to_be_right_among_the_largest_outputs(case, dtype):
    rows, label = case
    found = accuracy(torch.tensor(rows, dtype=dtype), torch.full((len(rows),), label))
    assert found.dtype == torch.float64
    # One division, rounded as Python's.
    assert found.tolist() == [float(oracles.accuracy(row, label)) for row in rows]


@settings(max_examples=20)
@given(ROWS, st.sampled_from([0.25, 1.0, 256]), st.sampled_from([0.0, -3.0, 1000.0]))
def test_the_labels_probability_is_a_softmax_that_no_shift_changes(case, temperature, shift):
    rows, label = case
    outputs = torch.tensor(rows, dtype=torch.float64) + shift
    found = label_probability(outputs, torch.full((len(rows),), label), temperature=temperature)
    expected = [oracles.label_probability(row, label, temperature) for row in rows]
    # Exponents of at most 16 in magnitude, off by 2^-53 of themselves, and four terms.
    assert found.tolist() == pytest.approx(expected, rel=1e-14)


def test_an_image_without_content_answers_by_chance():
    outputs, targets = torch.zeros(4, 4), torch.arange(4)
    assert accuracy(outputs, targets).tolist() == [0.25] * 4
    assert label_probability(outputs, targets).tolist() == [0.25] * 4


def test_a_temperature_keeps_counts_from_saturating():
    outputs, targets = torch.tensor([[900.0, 300.0], [900.0, 800.0]]), torch.tensor([0, 0])
    assert label_probability(outputs, targets).tolist() == [1.0, 1.0]
    one, other = label_probability(outputs, targets, temperature=300).tolist()
    assert 1 > one > other > 0.5


def test_counts_at_the_environments_temperature_are_its_probabilities():
    env = al.load("multi-color-sum", image_size=16)
    images, labels = env.batch(2)
    with torch.no_grad():
        found = label_probability(env.model(images), labels, temperature=env.temperature)
        expected = env.softmax_model(images)[torch.arange(2), labels]
    # A softmax of float32.
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-6)


def test_impossible_classes_may_have_an_output_of_minus_infinity():
    outputs = torch.tensor([[-math.inf, 0.0, 0.0]])
    assert accuracy(outputs, torch.tensor([1])) == 0.5
    assert label_probability(outputs, torch.tensor([1])) == 0.5
    assert label_probability(outputs, torch.tensor([0])) == 0


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("indicator", [accuracy, label_probability])
@pytest.mark.parametrize(
    ("outputs", "targets", "message"),
    [
        (torch.zeros(2), [0, 0], r"outputs are torch.float32 of shape \(2,\): pass real numbers"),
        ([[0.0]], [0], "outputs are of type list: pass real numbers of shape"),
        (torch.zeros(1, 2) * 1j, [0], "outputs are torch.complex64 of shape"),
        (
            torch.zeros(1, 1),
            [0],
            "shape .1, 1.: this indicator compares classes; pass indicator=, a fun",
        ),
        (
            torch.zeros(2, 2),
            [0],
            r"targets are torch.int64 of shape \(1,\): .* each of the 2 images",
        ),
        (torch.zeros(2, 2), [0.0, 1.0], "targets are torch.float32"),
        (torch.zeros(2, 2), [0, 2], "a target is 2: the model has 2 outputs, pass 0 to 1"),
        (torch.zeros(2, 2), [0, -1], "a target is -1: the model has 2 outputs"),
        (torch.full((1, 2), math.nan), [0], "outputs of an image are NaN: no class is the largest"),
    ],
)
def test_what_is_no_question_about_classes_is_refused(indicator, outputs, targets, message):
    with pytest.raises(AttributionLabError, match=message) as caught:
        indicator(outputs, torch.tensor(targets))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("temperature", [0, -1.0, math.nan, math.inf, "1", True])
def test_a_temperature_that_is_not_above_zero_is_refused(temperature):
    with pytest.raises(AttributionLabError, match=r"temperature is .*: take a number above 0"):
        label_probability(torch.zeros(1, 2), torch.tensor([0]), temperature=temperature)


def test_infinite_outputs_have_no_softmax():
    with pytest.raises(AttributionLabError, match="outputs of an image are infinite: a softmax"):
        label_probability(torch.tensor([[math.inf, 0.0]]), torch.tensor([0]))


@pytest.mark.parametrize("indicator", ["probability", None, np.zeros(2), torch.zeros(2), 0.5])
def test_an_indicator_is_a_name_or_a_function(indicator):
    with pytest.raises(
        AttributionLabError, match=r"indicator is .*: take 'accuracy', or a function"
    ):
        indicator_of(indicator)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (0.5, "the indicator returned of type float for 2 images: return one real number for each"),
        (torch.zeros(2, 1), r"the indicator returned torch.float32 of shape \(2, 1\) for 2 images"),
        (torch.zeros(()), r"of shape \(\) for 2 images"),
        (torch.zeros(2) * 1j, "the indicator returned torch.complex64"),
        (torch.tensor([0.0, math.nan]), "NaN or infinite: return finite ones"),
        (torch.tensor([0.0, math.inf]), "NaN or infinite: return finite ones"),
    ],
)
def test_an_indicator_that_returns_nonsense_is_refused(returned, message):
    with pytest.raises(AttributionLabError, match=message):
        indicator_of(lambda outputs, targets: returned)(torch.zeros(2, 2), torch.tensor([0, 1]))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float16])
def test_an_indicator_may_return_numbers_of_any_real_type(dtype):
    found = indicator_of(lambda outputs, targets: torch.tensor([1, 0], dtype=dtype))(
        torch.zeros(2, 2), torch.tensor([0, 1])
    )
    assert found.dtype == dtype
    assert found.tolist() == [1, 0]


@pytest.mark.parametrize("temperature", [1e-310, Fraction(1, 10**9)])
def test_at_a_temperature_near_zero_the_largest_output_gets_all(temperature):
    outputs = torch.tensor([[1.0, 0.0], [2.0, 2.0]])
    found = label_probability(outputs, torch.tensor([0, 0]), temperature=temperature)
    assert found.tolist() == [1, 0.5]


@pytest.mark.parametrize(
    ("dtype", "least", "most"),
    [
        (torch.float64, 1e-12, 1e-12),
        (torch.int64, 1e-12, 1e-12),
        (torch.bool, 1e-12, 1e-12),
        (torch.float32, 2.0**-22, 2.0**-20),
        (torch.float16, 2.0**-9, 2.0**-7),
    ],
)
def test_numbers_of_a_type_may_be_off_by_a_few_of_its_steps(dtype, least, most):
    assert least <= precision_of(dtype) <= most


def test_the_twin_shares_a_tie():
    assert oracles.accuracy([2, 2, 1], 0) == Fraction(1, 2)
