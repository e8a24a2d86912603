"""Figures 6 and 7 of Hesse et al. (2024): do patches, fillings and seeds change the ranking?"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.base import FEWEST_FOR_ORDER, Replacement, resampled_means, track
from attributionlab.metrics.ranking import centered_ranks, middle, row_correlations
from attributionlab.papers.answers import above, decided
from attributionlab.papers.catalog import Check, Found, Run, Tables, claim, items
from attributionlab.papers.idsds.maps import (
    CONTROL,
    LOGIT,
    PANEL,
    TRUTH,
    Scores,
    correlations,
    interval_over_images,
    panel_scores,
    references,
)
from attributionlab.papers.idsds.training import (
    Filling,
    Pair,
    Task,
    fine_tuned,
    task_named,
    trained_pair,
)
from attributionlab.papers.subjects.networks import Design, gradcam_layer
from attributionlab.show import dots

FIGURE_6, FIGURE_7 = "idsds-figure-6", "idsds-figure-7"
DESIGN = Design("residual", batch_norm=True)
PATCHES, USUAL = (4, 16, 64), 16
QUICK_METHODS = (
    *("input-x-gradient", "integrated-gradients", "integrated-gradients-uniform"),
    *("input-x-gradient-absolute", "integrated-gradients-absolute", "saliency", "gradcam", CONTROL),
)
NUMBER, FILLING = "number of patches", "what deleted pixels become"
TUNING, TRAINING = "seed of fine-tuning", "seed of training and fine-tuning"
PUBLISHED = {
    ("4", "16"): 0.93,
    ("16", "64"): 0.9,
    ("zero", "random"): 0.99,
    ("zero", "blurred"): 0.96,
}
"""Rank correlations of section 4.1, by pairs of conditions."""
PUBLISHED_SEEDS = 0.996
"""The least rank correlation of two seeds of fine-tuning."""
ALIKE = 0.7
"""Rankings whose correlation is above this are called alike."""

ZERO, RANDOM, BLURRED, TRUE = "zero", "random", "blurred", "true"
PAPER_SIDE, PAPER_KERNEL, PAPER_SIGMA = 224, 51, 41
"""Sigma of the paper's blur, in pixels."""

Images = Float[Tensor, "batch channels height width"]
Condition = tuple[str, str]
"""Part of the figure, and what is compared in it."""
Step = tuple[list[Condition], nn.Module, int, Filling]
"""The conditions that a fine-tuned network serves, the network, patches, and filling."""


class MethodScores(NamedTuple):
    """Scores of a network's maps, the mean over networks where there are several.

    `methods` are in the order of the panel; `scores`, (methods, images), go by what maps are held
    against: drops of the logit (IDSDS), and what the data say, if known. `network`, (images,), is the
    rank correlation of the two.
    """

    methods: list[str]
    scores: dict[str, Scores]
    network: Scores | None

    def own(self, against: str = LOGIT) -> Scores:
        """Return the scores of all methods but the control."""
        return self.scores[against][[name != CONTROL for name in self.methods]]


class Agreement(NamedTuple):
    """Spearman's correlation of two rankings of methods, and its 95 % interval over images.

    The interval has the middle of the correlations of resampled images. Their means are noisier than
    those of the images themselves, and noise makes rankings less alike: the interval may lie below
    the correlation, and is rather too low than too high. It is NaN with fewer than six images to which
    both rankings apply.
    """

    correlation: float
    low: float
    high: float


def rankings(
    run: Run, *, training: int, epochs: int, fine_tuning: int, runs: int, task: str = "colors"
) -> Found:
    """Score the panel of methods by IDSDS under several conditions, and compare the rankings.

    For each condition networks are fine-tuned as they are scored. `runs` are trainings of figure 6, and
    seeds of figure 7; `task` is "colors" or "pictures".
    """
    data = task_named(task)(training, run.n, run.seed)
    pair = partial(trained_pair, DESIGN, data, epochs=epochs, fine_tuning=fine_tuning)
    learned: dict[str, Any] = {"images": data.training_images, "labels": data.training_labels}
    tuned = partial(fine_tuned, **learned, epochs=fine_tuning)
    if run.item == FIGURE_6:
        plan, total = _patches_and_fillings(pair, tuned, data, run.seed, runs), 6 * runs
    else:
        plan, total = _seeds(pair, tuned, data, run.seed, runs), 2 * runs - 1
    found: dict[Condition, list[MethodScores]] = {}
    methods = QUICK_METHODS if run.quick else PANEL
    for conditions, network, patches, filling in track(plan, total, run.item, run.show_progress):
        replacement = for_images(filling, data.images, run.seed)
        scores = score_methods(network, data, methods, patches, replacement, run.seed)
        for condition in conditions:
            found.setdefault(condition, []).append(scores)
    tables = _tables(found, run)
    title = f"{items()[run.item].title}\nn = {run.n}, bars: 95 % intervals over images"
    figure = dots(
        *(tables["scores"], "idsds", "method"),
        color="name",
        panel="part",
        title=title,
        xlabel="IDSDS (higher is better)",
        reference=0,
    )
    return Found(tables, {"scores": figure})


