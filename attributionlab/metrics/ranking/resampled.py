"""Rank correlations image by image, with images and families of what is ranked drawn again."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Real

from attributionlab.base import (
    Numbers,
    applicable,
    checked_arguments,
    draw_again,
    expanded_tail,
    mean_interval,
    mean_score,
    percentile,
    times_drawn,
)
from attributionlab.metrics.ranking.correlations import (
    CorrelationInterval,
    centered_ranks,
    row_correlations,
)

RESAMPLES = 2000
"""Of families and images together: each end of a 95 % interval then has a Monte-Carlo error of 0.06
standard errors."""
KEPT = 32
"""Rankings that stay known; of 250 attributions they take 128 MB."""


class Correlations(NamedTuple):
    """Correlations of two rankings, image by image."""

    each: Numbers
    """(images,), NaN where an image has no ranking"""
    drawn: Numbers | None = None
    """(resamples, images), with other families of attributions"""

    def less(self, other: "Correlations") -> "Correlations":
        """How much larger these are than others of the same images and families."""
        if self.drawn is None or other.drawn is None:
            return Correlations(self.each - other.each)
        return Correlations(self.each - other.each, self.drawn - other.drawn)


class Resamples:
    """The same attributions, and the same images, drawn again and again for all that is compared.

    Without families the attributions are a fixed panel, and intervals are over images. With families,
    both images and families are drawn, independently of each other (the pigeonhole bootstrap of Owen,
    Annals of Applied Statistics, 2007, which is, if anything, too wide), so that no result hangs on the
    choice of damages.

    Parameters
    ----------
    families : sequence of str or None
        The family of each attribution.
    confidence : float
        In (0, 1).
    seed : int
        Non-negative.
    """

    def __init__(self, families: Sequence[str] | None, confidence: float, seed: int) -> None:
        self._confidence, self._seed = confidence, seed
        self._weights: Numbers | None = None
        if families is not None:
            known = list(dict.fromkeys(families))
            drawn = draw_again(len(known), RESAMPLES, np.random.default_rng([seed, 9]))
            times = times_drawn(drawn)[:, [known.index(each) for each in families]]
            self._weights = times.astype(float)
        self._ranks: dict[bytes, Numbers] = {}

    def correlations(self, first: Numbers, second: Numbers) -> Correlations:
        """Spearman's correlation of two scores, both (images, candidates), in each image.

        An image in which a score is NaN, or all are equal, has none. The first `KEPT` rankings by the
        second stay known: many scores are held against one truth.
        """
        each = row_correlations(centered_ranks(first), centered_ranks(second))
        if self._weights is None:
            return Correlations(each)
        drawn, weights = np.full((RESAMPLES, len(each)), np.nan), self._weights
        for image in np.flatnonzero(~np.isnan(each)):
            key = second[image].tobytes()
            other = self._ranks.get(key)
            if other is None:
                other = _resampled_ranks(second[image], weights)
                if len(self._ranks) < KEPT:
                    self._ranks[key] = other
            ranks = _resampled_ranks(first[image], weights)
            drawn[:, image] = _rank_correlations(ranks, other, weights)
        return Correlations(each, drawn)

    def interval(self, found: Correlations) -> CorrelationInterval:
        """The mean over images; NaN without any, without an interval where there is one image only."""
        mean = mean_score(found.each)
        if found.drawn is None:
            interval = mean_interval(found.each, self._seed, self._confidence)
            return CorrelationInterval(mean, *map(float, interval or (np.nan, np.nan)))
        images = applicable(found.each)
        if images < 2:
            return CorrelationInterval(mean, np.nan, np.nan)
        generator = np.random.default_rng([self._seed, 10])
        times = times_drawn(draw_again(len(found.each), RESAMPLES, generator))
        there = ~np.isnan(found.drawn)
        sums = (times * np.where(there, found.drawn, 0)).sum(1)
        means = np.full(RESAMPLES, np.nan)
        np.divide(sums, counts := (times * there).sum(1), out=means, where=counts > 0)
        tail = expanded_tail((1 - self._confidence) / 2, images)
        return CorrelationInterval(mean, percentile(means, tail), percentile(means, 1 - tail))


@checked_arguments
def resampled_correlations(
    first: Real[np.ndarray, " items"],
    second: Real[np.ndarray, " items"],
    times: Int[np.ndarray, "resamples items"],
) -> Numbers:
    """Spearman's correlation of two scores in each of many resamples of their items.

    An item that is drawn several times ties with itself. Ranks follow from how often the items below
    are drawn, so that nothing is sorted again.

    Parameters
    ----------
    first, second : array, (items,)
        Scores of the same items, without NaN.
    times : array, (resamples, items)
        How often each resample has each item (`attributionlab.base.stats.intervals.times_drawn`).

    Returns
    -------
    array, (resamples,)
        NaN where all drawn items have the same score. Equal scores give equal numbers, to the last bit.
    """
    weights = times.astype(float)
    one, other = (_resampled_ranks(values, weights) for values in (first, second))
    return _rank_correlations(one, other, weights)


def _rank_correlations(one: Numbers, other: Numbers, weights: Numbers) -> Numbers:
    """Correlation of the ranks in each resample, (resamples,)."""
    weighted = weights * one
    # Sums of products of multiples of 1/2 are exact.
    product, square = (weighted * other).sum(1), (weighted * one).sum(1)
    scale = np.sqrt(square * (weights * np.square(other)).sum(1))
    result = np.full(len(weights), np.nan)
    np.divide(product, scale, out=result, where=scale > 0)
    return result.clip(-1, 1)


def _resampled_ranks(values: Numbers, weights: Numbers) -> Numbers:
    """Ranks of the items less their mean, (resamples, items)."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=np.nan) != 0)
    groups = np.add.reduceat(weights[:, order], starts, axis=1)  # of equal values
    centers = groups.cumsum(1) - (groups - 1) / 2 - (weights.sum(1, keepdims=True) + 1) / 2
    which = np.empty(len(values), np.int64)
    which[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    ranks: Numbers = centers[:, which]
    return ranks
