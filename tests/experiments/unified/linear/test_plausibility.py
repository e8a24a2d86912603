"""Every cell of the printed table, by models whose truth is known."""

import pandas as pd
import pytest

from attributionlab.experiments.unified.linear.plausibility import plausible_and_faithful
from attributionlab.experiments.unified.linear.plausibility_findings import (
    EDGES,
    FAITHFUL,
    OTHERS,
    PRINTED,
    cells_of,
    findings_of,
)


@pytest.fixture(scope="module")
def outcome():
    return plausible_and_faithful(n=12, quick=True)


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
    assert table.as_printed.tolist() == [True, False, True, True]
    assert table[["low", "between", "high"]].to_numpy().sum() == len(outcome.tables["maps"])


def maps_with(scores):
    """A map for each score of each cell."""
    return pd.DataFrame(
        [
            {
                "model": "m",
                "map": EDGES if not faithful else FAITHFUL,
                "plausible": plausible,
                "faithful": faithful,
                "pointing_game": score,
                "faithfulness": float(faithful),
            }
            for (plausible, faithful), of_cell in zip(PRINTED, scores, strict=True)
            for score in of_cell
        ]
    )


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (([0.75], [0.25], [0.0], [0.0, 1.0]), [True] * 4),
        (([0.74], [0.26], [0.5], [0.0, 0.5]), [False] * 4),
        (([1.0, 0.0], [0.0, 1.0], [1.0], [1.0]), [False] * 4),
    ],
)
def test_a_cell_is_as_printed_only_if_all_its_maps_are(scores, expected):
    maps = maps_with(scores)
    cells = cells_of(maps)
    assert cells.as_printed.tolist() == expected
    said = findings_of({"table-1": cells, "maps": maps}, PRINTED)
    assert sum("as printed" in each and "not all" not in each for each in said) == sum(expected)


def test_findings_say_whether_plausibility_ranks_against_faithfulness():
    against = maps_with(([1.0], [0.9], [0.1], [0.0]))
    said = findings_of({"table-1": cells_of(against), "maps": against}, PRINTED)[-1]
    assert "plausibility can rank maps against faithfulness" in said
    along = maps_with(([1.0], [0.1], [0.2], [0.0]))
    said = findings_of({"table-1": cells_of(along), "maps": along}, PRINTED)[-1]
    assert "does not rank them against faithfulness" in said
