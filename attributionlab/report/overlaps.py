"""Overlaps of random subsets with a fixed one: what is expected, and what was drawn."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attributionlab.report.palette import LINE_COLORS

MARKERS = "osD^vPX"


class Overlap(NamedTuple):
    """Samples for one number of masked pixels.

    Parameters
    ----------
    masked : int
        n.
    references : ndarray, (S,)
        N, at least n.
    means, half_widths : ndarray, (S,)
        Of the samples' similarities, and of their 95 % intervals.
    """

    masked: int
    references: NDArray[np.float64]
    means: NDArray[np.float64]
    half_widths: NDArray[np.float64]


def overlaps_figure(overlaps: Mapping[str, Overlap], title: str) -> Figure:
    """Similarity against N and against 1 / N, where n / N is a straight line through the origin.

    Parameters
    ----------
    overlaps : mapping of str to Overlap
        By what the legend says.
    title : str
        Above all.
    """
    figure = Figure(figsize=(9.4, 4.0), layout="constrained")
    figure.suptitle(title, fontsize=10)
    by_size, by_inverse = figure.subplots(1, 2, sharey=True)
    largest = max(float(each.references.max()) for each in overlaps.values())
    for index, (name, each) in enumerate(overlaps.items()):
        color = LINE_COLORS[index]
        sizes = np.linspace(each.masked, largest, 200)
        dots: Any = {"color": color, "marker": MARKERS[index], "linestyle": "", "capsize": 3}
        by_size.plot(sizes, each.masked / sizes, color=color, linewidth=1.2)
        by_size.errorbar(each.references, each.means, each.half_widths, label=name, **dots)
        steepest = np.array([0, 1 / each.masked])
        by_inverse.plot(1000 * steepest, each.masked * steepest, color=color, linewidth=1.2)
        by_inverse.errorbar(1000 / each.references, each.means, each.half_widths, **dots)
    by_size.set_xlabel("reference pixels N", fontsize=9)
    by_inverse.set_xlabel("1000 / N", fontsize=9)
    by_size.set_ylabel("Dice similarity to the first n pixels\n(1: the same pixels)", fontsize=9)
    for axis in (by_size, by_inverse):
        axis.set_ylim(0, 1.05)
        axis.set_xlim(left=0)
        axis.grid(linewidth=0.4, color="#dddddd")
        axis.tick_params(labelsize=8)
    figure.legend(loc="outside lower center", ncols=len(overlaps), fontsize=9, frameon=False)
    return figure
