"""Exact Shapley values against enumerated coalitions, efficiency, symmetry, extremes, refusals."""

import math
import re
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attributionlab as al
import oracles
from attributionlab.truth import softmax_shapley, symmetric_shapley

SMALL_COUNTS = st.lists(st.integers(0, 5), min_size=1, max_size=5)
TEMPERATURES = st.floats(-6, 12).map(lambda exponent: 2.0**exponent)
FEW_COUNTS = st.lists(st.integers(0, 5), min_size=1, max_size=4)
# The integrals leave out less than e^-40 = 4e-18 and err by some 7e-18 a step; what remains is the
# rounding of sums of a few thousand terms.
ROUNDING = 1e-12


def probability(counts, target, temperature):
    return oracles.softmax(counts, target, temperature)


def gain(counts, target, temperature):
    return probability(counts, target, temperature) - 1 / len(counts)


def assert_equal(counts, target, temperature, expected):
    values, error = softmax_shapley(torch.tensor(counts), target, temperature)
    assert values.dtype == torch.float64
    assert values.shape == (len(counts),)
    # In units of the output, all pixels of a class together. The twin's own differences of numbers in
    # [0, 1] are rounded to 2^-53 or two, for each of at most 150 pixels: 7e-14.
    for n, value, right in zip(counts, values.tolist(), expected, strict=True):
        assert n * abs(value - right) <= ROUNDING
    assert 0 <= error <= 10 * ROUNDING


# By hand


def test_two_pixels_of_two_colors_by_hand():
    # In half of all orders the target's pixel comes first (sigmoid(1/T) - 1/2), in half it comes second
    # (1/2 - sigmoid(-1/T)), which is the same.
    values, _ = softmax_shapley(torch.tensor([1, 1]), 0, 0.5)
    first = 1 / (1 + math.exp(-2)) - 0.5
    assert values.tolist() == pytest.approx([first, -first], abs=ROUNDING)


def test_a_single_class_has_probability_1_whatever_its_count():
    values, error = softmax_shapley(torch.tensor([7]), 0, 1.0)
    assert values.tolist() == [0.0]
    assert error == 0


def test_classes_without_pixels_have_no_player_and_still_take_their_share():
    values, _ = softmax_shapley(torch.tensor([2, 0, 0, 0]), 0, 1.0)
    assert values[1:].tolist() == [0.0, 0.0, 0.0]
    expected = (math.exp(2) / (math.exp(2) + 3) - 1 / 4) / 2
    assert float(values[0]) == pytest.approx(expected, abs=ROUNDING)


def test_an_image_without_counted_pixels_has_no_players():
    values, error = softmax_shapley(torch.zeros(3, dtype=torch.int64), 1, 1.0)
    assert values.tolist() == [0.0] * 3
    assert error <= ROUNDING


@pytest.mark.parametrize(("count", "modulus"), [(65, 30), (60, 30), (7, 30), (0, 30)])
def test_interchangeable_players_share_what_all_of_them_gain(count, modulus):
    value = symmetric_shapley(0, count % modulus, count)
    assert value * count == pytest.approx(oracles.remainder(count, modulus))


@pytest.mark.parametrize("count", [1, 4, 7])
def test_the_symmetric_value_of_a_sawtooth_is_that_of_all_coalitions(count):
    expected = oracles.shapley(lambda coalition: oracles.remainder(len(coalition), 3), count)
    assert [symmetric_shapley(0, count % 3, count)] * count == pytest.approx(expected)


# Against all coalitions


@settings(max_examples=60)
@given(SMALL_COUNTS.filter(lambda counts: sum(counts) <= 8), st.data(), TEMPERATURES)
def test_the_values_are_those_of_all_coalitions(counts, data, temperature):
    target = data.draw(st.integers(0, len(counts) - 1))
    kinds = [kind for kind, n in enumerate(counts) for _ in range(n)]

    def game(coalition):
        present = [sum(kinds[p] == kind for p in coalition) for kind in range(len(counts))]
        return probability(present, target, temperature)

    of_players = oracles.shapley(game, len(kinds))
    expected = [
        of_players[kinds.index(kind)] if kind in kinds else 0 for kind in range(len(counts))
    ]
    assert_equal(counts, target, temperature, expected)


