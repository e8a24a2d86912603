"""What intervals answer: that a statement holds, that it does not, or neither."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from attributionlab.base import FEWEST_FOR_ORDER, applicable, mean_interval

STRONG, MODERATE = 0.7, 0.4
"""Correlations. The metarank paper gives no thresholds. These are Dancey and Reidy's (2007, "Statistics
without maths for psychology"), which Akoglu (2018, "User's guide to correlation coefficients") compares
with others."""


def mean_ends(values: Any, seed: int, fewest: int = 2) -> tuple[float, float]:
    """The ends of `mean_interval`; NaN where fewer values than the `fewest` apply."""
    values = np.asarray(values, dtype=float)
    enough = applicable(values) >= fewest
    return (mean_interval(values, seed) if enough else None) or (np.nan, np.nan)


def over_draws(table: pd.DataFrame, by: Sequence[str], value: str, seed: int) -> pd.DataFrame:
    """Means over draws with their intervals, `low` and `high`, a row for each group.

    Draws without a value are left out. Fewer than six have no interval: five values lie on one side of
    their true mean in more than 5 % of all cases.
    """
    rows = []
    for key, part in table.groupby(list(by), sort=False):
        known = part[value].dropna()
        rows.append((*key, known.mean(), *mean_ends(known, seed, FEWEST_FOR_ORDER)))
    return pd.DataFrame(rows, columns=[*by, value, "low", "high"])


def with_extremes(
    each: pd.DataFrame, by: Sequence[str], value: str, names: Sequence[str] = ("lowest", "highest")
) -> pd.DataFrame:
    """Means over networks between their extremes, a row for each group."""
    ends = each.groupby(list(by), sort=False)[value].agg(["mean", "min", "max"])
    return ends.set_axis([value, *names], axis=1).reset_index()


def decided(holds: Any, fails: Any) -> bool | None:
    """Say True where it holds, False where it fails, None where neither."""
    return True if holds else False if fails else None


def above(low: Any, high: Any, border: Any = 0.0) -> bool | None:
    """Say whether all intervals lie above a border; False where one lies below, None where neither.

    An interval without ends lies nowhere.
    """
    return decided(np.all(low > border), np.any(high < border))


def all_above(table: pd.DataFrame, units: str = "units") -> bool | None:
    """Say whether all intervals of a table, `low` to `high`, lie above 0, as `above` does.

    Intervals over fewer than six `units` (networks or images) cover less than 95 % and decide nothing.
    """
    if table.empty:
        return None
    enough = table[units] >= FEWEST_FOR_ORDER
    return decided((enough & (table.low > 0)).all(), (enough & (table.high < 0)).any())


def every(*answers: bool | None) -> bool | None:
    """Say whether all hold; False where one does not, None where that is not decided."""
    return decided(all(answers), False in answers)


def shares(correlations: pd.Series) -> dict[str, float]:
    """The shares of strong, moderate and weak correlations, and how many are (un)defined."""
    known = correlations.dropna()
    return {
        "share_strong": float((known >= STRONG).mean()),
        "share_moderate": float(known.between(MODERATE, STRONG, inclusive="left").mean()),
        "share_weak": float((known < MODERATE).mean()),
        "defined": len(known),
        "undefined": len(correlations) - len(known),
    }
