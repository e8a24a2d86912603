"""Images and maps with outlines: where lines run, what is circled, how maps are scaled."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from attributionlab.report import to_png
from attributionlab.report.boxed_maps import BoxedRow, boxed_images_figure, boxed_maps_figure


def row(values, name="map"):
    region = np.zeros((4, 5), dtype=bool)
    region[1:3, 2:4] = True
    return BoxedRow("label", np.full((1, 4, 5), 0.5), region, {name: values}, {name: "note"})


def lines_of(axis):
    casing, drawn = (each for each in axis.collections if isinstance(each, LineCollection))
    assert casing.get_linewidth() > drawn.get_linewidth()
    assert len(casing.get_segments()) == len(drawn.get_segments())
    return {tuple(map(tuple, segment.tolist())) for segment in drawn.get_segments()}


def test_lines_run_between_the_pixels_of_the_region_and_all_others():
    figure = boxed_maps_figure([row(np.eye(4, 5))], "title")
    expected = set()
    for x in (2, 3):
        expected |= {((x - 0.5, y), (x + 0.5, y)) for y in (0.5, 2.5)}
    for y in (1, 2):
        expected |= {((x, y - 0.5), (x, y + 0.5)) for x in (1.5, 3.5)}
    for axis in figure.axes[:2]:
        assert lines_of(axis) == expected
        assert axis.get_xlim() == (-0.6, 4.6)  # every pixel, and lines at the edges
        assert axis.get_ylim() == (3.6, -0.6)
    assert figure.get_suptitle() == "title"


def test_a_region_at_the_edge_is_closed():
    region = np.ones((1, 1), dtype=bool)
    figure = boxed_images_figure([np.ones((1, 1, 1))], [region], ["one"], "title", columns=1)
    assert len(lines_of(figure.axes[0])) == 4


def test_maps_are_divided_by_their_largest_absolute_value_and_the_largest_is_circled():
    values = np.zeros((4, 5))
    values[0, 1], values[3, 4] = -8.0, 4.0
    figure = boxed_maps_figure([row(values), row(np.zeros((4, 5)), "zeros")], "title")
    image, of_map, _ = figure.axes[:3]
    drawn = np.asarray(of_map.images[0].get_array())
    assert (drawn[0, 1], drawn[3, 4]) == (-1, 0.5)
    [circle] = of_map.lines
    assert (list(circle.get_xdata()), list(circle.get_ydata())) == ([4], [3])
    assert of_map.get_xlabel() == "note"
    assert image.get_ylabel() == "label"
    zeros = figure.axes[5]
    assert not zeros.lines  # twenty pixels share the largest value
    assert not figure.axes[4].axison  # no such map in this row
    assert len(to_png(figure)) > 1000


def test_up_to_eight_equal_values_are_circled():
    values = np.zeros((4, 5))
    values.flat[:8] = 1
    assert len(boxed_maps_figure([row(values)], "").axes[1].lines[0].get_xdata()) == 8
    values.flat[8] = 1
    assert not boxed_maps_figure([row(values)], "").axes[1].lines


@pytest.mark.parametrize("count", [1, 5, 6])
def test_images_fill_rows_and_what_is_left_is_empty(count):
    region = np.ones((2, 2), dtype=bool)
    images = [np.full((1, 2, 2), 0.5)] * count
    labels = [str(index) for index in range(count)]
    figure = boxed_images_figure(images, [region] * count, labels, "title")
    assert [axis.get_title() for axis in figure.axes[:count]] == labels
    assert len(figure.axes) == 5 * (1 + (count > 5))
    assert not any(axis.axison for axis in figure.axes[count:])