def test_eleven_players_are_those_of_all_coalitions():
    kinds = [0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    game = lambda coalition: probability(  # noqa: E731 - the game in one line
        [sum(kinds[p] == kind for p in coalition) for kind in range(3)], 1, 1.5
    )
    expected = oracles.shapley(game, 11)
    assert_equal([5, 4, 2], 1, 1.5, [expected[0], expected[5], expected[9]])


@settings(max_examples=30)
@given(FEW_COUNTS, st.data(), TEMPERATURES)
def test_counting_equal_coalitions_gives_the_same(counts, data, temperature):
    target = data.draw(st.integers(0, len(counts) - 1))
    game = partial(probability, target=target, temperature=temperature)
    assert_equal(counts, target, temperature, oracles.shapley_of_kinds(game, counts))


# Wide binomials, with a standard deviation of 6: beside kernels within one count (1/50), of some
# counts, on every second count (9) and wider than the binomial (21 and up).
@pytest.mark.parametrize(("counts", "target"), [([150, 140], 0), ([150, 3], 1), ([30, 25, 8], 2)])
@pytest.mark.parametrize("temperature", [1 / 50, 0.3, 2.0, 9.0, 21.0, 500.0])
def test_hundreds_of_pixels_are_those_of_all_kinds_of_coalitions(counts, target, temperature):
    game = partial(probability, target=target, temperature=temperature)
    assert_equal(counts, target, temperature, oracles.shapley_of_kinds(game, counts))


# Full size: properties, because nothing can be enumerated

FULL_SIZE = [
    [2469, 2300, 1500, 900],
    [12544, 12544, 12544, 12544],
    [50176, 0],
    [25088, 25087, 1],
    [100_000, 99_000, 10, 0],
]


@pytest.mark.parametrize("counts", FULL_SIZE)
@pytest.mark.parametrize("temperature", [2.0**-20, 1.0, 10.0, 300.0, 2.0**30])
def test_all_pixels_together_gain_what_the_image_gains(counts, temperature):
    for target in {0, len(counts) - 1}:
        values, error = softmax_shapley(torch.tensor(counts), target, temperature)
        total = float((torch.tensor(counts) * values).sum())
        missed = abs(total - gain(counts, target, temperature))
        assert missed <= 1e-11
        assert missed <= error + 2.0**-50  # both sides are rounded
        assert error <= 1e-11


@pytest.mark.parametrize("temperature", [2.0**-20, 1.0, 300.0])
def test_the_values_have_the_signs_of_the_mask_and_sum_to_zero_over_outputs(temperature):
    counts = torch.tensor([2469, 2300, 1500, 900])
    values = torch.stack([softmax_shapley(counts, t, temperature).values for t in range(4)])
    assert bool((values.diagonal() > 0).all())
    assert bool((values - torch.diag(values.diagonal()) <= 0).all())
    # The probabilities sum to 1 whatever the coalition: n_c pixels together change nothing.
    assert float((counts * values.sum(0)).abs().max()) <= 4e-11


@pytest.mark.parametrize("temperature", [0.1, 1.0, 256.0])
def test_equal_counts_share_equally_and_order_does_not_matter(temperature):
    counts = torch.tensor([700, 900, 700, 800])
    values, _ = softmax_shapley(counts, 1, temperature)
    assert float(values[0]) == float(values[2])
    order = [3, 1, 0, 2]
    permuted, _ = softmax_shapley(counts[order], 1, temperature)
    assert (permuted - values[order]).abs().max() <= 1e-16


def test_at_a_high_temperature_the_game_is_nearly_linear():
    # p_t = 1/K + (k_t - mean k) / (K T) + O(1 / T^2)
    values, error = softmax_shapley(torch.tensor([5000, 3000, 1000]), 0, 2.0**30)
    linear = torch.tensor([2, -1, -1]).double() / 9 / 2.0**30
    assert ((values - linear).abs() <= 1e-4 * linear.abs()).all()
    assert error <= 1e-11 * 5000 * float(linear[0])  # tiny values are as right as large ones


def test_at_a_low_temperature_the_largest_counts_share_the_probability():
    def winner(counts):
        return (counts[0] == max(counts)) / sum(count == max(counts) for count in counts)

    expected = oracles.shapley_of_kinds(winner, [9, 8, 8])
    assert_equal([9, 8, 8], 0, 2.0**-20, expected)


# Refusals


@pytest.mark.parametrize(
    ("counts", "target", "temperature", "message"),
    [
        ([3, -1], 0, 1.0, "a count is -1: none is below 0"),
        ([3, 1], 2, 1.0, "target is 2: take 0 to 1"),
        ([3, 1], -1, 1.0, "target is -1: take 0 to 1"),
        ([3, 1], 0, 0.0, "temperature is 0.0: take a positive, finite one"),
        ([3, 1], 0, math.inf, "temperature is inf: take a positive, finite one"),
        ([3, 1], 0, math.nan, "temperature is nan: take a positive, finite one"),
        ([-3, 1], 5, -1.0, "a count is -3: none is below 0; target is 5"),
    ],
)
def test_games_that_do_not_exist_are_refused(counts, target, temperature, message):
    with pytest.raises(al.AttributionLabError, match=re.escape(message)):
        softmax_shapley(torch.tensor(counts), target, temperature)
