"""What ranking methods in many cases found."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from attributionlab.assess import over_runs, run_name
from attributionlab.dose.agreement import RankedBy
from attributionlab.files import write_atomically, write_csv
from attributionlab.leaderboard.agreement import (
    SAME_F1,
    Fusion,
    fused,
    placed,
    ranks_of,
    true_scores,
)
from attributionlab.leaderboard.cases import PROTOCOLS
from attributionlab.leaderboard.findings import findings_of
from attributionlab.leaderboard.resampling import Draws
from attributionlab.ranking import spearman
from attributionlab.versions import library_versions

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["ALL", "CONTROL", "ORACLE", "CaseScores", "Leaderboard"]

Numbers = NDArray[np.float64]

CONTROL, ORACLE = "random", "oracle"
"""The control is ranked with the methods; the oracle, the exact signed mask, is looked at alone."""
ALL = "all cases"


class CaseScores(NamedTuple):
    """What every method reached in one case."""

    pair: int
    """both protocols of a pair have its number"""
    data: str
    network: str
    protocol: str
    unseen: bool
    """whether removed pixels have colors that the network has not seen, and reacts to"""
    areas: Mapping[str, float]
    """under the data set's curve, by method; the oracle's and other runs' (`run_name`), too"""
    truth: Mapping[str, Mapping[RankedBy, float]]
    """by method and part of the truth: mean F1 on all, on positives, the lowest of all ("signed")"""
    reasons: Mapping[str, str]
    """why a method is missing"""

    @property
    def name(self) -> str:
        """Images, network and protocol."""
        return f"{self.data}, {self.network}, {self.protocol}"

    @property
    def lower_is_better(self) -> bool:
        """Of areas."""
        return PROTOCOLS[self.protocol] == "morf"


