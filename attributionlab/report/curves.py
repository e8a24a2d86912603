"""Curves of several methods, each with its spread over images."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

__all__ = ["CurvePanel", "curves_figure"]

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#e69f00")
"""Okabe and Ito's palette without its yellow, which is pale on white."""
STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (7, 2, 1.2, 2)))
"""Neither length divides the other: a color returns with another style, 28 pairs in all."""
WIDEST, THINNEST = 3.2, 1.0


class CurvePanel(NamedTuple):
    """Curves in one coordinate system.

    Parameters
    ----------
    title, xlabel, ylabel : str
        What it shows; say which direction is better.
    x : ndarray, (S,)
        Where the curves are known.
    curves : mapping of str to ndarray, (n, S)
        By method, one curve for each image; NaN where there is none.
    """

    title: str
    xlabel: str
    ylabel: str
    x: NDArray[np.float64]
    curves: Mapping[str, NDArray[np.float64]]


def curves_figure(rows: Sequence[Sequence[CurvePanel]], title: str = "") -> Figure:
    """Means over images as lines, and bands from the least to the largest image around them.

    A method has the same color and style in every panel.

    Parameters
    ----------
    rows : sequence of sequence of CurvePanel
        From top to bottom and left to right; all rows are equally long.
    title : str
        Above all.
    """
    panels = [panel for row in rows for panel in row]
    methods = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    looks = {
        method: {
            "color": COLORS[i % len(COLORS)],
            "linestyle": STYLES[i % len(STYLES)],
            # Later lines are thinner: one that lies on another leaves its edges to be seen.
            "linewidth": WIDEST - (WIDEST - THINNEST) * i / max(1, len(methods) - 1),
        }
        for i, method in enumerate(methods)
    }
    columns = len(rows[0])
    figure = Figure(figsize=(2.6 + 4.6 * columns, 0.9 + 3.3 * len(rows)), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes: Any = figure.subplots(len(rows), columns, squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=True):
        for method, curves in panel.curves.items():
            # Faint enough that the bands of all methods on one spot still show the lines.
            _draw(axis, panel.x, np.asarray(curves), looks[method], opacity=0.4 / len(methods))
        axis.set_title(panel.title, fontsize=9)
        axis.set_xlabel(panel.xlabel, fontsize=9)
        axis.set_ylabel(panel.ylabel, fontsize=9)
        axis.set_xlim(panel.x[0], panel.x[-1])
        axis.grid(linewidth=0.4, color="#dddddd")
        axis.tick_params(labelsize=8)
    handles = [Line2D([], [], label=name, **look) for name, look in looks.items()]
    figure.legend(
        handles=handles, loc="outside right upper", fontsize=8, frameon=False, handlelength=4
    )
    return figure


def _draw(
    axis: Any,
    x: NDArray[np.float64],
    curves: NDArray[np.float64],
    look: Mapping[str, Any],
    opacity: float,
) -> None:
    """One method; nothing where no image has a value."""
    known = ~np.isnan(curves).all(0)
    if not known.any():
        return
    x, curves = x[known], curves[:, known]
    low, high = np.nanmin(curves, 0), np.nanmax(curves, 0)
    axis.fill_between(x, low, high, color=look["color"], alpha=opacity, linewidth=0)
    axis.plot(x, np.nanmean(curves, 0), **look)
