"""What a leaderboard says, in sentences."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from attributionlab.ranking import CorrelationInterval

if TYPE_CHECKING:
    from attributionlab.leaderboard.agreement import TruthAgreement
    from attributionlab.leaderboard.report import Leaderboard

__all__ = ["STRONG", "findings_of", "interval_said"]

STRONG = 0.7
"""Correlations from it up count as strong (Akoglu, 2018: "User's guide to correlation coefficients",
after Dancey and Reidy, 2007)."""


def findings_of(board: "Leaderboard") -> list[str]:
    """Sentences computed from a leaderboard."""
    return [
        *_places(board),
        *_recovered(board),
        *_by_cases(board),
        *_oracle(board),
        *_missing(board),
    ]


def interval_said(found: CorrelationInterval) -> str:
    """A correlation with its interval, to two digits.

    Examples
    --------
    >>> from attributionlab.leaderboard.findings import interval_said
    >>> from attributionlab.ranking import CorrelationInterval
    >>> interval_said(CorrelationInterval(0.5, -0.1, 0.9))
    '0.50 [-0.10, 0.90]'
    """
    if math.isnan(found.value):
        return "undefined (all scores are alike)"
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _places(board: "Leaderboard") -> Iterator[str]:
    table = board.to_frame()
    best, worst = table.iloc[0], table.iloc[-1]
    yield (
        f"Meta-Rank over {len(board.cases)} cases: {best.method} is first "
        f"({best.score:.2f} [{best.low:.2f}, {best.high:.2f}] log odds; place {best.truth_place} by "
        f"the truth) and {worst.method} last ({worst.score:.2f} [{worst.low:.2f}, {worst.high:.2f}]; "
        f"place {worst.truth_place}). Intervals are those of other pairs of images and network "
        "(bootstrap)."
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
    agreement = next(iter(board.fusions.values())).agreement
    fit = agreement["signed"]
    methods = sum(board.judged)
    found = fit.correlation
    if math.isnan(found.value):
        outcome = "there is no ranking to compare"
    elif found.low >= STRONG:
        outcome = "fusing recovers the truth's ranking"
    elif found.high < STRONG:
        outcome = "fusing does not recover the truth's ranking"
    else:
        outcome = "whether fusing recovers the truth's ranking is undecided"
    yield (
        f"Spearman correlation of the fused ranking of {methods} methods with the truth's: "
        f"{interval_said(found)} for other pairs, [{fit.for_other_methods.low:.2f}, "
        f"{fit.for_other_methods.high:.2f}] for other methods, too: {outcome} (strong: at least "
        f"{STRONG:g}). By F1 without signs it is {interval_said(agreement['overall'].correlation)}, by "
        f"F1 on what speaks for the label {interval_said(agreement['positive'].correlation)}."
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


def _gained(fit: "TruthAgreement") -> str:
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
            "cases without it agree better with the truth"
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
