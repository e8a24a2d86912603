"""Exact Shapley values against enumerated coalitions, efficiency, symmetry, extremes, refusals."""

import math
import random
from decimal import Decimal
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import oracles_truth
from attributionlab.worlds.truth import enumerated_shapley, softmax_shapley, symmetric_shapley
from attributionlab.worlds.truth.arrivals import ClassCount, times
from attributionlab.worlds.truth.shapley import remainder_shapley


def number_of(coalitions):
    """Each row as the number whose bit i is player i."""
    return (coalitions * 2 ** torch.arange(coalitions.shape[1])).sum(1)


@pytest.mark.parametrize("players", range(7))
def test_the_values_are_means_over_all_orders(players):
    chance = random.Random(players)
    worths = [chance.uniform(-1, 1) for _ in range(2**players)]

    def game(coalition):
        return worths[sum(1 << player for player in coalition)]

    values = enumerated_shapley(
        lambda s: torch.tensor(worths, dtype=torch.float64)[number_of(s)], players
    )
    assert values.dtype == torch.float64
    expected = oracles_truth.shapley_over_all_orders(game, players)
    # Sums of at most 32 differences of at most 2 with weights of sum 1
    assert values.tolist() == pytest.approx(expected, abs=2.0**-48)


def test_every_coalition_is_asked_for_once_in_blocks():
    seen = []

    def value(coalitions):
        seen.append(number_of(coalitions))
        return coalitions.double() @ torch.arange(17).double()

    values = enumerated_shapley(value, 17)
    assert [len(block) for block in seen] == [2**16, 2**16]
    assert torch.cat(seen).tolist() == list(range(2**17))
    # An additive game: everybody has what he brings, up to the rounding of sums up to 136.
    assert values.tolist() == pytest.approx(range(17), abs=1e-12)


SMALL_COUNTS = st.lists(st.integers(0, 5), min_size=1, max_size=5)
TEMPERATURES = st.floats(-6, 12).map(lambda exponent: 2.0**exponent)
FEW_COUNTS = st.lists(st.integers(0, 5), min_size=1, max_size=4)
# The twins' own rounding included; see `test_the_error_is_bounded` for what is reported.
ROUNDING = 1e-12


def probability(counts, target, temperature):
    return oracles.softmax(counts, target, temperature)


def gain(counts, target, temperature):
    return probability(counts, target, temperature) - 1 / len(counts)


def assert_equal(counts, target, temperature, expected):
    values, error, *_ = softmax_shapley(torch.tensor(counts), target, temperature)
    assert values.dtype == torch.float64
    assert values.shape == (len(counts),)
    # In units of the output, all pixels of a class together. The twin's own differences of numbers in
    # [0, 1] are rounded to 2^-53 or two, for each of at most 150 pixels: 7e-14.
    for n, value, right in zip(counts, values.tolist(), expected, strict=True):
        assert n * abs(value - right) <= ROUNDING
    assert 0 <= error <= 50 * ROUNDING


# By hand


def test_two_pixels_of_two_colors_by_hand():
    # In half of all orders the target's pixel comes first (sigmoid(1/T) - 1/2), in half it comes second
    # (1/2 - sigmoid(-1/T)), which is the same.
    values = softmax_shapley(torch.tensor([1, 1]), 0, 0.5).values
    first = 1 / (1 + math.exp(-2)) - 0.5
    assert values.tolist() == pytest.approx([first, -first], abs=ROUNDING)


@pytest.mark.parametrize("count", [1, 4, 7])
def test_the_symmetric_value_of_a_sawtooth_is_that_of_all_coalitions(count):
    expected = oracles.shapley(lambda coalition: oracles.remainder(len(coalition), 3), count)
    assert [symmetric_shapley(0, count % 3, count)] * count == pytest.approx(expected)


# Against all coalitions


@settings(max_examples=25)
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


@settings(max_examples=15)
@given(FEW_COUNTS, st.data(), TEMPERATURES)
def test_counting_equal_coalitions_gives_the_same(counts, data, temperature):
    target = data.draw(st.integers(0, len(counts) - 1))
    game = partial(probability, target=target, temperature=temperature)
    assert_equal(counts, target, temperature, oracles.shapley_of_kinds(game, counts))


