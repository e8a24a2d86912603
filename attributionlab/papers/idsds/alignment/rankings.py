"""Figures 6 and 7 of Hesse et al. (2024): do patches, fillings and seeds change the ranking?"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import nn

from attributionlab.papers.idsds.alignment.conditions import (
    Judged,
    agreement,
    interval_over_images,
    judged,
)
from attributionlab.papers.idsds.alignment.fillings import ZERO, fillings, for_images
from attributionlab.papers.idsds.alignment.ranking_findings import ranking_findings
from attributionlab.papers.idsds.data import Task, task_named
from attributionlab.papers.idsds.maps import CONTROL, PANEL
from attributionlab.papers.idsds.training import fine_tuned, trained_pair
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.subjects.networks import Design
from attributionlab.progress import track
from attributionlab.report.method_scores import ScoreDot
from attributionlab.report.setups import SetupPanel, setups_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ITEMS = {
    "idsds-figure-6": "IDSDS of methods by number of patches and by what deleted pixels become",
    "idsds-figure-7": "IDSDS of methods by training seed",
}
DESIGN = Design("residual", batch_norm=True)
PATCHES = (4, 16, 64)
USUAL = 16
QUICK_METHODS = (
    "input-x-gradient",
    "integrated-gradients",
    "integrated-gradients-uniform",
    "input-x-gradient-absolute",
    "integrated-gradients-absolute",
    "saliency",
    "gradcam",
    CONTROL,
)
NUMBER, FILLING, TUNING, TRAINING = (
    "number of patches",
    "what deleted pixels become",
    "seed of fine-tuning",
    "seed of training and fine-tuning",
)
"""Parts of the figures."""
SHOWN = {
    "agreement": "Spearman's correlation of two conditions' rankings of methods (without the control), "
    "and its 95 % interval over images (resamples are noisier than the images themselves, so that it "
    "may lie below; none with fewer than six); scores are means over images and training runs",
    "conditions": "means over methods (without the control): idsds, and truth, the same held against "
    "what the data say of each patch; network: rank correlation of the logit's drops with that; "
    "rankings: correlation of the rankings of methods by idsds and by truth, with its interval",
}


@dataclass(frozen=True)
class Scale:
    """How much is trained and explained.

    Parameters
    ----------
    training, images : int
        Images to train on and to explain.
    epochs, fine_tuning : int
        Passes over the images.
    runs : int
        Trainings of idsds-figure-6.
    seeds : int
        Of idsds-figure-7.
    methods : sequence of str
        Of the panel.
    """

    training: int
    images: int
    epochs: int
    fine_tuning: int
    runs: int
    seeds: int
    methods: Sequence[str]


FULL = Scale(1500, 64, 10, 4, 3, 5, PANEL)
QUICK = Scale(800, 32, 8, 3, 1, 2, QUICK_METHODS)


class Condition(NamedTuple):
    """One of those that are compared, in a part of the figure."""

    part: str
    name: str


Found = dict[Condition, list[Judged]]
"""Of each training run."""


def idsds_rankings(
    item: str,
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    task: str = "colors",
    show_progress: bool = False,
) -> Reproduction:
    """Score the panel of methods by IDSDS under several conditions, and compare the rankings.

    For each condition networks are fine-tuned as they are judged.

    Parameters
    ----------
    item : str
        A name in `ITEMS`.
    n : int, optional
        Images that are explained; 64, or 32 in a quick run, by default.
    quick : bool
        Fewer methods, training runs and images.
    seed : int
        Of images, noise and the first training run.
    task : {"colors", "pictures"}
        What networks are trained on: which of four colors has the most pixels, or objects on
        backgrounds.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "agreement" (pairs of conditions), "conditions", and "scores" (methods by condition);
        one figure.
    """
    scale = QUICK if quick else FULL
    number = scale.images if n is None else n
    data = task_named(task)(scale.training, number, seed)
    plan = (
        _figure_6(scale, data, seed) if item == "idsds-figure-6" else _figure_7(scale, data, seed)
    )
    total = 6 * scale.runs if item == "idsds-figure-6" else 2 * scale.seeds - 1
    found: Found = defaultdict(list)
    for conditions, network, patches, filling in track(plan, total, item, show_progress):
        scores = judged(
            network,
            data,
            scale.methods,
            patches=patches,
            replacement=for_images(filling, data.images, seed),
            seed=seed,
            quick=True,
        )
        for condition in conditions:
            found[condition].append(scores)
    tables = _tables(found, seed)
    methods = set(tables["scores"].method) - {CONTROL}
    return Reproduction(
        item=item,
        title=ITEMS[item],
        tables=tables,
        figures={"scores": _figure(tables["scores"], ITEMS[item])},
        findings=ranking_findings(item, tables, images=number, methods=len(methods)),
        shown=SHOWN,
    )


Step = tuple[list[Condition], nn.Module, int, Any]
"""The conditions that a fine-tuned network serves, the network, patches, and filling."""


def _figure_6(scale: Scale, data: Task, seed: int) -> Iterator[Step]:
    every = fillings(data)
    settings = [(patches, ZERO) for patches in PATCHES]
    settings += [(USUAL, name) for name in every if name != ZERO]
    for run in range(scale.runs):
        original: nn.Module | None = None
        for patches, name in settings:
            conditions = []
            if name == ZERO:
                conditions.append(Condition(NUMBER, str(patches)))
            if patches == USUAL:
                conditions.append(Condition(FILLING, name))
            if original is None:
                original, network = _pair(scale, data, seed + run, patches, every[name])
            else:
                network = _tuned(original, scale, data, seed + run, patches, every[name])
            yield conditions, network, patches, every[name]


def _figure_7(scale: Scale, data: Task, seed: int) -> Iterator[Step]:
    """The paper's networks share a training and differ in fine-tuning; others differ in both."""
    filling = fillings(data)[ZERO]
    original, network = _pair(scale, data, seed, USUAL, filling)
    first = [Condition(part, str(seed)) for part in (TUNING, TRAINING)]
    yield first, network, USUAL, filling
    for other in range(seed + 1, seed + scale.seeds):
        network = _tuned(original, scale, data, other, USUAL, filling)
        yield [Condition(TUNING, str(other))], network, USUAL, filling
        _, network = _pair(scale, data, other, USUAL, filling)
        yield [Condition(TRAINING, str(other))], network, USUAL, filling


