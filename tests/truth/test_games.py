"""Closed forms of a counting game: against every coalition, one by one, along paths, at full size.

Mean gradients along a line of counts: against many small steps, completeness, by hand.

Times and counts of arriving players: exact means of polynomials, binomials, their convolution.
"""

import math
import random
import time
from decimal import Decimal

import pytest
import torch

import attributionlab as al
import oracles_truth
from attributionlab.worlds.truth import CountingGame, Definition, arrivals, enumerated_shapley
from attributionlab.worlds.truth.arrivals import times
from attributionlab.worlds.truth.games import softmax_path_gradients


def row(classes):
    return torch.tensor([[list(classes)]])


def random_game(case):
    """Up to 12 pixels: colors, distractors and background in image and baseline; output in turn."""
    chance = random.Random(case)
    classes, players = chance.randint(2, 6), chance.randint(1, 12 if case % 20 == 0 else 8)
    present, absent = ([chance.randint(-1, classes - 1) for _ in range(players)] for _ in range(2))
    output = ["probability", "probability", "logit", "modulo"][case % 4]
    temperature = 2.0 ** chance.uniform(-4, 12) if output == "probability" else None
    if temperature:  # pixels between two counted colors have no closed form
        for pixel in range(players):
            if -1 not in (present[pixel], absent[pixel]) and chance.random() < 0.7:
                chance.choice([present, absent])[pixel] = -1
            elif -1 not in (present[pixel], absent[pixel]):
                absent[pixel] = present[pixel]
    modulus = chance.randint(2, 5) if output == "modulo" else None
    return present, absent, classes, temperature, modulus


def game_of(present, absent, classes, target, temperature, modulus):
    output = "logit" if temperature is None else "probability"
    return CountingGame(row(present), row(absent), classes, target, output, temperature, modulus)


def worth(game):
    """What the game gives to coalitions of its pixels."""

    def value(coalitions):
        of_class = torch.where(coalitions, game.present.flatten(), game.absent.flatten())
        counts = torch.stack([(of_class == c).sum(1) for c in range(game.classes)], 1)
        return game.value(counts)

    return value


@pytest.mark.parametrize("block", range(4))
def test_shapley_values_are_those_of_all_coalitions(block):
    # 200 random cases, each for all of its targets
    for case in range(50 * block, 50 * block + 50):
        present, absent, classes, temperature, modulus = random_game(case)
        for target in range(classes):
            game = game_of(present, absent, classes, target, temperature, modulus)
            solution = game.shapley()
            expected = enumerated_shapley(worth(game), len(present))
            wrong = (solution.values.flatten() - expected).abs()
            assert float(wrong.max()) <= 1e-10
            # Enumeration rounds differences of numbers up to 12.
            assert bool((wrong <= solution.bounds.flatten() + 2.0**-48).all())


@pytest.mark.parametrize("case", range(16))
def test_single_pixels_have_the_effects_of_their_replacements(case):
    present, absent, classes, temperature, modulus = random_game(case)
    everybody = frozenset(range(len(present)))

    def says(coalition):
        counts = oracles_truth.counts_of_coalition(present, absent, coalition, classes)
        return oracles_truth.said(counts, 0, temperature, modulus)

    game = game_of(present, absent, classes, 0, temperature, modulus)
    assert game.full == pytest.approx(float(says(everybody)), rel=1e-13)
    assert game.empty == pytest.approx(float(says(frozenset())), rel=1e-13)
    ablation, insertion = game.ablation(), game.insertion()
    for pixel in everybody:
        lost = float(says(everybody) - says(everybody - {pixel}))
        gained = float(says(frozenset({pixel})) - says(frozenset()))
        for solution, right in ((ablation, lost), (insertion, gained)):
            wrong = abs(float(solution.values[0, 0, pixel]) - right)
            assert wrong <= float(solution.bounds[0, 0, pixel])
            assert wrong <= 1e-12 * abs(right)


def test_an_effect_far_below_the_rounding_of_the_output_keeps_its_sign():
    # The probability is 1 - e^-100; without one pixel of the other color it is larger by some e^-100.
    game = game_of([0] * 101 + [1], [-1] * 102, 2, 0, 1.0, None)
    effects = game.ablation()
    change = math.exp(-100) * math.expm1(-1)  # 1 / (1 + e^-101) - 1 / (1 + e^-100)
    assert float(effects.values[0, 0, -1]) == pytest.approx(change, rel=1e-12)
    assert float(effects.bounds[0, 0, -1]) < abs(change) * 1e-11


