"""IDSDS of the panel of methods under conditions: patches, fillings and seeds of training."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.metrics import deletion_drops, judged_by_drops, patch_sums
from attributionlab.papers.idsds.data import Task
from attributionlab.papers.idsds.maps import panel_maps
from attributionlab.papers.subjects.networks import gradcam_layer
from attributionlab.ranking import centered_ranks, middle, row_correlations
from attributionlab.stats.intervals import FEWEST_FOR_ORDER, mean_interval
from attributionlab.validation import Replacement

RESAMPLES = 2000
TOO_FEW = f" Fewer than {FEWEST_FOR_ORDER} images allow no intervals."
"""Ends the findings of so few."""
Scores = NDArray[np.float64]


class Judged(NamedTuple):
    """Scores of the methods' maps of one network.

    Parameters
    ----------
    methods : sequence of str
        In the order of the panel.
    idsds : array, (methods, images)
        Rank correlation of a map's sums over patches with how far the label's logit falls.
    truth : array, (methods, images), or None
        The same with the sums of what the data say of each pixel; NaN where all of those are equal.
    network : array, (images,), or None
        Rank correlation of the logit's drops with what the data say.
    """

    methods: Sequence[str]
    idsds: Scores
    truth: Scores | None
    network: Scores | None


def judged(
    network: nn.Module,
    task: Task,
    methods: Sequence[str],
    *,
    patches: int,
    replacement: Replacement,
    seed: int,
    quick: bool,
) -> Judged:
    """Explain a network's logits of the labels of a task's images, and score the maps.

    Parameters
    ----------
    network : nn.Module
        Of `network_of`, in eval mode.
    task : Task
        Whose images are explained.
    methods : sequence of str
        Of the panel.
    patches, replacement
        As for `attributionlab.metrics.single_deletion`.
    seed, quick
        As for `panel_maps`.
    """
    images, labels = task.images, task.labels
    drops = deletion_drops(network, images, labels, patches=patches, replacement=replacement)
    maps = panel_maps(
        network,
        images,
        labels,
        methods,
        layer=gradcam_layer(network),
        seed=seed,
        quick=quick,
    )
    sums = {name: patch_sums(of_name, patches) for name, of_name in maps.items()}
    idsds = [_scores(each, drops) for each in sums.values()]
    if task.truth is None:
        return Judged(list(sums), np.stack(idsds), None, None)
    known = patch_sums(task.truth.double(), patches)
    truth = [_scores(each, known) for each in sums.values()]
    return Judged(list(sums), np.stack(idsds), np.stack(truth), _scores(drops, known))


def _scores(
    sums: Float64[Tensor, "images patches"], reference: Float64[Tensor, "images patches"]
) -> Scores:
    return np.asarray(judged_by_drops(sums, reference).scores.numpy())


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


def agreement(first: Scores, second: Scores, seed: int) -> Agreement:
    """How far two conditions rank methods alike, by their means over images.

    Parameters
    ----------
    first, second : array, (methods, images)
        Scores of the same methods and images, NaN where there is none. Both conditions' images are
        drawn again together.
    seed : int
        Of the resampling.
    """
    number = first.shape[1]
    drawn = np.random.default_rng(seed).integers(0, number, (RESAMPLES, number))
    drawn[0] = np.arange(number)  # as they are
    ranks = [centered_ranks(np.nanmean(scores[:, drawn], axis=2).T) for scores in (first, second)]
    correlations = row_correlations(*ranks)
    apply = ~(np.isnan(first).all(axis=0) | np.isnan(second).all(axis=0))
    ends = (
        middle(correlations[1:], 0.95) if apply.sum() >= FEWEST_FOR_ORDER else (math.nan, math.nan)
    )
    return Agreement(float(correlations[0]), *ends)


def interval_over_images(values: Scores, seed: int) -> tuple[float, float]:
    """The ends of `mean_interval`, or NaN with fewer than six images to which a score applies.

    Parameters
    ----------
    values : array, (images,)
        A score of each image, NaN where it does not apply.
    seed : int
        Of the resampling.
    """
    enough = np.count_nonzero(~np.isnan(values)) >= FEWEST_FOR_ORDER
    return (mean_interval(values, seed) if enough else None) or (math.nan, math.nan)
