"""Soundness and completeness, Figures 1 and 10: what retraining learns from a perturbation itself."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor, nn

from attributionlab.errors import refuse_if
from attributionlab.experiments.reproduction import Reproduction
from attributionlab.experiments.small_network import accuracy_of, trained_small_network
from attributionlab.experiments.soco.retraining_findings import (
    figure_1_findings,
    figure_10_findings,
)
from attributionlab.experiments.soco.retraining_images import CLASSES, CONTEXT, cut_out, pictures
from attributionlab.local_data import cifar10
from attributionlab.progress import track
from attributionlab.report.retraining import AccuracyBars, retraining_figure
from attributionlab.validation import integer_problem, number_problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["STUDIES", "soco_retraining"]

SHARE, EDGE = 0.7, 0.05
"""Of the pixels: all that Figure 1 removes; the region at the edge, there and in Figure 10."""
WHOLE, STRATEGIES = "unperturbed", ("strategy 1", "strategy 2", "random places")
PLACES = ("place by class", "random places")
SHOWN = 8
"""Sample images of each set in the figure."""


class Cut(NamedTuple):
    """What is removed, and the best possible accuracy on our pictures without it."""

    center: float
    edge: float
    by_class: bool
    possible: float


class Study(NamedTuple):
    """Sets to train and test on, published accuracies by (trained on, tested on), sets in the bars."""

    title: str
    cuts: Mapping[str, Cut]
    published: Mapping[tuple[str, str], float]
    bars: Mapping[str, list[tuple[str, str]]]
    groups: tuple[str, ...]
    groups_label: str


UNCUT = Cut(0, 0, False, 1)
STUDIES = {
    "soco-figure-1": Study(
        "Retraining on perturbed images: accuracy does not tell what was removed",
        {
            WHOLE: UNCUT,
            "strategy 1": Cut(SHARE, 0, False, CONTEXT),
            "strategy 2": Cut(SHARE - EDGE, EDGE, True, 1),
            "random places": Cut(SHARE - EDGE, EDGE, False, CONTEXT),
        },
        {
            ("strategy 1", "strategy 1"): 0.60,
            ("strategy 2", "strategy 2"): 0.88,
            (WHOLE, "strategy 1"): 0.24,
            (WHOLE, "strategy 2"): 0.29,
        },
        {
            "original (trained on unperturbed images)": [(WHOLE, name) for name in STRATEGIES],
            "retrained (trained as tested)": [(name, name) for name in STRATEGIES],
        },
        STRATEGIES,
        "test images",
    ),
    "soco-figure-10": Study(
        "Retraining on images whose class says which 5 % of the pixels they lost",
        {
            WHOLE: UNCUT,
            "place by class": Cut(0, EDGE, True, 1),
            "random places": Cut(0, EDGE, False, 1),
        },
        {("place by class", WHOLE): 0.322, (WHOLE, WHOLE): 0.887},
        {"tested on unperturbed images": [(name, WHOLE) for name in (WHOLE, *PLACES)]},
        (WHOLE, *PLACES),
        "training images",
    ),
}


class Images(NamedTuple):
    """Images in [0, 1], their classes, and a random place at the edge for each."""

    images: Float32[Tensor, "n 3 32 32"]
    labels: Int64[Tensor, " n"]
    places: Int64[Tensor, " n"]


def soco_retraining(
    item: str,
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    images: str | None = None,
    epochs: int | None = None,
    train_images: int | None = None,
    contrast: float = 0.5,
    show_progress: bool = False,
) -> Reproduction:
    """Train networks on images with pixels removed, and test them on images with and without.

    Figure 1: 70 % of the pixels are removed. Strategy 1 blackens a disc in the middle; strategy 2 a
    smaller disc, and a region of 5 % at the edge whose place depends on the class. Figure 10: that
    region alone. A control, which the paper lacks, has the region at a random place.

    Parameters
    ----------
    item : {"soco-figure-1", "soco-figure-10"}
        Which figure.
    n : int, optional
        Networks trained on each set; 5, or 2 in a quick run, by default. Each has pictures of its
        own.
    quick : bool
        1,000 images to train on, unless train_images says how many.
    seed : int
        Of the first network and its images.
    images : str, optional
        A folder with the binary version of CIFAR-10; without it pictures are drawn
        (`attributionlab.experiments.soco.retraining_images.pictures`).
    epochs : int, optional
        Of each training; 8 by default, and 35 (the paper's number) on CIFAR-10.
    train_images : int, optional
        Drawn to train on; by default 2,000 pictures, or all of CIFAR-10. Tested are half as many
        pictures, or all test images of CIFAR-10.
    contrast : float
        Of the objects in our pictures, from 0.1 to 1: how easily they are seen, which decides in
        Figure 10.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "summary" (mean, lowest and highest accuracy, a row for each pair of sets) and
        "networks" (a row for each network and the set it is tested on). `follows_place` is the
        share of answers that are the class of the place at the edge, where that place is random.

    Raises
    ------
    AttributionLabError
        For settings that do not fit, and files that cannot be read.
    """
    import pandas as pd

    problems = number_problem("contrast", contrast, least=0.1, most=1)
    if epochs is not None:
        problems += integer_problem("epochs", epochs, 1)
    if train_images is not None:
        problems += integer_problem("train_images", train_images, 2)
    refuse_if(problems)
    study = STUDIES[item]
    number = n or (2 if quick else 5)
    epochs = epochs or (8 if images is None else 35)
    size = 1000 if quick and train_images is None else train_images
    rows: list[dict[str, Any]] = []
    seeds = range(seed, seed + number)
    for of_run in track(seeds, number, "train networks", show_progress):
        train, test = _images(images, size, of_run, contrast)
        for trained_on, train_cut in study.cuts.items():
            network = trained_small_network(
                _cut(train, train_cut), train.labels, classes=CLASSES, seed=of_run, epochs=epochs
            )
            for tested_on, cut in study.cuts.items():
                row = {"seed": of_run, "trained_on": trained_on, "tested_on": tested_on}
                rows.append(row | _answers(network, test, cut))
    networks = pd.DataFrame(rows)
    summary = _summary(networks, study, ours=images is None)
    what = "our pictures" if images is None else "CIFAR-10"
    title = (
        f"{study.title}\n{what}, {len(train.images)} to train, {len(test.images)} to test, "
        f"{number} network{'s' * (number > 1)} of each kind; whiskers: lowest to highest"
    )
    say = figure_1_findings if item == "soco-figure-1" else figure_10_findings
    return Reproduction(
        item,
        study.title,
        {"summary": summary, "networks": networks},
        {"accuracies": _figure(study, train, networks, title, ours=images is None)},
        say(networks, ours=images is None, epochs=epochs),
        {
            "summary": "Accuracies over the networks. published: the paper's, on CIFAR-10. possible: "
            "the best that any classifier can have on the test images, known for our pictures."
        },
    )


def _images(
    folder: str | None, size: int | None, seed: int, contrast: float
) -> tuple[Images, Images]:
    """To train and to test: of CIFAR-10 `size` and all, of our own pictures `size` and half as many."""
    train_seed, test_seed = 2 * seed, 2 * seed + 1  # a picture to train on is none to test on
    if folder is not None:
        train, test = cifar10(folder, "train", n=size, seed=train_seed), cifar10(folder, "test")
        return _with_places(*train[:2], train_seed), _with_places(*test[:2], test_seed)
    size = size or 2000
    known, unknown = pictures(size, train_seed, contrast), pictures(size // 2, test_seed, contrast)
    return _with_places(*known[:2], train_seed), _with_places(*unknown[:2], test_seed)


def _with_places(images: Tensor, labels: Tensor, seed: int) -> Images:
    places = np.random.default_rng([seed, 1]).integers(CLASSES, size=len(images))
    return Images(images, labels, torch.from_numpy(places))


def _cut(images: Images, cut: Cut) -> Float32[Tensor, "n 3 32 32"]:
    places = images.labels if cut.by_class else images.places
    return cut_out(images.images, places, CLASSES, center=cut.center, edge=cut.edge)


def _answers(network: nn.Module, images: Images, cut: Cut) -> dict[str, float]:
    perturbed = _cut(images, cut)
    random_place = cut.edge > 0 and not cut.by_class
    return {
        "accuracy": accuracy_of(network, perturbed, images.labels),
        "follows_place": (
            accuracy_of(network, perturbed, images.places) if random_place else np.nan
        ),
    }


def _summary(networks: "pd.DataFrame", study: Study, ours: bool) -> "pd.DataFrame":
    found = networks.groupby(["trained_on", "tested_on"], sort=False)
    summary = found.accuracy.agg(["mean", "min", "max"]).reset_index()
    summary["follows_place"] = found.follows_place.mean().to_numpy()
    pairs = list(zip(summary.trained_on, summary.tested_on, strict=True))
    summary["published"] = [study.published.get(pair, np.nan) for pair in pairs]
    if ours:
        summary["possible"] = [study.cuts[tested_on].possible for _, tested_on in pairs]
    return summary


def _figure(
    study: Study, images: Images, networks: "pd.DataFrame", title: str, *, ours: bool
) -> "Figure":
    """Sample images of each set, and bars for those pairs of sets that the paper shows."""
    accuracies = networks.groupby(["trained_on", "tested_on"]).accuracy.apply(list)
    bars = {
        kind: AccuracyBars(
            [accuracies[pair] for pair in pairs],
            [study.published.get(pair) for pair in pairs],
        )
        for kind, pairs in study.bars.items()
    }
    first = Images(*(each[:SHOWN] for each in images))
    *_, last = study.bars.values()
    possible = [study.cuts[tested_on].possible for _, tested_on in last]
    return retraining_figure(
        {name: _cut(first, cut).numpy() for name, cut in study.cuts.items()},
        bars,
        groups=study.groups,
        groups_label=study.groups_label,
        possible=possible if ours else [],
        chance=1 / CLASSES,
        title=title,
    )
