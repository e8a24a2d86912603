"""Curves with bands: what is drawn, where, and in which look."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from attributionlab.report.decays import DecayPanel, decays_figure

X = np.array([0.0, 0.5, 1.0])


def panel(lines, **settings):
    return DecayPanel("title", "x", "y", X, lines, **settings)


def line(*heights):
    return np.array(heights), np.full(len(heights), 0.25)


def test_a_name_looks_alike_in_every_panel_and_bold_ones_are_wider():
    rows = [[panel({"a": line(0, -1, -2), "b": line(0, -2, -3)}), panel({"b": line(0, 0, -1)})]]
    figure = decays_figure(rows, "all", bold=["b"])
    first, second = figure.axes
    a, b = first.lines
    [alone] = second.lines
    assert (b.get_color(), b.get_linestyle()) == (alone.get_color(), alone.get_linestyle())
    assert to_hex(a.get_color()) != to_hex(b.get_color())
    assert b.get_linewidth() > a.get_linewidth()
    assert a.get_ydata().tolist() == [0, -1, -2]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]


def test_what_is_not_finite_is_left_out_and_bands_are_a_standard_error_wide():
    [axis] = decays_figure([[panel({"a": line(0, -1, -np.inf)})]], "").axes
    assert axis.lines[0].get_xdata().tolist() == [0, 0.5]
    [band] = axis.collections
    corners = band.get_paths()[0].vertices
    assert {0.25, -0.25, -0.75, -1.25} == set(corners[:, 1])


def test_a_floor_cuts_panels_off_and_zero_is_marked():
    deep = {"a": line(0, -1, -30)}
    [axis] = decays_figure([[panel(deep, floor=-4, zero=True)]], "").axes
    assert axis.get_ylim()[0] == -4
    assert axis.lines[-1].get_ydata() == [0, 0]
    [free] = decays_figure([[panel(deep)]], "").axes
    assert free.get_ylim()[0] < -30


def test_shares_reach_from_0_to_1_over_sizes_in_logarithms():
    sizes = np.array([0.01, 0.1, 0.3])
    shown = panel({"a": line(0.25, 0.5, 0.5)}, shares=True)._replace(x=sizes)
    [axis] = decays_figure([[shown]], "").axes
    assert axis.get_xscale() == "log"
    assert axis.get_ylim() == pytest.approx((-0.03, 1.03))
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["0.01", "0.1", "0.3"]


def test_places_without_a_panel_in_the_last_row_stay_empty():
    one = panel({"a": line(0, -1, -2)})
    figure = decays_figure([[one, one], [one]], "")
    assert [axis.axison for axis in figure.axes] == [True, True, True, False]


def test_the_axis_ends_a_margin_above_what_is_drawn_above_the_floor():
    [axis] = decays_figure([[panel({"a": line(0, -1, -30)}, floor=-4)]], "", bands=()).axes
    assert axis.get_ylim() == pytest.approx((-4, 0.05 * 4))
    assert not axis.collections


def test_nine_names_have_nine_colors_and_markers():
    shown = panel({str(each): line(0, -each, -9) for each in range(9)})
    [axis] = decays_figure([[shown]], "", bands=["3"]).axes
    assert len({to_hex(each.get_color()) for each in axis.lines}) == 9
    assert len({each.get_marker() for each in axis.lines}) == 9
    [band] = axis.collections
    assert to_hex(band.get_facecolor()[0]) == to_hex(axis.lines[3].get_color())
