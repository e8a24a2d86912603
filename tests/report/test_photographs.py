"""Photographs beside their maps, and superpixels above them."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from attributionlab.report import to_png
from attributionlab.report.photographs import PhotographRow, photographs_figure

IMAGE = np.arange(18.0).reshape(3, 2, 3) / 18
MAPS = {"one": np.array([[2.0, 0.0, -4.0], [0.0, 0.0, 1.0]]), "zeros": np.zeros((2, 3))}
SEGMENTS = {"one": np.array([[0, 0, 1], [0, 2, 2]]), "zeros": np.zeros((2, 3), dtype=int)}
REGION = np.array([[True, False, False], [True, False, False]])


def lines_of(axis):
    return [c for c in axis.collections if isinstance(c, LineCollection)]


def test_maps_stand_beside_their_image_divided_by_their_largest_value():
    row = PhotographRow(IMAGE, MAPS, {"one": "note"})
    figure = photographs_figure([row, row], "title")
    axes = np.reshape(figure.axes[:6], (2, 3))
    assert [axis.get_title() for axis in axes[0]] == ["image", "one", "zeros"]
    for line in axes:
        assert np.array_equal(line[0].images[0].get_array(), np.moveaxis(IMAGE, 0, -1))
        assert np.array_equal(line[1].images[0].get_array(), MAPS["one"] / 4)
        assert np.array_equal(line[2].images[0].get_array(), MAPS["zeros"])
        assert [axis.get_xlabel() for axis in line] == ["", "note", ""]
        assert not lines_of(line[0])
    assert figure.get_suptitle() == "title"
    assert to_png(figure, dpi=40).startswith(b"\x89PNG")


def test_superpixels_stand_above_their_maps_and_the_object_is_outlined():
    row = PhotographRow(IMAGE, MAPS, {}, SEGMENTS, REGION)
    figure = photographs_figure([row], "title")
    above, below = np.reshape(figure.axes[:6], (2, 3))
    assert [axis.get_xlabel() for axis in above] == ["", "3 superpixels", "1 superpixel"]
    assert np.array_equal(below[1].images[0].get_array(), MAPS["one"] / 4)
    assert not below[0].axison
    [drawn] = lines_of(above[0])
    segments = {tuple(map(tuple, segment)) for segment in drawn.get_segments()}
    assert segments == {((0.5, -0.5), (0.5, 0.5)), ((0.5, 0.5), (0.5, 1.5))}
    assert figure.get_suptitle() == "title\n(outlined: the object)"


@pytest.mark.parametrize("channels", [1, 3])
def test_gray_and_color_are_drawn(channels):
    figure = photographs_figure([PhotographRow(IMAGE[:channels], MAPS, {})])
    assert to_png(figure, dpi=40).startswith(b"\x89PNG")
