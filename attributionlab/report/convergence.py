"""Errors of estimates beside what they cost, on logarithmic axes."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attributionlab.report.palette import LINE_COLORS

MARKERS = ("o", "s", "^", "D")
BAND = 0.2


class ConvergenceLine(NamedTuple):
    """Errors of one estimator, by what each estimate costs; all arrays are (S,)."""

    cost: NDArray[np.float64]
    error: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def convergence_figure(
    lines: Mapping[str, ConvergenceLine], xlabel: str, ylabel: str, title: str = ""
) -> Figure:
    """Errors with their intervals, and a dashed line of errors that fall as 1 / sqrt(cost).

    Parameters
    ----------
    lines : mapping of str to ConvergenceLine
        By estimator.
    xlabel, ylabel, title : str
        What it shows; say which direction is better.
    """
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axis = figure.subplots()
    for index, (name, line) in enumerate(lines.items()):
        color = LINE_COLORS[index % len(LINE_COLORS)]
        axis.fill_between(line.cost, line.low, line.high, color=color, alpha=BAND, linewidth=0)
        axis.plot(
            *(line.cost, line.error), color=color, marker=MARKERS[index % len(MARKERS)], label=name
        )
    costs = np.concatenate([line.cost for line in lines.values()])
    ends = np.array([costs.min(), costs.max()])
    first = next(iter(lines.values()))
    reference = first.error[-1] * np.sqrt(first.cost[-1] / ends)
    axis.plot(ends, reference, "--", color="#888888", zorder=0, label="slope -1/2")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    axis.set_title(title, fontsize=10)
    axis.grid(linewidth=0.4, color="#dddddd")
    axis.legend(frameon=False, fontsize=9)
    return figure
