"""Networks trained on watermarked images: their accuracies, what they use, how their maps score."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.metrics import relevance_mass_accuracy
from attributionlab.papers.soco.road_curves import road_curve
from attributionlab.papers.soco.scaling import scaled
from attributionlab.papers.soco.watermarks.data import (
    BLACK,
    Watermarked,
    number_watermarks,
    reassigned_labels,
    stripe_count,
    stripe_rows,
    stripe_watermarks,
)
from attributionlab.papers.soco.watermarks.images import NaturalImages
from attributionlab.papers.soco.watermarks.maps import CRAFTED, METHODS, attribution_maps
from attributionlab.papers.subjects.small_network import accuracy_of, fit_network, small_network
from attributionlab.progress import track

MARKS = ("number", "stripes")
EPOCHS = {"original": 12, "number": 6, "stripes": 3}
"""Until accuracies on test images hardly rise; stripes are learned in the first."""
LEARNING_RATE = 2e-3
FRACTIONS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Of the pixels removed; close at first, since a number's square has 8 % of all."""
ROAD_METHODS = {
    ("original", "images"): (*METHODS, "Rect"),
    ("number", "images"): (*METHODS, "Rect"),
    ("number", "blank"): METHODS,
}
"""What the paper's figures 3 and 12 show."""
SAMPLES = 3
"""Images of each semi-natural data set that are drawn."""


@dataclass(frozen=True, eq=False)
class Data:
    """One of the five data sets: what it is marked with, on what, and its images.

    Parameters
    ----------
    mark : {"original", "number", "stripes"}
        The watermark, if any.
    canvas : {"images", "blank"}
        What it is put on: the semi-natural and the pure synthetic data sets.
    training, testing : Watermarked
        Images, labels and effective regions, empty without a watermark.
    before : Tensor, (B, C, H, W)
        The images for testing without their watermarks.
    classes : int
        Of the labels.
    """

    mark: str
    canvas: str
    training: Watermarked
    testing: Watermarked
    before: Float[Tensor, "batch channels height width"]
    classes: int

    @property
    def keys(self) -> dict[str, str]:
        """What all rows about it begin with."""
        return {"data": self.mark, "canvas": self.canvas}


class Sample(NamedTuple):
    """One image with its maps, each scaled to a largest value of 1."""

    label: int
    image: NDArray[np.float32]
    region: NDArray[np.bool_]
    maps: dict[str, NDArray[np.float64]]


