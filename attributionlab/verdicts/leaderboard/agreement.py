"""Many rankings as one, and how far that one agrees with the truth's."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attributionlab.base import CONFIDENCE, Numbers, draw_again, middle, times_drawn, weighted_means
from attributionlab.metrics import resampled_meta_rank
from attributionlab.metrics.ranking import (
    CorrelationInterval,
    centered_ranks,
    meta_rank_fit,
    row_correlations,
)
from attributionlab.verdicts.metric_trials.agreement import RankedBy

FEWEST_METHODS = 2
FEWEST_PAIRS = 3
"""For an interval: two pairs can be drawn in three ways only."""
RESAMPLES = 1000
SAME = 1e-9
"""Areas that differ by less differ by rounding: means of the same numbers, summed in another order."""
SCORE_DIGITS = 9
"""Fused scores that differ by less differ by rounding, too: by the order in which methods are named."""
SAME_F1 = 1e-6
"""Maps are of float32, and F1 of maps that are equally right differs by their rounding."""


class Draws(NamedTuple):
    """Resamples of pairs of images and network, each with all of its cases."""

    cases: NDArray[np.int64]
    """(resamples, cases): how often each was drawn"""
    methods: NDArray[np.int64]
    """(resamples, methods): indices of methods, drawn with replacement"""


class TruthAgreement(NamedTuple):
    """How far a fused ranking, and those of single cases, agree with one of the truth's."""

    correlation: CorrelationInterval
    """Spearman's, of the fused scores with the truth's; the interval for other pairs"""
    for_other_methods: CorrelationInterval
    """the same; the interval for other pairs and other methods"""
    single: CorrelationInterval
    """of one case's ranking with the same truth, on average over cases"""
    gain: CorrelationInterval
    """by how much fusing correlates higher than a single case does on average"""


class Fusion(NamedTuple):
    """Rankings of some cases as one, beside the truth's."""

    cases: int
    scores: Numbers
    """(methods,), of sum 0; higher is better"""
    low: Numbers
    high: Numbers
    """(methods,): where they lie for other pairs of images and network"""
    residual: float
    """root of the mean square of what the scores leave of the log odds"""
    ceiling: Mapping[RankedBy, float]
    """the correlation that a ranking without ties can reach, as the truth has ties"""
    agreement: Mapping[RankedBy, TruthAgreement]


def ranks_of(areas: Numbers, lower_is_better: Sequence[bool]) -> Numbers:
    """Ranks within each case, 1 is best; equal scores share the mean of their ranks. Areas are NaN for
    methods that a case does not rank.
    """
    signs = np.where(lower_is_better, 1.0, -1.0)
    rounded = np.round(areas / SAME) * signs
    ranks: Numbers = stats.rankdata(rounded, axis=0, nan_policy="omit")
    return ranks


def placed(scores: Numbers) -> list[int]:
    """Places from 1 for the highest score; those equal up to rounding share the better place."""
    return [int(place) for place in stats.rankdata(-np.round(scores, SCORE_DIGITS), method="min")]


