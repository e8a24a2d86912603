"""Panels of scores: what is drawn, in which color, and how far the axes reach."""

import numpy as np
from matplotlib.colors import to_hex

from attributionlab.report.metric_panels import MetricLine, MetricPanel, metric_panels_figure
from attributionlab.report.palette import LINE_COLORS

X = np.array([0.2, 0.8])


def panel(**lines):
    return MetricPanel("A title " * 20, "level", "soundness (higher is better)", lines)


def test_a_name_has_one_color_in_all_panels_and_truth_is_dashed():
    truth = MetricLine(X, X, np.array([0.1, np.nan]), 1 - X)
    figure = metric_panels_figure(
        [[panel(a=truth, b=MetricLine(X, 1 - X))], [panel(b=MetricLine(X, X))]], "T", truth="true"
    )
    first, second = figure.axes
    dashed, solid, other = [line for line in first.lines if line.get_linestyle() != "None"][:3]
    assert dashed.get_linestyle() == "--"
    assert dashed.get_ydata().tolist() == (1 - X).tolist()
    assert {to_hex(line.get_color()) for line in (dashed, solid)} == {LINE_COLORS[0]}
    assert to_hex(other.get_color()) == LINE_COLORS[1]
    [again] = [line for line in second.lines if line.get_linestyle() != "None"]
    assert to_hex(again.get_color()) == LINE_COLORS[1]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "true"]
    assert solid.get_linewidth() > other.get_linewidth()


def test_axes_hold_the_unit_interval_and_what_lies_beyond():
    inside, beyond = (
        metric_panels_figure([[panel(a=MetricLine(X * scale, X * scale))]], "").axes[0]
        for scale in (1, 3)
    )
    assert inside.get_xlim()[0] < 0 < 1 < inside.get_xlim()[1] < 1.1
    assert inside.get_ylim()[0] < 0 < 1 < inside.get_ylim()[1] < 1.1
    assert beyond.get_xlim()[1] > 2.4
    assert beyond.get_ylim()[1] > 2.4


def test_titles_are_broken_into_lines_and_an_axis_without_points_is_drawn():
    none = np.array([])
    figure = metric_panels_figure([[panel(a=MetricLine(none, none))]], "word " * 60)
    assert figure.get_suptitle().count("\n") > 1
    assert figure.axes[0].get_title().count("\n") > 1
