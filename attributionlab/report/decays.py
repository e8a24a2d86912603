"""Curves that fall while pixels are masked, each with its standard error."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from attributionlab.report.palette import LINE_COLORS

COLORS = (*LINE_COLORS, "#8c510a", "#999999")
MARKERS = "os^DvPX*<"
MARKED = 8
"""Markers on a line, about; those of different lines are shifted."""
STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (7, 2, 1.2, 2)))
BAND = 0.18
PANEL, ENTRY = 4.3, 2.0
"""Widths of a panel and of an entry of the legend, in inches."""
LETTERS = 13
"""Of a title, to the inch."""
MARGIN = 0.03
"""Around the unit interval, so that lines at 0 and 1 are seen whole."""

PADDING = 0.05
"""Of what is drawn, above and below it."""


class DecayPanel(NamedTuple):
    """Curves in one coordinate system.

    Parameters
    ----------
    title, xlabel, ylabel : str
        What it shows; say which direction is better.
    x : ndarray, (S,)
        Where the curves are known.
    lines : mapping of str to pair of ndarray, (S,)
        Means and their standard errors by name; what is not finite is not drawn.
    zero : bool
        Whether there is a line at 0.
    shares : bool
        Whether y is a share, drawn from 0 to 1, and x a size, drawn in logarithms with ticks where the
        curves are known.
    floor : float
        Below which nothing is drawn.
    """

    title: str
    xlabel: str
    ylabel: str
    x: NDArray[np.float64]
    lines: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    zero: bool = False
    shares: bool = False
    floor: float = -np.inf


def decays_figure(
    rows: Sequence[Sequence[DecayPanel]],
    title: str,
    bold: Sequence[str] = (),
    bands: Sequence[str] | None = None,
) -> Figure:
    """Lines with bands of a standard error to both sides; a name looks alike in all panels.

    Parameters
    ----------
    rows : sequence of sequence of DecayPanel
        From top to bottom and left to right; the last row may be shorter than the others.
    title : str
        Above all.
    bold : sequence of str
        Names whose lines are wider than others.
    bands : sequence of str, optional
        Names whose lines have bands; all by default.
    """
    panels = [panel for row in rows for panel in row]
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    banded = names if bands is None else [name for name in names if name in bands]
    looks: dict[str, dict[str, Any]] = {
        name: {
            "color": COLORS[index % len(COLORS)],
            "marker": MARKERS[index % len(MARKERS)],
            "markersize": 4.5,
            "linestyle": STYLES[index % len(STYLES)],
            "linewidth": 2.6 if name in bold else 1.4,
        }
        for index, name in enumerate(names)
    }
    columns = len(rows[0])
    width = 0.6 + PANEL * columns
    figure = Figure(figsize=(width, 1.4 + 3.1 * len(rows)), layout="constrained")
    whose = "" if bands is None else f" ({', '.join(banded)})"
    lines = [title, f"bands{whose}: one standard error to either side"]
    figure.suptitle(
        "\n".join(textwrap.fill(line, int(LETTERS * width)) for line in lines), fontsize=10
    )
    axes: Any = figure.subplots(len(rows), columns, squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, panel in zip(axes.flat, panels, strict=False):
        reached = []
        for name, (mean, error) in panel.lines.items():
            known = np.isfinite(mean)
            x, y = panel.x[known], mean[known]
            spread = np.nan_to_num(error[known]) * (name in banded)
            if name in banded:
                axis.fill_between(
                    x, y - spread, y + spread, color=looks[name]["color"], alpha=BAND, linewidth=0
                )
            every = max(1, len(panel.x) // MARKED)
            axis.plot(x, y, **looks[name], markevery=(names.index(name) % every, every))
            reached += [y - spread, y + spread]
        axis.set_ylim(*_ends(np.concatenate(reached), panel.floor))
        if panel.zero:
            axis.axhline(0, color="#888888", linewidth=0.8, zorder=0)
        axis.set_title(textwrap.fill(panel.title, int(LETTERS * PANEL)), fontsize=9)
        axis.set_xlabel(panel.xlabel, fontsize=9)
        axis.set_ylabel(panel.ylabel, fontsize=9)
        axis.set_xlim(panel.x[0], panel.x[-1])
        if panel.shares:
            axis.set_xscale("log")
            axis.set_xticks(panel.x, [f"{each:g}" for each in panel.x])
            axis.minorticks_off()
            axis.set_ylim(-MARGIN, 1 + MARGIN)
        axis.grid(linewidth=0.4, color="#dddddd")
        axis.tick_params(labelsize=8)
    figure.legend(
        handles=[Line2D([], [], label=name, **looks[name]) for name in names],
        loc="outside lower center",
        ncols=max(1, min(len(names), int(width / ENTRY))),
        fontsize=9,
        frameon=False,
        handlelength=4,
    )
    return figure


def _ends(reached: NDArray[np.float64], floor: float) -> tuple[float, float]:
    """Of the y axis: what is drawn, and a margin of what is left of it above the floor."""
    drawn = np.clip(reached, floor, None)
    margin = PADDING * (drawn.max() - drawn.min()) or PADDING
    return float(max(drawn.min() - margin, floor)), float(drawn.max() + margin)
