"""How far the maps of methods drift between functionally equal networks, method by method."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from attributionlab.report.palette import LINE_COLORS

ZERO_GAP = 30.0
"""How far to the left of the smallest drift a drift of exactly 0 is drawn, as a factor."""


class DriftLine(NamedTuple):
    """One method; drifts are shares of the plain map's norm."""

    method: str
    family: str
    median: float
    largest: float
    in_float64: float | None
    plain_f1: float
    lowest_f1: float


def drifts_figure(lines: Sequence[DriftLine], unit: float, title: str = "") -> Figure:
    """Drift on the left, on a logarithmic axis where 0 has a place of its own; F1 on the right.

    Parameters
    ----------
    lines : sequence of DriftLine
        From top to bottom.
    unit : float
        Largest relative rounding error of one operation of float32, drawn as a line.
    title : str
        Above both panels.
    """
    figure = Figure(figsize=(9.2, 1.9 + 0.34 * len(lines)), layout="constrained")
    figure.suptitle(title, fontsize=11)
    drifts, scores = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
    colors = _colors(lines)
    values = [v for line in lines for v in (line.median, line.largest, line.in_float64) if v]
    zero = min([*values, unit]) / ZERO_GAP
    for place, line in enumerate(lines):
        color = colors[line.family]
        ends = [max(value, zero) for value in (line.median, line.largest)]
        drifts.plot(ends, [place, place], color=color, linewidth=2.5, solid_capstyle="round")
        drifts.plot(ends[0], place, "o", color=color, markersize=6)
        drifts.plot(ends[1], place, "|", color=color, markersize=11, markeredgewidth=2)
        if line.in_float64 is not None:
            left = max(line.in_float64, zero)
            drifts.plot(left, place, "D", markerfacecolor="white", color=color, markersize=5)
        f1 = (line.plain_f1, line.lowest_f1)
        scores.plot(f1, [place, place], color=color, linewidth=2)
        scores.plot(f1[0], place, "o", color=color, markersize=6)
        scores.plot(f1[1], place, "|", color=color, markersize=11, markeredgewidth=2)
    drifts.set_xscale("log")
    largest = max([1.0, *values])
    powers = [p for p in range(-18, 7, 3) if zero * ZERO_GAP / 10 <= 10.0**p <= 10 * largest]
    drifts.set_xticks([zero, *(10.0**p for p in powers)], ["0", *(f"1e{p}" for p in powers)])
    drifts.minorticks_off()
    drifts.set_xlim(zero / 4, 8 * largest)
    drifts.axvline(unit, color="#777777", linewidth=0.9, linestyle=":")
    drifts.axvline(1, color="#777777", linewidth=0.9)
    drifts.set_yticks(range(len(lines)), [line.method for line in lines], fontsize=8)
    drifts.set_ylim(len(lines) - 0.4, -0.6)
    drifts.set_xlabel(
        "drift, share of the map's norm (less is better)\n"
        "dot: median, bar: largest, diamond: largest in float64;\n"
        "dotted: float32's rounding unit, full: as large as the map",
        fontsize=8,
    )
    scores.set_xlim(-0.03, 1.03)
    scores.set_xlabel(
        "F1 of the claim (more is better)\ndot: plain network,\nbar: lowest on camouflaged ones",
        fontsize=8,
    )
    for axis in (drifts, scores):
        axis.grid(axis="x", linewidth=0.4, color="#cccccc")
        axis.tick_params(axis="x", labelsize=8)
    handles = [drifts.plot([], [], "o-", color=color)[0] for color in colors.values()]
    figure.legend(
        handles,
        list(colors),
        loc="outside lower center",
        ncols=len(colors),
        fontsize=8,
        frameon=False,
    )
    return figure


def _colors(lines: Sequence[DriftLine]) -> dict[str, str]:
    families = list(dict.fromkeys(line.family for line in lines))
    places = np.arange(len(families)) % len(LINE_COLORS)
    return {family: LINE_COLORS[place] for family, place in zip(families, places, strict=True)}
