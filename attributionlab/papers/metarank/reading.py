"""What counts as a strong, a moderate and a weak correlation of two rankings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from attributionlab.leaderboard.report import interval_said
from attributionlab.ranking import CorrelationInterval, fisher_interval
from attributionlab.stats.intervals import mean_interval

if TYPE_CHECKING:
    import pandas as pd

Reading = Literal["strong", "moderate", "weak"]

STRONG, MODERATE = 0.7, 0.4
METHODS = 8
FEWEST_DRAWS = 6
"""For an interval: five values lie on one side of their true mean in more than 5 % of all cases."""


def reading(correlation: float) -> Reading:
    """Strong from 0.7 up, moderate from 0.4 up, weak below, and below 0.

    The paper gives no thresholds. These are Dancey and Reidy's (2007, "Statistics without maths for
    psychology"), which Akoglu (2018, "User's guide to correlation coefficients") compares with others.

    Examples
    --------
    >>> from attributionlab.papers.metarank.reading import reading
    >>> reading(0.7), reading(0.5), reading(-0.9)
    ('strong', 'moderate', 'weak')
    """
    if correlation >= STRONG:
        return "strong"
    return "moderate" if correlation >= MODERATE else "weak"


def convention() -> str:
    """The thresholds, and how little eight methods say about them."""
    _, low, high = fisher_interval(STRONG, METHODS)
    return (
        f"Strong is at least {STRONG:g}, moderate at least {MODERATE:g}, weak the rest (Dancey and "
        "Reidy, 2007; the paper does not say which thresholds it used). Of "
        f"{METHODS} methods a correlation of {STRONG:g} has a 95 % interval of {low:.2f} to {high:.2f} "
        "(Fisher's z): a single reading is not much."
    )


def shares_said(correlations: Sequence[float]) -> str:
    """How many correlations are strong, moderate and weak; undefined ones are told apart.

    Examples
    --------
    >>> from attributionlab.papers.metarank.reading import shares_said
    >>> shares_said([0.8, 0.1, float("nan")])
    '1 strong, 0 moderate, 1 weak of 2, 1 undefined'
    """
    known = [each for each in correlations if not np.isnan(each)]
    found = [reading(each) for each in known]
    counts = ", ".join(f"{found.count(name)} {name}" for name in get_args(Reading))
    left = len(correlations) - len(known)
    return f"{counts} of {len(known)}" + (f", {left} undefined" if left else "")


def draws_interval(values: "pd.Series[float]", seed: int) -> tuple[float, float]:
    """Interval of a mean over draws; NaN for fewer than six that have a value."""
    known = values.dropna().to_numpy(float)
    interval = mean_interval(known, seed) if len(known) >= FEWEST_DRAWS else None
    return (interval.low, interval.high) if interval else (np.nan, np.nan)


def mean_said(values: "pd.Series[float]", seed: int) -> str:
    """A mean over draws with its interval, where there is one."""
    return interval_said(CorrelationInterval(float(values.mean()), *draws_interval(values, seed)))


def row_said(row: Any) -> str:
    """The correlation of a table's row with its interval, where there is one."""
    return interval_said(CorrelationInterval(row.correlation, row.low, row.high))


def strength(low: float, high: float) -> Literal["strong", "not strong", "undecided"]:
    """What the interval of a correlation shows; without one, nothing.

    Examples
    --------
    >>> from attributionlab.papers.metarank.reading import strength
    >>> strength(0.7, 0.9), strength(0.5, 0.6), strength(0.6, 0.8), strength(float("nan"), 1)
    ('strong', 'not strong', 'undecided', 'undecided')
    """
    return "strong" if low >= STRONG else "not strong" if low <= high < STRONG else "undecided"
