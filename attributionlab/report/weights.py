"""What the weights of networks look like."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from attributionlab.report.palette import LINE_COLORS

SIGNS = {"positive weights": LINE_COLORS[1], "negative weights": LINE_COLORS[0]}


class WeightsRow(NamedTuple):
    """The weights (N,) of one network in its variants, by name."""

    label: str
    weights: Mapping[str, NDArray[np.float64]]


def weights_figure(rows: Sequence[WeightsRow], title: str = "") -> Figure:
    """Histograms of magnitudes in octaves, positive weights upwards and negative ones downwards.

    A row for each network, a column for each of its variants, all on the same axes; weights of 0,
    which have no octave, stand as a share beside the histogram.

    Parameters
    ----------
    rows : sequence of WeightsRow
        Of the same variants.
    title : str
        Above all.
    """
    names = list(rows[0].weights)
    octaves = np.concatenate([_octaves(each)[0] for row in rows for each in row.weights.values()])
    edges = np.arange(octaves.min(), octaves.max() + 2) - 0.5
    size = (1.2 + 3.6 * len(names), 1.3 + 1.7 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title)
    axes: Any = figure.subplots(len(rows), len(names), squeeze=False, sharex=True, sharey="row")
    for axis, name in zip(axes[0], names, strict=True):
        axis.set_title(name, fontsize=10)
    for row, in_row in zip(rows, axes, strict=True):
        in_row[0].set_ylabel(f"{row.label}\nweights per octave", fontsize=8)
        for axis, name in zip(in_row, names, strict=True):
            _draw(axis, row.weights[name], edges)
    for axis in axes[-1]:
        axis.set_xlabel("magnitude", fontsize=9)
    handles = [Patch(color=color, label=name) for name, color in SIGNS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def _draw(axis: Axes, weights: NDArray[np.float64], edges: NDArray[np.float64]) -> None:
    octaves, signs = _octaves(weights)
    for sign, color in zip((1, -1), SIGNS.values(), strict=True):
        counts, _ = np.histogram(octaves[signs == sign], edges)
        axis.bar(edges[:-1] + 0.5, sign * counts, width=0.85, color=color)
    axis.set_yscale("symlog", linthresh=10)
    axis.axhline(0, color="#999999", linewidth=0.8)
    axis.yaxis.set_major_formatter(lambda count, _: f"{abs(count):,.0f}")
    axis.xaxis.set_major_formatter(lambda octave, _: f"$2^{{{octave:.0f}}}$")
    axis.tick_params(labelsize=8)
    values, zeros = len(np.unique(weights)), (weights == 0).mean()
    said = f"{len(weights):,} weights, {values:,} values, {zeros:.0%} are 0"
    axis.text(0.02, 0.97, said, transform=axis.transAxes, fontsize=7, va="top")
    axis.margins(y=0.25)


def _octaves(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """floor(log2 |w|) and the sign of every weight that is not 0."""
    there = weights[weights != 0]
    # frexp is exact: |w| = m 2^e with m in [0.5, 1).
    return np.frexp(np.abs(there))[1] - 1.0, np.sign(there)
