"""Table 1: what the paper says of each protocol with a tick or a cross, measured."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.environment.catalog import load
from attributionlab.metrics import deletion_drops, grid_patches, ids, idsds, patch_sums
from attributionlab.metrics.orders import removal_order
from attributionlab.papers.idsds.data import Task
from attributionlab.papers.idsds.maps import panel_maps
from attributionlab.papers.idsds.protocols.construction import Judged
from attributionlab.papers.idsds.protocols.names import IDS, IDSDS, PARTS, SDS
from attributionlab.papers.idsds.protocols.scoring import rank_scores
from attributionlab.papers.idsds.training import Pair
from attributionlab.papers.subjects.small_network import trained_small_network
from attributionlab.stats.intervals import mean_interval

if TYPE_CHECKING:
    import pandas as pd

ROAR = "ROAR"
ALIGNED, TIGHT, COMPARABLE, NATURAL = (
    "domain alignment",
    "no leakage",
    "inter-model comparison",
    "natural data",
)
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
PATCHES, PARTS_OF = 16, "multi-color-sum"
EPOCHS = 8


class Leak(NamedTuple):
    """How well a network tells the class from what is deleted alone.

    Parameters
    ----------
    what : str
        What is deleted.
    accuracy, low, high : float
        On masks that it was not trained on; the 95 % interval is one over them.
    chance : float
        The share of the commonest class among them.
    """

    what: str
    accuracy: float
    low: float
    high: float
    chance: float


def leaks(task: Task, network: nn.Module, n: int, seed: int) -> dict[str, Leak]:
    """Train networks on masks alone: what ROAR deletes, a cell drawn at random, a known part.

    Parameters
    ----------
    task : Task
        Whose images to train on are used, one half for masks to train on, the other for the test.
    network : nn.Module
        Whose attributions of the label say what ROAR deletes: the 30 % with the highest ones.
    n : int
        Masks in all.
    seed : int
        Of what is drawn, and of the networks.
    """
    images, labels = task.training_images[:n], task.training_labels[:n]
    maps = _maps(network, images, labels, seed)
    highest = removal_order(maps)[:, : round(REMOVED * maps[0].numel())]
    removed = torch.zeros(len(maps), maps[0].numel()).scatter(1, highest, 1.0).view(maps.shape)
    generator = torch.Generator().manual_seed(seed)
    _, _, height, width = images.shape
    cells = grid_patches(height, width, PATCHES)
    drawn = torch.randint(PATCHES, (len(images), 1, 1, 1), generator=generator)
    env = load(PARTS_OF, image_size=images.shape[-1])
    samples = [env.dataset(n, seed)[index] for index in range(n)]
    patches = torch.stack([sample.patches for sample in samples])[:, None]
    chosen = torch.rand(n, generator=generator) * patches.amax((1, 2, 3))
    of_parts = torch.stack([sample.label for sample in samples])
    return {
        ROAR: _leak(f"the top {REMOVED:.0%} by IG", removed, labels, task.classes, seed),
        IDSDS: _leak("a random cell", (cells == drawn).float(), labels, task.classes, seed),
        PARTS: _leak(
            "a random part",
            (patches == chosen.long()[:, None, None, None] + 1).float(),
            of_parts,
            int(of_parts.max()) + 1,
            seed,
        ),
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
    """By protocol, the mean change of an image's score when all logits are halved, maps left alone.

    SDS and IDS are of the original network, IDSDS is of the fine-tuned one.
    """
    images, labels = task.images, task.labels
    changes = {}
    for protocol, network in zip((SDS, IDSDS), pair, strict=True):
        maps = _maps(network, images, labels, seed)
        first, second = (
            idsds(each, images, labels, maps, patches=PATCHES, replacement=task.baseline)
            for each in (network, _Cooler(network).eval())
        )
        changes[protocol] = float((second - first).abs().nanmean())
    maps = _maps(pair.original, images, labels, seed)
    first, second = (
        ids(
            nn.Sequential(each, nn.Softmax(dim=1)).eval(),
            images,
            labels,
            maps,
            replacement=task.baseline,
        )
        for each in (pair.original, _Cooler(pair.original).eval())
    )
    return changes | {IDS: float((second - first).abs().mean())}


def _maps(network: nn.Module, images: Tensor, labels: Tensor, seed: int) -> Tensor:
    """Of the one method that stands for all."""
    of_method = panel_maps(network, images, labels, (METHOD,), layer=None, seed=seed, quick=True)
    return of_method[METHOD]


def modulo_scores(n: int, seed: int) -> NDArray[np.float64]:
    """Single deletion's score of the exact Shapley values where what falls is a remainder: (n,).

    Single-color-modulo's output is the number of white pixels modulo 30. Each has the same Shapley
    value, but without a cell the output may rise as well as fall.
    """
    env = load("single-color-modulo", image_size=36)
    images, labels = env.batch(n, seed)
    targets = env.targets(labels)
    exact = torch.stack([env.shapley(image, 0) for image in images])
    drops = deletion_drops(env.model, images, targets, patches=PATCHES, replacement=env.baseline)
    return rank_scores(drops, patch_sums(exact, PATCHES))[0]


def properties_table(
    judged: Sequence[Judged],
    found: Mapping[str, Leak],
    changes: Mapping[str, float],
) -> "pd.DataFrame":
    """A row for each protocol and property: what the paper says, what was measured, what that says.

    Parameters
    ----------
    judged : sequence of Judged
        Their shares of unseen images; those of logits, since networks are the same for probabilities.
    found, changes : mapping
        Of `leaks` and `recalibration`.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for protocol, says in SAYS.items():
        unseen = [
            each.unseen[protocol]
            for each in judged
            if each.output == "logit" and protocol in each.unseen
        ]
        shares = np.concatenate(unseen) if unseen else np.array([np.nan])
        share = float(shares.mean())
        leak, change = found.get(protocol), changes.get(protocol, np.nan)
        measured = {
            ALIGNED: (
                share,
                "" if np.isnan(share) else _yes(share == 0),
                "not measured (soco-figure-1 and -12 retrain)"
                if np.isnan(share)
                else "share of its images that set off redundant channels; "
                + networks_reacting(shares),
            ),
            TIGHT: (
                leak.accuracy if leak else np.nan,
                _yes(leak.low <= leak.chance) if leak else "",
                f"accuracy from {leak.what} alone, {leak.low:.2f} to {leak.high:.2f}; chance "
                f"{leak.chance:.2f}"
                if leak
                else "not measured: nothing is trained on what is deleted",
            ),
            COMPARABLE: (
                change,
                "" if np.isnan(change) else _yes(change == 0),
                "not measured"
                if np.isnan(change)
                else "mean change of scores when all logits are halved",
            ),
            NATURAL: (
                np.nan,
                "",
                "not measured: all images here are drawn",
            ),
        }
        for name, (value, answer, how) in measured.items():
            rows.append(
                {"protocol": protocol, "property": name, "paper": says[name]}
                | {"ours": answer, "measured": value, "how": how}
            )
    return pd.DataFrame(rows)


def networks_reacting(shares: NDArray[np.float64]) -> str:
    """How many networks react to none of a protocol's images of theirs, and how many to all."""
    none, every = int((shares == 0).sum()), int((shares == 1).sum())
    return f"{none} of {len(shares)} networks react to none, {every} to all"


def _yes(condition: bool) -> str:
    return "yes" if condition else "no"
