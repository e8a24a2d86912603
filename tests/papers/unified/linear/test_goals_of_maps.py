"""Each map is best by the goal that is its own, for every small model and input."""

from itertools import product

import pytest

import oracles_unified as oracles
from attributionlab import AttributionLabError
from attributionlab.papers.unified.linear import goals
from attributionlab.papers.unified.linear.goals import INPUTS, goals_of_maps
from attributionlab.papers.unified.linear.goals_findings import (
    CHANGE,
    GRADIENT,
    PRODUCT,
    REMOVAL,
    findings_of,
)


@pytest.fixture(scope="module")
def outcome():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(goals, "QUICK_PIXELS", 2)
        return goals_of_maps(n=12, quick=True)


@pytest.mark.parametrize("kind", INPUTS)
def test_every_model_and_input_of_two_pixels_is_judged_as_by_trying_both_orders(outcome, kind):
    table = outcome.tables["exhausted"].set_index(["inputs", "goal", "map"])
    counted = {(goal, name): [] for goal in (REMOVAL, CHANGE) for name in (PRODUCT, GRADIENT)}
    for weights in product(range(-2, 3), repeat=2):
        for inputs in product(INPUTS[kind], repeat=2):
            # Rising outputs are better for changes: the least of what is left to change is best.
            asked = {REMOVAL: inputs, CHANGE: (1, 1)}
            maps = {
                PRODUCT: [w * x for w, x in zip(weights, inputs, strict=True)],
                GRADIENT: list(weights),
            }
            for goal, values in asked.items():
                every = oracles.heights([weights], values, lambda each: each[0])
                for name, of_map in maps.items():
                    own = every[oracles.by_falling(of_map)]
                    low, high = min(every.values()), max(every.values())
                    counted[goal, name].append((own, low, high))
    for (goal, name), found in counted.items():
        row = table.loc[(kind, goal, name)]
        losses = [float((own - low) / (high - low)) for own, low, high in found if high > low]
        assert row.cases == len(found)
        assert row.best == sum(own == low for own, low, _ in found) / len(found)
        # A mean of at most 625 numbers in [0, 1].
        assert row.loss == pytest.approx(sum(losses) / len(losses), abs=1e-12)
        assert row.largest_loss == max(losses)


def test_on_digits_a_map_loses_nothing_by_its_own_goal_alone(outcome):
    table = outcome.tables["digits"].set_index(["goal", "map"])
    assert table.loss[REMOVAL, PRODUCT] == 0
    assert table.loss[CHANGE, GRADIENT] == 0
    assert table.loss[REMOVAL, GRADIENT] > 0
    assert table.loss[CHANGE, PRODUCT] > 0
    assert table.images.unique().tolist() == [12]


def test_the_figure_has_a_panel_for_each_goal_and_says_which_direction_is_better(outcome):
    left, right = outcome.figures["curves"].axes
    assert "lower is better" in left.get_ylabel()
    assert "higher is better" in right.get_ylabel()


def test_findings_follow_the_tables(outcome):
    said = " ".join(findings_of(outcome.tables))
    assert "gradient x input is the best of all orders for all 975 pairs" in said
    assert "for inputs all 1: a metric cannot tell" in said
    assert "for 0 or 1; 1, 2 or 3; -2 to 2 either goal prefers its own map" in said
    assert "gradient is behind gradient x input and ahead of a random order" in said
    tables = {name: table.copy() for name, table in outcome.tables.items()}
    tables["exhausted"]["best"] = 0.5
    said = " ".join(findings_of(tables))
    assert "is not always the best order (at least 50.0%)" in said
    assert "For no kind of inputs are both maps best" in said
    assert "for 0 or 1" not in said
    tables["digits"]["images"] = 5
    assert "fewer than 6 images decide nothing" in " ".join(findings_of(tables))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.1, 0.2, "behind gradient x input and ahead of a random order"),
        (0.0, 0.2, "not told apart from gradient x input and ahead of a random order"),
        (0.3, 0.6, "behind gradient x input and not told apart from a random order"),
        (0.8, 0.9, "behind gradient x input and behind a random order"),
    ],
)
def test_digits_are_judged_by_intervals_that_may_decide_nothing(outcome, low, high, expected):
    tables = {name: table.copy() for name, table in outcome.tables.items()}
    digits = tables["digits"] = tables["digits"].set_index(["goal", "map"])
    digits.loc[(REMOVAL, "random order"), ["low", "high"]] = 0.4, 0.6
    digits.loc[(REMOVAL, GRADIENT), ["low", "high"]] = low, high
    tables["digits"] = digits.reset_index()
    assert f"gradient is {expected}." in " ".join(findings_of(tables))


@pytest.mark.parametrize("n", [0, 601, 1.5, "a"])
def test_numbers_of_digits_that_are_none_are_refused_before_anything_runs(n, monkeypatch):
    monkeypatch.delattr(goals, "_exhausted_rows")
    with pytest.raises(AttributionLabError, match=f"n is {n!r}: take an integer from 1 to 600"):
        goals_of_maps(n=n, quick=True)
