"""Ranges of expressions: never too narrow, and as narrow as can be where that is promised."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attributionlab.worlds import Count, evaluate
from attributionlab.worlds.rules.expressions import Constant, Operation, collected, counts_in
from attributionlab.worlds.rules.forms import Reducer
from attributionlab.worlds.rules.parsing import parse
from rules.random_rules import random_rule

SIGNS = (">", ">=", "<", "<=", "==", "!=")

MOST = {Count((name,)): most for name, most in [("red", 3), ("blue", 5), ("gray", 0)]}


def range_of(rule, most):
    reducer = Reducer(most)
    return reducer.interval(reducer.tree(rule))


def values_of(text):
    """All values, by all counts."""
    rule = parse(text, ["red", "blue", "gray"], [])
    red, blue, gray = MOST
    return [
        int(evaluate(rule, {red: r, blue: b, gray: 0}))
        for r in range(MOST[red] + 1)
        for b in range(MOST[blue] + 1)
    ]


@given(st.randoms(use_true_random=False), st.integers(0, 5), st.integers(0, 60))
def test_no_counts_lead_outside_a_range(rng, depth, most):
    rule = random_rule(rng, depth)
    largest = {count: rng.randint(0, most) for count in counts_in(rule)}
    low, high = range_of(rule, largest)
    for attempt in range(20):
        # Corners first: all counts at one of their ends.
        counts = {
            count: rng.choice([0, end]) if attempt < 10 else rng.randint(0, end)
            for count, end in largest.items()
        }
        assert low <= evaluate(rule, counts) <= high


@pytest.mark.parametrize(
    "text",
    [
        "red",
        "gray + 2",
        "red - 2 * blue + 4",
        "red - red + blue",
        "3 * (red - blue) - 2 * (red + 1)",
        "not (red > blue)",
        "abs(red - 5)",
        "abs(2 * red - blue)",
        "abs(4 - blue - red)",
        "relu(red - 5)",
        "relu(2 - red)",
        "min(red, blue, 4)",
        "max(red, blue - 2, 1)",
        "min(red, blue) - min(red, blue)",
        "(red + 7) % 30",
        "(red + 30) % 30",
        "blue % 2",
        "(red - 7) % 10",
        "(0 - red) % 100",
        *(f"red {sign} {number}" for sign in SIGNS for number in (-1, 0, 3, 4)),
        *(f"red {sign} red + {k}" for sign in SIGNS for k in (-1, 0, 1)),
        "red > 1 and blue > 1",
        "red > 3 and blue > 1",
        "red > 1 or blue >= 0",
        "xor(red > 3, blue >= 0)",
        "xor(red >= 0, blue >= 0)",
        "xor(red > 1, blue >= 0)",
        "red if blue > 2 else 9",
        "red if blue > 9 else 9 - blue",
        "red if blue >= 0 else 9",
    ],
)
def test_ranges_of_single_operations_on_sums_are_exact(text):
    values = values_of(text)
    rule = parse(text, ["red", "blue", "gray"], [])
    assert range_of(rule, MOST) == (min(values), max(values))


def test_terms_are_collected():
    rule = parse("2 * (red - 3 * (blue - red)) + (not (red > 1)) - 5", ["red", "blue"], [])
    weights, offset = collected(rule)
    red, blue = Count(("red",)), Count(("blue",))
    above = Operation(">", (red, Constant(1)))
    assert (weights, offset) == ({red: 8, blue: -6, above: -1}, -4)
