"""How strong correlations of rankings are, and what their intervals over draws decide."""

import numpy as np
import pandas as pd

from attributionlab.metrics.ranking import fisher_interval
from attributionlab.papers.answers import above

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


def with_fisher_interval(correlation: float, methods: int) -> dict[str, float]:
    """Return a correlation with its interval over methods by Fisher's z, NaN without a correlation."""
    found = (np.nan,) * 3 if np.isnan(correlation) else fisher_interval(correlation, methods)
    return dict(zip(("correlation", "low", "high"), found, strict=True))


def is_strong(low: float, high: float) -> bool | None:
    """Return whether an interval shows a strong correlation, or shows that it is none."""
    return above(low, high, STRONG)
