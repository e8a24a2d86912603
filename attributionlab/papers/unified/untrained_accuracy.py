"""Table 2 of Wang and Wang (2022): how often untrained networks are right on enhanced images."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Unpack

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from attributionlab.base import FEWEST_FOR_ORDER, with_intervals
from attributionlab.papers.answers import decided
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.subjects.networks import accuracy_of
from attributionlab.papers.subjects.subjects import OwnNetwork
from attributionlab.papers.unified.counterparts import (
    DEFAULT,
    DESIGNS,
    EPSILON,
    INITIALIZATIONS,
    STEPS,
    Counterparts,
    given_counterparts,
    our_counterparts,
)
from attributionlab.show import curves

NORMALIZED = 0.226
"""Standard deviation by which inputs of ImageNet networks are divided, as a share of the value range,
mean over channels."""
PAPER_EPSILON = round(EPSILON * NORMALIZED, 3)
"""The paper's 0.3 in units of such inputs, in units of pixel values from 0 to 1."""
EPSILONS = (0.01, 0.03, PAPER_EPSILON, EPSILON)
QUICK_EPSILONS = (PAPER_EPSILON, EPSILON)
RAW, SIGNS, ENHANCED = "raw", "random signs", "enhanced"
UNTRAINED, TRAINED = "untrained", "trained"
LINES = {
    (UNTRAINED, ENHANCED): "untrained, enhanced",
    (UNTRAINED, SIGNS): "untrained, random signs",
    (TRAINED, ENHANCED): "trained, enhanced for the untrained",
    (TRAINED, RAW): "trained, raw",
    (UNTRAINED, RAW): "untrained, raw",
}
CHANCE = "chance"
KEYS = ["design", "initialization", "network", "images", "epsilon"]


def accuracy_on_enhanced_images(
    run: Run, *, networks: int, training: int, steps: int = STEPS, **own: Unpack[OwnNetwork]
) -> Found:
    """Compare untrained networks on raw and enhanced images with trained ones on raw images.

    A network of one's own takes the place of our three designs, as for `given_counterparts`.
    """
    epsilons = QUICK_EPSILONS if run.quick else EPSILONS
    given = given_counterparts(run.n, run.seed, networks, **own)
    makers: list[Callable[[], Iterable[Counterparts]]] = [
        partial(our_counterparts, design, run.n, training, run.seed + 2 * index, INITIALIZATIONS)
        for index in range(networks)
        for design in DESIGNS
    ]
    if given is not None:
        makers = [partial(list, [each]) for each in given]
    rows: list[dict[str, Any]] = []
    seed = run.seed
    for make in run.track(makers):
        for pair in make():
            rows += _rows(pair, epsilons, steps, seed)
            seed += 1
    chance = 1 / int(pair.trained.model(pair.trained.images[:1]).shape[1])
    each = pd.DataFrame(rows)
    means = with_intervals(each, KEYS, "accuracy", run.seed)
    means.columns = pd.Index([*KEYS, "accuracy", "low", "high", "networks"])
    means["chance"] = chance
    return Found(
        {"accuracies": means, "networks": each},
        {"accuracies": _figure(means, run.n)},
        notes=given[0].trained.notes[:1] if given is not None else (),
    )


def enhanced_images_are_right(tables: Tables) -> bool | None:
    return _clearly(_at(tables, ENHANCED), _at(tables, RAW))


def trained_networks_are_reached(tables: Tables) -> bool | None:
    return _clearly(_at(tables, ENHANCED), _at(tables, RAW, TRAINED), reach=True)


def direction_decides(tables: Tables) -> bool | None:
    return _clearly(_at(tables, ENHANCED), _at(tables, SIGNS))


def initialization_decides(tables: Tables) -> bool | None:
    found = _at(tables, ENHANCED, epsilon=EPSILON, default=True)
    reached = _clearly(found, _at(tables, RAW, TRAINED, default=True), reach=True)
    return None if reached is None else not reached


def _at(
    tables: Tables,
    images: str,
    network: str = UNTRAINED,
    *,
    epsilon: float = PAPER_EPSILON,
    default: bool = False,
) -> pd.DataFrame:
    """Intervals by design, with PyTorch's initialization or with another one."""
    table = tables["accuracies"]
    chosen = (table.images == images) & (table.network == network)
    chosen &= (table.initialization == DEFAULT) == default
    chosen &= table.epsilon == (0.0 if images == RAW else epsilon)
    return table[chosen].set_index(["design", "initialization"])


def _clearly(first: pd.DataFrame, second: pd.DataFrame, *, reach: bool = False) -> bool | None:
    """Say whether all first intervals lie above the second ones, or reach at least their lower ends."""
    if first.empty or min(first.networks.min(), second.networks.min()) < FEWEST_FOR_ORDER:
        return None
    holds = first.low >= second.low if reach else first.low > second.high
    return decided(holds.all(), (first.high < second.low).any())


def _rows(
    pair: Counterparts, epsilons: Sequence[float], steps: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Accuracies of both networks on raw images and on those changed for the untrained one."""

    def row(network: str, images: str, epsilon: float, shown: Tensor) -> dict[str, Any]:
        subject = pair.untrained if network == UNTRAINED else pair.trained
        right = accuracy_of(subject.model, shown, subject.targets, batch_size=64)
        values = (subject.name, pair.initialization, network, images, epsilon, right)
        return dict(zip([*KEYS, "accuracy"], values, strict=True))

    raw, generator = pair.untrained.images, torch.Generator().manual_seed(seed)
    for network in (UNTRAINED, TRAINED):
        yield row(network, RAW, 0.0, raw)
    signs = torch.randint(0, 2, raw.shape, generator=generator) * 2 - 1
    for epsilon in epsilons:
        yield row(UNTRAINED, SIGNS, epsilon, (raw + epsilon * signs).clamp(0, 1))
        better = pair.enhanced(epsilon, steps)
        for network in (UNTRAINED, TRAINED):
            yield row(network, ENHANCED, epsilon, better)


def _figure(means: pd.DataFrame, n: int) -> Figure:
    """Draw accuracies by epsilon; what does not depend on it is a flat line."""
    raw = means.images == RAW
    flat = means[raw].drop(columns="epsilon")
    sizes = means[~raw][["epsilon"]].drop_duplicates()
    chance = flat[flat.network == UNTRAINED].assign(images=CHANCE)
    chance["accuracy"] = chance.chance
    table = pd.concat([means[~raw], pd.concat([flat, chance]).merge(sizes, how="cross")])
    compared = (table.network == UNTRAINED) & (table.images == ENHANCED)
    compared |= (table.network == TRAINED) & (table.images == RAW)
    table.loc[~compared, ["low", "high"]] = float("nan")
    pairs = zip(table.network, table.images, strict=True)
    return curves(
        table.assign(
            line=[LINES.get(pair, CHANCE) for pair in pairs],
            panel=table.design + ", initialization: " + table.initialization,
        ),
        *("epsilon", "accuracy", "line"),
        panel="panel",
        columns=2,
        title=f"Images enhanced for untrained networks (n = {n} for each network), means over "
        "networks. Bands (untrained on enhanced, trained on raw images): 95 % intervals",
        xlabel="epsilon (pixel values from 0 to 1)",
        ylabel="accuracy (higher: more are right)",
        dashed=[LINES[TRAINED, RAW], LINES[UNTRAINED, RAW], CHANCE],
    )
