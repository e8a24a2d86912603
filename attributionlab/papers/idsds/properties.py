"""Table 1: what the paper says of each protocol with a tick or a cross, measured."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float32, Int64
from torch import Tensor, nn

from attributionlab.environment.catalog import load
from attributionlab.metrics import (
    deletion_drops,
    grid_patches,
    ids,
    idsds,
    judged_by_drops,
    patch_sums,
)
from attributionlab.metrics.orders import removal_order
from attributionlab.papers.idsds.data import Task
from attributionlab.papers.idsds.environment_scores import IDS, IDSDS, PARTS, PATCHES, SDS, SIDE
from attributionlab.papers.idsds.maps import panel_maps
from attributionlab.papers.idsds.training import Pair
from attributionlab.papers.subjects.small_network import trained_small_network
from attributionlab.stats.intervals import mean_interval, mean_score

ROAR = "ROAR"
ALIGNED, TIGHT = "domain alignment", "no leakage"
COMPARABLE, NATURAL = "inter-model comparison", "natural data"
SAYS: Mapping[str, Mapping[str, str]] = {
    IDS: {ALIGNED: "no", TIGHT: "n/a", COMPARABLE: "no", NATURAL: "yes"},
    SDS: {ALIGNED: "no", TIGHT: "n/a", COMPARABLE: "yes", NATURAL: "yes"},
    ROAR: {ALIGNED: "yes", TIGHT: "no", COMPARABLE: "no", NATURAL: "yes"},
    PARTS: {ALIGNED: "yes", TIGHT: "yes", COMPARABLE: "yes", NATURAL: "no"},
    IDSDS: {ALIGNED: "yes", TIGHT: "yes", COMPARABLE: "yes", NATURAL: "yes"},
}
"""The paper's table; its FunnyBirds is a framework of its own, of which parts are one piece."""
REMOVED = 0.3
"""Of the pixels, by attribution: what ROAR deletes at one of its steps."""
METHOD = "integrated-gradients"
EPOCHS = 8


class Leak(NamedTuple):
    """How well a network tells the class from `what` is deleted alone, on masks it has not seen.

    `chance` is the share of the commonest class among them.
    """

    what: str
    accuracy: float
    low: float
    high: float
    chance: float


def leaks(task: Task, network: nn.Module, n: int, seed: int) -> dict[str, Leak]:
    """Train networks on masks alone: what ROAR deletes, a cell drawn at random, a known part.

    ROAR deletes the 30 % of the pixels with the highest attributions of the network. Of n masks one
    half is for the training, the other for the test.
    """
    images, labels = task.training_images[:n], task.training_labels[:n]
    maps = _maps(network, images, labels, seed)
    highest = removal_order(maps)[:, : round(REMOVED * maps[0].numel())]
    removed = torch.zeros(len(maps), maps[0].numel()).scatter(1, highest, 1.0).view(maps.shape)
    generator = torch.Generator().manual_seed(seed)
    _, _, height, width = images.shape
    cells = grid_patches(height, width, PATCHES)
    drawn = torch.randint(PATCHES, (len(images), 1, 1, 1), generator=generator)
    dataset = load("multi-color-sum", image_size=width).dataset(n, seed)
    samples = [dataset[index] for index in range(n)]
    patches = torch.stack([sample.patches for sample in samples])[:, None]
    chosen = torch.rand(n, generator=generator) * patches.amax((1, 2, 3))
    part = (patches == chosen.long()[:, None, None, None] + 1).float()
    of_parts = torch.stack([sample.label for sample in samples])
    return {
        ROAR: _leak(f"the top {REMOVED:.0%} by IG", removed, labels, task.classes, seed),
        IDSDS: _leak("a random cell", (cells == drawn).float(), labels, task.classes, seed),
        PARTS: _leak("a random part", part, of_parts, int(of_parts.max()) + 1, seed),
    }


def _leak(
    what: str,
    masks: Float32[Tensor, "n 1 side side"],
    labels: Int64[Tensor, " n"],
    classes: int,
    seed: int,
) -> Leak:
    half = len(masks) // 2
    network = trained_small_network(
        masks[:half], labels[:half], classes=classes, seed=seed, epochs=EPOCHS
    )
    with torch.no_grad():
        right = (network(masks[half:]).argmax(1) == labels[half:]).double().numpy()
    low, high = mean_interval(right, seed) or (np.nan, np.nan)
    chance = float(labels[half:].bincount().max()) / len(right)
    return Leak(what, float(right.mean()), low, high, chance)


