"""How far metrics agree with the truth as the dose rises."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attributionlab.report.palette import LINE_COLORS

COLORS = (*LINE_COLORS, "#999999")
MARKERS = "osD^vPX*"


class DoseLine(NamedTuple):
    """One metric on one axis, all of the same length; NaN where there is no correlation."""

    doses: Sequence[float]
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    perturbs: bool = True
    """whether the dose can matter at all; drawn dashed and without a band if not"""


def doses_figure(
    panels: Mapping[str, Mapping[str, DoseLine]], threshold: float, title: str = ""
) -> Figure:
    """Correlations with the truth's ranking by dose, a panel for each kind of dose.

    Parameters
    ----------
    panels : mapping of str to mapping of str to DoseLine
        What the dose is, and the lines by metric, eight at most that the dose can change.
    threshold : float
        Below which a metric counts as broken, drawn as a line.
    title : str
        Above all.
    """
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(0.6 + 4.2 * columns, 1.7 + 2.9 * rows), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes: Any = figure.subplots(rows, columns, squeeze=False, sharey=True)
    handles: dict[str, Any] = {}
    for axis, (label, lines) in zip(axes.flat, panels.items(), strict=False):
        for name, line in lines.items():
            handles[name] = _draw(axis, line, names.index(name))
        handles["threshold"] = _dress(axis, label, next(iter(lines.values())).doses, threshold)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("Spearman correlation with\nthe truth's ranking", fontsize=9)
    lowest = min([0.0, *(v for lines in panels.values() for x in lines.values() for v in x.low)])
    axes[0, 0].set_ylim(max(-1.02, lowest - 0.05), 1.02)
    ordered = [*names, "threshold"]
    figure.legend(
        [handles[name] for name in ordered],
        ordered,
        loc="outside lower center",
        ncols=min(3, len(ordered)),
        fontsize=8,
        frameon=False,
    )
    return figure


def _draw(axis: Axes, line: DoseLine, index: int) -> Any:
    color, marker = COLORS[index % len(COLORS)], MARKERS[index % len(MARKERS)]
    places = np.arange(len(line.doses))
    if line.perturbs:
        axis.fill_between(places, line.low, line.high, color=color, alpha=0.13, linewidth=0)
    [drawn] = axis.plot(
        places,
        line.values,
        color=color,
        marker=marker,
        markersize=4.5,
        linewidth=1.4,
        linestyle="-" if line.perturbs else "--",
    )
    return drawn


def _dress(axis: Axes, label: str, doses: Sequence[float], threshold: float) -> Any:
    # Evenly spaced whatever the doses are: the small ones decide, and would lie on top of each other.
    axis.set_xticks(range(len(doses)), [f"{dose:g}" for dose in doses], fontsize=8)
    axis.set_xlabel(label, fontsize=9)
    axis.grid(axis="y", linewidth=0.4, color="#cccccc")
    axis.axhline(0, color="#777777", linewidth=0.8)
    return axis.axhline(threshold, color="#333333", linewidth=1.1, linestyle=":")
