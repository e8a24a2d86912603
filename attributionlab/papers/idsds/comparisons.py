"""Tables of scores of setups: two compared method by method, and best scores over accuracies."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from attributionlab.base import Difference, paired_difference, with_intervals
from attributionlab.metrics.ranking import spearman, spearman_interval
from attributionlab.papers.answers import mean_ends
from attributionlab.papers.idsds.maps import (
    ABSOLUTE,
    CONTROL,
    LOGIT,
    OF_NO_OUTPUT,
    OUTPUTS,
    PROBABILITY,
    TRUTH,
)

AFTER = ", after softmax"
"""Ends the name of a setup whose maps explain the probability."""
ALL, NOT_ABSOLUTE = "all", "not absolute"
"""Which maps are compared."""
Direction = Literal["higher", "lower"]


class Comparison(NamedTuple):
    """Two setups, and whether most methods score higher or lower on the second in the paper.

    A setup is the name of a design, with `AFTER` behind it where maps explain the probability.
    """

    part: str
    first: str
    second: str
    paper: Direction

    @property
    def of_outputs(self) -> bool:
        """Whether both setups are one network, before and after its softmax."""
        return self.second == self.first + AFTER

    def named(self) -> dict[str, str]:
        """Return the columns that say which comparison a row is of."""
        return {"part": self.part, "first": self.first, "second": self.second}


def against_of(comparisons: Sequence[Comparison]) -> list[tuple[Comparison, str]]:
    """Return each comparison with the drops it is held against: of the logit; of outputs, of both."""
    return [
        (each, against)
        for each in comparisons
        for against in (OUTPUTS if each.of_outputs else OUTPUTS[:1])
    ]


def comparison_tables(
    by_image: pd.DataFrame, networks: pd.DataFrame, comparisons: Sequence[Comparison], seed: int
) -> dict[str, pd.DataFrame]:
    """Return the tables of `panel_scores` with "setup" and "run", and of networks; no empty ones."""
    after = by_image.output.map({LOGIT: "", PROBABILITY: AFTER})
    named = by_image.assign(setup=by_image.setup + after)
    scores = named.groupby(["setup", "run", "method", "against"], sort=False).agg(
        score=("score", "mean"),
        constant_maps=("constant_maps", "sum"),
        constant_drops=("constant_drops", "sum"),
        images=("score", "count"),
    )
    scores = scores.reset_index()
    held = dict(list(scores.groupby("against", sort=False)))
    pairs = against_of(comparisons)
    rows = [
        compared(held[against], each, seed, against=against, maps=maps)
        for each, against in pairs
        for maps in (ALL, NOT_ABSOLUTE)
    ]
    changes = [network_changes(networks, x, seed) for x in comparisons if not x.of_outputs]
    methods = [summarized(own, seed).assign(against=each) for each, own in held.items()]
    differences = [
        method_differences(held[each], x, seed).assign(against=each) for x, each in pairs
    ]
    tables = {
        "comparisons": pd.DataFrame(rows),
        "outputs": outputs_compared(scores, comparisons),
        "changes": pd.DataFrame(changes),
        "networks": network_means(scores, networks),
        "methods": pd.concat(methods, ignore_index=True),
        "differences": pd.concat(differences, ignore_index=True),
        "scores": scores,
        "runs": networks,
    }
    return {name: each for name, each in tables.items() if len(each)}


def summarized(scores: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return mean, interval over runs, counts and rank (the control left out) by setup and method."""
    keys = ["setup", "method"]
    table = with_intervals(scores, keys, "score", seed)
    table = table.rename(columns={"score": "mean", "images": "runs"})
    counts = scores.groupby(keys, sort=False)[["constant_maps", "constant_drops", "images"]].sum()
    table = table.join(counts, on=keys)
    ranked = table[table.method != CONTROL].groupby("setup")["mean"]
    return table.assign(rank=ranked.rank(ascending=False, method="min"))


def method_differences(scores: pd.DataFrame, comparison: Comparison, seed: int) -> pd.DataFrame:
    """Return second minus first, with an interval over runs, for each method that both have.

    The control is left out, and of one network's outputs all `OF_NO_OUTPUT`.
    """
    groups = _pairs(scores, comparison).groupby("method", sort=False)
    rows = [{"method": method, **_columns(_difference(own, seed))} for method, own in groups]
    return pd.DataFrame([{**comparison.named(), **row} for row in rows])


def compared(
    scores: pd.DataFrame, comparison: Comparison, seed: int, *, against: str, maps: str = ALL
) -> dict[str, Any]:
    """Count methods that score higher or lower on the second setup; of all maps, or only some.

    "difference" is that of means over methods, with its interval over "runs"; "rankings" the rank
    correlation of the methods' means on both. `NOT_ABSOLUTE` maps are no absolute values or squares.
    """
    if maps == NOT_ABSOLUTE:
        absolute = scores.method.str.endswith((ABSOLUTE, "-squared"))
        scores = scores[~absolute & (scores.method != "saliency")]
    pairs = _pairs(scores, comparison)
    ranked = pairs.groupby("method").mean()
    by_method = (pairs.second - pairs["first"]).groupby("method").mean()
    higher, lower = int((by_method > 0).sum()), int((by_method < 0).sum())
    by_run = pairs.groupby("run").mean()
    overall = _difference(by_run, seed)
    sure: dict[Any, Direction] = {"first": "higher", "second": "lower"}  # of the subtraction
    side = sure.get(overall.better)
    return {
        **comparison.named(),
        "higher": higher,
        "lower": lower,
        "methods": len(by_method),
        **_columns(overall),
        "rankings": spearman(ranked["first"], ranked.second, missing="omit"),
        "maps": maps,
        "against": against,
        "paper": comparison.paper,
        "outcome": outcome(higher, lower, len(by_method), side, comparison.paper),
    }


