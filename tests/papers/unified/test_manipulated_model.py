"""100 % to 0 % by one weight: what the run measures, and what it says of other outcomes."""

import pytest

from attributionlab import AttributionLabError
from attributionlab.papers import reproduce
from attributionlab.papers.catalog import Run
from attributionlab.papers.subjects.drawn_pictures import boxes_of
from attributionlab.papers.unified import manipulated_model
from attributionlab.papers.unified.manipulated_model import (
    DOT,
    INK,
    MANIPULATED,
    NORMALIZED,
    RANDOM,
    STANDARD,
    sparse_linear_model,
)

TABLE = "unified-table-3"


@pytest.fixture(scope="module")
def outcome():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manipulated_model, "PENALTIES", (0.1,))
        return sparse_linear_model(Run(TABLE, n=40), splits=1)


def test_one_weight_takes_the_pointing_game_from_1_to_0_and_no_answer_changes(outcome):
    table = outcome.tables["table-3"].set_index(["values", "model"])
    for values in (DOT, NORMALIZED):
        before, after = table.loc[(values, "standard")], table.loc[(values, "manipulated")]
        assert (before.pointing_game, after.pointing_game) == (1, 0)
        assert (before.predicted_class, after.predicted_class) == (1, 0)
        assert before.accuracy == after.accuracy > 0.8  # chance is 0.1
        assert (before.corner_first, after.corner_first) == (0, 1)
        assert after.same_predictions == 1


def test_one_weight_of_100_is_not_0_any_more(outcome):
    weights = outcome.tables["splits"].set_index(["values", "model"]).weights
    for values in (DOT, NORMALIZED):
        # Of every class; shares are rounded to 2^-53.
        more = weights[values, MANIPULATED] - weights[values, STANDARD]
        assert more == pytest.approx(1 / 100, abs=2**-50)


def test_where_the_corner_is_0_the_weight_changes_nothing(outcome):
    table = outcome.tables["table-3"].set_index(["values", "model"])
    before, after = table.loc[(INK, "standard")], table.loc[(INK, "manipulated")]
    assert before.drop("splits").tolist() == after.drop("splits").tolist()


def test_maps_that_know_nothing_hit_too(outcome):
    maps = outcome.tables["maps"].set_index(["values", "attribution"])
    assert maps.pointing_game[INK, "random weights * x"] == 1
    assert maps.pointing_game[DOT, "x itself"] == 1
    assert 0.3 < maps.box.iloc[0] < 0.7


def test_the_figures_have_the_digits_and_their_boxes(outcome):
    assert list(outcome.figures) == ["maps", "boxes"]
    assert len(outcome.figures["boxes"].axes) >= 9
    assert "digit 7" in outcome.figures["maps"].get_suptitle()
    _, test = manipulated_model.digits_split(40, 0)
    for (top, left, bottom, right), box in zip(
        [boxes_of(each)[0] for each in test.boxes[:, 0]], test.boxes[:, 0], strict=True
    ):
        assert box[top:bottom, left:right].all()
        assert box.sum() == (bottom - top) * (right - left)


def test_more_images_than_there_are_are_refused():
    with pytest.raises(AttributionLabError, match=r"n is 601: .* 1 to 600"):
        reproduce(TABLE, n=601)


AGREE = ["agrees"] * 6


@pytest.mark.parametrize(
    ("table", "row", "value", "claim"),
    [
        ("table-3", {"values": DOT, "model": MANIPULATED}, {"pointing_game": 0.001}, 0),
        ("table-3", {"values": NORMALIZED, "model": STANDARD}, {"pointing_game": 0.999}, 0),
        ("table-3", {"values": DOT, "model": MANIPULATED}, {"same_predictions": 0.875}, 1),
        ("table-3", {"values": NORMALIZED, "model": MANIPULATED}, {"corner_first": 0.25}, 2),
        ("table-3", {"values": INK, "model": MANIPULATED}, {"pointing_game": 0.5}, 3),
        ("penalties", {"values": INK}, {"standard": 0.5}, 4),
        ("maps", {"values": INK, "attribution": RANDOM}, {"pointing_game": 0.5}, 5),
    ],
)
def test_claims_follow_the_tables(outcome, answers, table, row, value, claim):
    assert answers(TABLE, outcome.tables) == AGREE
    changed = outcome.tables[table].copy()
    chosen = (changed[list(row)] == list(row.values())).all(axis=1)
    changed.loc[chosen, list(value)] = list(value.values())
    expected = [*AGREE[:claim], "differs", *AGREE[claim + 1 :]]
    assert answers(TABLE, {**outcome.tables, table: changed}) == expected


def test_what_is_printed_as_0_agrees_with_the_papers_0(outcome, answers):
    table = outcome.tables["table-3"]
    small = table.assign(pointing_game=table.pointing_game.where(table.pointing_game > 0, 0.0004))
    assert answers(TABLE, {**outcome.tables, "table-3": small}) == AGREE
