r"""How far a mean over images would move with other images: bootstrap intervals, and what they decide.

A score is an array with one number for each image, NaN where it does not apply; such images are left
out of its mean.

The bootstrap (Efron, 1979): items drawn again and again, with replacement, their means, and the
quantiles of such means.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import special

from attributionlab.base.arguments import Whole, Within, checked_arguments
from attributionlab.base.errors import AttributionLabError

if TYPE_CHECKING:
    import pandas as pd

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


CONFIDENCE = 0.95
"""Confidence of an interval, unless the user asks for another; `FEWEST_QUESTIONS` and
`FEWEST_FOR_ORDER` follow from it. Signatures that take a `confidence`, and texts, repeat it."""

Numbers = NDArray[np.float64]
"""An array of numbers; of scores, NaN where one is not applicable."""


def applicable(values: Numbers) -> int:
    """To how many images a score applies."""
    return int((~np.isnan(values)).sum())


def mean_score(values: Numbers) -> float:
    """Over the applicable images, NaN without any; exactly their score where all have the same."""
    there = values[~np.isnan(values)]
    if not len(there):
        return np.nan
    lowest = there.min()
    return float(lowest + (there - lowest).mean())


def checked_scores(values: Any, name: str) -> Numbers:
    """Scores as a float64 array, or what is wrong with them."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise AttributionLabError(
            f"{name} is {values!r}: take an array with one number for each image"
        ) from None
    if array.ndim != 1:
        raise AttributionLabError(
            f"{name} has the shape {array.shape}: take one number for each image, (n,)"
        )
    if np.isinf(array).any():
        raise AttributionLabError(
            f"{name} holds {array[np.isinf(array)][0]}: take finite numbers, NaN where they do not "
            "apply"
        )
    return array


def of_the_same_images(scores: Mapping[str, Any]) -> dict[str, Numbers]:
    """Several checked scores of equal length, by name."""
    arrays = {name: checked_scores(values, name) for name, values in scores.items()}
    if len({len(array) for array in arrays.values()}) > 1:
        lengths = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise AttributionLabError(
            f"numbers of images differ ({lengths}): take the scores of the same images"
        )
    return arrays


@checked_arguments
def tail_of(seed: Whole, confidence: Confidence) -> float:
    """The probability outside an interval on either side; `seed` is only checked, so that one refusal
    names all that is wrong."""
    return (1 - confidence) / 2


FEWEST_FOR_ORDER = 6
"""Images from which one method may be called better: of five differences, equally often above as below
0, all have one sign with probability 2^-4, which is more than 5 %."""
ROUNDING = 1e-12
"""By how much two float64 means of the same numbers in [0, 1] may differ, and more: summed in pairs,
2^20 of them are off by at most 20 x 2^-53."""


class Interval(NamedTuple):
    """The two ends of a confidence interval."""

    low: float
    high: float


class Difference(NamedTuple):
    """Difference of two scores on the same images, first - second."""

    mean: float
    low: float
    high: float
    images: int
    """to which both apply"""
    better: Literal["first", "second"] | None
    """None where the interval contains 0, and with fewer than `FEWEST_FOR_ORDER` images"""


def mean_interval(values: Numbers, seed: int, confidence: float = CONFIDENCE) -> Interval | None:
    r"""Bootstrap interval of a mean over images: the expanded percentile interval.

    Its ends are the quantiles a' and 1 - a' of the means of 10,000 resamples of the images, with

        a' = Phi(-sqrt(n / (n - 1)) t_{n-1, 1-a}),    a = (1 - confidence) / 2,

    for n images to which the score applies. Plain percentiles (a' = a) are too narrow for few images:
    the spread within the data is smaller than its estimate by sqrt((n - 1) / n), and normal quantiles
    are smaller than t quantiles. Source: Hesterberg, "What Teachers Should Know About the Bootstrap"
    (The American Statistician, 2015).

    No such interval leaves the range of its data. Of a symmetric score, n images all lie on one side
    of the true mean with probability 2^(1-n); so with fewer than six images the interval holds the
    true mean less often than in 95 % of the cases, whatever a' is.

    `values`: a score of each image, NaN where it does not apply. `seed`: seed for the resamples.
    `confidence`: in (0, 1).

    Result: None with fewer than two images to which the score applies. Of zero width, exactly, where
    all scores are equal. A resample without any applicable image has no mean and is left out. Raises
    AttributionLabError for scores that are no one-dimensional array of finite numbers and NaN, a
    confidence outside (0, 1) and a seed that is no integer of at least 0.
    """
    values = checked_scores(values, "values")
    tail = tail_of(seed, confidence)
    images = applicable(values)
    if images < 2:
        return None
    means = resampled_means(values[:, None], seed)[:, 0]
    tail = expanded_tail(tail, images)
    return Interval(percentile(means, tail), percentile(means, 1 - tail))