def _alike(part: str) -> Check:
    """Return what says whether pairs of conditions with a published number rank methods alike."""

    def check(tables: Tables) -> bool | None:
        table = tables["agreement"]
        table = table[(table.part == part) & table.paper.notna()]
        return above(table.low, table.high, ALIKE)

    return check


claim(
    FIGURE_6,
    place="Section 4.1, Figure 6 (a)",
    statement="The number of patches hardly changes the ranking: correlations of 0.93 for 4 and 16 "
    "patches, 0.90 for 16 and 64 (here: both above 0.7)",
)(_alike(NUMBER))
claim(
    FIGURE_6,
    place="Figure 6 (b)",
    statement="What deleted pixels become hardly changes the ranking: correlations of 0.99 for zero "
    "and random, 0.96 for zero and blurred (here: both above 0.7)",
    reason="Our images are black but for small patches of color: noise and blur add color to a deleted "
    "patch, black takes it away",
)(_alike(FILLING))


@claim(FIGURE_6, place="Section 4.1, Figure 6 (a)")
def scores_fall_with_patches(tables: Tables) -> bool | None:
    """The more patches, the lower most scores (at 64 between 0 and 0.06)."""
    table = tables["scores"]
    table = table[(table.part == NUMBER) & (table.method != CONTROL)]
    if table.low.isna().all():
        return None
    by_number = table.pivot(index="method", columns="name", values="idsds")
    falls = [(by_number[few] > by_number[many]).mean() for few, many in (("4", "16"), ("16", "64"))]
    return decided(min(falls) > 0.5, max(falls) < 0.5)


claim(
    FIGURE_7,
    place="Section 4.1, Figure 7",
    statement="The ranking is stable: seeds of fine-tuning correlate by at least 0.996 (here: all "
    "above 0.7, since few images make rankings less alike than they are)",
)(_alike(TUNING))


@claim(FIGURE_7)
def trainings_differ_more(tables: Tables) -> bool | None:
    """Most of the spread is that of training, which the paper has not varied: each pair of
    trainings has less alike rankings than any pair of fine-tunings.
    """
    spread = tables["spread"].set_index("part")
    tuning, training = spread.loc[TUNING], spread.loc[TRAINING]
    return decided(tuning.least > training.most, training["mean"] > tuning["mean"])


def fillings(task: Task) -> dict[str, Filling]:
    """Return black, uniform noise, the blurred image, and the pixel that stands for nothing."""
    return {ZERO: 0.0, RANDOM: uniform_noise, BLURRED: blurred, TRUE: task.baseline}


def for_images(filling: Filling, images: Images, seed: int) -> Replacement:
    """Return a filling as metrics take it: one draw for given images."""
    if callable(filling):
        return filling(images, torch.Generator().manual_seed(seed))
    return filling


def uniform_noise(images: Images, generator: torch.Generator) -> Images:
    """Return independent values over the range of images, [0, 1] (the paper: (-1, 1))."""
    return torch.rand(images.shape, generator=generator)


def blurred(images: Images, generator: torch.Generator | None = None) -> Images:
    r"""Return square images under the paper's Gaussian, scaled from 224 pixels to their own side.

    Weights are proportional to :math:`\exp(-(d / (2 \sigma))^2)` at a distance of d pixels in rows and
    in columns, sigma = 41 and 51 pixels in all at a side of 224. So public code has it; it is the
    density of a normal distribution with a standard deviation of 41 sqrt 2 pixels, where the text has
    one of 41, and nearly a mean over the window. Images are mirrored at their edges. The generator is
    not needed; what calls fillings has one.
    """
    side, channels = images.shape[-1], images.shape[1]
    reach = round((PAPER_KERNEL * side / PAPER_SIDE - 1) / 2)
    sigma = PAPER_SIGMA * side / PAPER_SIDE
    weights = torch.exp(-((torch.arange(-reach, reach + 1) / (2 * sigma)) ** 2))
    line = (weights / weights.sum()).to(images).expand(channels, 1, -1)
    padded = nn.functional.pad(images, (reach,) * 4, mode="reflect")
    rows = nn.functional.conv2d(padded, line[..., None], groups=channels)
    return nn.functional.conv2d(rows, line[:, :, None], groups=channels)


def score_methods(
    network: nn.Module,
    task: Task,
    methods: Sequence[str],
    patches: int,
    replacement: Replacement,
    seed: int,
) -> MethodScores:
    """Explain a network's logits of the labels of a task's images, and score the maps."""
    case = (network, task.images, task.labels)
    held = references(*case, task.truth, outputs=(LOGIT,), patches=patches, replacement=replacement)
    layer = gradcam_layer(network)
    table = panel_scores(
        *(*case, held, methods), patches=patches, layer=layer, seed=seed, quick=True
    )
    number = len(task.images)
    return MethodScores(
        list(dict.fromkeys(table.method)),
        {name: own.score.to_numpy().reshape(-1, number) for name, own in table.groupby("against")},
        correlations(held[LOGIT], held[TRUTH]) if TRUTH in held else None,
    )