def fused(
    ranks: Numbers,
    truths: Mapping[RankedBy, Numbers],
    pairs: Sequence[int],
    is_method: Sequence[bool],
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Fusion:
    """Meta-Rank of some cases, and its correlation with the truth.

    Both cases of a pair have the same maps of the same images, so that pairs are resampled, not cases
    (bootstrap percentiles). In each resample rankings are fused and the truth is averaged anew. Pairs
    that share images are not independent: with these it is an interval over networks of the same
    images. For other methods, methods are drawn with replacement as well, after fusing; one that is
    drawn twice ties with itself in both rankings, which makes that interval somewhat narrow.

    - `ranks`: as for `attributionlab.ranking.meta_rank`.
    - `truths`: scores by the truth in each case, higher is better; NaN where the rank is.
    - `pairs`: which pair a case belongs to.
    - `is_method`: which methods the correlation is about: controls are ranked, but no methods.

    Result: intervals are NaN for fewer than three pairs; resamples that leave out a method, or connect
    methods by no chain of cases, have no scores and are left out of the intervals. Raises
    AttributionLabError as `attributionlab.ranking.meta_rank` does.
    """
    fit = meta_rank_fit(ranks, resamples=100, seed=seed)  # for the residual; intervals are ours
    group, kept = np.asarray(pairs), np.flatnonzero(is_method)
    once = Draws(np.ones((1, len(group)), dtype=np.int64), kept[None])
    resamples = RESAMPLES if len(np.unique(group)) >= FEWEST_PAIRS else 0
    draws = draw_pairs(group, kept, resamples, seed)
    scores = resampled_meta_rank(ranks, draws.cases)
    usable = ~np.isnan(scores).any(1)
    scores, draws = scores[usable], Draws(draws.cases[usable], draws.methods[usable])
    bounds = [middle(column, confidence) for column in scores.T]
    agreement: dict[RankedBy, TruthAgreement] = {}
    settled = np.round(fit.scores, SCORE_DIGITS)
    for name, truth in truths.items():
        [measured] = _correlations(settled[None], ranks, truth, kept, once)
        found = _correlations(scores, ranks, truth, kept, draws)
        intervals = [
            CorrelationInterval(float(value), *middle(column, confidence))
            for value, column in zip(measured, found.T, strict=True)
        ]
        agreement[name] = TruthAgreement(*intervals)
    low, high = np.array(bounds).T
    ceilings = {
        name: ceiling(true_scores(truth, once.cases)[0, kept]) for name, truth in truths.items()
    }
    return Fusion(ranks.shape[1], settled, low, high, fit.residual, ceilings, agreement)


def correlation_with_truth(ranks: Numbers, truth: Numbers, is_method: Sequence[bool]) -> float:
    """`TruthAgreement.correlation` without its interval; NaN where no chain of cases connects methods.

    `ranks`, `truth`, `is_method`: as for `fused`.
    """
    kept = np.flatnonzero(is_method)
    once = Draws(np.ones((1, ranks.shape[1]), dtype=np.int64), kept[None])
    scores = resampled_meta_rank(ranks, once.cases)
    if np.isnan(scores).any():
        return float("nan")
    return float(_correlations(scores, ranks, truth, kept, once)[0, 0])


def ceiling(truth: Numbers) -> float:
    """Spearman's correlation of a ranking without ties that contradicts none of the truth's order."""
    best = np.argsort(np.argsort(truth, kind="stable")).astype(np.float64)
    return float(_spearman(best[None], truth[None])[0])


def true_scores(truth: Numbers, times: NDArray[np.int64]) -> Numbers:
    """The truth's order of methods in each resample, higher is better: (resamples, methods).

    Means over cases. Where a case lacks a method (NaN) these would be means over other cases for one
    method than for another; then ranks within cases are fused, as those of removal are.
    """
    if not np.isnan(truth).any():
        return np.round(weighted_means(truth.T, [times]) / SAME_F1)
    within = ranks_of(np.round(truth / SAME_F1), [False] * truth.shape[1])
    return np.round(resampled_meta_rank(within, times), SCORE_DIGITS)


def draw_pairs(
    pairs: NDArray[np.int64], methods: NDArray[np.int64], resamples: int, seed: int
) -> Draws:
    """Draw as many pairs, with all their cases, and as many methods, as there are, with replacement."""
    generator = np.random.default_rng(seed)
    names, members = np.unique(pairs, return_inverse=True)
    drawn = times_drawn(draw_again(len(names), resamples, generator))
    return Draws(drawn[:, members], methods[draw_again(len(methods), resamples, generator)])


def single_cases(ranks: Numbers, targets: Numbers, times: NDArray[np.int64]) -> Numbers:
    """Mean correlation of the drawn cases' rankings with a target for each resample, (resamples,).

    Cases without a ranking are left out. `times`: how often each case was drawn.
    """
    found = np.full(times.shape, np.nan)
    for column, case in enumerate(ranks.T):
        there = ~np.isnan(case)
        if there.any():
            ranked = np.broadcast_to(-case[there], (len(targets), int(there.sum())))
            found[:, column] = _spearman(ranked, targets[:, there])
    weights = np.where(np.isnan(found), 0, times)
    total = weights.sum(1)
    sums = (np.nan_to_num(found) * weights).sum(1)
    result = np.full(len(sums), np.nan)
    np.divide(sums, total, out=result, where=total > 0)
    return result


def _correlations(
    scores: Numbers, ranks: Numbers, truth: Numbers, kept: NDArray[np.int64], draws: Draws
) -> Numbers:
    """What `TruthAgreement` has of each resample, (resamples, 4)."""
    targets, scores = true_scores(truth, draws.cases), np.round(scores, SCORE_DIGITS)
    fusing = _spearman(scores[:, kept], targets[:, kept])
    other_methods = _spearman(
        np.take_along_axis(scores, draws.methods, 1), np.take_along_axis(targets, draws.methods, 1)
    )
    alone = single_cases(ranks[kept], targets[:, kept], draws.cases)
    return np.stack([fusing, other_methods, alone, fusing - alone], axis=1)


def _spearman(first: Numbers, second: Numbers) -> Numbers:
    """Spearman's correlation of each row."""
    return row_correlations(centered_ranks(first), centered_ranks(second))