# Wide binomials, with a standard deviation of 6: beside kernels within one count (1/50), of some
# counts, on every second count (9) and wider than the binomial (21).
@pytest.mark.parametrize(("counts", "target"), [([150, 100], 0), ([150, 3], 1), ([20, 15, 8], 2)])
@pytest.mark.parametrize("temperature", [1 / 50, 0.3, 9.0, 21.0])
def test_hundreds_of_pixels_are_those_of_all_kinds_of_coalitions(counts, target, temperature):
    game = partial(probability, target=target, temperature=temperature)
    assert_equal(counts, target, temperature, oracles.shapley_of_kinds(game, counts))


# Full size: properties, because nothing can be enumerated

FULL_SIZE = [[2469, 2300, 1500, 900], [25088, 25087, 1]]


@pytest.mark.long
@pytest.mark.parametrize("counts", FULL_SIZE)
@pytest.mark.parametrize("temperature", [1.0, 300.0])
def test_all_pixels_together_gain_what_the_image_gains(counts, temperature):
    values, error, *_ = softmax_shapley(torch.tensor(counts), 0, temperature)
    missed = abs(float((torch.tensor(counts) * values).sum()) - gain(counts, 0, temperature))
    assert missed <= 1e-11
    assert missed <= error + 2.0**-50  # both sides are rounded
    assert error <= 1e-9


@pytest.mark.parametrize("temperature", [2.0**-20, 1.0, 300.0])
def test_the_values_have_the_signs_of_the_mask_and_sum_to_zero_over_outputs(temperature):
    counts = torch.tensor([46, 30, 20, 9])
    values = torch.stack([softmax_shapley(counts, t, temperature).values for t in range(4)])
    assert bool((values.diagonal() > 0).all())
    assert bool((values - torch.diag(values.diagonal()) <= 0).all())
    # The probabilities sum to 1 whatever the coalition: n_c pixels together change nothing.
    assert float((counts * values.sum(0)).abs().max()) <= 4e-11


@pytest.mark.parametrize("temperature", [0.1, 1.0, 256.0])
def test_equal_counts_share_equally_and_order_does_not_matter(temperature):
    counts = torch.tensor([70, 90, 70, 80])
    values = softmax_shapley(counts, 1, temperature).values
    assert float(values[0]) == float(values[2])
    order = [3, 1, 0, 2]
    permuted = softmax_shapley(counts[order], 1, temperature).values
    assert (permuted - values[order]).abs().max() <= 1e-16


def test_at_a_high_temperature_the_game_is_nearly_linear():
    # p_t = 1/K + (k_t - mean k) / (K T) + O(1 / T^2)
    values, error, *_ = softmax_shapley(torch.tensor([500, 300, 100]), 0, 2.0**30)
    linear = torch.tensor([2, -1, -1]).double() / 9 / 2.0**30
    assert ((values - linear).abs() <= 1e-4 * linear.abs()).all()
    assert error <= 1e-11 * 500 * float(linear[0])  # tiny values are as right as large ones


def test_at_a_low_temperature_the_largest_counts_share_the_probability():
    def winner(counts):
        return (counts[0] == max(counts)) / sum(count == max(counts) for count in counts)

    expected = oracles.shapley_of_kinds(winner, [9, 8, 8])
    assert_equal([9, 8, 8], 0, 2.0**-20, expected)


# Pixels that leave, pixels that stay, and the bound of the error


def random_softmax(case):
    """Pixels of each class, a target and a temperature: the case's number is the seed."""
    chance = random.Random(case)
    classes = chance.randint(2, 4)
    of_classes = [[chance.choice([0, 1, 2]) for _ in range(3)] for _ in range(classes)]
    if case % 3 == 0:  # the plain game
        of_classes = [[arriving + 1, 0, 0] for arriving, *_ in of_classes]
    if case % 10 == 1:
        of_classes[0][2] = 40
    return of_classes, chance.randrange(classes), 2.0 ** chance.uniform(-6, 12)


def solved(of_classes, target, temperature):
    arriving, leaving, constant = torch.tensor(of_classes).T
    return softmax_shapley(arriving, target, temperature, leaving=leaving, constant=constant)


def by_moves(of_classes, target, temperature):
    """For each class the values of a pixel that arrives and one that leaves, in 40 digits."""
    moves = [
        move
        for c, (arriving, leaving, constant) in enumerate(of_classes)
        for move in ((c, -1, arriving), (-1, c, leaving), (c, c, constant))
        if move[2] and move[0] != move[1]
    ]

    def game(counts):
        there = [n + constant for n, (*_, constant) in zip(counts, of_classes, strict=True)]
        return oracles_truth.said(there, target, temperature, None)

    values = oracles_truth.shapley_of_moves(game, moves, len(of_classes))
    return dict(zip([move[:2] for move in moves], values, strict=True))


