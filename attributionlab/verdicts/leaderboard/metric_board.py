"""What ranking metrics in many worlds found."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from attributionlab.base import (
    FEWEST_FOR_ORDER,
    ROUNDING,
    Files,
    Interval,
    Numbers,
    applicable,
    as_json,
    attributes,
    independent_difference,
    library_versions,
    mean_interval,
    mean_score,
    share_interval,
)
from attributionlab.metrics.ranking import CorrelationInterval
from attributionlab.verdicts.metric_trials.graded import DEFINITIONS
from attributionlab.worlds import FEATURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFINED = len(DEFINITIONS)
NOT_BUILT = "not built"
"""Stands for a verdict where a world has no such questions at its size."""
NONE = CorrelationInterval(math.nan, math.nan, math.nan)
NOTES = (
    "Intervals are 95 % intervals over worlds; those of drop over the questions of the one environment "
    "in which something is unseen.",
    "valid: share of the worlds in which the metric is valid; one that refuses it is not. Worlds "
    "without such questions at this size are left out.",
    "estimates: the definition of the truth with which the scores correlate more than with each other "
    "one, by 95 % intervals over worlds; none: that of the swap contrast or of the highest correlation "
    "has nothing above 0; not told apart: not enough evidence.",
    "seconds: CPU time for one map on its own, median over worlds.",
    "mask, shapley, ablation, insertion: correlation of the scores with the closeness of maps to each "
    "definition of the truth. Intervals, and agreement by feature, are in --json.",
)


class MetricInWorld(NamedTuple):
    """What became of a metric in one world."""

    metric: str
    world: str
    rule: str
    features: tuple[str, ...] | None
    """what a random world asks; None for another environment"""
    verdict: str
    """that of the trial, "refused", or "not built" where the world has no such questions"""
    reason: str
    agreement: CorrelationInterval = NONE
    contrast: CorrelationInterval = NONE
    drop: CorrelationInterval = NONE
    seconds: float = math.nan
    correlations: Numbers = np.full(DEFINED, math.nan)
    """(definitions,): of the scores with nearness to each, mean over questions"""
    differences: Numbers = np.full((DEFINED, DEFINED), math.nan)
    """(definitions, definitions): correlation with the first less that with the second, mean over the
    questions that tell the two apart"""
    warned: Sequence[str] = ()
    """what the metric did that had to be repaired"""


@dataclass(frozen=True, eq=False, kw_only=True)
class MetricBoard(Files):
    """Metrics ranked by their agreement with the truth.

    - `metrics`: whether higher is better, by name.
    - `results`: a row for each metric in each world that is done.
    - `environments`: names of the environments, including random worlds.
    - `seed`, `image_size`: seed of the questions if a world has none of its own, and size of all
      images.
    - `n`: questions in each world.
    - `command`: how to run it again.
    - `wanted`: rows when all is done.
    """

    metrics: Mapping[str, bool]
    results: Sequence[MetricInWorld]
    environments: Sequence[str]
    seed: int
    image_size: int
    n: int
    command: str
    wanted: int

    @property
    def title(self) -> str:
        """What was ranked, in a line."""
        places = len({each.world for each in self.results})
        left = f"; {len(self.results)} of {self.wanted} rows done" if self.incomplete else ""
        return (
            f"{len(self.metrics)} metrics in {places} worlds (seed {self.seed}, {self.image_size} x "
            f"{self.image_size} pixels), {self.n} questions in each{left}"
        )

    @property
    def incomplete(self) -> bool:
        """Whether the work was stopped early."""
        return len(self.results) < self.wanted

    @property
    def notes(self) -> list[str]:
        """What the columns mean."""
        return list(NOTES)

    def to_frame(self) -> pd.DataFrame:
        """A row for each metric, the highest mean agreement first.

        Columns: metric, tested (number of worlds), agreement, contrast, valid and drop, each with _low
        and _high, seconds, and estimates (`nearest_definition`). NaN for missing values.
        """
        rows = []
        for name, own in self._by_metric().items():
            row: dict[str, Any] = {
                "metric": name,
                "tested": sum(each.verdict not in ("refused", NOT_BUILT) for each in own),
            }
            for key in ("agreement", "contrast"):
                row |= _mean(np.array([getattr(each, key).value for each in own])).as_columns(key)
            built = [each for each in own if each.verdict != NOT_BUILT]
            row |= _share(sum(e.verdict == "valid" for e in own), len(built)).as_columns("valid")
            drops = [each.drop for each in own if not math.isnan(each.drop.value)]
            row |= (drops[0] if drops else NONE).as_columns("drop")
            seconds = [each.seconds for each in own if not math.isnan(each.seconds)]
            row["seconds"] = float(np.median(seconds)) if seconds else math.nan
            row["estimates"] = nearest_definition(own)
            rows.append(row)
        return pd.DataFrame(rows)

    def shown(self) -> pd.DataFrame:
        """The same in fewer columns, with each interval after its value, and the correlation with each
        definition of the truth.
        """
        from attributionlab.show import in_text

        table = in_text(self.to_frame(), "agreement", "contrast", "valid", "drop")
        found = self.definitions().pivot(index="metric", columns="definition", values="correlation")
        return table.merge(found[list(DEFINITIONS)], left_on="metric", right_index=True, how="left")

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the terminal, by title."""
        return {"": self.shown(), "Refused": self.refused(), "Not built": self.not_built()}

    def definitions(self) -> pd.DataFrame:
        """A row for each metric and definition of the truth.

        Columns: metric, definition, correlation of the scores with closeness to it (low, high), worlds,
        and less: the difference from the highest correlation with a definition, on questions that
        distinguish the two (less_low, less_high, less_worlds).
        """
        rows = []
        for name, own in self._by_metric().items():
            each, difference = _stacked(own)
            best = _best(each)
            for place, definition in enumerate(DEFINITIONS):
                less = difference[:, best, place] if best is not None else each[:, place] * math.nan
                rows.append(
                    {"metric": name, "definition": definition}
                    | _mean(each[:, place]).as_columns("correlation")
                    | {"worlds": applicable(each[:, place])}
                    | _mean(less).as_columns("less")
                    | {"less_worlds": applicable(less)}
                )
        return pd.DataFrame(rows)

    def by_feature(self) -> pd.DataFrame:
        """Mean agreement in random worlds whose rule has a feature and in those without, by metric.

        Columns: metric, feature, with, without, difference, low, high (`independent_difference`),
        worlds_with, worlds_without: number of worlds that have an agreement.
        """
        rows = []
        for name, results in self._by_metric().items():
            own = [each for each in results if each.features is not None]
            agreement = np.array([each.agreement.value for each in own])
            for feature in FEATURES if own else ():
                there = np.array([feature in (each.features or ()) for each in own])
                has, lacks = agreement[there], agreement[~there]
                difference, interval = independent_difference(has, lacks)
                low, high = interval or (math.nan, math.nan)
                rows.append(
                    {
                        "metric": name,
                        "feature": feature,
                        "with": mean_score(has),
                        "without": mean_score(lacks),
                        "difference": difference,
                        "low": low,
                        "high": high,
                        "worlds_with": applicable(has),
                        "worlds_without": applicable(lacks),
                    }
                )
        return pd.DataFrame(rows)

    def by_world(self) -> pd.DataFrame:
        """A row for each metric in each world: verdict, agreement, contrast, drop, seconds, correlation
        with each definition, and the reason for a refusal.
        """
        return pd.DataFrame(
            [
                {
                    **attributes(each, "metric", "world", "rule"),
                    "features": "" if each.features is None else ", ".join(each.features),
                    "verdict": each.verdict,
                    "agreement": each.agreement.value,
                    "contrast": each.contrast.value,
                    "drop": each.drop.value,
                    "seconds": each.seconds,
                    **dict(zip(DEFINITIONS, each.correlations.tolist(), strict=True)),
                    "reason": each.reason,
                }
                for each in self.results
            ]
        )

    def refused(self) -> pd.DataFrame:
        """A row for each reason why a metric was refused: metric, reason, worlds."""
        table = self.by_world()
        table = table[table["verdict"] == "refused"]
        return table.groupby(["metric", "reason"], sort=False).size().reset_index(name="worlds")

    def not_built(self) -> pd.DataFrame:
        """A row for each world without such questions: world, reason."""
        table = self.by_world()
        return table[table["verdict"] == NOT_BUILT][["world", "reason"]].drop_duplicates()

    def figure(self) -> "Figure":
        """Agreement and correlations with each definition, by metric, with intervals over worlds."""
        from attributionlab.show import dots

        frame = self.to_frame().dropna(subset="agreement")
        agreement = frame.assign(panel="Agreement with the mask", of="all graded maps (lowest F1)")
        tables = [agreement[["metric", "panel", "of", "agreement", *_ends("agreement")]]]
        found = self.definitions()
        found = found[found["metric"].isin(frame["metric"])]
        found = found.assign(panel="Scores and closeness to a definition", of=found["definition"])
        tables.append(found[["metric", "panel", "of", "correlation", *_ends("correlation")]])
        names = ["metric", "panel", "of", "value", "low", "high"]
        table = pd.concat([each.set_axis(names, axis=1) for each in tables], ignore_index=True)
        return dots(
            table,
            "value",
            "metric",
            color="of",
            panel="panel",
            title=f"{self.title}\nmeans and 95 % intervals over worlds",
            xlabel="Spearman's correlation (higher is better)",
            reference=0.0,
        )

    def to_dict(self) -> dict[str, Any]:
        """Document that `to_json` writes."""
        found: dict[str, Any] = as_json(
            {
                "schema": 1,
                **attributes(self, "environments", "seed", "image_size", "n", "incomplete"),
                "higher_is_better": self.metrics,
                "metrics": self.to_frame(),
                "definitions": self.definitions(),
                "by_feature": self.by_feature(),
                "by_world": self.by_world(),
                "notes": self.notes,
                "command": self.command,
                "versions": library_versions(),
            }
        )
        return found

    def _by_metric(self) -> dict[str, list[MetricInWorld]]:
        """The highest mean agreement first; without any last."""
        found = {name: [e for e in self.results if e.metric == name] for name in self.metrics}
        means = {
            name: mean_score(np.array([each.agreement.value for each in own]))
            for name, own in found.items()
        }
        order = sorted(found, key=lambda name: (math.isnan(means[name]), -means[name]))
        return {name: found[name] for name in order}


