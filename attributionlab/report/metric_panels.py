"""Scores of a few attributions beside each other, each with its spread and, where known, the truth."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from attributionlab.report.palette import LINE_COLORS

MARKERS = "osD^vPX*"
WIDEST, THINNEST = 4.0, 1.2
PANEL, ENTRY = 3.9, 1.7
"""Widths of a panel and of an entry of the legend, in inches."""
LETTERS = 13
"""Of a title, to the inch."""
MARGIN = 0.03
"""Around the unit interval, so that lines at 0 and 1 are seen whole."""


class MetricLine(NamedTuple):
    """One attribution's scores.

    Parameters
    ----------
    x, scores : ndarray, (S,)
        Points; NaN where there is no score.
    spread : ndarray, (S,) or (2, S), optional
        How far error bars reach to either side, or below and above.
    truth : ndarray, (S,), optional
        What the scores estimate, or are ordered by.
    """

    x: NDArray[np.float64]
    scores: NDArray[np.float64]
    spread: NDArray[np.float64] | None = None
    truth: NDArray[np.float64] | None = None


class MetricPanel(NamedTuple):
    """Attributions in one coordinate system, both axes from 0 to 1 unless they reach farther.

    Parameters
    ----------
    title, xlabel, ylabel : str
        What it shows; say which direction is better.
    lines : mapping of str to MetricLine
        By attribution.
    """

    title: str
    xlabel: str
    ylabel: str
    lines: Mapping[str, MetricLine]


def metric_panels_figure(
    rows: Sequence[Sequence[MetricPanel]], title: str, *, truth: str = ""
) -> Figure:
    """Lines through scores, and dashed ones through the truth; a name has one color in all panels.

    Parameters
    ----------
    rows : sequence of sequence of MetricPanel
        From top to bottom and left to right; all rows are equally long.
    title : str
        Above all.
    truth : str
        What dashed lines are, for the legend; empty where there are none.
    """
    names = list(dict.fromkeys(name for row in rows for panel in row for name in panel.lines))
    looks = {name: _look(index, len(names)) for index, name in enumerate(names)}
    columns = len(rows[0])
    width = 1.0 + PANEL * columns
    figure = Figure(figsize=(width, 1.1 + 3.2 * len(rows)), layout="constrained")
    figure.suptitle(
        "\n".join(textwrap.fill(line, int(LETTERS * width)) for line in title.splitlines()),
        fontsize=10,
    )
    axes: Any = figure.subplots(len(rows), columns, squeeze=False)
    for axis, panel in zip(axes.flat, (panel for row in rows for panel in row), strict=True):
        for name, line in panel.lines.items():
            _draw(axis, line, looks[name])
        _dress(axis, panel)
    handles = [Line2D([], [], label=name, **looks[name]) for name in names]
    if truth:
        handles.append(Line2D([], [], label=truth, color="#444444", linestyle=(0, (4, 2))))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=max(1, min(len(handles), int(width / ENTRY))),
        fontsize=9,
        frameon=False,
        handlelength=3,
    )
    return figure


def _look(index: int, count: int) -> dict[str, Any]:
    """Later lines are thinner: one that lies on another leaves its edges to be seen."""
    return {
        "color": LINE_COLORS[index % len(LINE_COLORS)],
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 5,
        "linewidth": WIDEST - (WIDEST - THINNEST) * index / max(1, count - 1),
    }


def _draw(axis: Any, line: MetricLine, look: Mapping[str, Any]) -> None:
    if line.truth is not None:
        axis.plot(line.x, line.truth, color=look["color"], linestyle=(0, (4, 2)), linewidth=1.3)
    axis.errorbar(line.x, line.scores, line.spread, capsize=3, elinewidth=1, **look)


def _dress(axis: Any, panel: MetricPanel) -> None:
    axis.set_title(textwrap.fill(panel.title, int(LETTERS * PANEL)), fontsize=9)
    axis.set_xlabel(panel.xlabel, fontsize=9)
    axis.set_ylabel(panel.ylabel, fontsize=9)
    axis.grid(linewidth=0.4, color="#dddddd")
    axis.tick_params(labelsize=8)
    reach = max((float(x) for line in panel.lines.values() for x in line.x), default=1.0)
    axis.set_xlim(-MARGIN, max(1.0, reach) + MARGIN)
    low, high = axis.get_ylim()
    axis.set_ylim(min(low, -MARGIN), max(high, 1 + MARGIN))
