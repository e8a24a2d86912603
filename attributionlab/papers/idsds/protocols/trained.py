"""Protocols on trained networks: SDS and IDS of the original ones, IDSDS of the fine-tuned ones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.metrics import deletion_drops, grid_patches, ids, patch_sums
from attributionlab.papers.idsds.data import Task, colors_task, pictures_task
from attributionlab.papers.idsds.maps import PANEL, panel_maps
from attributionlab.papers.idsds.protocols.names import (
    IDS,
    IDSDS,
    INTRINSIC,
    SDS,
    UPDATED,
    UPDATED_IDS,
)
from attributionlab.papers.idsds.protocols.scoring import Scored, rank_scores
from attributionlab.papers.idsds.training import Pair, trained_pair
from attributionlab.papers.subjects.networks import Design, gradcam_layer, intrinsic_map
from attributionlab.papers.subjects.small_network import accuracy_of
from attributionlab.progress import track

Numbers = NDArray[np.float64]

TASKS: Mapping[str, Callable[..., Task]] = {"colors": colors_task, "pictures": pictures_task}
TRUTH = "truth"
"""Not a protocol: Spearman's correlation of a map's sums over cells with those of the data's truth."""
PATCHES = 16
PLAIN = "plain"


@dataclass(frozen=True)
class Scale:
    """How much is trained and explained.

    Parameters
    ----------
    networks : int
        Of each design and task; each has images, weights and an order of its own.
    training, images : int
        Images to train on and to explain, for each network.
    epochs, fine_tuning : int
        Passes over the whole images, and then over some without a cell.
    updated : int
        Of the explained images, how many are explained anew in each step of IDS.
    steps : int
        Of IDS.
    quick : bool
        Fewer samples in methods.
    """

    networks: int
    training: int
    images: int
    epochs: int
    fine_tuning: int
    updated: int
    steps: int
    quick: bool


@dataclass(frozen=True, eq=False)
class Explained:
    """Images whose maps are judged, and how.

    Parameters
    ----------
    images, labels : Tensor
        (B, C, H, W) and (B,).
    replacement : Tensor
        What deleted pixels become.
    layers : sequence of nn.Module, str or None
        GradCAM's, of the original and of the fine-tuned network.
    truth : Tensor, (B, 1, H, W), or None
        Of the data.
    """

    images: Float[Tensor, "batch channels height width"]
    labels: Int64[Tensor, " batch"]
    replacement: Tensor
    layers: Sequence[nn.Module | str | None]
    truth: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Trained:
    """What protocols say of trained networks.

    Parameters
    ----------
    scored : list of Scored
        By task, network, protocol and method.
    accuracies : list of dict
        A row for each network: of both versions, on whole images and on those without a cell.
    last : (Task, Pair)
        The last task with a network of design "plain".
    """

    scored: list[Scored]
    accuracies: list[dict[str, object]]
    last: tuple[Task, Pair]


def trained(scale: Scale, seed: int, *, show_progress: bool = False) -> Trained:
    """Train networks on every task and score maps of them.

    Parameters
    ----------
    scale : Scale
        How much.
    seed : int
        Of the first network of each design.
    show_progress : bool
        Show progress on standard error.
    """
    scored: list[Scored] = []
    accuracies: list[dict[str, object]] = []
    last: tuple[Task, Pair] | None = None
    runs = _networks(scale, seed)
    total = len(TASKS) * scale.networks * (1 + len(INTRINSIC))
    for place, family, number, task, pair in track(runs, total, "networks", show_progress):
        explained = Explained(
            task.images,
            task.labels,
            task.baseline,
            [gradcam_layer(network) for network in pair],
            task.truth,
        )
        if family == PLAIN:
            last = task, pair
            scored += pair_scores(place, number, pair, explained, scale, seed)
        else:
            scored += _intrinsic_scores(place, family, number, pair, explained)
        accuracies.append(
            {"place": place, "family": family, "network": number} | _right(pair, task)
        )
    assert last is not None  # there is one network at least
    return Trained(scored, accuracies, last)


def _networks(scale: Scale, seed: int) -> Iterator[tuple[str, str, int, Task, Pair]]:
    for place, make in TASKS.items():
        for number in range(scale.networks):
            task = make(scale.training, scale.images, seed + 2 * number)
            for family in (PLAIN, *INTRINSIC):
                pair = trained_pair(
                    Design(family),  # type: ignore[arg-type]
                    task,
                    seed=seed + number,
                    patches=PATCHES,
                    replacement=task.baseline,
                    epochs=scale.epochs,
                    fine_tuning_epochs=scale.fine_tuning,
                )
                yield place, family, number, task, pair


