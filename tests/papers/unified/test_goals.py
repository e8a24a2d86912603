"""Each map is best by the goal that is its own, for every small model and input."""

from itertools import product

import pandas as pd
import pytest

import oracles_unified as oracles
from attributionlab.papers.catalog import Run
from attributionlab.papers.unified import goals
from attributionlab.papers.unified.goals import CHANGE, GRADIENT, INPUTS, PRODUCT, RANDOM, REMOVAL
from claims_held import all_hold, holds

ITEM = "unified-section-6-2-2"


@pytest.fixture(scope="module")
def found():
    return goals.compatible_goals(Run(ITEM, n=12), pixels=2)


@pytest.mark.parametrize("kind", INPUTS)
def test_every_model_and_input_of_two_pixels_is_judged_as_by_trying_both_orders(found, kind):
    table = found.tables["exhausted"].set_index(["inputs", "goal", "map"])
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


def test_on_digits_a_map_loses_nothing_by_its_own_goal_alone(found):
    table = found.tables["digits"].set_index(["goal", "map"])
    assert table.loss[REMOVAL, PRODUCT] == 0
    assert table.loss[CHANGE, GRADIENT] == 0
    assert table.loss[REMOVAL, GRADIENT] > 0
    assert table.loss[CHANGE, PRODUCT] > 0
    assert table.images.unique().tolist() == [12]


def test_the_figure_has_a_panel_for_each_goal_and_says_which_direction_is_better(found):
    left, right = found.figures["curves"].axes
    assert "lower is better" in left.get_title()
    assert "higher is better" in right.get_title()


def test_all_claims_agree_and_follow_the_tables(found):
    assert set(all_hold(found.tables, ITEM).values()) == {"agrees"}
    halves = found.tables["exhausted"].assign(best=0.5)
    assert all_hold({**found.tables, "exhausted": halves}, ITEM) == {
        "product_is_best_in_removal": "differs",
        "gradient_is_not_best_in_removal": "agrees",
        "gradient_is_best_in_change": "differs",
        "goals_agree_on_ones": "differs",
        "digits_prefer_their_own_map": "agrees",
    }
    always = found.tables["exhausted"].assign(best=1.0)
    changed = all_hold({**found.tables, "exhausted": always}, ITEM)
    assert changed["gradient_is_not_best_in_removal"] == "differs"
    assert changed["gradient_is_best_in_change"] == "differs"


@pytest.mark.parametrize(
    ("low", "high", "images", "expected"),
    [
        (0.1, 0.2, 12, "agrees"),
        (0.1, 0.2, 5, "undecided"),
        (0.0, 0.2, 12, "undecided"),
        (0.3, 0.6, 12, "undecided"),
        (0.8, 0.9, 12, "differs"),
    ],
)
def test_digits_are_judged_by_intervals_that_may_decide_nothing(low, high, images, expected):
    rows = [
        *((REMOVAL, PRODUCT, 0.0, 0.05), (REMOVAL, GRADIENT, low, high)),
        *((REMOVAL, RANDOM, 0.4, 0.6), (CHANGE, GRADIENT, 0.0, 0.0)),
        *((CHANGE, PRODUCT, 0.1, 0.2), (CHANGE, RANDOM, 0.4, 0.6)),
    ]
    table = pd.DataFrame(rows, columns=["goal", "map", "low", "high"]).assign(images=images)
    assert holds({"digits": table}, "digits_prefer_their_own_map") == expected
