r"""How far two rankings agree.

Spearman's correlation is Pearson's of the ranks, equal values sharing the mean of their ranks,

    rho = sum (r_i - r) (s_i - s) / sqrt(sum (r_i - r)^2 sum (s_i - s)^2)    (Spearman, 1904).

How far two curves are apart.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Real
from numpy.typing import NDArray
from scipy import special
from scipy.spatial.distance import directed_hausdorff

from attributionlab.base import (
    CONFIDENCE,
    AttributionLabError,
    Confidence,
    Numbers,
    Resamples,
    Whole,
    Within,
    checked_arguments,
    draw_again,
    refuse_if,
)
from attributionlab.base import middle as middle


def hausdorff(first: Any, second: Any) -> float:
    r"""Hausdorff distance of two curves, each given by its points: where they are farthest apart.

    .. math:: \max\{\max_a \min_b \|a - b\|, \; \max_b \min_a \|a - b\|\}

    Source: Hausdorff (1914): Grundzüge der Mengenlehre.

    Parameters
    ----------
    first, second : array of real numbers, (points, dimensions)
        Such as (x, y) of a curve, at least one point each. Distances are Euclidean: scale the axes so
        that they can be compared.

    Returns
    -------
    float
        0 where both have the same points; 1 at most for curves in a unit square whose x agree.

    Raises
    ------
    AttributionLabError
        For what are no finite points, and different dimensions.

    Examples
    --------
    >>> from attributionlab.metrics.ranking import hausdorff
    >>> hausdorff([[0, 0], [1, 0]], [[0, 0], [1, 0.5]])
    0.5
    """
    one, other = _points("first", first), _points("second", second)
    if one.shape[1] != other.shape[1]:
        raise AttributionLabError(
            f"first has points of {one.shape[1]} coordinates and second of {other.shape[1]}: pass "
            "curves of the same dimension"
        )
    return float(max(directed_hausdorff(one, other)[0], directed_hausdorff(other, one)[0]))


def _points(name: str, values: Any) -> NDArray[np.float64]:
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "biuf":
            raise TypeError
        points = given.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttributionLabError(
            f"{name} has no real numbers: pass an array (points, dimensions), detached and in float64"
        ) from error
    if points.ndim != 2 or not points.size:
        raise AttributionLabError(
            f"{name} has the shape {points.shape}: pass an array (points, dimensions), not empty"
        )
    if not np.isfinite(points).all():
        raise AttributionLabError(
            f"{name} has values that are NaN or infinite: leave these points out"
        )
    return points


Missing = Literal["refuse", "omit"]
"""What to do with a pair of which one value is NaN."""

Rows = Real[np.ndarray, "rows items"]


class CorrelationInterval(NamedTuple):
    """A correlation and its interval; NaN if undefined."""

    value: float
    low: float
    high: float

    def as_columns(self, name: str) -> dict[str, float]:
        """As columns of a table: name, name_low and name_high."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


@checked_arguments
def spearman(first: Any, second: Any, *, missing: Missing = "refuse") -> float:
    """Spearman's rank correlation of two scores of the same items.

    Parameters
    ----------
    first, second : array of real numbers, (items,)
        Scores; only their order matters. Infinite ones rank first or last.
    missing : {"refuse", "omit"}
        Whether NaN is an error, or leaves its pair out.

    Returns
    -------
    float
        In [-1, 1]; NaN where one of the scores is the same for all items, or fewer than two are left.

    Raises
    ------
    AttributionLabError
        For scores that are not numbers, of different lengths, or NaN unless they are to be left out.

    Examples
    --------
    >>> from attributionlab.metrics.ranking import spearman
    >>> spearman([1, 2, 3, 4], [10, 20, 40, 30])
    0.8
    >>> spearman([1, 2, float("nan")], [3, 2, 1], missing="omit")
    -1.0
    """
    first, second = _checked_pair(first, second, missing)
    return _correlation(first, second)


@checked_arguments
def spearman_interval(
    first: Any,
    second: Any,
    *,
    missing: Missing = "refuse",
    confidence: Confidence = CONFIDENCE,
    resamples: Resamples = 2000,
    seed: Whole = 0,
) -> CorrelationInterval:
    """Spearman's correlation with a percentile interval from ranked items drawn again.

    Items are drawn with replacement, their pairs of scores ranked anew (Efron, 1979). Resamples in
    which one of the scores is constant have no correlation and are left out. An item that is drawn
    twice ties with itself in both rankings, which makes the interval somewhat narrow for few items: of
    eight ones see `fisher_interval` as well.

    Parameters
    ----------
    first, second, missing
        As for `spearman`.
    confidence : float
        In (0, 1).
    resamples : int
        At least 100.
    seed : int
        Non-negative.

    Returns
    -------
    CorrelationInterval
        All NaN where `spearman` is NaN.

    Raises
    ------
    AttributionLabError
        For what `spearman` refuses, and settings out of range.

    Examples
    --------
    >>> from attributionlab.metrics.ranking import spearman_interval
    >>> interval = spearman_interval(range(100), [i + 30 * (i % 2) for i in range(100)])
    >>> [round(each, 2) for each in interval]
    [0.89, 0.86, 0.91]
    """
    first, second = _checked_pair(first, second, missing)
    value = _correlation(first, second)
    if math.isnan(value):
        return CorrelationInterval(value, value, value)
    drawn = draw_again(len(first), resamples, np.random.default_rng(seed))
    resampled = row_correlations(centered_ranks(first[drawn]), centered_ranks(second[drawn]))
    return CorrelationInterval(value, *middle(resampled, confidence))


