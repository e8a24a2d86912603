"""How far a metric's ranking of attributions agrees with the truth's, and how sure that is."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import mean_score
from attributionlab.metrics.ranking import Correlations, Resamples

Numbers = NDArray[np.float64]

RankedBy = Literal["overall", "positive", "signed"]
"""The truth's ranking: by F1 on the overall mask, on the positive one, or by the lowest of all."""

SAME = 1e-9
"""Scores that differ by less, as a share of the reach of all scores, are ties."""


class Agreement:
    """The truth's rankings of the attributions of each image.

    Attributions are ranked image by image, and correlations averaged over images. So more images make
    the mean surer and nothing else: ranking by scores that are averaged first would correlate higher
    and higher with their number, as what differs from image to image averages out, and a metric would
    break or not by how many there are. Each image has a network of its own.

    - `f1` (candidates, images): by part of the truth; NaN where an image lacks it.
    - `seed`: for the resampling of images and families.
    - `families`: that of each candidate, of which others might have been taken; without them the
      candidates are a fixed panel.
    """

    def __init__(
        self,
        f1: Mapping[Any, Numbers],
        confidence: float,
        seed: int,
        families: Sequence[str] | None = None,
    ) -> None:
        self._truths = {
            "overall": f1["overall"],
            "positive": f1["positive"],
            "signed": lowest_part(f1),
        }
        self.resamples = Resamples(families, confidence, seed)

    def of(
        self,
        scores: Numbers,
        higher_is_better: bool,
        by: Sequence[RankedBy] = get_args(RankedBy),
    ) -> dict[RankedBy, Correlations]:
        """Correlation of a metric's ranking with some of the truth's, in each image.

        An image in which a score (candidates, images) is NaN, or all are equal, has no ranking.
        """
        ranked = without_rounding((scores if higher_is_better else -scores).T)
        return {
            each: self.resamples.correlations(ranked, without_rounding(self._truths[each].T))
            for each in by
        }


def lowest_part(f1: Mapping[Any, Numbers]) -> Numbers:
    """The lowest F1 of the parts of the truth that an image has, in each place."""
    return np.asarray(np.fmin.reduce([each for each in f1.values() if not np.isnan(each).all()]))


def mean_over_images(scores: Numbers) -> Numbers:
    """(candidates, images) -> (candidates,), NaN left out; NaN without any."""
    return np.array([mean_score(row) for row in scores])


def without_rounding(scores: Numbers) -> Numbers:
    """Scores (..., candidates) in steps so fine that only rounding disappears.

    Attributions that are equally right may differ by rounding; that is no order.
    """
    known = np.isfinite(scores).any(-1, keepdims=True)
    filled = np.where(known, scores, 0.0)
    reach = np.nanmax(filled, -1, keepdims=True) - np.nanmin(filled, -1, keepdims=True)
    rounded: Numbers = np.round(scores / np.where(reach > 0, reach, 1.0) / SAME)
    return rounded
