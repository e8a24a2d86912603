"""Networks before and after fine-tuning, each compared with the other and with other networks."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.papers.idsds.alignment.given import GivenPair
from attributionlab.papers.idsds.alignment.likeness import (
    Overlap,
    Seen,
    excitations,
    overlap,
    seen,
    strongest,
)
from attributionlab.papers.idsds.data import task_named
from attributionlab.papers.idsds.training import trained_pair
from attributionlab.papers.subjects.networks import Design, gradcam_layer
from attributionlab.papers.subjects.small_network import accuracy_of
from attributionlab.progress import track
from attributionlab.report.picture_grid import GridRow

PATCHES, BLACK = 16, 0.0
DESIGNS = {"residual": Design("residual", batch_norm=True), "plain": Design("plain")}
BEFORE, AFTER = "original", "fine-tuned"
STRONGEST, DRAWN = 8, 2
"""Images that count as exciting a channel most; channels of each network that are drawn."""


@dataclass(frozen=True)
class Scale:
    """How much is trained: training images, images to ask about, epochs, and training runs."""

    training: int
    images: int
    epochs: int
    fine_tuning: int
    runs: int


@dataclass(eq=False)
class Compared:
    """What was measured, by comparison, in the order of training runs.

    Parameters
    ----------
    differences : mapping of str to list
        By comparison, `Seen.differences` of each run.
    overlaps : mapping of str to list of Overlap
        By comparison.
    accuracies : mapping of str to list of float
        By network and version.
    strips : list of GridRow
        Images that excite channels most.
    """

    differences: dict[str, list[dict[str, NDArray[np.float64]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    overlaps: dict[str, list[Overlap]] = field(default_factory=lambda: defaultdict(list))
    accuracies: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    strips: list[GridRow] = field(default_factory=list)


def compared_trained(
    task: str, scale: Scale, number: int, seed: int, *, show_progress: bool
) -> Compared:
    """Train networks of two designs several times, and compare them.

    Parameters
    ----------
    task : str
        A name in `attributionlab.papers.idsds.data.TASKS`.
    scale : Scale
        How much.
    number : int
        Images to ask about.
    seed : int
        Of images, of the first run's weights, and of the channels that are drawn.
    show_progress : bool
        Show progress on standard error.
    """
    data = task_named(task)(scale.training, number, seed)
    found = Compared()
    views: dict[str, list[Seen]] = defaultdict(list)
    excited: dict[str, list[Tensor]] = defaultdict(list)
    plans = [(family, run) for family in DESIGNS for run in range(scale.runs)]
    for family, run in track(plans, len(plans), "networks", show_progress):
        pair = trained_pair(
            DESIGNS[family],
            data,
            seed=seed + run,
            patches=PATCHES,
            replacement=BLACK,
            epochs=scale.epochs,
            fine_tuning_epochs=scale.fine_tuning,
        )
        for version, network in zip((BEFORE, AFTER), pair, strict=True):
            key, held = f"{family}, {version}", gradcam_layer(network)
            views[key].append(seen(network, data.images, data.labels, held))
            excited[key].append(excitations(network, data.images, held))
            found.accuracies[key].append(accuracy_of(network, data.images, data.labels))
    for comparison, (first, second, later) in _comparisons().items():
        for run in range(scale.runs):
            other = (run + later) % scale.runs
            found.differences[comparison].append(
                views[first][run].differences(views[second][other])
            )
            if first.split(", ")[0] == second.split(", ")[0]:  # others' channels do not correspond
                shared = overlap(excited[first][run], excited[second][other], few_of(number))
                found.overlaps[comparison].append(shared)
    for family in DESIGNS:
        versions = {each: excited[f"{family}, {each}"][0] for each in (BEFORE, AFTER)}
        found.strips += _strips(family, versions, data.images, seed)
    return found


def _comparisons() -> dict[str, tuple[str, str, int]]:
    """By name, the two networks, and how many training runs the second one is behind."""
    fine_tuning = {
        f"{family} and its fine-tuned self": (f"{family}, {BEFORE}", f"{family}, {AFTER}", 0)
        for family in DESIGNS
    }
    again = {
        f"{family} and another training of it": (f"{family}, {BEFORE}", f"{family}, {BEFORE}", 1)
        for family in DESIGNS
    }
    first, second = (f"{family}, {BEFORE}" for family in DESIGNS)
    return {**fine_tuning, " and ".join(DESIGNS): (first, second, 0), **again}


def compared_given(given: GivenPair, seed: int) -> Compared:
    """Compare a user's network with its fine-tuned self."""
    subject = given.subject
    layer = subject.offered.get("layer")
    asked = (subject.images, subject.targets, layer)
    found = Compared()
    name = f"{subject.name} and its fine-tuned self"
    networks = {BEFORE: subject.model, AFTER: given.fine_tuned}
    first, second = (seen(network, *asked) for network in networks.values())
    found.differences[name].append(first.differences(second))
    if layer is not None:
        excited = {
            version: excitations(network, subject.images, layer)
            for version, network in networks.items()
        }
        few = few_of(len(subject.images))
        found.overlaps[name].append(overlap(excited[BEFORE], excited[AFTER], few))
        found.strips += _strips(subject.name, excited, subject.images, seed)
    return found


def few_of(images: int) -> int:
    """How many images count as exciting a channel most."""
    return min(STRONGEST, max(1, images // 4))


def _strips(name: str, excited: Mapping[str, Tensor], images: Tensor, seed: int) -> list[GridRow]:
    """Images for channels drawn at random from those that compare, a row for each version."""
    few = few_of(len(images))
    compared = overlap(excited[BEFORE], excited[AFTER], few).compared.nonzero()[:, 0]
    generator = torch.Generator().manual_seed(seed)
    channels = compared[torch.randperm(len(compared), generator=generator)[:DRAWN]].sort().values
    shown = images.clamp(0, 1).cpu().numpy()
    return [
        GridRow(
            f"{name}, channel {channel}, {version}",
            [shown[index] for index in strongest(of_version, few)[channel].tolist()],
        )
        for channel in channels.tolist()
        for version, of_version in excited.items()
    ]