def share_interval(hits: int, n: int) -> Interval:
    r"""95 % interval of a share: that of Clopper and Pearson.

    For k hits of n its ends are the quantile a of Beta(k, n - k + 1) and the quantile 1 - a of
    Beta(k + 1, n - k), a = 0.025; 0 where k = 0, and 1 where k = n. Means of resamples
    would not do: of n hits each resample is one of n hits. Source: Clopper and Pearson, "The Use of
    Confidence or Fiducial Limits Illustrated in the Case of the Binomial" (Biometrika, 1934).

    It holds the true share with at least its confidence where each hit is equally probable. Where
    probabilities differ, as of things of several kinds, the number of hits varies less around the same
    mean (Hoeffding, "On the Distribution of the Number of Successes in Independent Trials", Annals of
    Mathematical Statistics, 1956), from one hit beside that mean on.

    Raises AttributionLabError unless 0 <= hits <= n and n is at least 1.
    """
    tail = (1 - CONFIDENCE) / 2
    if not 0 <= hits <= n or n < 1:
        raise AttributionLabError(f"{hits} hits of {n}: take 0 <= hits <= n, and n of at least 1")
    low = special.betaincinv(hits, n - hits + 1, tail) if hits else 0.0
    high = special.betaincinv(hits + 1, n - hits, 1 - tail) if hits < n else 1.0
    return Interval(float(low), float(high))


def paired_difference(first: Numbers, second: Numbers, seed: int) -> Difference:
    """Which of two methods scores higher on the same images, with `mean_interval` of the difference.

    A difference within an image leaves out what is hard or easy about the image, so that two methods
    can be told apart although their own intervals overlap.

    `first`, `second`: a score of each image, NaN where it does not apply; images in the same order.
    `seed`: as for `mean_interval`.

    Result: with fewer than six images to which both apply none is better, because no interval of theirs
    holds the true mean in 95 % of the cases (`mean_interval`); with fewer than two the ends are NaN,
    without any the mean is NaN too. Raises AttributionLabError as for `mean_interval`, and for arrays
    of different lengths.
    """
    scores = of_the_same_images({"first": first, "second": second})
    differences = scores["first"] - scores["second"]
    low, high = mean_interval(differences, seed) or (np.nan, np.nan)
    images = applicable(differences)
    better: Literal["first", "second"] | None = None
    if images >= FEWEST_FOR_ORDER:
        better = "first" if low > ROUNDING else "second" if high < -ROUNDING else None
    return Difference(mean_score(differences), low, high, images, better)


def independent_difference(first: Numbers, second: Numbers) -> tuple[float, Interval | None]:
    r"""The difference of two means over different images, or worlds, with Welch's 95 % interval.

    .. math:: \bar x_1 - \bar x_2 \pm t_f \sqrt{v_1 + v_2}, \quad v_i = s_i^2 / n_i, \quad
        f = (v_1 + v_2)^2 / (v_1^2 / (n_1 - 1) + v_2^2 / (n_2 - 1))

    Source: Welch, "The generalization of 'Student's' problem when several different population
    variances are involved" (Biometrika, 1947).

    `first`, `second`: a score of each image, NaN where it does not apply.

    Result: first - second; NaN where one of them applies to no image; None where one of them applies to
    fewer than two. Of zero width, exactly, where all scores of each are equal. Raises
    AttributionLabError as for `mean_interval`.
    """
    tail = (1 - CONFIDENCE) / 2
    sides = [checked_scores(first, "first"), checked_scores(second, "second")]
    value = mean_score(sides[0]) - mean_score(sides[1])
    sides = [each[~np.isnan(each)] for each in sides]
    if min(map(len, sides)) < 2:
        return value, None
    if all(np.ptp(each) == 0 for each in sides):
        return value, Interval(value, value)
    squares = np.array([each.var(ddof=1) / len(each) for each in sides])  # of standard errors
    freedom = squares.sum() ** 2 / sum(squares**2 / [len(each) - 1 for each in sides])
    reach = float(-special.stdtrit(freedom, tail) * np.sqrt(squares.sum()))
    return value, Interval(value - reach, value + reach)


def with_intervals(
    table: "pd.DataFrame", by: Sequence[str], value: str, seed: int
) -> "pd.DataFrame":
    """Means over images with their intervals, a row for each group of a tidy table.

    - `table`: a row for each image of each group.
    - `by`: columns whose values make a group; groups keep their order.
    - `value`: column of the score, NaN where it does not apply.

    Result: the columns `by`, the mean under `value`, `low` and `high` (`mean_interval`, NaN where there
    is none), and `images`, to how many the score applies.

    Examples
    --------
    >>> import pandas as pd
    >>> scores = pd.DataFrame({"map": ["a", "a", "b"], "loss": [0.5, 0.5, 1.0]})
    >>> print(with_intervals(scores, ["map"], "loss", seed=0).to_string(index=False))
    map  loss  low  high  images
      a   0.5  0.5   0.5       2
      b   1.0  NaN   NaN       1
    """
    import pandas as pd

    rows = []
    for key, part in table.groupby(list(by), sort=False):
        scores = part[value].to_numpy(float)
        low, high = mean_interval(scores, seed) or (np.nan, np.nan)
        mean, images = mean_score(scores), applicable(scores)
        rows.append((*key, mean, low, high, images))
    return pd.DataFrame(rows, columns=[*by, value, "low", "high", "images"])
