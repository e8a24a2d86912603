"""A leaderboard as a figure, and correlations between rankings as matrices."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attributionlab.report.palette import LINE_COLORS

RANKS, CORRELATIONS = "cividis_r", "RdBu"
LETTERS = 13
"""Of a title, to the inch."""
CELL, LETTER = 0.4, 0.062
"""Width of a cell and of a letter, in inches."""
DARK = 0.55
"""Of a color map, where white letters are easier to read than black ones."""


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


class CorrelationMatrix(NamedTuple):
    """Correlations of some rankings with each other.

    Parameters
    ----------
    title : str
        What the rankings share.
    rows, columns : sequence of str
        Whose rankings.
    values : ndarray, (rows, columns)
        In [-1, 1]; NaN where there is none, which is left white.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: NDArray[np.float64]


def correlation_matrices_figure(
    rows: Mapping[str, Sequence[CorrelationMatrix]], title: str
) -> Figure:
    """Matrices of correlations, one color for each value in all of them, numbers in the cells.

    Parameters
    ----------
    rows : mapping of str to sequence of CorrelationMatrix
        From top to bottom: what a row is about, and its matrices.
    title : str
        Above all.
    """
    columns = max(len(row) for row in rows.values())
    every = [each for row in rows.values() for each in row]
    letters = LETTER * max(len(name) for each in every for name in (*each.rows, *each.columns))
    cells = CELL * max(len(each.columns) for each in every)
    width = (letters + cells + 0.3) * columns + 1.2
    heights = [letters + CELL * max(len(each.rows) for each in row) + 0.4 for row in rows.values()]
    figure = Figure(figsize=(width, 0.7 + sum(heights)), layout="constrained")
    figure.suptitle(textwrap.fill(title, int(LETTERS * width)), fontsize=10)
    axes: Any = figure.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
    image = None
    for line, (label, matrices) in zip(axes, rows.items(), strict=True):
        for axis in line[len(matrices) :]:
            axis.set_axis_off()
        for axis, matrix in zip(line, matrices, strict=False):
            image = _draw(axis, matrix)
        line[0].set_ylabel(label, fontsize=9)
    if image is not None:
        bar = figure.colorbar(image, ax=axes, fraction=0.02, pad=0.01)
        bar.set_label("Spearman correlation of two rankings", fontsize=8)
        bar.ax.tick_params(labelsize=8)
    return figure


def _draw(axis: Any, matrix: CorrelationMatrix) -> Any:
    image = axis.imshow(matrix.values, cmap=CORRELATIONS, vmin=-1, vmax=1)
    for (row, column), value in np.ndenumerate(matrix.values):
        if not np.isnan(value):
            color = "white" if abs(value) > DARK else "black"
            axis.text(
                column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=color
            )
    axis.set_xticks(range(len(matrix.columns)), matrix.columns, rotation=90, fontsize=7)
    axis.set_yticks(range(len(matrix.rows)), matrix.rows, fontsize=7)
    axis.set_title(textwrap.fill(matrix.title, 34), fontsize=8)
    return image
