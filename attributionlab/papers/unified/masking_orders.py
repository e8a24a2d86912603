r"""All orders in which few pixels can be masked, in integers: which is best, by score or by accuracy?

Masking the set S (a bit for each pixel) sets its pixels to 0. An order S_0, ..., S_d adds one pixel at
a time; its height is the sum of an indicator over the d + 1 sets, lower is better. The best of all d!
orders is found set by set, from the last back to the first:

    best(S) = f(S) + min over pixels j not in S of best(S with j)
"""

import math

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def scores_of_sets(weights: Integers, inputs: Integers) -> Integers:
    """Scores (n, 2^d, K) with each set of pixels masked, of weights (n, K, d) and inputs (n, d).

    Bit j of the index of a set tells whether pixel j is masked; the classifiers have no bias.
    """
    pixels = inputs.shape[1]
    kept = 1 - (np.arange(2**pixels)[:, None] >> np.arange(pixels) & 1)
    contributions: Integers = weights * inputs[:, None]
    scores: Integers = np.einsum("sd,nkd->nsk", kept, contributions)
    return scores


def correct_shares(scores: Integers, targets: Integers) -> Integers:
    """The accuracy (n, S) of scores (n, S, K), times a number that all shares of ties divide.

    It is the least common multiple of 1, ..., K where the target alone has the largest score, 1 / m of
    that where it shares it with m - 1 others, else 0.
    """
    unit = math.lcm(*range(1, scores.shape[2] + 1))
    best = scores == scores.max(2, keepdims=True)
    right = np.take_along_axis(best, targets[:, None, None], 2)[..., 0]
    return np.asarray(np.where(right, unit // best.sum(2), 0), dtype=np.int64)


def descending_order(values: Integers) -> Integers:
    """Pixels from the largest value to the smallest, equal ones from left to right; (n, d)."""
    return np.argsort(-values, axis=1, kind="stable")


def along(indicator: Integers, orders: Integers) -> Integers:
    """An indicator (n, 2^d) after 0 to d pixels of orders (n, d) are masked, (n, d + 1)."""
    masked = np.cumsum(1 << orders, axis=1)
    sets = np.concatenate([np.zeros_like(masked[:, :1]), masked], axis=1)
    return np.take_along_axis(indicator, sets, axis=1)


def best_total(indicator: Integers) -> Integers:
    """The least sum of an indicator (n, 2^d) along any of the d! orders; (n,)."""
    pixels = indicator.shape[1].bit_length() - 1
    best = indicator.copy()
    for chosen in range(2**pixels - 2, -1, -1):  # supersets first
        free = [chosen | 1 << pixel for pixel in range(pixels) if not chosen >> pixel & 1]
        best[:, chosen] += best[:, free].min(1)
    return best[:, 0]


def worst_total(indicator: Integers) -> Integers:
    """The largest sum of an indicator along any order; as `best_total`."""
    return -best_total(-indicator)
