"""What networks trained on designed images rely on."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from attributionlab.report.figures import show_image

COLORS = ("#0072b2", "#009e73", "#d55e00", "#999999")


class TrainedNetworks(NamedTuple):
    """Networks of one kind: how each ends, and the edge objects' share (N,)."""

    outcomes: Sequence[str]
    shares: NDArray[np.float64]


def trained_networks_figure(
    training: NDArray[np.float32],
    center: NDArray[np.float32],
    edge: NDArray[np.float32],
    *,
    accuracies: tuple[float, float, float],
    networks: Mapping[str, TrainedNetworks],
    outcomes: Sequence[str],
    title: str = "",
) -> Figure:
    """One network's images and accuracies, and below them how the networks of each kind end.

    Parameters
    ----------
    training, center, edge : ndarray, (2, H, W)
        Images of the two classes in [0, 1].
    accuracies : tuple of float
        Of one network on the three.
    networks : mapping of str to TrainedNetworks
        By their kind.
    outcomes : sequence of str
        The ways to end, four at most, in the order in which they are drawn.
    title : str
        Above all.
    """
    figure = Figure(figsize=(7.6, 6.6), layout="constrained")
    figure.suptitle(title)
    halves: Any = figure.subfigures(2, 1, height_ratios=(1.5, 1))
    above, below = halves
    names = ("training data", "test data 1: center", "test data 2: edge")
    titles = [
        f"{name}\naccuracy {accuracy:.0%}" for name, accuracy in zip(names, accuracies, strict=True)
    ]
    _draw_images(above, dict(zip(titles, (training, center, edge), strict=True)))
    colors = dict(zip(outcomes, COLORS, strict=False))
    panels: Any = below.subplots(1, 2, sharey=True)
    bars, strip = panels
    _draw_counts(bars, networks, colors)
    _draw_shares(strip, networks, colors)
    handles = [Patch(color=color) for color in colors.values()]
    below.legend(
        handles, list(colors), loc="outside lower center", ncols=2, fontsize=8, frameon=False
    )
    return figure


def _draw_images(figure: SubFigure, sets: Mapping[str, NDArray[np.float32]]) -> None:
    """A column for each set of two images, under its title; a row for each class."""
    axes: Any = figure.subplots(2, len(sets))
    for column, (title, images) in enumerate(sets.items()):
        axes[0, column].set_title(title, fontsize=9)
        for label, image in enumerate(images):
            show_image(axes[label, column], image[None], 1)
    for label in (0, 1):
        axes[label, 0].set_ylabel(f"class {label}", fontsize=9)


def _draw_counts(
    axis: Axes, networks: Mapping[str, TrainedNetworks], colors: Mapping[str, str]
) -> None:
    """How many networks of each kind end how: bars side by side, from above."""
    for position, (outcomes, _) in enumerate(networks.values()):
        start = 0
        for outcome, color in colors.items():
            count = list(outcomes).count(outcome)
            axis.barh(position, count, left=start, height=0.5, color=color)
            if count:
                axis.text(
                    start + count / 2, position, str(count), ha="center", va="center", color="w"
                )
            start += count
    axis.set_yticks(range(len(networks)), [f"{kind} head" for kind in networks], fontsize=9)
    axis.set_ylim(len(networks) - 0.5, -0.5)
    axis.set_xlabel("networks", fontsize=9)


def _draw_shares(
    axis: Axes, networks: Mapping[str, TrainedNetworks], colors: Mapping[str, str]
) -> None:
    """Each network's share, beside the bar of its kind."""
    for position, (outcomes, shares) in enumerate(networks.values()):
        # Spread over the height of a bar, in their order, so that none hides another
        heights = position + np.linspace(-0.25, 0.25, len(shares))
        of_each = [colors[outcome] for outcome in outcomes]
        axis.scatter(shares, heights, s=16, c=of_each, edgecolors="none")
    every = np.concatenate([shares for _, shares in networks.values()])
    axis.set_xlim(min(0, every.min()) - 0.03, max(1, every.max()) + 0.03)
    axis.axvline(0.5, color="#999999", linewidth=0.8, linestyle="--")
    axis.set_xlabel("the edge objects' share of the classes'\ndifference in logits", fontsize=9)
