"""Violins show the scores that they are given."""

import numpy as np
import pytest

from attributionlab.report import violins_figure


def scores(*f1):
    values = np.array(f1, dtype=float)
    return {"precision": values, "recall": values / 2, "f1": values / 4}


ROWS = {
    "overall": {"first": scores(0.2, 0.4, 0.9), "second": scores(1.0, 1.0)},
    "positive": {"second": scores(0.5, np.nan, 0.7)},
}


def bars(axis, position):
    """Smallest, mean and largest value of the violin at a position, from its three lines."""
    heights = []
    for lines in axis.collections:
        for segment in getattr(lines, "get_segments", list)():
            (x0, y0), (x1, y1) = segment
            if y0 == y1 and x0 < position < x1:
                heights.append(y0)
    return sorted(set(heights))


def test_a_row_for_each_part_and_a_column_for_each_score():
    figure = violins_figure(ROWS, 0.5, "title")
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == [f"{score}, {row}" for row in ROWS for score in ("precision", "recall", "F1")]
    labels = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert labels == ["first", "second"]
    assert figure.get_suptitle() == "title"


@pytest.mark.parametrize(("column", "divisor"), [(0, 1), (1, 2), (2, 4)])
def test_bars_are_smallest_mean_and_largest(column, divisor):
    axis = violins_figure(ROWS, 0.5).axes[column]
    assert bars(axis, 1) == pytest.approx([0.2 / divisor, 0.5 / divisor, 0.9 / divisor])


def test_a_constant_score_is_a_line_and_nan_is_left_out():
    figure = violins_figure(ROWS, 0.5)
    assert bars(figure.axes[0], 2) == pytest.approx([1.0])
    assert bars(figure.axes[3], 2) == pytest.approx([0.5, 0.6, 0.7])


def test_a_method_without_scores_in_a_row_leaves_its_place_empty():
    assert bars(violins_figure(ROWS, 0.5).axes[3], 1) == []


def test_the_f1_that_must_be_reached_is_drawn_in_the_column_of_f1_only():
    figure = violins_figure(ROWS, 0.65)
    for index, axis in enumerate(figure.axes):
        dashed = [line for line in axis.lines if line.get_linestyle() == "--"]
        assert [line.get_ydata()[0] for line in dashed] == ([0.65] if index % 3 == 2 else [])


def test_the_scores_of_many_methods_stand_below_each_other():
    many = {f"method {k}": ROWS["overall"]["first"] for k in range(17)}
    figure = violins_figure({"one": many, "two": many}, 0.5)
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == [
        f"{name}, {row}" for row in ("one", "two") for name in ("precision", "recall", "F1")
    ]
    left = {round(axis.get_position().x0, 3) for axis in figure.axes}
    assert len(left) == 1