def nearest_definition(worlds: Sequence[MetricInWorld]) -> str:
    """Which definition of the truth a metric estimates, by what it did in each world.

    By 95 % intervals over worlds, each of at least six that have the number; fewer say nothing.

    - *none*: the interval of the swap contrast, or of the correlation with the nearest definition, has
      nothing above 0, as of a metric that never looks at the network, whose contrast is 0 everywhere.
    - A *definition*: swap contrast and the correlation with it are above 0, and so is the difference
      between that correlation and each other one, taken where the two can be told apart.
    - *not told apart*: all else, a lack of evidence.
    """
    correlations, differences = _stacked(worlds)
    best = _best(correlations)
    found = [_decisive(np.array([each.contrast.value for each in worlds]))]
    if best is not None:
        found.append(_decisive(correlations[:, best]))
    if any(each.high <= ROUNDING for each in found):
        return "none"
    if best is not None:
        others = [place for place in range(DEFINED) if place != best]
        found += [_decisive(differences[:, best, other]) for other in others]
        if all(each.low > ROUNDING for each in found):
            return DEFINITIONS[best]
    return "not told apart"


def _stacked(worlds: Sequence[MetricInWorld]) -> tuple[Numbers, Numbers]:
    """Correlations (worlds, definitions) and their differences (worlds, definitions, definitions)."""
    each = np.array([world.correlations for world in worlds]).reshape(-1, DEFINED)
    between = np.array([world.differences for world in worlds]).reshape(-1, DEFINED, DEFINED)
    return each, between


def _best(correlations: Numbers) -> int | None:
    """The definition with the highest mean; None without any."""
    means = [mean_score(column) for column in correlations.T]
    return None if np.isnan(means).all() else int(np.nanargmax(means))


def _decisive(values: Numbers) -> Interval:
    """Interval over worlds; NaN, which lies on no side of 0, where it is of too few."""
    enough = applicable(values) >= FEWEST_FOR_ORDER
    return Interval(*_mean(values)[1:]) if enough else Interval(math.nan, math.nan)


def _mean(values: Numbers) -> CorrelationInterval:
    """Mean over worlds and its interval."""
    low, high = mean_interval(values, seed=0) or Interval(math.nan, math.nan)
    return CorrelationInterval(mean_score(values), low, high)


def _share(hits: int, worlds: int) -> CorrelationInterval:
    """A share of the worlds and its interval."""
    return CorrelationInterval(hits / worlds, *share_interval(hits, worlds)) if worlds else NONE


def _ends(name: str) -> tuple[str, str]:
    return f"{name}_low", f"{name}_high"