def pair_scores(
    place: str,
    number: int,
    pair: tuple[nn.Module, nn.Module | None],
    explained: Explained,
    scale: Scale,
    seed: int,
) -> Iterator[Scored]:
    """Scores of the panel's maps of a network: SDS and IDS, and IDSDS where it has been fine-tuned.

    Each version of the network has maps of its own logits. IDS is the probability's, on the first
    images alone, and of maps for which methods take few samples: they are made anew in each step.
    """
    original, tuned = pair
    maps = _panel(original, explained.images, explained.labels, explained, 0, PANEL, seed, scale)
    yield from _single(place, number, SDS, original, explained, maps)
    if tuned is not None:
        own = _panel(tuned, explained.images, explained.labels, explained, 1, PANEL, seed, scale)
        yield from _single(place, number, IDSDS, tuned, explained, own)
        yield from _against_truth(place, number, explained, own)
    few = slice(0, scale.updated)
    images, labels = explained.images[few], explained.labels[few]
    cheap = replace(scale, quick=True)
    maps = _panel(original, images, labels, explained, 0, PANEL, seed, cheap)
    probable = nn.Sequential(original, nn.Softmax(dim=1)).eval()
    for protocol, names in ((IDS, tuple(maps)), (UPDATED_IDS, UPDATED)):
        for name in names:
            if name not in maps:  # no layer for it
                continue
            values = ids(
                probable,
                images,
                labels,
                maps[name],
                replacement=explained.replacement,
                steps=scale.steps,
                explain=(
                    (
                        lambda x, t, name=name: _panel(  # type: ignore[misc]
                            original, x, t, explained, 0, (name,), seed, cheap
                        )[name]
                    )
                    if protocol == UPDATED_IDS
                    else None
                ),
            )
            yield Scored(place, number, protocol, name, values.numpy(), 0)


def _panel(
    network: nn.Module,
    images: Tensor,
    labels: Tensor,
    explained: Explained,
    version: int,
    names: Sequence[str],
    seed: int,
    scale: Scale,
) -> dict[str, Tensor]:
    return panel_maps(
        network,
        images,
        labels,
        names,
        layer=explained.layers[version],
        baselines=explained.replacement,
        seed=seed,
        quick=scale.quick,
    )


def _intrinsic_scores(
    place: str, family: str, number: int, pair: Pair, explained: Explained
) -> Iterator[Scored]:
    """Scores of the maps of networks that explain themselves."""
    for protocol, network in zip((SDS, IDSDS), pair, strict=True):
        maps = intrinsic_map(network, explained.images, explained.labels).detach().double()
        yield from _single(place, number, protocol, network, explained, {INTRINSIC[family]: maps})


def _single(
    place: str,
    number: int,
    protocol: str,
    network: nn.Module,
    explained: Explained,
    maps: Mapping[str, Tensor],
) -> Iterator[Scored]:
    drops = deletion_drops(
        network,
        explained.images,
        explained.labels,
        patches=PATCHES,
        replacement=explained.replacement,
    )
    yield from _held_against(place, number, protocol, drops, maps)


def _against_truth(
    place: str, number: int, explained: Explained, maps: Mapping[str, Tensor]
) -> Iterator[Scored]:
    if explained.truth is not None:
        known = patch_sums(explained.truth, PATCHES)
        yield from _held_against(place, number, TRUTH, known, maps)


def _held_against(
    place: str,
    number: int,
    protocol: str,
    worth: Float64[Tensor, "batch patches"],
    maps: Mapping[str, Tensor],
) -> Iterator[Scored]:
    for name, of_name in maps.items():
        sums = patch_sums(of_name, PATCHES)
        scores, constant = rank_scores(worth, sums)
        yield Scored(place, number, protocol, name, scores, int(constant.sum()))


def _right(pair: Pair, task: Task) -> dict[str, float]:
    """Accuracies of both versions on whole images, and how often the label survives each deletion."""
    _, _, height, width = task.images.shape
    labels = grid_patches(height, width, PATCHES)
    cells = labels == torch.arange(PATCHES)[:, None, None, None]
    found: dict[str, float] = {}
    for version, network in zip(Pair._fields, pair, strict=True):
        whole = accuracy_of(network, task.images, task.labels)
        lacking = [
            accuracy_of(network, torch.where(cell, task.baseline, task.images), task.labels)
            for cell in cells
        ]
        found |= {version: whole, f"{version}_lacking": float(np.mean(lacking))}
    return found
