"""Mean gradients along a line of counts: against many small steps, completeness, by hand."""

import math
import random

import pytest

import oracles_truth
from attributionlab.worlds.truth.games import softmax_path_gradients


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
