"""Correlations of rankings by means over images, as the papers' tables have them, with intervals."""

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from attributionlab.metric_trials.agreement import RankedBy, without_rounding
from attributionlab.ranking import CorrelationInterval, centered_ranks, row_correlations
from attributionlab.stats.resampling import draw_again, middle, times_drawn, weighted_means

Numbers = NDArray[np.float64]

RESAMPLES = 1000
"""Each end of a 95 % interval then has a Monte-Carlo error of less than a tenth of the standard error:
sqrt(0.025 x 0.975 / RESAMPLES) over the normal density at 1.96."""


class AgreementOfMeans:
    """The truth's rankings of candidates, and the resamples that every metric is compared on.

    A resample draws the images, with replacement, takes means over them, draws the candidates, with
    replacement, and ranks them. All metrics and conditions meet the same resamples. `f1` has
    (candidates, images) by part of the truth, NaN where an image lacks it.

    Drawing images again adds their chance a second time, which lowers correlations: the percentile
    interval of the resamples may lie below the measured value altogether. It is therefore moved
    until the resamples' median is the measured value, and cut off at -1 and 1. So it is the
    interval of the correlation that so many images give: where scores differ from image to image,
    endlessly many images correlate higher, and the interval need not reach up to that.
    """

    def __init__(self, f1: Mapping[Any, Numbers], confidence: float, seed: int) -> None:
        candidates, images = next(iter(f1.values())).shape
        rng = np.random.default_rng([seed, candidates, images])
        # The first row is what was measured, not resampled.
        drawn = times_drawn(draw_again(images, RESAMPLES, rng))
        self._times = np.concatenate([np.ones((1, images)), drawn])
        drawn = draw_again(candidates, RESAMPLES, rng)
        self._items = np.concatenate([np.arange(candidates)[None], drawn])
        self._confidence = confidence
        means = {part: self._means(values) for part, values in f1.items()}
        lowest = np.minimum.reduce([each for each in means.values() if not np.isnan(each[0]).all()])
        by = {"overall": means["overall"], "positive": means["positive"], "signed": lowest}
        self._ranks = {name: self._ranked(values) for name, values in by.items()}

    def of(self, scores: Numbers, higher_is_better: bool) -> dict[RankedBy, CorrelationInterval]:
        """Correlations of the ranking by scores (candidates, images) with each of the truth's.

        NaN (not applicable) is left out of means. A candidate without any score makes the
        correlations NaN, as does a metric that scores all candidates alike.
        """
        means = self._means(scores)
        ranks = self._ranked(means if higher_is_better else -means)
        result: dict[RankedBy, CorrelationInterval] = {}
        for name in get_args(RankedBy):
            measured, *resampled = row_correlations(ranks, self._ranks[name])
            there = np.array([each for each in resampled if not np.isnan(each)])
            moved = there - np.median(there) + measured if len(there) else there
            low, high = np.clip(middle(moved, self._confidence), -1, 1).tolist()
            result[name] = CorrelationInterval(float(measured), low, high)
        return result

    def _means(self, scores: Numbers) -> Numbers:
        """Over the images of each resample, (RESAMPLES + 1, candidates)."""
        return weighted_means(scores.T, [self._times])

    def _ranked(self, means: Numbers) -> Numbers:
        return centered_ranks(np.take_along_axis(without_rounding(means), self._items, axis=1))
