"""Ratios that Algorithms 1 and 2 estimate beside the true ones, and how near they are by condition."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attributionlab.metrics import (
    Order,
    completeness_curve,
    included_pixels,
    road,
    soundness_sweep,
    true_completeness,
    true_soundness,
)
from attributionlab.metrics.removal import ROAD_FRACTIONS
from attributionlab.papers.soco.truth_conditions import TRUTHS, Case, Entry
from attributionlab.ranking import CorrelationInterval, spearman_interval

LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Predictive levels, as shares of the way from the performance on nothing to that on the images."""
MIDDLE = 0.6
"""The level that stands for soundness where metrics are compared, chosen beforehand."""
THRESHOLDS = tuple(tenth / 10 for tenth in range(9, -1, -1))
"""Algorithm 4's, and 0, which is Definition 4.9's."""
PAPER_SCHEDULE = 1.0, 0.01
"""Step in percent of the area, and epsilon."""
FEW_REMOVED = (0.0, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
"""Fractions that tell apart what is removed first: content is about 4 % of the area, the label's 2 %.
`ROAD_FRACTIONS` begin at 10 %, where a good map has nothing left to remove."""
FEW_KEPT = tuple(1 - fraction for fraction in reversed(FEW_REMOVED))
OWN_FRACTIONS = "removal, ROAD's fractions"
REMOVALS: Mapping[str, tuple[Order, tuple[float, ...]]] = {
    "removal, most first": ("morf", FEW_REMOVED),
    "removal, least first": ("lerf", FEW_KEPT),
    OWN_FRACTIONS: ("morf", ROAD_FRACTIONS),
}
"""Metrics: order and fractions. With noisy linear imputation they are ROAD, with black Deletion."""
FINE, COARSE = 30.0, 5.0
"""Percent of the area up to which steps are those of the schedule, and steps beyond: by then most
attributions are past the levels."""
ROUNDING = 1e-12
"""By which a rise of float64 performances may be off."""

CONDITION = ["environment", "strength", "imputation", "indicator"]
RESAMPLES = 500
MOST_MISSING = 0.5
"""Share of the attributions without an estimate up to which there is a ranking."""
DIGITS = 9
"""To which scores are rounded before they are ranked: what differs by rounding is a tie."""

Rows = Mapping[str, list[dict[str, Any]]]


def schedule(step: float = 1.0) -> list[float]:
    """Masked shares of the area, falling to 0 in steps of so many percent, larger at the end."""
    fine = [step * index for index in range(1, round(FINE / step) + 1)]
    left = round((100 - FINE) / COARSE)
    coarse = [FINE + COARSE * index for index in range(1, left + 1)]
    return [1 - percent / 100 for percent in (*fine, *coarse)]


def ratio_rows(case: Case, entry: Entry) -> Rows:
    """One attribution in one case: rows of "soundness", "completeness" and "scores".

    The scores are what methods are ranked by, all higher for better ones: soundness at the middle
    level, completeness as the mean over Algorithm 4's thresholds, and `REMOVALS`, the area over or
    under the curve of the performance.
    """
    ends, given, setup = case.ends, (*case.given, entry.maps), case.setup
    keys = {**case.keys, "attribution": entry.name, "kind": entry.kind}
    sound = [keys | row for row in soundness_rows(case, entry, ends)]
    complete = [keys | row for row in _completeness_rows(case, entry, ends)]
    [middle] = [row["estimate"] for row in sound if row["share"] == MIDDLE]
    estimates = [row["estimate"] for row in complete if row["threshold"] > 0]
    scores = {"soundness": middle, "completeness": sum(estimates) / len(estimates)}
    for metric, (order, fractions) in REMOVALS.items():
        area = float(road(*given, order=order, fractions=fractions, **setup))
        scores[metric] = -area if order == "morf" else area
    ranked = [
        {**keys, "metric": metric, "score": score, **entry.truths}
        for metric, score in scores.items()
    ]
    return {"soundness": sound, "completeness": complete, "scores": ranked}


def soundness_rows(
    case: Case,
    entry: Entry,
    ends: tuple[float, float],
    step: float = PAPER_SCHEDULE[0],
    epsilon: float = PAPER_SCHEDULE[1],
) -> Iterator[dict[str, Any]]:
    """Algorithm 1 at every level, and the true soundness of the same pixels and of all attributed.

    Algorithm 1 holds its first step against a performance of 0. "estimate_from_nothing" is what comes
    out if that step is compared with the performance on nothing. `ends` are those of the case.
    """
    maps, ratios, (nothing, everything) = entry.maps, schedule(step), ends
    sweep = soundness_sweep(
        *(*case.given, maps),
        ratios=ratios,
        epsilon=epsilon,
        expansion="attributed",
        **case.setup,
    )
    first = included_pixels(maps, ratios[0], expansion="attributed")
    informs = float(sweep.performance[0]) - nothing >= epsilon - ROUNDING
    turned = int(informs) - int(not sweep.false[0])  # -1: sound only because it is compared with 0
    for share in LEVELS:
        found = sweep.at(nothing + share * (everything - nothing))
        truth = from_nothing = torch.nan
        if found.reached:
            included = included_pixels(maps, found.ratio, expansion="attributed")
            truth = _mean(true_soundness(maps, case.place.information, included=included))
            of_first = (maps * first).sum((1, 2, 3)) / (maps * included).sum((1, 2, 3))
            from_nothing = _mean(found.per_sample + turned * of_first)
        yield {
            "share": share,
            "level": found.level,
            "reached": found.reached,
            "jumped": found.jumped,
            "ratio": found.ratio,
            "estimate": found.soundness,
            "estimate_from_nothing": from_nothing,
            "truth": truth,
            "truth_of_all": entry.truths["soundness"],
        }


def _completeness_rows(
    case: Case, entry: Entry, ends: tuple[float, float]
) -> Iterator[dict[str, Any]]:
    """Algorithm 2 at every threshold, in units of what there is to lose, beside the true share.

    The true share is the mean over images ("truth"; "truth_of_all" at the threshold 0, which is
    Definition 4.9) and, for Theorem 4.12, which is about a data set, that of all its information
    ("taken").
    """
    phi, (nothing, everything) = case.information, ends
    curve = completeness_curve(*case.given, entry.maps, thresholds=THRESHOLDS, **case.setup)
    for threshold, difference in zip(THRESHOLDS, curve.differences.tolist(), strict=True):
        true = true_completeness(entry.maps, case.place.information, threshold=threshold)
        yield {
            "threshold": threshold,
            "estimate": difference / (everything - nothing),
            "truth": _mean(true),
            "truth_of_all": entry.truths["completeness"],
            "taken": float((phi * (entry.maps > threshold)).sum()),
        }


def _mean(values: Tensor) -> float:
    """Of those images for which there is a value."""
    return float(values.nanmean())


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

    Of the pairs that differ in the performance that is lost, the share in which the one that loses more
    takes more information; NaN if there is no such pair.
    """
    more, richer = (
        np.sign(np.round(values[:, None] - values, DIGITS))
        for values in (np.asarray(each, dtype=float) for each in (lost, taken))
    )
    pairs = np.triu(more != 0)
    return float((more == richer)[pairs].mean()) if pairs.any() else float("nan")


def error_table(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Of the rows of `ratio_rows`, by these keys: how far estimates are from the truth.

    An attribution has one row for each group, so that attributions are what is drawn again. Columns:
    "attributions", "bias" (mean of estimate less truth), "error" (mean of its absolute value),
    "largest" (estimate), "rank" (with "low" and "high"), "rank_of_all" (with the truth of all that is
    attributed); of soundness also "reached" and "jumped" (shares; jumped: of those reached),
    "bias_from_nothing" (the first step compared with the performance on nothing), "rated_1"
    (attributions with an estimate of 1) and "least_of_1" (the least truth of these), of completeness
    "ordered" (`ordered_share`).
    """
    found = []
    for values, group in rows.groupby(list(keys), sort=False):
        row: dict[str, Any] = dict(zip(keys, values, strict=True))
        gap = group.estimate - group.truth
        row["attributions"] = group.attribution.nunique()
        if "reached" in group:
            row["reached"] = group.reached.mean()
            row["jumped"] = group.jumped.sum() / max(1, group.reached.sum())
        row |= {"bias": gap.mean(), "error": gap.abs().mean(), "largest": group.estimate.max()}
        if "estimate_from_nothing" in group:
            row["bias_from_nothing"] = (group.estimate_from_nothing - group.truth).mean()
            whole = group.truth[group.estimate == 1]
            row |= {"rated_1": len(whole), "least_of_1": whole.min()}
        row |= _named(rank_agreement(group.estimate, group.truth), "rank")
        row["rank_of_all"] = rank_agreement(group.estimate, group.truth_of_all).value
        if "taken" in group:
            row["ordered"] = ordered_share(group.estimate, group.taken)
        found.append(row)
    return pd.DataFrame(found)


def held_out_table(rows: pd.DataFrame, paper: tuple[float, float]) -> pd.DataFrame:
    """Step and epsilon chosen on half of the attributions, and judged on the other half, both ways.

    `rows` are of one level, with "indicator", "step", "epsilon" and what `error_table` needs; `paper`
    is the step and epsilon that stand beside ("chosen" is False). Chosen is what has the least error on
    the half that is not judged; halves are every other attribution. "settings" names both halves' step
    and epsilon where they differ; other columns are those of `error_table`, of all attributions.
    """
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


def agreement_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Of every metric's scores and every true quality: whether they rank attributions alike.

    "ranked" attributions have a score, of which "distinct" ones differ.
    """
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
