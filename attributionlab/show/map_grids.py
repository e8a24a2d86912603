"""Pictures and maps in a grid."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from attributionlab.show.plots import DARK, LETTERS, LINE, folded, text_lines, wrapped
from attributionlab.show.style import NO_ATTRIBUTION, SEQUENTIAL, SIGNED, in_defaults, room, tallest

NARROW_LETTERS = 14
"""The same of the small text at a grid's cells, where each counts: "inconclusive" is one word."""
CELL, SMALLEST_CELL = 1.3, 0.62
"""Side of a picture, in inches, and at least; columns for which there is no room go on below."""


@in_defaults
def map_grid(
    rows: Mapping[str, Sequence[NDArray[Any] | None]],
    *,
    headings: Sequence[str] = (),
    notes: Mapping[str, Sequence[str]] | None = None,
    boxes: Sequence[Sequence[tuple[int, int, int, int]]] = (),
    title: str = "",
    signed: bool = True,
    limits: tuple[float, float] | None = None,
    cell: float = CELL,
    legend: Mapping[str, str] | None = None,
) -> Figure:
    """Draw pictures and maps in a grid: a row for each name, a column for each image.

    A map that is 0 everywhere is gray, and says so.

    Parameters
    ----------
    rows : mapping of str to sequence of ndarray or None
        Pictures (C, H, W) in [0, 1], and maps (H, W), each of which is divided by its own largest
        magnitude; None says that there is none. All rows are equally long.
    headings : sequence of str
        Above the columns.
    notes : mapping of str to sequence of str, optional
        Below the cells of a row.
    boxes : sequence of sequence of (top, left, bottom, right)
        Rectangles drawn into each column's cells, in pixels, ends exclusive.
    title : str
        Above all.
    signed : bool
        Whether maps have either sign: their colors then meet at 0.
    limits : tuple of float, optional
        Values at the ends of the colors of all maps, which are then not divided.
    cell : float
        Side of a picture, in inches.
    legend : mapping of str to str, optional
        Colors that are not those of the color bar, by their meaning.
    """
    columns = there = max(len(cells) for cells in rows.values())
    beside = min(1.9, 0.35 * room())
    at_once = int(max(1, min(columns, (room() - beside) // SMALLEST_CELL)))
    at_once = -(-columns // -(-columns // at_once))  # in blocks that are equally wide
    cell = min(cell, (room() - beside) / at_once)
    letters = int((NARROW_LETTERS if math.isfinite(room()) else LETTERS) * cell)
    width = max(beside + cell * at_once, min(6.5, room()))
    above, over = wrapped(title, width), [folded(each, letters) for each in headings]
    below = {name: [folded(note, letters) for note in own] for name, own in (notes or {}).items()}
    tall = sum(LINE * text_lines(own) for own in below.values())
    block = LINE * text_lines(over) + (cell + 0.05) * len(rows) + tall
    blocks = int(max(1, min(-(-columns // at_once), (tallest() - 2.2) // block)))
    columns = min(columns, blocks * at_once)
    if columns < there:
        above = wrapped(f"{title}\nthe first {columns} of {there}, for which there is room", width)
    firsts = range(0, columns, at_once)
    height = 1.4 + LINE * text_lines([above]) + block * len(firsts)
    figure = Figure(figsize=(width, height), layout="compressed")
    figure.suptitle(above, fontsize=10)
    axes: Any = figure.subplots(len(rows) * len(firsts), at_once, squeeze=False)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.set_frame_on(False)
    drawn = None
    for place, first in enumerate(firsts):
        of_block = axes[place * len(rows) : (place + 1) * len(rows)]
        for axis, heading in zip(of_block[0], over[first : first + at_once], strict=False):
            axis.set_title(heading, fontsize=8)
        for (name, cells), of_row in zip(rows.items(), of_block, strict=True):
            of_row[0].set_ylabel(
                folded(name, int(LETTERS * (beside - 0.4))),
                fontsize=8,
                rotation=0,
                ha="right",
                va="center",
                labelpad=8,
            )
            for index, axis in enumerate(of_row, start=first):
                shown = cells[index] if index < min(columns, len(cells)) else None
                if shown is None:
                    if index < columns:
                        axis.text(0.5, 0.5, "none", color=DARK, fontsize=7, **_middle(axis))
                    continue
                axis.set_frame_on(True)
                if name in below:
                    axis.set_xlabel(below[name][index], fontsize=8, labelpad=2)
                drawn = _shown(axis, shown, signed, limits) or drawn
                for box in boxes[index] if index < len(boxes) else ():
                    _outline(axis, *box)
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=axes, location="bottom", shrink=0.5, aspect=40)
        unit = "" if limits else ", share of the map's largest magnitude"
        what = f"attribution{unit}"
        if signed:
            low, high = drawn.get_clim()
            bar.set_ticks([low, 0, high], labels=[f"{low:g}", "0", f"+{high:g}"])
            what += "\nbelow 0: lowers the output; above 0: raises it"
        bar.set_label(wrapped(what, width - 0.5), fontsize=8)
        bar.ax.tick_params(labelsize=8)
    if legend:
        patches = [Patch(color=color, label=name) for name, color in legend.items()]
        figure.legend(handles=patches, loc="outside lower right", fontsize=8, frameon=False)
    return figure


def _shown(axis: Any, cell: NDArray[Any], signed: bool, limits: tuple[float, float] | None) -> Any:
    """Draw a cell of a grid; return what a color bar can be about, if it is a map with values."""
    if cell.ndim == 3:
        _picture(axis, cell)
    elif cell.any():
        return _map(axis, cell, signed, limits)
    else:
        _no_attribution(axis, cell)
    return None


def _outline(axis: Any, top: int, left: int, bottom: int, right: int) -> None:
    edges = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    axis.plot(*zip(*[(a - 0.5, b - 0.5) for a, b in edges], strict=True), color="#ffb000")


def _picture(axis: Any, cell: NDArray[Any]) -> None:
    shown = np.moveaxis(cell, 0, -1).clip(0, 1)
    if shown.shape[-1] == 1:
        axis.imshow(shown[..., 0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    else:
        axis.imshow(shown, interpolation="nearest")


def _map(axis: Any, values: NDArray[Any], signed: bool, limits: tuple[float, float] | None) -> Any:
    largest = float(np.abs(limits or values).max())
    return axis.imshow(
        values if limits else values / largest,
        cmap=SIGNED if signed else SEQUENTIAL,
        vmin=(-largest if limits else -1) if signed else (limits or (0, 1))[0],
        vmax=largest if limits else 1,
        interpolation="nearest",
    )


def _no_attribution(axis: Any, values: NDArray[Any]) -> None:
    axis.imshow(values, cmap=ListedColormap([NO_ATTRIBUTION]))
    axis.text(0.5, 0.5, "no attribution", fontsize=7, **_middle(axis))


def _middle(axis: Any) -> dict[str, Any]:
    """Where a text stands in the middle of a coordinate system."""
    return {"transform": axis.transAxes, "ha": "center", "va": "center"}
