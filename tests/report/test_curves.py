"""Curves show the means that they are given, and each method always looks the same."""

from itertools import pairwise

import numpy as np
import pytest

from attributionlab.report import CurvePanel, curves_figure

X = np.array([0.0, 0.5, 1.0])


def panel(title, **curves):
    arrays = {name: np.array(values, dtype=float) for name, values in curves.items()}
    return CurvePanel(title, "fraction", "output", X, arrays)


def look(line):
    return line.get_color(), line.get_linestyle(), line._dash_pattern


ROWS = [
    [
        panel("a", first=[[0, 1, 2], [2, 1, 4], [4, 1, 3]]),
        panel("b", first=[[1, 1, 1]], second=[[0, 0, 0]]),
    ],
    [panel("c", second=[[5, 5, 5]]), panel("d", third=[[1, 2, 3]])],
]


def test_lines_are_means_and_bands_run_from_the_least_to_the_largest():
    axis = curves_figure(ROWS).axes[0]
    [line] = axis.lines
    assert list(line.get_xdata()) == list(X)
    assert list(line.get_ydata()) == [2, 1, 3]
    [band] = axis.collections
    heights = band.get_paths()[0].vertices
    assert {tuple(point) for point in heights} >= {(0, 0), (0, 4), (0.5, 1), (1, 2), (1, 4)}


def test_panels_are_in_order_and_labelled():
    figure = curves_figure(ROWS, "title")
    assert [axis.get_title() for axis in figure.axes] == ["a", "b", "c", "d"]
    assert {axis.get_xlabel() for axis in figure.axes} == {"fraction"}
    assert {axis.get_ylabel() for axis in figure.axes} == {"output"}
    assert figure.get_suptitle().splitlines()[0] == "title"


def test_a_method_looks_the_same_in_every_panel_and_in_the_legend():
    figure = curves_figure(ROWS)
    first, both, second, third = (axis.lines for axis in figure.axes)
    assert look(first[0]) == look(both[0])
    assert look(second[0]) == look(both[1])
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["first", "second", "third"]
    drawn = [first[0], second[0], third[0]]
    assert [look(line)[0] for line in legend.get_lines()] == [line.get_color() for line in drawn]


def test_twenty_eight_methods_all_look_different():
    curves = {f"method {i}": [[i, i, i]] for i in range(28)}
    [axis] = curves_figure([[panel("many", **curves)]]).axes
    assert len({str(look(line)) for line in axis.lines}) == 28
    for line, following in pairwise(axis.lines):
        assert look(line)[0] != look(following)[0]
        assert look(line)[1:] != look(following)[1:]


def test_lines_that_lie_on_each_other_can_be_told_apart_by_their_width():
    alike = {name: [[1, 1, 1]] for name in "abc"}
    apart = {name: [[i, 1, 1]] for i, name in enumerate("abc")}
    axis, _ = curves_figure([[panel("same", **alike), panel("different", **apart)]]).axes
    widths = [line.get_linewidth() for line in axis.lines]
    assert widths == sorted(set(widths), reverse=True)


def test_lines_that_coincide_in_all_panels_are_drawn_once_under_all_names():
    nan = np.nan
    first = {
        "a": [[0, 5, nan]],
        "b": [[0, 4, nan], [0, 6, nan]],
        "c": [[0, 5, 5]],
        "d": [[9, 5, 0]],
    }
    second = {"a": [[1, 2, 3]], "b": [[1, 2, 3]], "c": [[1, 2, 3]], "d": [[0, 0, 0]]}
    figure = curves_figure([[panel("first", **first), panel("second", **second)]])
    assert [len(axis.lines) for axis in figure.axes] == [3, 3]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a =\nb", "c", "d"]


@pytest.mark.parametrize(("apart", "lines"), [(0.001, 1), (0.003, 2)])
def test_lines_coincide_when_they_cannot_be_told_apart_in_a_panel_of_this_height(apart, lines):
    curves = {"a": [[0, 100, 100]], "b": [[0, 100, 100 * (1 - apart)]]}
    [axis] = curves_figure([[panel("close", **curves)]]).axes
    assert len(axis.lines) == lines


@pytest.mark.parametrize(("count", "bands"), [(6, 6), (7, 0)])
def test_only_few_curves_have_bands_and_the_title_says_so(count, bands):
    curves = {f"method {i}": [[i, i, i], [i, i, i + 1]] for i in range(count)}
    figure = curves_figure([[panel("many", **curves)]])
    [axis] = figure.axes
    assert len(axis.collections) == bands
    said = (
        "bands: from the least to the largest" if bands else "no bands, since there are more than 6"
    )
    assert said in figure.get_suptitle().replace("\n", " ")


def test_a_panel_is_gray_where_all_its_curves_have_ended():
    ended = [[1, 2, np.nan]]
    [axis] = curves_figure([[panel("ended", a=ended, b=[[0, np.nan, np.nan]])]]).axes
    [gray] = axis.patches
    outline = gray.get_path().transformed(gray.get_patch_transform())  # polygon or rectangle
    assert outline.get_extents().intervalx.tolist() == [0.5, 1]
    assert [text.get_text() for text in axis.texts] == ["not defined"]
    [axis] = curves_figure([[panel("whole", a=ended, b=[[0, 1, 2]])]]).axes
    assert not axis.patches


@pytest.mark.filterwarnings("error")
def test_what_is_not_known_is_left_out():
    unknown = [[np.nan, 1, np.nan], [np.nan, 1, 4], [np.nan, 4, 6]]
    [axis] = curves_figure([[panel("gaps", some=unknown, none=[[np.nan] * 3])]]).axes
    [line] = axis.lines
    assert list(line.get_xdata()) == [0.5, 1]
    assert list(line.get_ydata()) == [2, 5]
