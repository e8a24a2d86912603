"""Networks that are retrained on perturbed images: the images, and how often the networks are right."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray

from attributionlab.report.figures import show_image
from attributionlab.report.palette import LINE_COLORS


class AccuracyBars(NamedTuple):
    """Of one kind of networks, for each group: all their accuracies (if any), and the published one."""

    accuracies: Sequence[Sequence[float]]
    published: Sequence[float | None]


def retraining_figure(
    samples: Mapping[str, NDArray[np.float32]],
    bars: Mapping[str, AccuracyBars],
    *,
    groups: Sequence[str],
    groups_label: str,
    possible: Sequence[float],
    chance: float,
    title: str = "",
) -> Figure:
    """A row of sample images for each set, and below them bars of accuracies.

    Parameters
    ----------
    samples : mapping of str to ndarray, (N, 3, H, W)
        Images in [0, 1] of each set, as many of each.
    bars : mapping of str to AccuracyBars
        By kind of networks. A bar is their mean, its whisker goes from the lowest to the highest.
    groups : sequence of str
        What each group of bars has in common.
    groups_label : str
        What the groups are.
    possible : sequence of float
        The best possible accuracy of each group; empty if it is not known.
    chance : float
        The accuracy of guessing.
    title : str
        Above all.
    """
    above = 0.8 * len(samples)
    figure = Figure(figsize=(8, 4.3 + above), layout="constrained")
    figure.suptitle(title, fontsize=10)
    halves: Any = figure.subfigures(2, 1, height_ratios=(above, 3.7))
    upper, lower = halves
    _draw_samples(upper, samples)
    _draw_bars(lower, bars, possible, chance)
    [axis] = lower.axes
    axis.set_xticks(range(len(groups)), groups, fontsize=9)
    axis.set_xlabel(groups_label, fontsize=9)
    lower.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _draw_samples(figure: SubFigure, samples: Mapping[str, NDArray[np.float32]]) -> None:
    columns = len(next(iter(samples.values())))
    axes: Any = figure.subplots(len(samples), columns, squeeze=False)
    for row, (name, images) in zip(axes, samples.items(), strict=True):
        for axis, image in zip(row, images, strict=True):
            show_image(axis, image, 1)
        row[0].set_ylabel(name, fontsize=9, rotation="horizontal", ha="right", va="center")


def _draw_bars(
    figure: SubFigure, bars: Mapping[str, AccuracyBars], possible: Sequence[float], chance: float
) -> None:
    axis: Any = figure.subplots()
    width = 0.8 / len(bars)
    diamonds: list[tuple[float, float]] = []
    for index, (kind, (accuracies, published)) in enumerate(bars.items()):
        every = np.arange(len(accuracies)) + (index - (len(bars) - 1) / 2) * width
        places = np.array([place for place, a in zip(every, accuracies, strict=True) if a])
        low, mean, high = np.array([(min(a), np.mean(a), max(a)) for a in accuracies if a]).T
        axis.bar(places, mean, 0.92 * width, color=LINE_COLORS[index], label=kind)
        reach = (mean - low, high - mean)
        axis.errorbar(places, mean, reach, fmt="none", ecolor="black", capsize=4, linewidth=1)
        for place, value in zip(places, mean, strict=True):
            axis.text(place, 0.02, f"{value:.2f}", ha="center", color="white", fontsize=9)
        diamonds += [
            (place - 0.3 * width, value)
            for place, value in zip(every, published, strict=True)
            if value is not None
        ]
    if diamonds:
        axis.scatter(
            *zip(*diamonds, strict=True),
            marker="D",
            color="white",
            edgecolors="black",
            zorder=3,
            label="published, for CIFAR-10",
        )
    if possible:
        middles = np.arange(len(possible))
        axis.hlines(
            possible,
            middles - 0.44,
            middles + 0.44,
            colors="black",
            linestyles="--",
            linewidth=1.2,
            label="best possible",
        )
    axis.axhline(chance, color="#777777", linestyle=":", linewidth=1, label="chance")
    axis.set_ylim(0, 1.12)
    axis.set_ylabel("accuracy on test images\n(share that is right)", fontsize=9)
