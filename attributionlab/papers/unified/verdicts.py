"""When an interval says on which side of zero a difference lies, and how it is printed."""

import math

import numpy as np
from numpy.typing import NDArray

from attributionlab.report.reading import few_images_text
from attributionlab.stats.intervals import mean_interval


def clear_sign(low: float, high: float, units: int, digits: int) -> int | None:
    """On which side of 0 an interval lies as it is printed; None where it cannot tell.

    Parameters
    ----------
    low, high : float
        Its ends, NaN without an interval.
    units : int
        Networks or images that it is over; fewer than six cover less than 95 %.
    digits : int
        Behind the point, as printed: an end that is printed as 0 is on no side of it.

    Returns
    -------
    int or None
        1 or -1 on one side, 0 on both, None without an interval or with too few units.

    Examples
    --------
    >>> from attributionlab.papers.unified.verdicts import clear_sign
    >>> clear_sign(0.1, 0.2, 6, 2), clear_sign(0.001, 0.2, 6, 2), clear_sign(0.1, 0.2, 5, 2)
    (1, 0, None)
    """
    if math.isnan(low) or few_images_text(units):
        return None
    return int(round(low, digits) > 0) - int(round(high, digits) < 0)


def ends_of(values: NDArray[np.float64], seed: int) -> dict[str, float]:
    """Columns "low" and "high" of the interval of a mean; NaN without one.

    Examples
    --------
    >>> import numpy as np
    >>> from attributionlab.papers.unified.verdicts import ends_of
    >>> ends_of(np.array([1.0]), seed=0)
    {'low': nan, 'high': nan}
    """
    low, high = mean_interval(values, seed) or (math.nan, math.nan)
    return {"low": float(low), "high": float(high)}


def ends_text(low: float, high: float, form: str) -> str:
    """Both ends of an interval, or that there is none.

    Examples
    --------
    >>> from attributionlab.papers.unified.verdicts import ends_text
    >>> ends_text(-0.1, 0.25, "+.2f"), ends_text(float("nan"), float("nan"), ".2f")
    ('-0.10 to +0.25', 'no interval')
    """
    return "no interval" if math.isnan(low) else f"{low:{form}} to {high:{form}}"