@dataclass(eq=False)
class Study:
    """Rows of tables, and what is drawn.

    Parameters
    ----------
    networks, uses, attr, road : list of dict
        A row for each network; for each check of what a network uses; for each network and method.
    curves : mapping of (data, canvas) to mapping of method to list of ndarray, (S,)
        Accuracy along `FRACTIONS`, a curve for each network.
    samples : mapping of data to list of Sample
        Of the first network.
    told : mapping of str to Counter
        By method: images explained, and of how many its guards had something to say.
    """

    networks: list[dict[str, Any]] = field(default_factory=list)
    uses: list[dict[str, Any]] = field(default_factory=list)
    attr: list[dict[str, Any]] = field(default_factory=list)
    road: list[dict[str, Any]] = field(default_factory=list)
    curves: dict[tuple[str, str], dict[str, list[NDArray[np.float64]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    told: Counter[str] = field(default_factory=Counter)


def data_sets(natural: NaturalImages, seed: int) -> list[Data]:
    """The original images, and both watermarks on them and on a blank (black) canvas.

    All four watermarked data sets have the same re-assigned labels, and both with numbers have these
    at the same places.
    """
    parts = (natural.training, natural.testing)
    own = [
        Watermarked(images, labels, torch.zeros_like(images[:, :1], dtype=torch.bool))
        for images, labels in zip(
            parts, (natural.training_labels, natural.testing_labels), strict=True
        )
    ]
    classes = natural.classes
    # Labels and places are drawn apart, for training and for testing.
    seeds = np.random.SeedSequence(seed).generate_state(4).tolist()
    labels = [
        reassigned_labels(len(images), classes, each)
        for images, each in zip(parts, seeds[:2], strict=True)
    ]
    result = [Data("original", "images", own[0], own[1], natural.testing, classes)]
    for mark in MARKS:
        for canvas in ("images", "blank"):
            before = [torch.zeros_like(x) if canvas == "blank" else x for x in parts]
            marked = [
                _marked(mark, images, of_images, classes, each)
                for images, of_images, each in zip(before, labels, seeds[2:], strict=True)
            ]
            result.append(Data(mark, canvas, marked[0], marked[1], before[1], classes))
    return result


def _marked(mark: str, images: Tensor, labels: Tensor, classes: int, seed: int) -> Watermarked:
    if mark == "number":
        return number_watermarks(images, labels, classes=classes, seed=seed)
    return stripe_watermarks(images, labels, classes=classes)


def study_of(
    data: list[Data], *, networks: int, n: int, seed: int, show_progress: bool = False
) -> Study:
    """Train networks on every data set and look at each of them.

    Parameters
    ----------
    data : list of Data
        Where.
    networks : int
        For each data set, from `seed` on.
    n : int
        Images of each data set that are explained, the first ones for testing.
    seed : int
        Of the first network, and of ROAD's noise.
    show_progress : bool
        Show progress on standard error.
    """
    found = Study()
    runs = [(each, of_run) for of_run in range(seed, seed + networks) for each in data]
    for each, of_run in track(runs, len(runs), "train and explain", show_progress):
        channels, side = each.training.images.shape[1:3]
        network = small_network(channels, each.classes, side, of_run)
        fit_network(
            network,
            each.training.images,
            each.training.labels,
            seed=of_run,
            epochs=EPOCHS[each.mark],
            learning_rate=LEARNING_RATE,
        )
        keys = {**each.keys, "seed": of_run}
        accuracy = accuracy_of(network, each.testing.images, each.testing.labels)
        found.networks.append({**keys, "accuracy": accuracy, "chance": 1 / each.classes})
        if each.mark in MARKS and each.canvas == "images":
            found.uses += [{**keys, **row} for row in use_rows(network, each)]
        if each.canvas == "images" or (each.mark, each.canvas) in ROAD_METHODS:
            _explain(found, network, each, n, keys)
    return found


def _explain(
    found: Study, network: nn.Sequential, data: Data, n: int, keys: dict[str, Any]
) -> None:
    """Maps of the first images, and how they score."""
    images, labels, region = (each[:n] for each in data.testing)
    rows = stripe_rows(images.shape[2], data.classes)
    maps, told = attribution_maps(network, images, labels, training=data.training.images, rows=rows)
    found.told["images"] += len(images)
    for finding in told:
        found.told[finding.kind] += finding.images
    for method, values in maps.items():
        if method in ROAD_METHODS.get((data.mark, data.canvas), ()):
            curve, height = road_curve(
                network, images, labels, values, fractions=FRACTIONS, seed=keys["seed"]
            )
            found.road.append({**keys, "method": method, "road": height})
            found.curves[data.mark, data.canvas][method].append(curve)
    if data.mark in MARKS and data.canvas == "images":
        for method, values in {**maps, "uniform": torch.ones_like(maps["IG"])}.items():
            share = relevance_mass_accuracy(values, region)
            zero = (values.flatten(1).amax(1) == 0).double()
            row = {
                "method": method,
                "attr": float(share.nanmean()),
                "zero_maps": float(zero.mean()),
            }
            found.attr.append({**keys, **row})
        found.samples.setdefault(data.mark, list(_samples(images, labels, region, maps)))


def use_rows(network: nn.Module, data: Data) -> Iterator[dict[str, Any]]:
    """What a network answers where the watermark is removed, alone, moved or changed.

    Each row has a check, what the answers are held against ("label", or the label that the changed
    stripes spell), the share of answers that agree, and of how many.
    """
    marked, labels, region = data.testing
    before, classes = data.before, data.classes
    elsewhere = _marked(data.mark, before.roll(1, 0), labels, classes, seed=2**20)
    yield _check("watermark removed", network, before, labels)
    alone = torch.where(region, marked, BLACK)
    yield _check("watermark alone, on black", network, alone, labels)
    color = before.mean((0, 2, 3), keepdim=True)
    alone = torch.where(region, marked, color)
    yield _check("watermark alone, on the mean color", network, alone, labels)
    moved = "on other images, elsewhere" if data.mark == "number" else "on other images"
    yield _check(moved, network, elsewhere.images, labels)
    if data.mark == "number":
        yield _check("digits erased", network, torch.where(region, BLACK, marked), labels)
        strokes = region & (marked > BLACK).all(1, keepdim=True)
        yield _check(
            "digits without rectangle", network, torch.where(strokes, marked, before), labels
        )
        return
    changed: dict[str, list[tuple[Tensor, Tensor]]] = {
        "one stripe removed": [],
        "one stripe added": [],
    }
    for place in range(stripe_count(classes)):
        spelled = labels ^ (1 << place)
        for check, chosen in zip(changed, (spelled < labels, spelled > labels), strict=True):
            kept = chosen & (spelled < classes)
            if kept.any():
                other = stripe_watermarks(before[kept], spelled[kept], classes=classes)
                changed[check].append((other.images, spelled[kept]))
    for check, pairs in changed.items():
        if pairs:
            images, spelled = (torch.cat(each) for each in zip(*pairs, strict=True))
            yield _check(check, network, images, spelled, "label of the stripes left")


def _check(
    check: str,
    network: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    expected: Int64[Tensor, " batch"],
    answer: str = "label",
) -> dict[str, Any]:
    agreed = accuracy_of(network, images, expected)
    return {"check": check, "answer": answer, "agreed": agreed, "images": len(images)}


def _samples(
    images: Tensor, labels: Tensor, region: Bool[Tensor, "..."], maps: dict[str, Tensor]
) -> Iterator[Sample]:
    """The first images whose region is not empty."""
    drawn = {name: scaled(maps[name]) for name in ("IG", *CRAFTED)}
    marked = [index for index in range(len(images)) if region[index].any()][:SAMPLES]
    for index in marked:
        here = {name: values[index, 0].numpy() for name, values in drawn.items()}
        yield Sample(int(labels[index]), images[index].numpy(), region[index, 0].numpy(), here)