class _Cooler(nn.Module):
    """A network whose logits are divided by 2: the same decisions and ranks, another calibration."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        return logits / 2


def recalibration(task: Task, pair: Pair, seed: int) -> dict[str, float]:
    """Return the mean change of an image's score when all logits are halved, maps left alone.

    SDS and IDS are of the original network, IDSDS is of the fine-tuned one.
    """
    images, labels = task.images, task.labels

    def change(network: nn.Module, maps: Tensor, metric: Any, **settings: Any) -> float:
        first, second = (
            metric(each, images, labels, maps, replacement=task.baseline, **settings)
            for each in (network, _Cooler(network).eval())
        )
        return float((second - first).abs().nanmean())

    def probable(network: nn.Module, *of_images: Any, **settings: Any) -> Tensor:
        return ids(nn.Sequential(network, nn.Softmax(dim=1)).eval(), *of_images, **settings)

    maps = [_maps(network, images, labels, seed) for network in pair]
    return {
        SDS: change(pair.original, maps[0], idsds, patches=PATCHES),
        IDSDS: change(pair.fine_tuned, maps[1], idsds, patches=PATCHES),
        IDS: change(pair.original, maps[0], probable),
    }


def _maps(network: nn.Module, images: Tensor, labels: Tensor, seed: int) -> Tensor:
    """Of the one method that stands for all."""
    of_method = panel_maps(network, images, labels, (METHOD,), layer=None, seed=seed, quick=True)
    return of_method[METHOD]


def modulo_table(n: int, seed: int) -> pd.DataFrame:
    """Return single deletion's score of the exact Shapley values where what falls is a remainder.

    Single-color-modulo's output is the number of white pixels modulo 30. Each has the same Shapley
    value, but without a cell the output may rise as well as fall.
    """
    env = load("single-color-modulo", image_size=SIDE)
    images, labels = env.batch(n, seed)
    exact = torch.stack([env.shapley(image, 0) for image in images])
    drops = deletion_drops(
        *(env.model, images, env.targets(labels)), patches=PATCHES, replacement=env.baseline
    )
    scores = judged_by_drops(patch_sums(exact, PATCHES), drops).scores.numpy()
    low, high = mean_interval(scores, 0) or (np.nan, np.nan)
    row = {"score": mean_score(scores), "low": low, "high": high}
    return pd.DataFrame([row | {"images": int((~np.isnan(scores)).sum())}])


def domain_table(unseen: pd.DataFrame) -> pd.DataFrame:
    """Return for each environment and protocol how much of its images is out of domain.

    `unseen` is the share that sets off a redundant channel; of `networks`, `none` react to none of
    their images and `all` to each.
    """
    return (
        unseen.groupby(["place", "protocol"], sort=False)
        .agg(
            unseen=("unseen", "mean"),
            networks=("unseen", "size"),
            none=("unseen", lambda shares: int((shares == 0).sum())),
            all=("unseen", lambda shares: int((shares == 1).sum())),
            exact_drops=("exact_drops", "mean"),
        )
        .reset_index()
    )


def properties_table(
    unseen: pd.DataFrame, found: Mapping[str, Leak], changes: Mapping[str, float]
) -> pd.DataFrame:
    """Return what the paper says of each protocol's properties, what was measured, what that says.

    Parameters
    ----------
    unseen : DataFrame
        Shares of unseen images (`environment_scores`).
    found, changes : mapping
        Of `leaks` and `recalibration`.
    """
    rows = []
    for protocol, says in SAYS.items():
        for name, (value, answer, how) in {
            ALIGNED: _alignment(unseen[unseen.protocol == protocol].unseen),
            TIGHT: _leakage(found.get(protocol)),
            COMPARABLE: _comparison(changes.get(protocol)),
            NATURAL: (np.nan, "", "not measured: all images here are drawn"),
        }.items():
            rows.append(
                {"protocol": protocol, "property": name, "paper": says[name]}
                | {"ours": answer, "measured": value, "how": how}
            )
    return pd.DataFrame(rows)


def _alignment(shares: pd.Series) -> tuple[float, str, str]:
    if not len(shares):
        return np.nan, "", "not measured (soco-figure-1 and -12 retrain)"
    return (
        shares.mean(),
        _yes(shares.max() == 0),
        f"share of its images that set off redundant channels; {(shares == 0).sum()} of {len(shares)} "
        f"networks react to none, {(shares == 1).sum()} to all",
    )


def _leakage(leak: Leak | None) -> tuple[float, str, str]:
    if leak is None:
        return np.nan, "", "not measured: nothing is trained on what is deleted"
    return (
        leak.accuracy,
        _yes(leak.low <= leak.chance),
        f"accuracy from {leak.what} alone, {leak.low:.2f} to {leak.high:.2f}; chance "
        f"{leak.chance:.2f}",
    )


def _comparison(change: float | None) -> tuple[float, str, str]:
    if change is None:
        return np.nan, "", "not measured"
    return change, _yes(change == 0), "mean change of scores when all logits are halved"


def _yes(condition: bool) -> str:
    return "yes" if condition else "no"
