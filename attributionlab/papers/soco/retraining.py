"""Figures 1 and 10 of Li et al. (2024): what retraining learns from a perturbation itself."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float32, Int64
from matplotlib.figure import Figure
from torch import Tensor, nn

from attributionlab.methods import collect_notices
from attributionlab.metrics import Order, Retraining
from attributionlab.papers.answers import decided, with_extremes
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.soco.maps import label_maps, road_curve
from attributionlab.papers.subjects.drawn_pictures import (
    CLASSES,
    CONTEXT,
    cut_out,
    hidden_in_background,
    pictures,
)
from attributionlab.papers.subjects.networks import accuracy_of, trained_small_network
from attributionlab.runs import cifar10
from attributionlab.show import curves, dots, map_grid

FIGURE_1, FIGURE_10 = "soco-figure-1", "soco-figure-10"
SHARE, EDGE = 0.7, 0.05
"""Share of the pixels: all that Figure 1 removes; the region at the edge, there and in Figure 10."""
WHOLE, FIRST, SECOND, RANDOM = "unperturbed", "strategy 1", "strategy 2", "random places"
CONTROL, BY_CLASS = "disc as background", "place by class"
CLEAR = 0.05
"""Smaller differences of accuracy are called none: three standard errors of one over 1,000 images."""
SHOWN = 8
"""Sample images of each set in the figure."""
ROAD_SHARE, ROAD_EPOCHS = 0.25, 1.5
"""For ROAD networks see this share of the images, for so many times the epochs: each is trained anew
for every method, order and fraction."""
METHODS = ("IG", "GradCAM", "random")
ORDERS: tuple[Order, ...] = ("morf", "lerf")
FRACTIONS = (0.1, 0.4, 0.8)
"""Shares of the pixels removed; an object has 6 to 25 %."""
BETTER = {
    "morf": "most relevant pixels first (lower is better)",
    "lerf": "least relevant pixels first (higher is better)",
}
RETRAINED = {False: "without retraining", True: "retrained at every fraction"}

Rows = list[dict[str, Any]]


class Cut(NamedTuple):
    """What is removed, the best possible accuracy on our pictures without it, and what replaces it."""

    center: float
    edge: float
    by_class: bool
    possible: float
    as_background: bool = False


class Study(NamedTuple):
    """Sets to train and test on, published accuracies and differences shown by (trained on, tested on).

    Networks trained on unperturbed images are tested on the control, too.
    """

    cuts: Mapping[str, Cut]
    control: Mapping[str, Cut]
    published: Mapping[tuple[str, str], float]
    differences: Sequence[tuple[tuple[str, str], tuple[str, str]]]


UNCUT = Cut(0, 0, False, 1)
STUDIES = {
    FIGURE_1: Study(
        {
            WHOLE: UNCUT,
            FIRST: Cut(SHARE, 0, False, CONTEXT),
            SECOND: Cut(SHARE - EDGE, EDGE, True, 1),
            RANDOM: Cut(SHARE - EDGE, EDGE, False, CONTEXT),
        },
        {CONTROL: Cut(SHARE, 0, False, CONTEXT, as_background=True)},
        {(FIRST, FIRST): 0.60, (SECOND, SECOND): 0.88, (WHOLE, FIRST): 0.24, (WHOLE, SECOND): 0.29},
        (
            ((SECOND, SECOND), (FIRST, FIRST)),
            ((RANDOM, RANDOM), (FIRST, FIRST)),
            ((WHOLE, CONTROL), (WHOLE, FIRST)),
        ),
    ),
    FIGURE_10: Study(
        {WHOLE: UNCUT, BY_CLASS: Cut(0, EDGE, True, 1), RANDOM: Cut(0, EDGE, False, 1)},
        {},
        {(BY_CLASS, WHOLE): 0.322, (WHOLE, WHOLE): 0.887},
        (((WHOLE, WHOLE), (BY_CLASS, WHOLE)), ((WHOLE, WHOLE), (RANDOM, WHOLE))),
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


def retrained_networks(
    run: Run,
    *,
    road_networks: int = 0,
    images: str | None = None,
    epochs: int | None = None,
    train_images: int | None = None,
    contrast: float = 0.5,
) -> Found:
    """Train networks on images with pixels removed, and test them on images with and without.

    Figure 1: 70 % of the pixels are removed. Strategy 1 blackens a disc in the middle; strategy 2 a
    smaller disc, and a region of 5 % at the edge whose place depends on the class. Figure 10: that
    region alone. Controls, which the paper lacks: the region at a random place, and for the networks of
    unperturbed images Strategy 1's disc in the image's own background color. The first `road_networks`
    networks' images also serve to score three methods by ROAD with and without retraining.

    `run.n` networks are trained on each set, each on pictures of its own. `images` is a folder with the
    binary version of CIFAR-10, without which pictures are drawn; `epochs` are 8, and on CIFAR-10 35
    (the paper's number); `train_images` are 2,000, or all of CIFAR-10, and half as many are tested, or
    all test images; `contrast` of drawn objects, from 0.1 to 1, says how easily they are seen.
    """
    study, ours = STUDIES[run.item], images is None
    epochs = epochs or (8 if ours else 35)
    rows: list[tuple[Any, ...]] = []
    road: Rows = []
    for seed in run.track(range(run.seed, run.seed + run.n)):
        train, test = _images(images, train_images, seed, contrast)
        for trained_on, train_cut in study.cuts.items():
            network = trained_small_network(
                _cut(train, train_cut), train.labels, classes=CLASSES, seed=seed, epochs=epochs
            )
            sets = {**study.cuts, **(study.control if trained_on == WHOLE else {})}
            for tested_on, cut in sets.items():
                shown, random = _cut(test, cut), cut.edge > 0 and not cut.by_class
                right = accuracy_of(network, shown, test.labels)
                # The class of a place that is random
                follows = accuracy_of(network, shown, test.places) if random else np.nan
                rows.append((seed, trained_on, tested_on, right, follows))
        if seed - run.seed < road_networks:
            fewer = [
                each.first(max(1, round(ROAD_SHARE * len(each.labels)))) for each in (train, test)
            ]
            road += road_rows(*fewer, seed=seed, epochs=round(ROAD_EPOCHS * epochs))
    columns = ["seed", "trained_on", "tested_on", "accuracy", "follows_place"]
    networks = pd.DataFrame(rows, columns=columns)
    tables = {
        "summary": _summary(networks, study, ours),
        "differences": _differences(networks, study),
        "networks": networks,
    }
    what = "our pictures" if ours else "CIFAR-10"
    title = (
        f"{what}, {len(train.images)} to train, {len(test.images)} to test, {run.n} "
        f"network{'s' * (run.n > 1)} of each kind"
    )
    figures = _figures(tables["summary"], study, train, title)
    if road:
        along = pd.DataFrame(road)
        each = along.drop(columns=["removed", "accuracy"]).drop_duplicates(ignore_index=True)
        tables |= {"road": _road_table(each), "road-orders": _road_orders(each)}
        tables |= {"road-each": each, "road-curves": along}
        count, keys = each.seed.nunique(), ["order", "retrained", "method", "removed"]
        lines = with_extremes(along, keys, "accuracy", ("low", "high"))
        lines["panel"] = lines.order.map(BETTER) + ", " + lines.retrained.map(RETRAINED)
        figures["road"] = curves(
            *(lines, "removed", "accuracy", "method"),
            panel="panel",
            title=f"ROAD with and without retraining: {what}, {len(fewer[0].images)} to train, "
            f"{len(fewer[1].images)} to test, {count} network{'s' * (count > 1)}; bands: lowest to "
            "highest",
            xlabel="fraction of pixels removed",
            columns=len(RETRAINED),
        )
    return Found(tables, figures)


def strategies_differ(tables: Tables) -> bool | None:
    row = tables["differences"].iloc[0]
    return decided(row["min"] > CLEAR, row["mean"] <= CLEAR)


def strategy_1_reaches_the_possible(tables: Tables) -> bool | None:
    row = _row(tables, FIRST, FIRST)
    return bool(abs(row["mean"] - row.possible) <= CLEAR) if "possible" in row else None


def strategy_2_puts_information_in(tables: Tables) -> bool | None:
    possible = _row(tables, FIRST, FIRST).get("possible")
    mean = _row(tables, SECOND, SECOND)["mean"]
    return None if possible is None else bool(mean > possible + CLEAR)


def original_networks_do_not_tell_either(tables: Tables) -> bool | None:
    rows = [_row(tables, WHOLE, name) for name in (FIRST, CONTROL)]
    if "possible" not in rows[0]:
        return None
    return all(bool(row["mean"] < row.possible - CLEAR) for row in rows)


def retraining_changes_the_order(tables: Tables) -> bool | None:
    table = tables.get("road-orders")
    return None if table is None else bool((table.without != table["with"]).any())


def lost_pixels_cost_nothing(tables: Tables) -> bool:
    by_class, random = tables["differences"]["mean"]
    return bool(random <= CLEAR < by_class)


def road_rows(train: Images, test: Images, *, seed: int, epochs: int) -> Rows:
    """Train a network, explain it, and score the maps by ROAD, with and without retraining.

    A network that is trained anew at some fraction has the seed, the number of images and the epochs of
    the one that is explained. Maps are of the label's logit: IG from black, summed over channels, of
    either sign; GradCAM at the last ReLU before the linear layer; uniform noise.
    """
    fit = partial(trained_small_network, classes=CLASSES, seed=seed, epochs=epochs)
    network = fit(train.images, train.labels)
    training_maps, maps = (
        _maps(network, *part[:2], seed=[seed, index]) for index, part in enumerate((train, test))
    )
    intact = accuracy_of(network, test.images, test.labels)
    rows: Rows = []
    for order in ORDERS:
        for retrained in RETRAINED:
            for method in METHODS:
                known = (train.images, train.labels, training_maps[method])
                accuracies, height = road_curve(
                    *(network, test.images, test.labels, maps[method]),
                    order=order,
                    fractions=FRACTIONS,
                    seed=seed,
                    retraining=Retraining(*known, fit) if retrained else None,
                )
                keys = {"seed": seed, "order": order, "retrained": retrained, "method": method}
                rows += [
                    {**keys, "road": height, "intact": intact, "removed": at, "accuracy": accuracy}
                    for at, accuracy in zip(FRACTIONS, accuracies, strict=True)
                ]
    return rows


def _maps(
    network: nn.Sequential, images: Tensor, labels: Tensor, *, seed: Sequence[int]
) -> dict[str, Tensor]:
    """Maps by method; notices about IG's quadrature are left out: only its order counts."""
    noise = np.random.default_rng([*seed, 2]).random((len(images), 1, *images.shape[2:]))
    with collect_notices():
        return {**label_maps(network, images, labels), "random": torch.from_numpy(noise)}


def _images(
    folder: str | None, size: int | None, seed: int, contrast: float
) -> tuple[Images, Images]:
    """Images to train and to test: of CIFAR-10 `size` and all, else `size` and half as many."""
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


def _summary(networks: pd.DataFrame, study: Study, ours: bool) -> pd.DataFrame:
    pair, ends = ["trained_on", "tested_on"], ("min", "max")
    summary = with_extremes(networks, pair, "accuracy", ends).rename(columns={"accuracy": "mean"})
    of_places = [f"follows_place_{end}" for end in ends]
    follows = with_extremes(networks, pair, "follows_place", of_places)
    summary = summary.merge(follows, on=pair)
    pairs = list(zip(summary.trained_on, summary.tested_on, strict=True))
    summary["published"] = [study.published.get(each, np.nan) for each in pairs]
    if ours:
        cuts = {**study.cuts, **study.control}
        summary["possible"] = [cuts[tested_on].possible for _, tested_on in pairs]
    return summary


def _differences(networks: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Differences of accuracies within a seed, mean and extremes over networks."""
    accuracy = networks.pivot(index="seed", columns=["trained_on", "tested_on"], values="accuracy")
    rows = []
    for pair, other in study.differences:
        names = [f"trained on {trained}, tested on {tested}" for trained, tested in (pair, other)]
        ends = (accuracy[pair] - accuracy[other]).agg(["mean", "min", "max"])
        known, of_other = (study.published.get(each, np.nan) for each in (pair, other))
        rows.append((*names, *ends, known - of_other))
    return pd.DataFrame(rows, columns=["accuracy", "less", "mean", "min", "max", "published"])


def _row(tables: Tables, trained_on: str, tested_on: str) -> pd.Series:
    table = tables["summary"].set_index(["trained_on", "tested_on"])
    row: pd.Series = table.loc[(trained_on, tested_on)]
    return row


def _road_table(each: pd.DataFrame) -> pd.DataFrame:
    """Means and extremes over networks, and ranks of the means: 1 is best."""
    table = with_extremes(each, ["order", "retrained", "method"], "road")
    heights = table.road.where(table.order == "morf", -table.road)
    return table.assign(rank=heights.groupby([table.order, table.retrained]).rank())


def _road_orders(each: pd.DataFrame) -> pd.DataFrame:
    """The order of methods without and with retraining, and how often they differ."""
    intact = each.groupby("seed").intact.first()
    rows = []
    for order, part in each.groupby("order", sort=False):
        means = part.groupby(["retrained", "method"], as_index=False, sort=False).road.mean()
        changed = [_ranked(own, order, False) != _ranked(own, order, True)
                   for _, own in part.groupby("seed")]  # fmt: skip
        ranked = (_ranked(means, order, each) for each in RETRAINED)
        rows.append((order, *ranked, sum(changed), len(changed)))
    table = pd.DataFrame(rows, columns=["order", "without", "with", "changed", "networks"])
    return table.assign(intact=intact.mean(), intact_min=intact.min(), intact_max=intact.max())


def _ranked(rows: pd.DataFrame, order: Any, retrained: bool) -> str:
    """Methods from the best to the worst."""
    ranked = rows.sort_values("road", ascending=order == "morf", kind="stable")
    return " - ".join(ranked[ranked.retrained == retrained].method)


def _figures(summary: pd.DataFrame, study: Study, train: Images, title: str) -> dict[str, Figure]:
    """Draw sample images of each set, and accuracies on each by what networks were trained on."""
    cuts = {**study.cuts, **study.control}
    found = summary.assign(
        what="found (bars: lowest to highest)", low=summary["min"], high=summary["max"]
    )
    named = {"published": "published, CIFAR-10", "possible": "best possible"}
    others = [
        summary.assign(mean=summary[column], what=what)
        for column, what in named.items()
        if column in summary
    ]
    table = pd.concat([found, *others]).rename(columns={"mean": "value"})
    table["panel"] = "trained on " + table.trained_on
    first = train.first(SHOWN)
    return {
        "samples": map_grid(
            {name: [*_cut(first, cut).numpy()] for name, cut in cuts.items()},
            title="Images of each set",
        ),
        "accuracies": dots(
            table.dropna(subset=["value"]),
            *("value", "tested_on"),
            color="what",
            panel="panel",
            title=title,
            xlabel="accuracy (line: chance)",
            columns=2,
            reference=1 / CLASSES,
        ),
    }
