"""100 % to 0 % by one weight: what the run measures, and what it says of other outcomes."""

import pandas as pd
import pytest

from attributionlab import AttributionLabError
from attributionlab.papers.unified.linear import manipulated_model
from attributionlab.papers.unified.linear.manipulated_findings import (
    DOT,
    INK,
    NORMALIZED,
    findings_of,
)
from attributionlab.papers.unified.linear.manipulated_model import ITEMS, sparse_linear_model


@pytest.fixture(scope="module")
def outcome():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manipulated_model, "PENALTIES", (0.1,))
        patch.setattr(manipulated_model, "QUICK_SEEDS", 1)
        return sparse_linear_model("unified-figure-3", n=40, quick=True)


def test_one_weight_takes_the_pointing_game_from_1_to_0_and_no_answer_changes(outcome):
    table = outcome.tables["table-3"].set_index(["values", "model"])
    for values in (DOT, NORMALIZED):
        before, after = table.loc[(values, "standard")], table.loc[(values, "manipulated")]
        assert (before.pointing_game, after.pointing_game) == (1, 0)
        assert (before.predicted_class, after.predicted_class) == (1, 0)
        assert before.accuracy == after.accuracy > 0.8  # chance is 0.1
        assert (before.corner_first, after.corner_first) == (0, 1)
        assert after.same_predictions == 1


def test_where_the_corner_is_0_the_weight_changes_nothing(outcome):
    table = outcome.tables["table-3"].set_index(["values", "model"])
    before, after = table.loc[(INK, "standard")], table.loc[(INK, "manipulated")]
    assert before.drop("splits").tolist() == after.drop("splits").tolist()


def test_maps_that_know_nothing_hit_too(outcome):
    maps = outcome.tables["maps"].set_index(["values", "attribution"])
    assert maps.pointing_game[INK, "random weights * x"] == 1
    assert maps.pointing_game[DOT, "x itself"] == 1
    assert 0.3 < maps.box.iloc[0] < 0.7


def test_each_item_has_both_figures_and_its_own_comes_first(outcome):
    assert outcome.item == "unified-figure-3"
    assert list(outcome.figures) == ["maps", "boxes"]
    assert {first for _, first in ITEMS.values()} == {"maps", "boxes"}
    assert set(outcome.shown) <= set(outcome.tables)
    assert len(outcome.figures["boxes"].axes) >= 9
    assert "digit 7" in outcome.figures["maps"].get_suptitle()


def test_more_images_than_there_are_are_refused():
    with pytest.raises(AttributionLabError, match="n is 601"):
        sparse_linear_model("unified-table-3", n=601, quick=True)


def tables_of(**changed):
    """Three ways of values, two models; what is changed is changed for manipulated models."""
    standard = {
        "accuracy": 0.9,
        "pointing_game": 1.0,
        "low": 1.0,
        "high": 1.0,
        "predicted_class": 1.0,
        "corner_first": 0.0,
        "same_predictions": 1.0,
        "splits": 1,
        "images": 40,
    }
    rows = []
    for values in (DOT, NORMALIZED, INK):
        after = standard | {"pointing_game": 0.0, "low": 0.0, "high": 0.0, "corner_first": 1.0}
        after = standard if values == INK else after
        rows.append({"values": values, "model": "standard", **standard})
        rows.append({"values": values, "model": "manipulated", **after | changed})
    penalties = {"values": INK, "C": 0.1, "accuracy": 0.9, "some_positive": 1.0, "standard": 1.0}
    maps = [
        {"values": values, "attribution": name, "pointing_game": 0.5, "box": 0.4}
        for values in (DOT, NORMALIZED, INK)
        for name in ("random weights * x", "x itself")
    ]
    return {
        "table-3": pd.DataFrame(rows),
        "penalties": pd.DataFrame([penalties]),
        "maps": pd.DataFrame(maps),
    }


def test_findings_follow_the_outcome():
    said = " ".join(findings_of(tables_of()))
    assert "faint dot in the corner: Pointing Game 100.0%" in said
    assert "as in the paper. Accuracy 90.00% and 90.00%; all predictions are the same" in said
    assert "the raised weight does not change the Pointing Game" in said
    assert "Where a pixel speaks for the class, the hits follow from the zeros of the data" in said
    assert "(0.0% to 0.0%; splits: 1, test images in each: 40), as in the paper" in said
    assert "the box is 40.0%" in said
    other = " ".join(
        findings_of(tables_of(pointing_game=0.5, same_predictions=0.875, corner_first=0.25))
    )
    assert "not from 100.0 % to 0.0 % as in the paper" in other
    rounded = " ".join(findings_of(tables_of(pointing_game=0.0004, high=0.0004)))
    assert "100.0% (splits 100.0% to 100.0%) and 0.0% (0.0% to 0.0%;" in rounded
    assert "not from" not in rounded
    assert "in the worst split 87.50% of the predictions are the same" in other
    assert "The corner leads in 25.00% of images and classes" in other
    assert "the raised weight changes the Pointing Game" in other
    tables = tables_of()
    tables["penalties"].loc[0, "standard"] = 0.5
    assert "Not all of these images are hits" in " ".join(findings_of(tables))