def signs_of(solution):
    values, bounds = solution.values[None], solution.bounds[None]
    return Definition("ablation", "", values, bounds, "closed form").signs.flatten().tolist()


NAMES = ["ablation", "insertion", "shapley", "count_path"]


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_an_effect_too_small_for_a_number_is_not_said_to_be_0(name, target):
    # 1,000 pixels are of class 0 with and without the image: one more of either class changes the
    # probability by some e^-1000. One leaves: its sign is the other one.
    game = game_of([0] * 1001 + [1, -1], [0] * 1000 + [-1, -1, 1], 2, target, 1.0, None)
    solution = getattr(game, name)()
    assert signs_of(solution)[:1000] == [0] * 1000
    assert signs_of(solution)[1000:] == ([1, -1, 1] if target == 0 else [-1, 1, -1])
    for value, bound in zip(
        solution.values[0, 0, 1000:], solution.bounds[0, 0, 1000:], strict=True
    ):
        assert 0 < float(bound) < abs(float(value)) <= float(bound) * (1 + 2.0**-51)
        assert abs(float(value)) <= (2.0**-1022 if name != "shapley" else 1e-16)


@pytest.mark.parametrize("name", ["ablation", "insertion", "count_path"])
@pytest.mark.parametrize("others", [650, 705, 720, 735, 760])
def test_effects_around_the_smallest_numbers_are_within_their_bounds(name, others):
    game = game_of([0] * others + [1, 2], [0] * others + [-1, -1], 3, 1, 1.0, None)
    solution = getattr(game, name)()

    def says(*counts):
        return oracles_truth.said((others, *counts), 1, 1.0, None)

    exact = {
        "ablation": says(1, 1) - says(0, 1),
        "insertion": says(1, 0) - says(0, 0),
        # One class takes and gives nearly all: the mean slope is the change.
        "count_path": says(1, 1) - says(0, 0),
    }[name]
    value, bound = (Decimal(float(each[0, 0, -2])) for each in solution)
    slack = 1 if name != "count_path" else Decimal(1) + Decimal(2) ** -20
    assert abs(value - exact) <= bound * (1 + Decimal(2) ** -51) * slack
    assert value > bound
    if others == 650:
        assert bound < value * Decimal("1e-11")
    # The product of two probabilities is further below.
    assert signs_of(solution)[-1] == -1


def test_a_pixel_between_two_other_colors_changes_nothing_where_it_swaps_their_counts():
    game = game_of([1, 1, 1, 0], [2, 2, -1, -1], 3, 0, 0.7, None)
    assert game.ablation().values[0, 0, 0] != 0
    swap = game_of([1, 0], [2, -1], 3, 0, 0.7, None)
    for solution in (swap.ablation(), swap.insertion()):
        assert float(solution.values[0, 0, 0]) == float(solution.bounds[0, 0, 0]) == 0


def test_a_single_class_leaves_no_doubt_that_nothing_changes():
    game = game_of([0, 0, -1], [-1, -1, 0], 1, 0, 1.0, None)
    for name in NAMES:
        solution = getattr(game, name)()
        assert not solution.values.any()
        assert solution.error == 0


@pytest.mark.parametrize("temperature", [0.7, 1.1, 1.9])
def test_a_small_difference_of_large_counts_is_not_rounded(temperature):
    # Logits of 5e4 are rounded by up to 4e-12, their difference is of size 1.
    game = game_of([0] * 50_000 + [1] * 49_999, [-1] * 99_999, 2, 0, temperature, None)
    exact = oracles_truth.said((50_000, 49_999), 0, temperature, None) - Decimal("0.5")
    value, bound = (Decimal(float(each[0, 0, 0])) for each in game.ablation())
    assert abs(value - exact) <= bound


def test_what_a_game_returns_may_be_changed():
    """Games of one image share what was solved."""
    game = game_of([0, 0, 1], [-1, -1, -1], 2, 0, 1.0, None)
    before = game.shapley().values.clone()
    game.shapley().values.fill_(7)
    assert torch.equal(game.shapley().values, before)


