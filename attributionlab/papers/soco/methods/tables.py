"""Tables of what soundness, completeness, ROAD and Deletion say of methods, and of what is true."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from attributionlab.metrics import area_under_curve, true_completeness, true_soundness
from attributionlab.papers.soco.maps import PLAIN
from attributionlab.papers.soco.methods.measures import FRACTIONS, REMOVALS, Case, Measured
from attributionlab.papers.subjects.subjects import Subject
from attributionlab.ranking import fisher_interval, spearman
from attributionlab.stats.runs import over_runs

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 4
"""Methods that an interval of a correlation needs."""
GAIN = 0.01
"""Smaller differences are none."""
SUMMARY = (
    "label probability; soundness: mean over the predictive levels that the map reaches, levels: how "
    "many of nine, jumped: of these passed by more than epsilon; true_soundness: Definition 4.8 of the "
    "same pixels, all_soundness: of all attributed pixels, all_completeness: Definition 4.9 of these; "
    "completeness: mean fall over nine thresholds, "
    "true_completeness: Definition 4.9; higher is better in all of these and in LeRF, lower in MoRF; "
    "road and deletion: mean height over fractions removed, 0 to 0.9; deletion fills with black; "
    "noise: of the ensembles' samples; empty: maps of zeros; lowest, highest: of several runs of a "
    "method that optimizes"
)
SHOWN = {
    "ensembles": SUMMARY,
    "methods": SUMMARY,
    "agreement": "Spearman correlation, over all methods, of what a metric says (lower-is-better ones "
    "reversed) with what it estimates (soundness: of the same pixels; low, high: 95 % interval by "
    "Fisher's z for count methods, of which four, integrated gradients and its ensembles, are not "
    "independent), with the true soundness of all attributed pixels and with true completeness",
    "networks": "of trained networks, label probability: mean, least and greatest over networks, each "
    f"trained and asked with its own seed; better, worse: in how many of them by more than {GAIN:g} "
    "than integrated gradients",
    "noise": "true ratios by noise, in units of the value range, on so many images; noise 0 is the "
    "method itself; empty: maps of zeros",
}
SIGNS = {
    "soundness": 1,
    "completeness": 1,
    "road-morf": -1,
    "road-lerf": 1,
    "deletion-morf": -1,
    "deletion-lerf": 1,
}
"""Which way is better."""
AGREEMENT = (
    *("environment", "imputation", "indicator", "methods", "metric"),
    *("with_own", "low", "high", "count", "with_soundness", "with_completeness"),
)


def _each(cases: Iterable[Case]) -> Iterator[tuple[Case, dict[str, Any], Measured]]:
    for case in cases:
        for indicator, by_method in case.found.items():
            for method, result in by_method.items():
                keys = {
                    "environment": case.subject.name,
                    "imputation": case.imputation,
                    "indicator": indicator,
                    "method": method,
                }
                yield case, keys, result


def rows_of(cases: Iterable[Case]) -> dict[str, list[dict[str, Any]]]:
    """The rows of "soundness", "completeness" and "removal", point by point."""
    rows: dict[str, list[dict[str, Any]]] = {"soundness": [], "completeness": [], "removal": []}
    for _, keys, result in _each(cases):
        rows["soundness"] += [keys | row for row in result.levels]
        rows["completeness"] += [keys | row for row in result.thresholds]
        rows["removal"] += [keys | row for row in result.removals]
    return rows


def summary_table(
    cases: Iterable[Case], maps_of: Mapping[str, Mapping[str, Tensor]]
) -> "pd.DataFrame":
    """One row for each case, indicator and method; `maps_of` by the subject's name and method."""
    import pandas as pd

    rows = []
    for case, keys, result in _each(cases):
        maps, phi = maps_of[case.subject.name][keys["method"]], case.subject.information
        reached = [row for row in result.levels if row["reached"]]
        rows.append(
            {
                **keys,
                "noise": case.noise,
                "soundness": _mean([row["soundness"] for row in reached]),
                "true_soundness": _mean([row["true_soundness"] for row in reached]),
                "levels": len(reached),
                "jumped": sum(row["jumped"] for row in reached),
                **_true_ratios(maps, phi),
                "completeness": _mean([row["completeness"] for row in result.thresholds]),
                "true_completeness": _mean([row["true_completeness"] for row in result.thresholds]),
                **{metric: _height(result.curves[metric]) for metric in REMOVALS},
                "empty": _empty(maps),
            }
        )
    return pd.DataFrame(rows)


