"""Superpixels and what they lead to, side by side (AttributionLab, Fig. 24)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from attributionlab.report.figures import SIGNED

__all__ = ["SegmentationColumn", "segmentation_figure"]

BOUNDARY = "#ffd54a"  # light, against the dark images; no color of the signed maps


class SegmentationColumn(NamedTuple):
    """One segmentation and the attribution that came of it."""

    title: str
    labels: Int[np.ndarray, "height width"]
    attribution: Float[np.ndarray, "height width"]
    """In [-1, 1]."""
    caption: str
    """Below the attribution, such as "F1 0.61"."""


def segmentation_figure(
    image: Float[np.ndarray, "channels height width"],
    truth: Int[np.ndarray, "height width"],
    columns: Sequence[SegmentationColumn],
    highest: float = 255.0,
) -> Figure:
    """Above the image with the boundaries of superpixels, below the truth and the attributions.

    Parameters
    ----------
    image : ndarray, (C, H, W)
        In [0, `highest`].
    truth : ndarray, (H, W)
        Of -1, 0 and 1.
    columns : sequence of SegmentationColumn
        From left to right, behind the image and the truth.
    highest : float
        The largest value that a pixel can have.
    """
    count = 1 + len(columns)
    figure = Figure(figsize=(2.3 * count + 0.4, 5.8), layout="constrained")
    upper, lower = figure.subplots(2, count, squeeze=False)
    shown = np.moveaxis(image, 0, -1) / highest
    for axis in upper:
        if shown.shape[-1] == 1:
            axis.imshow(shown[..., 0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        else:
            axis.imshow(shown, interpolation="nearest")
    upper[0].set_title("image", fontsize=10)
    lower[0].set_title("ground truth", fontsize=10)
    drawn = _map(lower[0], truth)
    for above, below, column in zip(upper[1:], lower[1:], columns, strict=True):
        _boundaries(above, column.labels)
        number = len(np.unique(column.labels))
        above.set_title(f"{column.title}\n{number} superpixels", fontsize=10)
        below.set_title("attribution", fontsize=10)
        below.set_xlabel(column.caption, fontsize=10)
        _map(below, column.attribution)
    for axis in (*upper, *lower):
        axis.set_xticks([])
        axis.set_yticks([])
    bar = figure.colorbar(
        drawn, ax=lower, location="bottom", shrink=0.5, aspect=40, ticks=[-1, 0, 1]
    )
    bar.ax.set_xticklabels(["-1: lowers the output", "0", "+1: raises the output"], fontsize=8)
    return figure


def _map(axis: Axes, values: np.ndarray) -> object:
    return axis.imshow(values, cmap=SIGNED, vmin=-1, vmax=1, interpolation="nearest")


def _boundaries(axis: Axes, labels: np.ndarray) -> None:
    """Lines between the pixels of different superpixels, which hide no pixel."""
    rows, columns = np.nonzero(labels[:, 1:] != labels[:, :-1])
    upright = [[(x + 0.5, y - 0.5), (x + 0.5, y + 0.5)] for y, x in zip(rows, columns, strict=True)]
    rows, columns = np.nonzero(labels[1:] != labels[:-1])
    level = [[(x - 0.5, y + 0.5), (x + 0.5, y + 0.5)] for y, x in zip(rows, columns, strict=True)]
    axis.add_collection(LineCollection(upright + level, colors=BOUNDARY, linewidths=0.5))
