"""Meta-Rank of many resamples of cases at once."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.ranking import centered_ranks, row_correlations

Numbers = NDArray[np.float64]


class Draws(NamedTuple):
    """Resamples of pairs of images and network, each with all of its cases."""

    cases: NDArray[np.int64]
    """(resamples, cases): how often each was drawn"""
    methods: NDArray[np.int64]
    """(resamples, methods): indices of methods, drawn with replacement"""


def draws_of(pairs: NDArray[np.int64], methods: NDArray[np.int64], count: int, seed: int) -> Draws:
    """Draw as many pairs, and as many methods, as there are, with replacement.

    Parameters
    ----------
    pairs : array of int, (cases,)
        Which pair a case belongs to.
    methods : array of int, (methods,)
        What to draw methods from.
    count : int
        Of resamples.
    seed : int
        Of the draws.
    """
    drawing = np.random.default_rng(seed)
    names, members = np.unique(pairs, return_inverse=True)
    drawn = drawing.multinomial(len(names), np.full(len(names), 1 / len(names)), size=count)
    return Draws(drawn[:, members], drawing.choice(methods, size=(count, len(methods))))


def fused_draws(ranks: Numbers, draws: Draws) -> Numbers:
    """`attributionlab.ranking.meta_rank` of every resample, (resamples, methods).

    All at once: sums over cases become one product of matrices, and the linear systems are solved as a
    stack. Of NaN where no chain of drawn cases connects all methods.

    Parameters
    ----------
    ranks : array, (methods, cases)
        1 is best; NaN for a method that a case does not rank.
    draws : Draws
        Which cases, how often.
    """
    methods = len(ranks)
    ahead = np.sign(ranks[None] - ranks[:, None]).reshape(
        methods**2, -1
    )  # of p over q; NaN: missing
    times = draws.cases.astype(np.float64).T
    shape = (len(draws.cases), methods, methods)
    margins = (np.nan_to_num(ahead) @ times).T.reshape(shape)
    common = ((~np.isnan(ahead)).astype(np.float64) @ times).T.reshape(shape)
    odds = np.log((common + 1 + margins) / (common + 1 - margins))
    linked = (common > 0).astype(np.float64)
    laplacian = linked.sum(2)[:, :, None] * np.eye(methods) - linked
    whole = _connected(linked)
    scores = np.full((len(odds), methods), np.nan)
    held = laplacian[whole] + 1 / methods  # holds the constant vector, which the Laplacian ignores
    scores[whole] = np.linalg.solve(held, odds[whole].sum(2)[..., None])[..., 0]
    centered: Numbers = scores - scores.mean(1, keepdims=True)
    return centered


def mean_scores(values: Numbers, draws: Draws) -> Numbers:
    """Mean of (methods, cases) over the drawn cases that have a value: (resamples, methods)."""
    there = ~np.isnan(values)
    counted = draws.cases @ there.T.astype(np.int64)
    sums = draws.cases @ np.where(there, values, 0.0).T
    result = np.full(sums.shape, np.nan)
    np.divide(sums, counted, out=result, where=counted > 0)
    return result


def single_cases(ranks: Numbers, targets: Numbers, draws: Draws) -> Numbers:
    """Mean correlation of the drawn cases' rankings with a target for each resample, (resamples,).

    Parameters
    ----------
    ranks : array, (methods, cases)
        Of the methods that count; NaN where one is missing.
    targets : array, (resamples, methods)
        Scores of the same methods, higher is better.
    draws : Draws
        Which cases, how often; one without a ranking is left out.
    """
    found = np.full(draws.cases.shape, np.nan)
    for column, case in enumerate(ranks.T):
        there = ~np.isnan(case)
        if there.any():
            ranked = np.broadcast_to(-case[there], (len(targets), int(there.sum())))
            found[:, column] = row_correlations(
                centered_ranks(ranked), centered_ranks(targets[:, there])
            )
    weights = np.where(np.isnan(found), 0, draws.cases)
    total = weights.sum(1)
    sums = (np.nan_to_num(found) * weights).sum(1)
    result = np.full(len(sums), np.nan)
    np.divide(sums, total, out=result, where=total > 0)
    return result


def _connected(linked: Numbers) -> NDArray[np.bool_]:
    """Of each graph (resamples, methods, methods), whether chains of links join all of its methods."""
    reach = linked
    for _ in range(int(np.ceil(np.log2(max(2, linked.shape[1]))))):
        reach = ((reach @ reach) > 0).astype(np.float64)  # twice as far; links to itself are links
    return np.asarray((reach > 0).all((1, 2)))