@checked_arguments
def fisher_interval(
    correlation: Annotated[float, Within(least=-1, most=1)],
    items: Annotated[int, Within(least=4, most=2**53)],
    *,
    confidence: Confidence = CONFIDENCE,
) -> CorrelationInterval:
    r"""The interval of a correlation in closed form: Fisher's z (1915) is nearly normal.

    .. math:: \tanh(\operatorname{artanh} r \pm q / \sqrt{n - 3}), \quad q \text{ the normal quantile.}

    That is Pearson's correlation of normal values. Rank correlations scatter a little more (Bonett and
    Wright, 2000, multiply the standard error by sqrt(1 + r^2 / 2)), so the interval is, if anything,
    too narrow for them.

    Parameters
    ----------
    correlation : float
        In [-1, 1].
    items : int
        How many were ranked; at least 4.
    confidence : float
        In (0, 1).

    Raises
    ------
    AttributionLabError
        For numbers out of range.

    Examples
    --------
    Eight methods, as in the tables of the paper:

    >>> from attributionlab.metrics.ranking import fisher_interval
    >>> [round(each, 2) for each in fisher_interval(0.65, 8)]
    [0.65, -0.1, 0.93]
    """
    value = float(correlation)
    if abs(value) == 1:
        return CorrelationInterval(value, value, value)
    reach = float(special.ndtri((1 + confidence) / 2)) / math.sqrt(items - 3)
    z = math.atanh(value)
    return CorrelationInterval(value, math.tanh(z - reach), math.tanh(z + reach))


@checked_arguments
def centered_ranks(values: Rows) -> Numbers:
    """Ranks within each row less their mean, equal values sharing the mean of their ranks.

    Parameters
    ----------
    values : array, (rows, items)
        A row with NaN has NaN for ranks.

    Returns
    -------
    array, (rows, items)
        Multiples of 1/2, from -(items - 1) / 2 to (items - 1) / 2.
    """
    from scipy.stats import rankdata  # takes half a second to import

    ranks: Numbers = rankdata(values, axis=1)
    ranks -= (values.shape[1] + 1) / 2
    return ranks


@checked_arguments
def row_correlations(first: Rows, second: Rows) -> Numbers:
    """Spearman's correlation of each row of one array with the same row of another.

    Parameters
    ----------
    first, second : array, (rows, items)
        `centered_ranks`.

    Returns
    -------
    array, (rows,)
        NaN where a row is constant or has NaN.
    """
    # Sums of products of multiples of 1/2 are exact.
    product = (first * second).sum(1)
    scale = np.sqrt(np.square(first).sum(1) * np.square(second).sum(1))
    result = np.full(len(first), np.nan)
    np.divide(product, scale, out=result, where=scale > 0)
    return result.clip(-1, 1)


def _correlation(first: Numbers, second: Numbers) -> float:
    if not len(first):
        return math.nan
    return float(row_correlations(centered_ranks(first[None]), centered_ranks(second[None]))[0])


def _checked_pair(first: Any, second: Any, missing: Any) -> tuple[Numbers, Numbers]:
    """Both scores as arrays without NaN, or everything that is wrong with them."""
    arrays = {
        name: _as_numbers(name, values) for name, values in (("first", first), ("second", second))
    }
    lengths = [len(values) for values in arrays.values()]
    if lengths[0] != lengths[1]:
        raise AttributionLabError(
            f"first has {lengths[0]} items, second {lengths[1]}: pass two scores of the same items"
        )
    absent = {name: np.isnan(values) for name, values in arrays.items()}
    if missing == "refuse":
        refuse_if(_missing_problems(absent))
    kept = ~(absent["first"] | absent["second"])
    return arrays["first"][kept], arrays["second"][kept]


def _as_numbers(name: str, values: Any) -> Numbers:
    try:
        array = np.asarray(list(values) if isinstance(values, range) else values, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise AttributionLabError(
            f"{name} is {type(values).__name__}: pass one real number for each item"
        ) from error
    if array.ndim != 1:
        raise AttributionLabError(
            f"{name} has the shape {array.shape}: pass one number for each item, (items,)"
        )
    return array


def _missing_problems(absent: Mapping[str, NDArray[np.bool_]]) -> list[str]:
    return [
        f"{name} is NaN at {int(where.argmax())}: pass missing='omit' to leave such pairs out"
        for name, where in absent.items()
        if where.any()
    ]
