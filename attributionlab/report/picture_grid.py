"""Pictures and maps in rows with a name each: one column for each image."""

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

SEQUENTIAL, DIVERGING = "cividis", "RdBu_r"
"""Of maps without and with negative values; both can be told apart in every color vision."""
CELL, NAMES = 1.3, 1.9
"""Side of a picture and width of the names, in inches."""


class GridRow(NamedTuple):
    """One row.

    Parameters
    ----------
    name : str
        At its left.
    cells : sequence of ndarray
        Pictures (C, H, W) in [0, 1], or maps (H, W), each of which is divided by its own largest
        magnitude.
    notes : sequence of str
        Below each cell; may be empty.
    """

    name: str
    cells: Sequence[NDArray[Any]]
    notes: Sequence[str] = ()


def picture_grid_figure(rows: Sequence[GridRow], title: str, *, signed: bool = False) -> Figure:
    """Rows of pictures and maps, and one scale for all maps.

    Parameters
    ----------
    rows : sequence of GridRow
        From top to bottom, equally long.
    title : str
        Above all.
    signed : bool
        Whether maps have either sign: their colors then meet at 0.
    """
    columns = len(rows[0].cells)
    width = max(NAMES + CELL * columns, 6.5)
    scale = 1.0 if any(cell.ndim == 2 for row in rows for cell in row.cells) else 0.0
    height = 0.5 + scale + (CELL + (0.22 if rows[-1].notes else 0.05)) * len(rows)
    figure = Figure(figsize=(width, height), layout="compressed")
    figure.suptitle(
        "\n".join(textwrap.fill(line, int(13 * width)) for line in title.splitlines()), fontsize=10
    )
    axes: Any = figure.subplots(len(rows), columns, squeeze=False)
    drawn = None
    for row, of_row in zip(rows, axes, strict=True):
        of_row[0].set_ylabel(
            textwrap.fill(row.name, 18), fontsize=9, rotation=0, ha="right", va="center", labelpad=8
        )
        for index, (axis, cell) in enumerate(zip(of_row, row.cells, strict=True)):
            axis.set(xticks=[], yticks=[])
            if row.notes:
                axis.set_xlabel(row.notes[index], fontsize=8, labelpad=2)
            if cell.ndim == 3:
                shown = np.moveaxis(cell, 0, -1)
                gray = shown.shape[-1] == 1
                axis.imshow(
                    shown[..., 0] if gray else shown.clip(0, 1),
                    **{"cmap": "gray", "vmin": 0, "vmax": 1} if gray else {},
                    interpolation="nearest",
                )
            else:
                drawn = axis.imshow(
                    cell / (np.abs(cell).max() or 1),
                    cmap=DIVERGING if signed else SEQUENTIAL,
                    vmin=-1 if signed else 0,
                    vmax=1,
                    interpolation="nearest",
                )
                if not cell.any():
                    axis.text(
                        *(0.5, 0.5, "empty"),
                        transform=axis.transAxes,
                        color="black" if signed else "white",
                        fontsize=8,
                        ha="center",
                        va="center",
                    )
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=axes, location="bottom", shrink=0.5, aspect=40)
        bar.set_label("attribution, share of the map's largest magnitude", fontsize=8)
        bar.ax.tick_params(labelsize=8)
    return figure