@pytest.mark.parametrize("case", range(0, 200, 4))
def test_the_count_path_is_complete_and_equal_moves_share_equally(case):
    present, absent, classes, temperature, modulus = random_game(case)
    absent[0] = (present[0] + 2) % (classes + 1) - 1  # between counted colors too
    for target in range(classes):
        game = game_of(present, absent, classes, target, temperature, modulus)
        solution = game.count_path()
        assert float(solution.values.sum()) == pytest.approx(game.full - game.empty, abs=1e-13)
        assert solution.error <= 1e-10


def test_the_count_path_gives_a_pixel_its_share_of_the_gradients():
    present, absent = [0, 0, 1, 2, -1, 1], [-1, 1, -1, 2, 0, 1]
    game = game_of(present, absent, 3, 0, 2.0, None)
    gradients = oracles_truth.mean_gradients([1, 2, 1], [2, 2, 1], 0, 2.0, 2000)
    a, b, _ = gradients
    expected = [a, a - b, b, 0, -a, 0]
    # A midpoint sum errs by the second derivative / (24 steps^2).
    assert game.count_path().values[0, 0].tolist() == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("present", "absent"), [([0, 0, 1, 0], [-1, -1, 0, 1])])
def test_additive_outputs_give_every_definition_the_same_values(present, absent):
    game = game_of(present, absent, 2, 0, None, None)
    for solution in (game.shapley(), game.ablation(), game.insertion(), game.count_path()):
        assert solution.values.tolist() == [[[1.0, 1.0, -1.0, 1.0]]]
        assert solution.error == 0


@pytest.mark.parametrize(
    ("present", "absent", "expected"),
    [([0] * 7, [-1] * 7, 2 / 7), ([-1] * 4 + [0], [0] * 4 + [0], 1 / 4), ([1, -1], [1, -1], 0)],
)
def test_a_remainder_of_moves_in_one_direction_is_shared_equally(present, absent, expected):
    # 7 mod 5 = 2 from 0; 1 mod 5 = 1 from 5 mod 5 = 0
    game = game_of(present, absent, 2, 0, None, 5)
    of_movers = [expected if p != a else 0 for p, a in zip(present, absent, strict=True)]
    for solution in (game.shapley(), game.count_path()):
        assert solution.values[0, 0].tolist() == pytest.approx(of_movers, abs=1e-15)
        assert solution.error <= 1e-15


# Full size

SIDE = 224


def full_size(temperature, seed=0):
    """Four colors, a background and distractors; the baseline has some pixels of colors too."""
    chance = torch.Generator().manual_seed(seed)
    draw = torch.rand(2, 1, SIDE, SIDE, generator=chance)
    present = torch.where(draw[0] < 0.05, (draw[0] * 80).long().clamp(0, 3), -1)
    absent = torch.where(draw[1] < 0.01, 2, -1)
    absent[(present >= 0) & (absent >= 0)] = -1
    return CountingGame(present, absent, 4, 0, "probability", temperature)


@pytest.mark.long
def test_a_full_image_is_efficient_symmetric_and_fast():
    game = full_size(temperature=8.0)
    started = time.process_time()
    solution = game.shapley()
    # 0.4 s on an idle core; the bound leaves room for a busy machine and for checked annotations.
    assert time.process_time() - started < 10
    assert abs(float(solution.values.sum()) - (game.full - game.empty)) <= 1e-9
    assert solution.error <= 1e-9
    for present in range(-1, 4):
        for absent in (-1, 2):
            same = solution.values[(game.present == present) & (game.absent == absent)]
            assert len(same.unique()) <= 1
    assert not solution.values[game.present == game.absent].any()


@pytest.mark.parametrize("temperature", [2.0**-20, 1.0, 300.0])
def test_the_count_path_of_a_full_image_is_complete(temperature):
    game = full_size(temperature)
    solution = game.count_path()
    assert abs(float(solution.values.sum()) - (game.full - game.empty)) <= 1e-12


# Refusals


def test_a_remainder_has_no_path_where_counts_rise_and_fall():
    game = game_of([0, 0, -1], [-1, -1, 0], 2, 0, None, 3)
    assert game.has_closed_shapley
    assert not game.has_closed_count_path
    with pytest.raises(al.AttributionLabError, match=r"2 pixels raise the count and 1 lower it"):
        game.count_path()


