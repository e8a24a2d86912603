"""Scores of many methods, a row for each, under several conditions."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attributionlab.report.palette import LINE_COLORS

MARKERS = "osD^vPX"
ROW, PANEL, LABELS = 0.25, 3.0, 1.7
"""Heights of a row, widths of a panel and of the methods' names, in inches."""
SPREAD = 0.5
"""How much of a row's height the dots of several conditions take up."""


class ScoreDot(NamedTuple):
    """A score and its interval, whose ends are NaN where there is none."""

    value: float
    low: float = np.nan
    high: float = np.nan


class ScorePanel(NamedTuple):
    """Methods in one coordinate system.

    Parameters
    ----------
    title, xlabel : str
        What it shows; say which direction is better.
    scores : mapping of str to mapping of str to ScoreDot
        By condition, and by method.
    """

    title: str
    xlabel: str
    scores: Mapping[str, Mapping[str, ScoreDot]]


def method_scores_figure(
    rows: Sequence[Sequence[ScorePanel]], methods: Sequence[str], title: str
) -> Figure:
    """Dots with intervals; a condition has one color and marker in all panels.

    Parameters
    ----------
    rows : sequence of sequence of ScorePanel
        From top to bottom and left to right; all rows are equally long.
    methods : sequence of str
        From top to bottom; one without a score in a panel has an empty row there.
    title : str
        Above all.
    """
    panels = [panel for row in rows for panel in row]
    names = list(dict.fromkeys(name for panel in panels for name in panel.scores))
    width = LABELS + PANEL * len(rows[0])
    height = (1.1 + ROW * len(methods)) * len(rows) + 1.0
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(
        "\n".join(textwrap.fill(line, int(12 * width)) for line in title.splitlines()), fontsize=10
    )
    axes: Any = figure.subplots(len(rows), len(rows[0]), squeeze=False, sharey=True)
    for axis, panel in zip(axes.flat, panels, strict=True):
        for name, of_name in panel.scores.items():
            _draw(axis, of_name, methods, names.index(name), len(names))
        axis.set_title(panel.title, fontsize=9)
        axis.set_xlabel(panel.xlabel, fontsize=9)
        axis.axvline(0, color="#777777", linewidth=0.8, zorder=0)
        axis.grid(linewidth=0.4, color="#dddddd")
        axis.tick_params(labelsize=8)
        axis.set_yticks(range(len(methods)), methods)
        axis.set_ylim(len(methods) - 0.5, -0.5)
    if len(names) > 1:
        handles = [
            Line2D([], [], color=LINE_COLORS[i], marker=MARKERS[i], linestyle="", label=name)
            for i, name in enumerate(names)
        ]
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=len(names),
            fontsize=9,
            frameon=False,
        )
    return figure


def _draw(
    axis: Any, scores: Mapping[str, ScoreDot], methods: Sequence[str], index: int, count: int
) -> None:
    color = LINE_COLORS[index]
    offset = SPREAD * (index / max(1, count - 1) - 0.5) if count > 1 else 0.0
    places = np.array([methods.index(name) for name in scores], dtype=float) + offset
    values, low, high = np.array(list(scores.values()), dtype=float).reshape(-1, 3).T
    axis.hlines(places, low, high, color=color, linewidth=1.3, alpha=0.6)
    axis.scatter(values, places, s=20, color=color, marker=MARKERS[index], zorder=3)