SUBSETS: Mapping[str, Callable[[CaseScores], bool]] = {
    ALL: lambda case: True,
    "no unseen data": lambda case: not case.unseen,
    "unseen data": lambda case: case.unseen,
    "MoRF": lambda case: case.protocol == "MoRF",
    "LeRF": lambda case: case.protocol == "LeRF",
}


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Methods ranked in many cases, as one ranking, beside the truth's.

    Parameters
    ----------
    methods : list of str
        All that are ranked, the control "random" among them.
    cases : list of CaseScores
        One for each pair and protocol.
    indicator : str
        What the areas are of.
    n, size, seed : int
        Images of each pair, their side in pixels, and the seed of everything.
    confidence : float
        Of the intervals.
    command : str
        How to run it again.
    """

    methods: list[str]
    cases: list[CaseScores]
    indicator: str
    n: int
    size: int
    seed: int
    confidence: float = 0.95
    command: str = field(default="", repr=False)

    def __repr__(self) -> str:
        return f"Leaderboard({len(self.methods)} methods, {len(self.cases)} cases)"

    def __str__(self) -> str:
        return "\n".join([self.title, *self.findings()])

    @property
    def title(self) -> str:
        """What was ranked, and where."""
        pairs = len({case.pair for case in self.cases})
        return (
            f"{sum(self.judged)} methods and a control ranked in {len(self.cases)} cases ({pairs} "
            f"pairs of images and network, each MoRF and LeRF) by {self.indicator.replace('-', ' ')}; "
            f"{self.n} images of {self.size} x {self.size} pixels each"
        )

    @cached_property
    def areas(self) -> Numbers:
        """(methods, cases), NaN where a method is missing."""
        return self._table([case.areas for case in self.cases])

    @cached_property
    def truths(self) -> dict[RankedBy, Numbers]:
        """F1, mean over images: (methods, cases), NaN where a method is missing."""
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
    def judged(self) -> list[bool]:
        """Which of the methods are none of the controls."""
        return [method != CONTROL for method in self.methods]

    @cached_property
    def fusions(self) -> dict[str, Fusion]:
        """The cases as one ranking: all of them, and some; without subsets of fewer than two, and those
        in which a method is missing.
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
                self.judged,
                confidence=self.confidence,
                seed=self.seed,
            )
        return found

    def to_frame(self) -> "pd.DataFrame":
        """`ranking`, and below each method that optimizes the lowest and highest of each number over
        its runs, each in place of the first on the whole leaderboard.
        """
        import pandas as pd

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

        Columns: method, place, score (Meta-Rank, log odds), low, high (for other pairs), cases,
        truth (lowest F1, mean over these cases), truth_place (by it; by fused ranks where cases miss).
        """
        import pandas as pd

        fit, [ordered] = self.fusions[ALL], true_scores(self.truth, self.once())
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
        """Spearman's correlation of fused rankings with the truth's, by which cases are fused.

        Columns: fused, ranked_by (which of the truth's rankings: "signed" is by the lowest F1 of all
        parts), cases, correlation, low, high (other pairs of images and network), low_methods,
        high_methods (other methods, too), single_case (mean correlation of one case with the same
        truth), gain (correlation less that), gain_low, gain_high, residual (of Meta-Rank's fit).
        """
        import pandas as pd

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
                "gain": found.gain.value,
                "gain_low": found.gain.low,
                "gain_high": found.gain.high,
                "residual": fit.residual,
            }
            for name, fit in self.fusions.items()
            for by, found in fit.agreement.items()
        )

    def per_case(self) -> "pd.DataFrame":
        """A row for each case and method: area, rank, and the truth's score and rank there."""
        import pandas as pd

        truth_ranks = ranks_of(np.round(self.truth / SAME_F1), [False] * len(self.cases))
        return pd.DataFrame(
            {
                "data": case.data,
                "network": case.network,
                "protocol": case.protocol,
                "unseen": case.unseen,
                "method": method,
                "area": self.areas[row, column],
                "rank": self.ranks[row, column],
                "truth": self.truth[row, column],
                "truth_rank": truth_ranks[row, column],
            }
            for column, case in enumerate(self.cases)
            for row, method in enumerate(self.methods)
        )

    def oracle_wins(self) -> list[bool]:
        """For each case, whether no method has a better area than the exact signed mask."""
        found = []
        for column, case in enumerate(self.cases):
            both = np.append(self.areas[:, column], case.areas[ORACLE])
            [ranks] = ranks_of(both[:, None], [case.lower_is_better]).T
            found.append(bool(np.nanmin(ranks[:-1]) >= ranks[-1]))
        return found

    def truth_by_case(self) -> float:
        """Mean Spearman correlation between the truth's own rankings of any two pairs; NaN for one."""
        first = {case.pair: column for column, case in reversed(list(enumerate(self.cases)))}
        judged = np.round(self.truth[self.judged] / SAME_F1)
        each = [
            spearman(judged[:, one], judged[:, other], missing="omit")
            for one, other in combinations(first.values(), 2)
        ]
        known = [value for value in each if not math.isnan(value)]
        return float(np.mean(known)) if known else math.nan

    def findings(self) -> list[str]:
        """What it means, in sentences."""
        return findings_of(self)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, NaN as None."""
        return {
            "schema": 1,
            "indicator": self.indicator,
            "n": self.n,
            "size": self.size,
            "seed": self.seed,
            "confidence": self.confidence,
            "leaderboard": _rows(self.to_frame()),
            "agreement": _rows(self.agreement()),
            "cases": [
                {
                    "data": case.data,
                    "network": case.network,
                    "protocol": case.protocol,
                    "unseen": case.unseen,
                    "areas": dict(case.areas),
                    "truth": {method: dict(f1) for method, f1 in case.truth.items()},
                    "missing": dict(case.reasons),
                }
                for case in self.cases
            ],
            "findings": self.findings(),
            "command": self.command,
            "versions": library_versions(),
        }

    def to_json(self, path: str | Path) -> None:
        """Write `to_dict` to a file."""
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)
        write_atomically(path, text + "\n")

    def to_csv(self, path: str | Path) -> None:
        """Write the table of `to_frame`."""
        write_csv(path, self.to_frame())

    def figure(self) -> "Figure":
        """Scores with their intervals and the truth's, and the rank of every method in every case."""
        from attributionlab.report.leaderboard import leaderboard_figure

        table = self.ranking()
        order = [self.methods.index(method) for method in table.method]
        return leaderboard_figure(
            table.method.tolist(),
            scores=table[["score", "low", "high"]].to_numpy(float),
            truth=table.truth.to_numpy(float),
            ranks=self.ranks[order],
            cases=[case.name for case in self.cases],
            title=self.title,
        )

    def once(self) -> Draws:
        """Every case and every method, in place of a resample."""
        cases = np.ones((1, len(self.cases)), dtype=np.int64)
        return Draws(cases, np.arange(len(self.methods))[None])

    def _table(self, values: Sequence[Mapping[str, float]]) -> Numbers:
        return np.array(
            [[each.get(method, math.nan) for each in values] for method in self.methods]
        )


def _rows(frame: "pd.DataFrame") -> Sequence[Mapping[str, Any]]:
    return [
        {
            key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in row.items()
        }
        for row in frame.to_dict("records")
    ]
