"""Dots of methods in panels."""

import numpy as np
from matplotlib.collections import PathCollection

from attributionlab.report.method_scores import ScoreDot, ScorePanel, method_scores_figure

DOTS = {"a": ScoreDot(0.5, 0.25, 0.75), "b": ScoreDot(-0.5, np.nan, np.nan)}


def dots_of(axis):
    return [each for each in axis.collections if isinstance(each, PathCollection)]


def test_each_method_has_its_row_and_each_condition_its_color():
    panels = [
        ScorePanel("left", "score\n(higher is better)", {"one": DOTS}),
        ScorePanel("right", "score\n(higher is better)", {"one": DOTS, "two": {"b": DOTS["a"]}}),
    ]
    figure = method_scores_figure([panels], ["a", "b"], "title")
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["a", "b"]
    assert left.get_ylim()[0] > left.get_ylim()[1]  # the first method is on top
    dots = dots_of(right)
    points = [each.get_offsets().tolist() for each in dots]
    assert [[x for x, _ in each] for each in points] == [[0.5, -0.5], [0.5]]
    assert [[round(y) for _, y in each] for each in points] == [[0, 1], [1]]
    assert [each.get_text() for each in figure.legends[0].get_texts()] == ["one", "two"]


def test_one_condition_needs_no_legend_and_stands_in_the_middle_of_its_row():
    figure = method_scores_figure([[ScorePanel("only", "score", {"one": DOTS})]], ["a", "b"], "t")
    assert not figure.legends
    [axis] = figure.axes
    [dots] = dots_of(axis)
    assert [y for _, y in dots.get_offsets().tolist()] == [0, 1]
