"""The spread of scores over images."""

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

Scores = Mapping[str, NDArray[np.float64]]
"""Precision, recall and F1 of each image, NaN where not applicable."""
SCORE_NAMES = {"precision": "precision", "recall": "recall", "f1": "F1"}
ACROSS = 16
"""Methods up to which precision, recall and F1 have room beside each other."""
FILL, BARS, LINE = "#56b4e9", "#333333", "#d55e00"


def violins_figure(
    rows: Mapping[str, Mapping[str, Scores]], gamma: float, title: str = ""
) -> Figure:
    """Precision, recall and F1 of several methods; bars mark the least, the mean and the largest.

    The three stand beside each other, or below each other where there are many methods.

    Parameters
    ----------
    rows : mapping of str to mapping of str to mapping
        From top to bottom: what the scores are about, and the scores by method.
    gamma : float
        The F1 that must be reached, drawn as a line.
    title : str
        Above all.
    """
    methods = list(dict.fromkeys(name for row in rows.values() for name in row))
    across = len(SCORE_NAMES) if len(methods) <= ACROSS else 1
    lines = len(rows) * len(SCORE_NAMES) // across
    size = (3.6 + 0.42 * len(methods) * across, 1.9 + 2.0 * lines)
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title)
    axes: Any = figure.subplots(lines, across, squeeze=False, sharex=True, sharey=True)
    of_rows = axes.reshape(len(rows), len(SCORE_NAMES))
    for (label, scores), line in zip(rows.items(), of_rows, strict=True):
        for (key, name), axis in zip(SCORE_NAMES.items(), line, strict=True):
            for position, method in enumerate(methods, start=1):
                if method in scores:
                    _violin(axis, position, np.asarray(scores[method][key]))
            axis.grid(axis="y", linewidth=0.4, color="#cccccc")
            axis.set(ylim=(-0.04, 1.04))
            axis.set_title(f"{name}, {label}", fontsize=9)
        line[0].set_ylabel("higher is better", fontsize=8)
        line[-1].axhline(gamma, color=LINE, linewidth=1, linestyle="--")
        line[-1].annotate(
            f"gamma {gamma:g}", (1.01, gamma), xycoords=("axes fraction", "data"), fontsize=7,
            va="center", color=LINE, annotation_clip=False,
        )  # fmt: skip
    labels = ["\n".join(textwrap.wrap(name, 20)) for name in methods]
    for axis in axes[-1]:
        axis.set_xlim(0.4, len(methods) + 0.6)
        axis.set_xticks(range(1, len(methods) + 1), labels, rotation=60, ha="right", fontsize=8)
    return figure


def _violin(axis: Axes, position: int, values: NDArray[np.float64]) -> None:
    """Nothing where no value is applicable."""
    applicable = values[~np.isnan(values)]
    if not len(applicable):
        return
    drawn = axis.violinplot(applicable, [position], showmeans=True, widths=0.8)
    bodies: Any = drawn.pop("bodies")  # a list; everything else in there are lines
    for body in bodies:
        body.set(facecolor=FILL, edgecolor="none", alpha=0.8)
    for lines in drawn.values():
        lines.set(color=BARS, linewidth=1)
