"""Superpixels and what they lead to, side by side."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attributionlab.report.figures import color_bar, show_image, show_map

BOUNDARY = "#ffd54a"  # light, against dark images
Column = tuple[str, NDArray[Any], NDArray[Any], str]


def segmentation_figure(
    image: NDArray[Any], highest: int, truth: NDArray[Any], columns: Sequence[Column]
) -> Figure:
    """Above the image with the boundaries of superpixels, below the truth and the attributions.

    The arrangement of AttributionLab's Fig. 24.

    Parameters
    ----------
    image : ndarray, (C, H, W)
        In [0, `highest`].
    highest : int
        The largest value that a pixel can have.
    truth : ndarray, (H, W)
        Of -1, 0 and 1.
    columns : sequence of (title, labels, attribution, caption)
        Behind the image and the truth, from left to right: superpixels (H, W) under their title, and
        below them the attribution (H, W) in [-1, 1] with its caption, such as "F1 0.61".
    """
    count = 1 + len(columns)
    figure = Figure(figsize=(2.3 * count + 0.4, 6.4), layout="compressed")
    upper, lower = figure.subplots(2, count, squeeze=False)
    for axis in upper:
        show_image(axis, image, highest)
    upper[0].set_title("image", fontsize=10)
    lower[0].set_title("ground truth", fontsize=10)
    drawn = show_map(lower[0], truth)
    for above, below, (title, labels, attribution, caption) in zip(
        upper[1:], lower[1:], columns, strict=True
    ):
        draw_boundaries(above, labels)
        number = len(np.unique(labels))
        above.set_title(f"{title}\n{number} superpixel{'s' * (number != 1)}", fontsize=10)
        below.set_title("attribution", fontsize=10)
        below.set_xlabel(caption, fontsize=10)
        show_map(below, attribution)
    color_bar(figure, drawn, lower, shrink=0.5)
    return figure


def draw_boundaries(axis: Axes, labels: NDArray[Any]) -> None:
    """Lines between the pixels of different superpixels, which hide no pixel."""
    rows, columns = np.nonzero(labels[:, 1:] != labels[:, :-1])
    upright = [[(x + 0.5, y - 0.5), (x + 0.5, y + 0.5)] for y, x in zip(rows, columns, strict=True)]
    rows, columns = np.nonzero(labels[1:] != labels[:-1])
    level = [[(x - 0.5, y + 0.5), (x + 0.5, y + 0.5)] for y, x in zip(rows, columns, strict=True)]
    axis.add_collection(LineCollection(upright + level, colors=BOUNDARY, linewidths=0.5))
