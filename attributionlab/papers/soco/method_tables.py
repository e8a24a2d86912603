"""Tables over methods: agreement with the truth, gains on several networks, leaders, ends of runs."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from attributionlab.base import over_runs
from attributionlab.metrics import Order
from attributionlab.metrics.ranking import fisher_interval, spearman
from attributionlab.papers.soco.maps import PLAIN
from attributionlab.papers.subjects.subjects import TRAINED

LEVELS = tuple(tenth / 10 for tenth in range(1, 10))
"""Predictive levels, from that of an image of which nothing is kept (0) to that of the image (1)."""
REMOVALS: Mapping[str, Order] = {
    "road-morf": "morf",
    "road-lerf": "lerf",
    "deletion-morf": "morf",
    "deletion-lerf": "lerf",
}
SIGNS = {
    "soundness": 1,
    "completeness": 1,
    **{metric: 1 if order == "lerf" else -1 for metric, order in REMOVALS.items()},
}
"""Which way is better."""
FEWEST = 4
"""Methods that an interval of a correlation needs."""
GAIN = 0.01
"""Smaller differences are none."""


def with_other_runs(summary: pd.DataFrame, others: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Add rows of the lowest and highest numbers below each method that optimizes.

    `summary` is of the first run; `others` are rows of the other runs.
    """
    keys = [
        each for each in ("environment", "imputation", "indicator", "method") if each in summary
    ]
    numbers = [name for name in summary if name not in keys]
    known: dict[Any, list[Any]] = defaultdict(list)
    for row in others:
        known[tuple(row[key] for key in keys)].append(row)
    rows = []
    for first in summary.to_dict("records"):
        rows.append(first)
        found = [first, *known.get(tuple(first[key] for key in keys), [])]
        for name, end in over_runs(len(found)).items():
            ends = {number: end([float(run[number]) for run in found]) for number in numbers}
            rows.append({**first, "method": f"{first['method']}, {name}", **ends})
    return pd.DataFrame(rows, columns=list(summary)).astype(summary.dtypes.to_dict())


def agreement_table(summary: pd.DataFrame, groups: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Correlate each metric with its own truth and with both, over the methods of each group."""
    rows = []
    keys = ["environment", "imputation", "indicator"]
    for (key, here), group in product(summary.groupby(keys, sort=False), groups):
        chosen = here[here.method.isin(groups[group])]
        for metric, sign in SIGNS.items():
            scores = sign * chosen[metric].to_numpy(float)
            own = _own(scores, chosen.get(f"true_{metric}"))
            others = (chosen.all_soundness, chosen.true_completeness)
            rows.append(
                (*key, group, metric, *own, *(_correlation(scores, each) for each in others))
            )
    columns = [*keys, "methods", "metric", "with_own", "low", "high", "count"]
    return pd.DataFrame(rows, columns=[*columns, "with_soundness", "with_completeness"])


def _own(scores: Any, truth: Any) -> tuple[float, float, float, int]:
    """With the truth that a metric estimates, if any, with its interval, and of how many methods."""
    if truth is None:
        return math.nan, math.nan, math.nan, 0
    count = int((np.isfinite(scores) & np.isfinite(truth.to_numpy(float))).sum())
    correlation = _correlation(scores, truth)
    # Fisher's z of a perfect correlation is infinite, and its interval has no width.
    if math.isnan(correlation) or abs(correlation) > 1 - 1e-12 or count < FEWEST:
        return correlation, math.nan, math.nan, count
    interval = fisher_interval(correlation, count)
    return correlation, interval.low, interval.high, count


def _correlation(first: Any, second: Any) -> float:
    return spearman(first, second.to_numpy(float), missing="omit")


def networks_table(summary: pd.DataFrame) -> pd.DataFrame:
    """Return what metrics say of each method on several networks of one kind, by one indicator."""
    rows = []
    for metric, sign in SIGNS.items():
        wide = summary.pivot(index="environment", columns="method", values=metric)
        for method in dict.fromkeys(summary.method):
            values, gains = wide[method], sign * (wide[method] - wide[PLAIN])
            better, worse = (gains > GAIN).sum(), (gains < -GAIN).sum()
            found = (values.mean(), values.min(), values.max(), better, worse, values.count())
            rows.append((method, metric, *found))
    columns = ["method", "metric", "mean", "least", "greatest", "better", "worse", "networks"]
    return pd.DataFrame(rows, columns=columns)


def leaders_table(methods: pd.DataFrame, networks: pd.DataFrame) -> pd.DataFrame:
    """Return, by case and ratio, the methods that are worse than the best by at most `GAIN`.

    `methods` has a row for each method of a case, `networks` means over trained networks.
    """
    means = networks.pivot_table(index="method", columns="metric", values="mean", sort=False)
    cases = [
        ((name, imputation), here.set_index("method"))
        for (name, imputation), here in methods.groupby(["environment", "imputation"], sort=False)
    ]
    if len(means):
        cases.append(((f"{TRAINED}, mean", "noisy-linear"), means))
    rows = []
    for (name, imputation), here in cases:
        for ratio in ("soundness", "true_soundness", "completeness", "true_completeness"):
            values = here[ratio].dropna() if ratio in here else pd.Series(dtype=float)
            if len(values):
                leading = ", ".join(values[values >= values.max() - GAIN].index)
                keys = {"environment": name, "imputation": imputation, "ratio": ratio}
                rows.append({**keys, "leaders": leading, "value": values.max()})
    return pd.DataFrame(rows, columns=["environment", "imputation", "ratio", "leaders", "value"])


def levels_table(summary: pd.DataFrame) -> pd.DataFrame:
    """Return how many predictive levels all maps reach, by indicator, and how many in a jump."""
    table = summary.groupby("indicator", sort=False)[["levels", "jumped"]].sum().reset_index()
    count = summary.groupby("indicator", sort=False).size().to_numpy()
    table.insert(1, "tried", len(LEVELS) * count)
    return table.rename(columns={"levels": "reached"})