def actual_and_bounds(of_classes, target, temperature):
    result = solved(of_classes, target, temperature)
    total = 0.0
    for (present, absent), exact in by_moves(of_classes, target, temperature).items():
        value = result.values[present] if absent == -1 else result.leaving[absent]
        number = of_classes[present][0] if absent == -1 else of_classes[absent][1]
        wrong = float(abs(Decimal(float(value)) - exact))
        assert wrong <= result.relative * abs(float(value)) + result.absolute
        total += number * wrong
    return total, result.error


@pytest.mark.long
@pytest.mark.parametrize(
    "block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in (1, 2, 3))]
)
def test_the_error_is_bounded(block):
    # 75 random games, 300 in the slow suite: no exception, and no bound that says nothing.
    for case in range(75 * block, 75 * block + 75):
        actual, bound = actual_and_bounds(*random_softmax(case))
        assert actual <= bound <= 2e-12


@pytest.mark.parametrize("temperature", [1 / 50, 0.4, 6.0, 9.0, 17.0, 60.0])
@pytest.mark.parametrize(
    "of_classes", [[[30, 0, 0], [28, 0, 0]], [[24, 0, 1], [5, 20, 0]], [[3, 0, 9], [60, 0, 0]]]
)
def test_the_error_of_wide_counts_is_bounded(of_classes, temperature):
    actual, bound = actual_and_bounds(of_classes, 0, temperature)
    assert actual <= bound <= 1e-11


@pytest.mark.long
def test_a_narrow_crossing_is_not_missed():
    # The probability jumps where 400 of 20,000 pixels have come, within 0.05 of the logit of u.
    values = solved([[20_000, 0, 0], [0, 0, 400]], 0, 0.5).values
    assert float(20_000 * values[0]) == pytest.approx(1, abs=1e-11)


def test_pixels_that_leave_are_worth_what_they_stop():
    # In the baseline class 1 has a pixel that the image lacks: its going raises class 0.
    result = solved([[0, 0, 0], [0, 1, 0]], 0, 1.0)
    assert float(result.leaving[1]) == pytest.approx(0.5 - 1 / (1 + math.e), abs=1e-14)


@pytest.mark.long
def test_full_size_with_pixels_that_leave_and_stay_is_efficient():
    of_classes = [[2469, 800, 300], [2300, 0, 10], [0, 1500, 0], [900, 900, 900]]
    result = solved(of_classes, 0, 16.0)
    arriving, leaving, constant = torch.tensor(of_classes).double().T
    total = float((arriving * result.values + leaving * result.leaving).sum())
    said = [float(((counts + constant) / 16).softmax(0)[0]) for counts in (arriving, leaving)]
    assert abs(total - (said[0] - said[1])) <= 1e-12
    assert result.error <= 1e-9


@pytest.mark.parametrize("pixels", [(3, 0, 0), (0, 4, 1), (2, 3, 0), (4, 4, 2), (1, 1, 7)])
@pytest.mark.parametrize("modulus", [2, 3, 5])
def test_a_remainder_is_shared_as_in_all_coalitions(pixels, modulus):
    arriving, leaving, constant = pixels
    game = lambda coalition: oracles.remainder(  # noqa: E731 - the game in one line
        sum(p in coalition for p in range(arriving))
        + sum(p not in coalition for p in range(arriving, arriving + leaving))
        + constant,
        modulus,
    )
    expected = oracles.shapley(game, arriving + leaving)
    came, went, error = remainder_shapley(ClassCount(*pixels), modulus)
    assert [came] * arriving + [went] * leaving == pytest.approx(expected, abs=error)
    assert error <= 2e-13
    assert arriving or came == 0
    assert leaving or went == 0


def test_a_remainder_without_movers_has_no_values():
    assert remainder_shapley(ClassCount(0, 0, 5), 3) == (0.0, 0.0, 0.0)


def test_the_nodes_that_all_games_of_a_size_share_cannot_be_changed():
    for shared in times(5)[:3]:
        with pytest.raises(ValueError, match="read-only"):
            shared[0] = 99.0


# Refusals
