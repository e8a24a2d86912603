"""Curves of several methods, each with its spread over images where there is room for it."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from attributionlab.report.palette import LINE_COLORS

STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (7, 2, 1.2, 2)))
"""Prime to the number of colors: a color returns with another style, 28 pairs in all."""
WIDEST, THINNEST = 3.2, 1.0
MOST_BANDS = 6
"""Curves beyond which bands would hide each other."""
BAND = 0.15
SAME = 0.002
"""Curves that are nowhere farther apart, as a share of what all of a panel reach over, coincide: about
half the width of a thin line."""
LETTERS = 13
"""Of a title, to the inch."""


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
    """Means over images as lines, and bands from the least to the largest image around few of them.

    A method has the same color and style in every panel. Methods whose lines coincide in all panels
    are drawn as one, which the legend gives all their names. Where the curves of a panel
    have ended before its right edge, it is gray.

    Parameters
    ----------
    rows : sequence of sequence of CurvePanel
        From top to bottom and left to right; all rows are equally long.
    title : str
        Above all.
    """
    panels = [panel for row in rows for panel in row]
    groups = _groups(panels)
    looks = {
        names[0]: {
            "color": LINE_COLORS[i % len(LINE_COLORS)],
            "linestyle": STYLES[i % len(STYLES)],
            # Later lines are thinner: one that lies on another leaves its edges to be seen.
            "linewidth": WIDEST - (WIDEST - THINNEST) * i / max(1, len(groups) - 1),
        }
        for i, names in enumerate(groups)
    }
    columns, banded = len(rows[0]), len(groups) <= MOST_BANDS
    width = 3.2 + 4.6 * columns
    figure = Figure(figsize=(width, 1.1 + 3.3 * len(rows)), layout="constrained")
    figure.suptitle(_headed(title, banded, width), fontsize=10)
    axes: Any = figure.subplots(len(rows), columns, squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=True):
        for method, look in looks.items():
            if method in panel.curves:
                _draw(axis, panel.x, np.asarray(panel.curves[method]), look, banded)
        _dress(axis, panel)
    handles = [
        Line2D([], [], label=" =\n".join(names), **looks[names[0]])  # one line for each name
        for names in groups
    ]
    figure.legend(
        handles=handles, loc="outside right center", fontsize=8, frameon=False, handlelength=4
    )
    return figure


def _groups(panels: Sequence[CurvePanel]) -> list[list[str]]:
    """Methods whose means coincide in every panel, each group in the order of the methods."""
    means = [{name: _mean(curves) for name, curves in panel.curves.items()} for panel in panels]
    slack = [SAME * _reach(each.values()) for each in means]

    def coincide(first: str, second: str) -> bool:
        return all(
            (first in each) == (second in each)
            and (first not in each or _close(each[first], each[second], apart))
            for each, apart in zip(means, slack, strict=True)
        )

    groups: list[list[str]] = []
    for name in dict.fromkeys(name for each in means for name in each):
        group = next((group for group in groups if coincide(group[0], name)), None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return groups


def _mean(curves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over images, (S,), NaN where none has a value."""
    known = ~np.isnan(curves)
    counts = known.sum(0)
    mean = np.full(len(counts), np.nan)
    np.divide(np.where(known, curves, 0.0).sum(0), counts, out=mean, where=counts > 0)
    return mean


def _reach(means: Any) -> float:
    values = np.concatenate([mean[~np.isnan(mean)] for mean in means])
    return float(np.ptp(values)) if len(values) else 0.0


def _close(first: NDArray[np.float64], second: NDArray[np.float64], apart: float) -> bool:
    return bool(np.allclose(first, second, rtol=0, atol=apart, equal_nan=True))


def _headed(title: str, banded: bool, width: float) -> str:
    """The title, and below it what lines and bands are."""
    bands = (
        "bands: from the least to the largest image"
        if banded
        else f"no bands, since there are more than {MOST_BANDS} curves"
    )
    lines = [title, f"lines: means over images; {bands}"]
    return "\n".join(textwrap.fill(line, int(LETTERS * width)) for line in lines if line)


def _draw(
    axis: Any,
    x: NDArray[np.float64],
    curves: NDArray[np.float64],
    look: Mapping[str, Any],
    banded: bool,
) -> None:
    """One method; nothing where no image has a value."""
    known = ~np.isnan(curves).all(0)
    if not known.any():
        return
    x, curves = x[known], curves[:, known]
    if banded:
        low, high = np.nanmin(curves, 0), np.nanmax(curves, 0)
        axis.fill_between(x, low, high, color=look["color"], alpha=BAND, linewidth=0)
    axis.plot(x, _mean(curves), **look)


def _dress(axis: Any, panel: CurvePanel) -> None:
    axis.set_title(panel.title, fontsize=9)
    axis.set_xlabel(panel.xlabel, fontsize=9)
    axis.set_ylabel(panel.ylabel, fontsize=9)
    axis.set_xlim(panel.x[0], panel.x[-1])
    axis.grid(linewidth=0.4, color="#dddddd")
    axis.tick_params(labelsize=8)
    known = np.any([~np.isnan(curves).all(0) for curves in panel.curves.values()], axis=0)
    end = panel.x[known][-1] if known.any() else panel.x[0]
    if end < panel.x[-1]:
        axis.axvspan(end, panel.x[-1], color="#eeeeee", zorder=0)
        axis.text(
            *((end + panel.x[-1]) / 2, 0.5, "not defined"),
            rotation=90,
            fontsize=8,
            color="#555555",
            ha="center",
            va="center",
            transform=axis.get_xaxis_transform(),
        )
