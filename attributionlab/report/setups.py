"""Scores of methods under several setups, and the best score of each network over its accuracy."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attributionlab.report.method_scores import ScoreDot
from attributionlab.report.palette import LINE_COLORS

MARKERS = "os^DvPX*"
SPREAD = 0.6
"""How much of a method's height its dots take up."""
LIGHT, DARK = "#dddddd", "#777777"


class SetupPanel(NamedTuple):
    """Setups that are compared.

    Parameters
    ----------
    title, xlabel : str
        What it shows; say which direction is better.
    setups : mapping of str to mapping of str to ScoreDot
        By setup, the score of each method that it has.
    """

    title: str
    xlabel: str
    setups: Mapping[str, Mapping[str, ScoreDot]]


class NetworkPoint(NamedTuple):
    """A network's accuracy, the best score that a method has for it, and which method that is."""

    accuracy: ScoreDot
    score: ScoreDot
    method: str


def setups_figure(panels: Sequence[SetupPanel], title: str, *, bars: str = "") -> Figure:
    """Dots with intervals: a row for each method, a color and a marker for each setup of a panel.

    Parameters
    ----------
    panels : sequence of SetupPanel
        From left to right.
    title : str
        Above all.
    bars : str
        What the intervals are, if there are any.
    """
    methods = list(
        dict.fromkeys(name for panel in panels for dots in panel.setups.values() for name in dots)
    )
    most = max(len(panel.setups) for panel in panels)
    height = 2.0 + 0.2 * most + (0.16 + 0.1 * most) * len(methods)
    figure = Figure(figsize=(2.3 + 3.9 * len(panels), height), layout="constrained")
    every = [dot for panel in panels for dots in panel.setups.values() for dot in dots.values()]
    figure.suptitle(_headed(title, bars, every), fontsize=10)
    axes: Any = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        for index, (setup, dots) in enumerate(panel.setups.items()):
            offset = SPREAD * (index / max(1, len(panel.setups) - 1) - 0.5)
            look = {"color": LINE_COLORS[index], "marker": MARKERS[index]}
            _draw_dots(axis, {methods.index(name) + offset: d for name, d in dots.items()}, look)
            axis.scatter([], [], s=26, label=setup, **look)
        axis.axvline(0, color=DARK, linewidth=0.8, zorder=0)
        for boundary in range(1, len(methods)):
            axis.axhline(boundary - 0.5, color=LIGHT, linewidth=0.4, zorder=0)
        axis.grid(axis="x", color=LIGHT, linewidth=0.4)
        axis.set_axisbelow(True)
        axis.set_title(textwrap.fill(panel.title, 44), fontsize=9)
        axis.set_xlabel(panel.xlabel, fontsize=9)
        axis.tick_params(labelsize=8)
        axis.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.7 / height),
            fontsize=8,
            frameon=False,
        )
    axes[0, 0].set_yticks(range(len(methods)), methods, fontsize=8)
    axes[0, 0].set_ylim(len(methods) - 0.5, -0.5)
    return figure


def _headed(title: str, bars: str, dots: Sequence[ScoreDot]) -> str:
    """The title, and below it what bars are where there are any."""
    return f"{title}\n{bars}" if bars and any(dot.low <= dot.high for dot in dots) else title


def _draw_dots(axis: Axes, dots: Mapping[float, ScoreDot], look: Mapping[str, Any]) -> None:
    for place, dot in dots.items():
        axis.hlines(place, dot.low, dot.high, color=look["color"], linewidth=1.4, alpha=0.6)
        axis.scatter(dot.value, place, s=20, zorder=3, **look)


def tradeoff_figure(
    points: Mapping[str, NetworkPoint], xlabel: str, ylabel: str, title: str, *, bars: str = ""
) -> Figure:
    """The best score of each network over its accuracy: its number beside a dot for the method.

    Parameters
    ----------
    points : mapping of str to NetworkPoint
        By network.
    xlabel, ylabel : str
        Of the axes; say which direction is better.
    title : str
        Above all.
    bars : str
        What the intervals are, if there are any.
    """
    figure = Figure(figsize=(8.6, 4.6), layout="constrained")
    dots = [point.score for point in points.values()]
    figure.suptitle(_headed(title, bars, dots), fontsize=10)
    axis = figure.subplots()
    methods = list(dict.fromkeys(point.method for point in points.values()))
    for number, point in enumerate(points.values(), start=1):
        (x, left, right), (y, low, high), method = point
        index = methods.index(method)
        color = LINE_COLORS[index % len(LINE_COLORS)]
        axis.hlines(y, left, right, color=color, linewidth=1, alpha=0.45)
        axis.vlines(x, low, high, color=color, linewidth=1, alpha=0.45)
        axis.scatter(x, y, s=40, color=color, marker=MARKERS[index % len(MARKERS)], zorder=3)
        axis.annotate(
            str(number), (x, y), xytext=(5, 4), textcoords="offset points", fontsize=9, zorder=4
        )
    axis.grid(color=LIGHT, linewidth=0.4)
    axis.set_axisbelow(True)
    axis.set_xlabel(xlabel, fontsize=9)
    axis.set_ylabel(ylabel, fontsize=9)
    axis.tick_params(labelsize=8)
    handles = [
        Line2D(
            *([], []),
            linestyle="",
            color=LINE_COLORS[index % len(LINE_COLORS)],
            marker=MARKERS[index % len(MARKERS)],
            label=f"best: {method}",
        )
        for index, method in enumerate(methods)
    ]
    handles += [
        Line2D([], [], linestyle="", label=f"{number}  {name}")
        for number, name in enumerate(points, start=1)
    ]
    figure.legend(handles=handles, loc="outside right center", fontsize=8, frameon=False)
    return figure