def _pair(
    scale: Scale, data: Task, seed: int, patches: int, filling: Any
) -> tuple[nn.Module, nn.Module]:
    return trained_pair(
        DESIGN,
        data,
        seed=seed,
        patches=patches,
        replacement=filling,
        epochs=scale.epochs,
        fine_tuning_epochs=scale.fine_tuning,
    )


def _tuned(
    original: nn.Module, scale: Scale, data: Task, seed: int, patches: int, filling: Any
) -> nn.Module:
    return fine_tuned(
        original,
        data.training_images,
        data.training_labels,
        seed=seed,
        patches=patches,
        replacement=filling,
        epochs=scale.fine_tuning,
    )


def _tables(found: Found, seed: int) -> dict[str, "pd.DataFrame"]:
    import pandas as pd

    parts = list(dict.fromkeys(condition.part for condition in found))
    means = {
        condition: _mean(found[condition])
        for condition in sorted(found, key=lambda condition: parts.index(condition.part))
    }
    scores: list[dict[str, Any]] = []
    conditions: list[dict[str, Any]] = []
    for condition, mean in means.items():
        key = condition._asdict() | {"runs": len(found[condition])}
        for method, values in zip(mean.methods, mean.idsds, strict=True):
            low, high = interval_over_images(values, seed)
            row = {"method": method, "idsds": np.nanmean(values), "low": low, "high": high}
            scores.append(key | row)
        conditions.append(key | _facts(mean, seed))
    pairs = []
    every = list(means)
    for index, first in enumerate(every):
        for second in every[index + 1 :]:
            if first.part == second.part:
                alike = agreement(_own(means[first]), _own(means[second]), seed)
                pair = {"part": first.part, "first": first.name, "second": second.name}
                pairs.append(pair | alike._asdict())
    agreements = pd.DataFrame(pairs)
    parts = list(dict.fromkeys(condition.part for condition in every))
    return {
        "agreement": agreements.sort_values(
            "part", key=lambda x: x.map(parts.index), kind="stable"
        ),
        "conditions": pd.DataFrame(conditions),
        "scores": pd.DataFrame(scores),
    }


def _mean(runs: Sequence[Judged]) -> Judged:
    """Scores of each image, means over training runs."""
    truths = [run.truth for run in runs if run.truth is not None]
    networks = [run.network for run in runs if run.network is not None]
    return Judged(
        runs[0].methods,
        np.mean([run.idsds for run in runs], axis=0),
        np.mean(truths, axis=0) if truths else None,
        np.mean(networks, axis=0) if networks else None,
    )


def _own(mean: Judged, key: str = "idsds") -> Any:
    """Scores of methods, the control left out."""
    return getattr(mean, key)[[name != CONTROL for name in mean.methods]]


def _facts(mean: Judged, seed: int) -> dict[str, float]:
    facts = {"idsds": float(np.nanmean(_own(mean)))}
    if mean.truth is None or mean.network is None:
        return facts
    rankings = agreement(_own(mean), _own(mean, "truth"), seed)
    return facts | {
        "truth": float(np.nanmean(_own(mean, "truth"))),
        "network": float(np.nanmean(mean.network)),
        "rankings": rankings.correlation,
        "low": rankings.low,
        "high": rankings.high,
    }


def _figure(scores: "pd.DataFrame", title: str) -> "Figure":
    panels = []
    for part, here in scores.groupby("part", sort=False):
        dots = {
            str(name): {
                row.method: ScoreDot(row.idsds, row.low, row.high) for row in of_name.itertuples()
            }
            for name, of_name in here.groupby("name", sort=False)
        }
        panels.append(SetupPanel(str(part), "IDSDS (higher is better)", dots))
    return setups_figure(panels, title, bars="bars: 95 % intervals over images")
