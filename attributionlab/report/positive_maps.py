"""Images and non-negative maps of several methods, side by side."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

COLORS = "cividis"
"""Darker for less, in every color vision."""


class PositiveMapsRow(NamedTuple):
    """One image and its maps.

    Parameters
    ----------
    image : ndarray, (C, H, W)
        In [0, 1].
    maps : mapping of str to ndarray, (H, W)
        In [0, 1], by name.
    """

    image: NDArray[Any]
    maps: Mapping[str, NDArray[Any]]


def positive_maps_figure(rows: Sequence[PositiveMapsRow], title: str = "") -> Figure:
    """Images on the left, one column for each name; maps of zeros are marked as empty."""
    names = list(dict.fromkeys(name for row in rows for name in row.maps))
    width = 0.4 + 1.35 * (1 + len(names))
    figure = Figure(figsize=(width, 2.0 + 1.35 * len(rows)), layout="compressed")
    figure.suptitle(title, fontsize=10)
    axes: Any = figure.subplots(len(rows), 1 + len(names), squeeze=False)
    for axis, name in zip(axes[0], ["image", *names], strict=True):
        axis.set_title("\n".join(textwrap.wrap(name.replace("-", " "), 16)), fontsize=8)
    drawn = None
    for row, (image_axis, *map_axes) in zip(rows, axes, strict=True):
        shown = np.moveaxis(row.image, 0, -1)
        gray = shown.shape[-1] == 1
        image_axis.imshow(
            shown[..., 0] if gray else shown, cmap="gray", vmin=0, vmax=1, interpolation="nearest"
        )
        image_axis.set(xticks=[], yticks=[])
        for axis, name in zip(map_axes, names, strict=True):
            axis.set(xticks=[], yticks=[])
            if name not in row.maps:
                axis.set_axis_off()
                continue
            values = row.maps[name]
            drawn = axis.imshow(values, cmap=COLORS, vmin=0, vmax=1, interpolation="nearest")
            if not values.any():
                axis.text(
                    *(0.5, 0.5, "empty"),
                    transform=axis.transAxes,
                    color="white",
                    fontsize=8,
                    ha="center",
                    va="center",
                )
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=axes, location="bottom", shrink=0.5, aspect=40)
        bar.set_label("attribution, share of the map's maximum", fontsize=8)
        bar.ax.tick_params(labelsize=8)
    return figure