def outcome(higher: int, lower: int, methods: int, sure: Direction | None, paper: Direction) -> str:
    """Return whether the paper's direction is found again.

    "agrees" or "disagrees" where a majority of all methods and the side of 0 on which the interval of
    the mean difference lies (`sure`) say so, with "(not sure)" where the majority alone does, because
    the interval holds 0 or there are too few runs to tell; else "undecided".
    """
    majority = "higher" if 2 * higher > methods else "lower" if 2 * lower > methods else None
    if majority is None or sure not in (majority, None):
        return "undecided"
    return ("agrees" if majority == paper else "disagrees") + ("" if sure else " (not sure)")


def network_changes(networks: pd.DataFrame, comparison: Comparison, seed: int) -> dict[str, Any]:
    """Return how the second design's networks differ from the first's, whatever explains them."""
    row: dict[str, Any] = comparison.named()
    for prefix, column in (("truth", "network_truth"), ("accuracy", "accuracy")):
        change = _columns(_difference(_beside(networks, comparison, column, ["run"]), seed))
        row |= {f"{prefix}_{name}": change[name] for name in ("difference", "low", "high")}
    return row


def _difference(pairs: pd.DataFrame, seed: int) -> Difference:
    """Return second minus first, with its interval over runs."""
    return paired_difference(pairs["second"].to_numpy(), pairs["first"].to_numpy(), seed)


def _columns(found: Difference) -> dict[str, float]:
    return {"difference": found.mean, "low": found.low, "high": found.high, "runs": found.images}


def _pairs(scores: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    """Return scores of both setups beside each other, by method and run, for methods that both have."""
    left_out = OF_NO_OUTPUT if comparison.of_outputs else (CONTROL,)
    return _beside(scores[~scores.method.isin(left_out)], comparison, "score", ["method", "run"])


def _beside(
    table: pd.DataFrame, comparison: Comparison, column: str, keys: list[str]
) -> pd.DataFrame:
    sides = [
        table[table.setup == setup].set_index(keys)[column].rename(side)
        for side, setup in (("first", comparison.first), ("second", comparison.second))
    ]
    return sides[0].to_frame().join(sides[1], how="inner").astype(float)


def outputs_compared(scores: pd.DataFrame, comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Return means over methods of maps before and after the softmax, by what they are held against."""
    setups = [name for x in comparisons if x.of_outputs for name in (x.first, x.second)]
    own = scores[scores.setup.isin(setups) & ~scores.method.isin(OF_NO_OUTPUT)]
    table = own.groupby(["setup", "against"], sort=False).agg(
        {"score": "mean", "constant_maps": "sum", "images": "sum"}
    )
    return table.rename(columns={"images": "maps"}).reset_index()


def network_means(scores: pd.DataFrame, networks: pd.DataFrame) -> pd.DataFrame:
    """Return means over runs of each design, and over methods of what its maps score."""
    table = networks.drop(columns="run").groupby("setup", sort=False).mean()
    is_control = scores.method == CONTROL
    means = scores[~is_control].groupby(["setup", "against"]).score.mean().unstack("against")
    table["idsds"], table["map_truth"] = means[LOGIT], means.get(TRUTH, np.nan)
    table["control"] = scores[is_control & (scores.against == LOGIT)].groupby("setup").score.mean()
    table["runs"] = networks.groupby("setup").size()
    return table.astype({"parameters": int}).reset_index()


def tradeoff(scores: pd.DataFrame, networks: pd.DataFrame, seed: int) -> dict[str, pd.DataFrame]:
    """Return accuracy and the best method of each design, and their rank correlation over designs.

    Both are means over the runs that all designs have; the control takes no part. The interval of
    "best" is of the method that is best on average, which the choice makes a little too good. A design
    none of whose maps has a score has no row. "correlation": of the means, as the paper has it of one
    run (the interval is of designs drawn again), and of each run.
    """
    counts = networks.groupby("run").setup.nunique()
    shared = counts[counts == networks.setup.nunique()].index
    known = networks[networks.run.isin(shared)]
    own = scores[scores.run.isin(shared) & (scores.method != CONTROL) & (scores.against == LOGIT)]
    rows = []
    for setup, of_setup in known.groupby("setup", sort=False):
        by_method = own[own.setup == setup].groupby("method", sort=False).score
        if by_method.mean().isna().all():
            continue
        method = by_method.mean().idxmax()
        row: dict[str, Any] = {"setup": setup, "best_method": method}
        for name, values in (
            ("best", by_method.get_group(method)),
            ("accuracy", of_setup.accuracy),
        ):
            low, high = mean_ends(values, seed)
            row |= {name: values.mean(), f"{name}_low": low, f"{name}_high": high}
        rows.append(row | {"runs": len(of_setup)})
    table = pd.DataFrame(rows)
    value, low, high = spearman_interval(table.accuracy, table.best, seed=seed)
    found = [{"run": "means", "correlation": value, "low": low, "high": high}]
    by_run = known.set_index(["run", "setup"])[["accuracy"]]
    by_run["best"] = own.groupby(["run", "setup"]).score.max()
    for number, of_run in by_run.groupby("run"):
        alone = spearman(of_run.accuracy, of_run.best, missing="omit")
        found.append({"run": str(number), "correlation": alone, "low": np.nan, "high": np.nan})
    return {"tradeoff": table, "correlation": pd.DataFrame(found).assign(designs=len(table))}
