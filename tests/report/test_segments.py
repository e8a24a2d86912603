"""The figure of segmentations shows image, boundaries, truth and attributions."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from attributionlab.report import to_png
from attributionlab.report.segments import segmentation_figure

LABELS = np.array([[0, 0, 1], [0, 2, 2]])
ATTRIBUTION = np.array([[0.5, 0.5, -1.0], [0.5, 1.0, 1.0]])
TRUTH = np.array([[1, 0, -1], [0, 1, 1]])


@pytest.mark.parametrize("channels", [1, 3])
def test_everything_is_drawn_where_it_belongs(channels):
    image = np.arange(channels * 6.0).reshape(channels, 2, 3) * 10
    columns = [
        ("grid", LABELS, ATTRIBUTION, "F1 0.61"),
        ("one", np.zeros((2, 3), dtype=int), -ATTRIBUTION, "F1 0.20"),
    ]
    figure = segmentation_figure(image, 200, TRUTH, columns)
    upper, lower = np.reshape(figure.axes[:6], (2, 3))
    shown = image[0] / 200 if channels == 1 else np.moveaxis(image, 0, -1) / 200
    for axis in upper:
        assert np.array_equal(axis.images[0].get_array(), shown)
    for axis, values in zip(lower, (TRUTH, ATTRIBUTION, -ATTRIBUTION), strict=True):
        assert np.array_equal(axis.images[0].get_array(), values)
        assert axis.images[0].get_clim() == (-1, 1)
    titles = ["image", "grid\n3 superpixels", "one\n1 superpixel"]
    assert [axis.get_title() for axis in upper] == titles
    assert [axis.get_title() for axis in lower] == ["ground truth", "attribution", "attribution"]
    assert [axis.get_xlabel() for axis in lower] == ["", "F1 0.61", "F1 0.20"]
    ticks = [label.get_text() for label in figure.axes[6].get_xticklabels()]
    assert ticks == ["-1: lowers the output", "0", "+1: raises the output"]
    assert to_png(figure, dpi=40).startswith(b"\x89PNG")


def test_boundaries_run_between_the_pixels_of_different_superpixels():
    columns = [("grid", LABELS, ATTRIBUTION, "")]
    figure = segmentation_figure(np.zeros((3, 2, 3)), 255, TRUTH, columns)
    (lines,) = (c for c in figure.axes[1].collections if isinstance(c, LineCollection))
    drawn = {tuple(map(tuple, segment)) for segment in lines.get_segments()}
    assert drawn == {
        ((1.5, -0.5), (1.5, 0.5)),  # between 0 and 1 in the first row
        ((0.5, 0.5), (0.5, 1.5)),  # between 0 and 2 in the second
        ((0.5, 0.5), (1.5, 0.5)),  # 0 above 2
        ((1.5, 0.5), (2.5, 0.5)),  # 1 above 2
    }
    assert not figure.axes[0].collections