def with_other_runs(summary: "pd.DataFrame", others: Sequence["pd.DataFrame"]) -> "pd.DataFrame":
    """A summary with the lowest and the highest numbers below each method that optimizes.

    Parameters
    ----------
    summary : DataFrame
        Of the first run, one row for each environment, imputation, indicator and method.
    others : sequence of DataFrame
        Of each other run, the methods that have it.
    """
    import pandas as pd

    keys = ["environment", "imputation", "indicator", "method"]
    keys = [key for key in keys if key in summary]
    numbers = [name for name in summary if name not in keys]
    known: dict[Any, list[Any]] = {}
    for each in others:
        for key, row in each.set_index(keys).iterrows():
            known.setdefault(key, []).append(row)
    rows = []
    for first in summary.to_dict("records"):
        rows.append(first)
        found = [first, *known.get(tuple(first[key] for key in keys), [])]
        rows += [
            {
                **first,
                "method": f"{first['method']}, {name}",
                **{number: end([float(run[number]) for run in found]) for number in numbers},
            }
            for name, end in over_runs(len(found)).items()
        ]
    types = summary.dtypes.to_dict()
    return pd.DataFrame(rows, columns=list(summary)).astype(types)


def agreement_table(summary: "pd.DataFrame", groups: Mapping[str, Sequence[str]]) -> "pd.DataFrame":
    """Correlation of each metric with both truths, over the methods of each group and over all."""
    import pandas as pd

    everything = dict.fromkeys(name for names in groups.values() for name in names)
    rows = []
    keys = ["environment", "imputation", "indicator"]
    for key, here in summary.groupby(keys, sort=False):
        for group, names in {**groups, "all": tuple(everything)}.items():
            chosen = here[here.method.isin(names)]
            for metric, sign in SIGNS.items():
                says = sign * chosen[metric].to_numpy(float)
                truth = f"true_{metric}"
                rows.append(
                    {
                        **dict(zip(keys, key, strict=True)),
                        "methods": group,
                        "metric": metric,
                        **_own(says, chosen.get(truth)),
                        "with_soundness": _correlation(says, chosen.all_soundness),
                        "with_completeness": _correlation(says, chosen.true_completeness),
                    }
                )
    return pd.DataFrame(rows, columns=list(AGREEMENT))


def _own(says: Any, truth: Any) -> dict[str, Any]:
    """With the truth that a metric estimates; ROAD and Deletion estimate none."""
    nothing = {"with_own": math.nan, "low": math.nan, "high": math.nan, "count": 0}
    if truth is None:
        return nothing
    count = int((np.isfinite(says) & np.isfinite(truth.to_numpy(float))).sum())
    correlation = _correlation(says, truth)
    # Fisher's z of a perfect correlation is infinite, and its interval has no width.
    if math.isnan(correlation) or abs(correlation) > 1 - 1e-12 or count < FEWEST:
        return nothing | {"with_own": correlation, "count": count}
    interval = fisher_interval(correlation, count)
    return {"with_own": correlation, "low": interval.low, "high": interval.high, "count": count}


def _correlation(first: Any, second: Any) -> float:
    return spearman(first, second.to_numpy(float), missing="omit")


def networks_table(summary: "pd.DataFrame") -> "pd.DataFrame":
    """What metrics say of each method on several networks of one kind, a row in `summary` each.

    Parameters
    ----------
    summary : DataFrame
        Of one indicator; `environment` tells the networks apart.
    """
    import pandas as pd

    rows = []
    for metric, sign in SIGNS.items():
        wide = summary.pivot(index="environment", columns="method", values=metric)
        for method in dict.fromkeys(summary.method):
            values = wide[method]
            gains = sign * (values - wide[PLAIN])
            rows.append(
                {
                    "method": method,
                    "metric": metric,
                    "mean": float(values.mean()),
                    "least": float(values.min()),
                    "greatest": float(values.max()),
                    "better": int((gains > GAIN).sum()),
                    "worse": int((gains < -GAIN).sum()),
                    "networks": int(values.notna().sum()),
                }
            )
    return pd.DataFrame(rows)


def noise_rows(subject: Subject, noise: float, maps: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """True ratios and empty maps of some images' ensembles; `maps` by method."""
    rows = []
    for name, of_name in maps.items():
        phi = subject.information
        ratios = _true_ratios(of_name, None if phi is None else phi[: len(of_name)])
        rows.append(
            {
                "environment": subject.name,
                "noise": noise,
                "method": name,
                **ratios,
                "empty": _empty(of_name),
                "images": len(of_name),
            }
        )
    return rows


def _true_ratios(maps: Tensor, phi: Tensor | None) -> dict[str, float]:
    if phi is None:
        return {"all_soundness": math.nan, "all_completeness": math.nan}
    return {
        "all_soundness": float(true_soundness(maps, phi).nanmean()),
        "all_completeness": float(true_completeness(maps, phi).mean()),
    }


def _empty(maps: Tensor) -> int:
    return int((maps == 0).flatten(1).all(1).sum())


def _height(curves: Any) -> float:
    """Mean over images (B, fractions) and over the fractions removed, as `metrics.road` has it."""
    mean = torch.from_numpy(curves).mean(0)
    area = area_under_curve(mean, torch.tensor(FRACTIONS, dtype=torch.float64))
    return float(area) / (FRACTIONS[-1] - FRACTIONS[0])


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan
