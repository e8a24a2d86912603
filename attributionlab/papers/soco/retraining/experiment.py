"""Soundness and completeness, Figures 1 and 10: what retraining learns from a perturbation itself."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor, nn

from attributionlab.errors import refuse_if
from attributionlab.local_data import cifar10
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.soco.retraining.findings import (
    figure_1_findings,
    figure_10_findings,
    road_findings,
)
from attributionlab.papers.soco.retraining.road import RoadRun, road_figure, road_run, road_table
from attributionlab.papers.subjects.drawn_pictures import (
    CLASSES,
    CONTEXT,
    cut_out,
    hidden_in_background,
    pictures,
)
from attributionlab.papers.subjects.small_network import accuracy_of, trained_small_network
from attributionlab.progress import track
from attributionlab.report.retraining import AccuracyBars, retraining_figure
from attributionlab.validation import integer_problem, number_problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SHARE, EDGE = 0.7, 0.05
"""Of the pixels: all that Figure 1 removes; the region at the edge, there and in Figure 10."""
WHOLE, STRATEGIES = "unperturbed", ("strategy 1", "strategy 2", "random places")
CONTROL = "disc as background"
PLACES = ("place by class", "random places")
SHOWN = 8
"""Sample images of each set in the figure."""
ROAD_NETWORKS, ROAD_SHARE, ROAD_EPOCHS = 2, 0.25, 1.5
"""For ROAD so many networks at most, on this share of the images and with so many times the epochs:
each is trained anew for every method, order and fraction."""


class Cut(NamedTuple):
    """What is removed, the best possible accuracy on our pictures without it, and what replaces it."""

    center: float
    edge: float
    by_class: bool
    possible: float
    as_background: bool = False


class Study(NamedTuple):
    """Sets to train and test on, published accuracies by (trained on, tested on), sets in the bars.

    Networks trained on unperturbed images are tested on the controls, too.
    """

    title: str
    cuts: Mapping[str, Cut]
    published: Mapping[tuple[str, str], float]
    bars: Mapping[str, list[tuple[str, str]]]
    groups: tuple[str, ...]
    groups_label: str
    controls: Mapping[str, Cut]


NOTES = {
    "summary": "Accuracies over the networks. published: the paper's, on CIFAR-10. possible: "
    "the best that any classifier can have on the test images, known for our pictures.",
    "road": "Mean height of the accuracy's curve over the fractions removed, mean and extremes over "
    "networks. Lower is better for morf, higher for lerf; rank: 1 is best.",
}
UNCUT = Cut(0, 0, False, 1)
ITEMS = {
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
            "original (trained on unperturbed images)": [
                (WHOLE, name) for name in (*STRATEGIES, CONTROL)
            ],
            "retrained (trained as tested)": [(name, name) for name in (*STRATEGIES, CONTROL)],
        },
        (*STRATEGIES, CONTROL),
        "test images",
        {CONTROL: Cut(SHARE, 0, False, CONTEXT, as_background=True)},
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
        {},
    ),
}


class Images(NamedTuple):
    """Images in [0, 1], their classes, a random place at the edge for each, and a seed for noise."""

    images: Float32[Tensor, "n 3 32 32"]
    labels: Int64[Tensor, " n"]
    places: Int64[Tensor, " n"]
    seed: int

    def first(self, n: int) -> "Images":
        """Some of them."""
        return Images(self.images[:n], self.labels[:n], self.places[:n], self.seed)


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
    region alone. Controls, which the paper lacks: the region at a random place, and for the networks of
    unperturbed images Strategy 1's disc in the image's own background color. Figure 1 also judges three
    methods by ROAD with and without retraining, for up to two networks.

    Parameters
    ----------
    item : {"soco-figure-1", "soco-figure-10"}
        Which figure.
    n : int, optional
        Networks trained on each set; 5, or 2 in a quick run, by default. Each has pictures of its
        own.
    quick : bool
        500 images to train on, unless train_images says how many.
    seed : int
        Of the first network and its images.
    images : str, optional
        A folder with the binary version of CIFAR-10; without it pictures are drawn
        (`attributionlab.papers.subjects.drawn_pictures.pictures`).
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
        Figure 1 also has "road" (mean height of ROAD's curves, over networks) and "road-each".

    Raises
    ------
    AttributionLabError
        For settings that do not fit, and files that cannot be read.
    """
    import pandas as pd

    number = (2 if quick else 5) if n is None else n
    problems = integer_problem("n", number, 1)
    problems += number_problem("contrast", contrast, least=0.1, most=1)
    if epochs is not None:
        problems += integer_problem("epochs", epochs, 1)
    if train_images is not None:
        problems += integer_problem("train_images", train_images, 2)
    refuse_if(problems)
    study = ITEMS[item]
    if epochs is None:
        epochs = 8 if images is None else 35
    size = 500 if quick and train_images is None else train_images
    runs: list[RoadRun] = []
    rows: list[dict[str, Any]] = []
    seeds = range(seed, seed + number)
    for of_run in track(seeds, number, "train networks", show_progress):
        train, test = _images(images, size, of_run, contrast)
        for trained_on, train_cut in study.cuts.items():
            network = trained_small_network(
                _cut(train, train_cut), train.labels, classes=CLASSES, seed=of_run, epochs=epochs
            )
            sets = {**study.cuts, **(study.controls if trained_on == WHOLE else {})}
            for tested_on, cut in sets.items():
                row = {"seed": of_run, "trained_on": trained_on, "tested_on": tested_on}
                rows.append(row | _answers(network, test, cut))
        if item == "soco-figure-1" and len(runs) < (1 if quick else ROAD_NETWORKS):
            parts = (
                each.first(max(1, round(ROAD_SHARE * len(each.labels)))) for each in (train, test)
            )
            known, unknown = ((each.images, each.labels) for each in parts)
            longer = round(ROAD_EPOCHS * epochs)
            runs.append(road_run(known, unknown, seed=of_run, epochs=longer))
    networks = pd.DataFrame(rows)
    summary = _summary(networks, study, ours=images is None)
    what = "our pictures" if images is None else "CIFAR-10"
    title = (
        f"{study.title}\n{what}, {len(train.images)} to train, {len(test.images)} to test, "
        f"{number} network{'s' * (number > 1)} of each kind; whiskers: lowest to highest"
    )
    say = figure_1_findings if item == "soco-figure-1" else figure_10_findings
    findings = say(networks, ours=images is None, epochs=epochs)
    tables = {"summary": summary, "networks": networks}
    figures = {"accuracies": _figure(study, train, networks, title, ours=images is None)}
    shown = {"summary": NOTES["summary"]}
    if runs:
        each = pd.DataFrame(row for run in runs for row in run.rows)
        tables = {"summary": summary, "road": road_table(each), "networks": networks}
        tables["road-each"] = each
        counted = (
            "1 network" if len(runs) == 1 else f"{len(runs)} networks; bands: lowest to highest"
        )
        figures["road"] = road_figure(
            runs,
            f"ROAD with and without retraining\n{what}, {len(known[0])} to train, {len(unknown[0])} to "
            f"test, {counted}",
        )
        findings += road_findings(each)
        shown = NOTES
    return Reproduction(item, study.title, tables, figures, findings, shown)


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
    return Images(images, labels, torch.from_numpy(places), seed)


