"""Every cell of the printed table, by models whose truth is known."""

import pandas as pd
import pytest

from attributionlab import AttributionLabError
from attributionlab.papers.unified.linear.plausibility import plausible_and_faithful
from attributionlab.papers.unified.linear.plausibility_findings import (
    EDGES,
    FAITHFUL,
    OTHERS,
    PRINTED,
    cells_of,
    findings_of,
)


@pytest.fixture(scope="module")
def outcome():
    return plausible_and_faithful(n=30, quick=True)


def test_a_truth_is_faithful_and_on_the_object_if_the_model_looks_there(outcome):
    maps = outcome.tables["maps"]
    own = maps[maps["map"] == FAITHFUL]
    # The cosine of a map with itself, in float64.
    assert own.faithfulness.tolist() == pytest.approx([1, 1, 1, 1], abs=1e-12)
    assert own.pointing_game.tolist() == own.plausible.astype(float).tolist()
    pictures = own[own.model.str.startswith("counts")]
    assert pictures.mass.tolist() == [1, 0]
    others = maps[maps["map"] == OTHERS]
    assert (others.faithfulness < 0.9).all()
    assert others.pointing_game.tolist() == (~others.plausible).astype(float).tolist()


def test_what_asks_no_model_is_the_same_for_both_models_of_the_same_images(outcome):
    maps = outcome.tables["maps"]
    edges = maps[maps["map"] == EDGES].pointing_game.tolist()
    assert edges[0] == edges[1]
    assert edges[2] == edges[3]


def test_three_of_the_four_cells_are_as_printed(outcome):
    table = outcome.tables["table-1"]
    assert table.printed.tolist() == ["high", "low", "low", "uncertain"]
    assert table.as_printed.tolist() == ["yes", "no", "yes", "yes"]
    levels = table[["low", "between", "high", "undecided"]]
    assert levels.to_numpy().sum() == len(outcome.tables["maps"])
    assert "as_printed" in outcome.shown["table-1"]


@pytest.mark.parametrize("n", [0, -1, 1.5, "a"])
def test_numbers_of_images_that_are_none_are_refused(n):
    with pytest.raises(AttributionLabError, match=f"n is {n!r}: take an integer"):
        plausible_and_faithful(n=n, quick=True)


def maps_with(scores, half_width=0.0, images=12):
    """A map for each score of each cell."""
    return pd.DataFrame(
        [
            {
                "model": "looks there" if plausible else "looks elsewhere",
                "map": EDGES if not faithful else FAITHFUL,
                "plausible": plausible,
                "faithful": faithful,
                "pointing_game": score,
                "low": score - half_width,
                "high": score + half_width,
                "images": images,
                "faithfulness": float(faithful),
            }
            for (plausible, faithful), of_cell in zip(PRINTED, scores, strict=True)
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
def test_a_cell_is_as_printed_only_if_all_its_maps_are(scores, expected):
    maps = maps_with(scores)
    cells = cells_of(maps)
    assert cells.as_printed.tolist() == expected
    said = findings_of({"table-1": cells, "maps": maps}, PRINTED)
    assert sum(each.endswith(": as printed.") for each in said) == expected.count("yes")


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (([0.8], [0.2], [0.2], [0.2, 0.8]), ["undecided"] * 4),
        (([0.8], [0.0], [0.9], [0.0, 0.8]), ["undecided", "yes", "no", "undecided"]),
        (([0.8, 0.0], [0.2, 0.5], [0.0], [0.5, 0.8]), ["no", "no", "yes", "no"]),
    ],
)
def test_a_score_whose_interval_reaches_over_a_bound_decides_nothing(scores, expected):
    maps = maps_with(scores, half_width=0.1)
    cells = cells_of(maps)
    assert cells.as_printed.tolist() == expected
    said = findings_of({"table-1": cells, "maps": maps}, PRINTED)
    assert sum(each.endswith(": undecided.") for each in said) == expected.count("undecided")


def test_few_images_decide_nothing():
    maps = maps_with(([1.0], [0.0], [0.0], [0.0, 1.0]), images=5)
    assert cells_of(maps).as_printed.tolist() == ["undecided"] * 4


@pytest.mark.parametrize(
    ("scores", "half_width", "images", "expected"),
    [
        (([1.0], [0.9], [0.1], [0.9]), 0.1, 12, "ranks these maps against faithfulness"),
        (([1.0], [0.1], [0.4], [0.5]), 0.1, 12, "undecided whether plausibility ranks"),
        (([1.0], [0.1], [0.1], [0.9]), 0.1, 5, "undecided whether plausibility ranks"),
        # The truth of one model is below edges for the other, which compares nothing.
        (([1.0], [0.9], [0.1], [0.0]), 0.0, 12, "in no model does plausibility rank"),
    ],
)
def test_maps_are_ranked_within_one_model(scores, half_width, images, expected):
    maps = maps_with(scores, half_width, images)
    said = findings_of({"table-1": cells_of(maps), "maps": maps}, PRINTED)[-1]
    assert expected in said


def test_the_finding_sets_maps_of_one_model_beside_each_other(outcome):
    maps = outcome.tables["maps"].set_index(["model", "map"])
    edges = maps.loc[("raised corner", EDGES)]
    assert (
        "For raised corner the model's truth scores 0.00 and edges of the image "
        f"{edges.pointing_game:.2f}, with faithfulness 1.00 and {edges.faithfulness:.2f}"
    ) in outcome.findings[-1]
