"""Estimated against true ratios, condition by condition: error, levels missed, agreement of "
"ranks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attributionlab.ranking import CorrelationInterval, spearman_interval

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CONDITION", "agreement_table", "error_table", "rank_agreement"]

CONDITION = ["environment", "strength", "imputation", "indicator"]
RESAMPLES = 500
MOST_MISSING = 0.5
"""Share of the attributions without an estimate up to which there is a ranking."""
DIGITS = 9
"""To which scores are rounded before they are ranked: what differs by rounding is a tie."""


def rank_agreement(estimate: Sequence[float], truth: Sequence[float]) -> CorrelationInterval:
    """Spearman's correlation over attributions, with its interval from attributions drawn again.

    Attributions without an estimate are left out. NaN where those are more than half of all: the order
    of the others says nothing about them.
    """
    first, second = (np.round(np.asarray(each, dtype=float), DIGITS) for each in (estimate, truth))
    if np.isnan(first + second).mean() > MOST_MISSING:
        return CorrelationInterval(np.nan, np.nan, np.nan)
    return spearman_interval(first, second, missing="omit", resamples=RESAMPLES)


def error_table(rows: "pd.DataFrame", keys: Sequence[str]) -> "pd.DataFrame":
    """Of the rows of `ratio_rows`, by these keys: how far estimates are from the truth.

    Columns: "attributions", "reached" and "jumped" (shares, of soundness only; jumped: of those
    reached), "bias" (mean of estimate less truth), "error" (mean of its absolute value), "rank" (with
    "low" and "high"); for soundness also "rank_of_all", against the true soundness of all that is
    attributed.
    """
    import pandas as pd

    found = []
    for values, group in rows.groupby(list(keys), sort=False):
        row: dict[str, Any] = dict(zip(keys, values, strict=True))
        gap = group.estimate - group.truth
        row["attributions"] = group.attribution.nunique()
        if "reached" in group:
            row["reached"] = group.reached.mean()
            row["jumped"] = group.jumped.sum() / max(1, group.reached.sum())
        row |= {"bias": gap.mean(), "error": gap.abs().mean()}
        row |= _named(rank_agreement(group.estimate, group.truth), "rank")
        if "truth_of_all" in group:
            row["rank_of_all"] = rank_agreement(group.estimate, group.truth_of_all).value
        found.append(row)
    return pd.DataFrame(found)


def agreement_table(scores: "pd.DataFrame") -> "pd.DataFrame":
    """Of every metric's scores and every true quality: whether they rank attributions alike."""
    import pandas as pd

    found = []
    for values, group in scores.groupby([*CONDITION, "metric"], sort=False):
        keys = dict(zip([*CONDITION, "metric"], values, strict=True))
        ranked = int(group.score.notna().sum())
        for truth in ("soundness", "completeness", "f1"):
            agreement = rank_agreement(group.score, group[truth])
            found.append({**keys, "truth": truth, "ranked": ranked, **_named(agreement, "rank")})
    return pd.DataFrame(found)


def _named(agreement: CorrelationInterval, name: str) -> dict[str, float]:
    return {name: agreement.value, "low": agreement.low, "high": agreement.high}
