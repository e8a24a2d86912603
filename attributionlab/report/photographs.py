"""Photographs and signed maps of them, whose truth nobody knows."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attributionlab.report.figures import color_bar, show_image, show_map
from attributionlab.report.segments import draw_boundaries


class PhotographRow(NamedTuple):
    """One photograph and its maps.

    Parameters
    ----------
    image : ndarray, (C, H, W)
        In [0, 1].
    maps : mapping of str to ndarray, (H, W)
        Of either sign, by name; each is divided by its largest absolute value.
    notes : mapping of str to str
        What stands below a map.
    segments : mapping of str to ndarray, (H, W)
        The superpixels of maps, drawn above them; empty for maps without.
    region : ndarray, (H, W), optional
        Truth values: the object, which is outlined in the image.
    """

    image: NDArray[Any]
    maps: Mapping[str, NDArray[Any]]
    notes: Mapping[str, str]
    segments: Mapping[str, NDArray[Any]] = {}
    region: NDArray[np.bool_] | None = None


def photographs_figure(rows: Sequence[PhotographRow], title: str = "") -> Figure:
    """Images on the left, maps beside them, superpixels above their maps; all rows have the same maps.

    Parameters
    ----------
    rows : sequence of PhotographRow
        From top to bottom.
    title : str
        Above all.
    """
    names = list(rows[0].maps)
    lines = sum(1 + bool(row.segments) for row in rows)
    size = 1.55
    figure = Figure(figsize=(0.4 + size * (1 + len(names)), 1.5 + 1.13 * size * lines))
    figure.set_layout_engine("compressed")
    outlined = any(row.region is not None for row in rows)
    figure.suptitle(f"{title}\n(outlined: the object)" if outlined else title, fontsize=10)
    axes: Any = figure.subplots(lines, 1 + len(names), squeeze=False)
    for axis, name in zip(axes[0], ["image", *names], strict=True):
        axis.set_title("\n".join(textwrap.wrap(name, 18)), fontsize=9)
    line = 0
    for row in rows:
        if row.segments:
            _draw_segments(axes[line], row, names)
            axes[line + 1][0].set_axis_off()
        else:
            _draw_image(axes[line][0], row)
        line += bool(row.segments)
        for axis, name in zip(axes[line][1:], names, strict=True):
            values = row.maps[name]
            drawn = show_map(axis, values / (np.abs(values).max() or 1))
            axis.set_xlabel(row.notes.get(name, ""), fontsize=8)
        line += 1
    color_bar(figure, drawn, axes)
    return figure


def _draw_image(axis: Axes, row: PhotographRow) -> None:
    show_image(axis, row.image, 1)
    if row.region is not None:
        draw_boundaries(axis, row.region)


def _draw_segments(axes: Sequence[Axes], row: PhotographRow, names: Sequence[str]) -> None:
    _draw_image(axes[0], row)
    for axis, name in zip(axes[1:], names, strict=True):
        show_image(axis, row.image, 1)
        draw_boundaries(axis, row.segments[name])
        number = len(np.unique(row.segments[name]))
        axis.set_xlabel(f"{number} superpixel{'s' * (number != 1)}", fontsize=8)
