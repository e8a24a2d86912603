"""Figures 6 and 7 of Hesse et al. (2024): do patches, fillings and seeds change the ranking?"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import CONFIDENCE, FEWEST_FOR_ORDER, Replacement, middle, resampled_means
from attributionlab.metrics import deletion_drops, judged_by_drops, patch_sums
from attributionlab.metrics.ranking import centered_ranks, row_correlations
from attributionlab.papers.answers import decided, mean_ends
from attributionlab.papers.catalog import Found, Run, Tables, items
from attributionlab.papers.idsds.maps import CONTROL, PANEL, panel_maps
from attributionlab.papers.idsds.training import Filling, Task, fine_tuned, task_named, trained_pair
from attributionlab.papers.subjects.networks import Design, gradcam_layer
from attributionlab.show import dots

FIGURE_7 = "idsds-figure-7"
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
Patches = Float64[Tensor, "batch patches"]
Condition = tuple[str, str]
"""Part of the figure, and what is compared in it."""
Scores = Mapping[str, NDArray[np.float64]]
"""Of a network's maps, the mean over networks where there are several: "idsds", by drops of the logit,
and "truth", by what the data say, (methods, images), and "network", (images,), the rank correlation of
the two."""


def rankings(
    run: Run, *, training: int, epochs: int, fine_tuning: int, runs: int, task: str = "colors"
) -> Found:
    """Score the panel of methods by IDSDS under several conditions, and compare the rankings.

    For each condition networks are fine-tuned as they are scored. `runs` are trainings of figure 6, and
    seeds of figure 7; `task` is "colors" or "pictures".
    """
    data = task_named(task)(training, run.n, run.seed)
    names = QUICK_METHODS if run.quick else PANEL
    every = fillings(data)
    originals: dict[int, nn.Module] = {}
    found: dict[Condition, list[Scores]] = {}
    for conditions, trained, tuned, patches, filling in run.track(_plan(run, runs)):
        how: dict[str, Any] = {"seed": tuned, "patches": patches, "replacement": every[filling]}
        if trained in originals:
            learned = (data.training_images, data.training_labels)
            network = fine_tuned(originals[trained], *learned, epochs=fine_tuning, **how)
        else:
            both = trained_pair(DESIGN, data, epochs=epochs, fine_tuning=fine_tuning, **how)
            originals[trained], network = both
        replacement = for_images(every[filling], data.images, run.seed)
        methods, scores = score_methods(network, data, names, patches, replacement, run.seed)
        for condition in conditions:
            found.setdefault(condition, []).append(scores)
    tables = _tables(found, methods, run)
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


def _plan(run: Run, runs: int) -> list[tuple[list[Condition], int, int, int, str]]:
    """Conditions that a network serves, seeds of training and fine-tuning, patches, filling.

    The paper's networks of figure 7 share a training and differ in fine-tuning; others differ in both.
    """
    first, *others = seeds = range(run.seed, run.seed + runs)
    if run.item == FIGURE_7:
        both = [(TUNING, str(first)), (TRAINING, str(first))]
        return [(both, first, first, USUAL, ZERO)] + [
            ([(part, str(seed))], trained, seed, USUAL, ZERO)
            for seed in others
            for part, trained in ((TUNING, first), (TRAINING, seed))
        ]
    settings = [(patches, ZERO) for patches in PATCHES]
    settings += [(USUAL, name) for name in (RANDOM, BLURRED, TRUE)]
    return [
        (
            [(NUMBER, str(patches))] * (name == ZERO) + [(FILLING, name)] * (patches == USUAL),
            *(seed, seed, patches, name),
        )
        for seed in seeds
        for patches, name in settings
    ]


def scores_fall_with_patches(tables: Tables) -> bool | None:
    table = tables["scores"]
    table = table[(table.part == NUMBER) & (table.method != CONTROL)]
    if table.low.isna().all():
        return None
    by_number = table.pivot(index="method", columns="name", values="idsds")
    falls = [(by_number[few] > by_number[many]).mean() for few, many in (("4", "16"), ("16", "64"))]
    return decided(min(falls) > 0.5, max(falls) < 0.5)


def trainings_differ_more(tables: Tables) -> bool | None:
    spread = tables["spread"].set_index("part")
    tuning, training = spread.loc[TUNING], spread.loc[TRAINING]
    return decided(tuning.least > training.most, training["mean"] > tuning["mean"])


def fillings(task: Task) -> dict[str, Filling]:
    """Black, uniform noise, the blurred image, and the pixel that stands for nothing."""
    return {ZERO: 0.0, RANDOM: uniform_noise, BLURRED: blurred, TRUE: task.baseline}


def for_images(filling: Filling, images: Images, seed: int) -> Replacement:
    """A filling as metrics take it: one draw for given images."""
    if callable(filling):
        return filling(images, torch.Generator().manual_seed(seed))
    return filling


def uniform_noise(images: Images, generator: torch.Generator) -> Images:
    """Independent values over the range of images, [0, 1] (the paper: (-1, 1))."""
    return torch.rand(images.shape, generator=generator)


def blurred(images: Images, generator: torch.Generator | None = None) -> Images:
    r"""Square images under the paper's Gaussian, scaled from 224 pixels to their own side.

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
) -> tuple[list[str], Scores]:
    """Explain a network's logits of the labels of a task's images, and score the maps, by method."""
    case = (network, task.images, task.labels)
    maps = panel_maps(*case, methods, layer=gradcam_layer(network), seed=seed, quick=True)
    sums = [patch_sums(each, patches) for each in maps.values()]
    drops = deletion_drops(*case, patches=patches, replacement=replacement)
    truth = patch_sums(task.truth, patches)
    scores = {
        "idsds": np.stack([_correlations(each, drops) for each in sums]),
        "truth": np.stack([_correlations(each, truth) for each in sums]),
        "network": _correlations(drops, truth),
    }
    return [*maps], scores


