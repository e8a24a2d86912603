"""Every cell of the printed table, by models whose truth is known."""

import pandas as pd
import pytest

from attributionlab.papers.catalog import Run
from attributionlab.papers.unified import plausibility

ITEM = "unified-table-1"


@pytest.fixture(scope="module")
def outcome():
    return plausibility.plausible_and_faithful(Run(ITEM, n=30))


def test_a_truth_is_faithful_and_on_the_object_if_the_model_looks_there(outcome):
    maps = outcome.tables["maps"]
    own = maps[maps["map"] == plausibility.FAITHFUL]
    # The cosine of a map with itself, in float64.
    assert own.faithfulness.tolist() == pytest.approx([1, 1, 1, 1], abs=1e-12)
    assert own.pointing_game.tolist() == own.plausible.astype(float).tolist()
    pictures = own[own.model.str.startswith("counts")]
    assert pictures.mass.tolist() == [1, 0]
    others = maps[maps["map"] == plausibility.OTHERS]
    assert (others.faithfulness < 0.9).all()
    assert others.pointing_game.tolist() == (~others.plausible).astype(float).tolist()


def test_what_asks_no_model_is_the_same_for_both_models_of_the_same_images(outcome):
    maps = outcome.tables["maps"]
    edges = maps[maps["map"] == plausibility.EDGES].pointing_game.tolist()
    assert edges[0] == edges[1]
    assert edges[2] == edges[3]


def test_three_of_the_four_cells_are_as_printed(outcome, answers):
    table = outcome.tables["table-1"]
    assert table.printed.tolist() == ["high", "low", "low", "uncertain"]
    assert table.as_printed.tolist() == ["yes", "no", "yes", "yes"]
    levels = table[["low", "between", "high", "undecided"]]
    assert levels.to_numpy().sum() == len(outcome.tables["maps"])
    assert answers(ITEM, outcome.tables) == ["agrees", "differs", "agrees", "agrees", "agrees"]


def maps_with(scores, half_width=0.0, images=12):
    """A map for each score of each cell."""
    return pd.DataFrame(
        [
            {
                "model": "looks there" if plausible == "plausible" else "looks elsewhere",
                "map": plausibility.FAITHFUL if faithful == "faithful" else plausibility.EDGES,
                "plausible": plausible == "plausible",
                "faithful": faithful == "faithful",
                "pointing_game": score,
                "low": score - half_width,
                "high": score + half_width,
                "images": images,
            }
            for (plausible, faithful), of_cell in zip(plausibility.PRINTED, scores, strict=True)
            for score in of_cell
        ]
    )


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (([0.75], [0.25], [0.0], [0.0, 1.0]), ["yes"] * 4),
        (([0.74], [0.26], [0.5], [0.0, 0.5]), ["no"] * 4),
        (([1.0, 0.0], [0.0, 1.0], [1.0], [1.0]), ["no"] * 4),
    ],
)
def test_a_cell_is_as_printed_only_if_all_its_maps_are(scores, expected, answers):
    maps = maps_with(scores)
    cells = plausibility.cells_of(maps)
    assert cells.as_printed.tolist() == expected
    held = {"yes": "agrees", "no": "differs", "undecided": "undecided"}
    tables = {"table-1": cells, "maps": maps}
    assert answers(ITEM, tables)[:4] == [held[each] for each in expected]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (([0.8], [0.2], [0.2], [0.2, 0.8]), ["undecided"] * 4),
        (([0.8], [0.0], [0.9], [0.0, 0.8]), ["undecided", "yes", "no", "undecided"]),
        (([0.8, 0.0], [0.2, 0.5], [0.0], [0.5, 0.8]), ["no", "no", "yes", "no"]),
    ],
)
def test_a_score_whose_interval_reaches_over_a_bound_decides_nothing(scores, expected, answers):
    maps = maps_with(scores, half_width=0.1)
    cells = plausibility.cells_of(maps)
    assert cells.as_printed.tolist() == expected
    held = {"yes": "agrees", "no": "differs", "undecided": "undecided"}
    tables = {"table-1": cells, "maps": maps}
    assert answers(ITEM, tables)[:4] == [held[each] for each in expected]


def test_few_images_decide_nothing():
    maps = maps_with(([1.0], [0.0], [0.0], [0.0, 1.0]), images=5)
    assert plausibility.cells_of(maps).as_printed.tolist() == ["undecided"] * 4


@pytest.mark.parametrize(
    ("scores", "half_width", "images", "expected"),
    [
        (([1.0], [0.9], [0.1], [0.9]), 0.1, 12, "agrees"),
        (([1.0], [0.1], [0.4], [0.5]), 0.1, 12, "undecided"),
        (([1.0], [0.1], [0.1], [0.9]), 0.1, 5, "undecided"),
        (([1.0], [0.9], [0.1], [0.0]), 0.0, 5, "undecided"),
        # The truth of one model is below edges for the other, which compares nothing.
        (([1.0], [0.9], [0.1], [0.0]), 0.0, 12, "differs"),
    ],
)
def test_maps_are_ranked_within_one_model(scores, half_width, images, expected, answers):
    maps = maps_with(scores, half_width, images)
    assert answers(ITEM, {"table-1": plausibility.cells_of(maps), "maps": maps})[-1] == expected
