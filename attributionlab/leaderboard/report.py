"""What ranking methods in many cases found."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from attributionlab.files import write_atomically, write_csv
from attributionlab.leaderboard.agreement import (
    SAME_F1,
    Fusion,
    correlation_with_truth,
    fused,
    placed,
    ranks_of,
    true_scores,
)
from attributionlab.leaderboard.cases import ALL, SUBSETS, CaseScores
from attributionlab.leaderboard.resampling import Draws, fused_draws
from attributionlab.metric_trials.agreement import RankedBy
from attributionlab.ranking import CorrelationInterval, spearman
from attributionlab.stats.runs import over_runs, run_name
from attributionlab.versions import library_versions

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from attributionlab.leaderboard.agreement import Fusion, TruthAgreement


Numbers = NDArray[np.float64]

CONTROL, ORACLE = "random", "oracle"
"""The control is ranked with the methods; the oracle, the exact signed mask, is looked at alone."""


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


STRONG = 0.7
"""Correlations from it up count as strong (Akoglu, 2018: "User's guide to correlation coefficients",
after Dancey and Reidy, 2007)."""
FEWEST_TO_TELL = 5
"""Methods: of four, one random order in six correlates by 0.7 or more."""


def findings_of(board: "Leaderboard") -> list[str]:
    """Sentences computed from a leaderboard."""
    return [
        *_places(board),
        *_recovered(board),
        *_independent(board),
        *left_out_said(board),
        *_by_cases(board),
        *_oracle(board),
        *_missing(board),
    ]


def interval_said(found: CorrelationInterval) -> str:
    """A correlation with its interval, to two digits.

    Examples
    --------
    >>> from attributionlab.leaderboard.report import interval_said
    >>> from attributionlab.ranking import CorrelationInterval
    >>> interval_said(CorrelationInterval(0.5, -0.1, 0.9))
    '0.50 [-0.10, 0.90]'
    """
    if math.isnan(found.value):
        return "undefined (all scores are alike)"
    if math.isnan(found.low):
        return f"{found.value:.2f} (no interval)"
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _score_said(row: Any) -> str:
    return interval_said(CorrelationInterval(row.score, row.low, row.high))


def _places(board: "Leaderboard") -> Iterator[str]:
    table = board.ranking()
    best, worst = table.iloc[0], table.iloc[-1]
    yield (
        f"Meta-Rank over {len(board.cases)} cases: {best.method} is first "
        f"({_score_said(best)} log odds; place {best.truth_place} by the truth) and {worst.method} "
        f"last ({_score_said(worst)}; place {worst.truth_place}). Intervals are those of other pairs "
        "of images and network (bootstrap), and are not given for fewer than three."
    )
    top = table[table.truth_place == 1]
    places = ", ".join(f"{row.method} (place {row.place} here)" for row in top.itertuples())
    last = table[table.truth_place == table.truth_place.max()]
    ties = f" {len(last)} share its last place." if len(last) > 1 else ""
    yield f"By the truth (lowest F1 of all masks) first: {places}.{ties}"
    control = table[table.method == "random"].iloc[0]
    below = table[(table.score < control.score)].method.tolist()
    yield (
        f"The control random has place {control.place} of {len(table)}"
        + (f", before {', '.join(below)}." if below else ": no method is behind it.")
    )
    fit = next(iter(board.fusions.values()))
    spread = float(fit.scores.std())
    yield (
        f"Log odds are not transitive: the scores, which spread by {spread:.2f} (standard deviation), "
        f"leave a residual of {fit.residual:.2f} (root mean square)."
    )


def _recovered(board: "Leaderboard") -> Iterator[str]:
    fusion = next(iter(board.fusions.values()))
    agreement = fusion.agreement
    fit = agreement["signed"]
    methods = sum(board.judged)
    found, others = fit.correlation, fit.for_other_methods
    if math.isnan(found.value):
        outcome = "there is no ranking to compare"
    elif methods < FEWEST_TO_TELL:
        outcome = "too few methods are ranked to tell whether fusing recovers the truth's ranking"
    elif math.isnan(found.low):
        outcome = "too few pairs to tell whether fusing recovers the truth's ranking"
    elif min(found.low, others.low) >= STRONG:
        outcome = "fusing recovers the truth's ranking"
    elif max(found.high, others.high) < STRONG:
        outcome = "fusing does not recover the truth's ranking"
    else:
        outcome = "whether fusing recovers the truth's ranking is undecided"
    yield (
        f"Spearman correlation of the fused ranking of {methods} methods with the truth's: "
        f"{interval_said(found)} for other pairs, {interval_said(others)} for other methods, too: "
        f"{outcome} (strong: at least {STRONG:g}). By F1 without signs it is "
        f"{interval_said(agreement['overall'].correlation)}, by F1 on what speaks for the label "
        f"{interval_said(agreement['positive'].correlation)}. As the truth has ties, a ranking without "
        f"any can reach {_ceilings_said(fusion)}."
    )
    yield (
        f"One case alone correlates with the same truth by {interval_said(fit.single)} on average; "
        f"fusing gains {interval_said(fit.gain)}, {_gained(fit)}."
    )
    between = board.truth_by_case()
    if not math.isnan(between):
        yield (
            "The truth's own rankings of two pairs of images and network correlate by "
            f"{between:.2f} on average."
        )


def _ceilings_said(fusion: "Fusion") -> str:
    """By what of the truth, in the order of the sentence."""
    lowest, overall, positive = (fusion.ceiling[by] for by in ("signed", "overall", "positive"))
    return f"{lowest:.2f}, {overall:.2f} and {positive:.2f}"


def _independent(board: "Leaderboard") -> Iterator[str]:
    """How many pairs share images, and what each set of images says alone."""
    pairs = len({case.pair for case in board.cases})
    sets = {case.data for case in board.cases}
    if len(sets) == pairs:
        return
    of_data = by_data(board)
    said = "; ".join(f"{data} {value:.2f}" for data, value in of_data.items())
    yield (
        f"The {pairs} pairs hold {len(sets)} {'set' if len(sets) == 1 else 'sets'} of images, which "
        "networks share, so that pairs are not independent: intervals are those of other networks of "
        "these images, not of other images."
        + (
            f" Fused for each set alone, rankings correlate with its truth by: {said}."
            if said
            else ""
        )
    )


def left_out_said(board: "Leaderboard") -> Iterator[str]:
    """How far the order of two methods depends on which others are ranked."""
    moved = moved_by_leaving_out(board)
    if not moved:
        return
    most = max(moved, key=lambda method: moved[method])
    among = f"of {len(moved)} methods and controls, one at a time"
    yield (
        f"A method's place depends on which others are ranked: leaving out any {among}, changes no "
        "place among the others here."
        if not moved[most]
        else f"A method's place depends on which others are ranked: leaving out each {among}, changes "
        f"places among the others {sum(count > 0 for count in moved.values())} times, most without "
        f"{most} ({moved[most]} of {len(board.methods) - 1} places)."
    )


def _gained(fit: "TruthAgreement") -> str:
    if math.isnan(fit.gain.low):
        return "of which there is no interval"
    if fit.gain.low > 0:
        return "so that the fused ranking is nearer to the truth than a case's is on average"
    if fit.gain.high < 0:
        return "so that the fused ranking is farther from the truth than a case's is on average"
    return "which may be nothing"


def _by_cases(board: "Leaderboard") -> Iterator[str]:
    found = {
        name: (fit.cases, fit.agreement["signed"].correlation)
        for name, fit in board.fusions.items()
    }
    parts = [
        f"{name} ({cases} cases) {interval_said(correlation)}"
        for name, (cases, correlation) in list(found.items())[1:]
    ]
    if parts:
        yield f"By which cases are fused: {'; '.join(parts)}."
    if "no unseen data" in found and "unseen data" in found:
        clean, unseen = found["no unseen data"][1], found["unseen data"][1]
        outcome = (
            "too few pairs for intervals, so that nothing is said"
            if math.isnan(clean.low) or math.isnan(unseen.low)
            else "cases without it agree better with the truth"
            if clean.low > unseen.high
            else "cases with it agree better with the truth"
            if clean.high < unseen.low
            else "the intervals overlap, so that no difference is shown"
        )
        yield f"Unseen data: {outcome}."


def _oracle(board: "Leaderboard") -> Iterator[str]:
    wins = board.oracle_wins()
    yield (
        f"The exact signed mask, which is not ranked, is beaten by no method in {sum(wins)} of "
        f"{len(wins)} cases"
        + (
            "."
            if all(wins)
            else "; in the others removal prefers something else than the mask says."
        )
    )


def _missing(board: "Leaderboard") -> Iterator[str]:
    """Who is missing where, once for each pair."""
    pairs = {case.pair: case for case in board.cases}.values()
    for method in [*board.methods, "oracle"]:
        where = [case for case in pairs if method in case.reasons]
        if where:
            yield (
                f"{method} is missing in {len(where)} of {len(pairs)} pairs, of which it has no rank: "
                f"{where[0].reasons[method]}"
            )
    if np.isnan(board.truth).any():
        yield (
            "Where a method is missing in some cases the truth, too, is compared within cases: its "
            "ranks there are fused by Meta-Rank, in place of means over different cases."
        )


def by_data(board: "Leaderboard") -> dict[str, float]:
    """By set of images: how its cases, fused alone, correlate with their truth; without sets in
    which a method is missing.
    """
    found = {}
    for data in dict.fromkeys(case.data for case in board.cases):
        chosen = [index for index, case in enumerate(board.cases) if case.data == data]
        found[data] = correlation_with_truth(
            board.ranks[:, chosen], board.truth[:, chosen], board.judged
        )
    return {data: value for data, value in found.items() if not math.isnan(value)}


def moved_by_leaving_out(board: "Leaderboard") -> dict[str, int]:
    """By method: how many of the others change places among themselves when it is left out."""
    moved = {}
    scores, once = next(iter(board.fusions.values())).scores, board.once()
    for index, method in enumerate(board.methods):
        [again] = fused_draws(np.delete(board.ranks, index, axis=0), once)
        if not np.isnan(again).any():  # the others may have no case in common
            places = zip(placed(np.delete(scores, index)), placed(again), strict=True)
            moved[method] = sum(before != after for before, after in places)
    return moved
