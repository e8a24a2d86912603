"""Maps of trained networks scored by SDS and IDS of the original and IDSDS of the fine-tuned ones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from attributionlab.metrics import deletion_drops, grid_patches, ids, judged_by_drops, patch_sums
from attributionlab.papers.idsds.data import Task, colors_task, pictures_task
from attributionlab.papers.idsds.environment_scores import IDS, IDSDS, PATCHES, SDS, UPDATED_IDS
from attributionlab.papers.idsds.maps import ABSOLUTE, CONTROL, PANEL, panel_maps
from attributionlab.papers.idsds.training import Pair, trained_pair
from attributionlab.papers.subjects.networks import Design, gradcam_layer, intrinsic_map
from attributionlab.papers.subjects.small_network import accuracy_of
from attributionlab.progress import track

TASKS: Mapping[str, Callable[..., Task]] = {"colors": colors_task, "pictures": pictures_task}
INTRINSIC: Mapping[str, str] = {"b-cos": "B-cos", "bag": "BagNet"}
"""Families of networks that explain themselves, and what their maps are called."""
PLAIN = "plain"
TRUTH = "truth"
"""Not a protocol: Spearman's correlation of a map's sums over cells with those of the data's truth."""
SIGNED = ("input-x-gradient", "integrated-gradients", "integrated-gradients-uniform")
UPDATED = tuple(
    name
    for name in PANEL
    if name.removesuffix(ABSOLUTE) in SIGNED or name in ("saliency", "gradcam", CONTROL)
)
"""Rows whose maps are updated: those of which the paper's text speaks and some that cost little."""


class Scale(NamedTuple):
    """How much is trained and explained.

    Networks of each design and task, each with images, weights and an order of its own; images to train
    on and to explain; passes over the whole images, and then over some without a cell; how many of the
    explained images are explained anew in each step of IDS; and its steps.
    """

    networks: int
    training: int
    images: int
    epochs: int
    fine_tuning: int
    updated: int
    steps: int


class Explained(NamedTuple):
    """Images whose maps are judged, what deleted pixels become, and layers of both networks.

    `layers` are GradCAM's, of the original and of the fine-tuned network; `truth`, (B, 1, H, W), is
    what the data say, where it is known.
    """

    images: Float[Tensor, "batch channels height width"]
    labels: Int64[Tensor, " batch"]
    replacement: Tensor
    layers: Sequence[nn.Module | str | None]
    truth: Tensor | None = None


def trained_scores(
    scale: Scale, seed: int, *, quick: bool, show_progress: bool = False
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[Task, Pair]]:
    """Train networks on every task and score maps of them.

    Returns a row for each task, network, protocol, map and image; accuracies of both versions of each
    network, on whole images and on those without a cell; and the last task with a plain network.
    """
    scores, accuracies, last = [], [], None
    runs = list(product(TASKS, range(scale.networks), (PLAIN, *INTRINSIC)))
    for place, number, family in track(runs, len(runs), "networks", show_progress):
        if family == PLAIN:
            task = TASKS[place](scale.training, scale.images, seed + 2 * number)
        pair = trained_pair(
            Design(family),
            task,
            seed=seed + number,
            patches=PATCHES,
            replacement=task.baseline,
            epochs=scale.epochs,
            fine_tuning_epochs=scale.fine_tuning,
        )
        layers = [gradcam_layer(network) for network in pair]
        explained = Explained(task.images, task.labels, task.baseline, layers, task.truth)
        if family == PLAIN:
            last = task, pair
            found = pair_scores(pair, explained, scale, seed, quick=quick)
        else:
            found = _intrinsic_scores(family, pair, explained)
        scores.append(found.assign(place=place, network=number))
        row = {"place": place, "family": family, "network": number}
        accuracies.append(row | _accuracies(pair, task))
    assert last is not None  # there is one network at least
    return pd.concat(scores, ignore_index=True), pd.DataFrame(accuracies), last


