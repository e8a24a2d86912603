"""What ranking methods in many cases found."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, count
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attributionlab.base import (
    CONFIDENCE,
    Files,
    Numbers,
    as_json,
    attributes,
    library_versions,
    over_runs,
    run_name,
)
from attributionlab.methods import figure_label
from attributionlab.metrics import resampled_meta_rank
from attributionlab.metrics.ranking import CorrelationInterval, spearman
from attributionlab.verdicts.leaderboard.agreement import (
    SAME_F1,
    SCORE_DIGITS,
    Fusion,
    correlation_with_truth,
    fused,
    placed,
    ranks_of,
    true_scores,
)
from attributionlab.verdicts.leaderboard.cases import ALL, PROTOCOLS, SUBSETS, CaseScores
from attributionlab.verdicts.metric_trials.agreement import RankedBy
from attributionlab.worlds import FEATURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CONTROL, ORACLE = "random", "oracle"
"""The control is ranked with the methods; the oracle, the exact signed mask, is looked at alone."""
STRONG = 0.7
"""Correlations from it up count as strong (Akoglu, 2018: "User's guide to correlation coefficients",
after Dancey and Reidy, 2007)."""
FEWEST_TO_TELL = 5
"""Methods: of four, one random order in six correlates by 0.7 or more."""
NOTES = (
    "truth: lowest F1 of all masks; agreement ranked_by: F1 on all pixels without signs (overall), on "
    "pixels that speak for the label (positive), the lowest of all masks (signed).",
    "low and high: intervals for other pairs of images and network (bootstrap), not given for fewer "
    "than three pairs; low_methods and high_methods: for other methods, too. Pairs that share images "
    "are not independent: these intervals are for other networks of the same images, not for other "
    "images.",
    "ceiling: the most that a ranking without ties can reach, as the truth has ties. gain: by how much "
    "fusing correlates higher than a single case does on average.",
    "Log odds are not transitive: residual is the part that scores do not explain (root mean square), "
    "to be compared with spread, the standard deviation of the scores.",
    "A method's rank depends on the other methods: left_out states how many of the others swap ranks "
    "if a method is left out.",
    "The exact signed mask is not ranked. Where a method beats it, removal prefers something other "
    "than the mask.",
)
IN_WORLDS = (
    "Worlds from rules have no unseen data, and removed pixels take the true baseline; in regression "
    "worlds the output replaces the indicator. by feature: correlation of the cases in the worlds with "
    "and without it, fused alone, with their truth."
)
WHERE_MISSING = (
    "If a method is missing in some cases, the truth is compared within cases, too: its ranks there "
    "are fused by Meta-Rank, in place of means over different cases."
)


@dataclass(frozen=True, eq=False)
class Leaderboard(Files):
    """Methods ranked in many cases, fused into one ranking and compared with the truth's.

    - `methods`: all that are ranked, including the control "random".
    - `cases`: one for each pair and protocol.
    - `indicator`: the indicator whose areas are compared.
    - `n`, `size`, `seed`: images of each pair, their side in pixels, and the seed of everything.
    - `confidence`: confidence of the intervals.
    - `command`: how to run it again.
    - `wanted`: planned number of pairs; larger than the number done if it was stopped.
    """

    methods: list[str]
    cases: list[CaseScores]
    indicator: str
    n: int
    size: int
    seed: int
    confidence: float = CONFIDENCE
    command: str = field(default="", repr=False)
    wanted: int | None = None

    def __repr__(self) -> str:
        return f"Leaderboard({len(self.methods)} methods, {len(self.cases)} cases)"

    def __str__(self) -> str:
        tables = {
            "leaderboard": self.to_frame(),
            "agreement": self.agreement(),
            "checks": self.checks(),
        }
        texts = [f"{name}\n{table.to_string(index=False)}" for name, table in tables.items()]
        return "\n\n".join([self.title, *texts, *self.notes])

    @property
    def title(self) -> str:
        """What was ranked, and where."""
        pairs = self.pairs
        stopped = f"; stopped after {pairs} of {self.wanted} pairs" if self.stopped else ""
        seen_by = self.indicator.replace("-", " ")
        if any(case.in_world for case in self.cases):
            seen_by += ", in regressions by the output"
        return (
            f"{sum(self.is_method)} methods and a control ranked in {len(self.cases)} cases ({pairs} "
            f"pairs of images and network, each MoRF and LeRF) by {seen_by}; "
            f"{self.n} images of {self.size} x {self.size} pixels each{stopped}"
        )

    @property
    def pairs(self) -> int:
        """How many pairs of images and network there are."""
        return len({case.pair for case in self.cases})

    @property
    def stopped(self) -> bool:
        """Whether the ranking was stopped before all pairs were done."""
        return self.wanted is not None and self.pairs < self.wanted

    @cached_property
    def areas(self) -> Numbers:
        """(methods, cases), NaN if a method is missing."""
        return self._table([case.areas for case in self.cases])

    @cached_property
    def truths(self) -> dict[RankedBy, Numbers]:
        """F1, mean over images: (methods, cases), NaN if a method is missing."""
        return {
            by: self._table(
                [{name: f1[by] for name, f1 in case.truth.items()} for case in self.cases]
            )
            for by in get_args(RankedBy)
        }

    @property
    def truth(self) -> Numbers:
        """The lowest F1 of all parts, (methods, cases)."""
        return self.truths["signed"]

    @cached_property
    def ranks(self) -> Numbers:
        """(methods, cases), 1 is best."""
        return ranks_of(self.areas, [case.lower_is_better for case in self.cases])

    @property
    def is_method(self) -> list[bool]:
        """Which of the methods are not controls."""
        return [method != CONTROL for method in self.methods]

    @cached_property
    def fusions(self) -> dict[str, Fusion]:
        """Fused rankings of all cases and of subsets; without subsets of fewer than two cases, and
        without those in which a method is missing.
        """
        found = {}
        for name, belongs in SUBSETS.items():
            chosen = [index for index, case in enumerate(self.cases) if belongs(case)]
            ranks = self.ranks[:, chosen]
            if len(chosen) < 2 or np.isnan(ranks).all(1).any():
                continue
            found[name] = fused(
                ranks,
                {by: values[:, chosen] for by, values in self.truths.items()},
                [self.cases[index].pair for index in chosen],
                self.is_method,
                confidence=self.confidence,
                seed=self.seed,
            )
        return found

    def to_frame(self) -> "pd.DataFrame":
        """`ranking`; below each method that optimizes, the lowest and highest of each number over its
        runs, each run replacing the first one in the whole leaderboard.
        """
        table, rows = self.ranking(), []
        for row in table.to_dict("records"):
            rows.append(row)
            found = [row]
            for other in self._with_other_runs(row["method"]):
                of_run = other.ranking().set_index("method", drop=False)
                found.append(of_run.loc[row["method"]].to_dict())
            for name, end in over_runs(len(found)).items():
                ends = {
                    key: end([float(run[key]) for run in found]) for key in row if key != "method"
                }
                rows.append({"method": f"{row['method']}, {name}", **ends})
        return pd.DataFrame(rows).astype(table.dtypes.to_dict())

    def tables(self) -> "dict[str, pd.DataFrame]":
        """The tables of the terminal, by title."""
        agreement = self.agreement()
        shown = (agreement["ranked_by"] == "signed") | (agreement["fused"] == ALL)
        return {
            "": self.to_frame(),
            "Spearman correlation of the fused ranking with the truth's": agreement[shown],
            "What follows": self.checks(),
            "Swaps among the other methods if one is left out": self.left_out(),
            "Correlation with the truth, fused for each set of images alone": self.by_images(),
            "Correlation in random worlds with and without a feature, fused alone": self.by_feature(),
            "Missing": self.missing(),
        }

    def _with_other_runs(self, method: str) -> Iterator["Leaderboard"]:
        """The same with each other run of a method in place of its first."""
        for index in count(1):
            run = run_name(method, index)
            if not any(run in case.areas for case in self.cases):
                return
            yield replace(
                self,
                cases=[
                    case._replace(
                        areas={**case.areas, method: case.areas[run]},
                        truth={**case.truth, method: case.truth[run]},
                    )
                    if run in case.areas
                    else case
                    for case in self.cases
                ],
            )

    def ranking(self) -> "pd.DataFrame":
        """The leaderboard, best method first, by the first run of each.

        Columns: method, place, score (Meta-Rank, log odds), low, high (for other pairs), cases, truth
        (lowest F1, mean over these cases), truth_place (by truth; by fused ranks if cases are missing).
        """
        fit, [ordered] = self.fusions[ALL], true_scores(self.truth, self.once)
        table = pd.DataFrame(
            {
                "method": self.methods,
                "place": placed(fit.scores),
                "score": fit.scores,
                "low": fit.low,
                "high": fit.high,
                "truth_place": placed(ordered),
                "truth": np.nanmean(self.truth, axis=1),
                "cases": (~np.isnan(self.areas)).sum(1),
            }
        )
        return table.sort_values("score", ascending=False, kind="stable").reset_index(drop=True)

    def agreement(self) -> "pd.DataFrame":
        """Spearman's correlation of fused rankings with the truth's, by the cases fused.

        Columns: fused, ranked_by (which of the truth's rankings: "signed" is by the lowest F1 of all
        parts), cases, correlation, low, high (other pairs of images and network), low_methods,
        high_methods (other methods, too), single_case (mean correlation of one case with the same
        truth), single_low, single_high, gain (correlation minus single_case), gain_low, gain_high,
        ceiling (of a ranking without ties), spread (standard deviation of the scores), residual (of
        Meta-Rank's fit).
        """
        return pd.DataFrame(
            {
                "fused": name,
                "ranked_by": by,
                "cases": fit.cases,
                "correlation": found.correlation.value,
                "low": found.correlation.low,
                "high": found.correlation.high,
                "low_methods": found.for_other_methods.low,
                "high_methods": found.for_other_methods.high,
                "single_case": found.single.value,
                "single_low": found.single.low,
                "single_high": found.single.high,
                **found.gain.as_columns("gain"),
                "ceiling": fit.ceiling[by],
                "spread": fit.scores.std(),
                "residual": fit.residual,
            }
            for name, fit in self.fusions.items()
            for by, found in fit.agreement.items()
        )

    def oracle_wins(self) -> list[bool]:
        """For each case, whether the exact signed mask has the best area of all."""
        found = []
        for column, case in enumerate(self.cases):
            both = np.append(self.areas[:, column], case.areas[ORACLE])
            [ranks] = ranks_of(both[:, None], [case.lower_is_better]).T
            found.append(bool(np.nanmin(ranks[:-1]) >= ranks[-1]))
        return found

    def truth_by_case(self) -> float:
        """Mean Spearman correlation between the truth's own rankings of any two pairs; NaN for one."""
        first = {case.pair: column for column, case in reversed(list(enumerate(self.cases)))}
        scores = np.round(self.truth[self.is_method] / SAME_F1)
        each = [
            spearman(scores[:, one], scores[:, other], missing="omit")
            for one, other in combinations(first.values(), 2)
        ]
        known = [value for value in each if not math.isnan(value)]
        return float(np.mean(known)) if known else math.nan

    def checks(self) -> "pd.DataFrame":
        """What follows from the tables: columns check, answer (yes, no, undecided, or why there is
        none; empty if there is only a number), value, of (total number).

        Fusing recovers the truth's ranking if both intervals of the correlation lie at or above 0.7,
        and does not if both lie below it.
        """
        fusions = self.fusions
        fit = fusions[ALL].agreement["signed"]
        pairs, wins = {case.pair for case in self.cases}, self.oracle_wins()
        found, others, gain = fit.correlation, fit.for_other_methods, fit.gain
        few = (
            "" if sum(self.is_method) >= FEWEST_TO_TELL else f"fewer than {FEWEST_TO_TELL} methods"
        )
        ends = min(found.low, others.low), max(found.high, others.high)
        undefined = "all scores are equal" if math.isnan(found.value) else few
        rows: list[tuple[str, str, float, float]] = [
            (
                f"fusing recovers the truth's ranking (correlation of at least {STRONG:g})",
                undefined or _answer(ends[0] >= STRONG, ends[1] < STRONG, found),
                *(found.value, math.nan),
            ),
            (
                "the fused ranking is closer to the truth than that of an average case (gain)",
                _answer(gain.low > 0, gain.high < 0, gain),
                *(gain.value, math.nan),
            ),
        ]
        if "no unseen data" in fusions and "unseen data" in fusions:
            clean, unseen = (
                fusions[name].agreement["signed"].correlation
                for name in ("no unseen data", "unseen data")
            )
            rows.append(
                (
                    "cases without unseen data agree better with the truth than those with it",
                    _answer(clean.low > unseen.high, clean.high < unseen.low, clean, unseen),
                    *(clean.value - unseen.value, math.nan),
                )
            )
        moved, scores = self.left_out().moved, np.round(fusions[ALL].scores, SCORE_DIGITS)
        behind = int((scores < scores[self.methods.index(CONTROL)]).sum())
        rows += [
            ("methods behind the control random", "", behind, sum(self.is_method)),
            ("cases in which no method beats the exact signed mask", "", sum(wins), len(wins)),
            (
                "mean correlation of the truth's own rankings of two pairs",
                *("", self.truth_by_case(), math.nan),
            ),
            ("sets of images that pairs share", "", len({c.data for c in self.cases}), len(pairs)),
            (
                "methods and controls whose removal changes the order of the others",
                *("", int((moved > 0).sum()), len(moved)),
            ),
        ]
        return pd.DataFrame(rows, columns=["check", "answer", "value", "of"])

    def left_out(self) -> "pd.DataFrame":
        """Columns: left_out (method or control), moved (number of the others whose order changes
        without it); no row if the others have no case in common.
        """
        rows, scores = [], self.fusions[ALL].scores
        for index, method in enumerate(self.methods):
            [again] = resampled_meta_rank(np.delete(self.ranks, index, axis=0), self.once)
            if not np.isnan(again).any():
                places = zip(placed(np.delete(scores, index)), placed(again), strict=True)
                rows.append((method, sum(before != after for before, after in places)))
        return pd.DataFrame(rows, columns=["left_out", "moved"])

    def by_images(self) -> "pd.DataFrame":
        """Columns: data (set of images), correlation (of its cases, fused alone, with their truth);
        without sets in which a method is missing.
        """
        rows = []
        for data in dict.fromkeys(case.data for case in self.cases):
            chosen = [index for index, case in enumerate(self.cases) if case.data == data]
            rows.append((data, self._correlation(chosen)))
        return pd.DataFrame(rows, columns=["data", "correlation"]).dropna(ignore_index=True)

    def _correlation(self, chosen: list[int]) -> float:
        """Of some cases, fused alone, with their truth."""
        return correlation_with_truth(self.ranks[:, chosen], self.truth[:, chosen], self.is_method)

    def by_feature(self) -> "pd.DataFrame":
        """Columns: feature; for the random worlds with and without it, their number and the correlation
        of their cases, fused alone, with their truth; empty without random worlds.
        """
        rows = []
        drawn = {k: each.features for k, each in enumerate(self.cases) if each.features is not None}
        for feature in FEATURES if drawn else ():
            row: dict[str, Any] = {"feature": feature}
            for side, there in (("with", True), ("without", False)):
                chosen = [k for k, features in drawn.items() if (feature in features) == there]
                row |= {
                    f"worlds_{side}": len(chosen) // len(PROTOCOLS),
                    f"correlation_{side}": self._correlation(chosen) if chosen else math.nan,
                }
            rows.append(row)
        return pd.DataFrame(rows)

    def missing(self) -> "pd.DataFrame":
        """Columns: method, pairs (in which it has no rank), of, reason (in the first of them)."""
        pairs = {case.pair: case for case in self.cases}.values()
        where = {
            method: [case.reasons[method] for case in pairs if method in case.reasons]
            for method in [*self.methods, ORACLE]
        }
        rows = [(name, len(each), len(pairs), each[0]) for name, each in where.items() if each]
        return pd.DataFrame(rows, columns=["method", "pairs", "of", "reason"])

    @property
    def notes(self) -> list[str]:
        """How to read the tables."""
        stopped = (
            f"Stopped after {self.pairs} of {self.wanted} pairs: the ranking covers these only. To "
            "continue, repeat the command with the same --out."
        )
        return [
            *([stopped] if self.stopped else []),
            *NOTES,
            *([IN_WORLDS] if any(case.in_world for case in self.cases) else []),
            *([WHERE_MISSING] if np.isnan(self.truth).any() else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, NaN as None."""
        cases = [case._asdict() | {"missing": case.reasons} for case in self.cases]
        shown = ("data", "network", "protocol", "unseen", "areas", "truth", "missing", "in_world")
        found: dict[str, Any] = as_json(
            {
                "schema": 1,
                "indicator": self.indicator,
                **attributes(self, "n", "size", "seed", "confidence"),
                "leaderboard": self.to_frame(),
                "agreement": self.agreement(),
                "cases": [{key: case[key] for key in (*shown, "features")} for case in cases],
                "checks": self.checks(),
                "left_out": self.left_out(),
                "by_images": self.by_images(),
                "by_feature": self.by_feature(),
                "missing": self.missing(),
                "notes": self.notes,
                "command": self.command,
                "versions": library_versions(),
            }
        )
        return found

    def figure(self) -> "Figure":
        """Scores with their intervals and the truth's, and the rank of every method in every case."""
        from attributionlab.show import leaderboard_figure

        table = self.ranking()
        order = [self.methods.index(method) for method in table.method]
        return leaderboard_figure(
            [figure_label(method) for method in table.method],
            scores=table[["score", "low", "high"]].to_numpy(float),
            truth=table.truth.to_numpy(float),
            ranks=self.ranks[order],
            cases=[case.name for case in self.cases],
            title=self.title,
        )

    @property
    def once(self) -> NDArray[np.int64]:
        """How often each case is drawn without resampling."""
        return np.ones((1, len(self.cases)), dtype=np.int64)

    def _table(self, values: Sequence[Mapping[str, float]]) -> Numbers:
        return np.array(
            [[each.get(method, math.nan) for each in values] for method in self.methods]
        )


def _answer(yes: bool, no: bool, *intervals: CorrelationInterval) -> str:
    """What intervals say, if there are any."""
    if any(math.isnan(each.low) for each in intervals):
        return "too few pairs for an interval"
    return "yes" if yes else "no" if no else "undecided"
