"""How long something takes, by how much of it there is."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attributionlab.report.palette import LINE_COLORS

MARKERS = "osD^vPX"


class SecondsLine(NamedTuple):
    """One way to do it.

    Parameters
    ----------
    amounts, seconds : ndarray, (S,)
        How much, and how long it took.
    """

    amounts: NDArray[np.float64]
    seconds: NDArray[np.float64]


def seconds_figure(lines: Mapping[str, SecondsLine], *, xlabel: str, title: str) -> Figure:
    """Both axes logarithmic, so that a power of the amount is a straight line.

    Parameters
    ----------
    lines : mapping of str to SecondsLine
        By way.
    xlabel : str
        What there is more or less of.
    title : str
        Above all.
    """
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axis: Any = figure.subplots()
    for index, (name, line) in enumerate(lines.items()):
        axis.plot(
            line.amounts,
            line.seconds,
            label=name,
            color=LINE_COLORS[index % len(LINE_COLORS)],
            marker=MARKERS[index % len(MARKERS)],
            linewidth=1.6,
        )
    axis.set(xscale="log", yscale="log")
    axis.set_xlabel(xlabel, fontsize=9)
    axis.set_ylabel("seconds (lower is better)", fontsize=9)
    axis.set_title(title, fontsize=10)
    axis.grid(which="major", linewidth=0.4, color="#cccccc")
    axis.legend(fontsize=8, frameon=False)
    return figure
