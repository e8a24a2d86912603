"""The bootstrap (Efron, 1979): items drawn again and again, with replacement, their means, and the
quantiles of such means.
"""

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import special

from attributionlab.base.arguments import Within, checked_arguments

RESAMPLES = 10_000
"""Each end of a 95 % interval then has a Monte-Carlo error of 0.027 standard errors of the mean:
sqrt(0.025 x 0.975 / RESAMPLES) over the normal density at 1.96."""
KEPT = 2**25
"""Largest number of counts, of one byte each, that is kept from one call to the next."""
AT_ONCE = 2**20
"""How many draws are in memory at a time: 8 MiB as integers, as much again as counts."""


Confidence = Annotated[float, Within(above=0, below=1)]
Resamples = Annotated[int, Within(least=100)]


def draw_again(items: int, resamples: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Indices of as many items as there are, drawn with replacement: (resamples, items)."""
    return generator.integers(0, items, (resamples, items))


def times_drawn(drawn: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each resample of `draw_again` has each item: (resamples, items)."""
    rows, items = drawn.shape
    places = drawn + items * np.arange(rows)[:, None]
    return np.bincount(places.ravel(), minlength=rows * items).reshape(rows, items)


def weighted_means(
    columns: NDArray[np.float64], times: Iterable[NDArray[Any]]
) -> NDArray[np.float64]:
    """Mean of each score over the applicable items of each resample.

    `columns`: scores of the same n items, NaN where one does not apply. `times`: how often each
    resample has each item, in blocks of resamples.

    Result: NaN where a resample has no applicable item. All the same, to the last bit, if the scores
    are.
    """
    applies = ~np.isnan(columns)
    # Measured from the lowest score, equal scores are exact zeros.
    lowest = np.fmin.reduce(columns, axis=0)
    above = np.where(applies, columns - lowest, 0)
    both = np.concatenate([above, applies], axis=1)  # (n, 2 K)
    totals = np.concatenate([counts.astype(float) @ both for counts in times])
    numerators, denominators = np.split(totals, 2, axis=1)
    means = np.full_like(numerators, np.nan)
    np.divide(numerators, denominators, out=means, where=denominators > 0)
    means += lowest
    return means


def resampled_means(columns: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """`weighted_means` of images, (RESAMPLES, K).

    The draws depend on the number of images and the seed alone, so that scores, parts and methods on
    the same images vary together as they do in fact.

    `columns`: scores of the same n images, NaN where one does not apply. `seed`: seed for the
    resamples.
    """
    return weighted_means(columns, _counts(len(columns), seed))


def _counts(n: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    """How often each resample has each image: blocks of rows, RESAMPLES rows in all, n columns.

    Up to KEPT / RESAMPLES = 3355 images they are kept until another n or seed comes; beyond, each call
    draws them again, so that memory stays bounded whatever n is.
    """
    if RESAMPLES * n > KEPT:
        yield from _drawn(n, seed)
        return
    kept, rows = _kept(n, seed), _rows_at_once(n)
    yield from (kept[start : start + rows] for start in range(0, RESAMPLES, rows))


@lru_cache(maxsize=1)
def _kept(n: int, seed: int) -> NDArray[np.uint8]:
    counts = np.concatenate(list(_drawn(n, seed)))
    counts.setflags(write=False)
    return counts


def _drawn(n: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    # A stream of its own, apart from those of images and methods.
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(n,))))
    for start in range(0, RESAMPLES, _rows_at_once(n)):
        rows = min(_rows_at_once(n), RESAMPLES - start)
        # One image 256 times in a resample: less probable than RESAMPLES n / 256!, that is, never.
        yield times_drawn(draw_again(n, rows, rng)).astype(np.uint8)


def _rows_at_once(n: int) -> int:
    return max(1, AT_ONCE // n)


def expanded_tail(tail: float, n: int) -> float:
    """The probability outside a percentile interval of n images that stands for `tail`."""
    return float(special.ndtr(np.sqrt(n / (n - 1)) * special.stdtrit(n - 1, tail)))


def percentile(means: NDArray[np.float64], probability: float) -> float:
    """The mean below which a resample lies with this probability; NaN left out."""
    return float(np.quantile(means[~np.isnan(means)], probability))


@checked_arguments
def middle(values: Float[np.ndarray, " values"], confidence: Confidence) -> tuple[float, float]:
    """The ends of the middle part of these values; NaN left out, and NaN without any."""
    if np.isnan(values).all():
        return math.nan, math.nan
    return percentile(values, (1 - confidence) / 2), percentile(values, (1 + confidence) / 2)
