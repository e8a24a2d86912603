"""Shuffling within a reference: what stays, what moves, and how far the first pixels get."""

from collections import Counter
from fractions import Fraction
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles_unified as oracles
from attributionlab import AttributionLabError
from attributionlab.metrics import dice, expected_dice, reference_order

ORDERS = torch.tensor([[5, 3, 1, 0, 2, 4], [0, 1, 2, 3, 4, 5]])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("reference", range(7))
def test_the_reference_keeps_its_pixels_and_all_others_keep_their_places(reference):
    before = ORDERS.clone()
    shuffled = reference_order(ORDERS, reference, seeded())
    assert shuffled.dtype == torch.int64
    assert torch.equal(ORDERS, before)
    assert torch.equal(shuffled[:, reference:], ORDERS[:, reference:])
    for row, order in zip(shuffled, ORDERS, strict=True):
        assert sorted(row[:reference].tolist()) == sorted(order[:reference].tolist())
    if reference <= 1:
        assert torch.equal(shuffled, ORDERS)


def test_every_order_of_the_reference_comes_as_often_as_any_other():
    draws = 6000
    orders = torch.arange(5).expand(draws, 5)
    found = Counter(tuple(row[:3].tolist()) for row in reference_order(orders, 3, seeded()))
    assert set(found) == set(permutations(range(3)))
    # 1,000 of each are expected, with a standard deviation of sqrt(6000 * 5 / 36) = 29; 5 of them.
    assert all(abs(count - draws / 6) < 145 for count in found.values())


def test_images_are_shuffled_each_in_its_own_way_and_a_seed_repeats_all():
    orders = torch.arange(64).expand(2, 64)
    first, second = reference_order(orders, 64, seeded())
    assert not torch.equal(first, second)
    assert torch.equal(reference_order(orders, 64, seeded()), torch.stack([first, second]))
    assert not torch.equal(reference_order(orders, 64, seeded(1))[0], first)


def test_the_global_generator_is_not_used():
    state = torch.get_rng_state()
    reference_order(ORDERS, 6, seeded())
    assert torch.equal(torch.get_rng_state(), state)


@given(st.sets(st.integers(0, 8), min_size=1), st.sets(st.integers(0, 8), min_size=1))
def test_dice_is_its_definition(first, second):
    found = dice(torch.tensor(sorted(first)), torch.tensor(sorted(second)))
    assert found == oracles.dice(first, second)
    assert isinstance(found, Fraction)


def test_two_empty_sets_are_the_same():
    empty = torch.zeros(0, dtype=torch.int64)
    assert dice(empty, empty) == 1
    assert dice(empty, torch.tensor([1])) == 0


def test_the_expected_similarity_is_the_mean_over_all_subsets_exactly():
    for reference in range(1, 8):
        for masked in range(1, reference + 1):
            assert expected_dice(masked, reference) == oracles.mean_dice(masked, reference)


def test_shuffled_orders_have_the_expected_similarity_on_average():
    draws, masked, reference = 4000, 3, 8
    orders = torch.arange(10).expand(draws, 10)
    shuffled = reference_order(orders, reference, seeded())
    first = torch.arange(masked)
    mean = sum((dice(first, row[:masked]) for row in shuffled), Fraction(0)) / draws
    # k is hypergeometric: its variance is 3 (3/8)(5/8)(5/7) = 0.50, that of k / 3 0.056; the standard
    # error of the mean of 4,000 is 0.0037. Five of them.
    assert float(mean) == pytest.approx(float(expected_dice(masked, reference)), abs=0.019)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (ORDERS.float(), 1, seeded()),
            r"orders are torch.float32 of shape \(2, 6\): pass a tensor",
        ),
        ((ORDERS[0], 1, seeded()), r"orders are torch.int64 of shape \(6,\)"),
        ((ORDERS[:0], 1, seeded()), r"orders are torch.int64 of shape \(0, 6\)"),
        (([[0, 1]], 1, seeded()), "orders are of type list"),
        ((ORDERS, 7, seeded()), "reference is 7: take an integer from 0 to 6"),
        ((ORDERS, -1, seeded()), "reference is -1: take an integer from 0 to 6"),
        ((ORDERS, 2.0, seeded()), "reference is 2.0"),
        ((ORDERS, 2, 0), "the generator is 0: pass torch.Generator"),
        ((ORDERS, 9, None), "reference is 9.*; the generator is None"),
    ],
)
def test_orders_that_cannot_be_shuffled_are_refused(arguments, message):
    with pytest.raises(AttributionLabError, match=message) as caught:
        reference_order(*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("without_shape_checks")
def test_sets_and_numbers_that_are_none_are_refused():
    good = torch.tensor([0, 1])
    for pixels in ([0, 1], good.float(), good[None], good > 0):
        with pytest.raises(
            AttributionLabError, match=r"the first set of pixels is .*: pass a tensor"
        ):
            dice(pixels, good)
    with pytest.raises(
        AttributionLabError, match="the second set of pixels holds 7 more than once"
    ):
        dice(good, torch.tensor([1, 7, 7]))
    with pytest.raises(AttributionLabError, match="n is 0: take an integer"):
        expected_dice(0, 3)
    with pytest.raises(AttributionLabError, match="reference is 2: take an integer"):
        expected_dice(3, 2)