def agreement(first: Scores, second: Scores, seed: int) -> Agreement:
    """Return how far two conditions rank methods alike, by their means over images.

    Both have the scores (methods, images) of the same methods and images, NaN where there is none, and
    both conditions' images are drawn again together.
    """
    means = [
        np.vstack([np.nanmean(scores, axis=1), resampled_means(scores.T, seed)])
        for scores in (first, second)
    ]
    found = row_correlations(*map(centered_ranks, means))
    apply = ~(np.isnan(first).all(axis=0) | np.isnan(second).all(axis=0))
    enough = apply.sum() >= FEWEST_FOR_ORDER
    return Agreement(float(found[0]), *(middle(found[1:], 0.95) if enough else (np.nan, np.nan)))


def _patches_and_fillings(
    pair: Callable[..., Pair], tuned: Callable[..., nn.Module], data: Task, seed: int, runs: int
) -> Iterator[Step]:
    every = fillings(data)
    settings = [(patches, ZERO) for patches in PATCHES]
    settings += [(USUAL, name) for name in every if name != ZERO]
    for own in range(seed, seed + runs):
        original: nn.Module | None = None
        for patches, name in settings:
            how: dict[str, Any] = {"seed": own, "patches": patches, "replacement": every[name]}
            if original is None:
                original, network = pair(**how)
            else:
                network = tuned(original, **how)
            conditions = [(NUMBER, str(patches))] if name == ZERO else []
            conditions += [(FILLING, name)] if patches == USUAL else []
            yield conditions, network, patches, every[name]


def _seeds(
    pair: Callable[..., Pair], tuned: Callable[..., nn.Module], data: Task, seed: int, runs: int
) -> Iterator[Step]:
    """Yield the paper's networks, which share a training and differ in fine-tuning, and others."""
    filling = fillings(data)[ZERO]
    how: dict[str, Any] = {"patches": USUAL, "replacement": filling}
    original, network = pair(seed=seed, **how)
    yield [(TUNING, str(seed)), (TRAINING, str(seed))], network, USUAL, filling
    for other in range(seed + 1, seed + runs):
        yield [(TUNING, str(other))], tuned(original, seed=other, **how), USUAL, filling
        yield [(TRAINING, str(other))], pair(seed=other, **how).fine_tuned, USUAL, filling


def _tables(found: dict[Condition, list[MethodScores]], run: Run) -> dict[str, pd.DataFrame]:
    parts = list(dict.fromkeys(part for part, _ in found))
    means = {key: _mean(found[key]) for key in sorted(found, key=lambda key: parts.index(key[0]))}
    scores, conditions, pairs = [], [], []
    for (part, name), mean in means.items():
        key = {"part": part, "name": name, "runs": len(found[part, name])}
        for method, values in zip(mean.methods, mean.scores[LOGIT], strict=True):
            low, high = interval_over_images(values, run.seed)
            row = {"method": method, "idsds": np.nanmean(values), "low": low, "high": high}
            scores.append(key | row)
        facts: dict[str, Any] = {"idsds": np.nanmean(mean.own())}
        if mean.network is not None:
            by_both = agreement(mean.own(), mean.own(TRUTH), run.seed)
            facts |= {"truth": np.nanmean(mean.own(TRUTH)), "network": np.nanmean(mean.network)}
            facts |= {"rankings": by_both.correlation, "low": by_both.low, "high": by_both.high}
        conditions.append(key | facts)
    for (part, first), (other, second) in combinations(means, 2):
        if part == other:
            alike = agreement(means[part, first].own(), means[part, second].own(), run.seed)
            paper = PUBLISHED_SEEDS if part == TUNING else PUBLISHED.get((first, second), np.nan)
            key = {"part": part, "first": first, "second": second}
            pairs.append(key | alike._asdict() | {"paper": paper})
    agreements = pd.DataFrame(
        pairs, columns=["part", "first", "second", *Agreement._fields, "paper"]
    )
    methods = len(next(iter(means.values())).own())
    spread = agreements.groupby("part", sort=False).correlation.agg(
        pairs="size", least="min", mean="mean", most="max"
    )
    return {
        "agreement": agreements,
        "spread": spread.reset_index().assign(
            images=run.n,
            methods=methods,
            # Spearman's 1 - 6 sum d^2 / (m^3 - m), with d = 1 for each of the two that change places.
            swap=12 / (methods**3 - methods),
        ),
        "conditions": pd.DataFrame(conditions),
        "scores": pd.DataFrame(scores),
    }


def _mean(runs: Sequence[MethodScores]) -> MethodScores:
    """Return scores of each image, means over training runs."""
    networks = [run.network for run in runs if run.network is not None]
    return MethodScores(
        runs[0].methods,
        {key: np.mean([run.scores[key] for run in runs], axis=0) for key in runs[0].scores},
        np.mean(networks, axis=0) if networks else None,
    )
