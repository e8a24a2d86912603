"""What networks trained on designed images rely on."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

__all__ = ["TrainedNetworks", "trained_networks_figure"]

COLORS = {
    "center alone suffices": "#0072b2",
    "either suffices": "#009e73",
    "edge alone suffices": "#d55e00",
    "neither suffices": "#999999",
}


class TrainedNetworks(NamedTuple):
    """Networks of one kind: how each ends (a key of `COLORS`), and the edge objects' share (N,)."""

    outcomes: Sequence[str]
    shares: NDArray[np.float64]


def trained_networks_figure(
    training: NDArray[np.float32],
    center: NDArray[np.float32],
    edge: NDArray[np.float32],
    *,
    accuracies: tuple[float, float, float],
    networks: Mapping[str, TrainedNetworks],
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
    title : str
        Above all.
    """
    figure = Figure(figsize=(7.6, 6.6), layout="constrained")
    figure.suptitle(title)
    halves: Any = figure.subfigures(2, 1, height_ratios=(1.5, 1))
    above, below = halves
    axes: Any = above.subplots(2, 3)
    names = ("training data", "test data 1: center", "test data 2: edge")
    for column, (name, images, accuracy) in enumerate(
        zip(names, (training, center, edge), accuracies, strict=True)
    ):
        axes[0, column].set_title(f"{name}\naccuracy {accuracy:.0%}", fontsize=9)
        for label, image in enumerate(images):
            axis = axes[label, column]
            axis.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axis.set(xticks=[], yticks=[])
    for label in (0, 1):
        axes[label, 0].set_ylabel(f"class {label}", fontsize=9)
    panels: Any = below.subplots(1, 2, sharey=True)
    bars, strip = panels
    kinds = list(networks)
    for position, kind in enumerate(kinds):
        outcomes, shares = networks[kind]
        start = 0
        for outcome, color in COLORS.items():
            count = list(outcomes).count(outcome)
            bars.barh(position, count, left=start, height=0.5, color=color)
            if count:
                bars.text(start + count / 2, position, count, ha="center", va="center", color="w")
            start += count
        # Spread over the height of a bar, in their order, so that none hides another
        heights = position + np.linspace(-0.25, 0.25, len(shares))
        colors = [COLORS[outcome] for outcome in outcomes]
        strip.scatter(shares, heights, s=16, c=colors, edgecolors="none")
    bars.set_yticks(range(len(kinds)), [f"{kind} head" for kind in kinds], fontsize=9)
    bars.set_ylim(len(kinds) - 0.5, -0.5)
    bars.set_xlabel("networks", fontsize=9)
    every = np.concatenate([shares for _, shares in networks.values()])
    strip.set_xlim(min(0, every.min()) - 0.03, max(1, every.max()) + 0.03)
    strip.axvline(0.5, color="#999999", linewidth=0.8, linestyle="--")
    strip.set_xlabel("the edge objects' share of the classes'\ndifference in logits", fontsize=9)
    handles = [Patch(color=color) for color in COLORS.values()]
    below.legend(handles, COLORS, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure
