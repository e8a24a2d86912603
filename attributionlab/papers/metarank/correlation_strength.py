"""How strong correlations of rankings are, and what their intervals over draws decide."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from attributionlab.ranking import fisher_interval
from attributionlab.stats.intervals import FEWEST_FOR_ORDER, mean_interval

STRONG, MODERATE = 0.7, 0.4
"""The paper gives no thresholds. These are Dancey and Reidy's (2007, "Statistics without maths for
psychology"), which Akoglu (2018, "User's guide to correlation coefficients") compares with others."""


def shares(correlations: pd.Series) -> dict[str, float]:
    """Return the shares of strong, moderate and weak correlations, and how many are (un)defined."""
    known = correlations.dropna()
    return {
        "share_strong": float((known >= STRONG).mean()),
        "share_moderate": float(known.between(MODERATE, STRONG, inclusive="left").mean()),
        "share_weak": float((known < MODERATE).mean()),
        "defined": len(known),
        "undefined": len(correlations) - len(known),
    }


def over_draws(table: pd.DataFrame, by: Sequence[str], value: str, seed: int) -> pd.DataFrame:
    """Return means over draws with their intervals, `low` and `high`, a row for each group.

    Draws without a value are left out. Fewer than six have no interval: five values lie on one side of
    their true mean in more than 5 % of all cases.
    """
    rows = []
    for key, part in table.groupby(list(by), sort=False):
        known = part[value].dropna().to_numpy(float)
        interval = mean_interval(known, seed) if len(known) >= FEWEST_FOR_ORDER else None
        rows.append((*key, part[value].mean(), *(interval or (np.nan, np.nan))))
    return pd.DataFrame(rows, columns=[*by, value, "low", "high"])


def with_fisher_interval(correlation: float, methods: int) -> dict[str, float]:
    """Return a correlation with its interval over methods by Fisher's z, NaN without a correlation."""
    found = (np.nan,) * 3 if np.isnan(correlation) else fisher_interval(correlation, methods)
    return dict(zip(("correlation", "low", "high"), found, strict=True))


def above(low: float, high: float, border: float) -> bool | None:
    """Return whether an interval lies above a border or below; None if it holds it, or has no ends."""
    return True if low > border else False if high < border else None


def is_strong(low: float, high: float) -> bool | None:
    """Return whether an interval shows a strong correlation, or shows that it is none."""
    return above(low, high, STRONG)
