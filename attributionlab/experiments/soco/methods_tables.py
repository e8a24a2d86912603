"""Tables of what soundness, completeness, ROAD and Deletion say of methods, and of what is true."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from torch import Tensor

from attributionlab.experiments.soco.methods_measures import FRACTIONS, REMOVALS, Measured
from attributionlab.experiments.soco.methods_subjects import Subject
from attributionlab.metrics import true_completeness, true_soundness
from attributionlab.ranking import spearman

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SHOWN", "agreement_table", "noise_rows", "rows_of", "summary_table"]

SUMMARY = (
    "label probability; soundness: mean over the predictive levels that the map reaches, levels: how "
    "many of nine, jumped: of these passed by more than epsilon; true_soundness: Definition 4.8 of the "
    "same pixels, all_soundness: of all attributed pixels, all_completeness: Definition 4.9 of these; "
    "completeness: mean fall over nine thresholds, "
    "true_completeness: Definition 4.9; higher is better in all of these and in LeRF, lower in MoRF; "
    "empty: maps of zeros"
)
SHOWN = {
    "ensembles": SUMMARY,
    "methods": SUMMARY,
    "agreement": "Spearman correlation, over all methods, of what a metric says (lower-is-better ones "
    "reversed) with what it estimates (soundness: of the same pixels), with the true soundness of all "
    "attributed pixels and with true completeness",
    "noise": "true ratios by noise, in units of the value range, on the first images; noise 0 is the "
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


class _Case(Protocol):
    @property
    def subject(self) -> Subject: ...
    @property
    def imputation(self) -> str: ...
    @property
    def found(self) -> Mapping[str, Mapping[str, Measured]]: ...


def _each(cases: Iterable[_Case]) -> Iterator[tuple[_Case, dict[str, Any], Measured]]:
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


def rows_of(cases: Iterable[_Case]) -> dict[str, list[dict[str, Any]]]:
    """The rows of "soundness", "completeness" and "removal", point by point."""
    rows: dict[str, list[dict[str, Any]]] = {"soundness": [], "completeness": [], "removal": []}
    for _, keys, result in _each(cases):
        rows["soundness"] += [keys | row for row in result.levels]
        rows["completeness"] += [keys | row for row in result.thresholds]
        rows["removal"] += [keys | row for row in result.removals]
    return rows


def summary_table(
    cases: Iterable[_Case], maps_of: Mapping[str, Mapping[str, Tensor]]
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
                "soundness": _mean([row["soundness"] for row in reached]),
                "true_soundness": _mean([row["true_soundness"] for row in reached]),
                "levels": len(reached),
                "jumped": sum(row["jumped"] for row in reached),
                **_true_ratios(maps, phi),
                "completeness": _mean([row["completeness"] for row in result.thresholds]),
                "true_completeness": _mean([row["true_completeness"] for row in result.thresholds]),
                **{metric: _area(result.curves[metric].mean(0)) for metric in REMOVALS},
                "empty": _empty(maps),
            }
        )
    return pd.DataFrame(rows)


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
                rows.append(
                    {
                        **dict(zip(keys, key, strict=True)),
                        "methods": group,
                        "metric": metric,
                        "with_own": _own(metric, says, chosen),
                        "with_soundness": _correlation(says, chosen.all_soundness),
                        "with_completeness": _correlation(says, chosen.true_completeness),
                    }
                )
    return pd.DataFrame(rows)


def _own(metric: str, says: Any, chosen: "pd.DataFrame") -> float:
    """With the truth that a metric estimates; ROAD and Deletion estimate none."""
    column = f"true_{metric}"
    return _correlation(says, chosen[column]) if column in chosen else math.nan


def _correlation(first: Any, second: Any) -> float:
    return spearman(first, second.to_numpy(float), missing="omit")


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


def _area(curve: "np.ndarray[Any, Any]") -> float:
    """Mean height over the fractions removed."""
    return float(np.trapezoid(curve, FRACTIONS) / (FRACTIONS[-1] - FRACTIONS[0]))


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan
