"""Table 4 of Duan et al. (2024): the leaderboard of eight methods, beside the truth's."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from attributionlab.errors import refuse_if
from attributionlab.leaderboard import PAPER_METHODS, Leaderboard
from attributionlab.leaderboard.agreement import SCORE_DIGITS, placed
from attributionlab.leaderboard.cases import ALL
from attributionlab.leaderboard.report import CONTROL, interval_said, left_out_said
from attributionlab.metric_trials.agreement import RankedBy
from attributionlab.papers.metarank.boards import boards_of
from attributionlab.papers.metarank.reading import draws_interval, row_said
from attributionlab.papers.reproduction import Reproduction
from attributionlab.ranking import CorrelationInterval, fisher_interval, spearman
from attributionlab.validation import integer_problem

if TYPE_CHECKING:
    import pandas as pd

ITEM = "metarank-table-4"
IMAGES, SIZE, SEEDS = 8, 48, 6
QUICK_IMAGES, QUICK_SIZE, QUICK_SEEDS = 4, 32, 2
ORDER = {method: place for place, method in enumerate(PAPER_METHODS, start=1)}
"""The paper prints the order alone in the text that we have, and no scores."""
RANKINGS: dict[RankedBy, str] = {
    "signed": "lowest F1",
    "overall": "F1 without signs",
    "positive": "F1 on what speaks for the label",
}
SHOWN = {
    "leaderboard": "score, low and high: mean Meta-Rank score over draws of images and weights, with "
    "its 95 % interval; truth: lowest F1 of all masks; paper place: of its Table 4",
    "recovery": "Spearman correlation of fused rankings with the truth's, mean over draws; single "
    "case: of one case's ranking with the same truth",
}


def metarank_leaderboard(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    seeds: int | None = None,
    device: str | None = None,
    show_progress: bool = False,
) -> Reproduction:
    """The paper's eight methods in 26 cases of ours, fused, beside the paper's order and the truth's.

    Parameters
    ----------
    n : int, optional
        Images of each pair of images and network.
    quick : bool
        Fewer and smaller images, two draws.
    seed : int
        The first draw.
    seeds : int, optional
        How many draws of images and random weights; 6 by default.
    device : str, optional
        Where methods compute.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "leaderboard", "recovery", "draws" (every draw's scores) and "cases" (the first draw's
        ranks); figure "leaderboard" (the first draw).
    """
    number = seeds if seeds is not None else QUICK_SEEDS if quick else SEEDS
    refuse_if(integer_problem("seeds", number, 1))
    boards = boards_of(
        ITEM,
        n if n is not None else QUICK_IMAGES if quick else IMAGES,
        QUICK_SIZE if quick else SIZE,
        number,
        seed,
        device,
        show_progress,
    )
    draws = _draws(boards)
    tables = {
        "leaderboard": _leaderboard(draws, seed),
        "recovery": _recovery(boards, seed),
        "draws": draws,
        "cases": boards[0].per_case(),
    }
    return Reproduction(
        item=ITEM,
        title="Meta-Rank of eight methods, the paper's order and the truth's (Duan et al., Table 4)",
        tables=tables,
        figures={"leaderboard": boards[0].figure()},
        findings=[
            *_order(tables["leaderboard"]),
            *_stability(boards),
            *_recovered(tables["recovery"], boards),
            *left_out_said(boards[0]),
            *_checks(boards),
        ],
        shown=SHOWN,
    )


def _draws(boards: Sequence[Leaderboard]) -> "pd.DataFrame":
    """Scores of every draw."""
    import pandas as pd

    frames = [board.to_frame().assign(seed=board.seed) for board in boards]
    return pd.concat(frames, ignore_index=True)


def _leaderboard(draws: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    """Means over draws, best method first."""
    import pandas as pd

    rows = []
    for method, here in draws.groupby("method", sort=False):
        low, high = draws_interval(here.score, seed)
        rows.append(
            {
                "method": method,
                "score": float(here.score.mean()),
                "low": low,
                "high": high,
                "truth": float(here.truth.mean()),
                "paper_place": float(ORDER.get(str(method), np.nan)),
            }
        )
    table = pd.DataFrame(rows).round({"score": SCORE_DIGITS})
    table = table.sort_values("score", ascending=False, ignore_index=True)
    table.insert(1, "place", placed(table.score.to_numpy(float)))
    table["truth_place"] = placed(table.truth.round(6).to_numpy(float))
    return table


def _recovery(boards: Sequence[Leaderboard], seed: int) -> "pd.DataFrame":
    """Correlations with the truth, mean over draws."""
    import pandas as pd

    every = pd.concat([board.agreement() for board in boards], ignore_index=True)
    rows = []
    for (fused, by), here in every.groupby(["fused", "ranked_by"], sort=False):
        correlation, gain = here.correlation.dropna(), here.gain.dropna()
        low, high = draws_interval(correlation, seed)
        gain_low, gain_high = draws_interval(gain, seed)
        rows.append(
            {
                "fused": fused,
                "truth": by,
                "cases": int(here.cases.iloc[0]),
                "correlation": float(correlation.mean()),
                "low": low,
                "high": high,
                "single_case": float(here.single_case.mean()),
                "gain": float(gain.mean()),
                "gain_low": gain_low,
                "gain_high": gain_high,
                "residual": float(here.residual.mean()),
            }
        )
    return pd.DataFrame(rows)


def _order(table: "pd.DataFrame") -> Iterator[str]:
    yield f"The paper, best first: {', '.join(ORDER)}."
    yield f"Here, best first: {', '.join(table.method)}."
    methods = table[table.method.isin(list(ORDER))]
    ours = spearman(-methods.score, methods.paper_place)
    true = spearman(-methods.truth.round(6), methods.paper_place)
    interval = fisher_interval(ours, len(methods))
    outcome = (
        "the two orders agree more than by chance"
        if interval.low > 0
        else "the two orders contradict each other"
        if interval.high < 0
        else "eight methods do not show whether the two orders agree"
    )
    yield (
        f"Spearman correlation of our order with the paper's: {ours:.2f} [{interval.low:.2f}, "
        f"{interval.high:.2f}] (Fisher's z, {len(methods)} methods): {outcome}. The truth's order here "
        f"correlates with the paper's by {true:.2f}. Ours are networks whose weights are set by hand, "
        "with two kinds of removal, in place of six trained architectures on photographs."
    )


def _stability(boards: Sequence[Leaderboard]) -> Iterator[str]:
    """Whether other images and weights give the same order."""
    scores = [board.fusions[ALL].scores for board in boards]
    each = [spearman(one, other) for one, other in combinations(scores, 2)]
    if each:
        yield (
            f"Fused orders of two draws of images and weights correlate by {np.mean(each):.2f} on "
            f"average over {len(each)} pairs of draws (least {min(each):.2f})."
        )


def _checks(boards: Sequence[Leaderboard]) -> Iterator[str]:
    """Where the control and the oracle end up, and what fusing leaves unexplained."""
    tables = [board.to_frame() for board in boards]
    places = [int(table[table.method == CONTROL].place.iloc[0]) for table in tables]
    last = sum(place == len(table) for place, table in zip(places, tables, strict=True))
    yield f"The control random is last in {last} of {len(boards)} draws (best place: {min(places)})."
    wins = [win for board in boards for win in board.oracle_wins()]
    yield (
        f"The exact signed mask, which is not ranked, is beaten by no method in {sum(wins)} of "
        f"{len(wins)} cases."
    )
    fits = [board.fusions[ALL] for board in boards]
    residual = np.mean([fit.residual for fit in fits])
    spread = np.mean([fit.scores.std() for fit in fits])
    yield (
        "Log odds are not transitive: scores that spread by "
        f"{spread:.2f} (standard deviation) leave a residual of {residual:.2f} (root mean square), on "
        "average over draws."
    )


def _recovered(table: "pd.DataFrame", boards: Sequence[Leaderboard]) -> Iterator[str]:
    signed = table[table.truth == "signed"].set_index("fused")
    row = signed.loc[ALL]
    gain = CorrelationInterval(row.gain, row.gain_low, row.gain_high)
    better = (
        f"{len(boards)} draws give no interval, and no verdict"
        if np.isnan(row.gain_low)
        else "fusing comes nearer to the truth than a single case"
        if row.gain_low > 0
        else "fusing is farther from the truth than a single case"
        if row.gain_high < 0
        else "a gain from fusing is not shown"
    )
    yield (
        f"Does fusing recover the truth? The fused ranking correlates with it by {row_said(row)}, a "
        f"single case's by {row.single_case:.2f} on average; gain {interval_said(gain)} (intervals "
        f"over draws): {better}."
    )
    parts = table[table.fused == ALL].set_index("truth")
    ceilings = {
        by: np.mean([board.fusions[ALL].ceiling[by] for board in boards]) for by in RANKINGS
    }
    yield (
        "That truth is the lowest F1 of all masks. By each of the truth's rankings: "
        + "; ".join(
            f"{name} {row_said(parts.loc[by])} (a ranking without ties: at most {ceilings[by]:.2f})"
            for by, name in RANKINGS.items()
        )
        + "."
    )
    clean, unseen = (signed.loc[name] for name in ("no unseen data", "unseen data"))
    apart = clean.low > unseen.high
    yield (
        f"Cases without unseen data: {row_said(clean)}; with it: {row_said(unseen)}"
        + (
            "."
            if np.isnan(clean.low) or np.isnan(unseen.low)
            else ": what fusing cannot undo is the error that cases share."
            if apart
            else ": the intervals do not show that unseen data makes a difference."
        )
    )
    positive = table[table.truth == "positive"].set_index("fused")
    clean, unseen = (positive.loc[name] for name in ("no unseen data", "unseen data"))
    yield (
        "By F1 on what speaks for the label alone, fused rankings correlate with the truth by "
        f"{row_said(clean)} without unseen data and by {row_said(unseen)} with it"
        + (
            ": there removal ranks methods the wrong way round, and no number of cases helps."
            if unseen.high < 0
            else "."
        )
    )
