"""Estimates against what is true, and how far rankings agree under many conditions."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attributionlab.report.palette import LINE_COLORS

MARKERS = "os^Dv"
SPREAD = 0.66
"""How much of a condition's height its dots take up."""


class EstimatePanel(NamedTuple):
    """Points in one coordinate system, both axes alike.

    Parameters
    ----------
    title, xlabel, ylabel : str
        What it shows.
    points : mapping of str to pair of sequences
        True values and estimates, of equal length, by what was estimated with; a NaN is not drawn but
        counted.
    """

    title: str
    xlabel: str
    ylabel: str
    points: Mapping[str, tuple[Sequence[float], Sequence[float]]]


class Agreement(NamedTuple):
    """A correlation between -1 and 1 with its interval; NaN where there is none."""

    value: float
    low: float
    high: float


def estimates_figure(rows: Sequence[Sequence[EstimatePanel]], title: str = "") -> Figure:
    """Scatter plots with the diagonal on which estimates are true; what has no estimate is counted.

    Parameters
    ----------
    rows : sequence of sequence of EstimatePanel
        From top to bottom and left to right; all rows are equally long.
    title : str
        Above all.
    """
    columns = len(rows[0])
    figure = Figure(figsize=(0.5 + 3.1 * columns, 1.4 + 3.2 * len(rows)), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes: Any = figure.subplots(len(rows), columns, squeeze=False)
    names = list(dict.fromkeys(name for row in rows for panel in row for name in panel.points))
    for row, line in zip(rows, axes, strict=True):
        for panel, axis in zip(row, line, strict=True):
            _draw_points(axis, panel, names)
    handles = [
        axes[0, 0].scatter([], [], s=26, c=color, marker=marker, label=name)
        for name, color, marker in zip(names, LINE_COLORS, MARKERS, strict=False)
    ]
    [diagonal] = axes[0, 0].plot([], [], color="#777777", linewidth=1, linestyle="--")
    figure.legend(
        [*handles, diagonal],
        [*names, "estimate = truth"],
        loc="outside lower center",
        ncols=len(names) + 1,
        fontsize=9,
        frameon=False,
    )
    return figure


def _draw_points(axis: Axes, panel: EstimatePanel, names: Sequence[str]) -> None:
    axis.plot([0, 1], [0, 1], color="#777777", linewidth=1, linestyle="--", zorder=1)
    missing = []
    for name, (truths, estimates) in panel.points.items():
        index = names.index(name)
        axis.scatter(
            truths, estimates, s=22, marker=MARKERS[index], color=LINE_COLORS[index], alpha=0.65,
            edgecolors="none", zorder=2 + index, clip_on=False,
        )  # fmt: skip
        missing.append(int(np.isnan(estimates).sum()))
    counted = ", ".join(f"{count}" for count in missing)
    note = f"\nwithout an estimate: {counted}" if any(missing) else "\n"
    axis.set_title(panel.title + note, fontsize=9)
    axis.set_xlabel(panel.xlabel, fontsize=9)
    axis.set_ylabel(panel.ylabel, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.set_xlim(-0.03, 1.03)
    low, high = axis.get_ylim()
    axis.set_ylim(min(-0.03, low), max(1.03, high))
    axis.grid(linewidth=0.4, color="#dddddd")


def agreements_figure(
    panels: Mapping[str, Mapping[str, Sequence[Agreement]]],
    conditions: Sequence[str],
    title: str = "",
) -> Figure:
    """Correlations as dots with intervals: a row for each condition, a color for each metric.

    Parameters
    ----------
    panels : mapping of str to mapping of str to sequence of Agreement
        What metrics are held against, and by metric the agreement under each condition.
    conditions : sequence of str
        From top to bottom.
    title : str
        Above all.
    """
    metrics = list(dict.fromkeys(name for of_panel in panels.values() for name in of_panel))
    height = 1.5 + 0.17 * (len(metrics) + 1) * len(conditions)
    figure = Figure(figsize=(2.4 + 2.9 * len(panels), height), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes: Any = figure.subplots(1, len(panels), sharey=True, squeeze=False)
    handles: dict[str, Any] = {}
    for axis, (label, of_panel) in zip(axes[0], panels.items(), strict=True):
        for name, agreements in of_panel.items():
            handles[name] = _draw_dots(axis, agreements, metrics.index(name), len(metrics))
        axis.axvline(0, color="#777777", linewidth=0.8, zorder=0)
        for boundary in range(1, len(conditions)):
            axis.axhline(boundary - 0.5, color="#dddddd", linewidth=0.6, zorder=0)
        axis.set_xlim(-1.05, 1.05)
        axis.tick_params(labelsize=8)
        axis.set_xlabel(f"Spearman with the ranking\nby {label} (1 is best)", fontsize=9)
    labels = ["\n".join(textwrap.wrap(each, 30)) for each in conditions]
    axes[0, 0].set_yticks(range(len(conditions)), labels, fontsize=8)
    axes[0, 0].set_ylim(len(conditions) - 0.5, -0.5)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=len(handles),
        fontsize=9,
        frameon=False,
    )
    return figure


def _draw_dots(axis: Axes, agreements: Sequence[Agreement], index: int, metrics: int) -> Any:
    values, low, high = (np.array(each, dtype=float) for each in zip(*agreements, strict=True))
    offset = SPREAD * (index / max(1, metrics - 1) - 0.5)
    places = np.arange(len(values)) + offset
    color = LINE_COLORS[index]
    axis.hlines(places, low, high, color=color, linewidth=1.3, alpha=0.6)
    for place in places[np.isnan(values)]:
        axis.text(0, place, "no ranking", fontsize=7, color=color, ha="center", va="center")
    return axis.scatter(values, places, s=20, color=color, marker=MARKERS[index], zorder=3)
