"""What intervals of differences say about all of them."""

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attributionlab.report.reading import few_images_text
from attributionlab.stats.intervals import FEWEST_FOR_ORDER, mean_interval


def all_above(table: pd.DataFrame, units: str = "units") -> bool | None:
    """Say whether all intervals lie above 0: False where one lies below, else None.

    Parameters
    ----------
    table : DataFrame
        A row for each difference: `low` and `high`, NaN without an interval, and over how many units
        (networks or images) it is. Fewer than six cover less than 95 % and decide nothing.
    units : str
        Column with their number.

    Examples
    --------
    >>> import pandas as pd
    >>> from attributionlab.papers.unified.verdicts import all_above
    >>> table = pd.DataFrame({"low": [0.1, 0.2], "high": [0.3, 0.4], "units": 6})
    >>> all_above(table), all_above(table.assign(units=5)), all_above(table.assign(low=-0.1))
    (True, None, None)
    """
    enough = table[units] >= FEWEST_FOR_ORDER
    if (enough & (table.high < 0)).any():
        return False
    return True if len(table) and (enough & (table.low > 0)).all() else None


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
