"""A leaderboard as a figure."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attributionlab.report.palette import LINE_COLORS

RANKS = "cividis_r"
LETTERS = 13
"""Of a title, to the inch."""


def leaderboard_figure(
    methods: Sequence[str],
    *,
    scores: NDArray[np.float64],
    truth: NDArray[np.float64],
    ranks: NDArray[np.float64],
    cases: Sequence[str],
    title: str,
) -> Figure:
    """Fused scores with their intervals, the truth's beside them, and the ranks they are made of.

    Parameters
    ----------
    methods : sequence of str
        From top to bottom, best first.
    scores : ndarray, (methods, 3)
        Score, and the ends of its interval.
    truth : ndarray, (methods,)
        Scores by the truth, in [0, 1].
    ranks : ndarray, (methods, cases)
        NaN where a method is missing, which is left white.
    cases : sequence of str
        From left to right.
    title : str
        Above all.
    """
    width = 8.4 + 0.27 * len(cases)
    figure = Figure(figsize=(width, 3.6 + 0.3 * len(methods)), layout="constrained")
    figure.suptitle(textwrap.fill(title, int(LETTERS * width)), fontsize=10)
    ratios = [2.6, 1.6, 0.27 * len(cases) + 0.6]
    fused, true, ranked = figure.subplots(1, 3, width_ratios=ratios)
    places = np.arange(len(methods))
    reach = (scores[:, 1:] - scores[:, [0]]) * [-1, 1]
    fused.errorbar(
        scores[:, 0],
        places,
        xerr=np.nan_to_num(reach.T).clip(0),  # a score may lie outside of its percentiles
        fmt="o",
        color=LINE_COLORS[0],
        capsize=3,
        markersize=5,
    )
    fused.axvline(0, color="#777777", linewidth=0.8)
    fused.set_xlabel("Meta-Rank score, log odds\n(higher is better)", fontsize=9)
    true.barh(places, truth, color=LINE_COLORS[2], height=0.6)
    true.set_xlim(0, 1)
    true.set_xlabel("truth: lowest F1\n(higher is better)", fontsize=9)
    for axis in (fused, true):
        axis.set_ylim(len(methods) - 0.5, -0.5)
        axis.grid(axis="x", linewidth=0.4, color="#cccccc")
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=8)
    fused.set_yticks(places, methods, fontsize=9)
    true.set_yticks([])
    image = ranked.imshow(ranks, cmap=RANKS, aspect="auto", vmin=1, vmax=len(methods))
    ranked.set_yticks([])
    ranked.set_xticks(range(len(cases)), cases, rotation=90, fontsize=7)
    ranked.set_title("rank in each case", fontsize=9)
    bar = figure.colorbar(image, ax=ranked, fraction=0.03, pad=0.02)
    bar.set_label("rank (1 is best)", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    bar.ax.invert_yaxis()
    return figure