def _cut(images: Images, cut: Cut) -> Float32[Tensor, "n 3 32 32"]:
    if cut.as_background:
        return hidden_in_background(images.images, center=cut.center, seed=images.seed)
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
        cuts = {**study.cuts, **study.controls}
        summary["possible"] = [cuts[tested_on].possible for _, tested_on in pairs]
    return summary


def _figure(
    study: Study, images: Images, networks: "pd.DataFrame", title: str, *, ours: bool
) -> "Figure":
    """Sample images of each set, and bars for those pairs of sets that the paper shows."""
    accuracies = networks.groupby(["trained_on", "tested_on"]).accuracy.apply(list)
    bars = {
        kind: AccuracyBars(
            [accuracies.get(pair, []) for pair in pairs],
            [study.published.get(pair) for pair in pairs],
        )
        for kind, pairs in study.bars.items()
    }
    first, cuts = images.first(SHOWN), {**study.cuts, **study.controls}
    *_, last = study.bars.values()
    possible = [cuts[tested_on].possible for _, tested_on in last]
    return retraining_figure(
        {name: _cut(first, cut).numpy() for name, cut in cuts.items()},
        bars,
        groups=study.groups,
        groups_label=study.groups_label,
        possible=possible if ours else [],
        chance=1 / CLASSES,
        title=title,
    )
