"""Images and signed maps with the boxes that a localization metric looks into."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from attributionlab.report.figures import color_bar, show_image, show_map

INK, CASING = "#000000", "#ffffff"
THIN, WIDE = 1.4, 3.2
"""Black lines in white ones: to be seen on dark images and on pale maps."""
MOST_CIRCLES = 8


class BoxedRow(NamedTuple):
    """One image with its maps.

    Parameters
    ----------
    label : str
        What stands beside it.
    image : ndarray, (C, H, W)
        In [0, 1].
    region : ndarray of bool, (H, W)
        What is outlined on the image and on all maps.
    maps : mapping of str to ndarray, (H, W)
        Signed, of any scale, by name.
    notes : mapping of str to str
        What stands below a map, by name.
    """

    label: str
    image: NDArray[Any]
    region: NDArray[np.bool_]
    maps: Mapping[str, NDArray[Any]]
    notes: Mapping[str, str] = {}


def boxed_maps_figure(rows: Sequence[BoxedRow], title: str) -> Figure:
    """Images on the left, a column for each name; circles mark the largest value of a map.

    Each map is divided by its largest absolute value. Where more than eight pixels share the largest
    one, it has no circle.

    Parameters
    ----------
    rows : sequence of BoxedRow
        From top to bottom.
    title : str
        Above all.
    """
    names = list(dict.fromkeys(name for row in rows for name in row.maps))
    width = 0.6 + 2.0 * (1 + len(names))
    figure = Figure(figsize=(width, 1.9 + 2.2 * len(rows)), layout="constrained")
    figure.suptitle("\n".join(textwrap.wrap(title, int(12 * width))), fontsize=10)
    axes: Any = figure.subplots(len(rows), 1 + len(names), squeeze=False)
    for axis, name in zip(axes[0], ["image", *names], strict=True):
        axis.set_title("\n".join(textwrap.wrap(name, 24)), fontsize=9)
    for row, (image_axis, *map_axes) in zip(rows, axes, strict=True):
        show_image(image_axis, row.image, 1)
        image_axis.set_ylabel("\n".join(textwrap.wrap(row.label, 28)), fontsize=8)
        _outline(image_axis, row.region)
        for axis, name in zip(map_axes, names, strict=True):
            if name not in row.maps:
                axis.set_axis_off()
                continue
            values = np.asarray(row.maps[name], dtype=float)
            drawn = show_map(axis, values / (np.abs(values).max() or 1))
            _outline(axis, row.region)
            _circle(axis, values)
            axis.set_xlabel(row.notes.get(name, ""), fontsize=8)
    color_bar(figure, drawn, axes)
    return figure


def boxed_images_figure(
    images: Sequence[NDArray[Any]],
    regions: Sequence[NDArray[np.bool_]],
    labels: Sequence[str],
    title: str,
    columns: int = 5,
) -> Figure:
    """Images (C, H, W) in [0, 1] in rows of some columns, a region (H, W) outlined on each."""
    lines = -(-len(images) // columns)
    figure = Figure(figsize=(0.3 + 1.6 * columns, 0.7 + 1.8 * lines), layout="constrained")
    figure.suptitle(title, fontsize=10)
    axes: Any = figure.subplots(lines, columns, squeeze=False)
    for axis in axes.flat[len(images) :]:
        axis.set_axis_off()
    for axis, image, region, label in zip(axes.flat, images, regions, labels, strict=False):
        show_image(axis, image, 1)
        _outline(axis, region)
        axis.set_title(label, fontsize=9)
    return figure


def _outline(axis: Axes, region: NDArray[np.bool_]) -> None:
    """Lines between the pixels of a region and all others."""
    height, width = region.shape
    padded = np.pad(region, 1)
    places = [
        (row, column, row, column + 1)
        for row, column in np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1])
    ] + [
        (row, column, row + 1, column)
        for row, column in np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1])
    ]
    lines = [
        ((left - 0.5, top - 0.5), (right - 0.5, bottom - 0.5))
        for top, left, bottom, right in places
    ]
    for color, thickness in ((CASING, WIDE), (INK, THIN)):  # all white lines below all black ones
        axis.add_collection(
            LineCollection(lines, colors=color, linewidths=thickness, capstyle="projecting")
        )
    axis.set(xlim=(-0.6, width - 0.4), ylim=(height - 0.4, -0.6))


def _circle(axis: Axes, values: NDArray[Any]) -> None:
    """Around each pixel that shares the largest value, unless these are many."""
    rows, columns = np.nonzero(values == values.max())
    if len(rows) <= MOST_CIRCLES:
        axis.plot(
            *(columns, rows, "o"),
            markersize=9,
            markerfacecolor="none",
            markeredgecolor=INK,
            path_effects=[withStroke(linewidth=WIDE, foreground=CASING)],
        )
