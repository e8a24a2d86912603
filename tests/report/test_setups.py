"""Scores under several setups, and the best scores over accuracies."""

import math

from attributionlab.report.method_scores import ScoreDot
from attributionlab.report.setups import NetworkPoint, SetupPanel, setups_figure, tradeoff_figure

DOTS = {"ig": ScoreDot(0.5, 0.4, 0.6), "cam": ScoreDot(0.25, 0.25, 0.25)}


def drawn(axis):
    """Places of all dots, (x, y), in the order in which they were drawn."""
    places = [each.get_offsets() for each in axis.collections]
    return [tuple(map(float, each[0])) for each in places if len(each) == 1 and each.size == 2]


def test_a_method_has_one_row_in_all_panels_and_a_setup_its_place_in_it():
    panels = [
        SetupPanel("a", "score", {"one": DOTS, "two": {"ig": ScoreDot(0.75)}}),
        SetupPanel("b", "score", {"three": {"cam": ScoreDot(-0.5)}}),
    ]
    figure = setups_figure(panels, "all", bars="bars: intervals")
    first, second = figure.axes
    assert [each.get_text() for each in first.get_yticklabels()] == ["ig", "cam"]
    dots = [dot for dot in drawn(first) if not math.isnan(dot[0])]
    assert [x for x, _ in dots if x in (0.5, 0.25, 0.75)] == [0.5, 0.25, 0.75]
    heights = dict(dots)
    assert round(heights[0.5]) == round(heights[0.75]) == 0
    assert heights[0.5] < heights[0.75]  # the first setup above the second
    assert round(heights[0.25]) == 1
    assert any(x == -0.5 and round(y) == 1 for x, y in drawn(second))
    assert [each.get_text() for each in first.get_legend().get_texts()] == ["one", "two"]
    assert first.get_xlim() == second.get_xlim()
    assert figure.get_suptitle() == "all\nbars: intervals"


def test_bars_are_named_only_where_there_are_any():
    panel = SetupPanel("a", "score", {"one": {"ig": ScoreDot(0.5)}})
    assert setups_figure([panel], "all", bars="bars").get_suptitle() == "all"
    assert setups_figure([panel], "all").get_suptitle() == "all"


def test_networks_are_numbered_and_the_best_method_is_told_by_its_marker():
    points = {
        "plain": NetworkPoint(ScoreDot(0.8, 0.7, 0.9), ScoreDot(0.5, 0.4, 0.6), "ig"),
        "deep": NetworkPoint(ScoreDot(0.9), ScoreDot(0.25), "cam"),
    }
    figure = tradeoff_figure(points, "accuracy", "best", "title", bars="bars")
    [axis] = figure.axes
    assert {(0.8, 0.5), (0.9, 0.25)} <= set(drawn(axis))
    assert [each.get_text() for each in axis.texts] == ["1", "2"]
    [legend] = figure.legends
    assert [each.get_text() for each in legend.get_texts()] == [
        "best: ig",
        "best: cam",
        "1  plain",
        "2  deep",
    ]
    assert figure.get_suptitle() == "title\nbars"