def softmax(counts, target, temperature):
    return float(oracles_truth.said([int(n) for n in counts], target, temperature, None))


def random_line(chance, most):
    classes = chance.randint(2, 5)
    start, end = ([chance.randint(0, most) for _ in range(classes)] for _ in range(2))
    return start, end, chance.randrange(classes)


@pytest.mark.parametrize("case", range(12))
def test_the_gradients_are_means_over_many_small_steps(case):
    chance = random.Random(case)
    start, end, target = random_line(chance, 12)
    temperature = chance.choice([1.0, 2.5, 40.0])
    values, _ = softmax_path_gradients(start, end, target, temperature)
    steps = 3000
    expected = oracles_truth.mean_gradients(start, end, target, temperature, steps)
    # A midpoint sum errs by max |second derivative| / 24 steps^2. A gradient, of size 1 / T, has as
    # derivatives products of slopes / T, at most 24 between two classes.
    wrong = 4 * (24 / temperature) ** 2 / temperature / steps**2
    assert values.tolist() == pytest.approx(expected, abs=wrong + 1e-14)


@pytest.mark.parametrize("temperature", [2.0**-20, 0.3, 16.0, 2.0**12, 2.0**30])
@pytest.mark.parametrize("most", [3, 100, 50_000])
def test_the_changes_of_all_counts_explain_the_change_of_the_output(temperature, most):
    for case in range(5):
        start, end, target = random_line(random.Random(case), most)
        values, relative = softmax_path_gradients(start, end, target, temperature)
        changes = [b - a for a, b in zip(start, end, strict=True)]
        shares = [value * change for value, change in zip(values.tolist(), changes, strict=True)]
        gain = softmax(end, target, temperature) - softmax(start, target, temperature)
        missed = abs(math.fsum(shares) - gain)
        assert missed <= relative * sum(map(abs, shares)) + 2.0**-52
        assert missed <= 1e-12


def test_a_line_that_goes_nowhere_has_the_gradient_of_its_point():
    values, _ = softmax_path_gradients([2, 1, 0], [2, 1, 0], 1, 1.0)
    p = [softmax([2, 1, 0], c, 1.0) for c in range(3)]
    assert values.tolist() == pytest.approx(
        [-p[1] * p[0], p[1] * (1 - p[1]), -p[1] * p[2]], rel=1e-12
    )


def test_classes_in_lockstep_share_the_probability_all_along():
    # Equal counts all the way: p is 1/2, and its gradient by each of the two 1/4.
    values, _ = softmax_path_gradients([0, 0], [40_000, 40_000], 0, 1.0)
    assert values.tolist() == pytest.approx([0.25, -0.25], rel=1e-14)


def test_a_jump_of_a_millionth_of_the_line_is_not_missed():
    values, _ = softmax_path_gradients([0, 12_345], [50_000, 12_345], 0, 0.01)
    assert float(values[0]) * 50_000 == pytest.approx(1, rel=1e-13)


def test_a_single_class_has_no_slope():
    assert softmax_path_gradients([0], [5], 0, 1.0).values.tolist() == [0.0]


@pytest.mark.parametrize("players", [500, 7169, 50_176])
def test_many_players_err_by_no_more_than_the_bound(players):
    u, v, weights, error = times(players)
    assert len(u) <= 5 * math.sqrt(players)
    assert 0 < error * players < 1e-12
    # The most uneven means of all, P(nobody else is there) and P(all others are), are 1 / players;
    # powers of u are rounded by `players` times 2^-53.
    for point in (u, v):
        wrong = abs(float(weights @ point ** (players - 1)) - 1 / players)
        assert wrong <= error + 2.0**-51


@pytest.mark.parametrize("precise", [-6.0, -4.0, 0.0])
def test_the_bound_of_fewer_nodes_holds_and_says_something(monkeypatch, precise):
    # (1 - 2u)^D, the mean of a game that only tells even from odd, is the most uneven of all.
    monkeypatch.setattr(arrivals, "PRECISE", precise)
    u, v, weights, error = times.__wrapped__(2001)
    wrong = abs(float(weights @ (v - u) ** 2000) - 1 / 2001)
    assert wrong <= error
    assert wrong >= 1e-6 * error
