r"""Meta-Rank: many rankings of the same methods become one.

Of T cases that rank both methods p and q, p wins w_pq (has the lower rank) and ties t_pq:

.. math::
    P_{pq} = \frac{w_{pq} + t_{pq} / 2 + 1 / 2}{T_{pq} + 1}, \qquad
    L_{pq} = \log \frac{P_{pq}}{1 - P_{pq}}, \qquad
    \kappa = \arg\min_{\sum \kappa_p = 0} \sum_{p < q} (L_{pq} - (\kappa_p - \kappa_q))^2

over the pairs that share a case (Duan et al., 2024, eqs. 4 to 6). What to do with probabilities of 0
and 1, ties, and equations that contradict each other the paper does not say: the halves and least
squares are ours. Where every case ranks every method :math:`\kappa_p` is the mean of :math:`L_{pq}`
over all q, with L_pp = 0.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from attributionlab.base import (
    CONFIDENCE,
    AttributionLabError,
    Confidence,
    Numbers,
    Resamples,
    Whole,
    checked_arguments,
    draw_again,
    middle,
    times_drawn,
)

AT_ONCE = 2**20
"""How many pairs of methods, of all resamples together, are in memory at a time."""


class MetaRankFit(NamedTuple):
    """Scores, how well they explain who beats whom, and between what they may lie."""

    scores: Numbers
    """(methods,), of sum 0; higher is better"""
    low: Numbers
    high: Numbers
    """(methods,): middle part of the scores of resampled cases"""
    residual: float
    """root of the mean square of L_pq - (score p - score q), over pairs that share a case; 0 where the
    odds add up along any chain of methods"""
    probabilities: Numbers
    """(methods, methods): that the row's method beats the column's; NaN for pairs without a case"""
    cases: NDArray[np.int64]
    """(methods, methods): how many rank both"""
    resamples: int
    """that connected all methods; the others gave no scores"""


def meta_rank(ranks: Any) -> Numbers:
    """Fuse rankings of methods into one score for each.

    Scores depend on which methods are ranked: a third one, or copies of it, can change the order of two
    others, whatever the cases say of these (no independence of irrelevant alternatives).

    In time proportional to the cases and to the square of the number of methods, and for a linear
    system as large as that number.

    Source: Duan, Li, Zhang, Jiang, Xue, Sun, Song and Song (2024): On the evaluation consistency of
    attribution-based explanations. ECCV. Section 4.2.

    Parameters
    ----------
    ranks : array of real numbers, (methods, cases)
        1 is best; equal ranks are ties, NaN is a method that a case does not rank. Only the order
        within a case matters.

    Returns
    -------
    array of float64, (methods,)
        In units of log odds, of sum 0; higher is better. Differences estimate the log odds that one
        method beats another in a case like these.

    Raises
    ------
    AttributionLabError
        For fewer than two methods or cases, infinite ranks, a method that no case ranks, and methods
        that no chain of common cases connects.

    Examples
    --------
    >>> from attributionlab.metrics.ranking import meta_rank
    >>> meta_rank([[1, 1, 2], [2, 2, 1], [3, 3, 3]]).round(2).tolist()
    [0.82, 0.48, -1.3]
    """
    values = _checked(ranks)
    scores: Numbers = _scores(*_pairs(values, np.ones((1, values.shape[1]))))[0]
    return scores


def resampled_meta_rank(ranks: Numbers, times: NDArray[np.int64]) -> Numbers:
    """`meta_rank` of each resample of cases, unchecked.

    `ranks`: 1 is best; NaN for a method that a case does not rank. `times`: how often each resample has
    each case.

    Result: NaN where no chain of drawn cases connects all methods.
    """
    scores = np.full((len(times), len(ranks)), np.nan)
    rows = max(1, AT_ONCE // len(ranks) ** 2)
    for start in range(0, len(times), rows):
        margins, cases = _pairs(ranks, times[start : start + rows])
        whole = np.array([_groups(each)[0] == 1 for each in cases])
        scores[start : start + rows][whole] = _scores(margins[whole], cases[whole])
    return scores


@checked_arguments
def meta_rank_fit(
    ranks: Any, *, confidence: Confidence = CONFIDENCE, resamples: Resamples = 1000, seed: Whole = 0
) -> MetaRankFit:
    """`meta_rank` with the unexplained residual of its scores, and bootstrap intervals over cases.

    Parameters
    ----------
    ranks : array of real numbers, (methods, cases)
        As for `meta_rank`, whose errors it has.
    confidence : float
        Confidence of each interval; ends are percentiles of `resamples` draws of cases.
    resamples : int
        At least 100.
    seed : int
        Seed for the draws.

    Examples
    --------
    >>> from attributionlab.metrics.ranking import meta_rank_fit
    >>> fit = meta_rank_fit([[1, 1, 2, 1], [2, 2, 1, 2]])
    >>> fit.scores.round(2).tolist(), round(fit.residual, 2)
    ([0.42, -0.42], 0.0)
    """
    values = _checked(ranks)
    count = values.shape[1]
    pairs = _pairs(values, np.ones((1, count)))
    [scores], [margins], [cases] = _scores(*pairs), *pairs
    common = (cases > 0) & ~np.eye(len(values), dtype=bool)
    left = _log_odds(margins, cases) - (scores[:, None] - scores[None, :])
    drawn = times_drawn(draw_again(count, resamples, np.random.default_rng(seed)))
    resampled = resampled_meta_rank(values, drawn)
    low, high = np.array([middle(column, confidence) for column in resampled.T]).T
    probabilities = np.where(common, (cases + margins + 1) / (2 * (cases + 1)), np.nan)
    residual = float(np.sqrt(np.square(left[common]).mean()))
    whole = int((~np.isnan(resampled[:, 0])).sum())
    return MetaRankFit(scores, low, high, residual, probabilities, cases.astype(np.int64), whole)


def _pairs(ranks: Numbers, times: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Wins less losses of every method against every other, and how many cases rank both, in each
    resample: twice (resamples, methods, methods).
    """
    present = (~np.isnan(ranks)).astype(np.float64)
    weights = times.T.astype(np.float64)  # float products are much faster, and exact
    margins = [((ranks > one).astype(np.float64) - (ranks < one)) @ weights for one in ranks]
    cases = [(present * one) @ weights for one in present]
    return np.moveaxis(np.stack(margins), 2, 0), np.moveaxis(np.stack(cases), 2, 0)


