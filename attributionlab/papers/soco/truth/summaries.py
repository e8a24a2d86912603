"""Estimated against true ratios by condition: errors, levels missed, agreement of ranks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attributionlab.papers.soco.truth.conditions import Condition
from attributionlab.papers.soco.truth.panel import TRUTHS
from attributionlab.ranking import CorrelationInterval, spearman_interval

if TYPE_CHECKING:
    import pandas as pd

CONDITION = ["environment", "strength", "imputation", "indicator"]
RESAMPLES = 500
MOST_MISSING = 0.5
"""Share of the attributions without an estimate up to which there is a ranking."""
DIGITS = 9
"""To which scores are rounded before they are ranked: what differs by rounding is a tie."""


def of_condition(
    table: "pd.DataFrame", condition: Condition, indicator: str | None = None
) -> "pd.DataFrame":
    """The rows of a condition."""
    chosen = (table.environment == condition.environment) & (table.strength == condition.strength)
    chosen &= table.imputation == condition.imputation
    if indicator is not None:
        chosen &= table.indicator == indicator
    return table[chosen]


def rank_agreement(estimate: Sequence[float], truth: Sequence[float]) -> CorrelationInterval:
    """Spearman's correlation over attributions, with its interval from attributions drawn again.

    Attributions without an estimate are left out. NaN where those are more than half of all: the order
    of the others says nothing about them.
    """
    first, second = (np.round(np.asarray(each, dtype=float), DIGITS) for each in (estimate, truth))
    if np.isnan(first + second).mean() > MOST_MISSING:
        return CorrelationInterval(np.nan, np.nan, np.nan)
    return spearman_interval(first, second, missing="omit", resamples=RESAMPLES)


def ordered_share(lost: Sequence[float], taken: Sequence[float]) -> float:
    """Theorem 4.12, counted: of two attributions, does what lowers performance more take more away?

    Parameters
    ----------
    lost : sequence of float
        Performance lost, of each attribution.
    taken : sequence of float
        Information of the attributed pixels.

    Returns
    -------
    float
        Of the pairs that differ in what is lost, the share in which the one that loses more takes more;
        NaN if there is no such pair.
    """
    more, richer = (
        np.sign(np.round(values[:, None] - values, DIGITS))
        for values in (np.asarray(each, dtype=float) for each in (lost, taken))
    )
    pairs = np.triu(more != 0)
    return float((more == richer)[pairs].mean()) if pairs.any() else float("nan")


def error_table(rows: "pd.DataFrame", keys: Sequence[str]) -> "pd.DataFrame":
    """Of the rows of `ratio_rows`, by these keys: how far estimates are from the truth.

    An attribution has one row for each group, so that attributions are what is drawn again. Columns:
    "attributions", "bias" (mean of estimate less truth), "error" (mean of its absolute value), "rank"
    (with "low" and "high"), "rank_of_all" (against the truth of all that is attributed); of soundness
    also "reached" and "jumped" (shares; jumped: of those reached) and "bias_from_nothing" (the first
    step held against the performance on nothing), of completeness "ordered" (`ordered_share`).
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
        if "estimate_from_nothing" in group:
            row["bias_from_nothing"] = (group.estimate_from_nothing - group.truth).mean()
        row |= _named(rank_agreement(group.estimate, group.truth), "rank")
        row["rank_of_all"] = rank_agreement(group.estimate, group.truth_of_all).value
        if "taken" in group:
            row["ordered"] = ordered_share(group.estimate, group.taken)
        found.append(row)
    return pd.DataFrame(found)


def held_out_table(rows: "pd.DataFrame", paper: tuple[float, float]) -> "pd.DataFrame":
    """Step and epsilon chosen on half of the attributions, and judged on the other half, both ways.

    Parameters
    ----------
    rows : DataFrame
        Of one level: "indicator", "step", "epsilon" and what `error_table` needs.
    paper : (float, float)
        The step and epsilon that stand beside.

    Returns
    -------
    DataFrame
        Columns "chosen" (False: the paper's), "settings" (step and epsilon; those of both halves where
        they differ) and, of all attributions, those of `error_table`. Chosen is what has the least
        error on the half that is not judged; halves are every other attribution.
    """
    import pandas as pd

    halves = {name: i % 2 for i, name in enumerate(rows.attribution.unique())}
    found = []
    for _, group in rows.groupby("indicator", sort=False):
        half = group.attribution.map(halves)
        errors = (group.estimate - group.truth).abs()
        keys = [group.step, group.epsilon]
        best = [errors[half != judged].groupby(keys).mean().idxmin() for judged in (0, 1)]
        for chosen, settings in ((False, [paper, paper]), (True, best)):
            judged = pd.concat(
                group[(half == i) & (group.step == step) & (group.epsilon == epsilon)]
                for i, (step, epsilon) in enumerate(settings)
            )
            [row] = error_table(judged, ["indicator"]).to_dict("records")
            words = dict.fromkeys(f"steps of {s:g} % and epsilon {e:g}" for s, e in settings)
            found.append({"chosen": chosen, "settings": " or ".join(words), **row})
    return pd.DataFrame(found)


def agreement_table(scores: "pd.DataFrame") -> "pd.DataFrame":
    """Of every metric's scores and every true quality: whether they rank attributions alike.

    "ranked" attributions have a score, of which "distinct" ones differ.
    """
    import pandas as pd

    found = []
    for values, group in scores.groupby([*CONDITION, "metric"], sort=False):
        keys = dict(zip([*CONDITION, "metric"], values, strict=True))
        there = group.score.dropna()
        keys |= {"ranked": len(there), "distinct": there.round(DIGITS).nunique()}
        for truth in TRUTHS:
            agreement = rank_agreement(group.score, group[truth])
            found.append({**keys, "truth": truth, **_named(agreement, "rank")})
    return pd.DataFrame(found)


def _named(agreement: CorrelationInterval, name: str) -> dict[str, float]:
    return {name: agreement.value, "low": agreement.low, "high": agreement.high}