def pair_scores(
    pair: tuple[nn.Module, nn.Module | None],
    explained: Explained,
    scale: Scale,
    seed: int,
    *,
    quick: bool,
) -> pd.DataFrame:
    """Score the panel's maps of a network: SDS and IDS, and IDSDS where it has been fine-tuned.

    Each version of the network has maps of its own logits. IDS is the probability's, on the first
    images alone, and of maps for which methods take few samples: they are made anew in each step.
    """
    original, tuned = pair
    images, labels = explained.images, explained.labels
    panel = partial(_panel, pair, explained, seed)
    found = [*_deleted(SDS, original, explained, panel(images, labels, quick=quick))]
    if tuned is not None:
        own = panel(images, labels, version=1, quick=quick)
        found += _deleted(IDSDS, tuned, explained, own)
        if explained.truth is not None:
            found += _ranked(TRUTH, patch_sums(explained.truth, PATCHES), own)
    images, labels = images[: scale.updated], labels[: scale.updated]
    maps = panel(images, labels)
    probable = nn.Sequential(original, nn.Softmax(dim=1)).eval()
    updated = [name for name in UPDATED if name in maps]  # some need a layer
    for protocol, names in ((IDS, [*maps]), (UPDATED_IDS, updated)):
        for name in names:
            values = ids(
                *(probable, images, labels, maps[name]),
                replacement=explained.replacement,
                steps=scale.steps,
                explain=(lambda x, t, name=name: panel(x, t, (name,))[name])  # type: ignore[misc]
                if protocol == UPDATED_IDS
                else None,
            )
            found.append(_rows(protocol, name, values, False))
    return pd.concat(found, ignore_index=True)


def _panel(
    pair: Sequence[nn.Module | None],
    explained: Explained,
    seed: int,
    images: Tensor,
    labels: Tensor,
    names: Sequence[str] = PANEL,
    *,
    version: int = 0,
    quick: bool = True,
) -> dict[str, Tensor]:
    network = pair[version]
    assert network is not None
    return panel_maps(
        *(network, images, labels, names),
        layer=explained.layers[version],
        baselines=explained.replacement,
        seed=seed,
        quick=quick,
    )


def _intrinsic_scores(family: str, pair: Pair, explained: Explained) -> pd.DataFrame:
    """Score the maps of networks that explain themselves."""
    found: list[pd.DataFrame] = []
    for protocol, network in zip((SDS, IDSDS), pair, strict=True):
        maps = intrinsic_map(network, explained.images, explained.labels).detach().double()
        found += _deleted(protocol, network, explained, {INTRINSIC[family]: maps})
    return pd.concat(found, ignore_index=True)


def _deleted(
    protocol: str, network: nn.Module, explained: Explained, maps: Mapping[str, Tensor]
) -> Iterator[pd.DataFrame]:
    images, labels, replacement, *_ = explained
    drops = deletion_drops(network, images, labels, patches=PATCHES, replacement=replacement)
    return _ranked(protocol, drops, maps)


def _ranked(protocol: str, drops: Tensor, maps: Mapping[str, Tensor]) -> Iterator[pd.DataFrame]:
    for name, of_name in maps.items():
        found = judged_by_drops(patch_sums(of_name, PATCHES), drops)
        yield _rows(protocol, name, found.scores, found.constant_maps)


def _rows(protocol: str, method: str, score: Tensor, constant: Any) -> pd.DataFrame:
    known = {"protocol": protocol, "method": method, "image": range(len(score))}
    return pd.DataFrame({**known, "score": score.numpy(), "constant": np.asarray(constant)})


def _accuracies(pair: Pair, task: Task) -> dict[str, float]:
    """Return accuracies of both versions on whole images, and means over images without each cell."""
    _, _, height, width = task.images.shape
    labels = grid_patches(height, width, PATCHES)
    cells = labels == torch.arange(PATCHES)[:, None, None, None]
    found: dict[str, float] = {}
    for version, network in zip(Pair._fields, pair, strict=True):
        lacking = [
            accuracy_of(network, torch.where(cell, task.baseline, task.images), task.labels)
            for cell in cells
        ]
        found[version] = accuracy_of(network, task.images, task.labels)
        found[f"{version}_lacking"] = float(np.mean(lacking))
    return found
