"""What a leaderboard says, in sentences."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from attributionlab.leaderboard.agreement import correlation_with_truth, placed
from attributionlab.leaderboard.resampling import fused_draws
from attributionlab.ranking import CorrelationInterval

if TYPE_CHECKING:
    from attributionlab.leaderboard.agreement import Fusion, TruthAgreement
    from attributionlab.leaderboard.report import Leaderboard

__all__ = [
    "STRONG",
    "by_data",
    "findings_of",
    "interval_said",
    "left_out_said",
    "moved_by_leaving_out",
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
    >>> from attributionlab.leaderboard.findings import interval_said
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