def _log_odds(margins: Numbers, cases: Numbers) -> Numbers:
    """P / (1 - P) with wins + ties / 2 = (cases + margin) / 2; 0 without a case."""
    odds: Numbers = np.log((cases + 1 + margins) / (cases + 1 - margins))
    return odds


def _scores(margins: Numbers, cases: Numbers) -> Numbers:
    """Least squares: the Laplacian of the graph of common cases times kappa = sums of log odds."""
    linked = (cases > 0).astype(np.float64)  # a method's link to itself cancels
    laplacian = linked.sum(2)[:, :, None] * np.eye(linked.shape[1]) - linked
    # The constant vector, which the Laplacian does not see, is held at 0 by adding its projection.
    sums = _log_odds(margins, cases).sum(2)[..., None]
    scores = np.linalg.solve(laplacian + 1 / linked.shape[1], sums)[..., 0]
    centered: Numbers = scores - scores.mean(1, keepdims=True)
    return centered


def _groups(cases: Numbers) -> tuple[int, NDArray[np.int32]]:
    """How many groups of methods no chain of common cases connects, and each method's group."""
    count, groups = connected_components(cases > 0, directed=False)
    return count, groups


def _checked(ranks: Any) -> Numbers:
    try:
        given = np.asarray(ranks)
        if given.dtype.kind not in "biuf":
            raise TypeError
        values = given.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttributionLabError(
            "ranks are not real numbers: pass an array (methods, cases), NaN where one is missing"
        ) from error
    if values.ndim != 2 or min(values.shape) < 2:
        raise AttributionLabError(
            f"ranks have the shape {values.shape}: pass (methods, cases), at least two of each"
        )
    if np.isinf(values).any():
        method, case = (int(index) for index in np.argwhere(np.isinf(values))[0])
        raise AttributionLabError(
            f"the rank of method {method} in case {case} is infinite: pass NaN where one is missing"
        )
    missing = np.flatnonzero(np.isnan(values).all(1))
    if len(missing):
        raise AttributionLabError(
            f"method {int(missing[0])} is ranked in no case ({len(missing)} such methods): leave it out"
        )
    present = (~np.isnan(values)).astype(np.float64)
    count, groups = _groups(present @ present.T)
    if count > 1:
        other = int(np.flatnonzero(groups != groups[0])[0])
        raise AttributionLabError(
            f"no chain of common cases connects methods 0 and {other}: rank them in one case, or fuse "
            f"the {count} groups apart"
        )
    return values
