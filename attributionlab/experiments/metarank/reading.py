"""What counts as a strong, a moderate and a weak correlation of two rankings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from attributionlab.assess import mean_interval
from attributionlab.ranking import fisher_interval

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MODERATE", "STRONG", "Reading", "convention", "mean_said", "reading", "shares_said"]

Reading = Literal["strong", "moderate", "weak"]

STRONG, MODERATE = 0.7, 0.4
METHODS = 8


def reading(correlation: float) -> Reading:
    """Strong from 0.7 up, moderate from 0.4 up, weak below, and below 0.

    The paper gives no thresholds. These are Dancey and Reidy's (2007, "Statistics without maths for
    psychology"), which Akoglu (2018, "User's guide to correlation coefficients") compares with others.

    Examples
    --------
    >>> from attributionlab.experiments.metarank.reading import reading
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
    >>> from attributionlab.experiments.metarank.reading import shares_said
    >>> shares_said([0.8, 0.1, float("nan")])
    '1 strong, 0 moderate, 1 weak of 2, 1 undefined'
    """
    known = [each for each in correlations if not np.isnan(each)]
    found = [reading(each) for each in known]
    counts = ", ".join(f"{found.count(name)} {name}" for name in get_args(Reading))
    left = len(correlations) - len(known)
    return f"{counts} of {len(known)}" + (f", {left} undefined" if left else "")


def mean_said(values: "pd.Series[float]", seed: int) -> str:
    """A mean over runs with its interval, where there is one."""
    known = values.dropna()
    if not len(known):
        return "undefined"
    interval = mean_interval(known.to_numpy(float), seed)
    mean = float(known.mean())
    return (
        f"{mean:.2f}"
        if interval is None
        else f"{mean:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
    )