def _correlations(sums: Patches, reference: Patches) -> NDArray[np.float64]:
    """Spearman's correlation over the patches of each image, NaN for a constant reference."""
    return np.asarray(judged_by_drops(sums, reference).scores.numpy())


def agreement(
    first: NDArray[np.float64], second: NDArray[np.float64], seed: int
) -> tuple[float, float, float]:
    """How far two conditions rank methods alike, by their means over images, and its interval.

    Both have the scores (methods, images) of the same methods and images, NaN where there is none, and
    both conditions' images are drawn again together: Spearman's correlation, and its 95 % interval,
    which has the middle of the correlations of resampled images. Their means are noisier than those of
    the images themselves, and noise makes rankings less alike: the interval may lie below the
    correlation, and is rather too low than too high. It is NaN with fewer than six images to which both
    rankings apply.
    """
    means = [
        np.vstack([np.nanmean(scores, axis=1), resampled_means(scores.T, seed)])
        for scores in (first, second)
    ]
    found = row_correlations(*map(centered_ranks, means))
    apply = ~(np.isnan(first).all(axis=0) | np.isnan(second).all(axis=0))
    enough = apply.sum() >= FEWEST_FOR_ORDER
    return float(found[0]), *(middle(found[1:], CONFIDENCE) if enough else (np.nan, np.nan))


def _tables(
    found: Mapping[Condition, Sequence[Scores]], methods: Sequence[str], run: Run
) -> dict[str, pd.DataFrame]:
    parts = list(dict.fromkeys(part for part, _ in found))
    # Means over training runs, of each image; the control takes no part in rankings.
    means = {
        key: {name: np.mean([each[name] for each in found[key]], axis=0) for name in found[key][0]}
        for key in sorted(found, key=lambda key: parts.index(key[0]))
    }
    real = [name != CONTROL for name in methods]
    own = {key: (mean["idsds"][real], mean["truth"][real]) for key, mean in means.items()}
    scores, conditions, pairs = [], [], []
    for (part, name), mean in means.items():
        key = {"part": part, "name": name, "runs": len(found[part, name])}
        for method, values in zip(methods, mean["idsds"], strict=True):
            ends = mean_ends(values, run.seed, FEWEST_FOR_ORDER)
            row = {"method": method, "idsds": np.nanmean(values)}
            scores.append(key | row | dict(zip(("low", "high"), ends, strict=True)))
        by_drops, by_data = own[part, name]
        facts = [np.nanmean(each) for each in (by_drops, by_data, mean["network"])]
        facts += agreement(by_drops, by_data, run.seed)
        columns = ("idsds", "truth", "network", "rankings", "low", "high")
        conditions.append(key | dict(zip(columns, facts, strict=True)))
    for (part, one), (other, two) in combinations(means, 2):
        if part == other:
            paper = PUBLISHED_SEEDS if part == TUNING else PUBLISHED.get((one, two), np.nan)
            alike = agreement(own[part, one][0], own[part, two][0], run.seed)
            pairs.append((part, one, two, *alike, paper))
    agreements = pd.DataFrame(
        pairs, columns=["part", "first", "second", "correlation", "low", "high", "paper"]
    )
    spread = agreements.groupby("part", sort=False).correlation.agg(
        pairs="size", least="min", mean="mean", most="max"
    )
    return {
        "agreement": agreements,
        "spread": spread.reset_index().assign(
            images=run.n,
            methods=sum(real),
            # Spearman's 1 - 6 sum d^2 / (m^3 - m), with d = 1 for each of the two that change places.
            swap=12 / (sum(real) ** 3 - sum(real)),
        ),
        "conditions": pd.DataFrame(conditions),
        "scores": pd.DataFrame(scores),
    }
