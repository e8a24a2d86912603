"""Figure 4 of Duan et al. (2024): how long fusing rankings takes, by the number of methods."""

import time
from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from attributionlab.errors import refuse_if
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import track
from attributionlab.ranking import meta_rank
from attributionlab.report.seconds import SecondsLine, seconds_figure
from attributionlab.validation import integer_problem

if TYPE_CHECKING:
    import pandas as pd

ITEM = "metarank-figure-4"
METHODS = (8, 16, 32, 64, 128, 256, 512, 1000)
CASES = (26, 100)
LARGEST_BY_PAIRS, QUICK_LARGEST = 128, 32
"""Methods up to which the equations are solved pair by pair: that many take seconds."""
REPEATS = 5
GOAL_METHODS, GOAL_CASES, GOAL_SECONDS = 1000, 100, 2.0
OURS, BY_PAIRS = "Meta-Rank", "an equation for each pair"
SHOWN = {
    "seconds": "least of several runs in this process; difference: largest between the scores of both"
}

Numbers = NDArray[np.float64]


def metarank_fusion_time(
    *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """Seconds of fusing simulated rankings of 8 to 1,000 methods, two ways.

    Parameters
    ----------
    n : int, optional
        Cases; 26, as in the paper, and 100 by default.
    quick : bool
        Fewer methods for the slow way.
    seed : int
        Of the simulated rankings, which are uniformly random.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Table and figure "seconds".
    """
    import pandas as pd

    if n is not None:
        refuse_if(integer_problem("n", n, 2))
    cases = CASES if n is None else (n,)
    largest = QUICK_LARGEST if quick else LARGEST_BY_PAIRS
    rows: list[dict[str, Any]] = []
    asked = [(count, methods) for count in cases for methods in METHODS]
    for count, methods in track(asked, len(asked), ITEM, show_progress):
        ranks = simulated_ranks(methods, count, seed)
        ours, scores = seconds_of(meta_rank, ranks)
        row = {"cases": count, "methods": methods, "ours": ours}
        if methods <= largest:
            by_pairs, expected = seconds_of(pair_by_pair, ranks)
            row |= {
                "by_pairs": by_pairs,
                "ratio": by_pairs / ours,
                "difference": float(np.abs(scores - expected).max()),
            }
        rows.append(row)
    table = pd.DataFrame(rows)
    lines: dict[str, SecondsLine] = {}
    for count, here in table.groupby("cases"):
        for name, column in ((OURS, "ours"), (BY_PAIRS, "by_pairs")):
            known = here.dropna(subset=[column])
            lines[f"{name}, {count} cases"] = SecondsLine(
                known.methods.to_numpy(float), known[column].to_numpy(float)
            )
    title = "Fusing rankings by Meta-Rank (Duan et al., Figure 4)"
    return Reproduction(
        item=ITEM,
        title=title,
        tables={"seconds": table},
        figures={"seconds": seconds_figure(lines, xlabel="methods", title=title)},
        findings=_findings(table),
        shown=SHOWN,
    )


def simulated_ranks(methods: int, cases: int, seed: int) -> Numbers:
    """Independent, uniformly random rankings, (methods, cases)."""
    drawing = np.random.default_rng(seed)
    ranked = np.tile(np.arange(1.0, methods + 1)[:, None], cases)
    shuffled: Numbers = drawing.permuted(ranked, axis=0)
    return shuffled


def pair_by_pair(ranks: Numbers) -> Numbers:
    """Meta-Rank as its equations are written: one for each pair of methods, solved by least squares.

    Parameters
    ----------
    ranks : array, (methods, cases)
        Without missing ones.

    Returns
    -------
    array, (methods,)
        As `attributionlab.ranking.meta_rank`, up to rounding.
    """
    methods, cases = ranks.shape
    pairs = list(combinations(range(methods), 2))
    left, right = np.zeros((len(pairs) + 1, methods)), np.zeros(len(pairs) + 1)
    for row, (first, second) in enumerate(pairs):
        wins = float((ranks[first] < ranks[second]).sum())
        ties = float((ranks[first] == ranks[second]).sum())
        chance = (wins + ties / 2 + 0.5) / (cases + 1)
        left[row, [first, second]] = 1, -1
        right[row] = np.log(chance / (1 - chance))
    left[-1] = 1  # the sum is 0, which contradicts none of the others
    solution: Numbers = linalg.lstsq(left, right)[0]
    return solution


def seconds_of(fuse: Callable[[Numbers], Numbers], ranks: Numbers) -> tuple[float, Numbers]:
    """The least of several runs, after one that does not count, and the scores."""
    scores, seconds = fuse(ranks), []
    for _ in range(REPEATS):
        start = time.perf_counter()
        fuse(ranks)
        seconds.append(time.perf_counter() - start)
    return min(seconds), scores


def _findings(table: "pd.DataFrame") -> list[str]:
    found = []
    for count, here in table.groupby("cases"):
        few, many = here.iloc[0], here.iloc[-1]
        known = here.dropna(subset=["by_pairs"])
        largest = known.iloc[-1]
        found.append(
            f"{count} cases: {1000 * few.ours:.2g} ms for {few.methods:.0f} methods and "
            f"{many.ours:.2g} s for {many.methods:,.0f}. With an equation for each pair "
            f"{largest.methods:.0f} methods take {largest.by_pairs:.2g} s, {largest.ratio:.0f} times "
            f"as long; the scores differ by at most {known.difference.max():.0e}."
        )
    goal = table[(table.cases == GOAL_CASES) & (table.methods == GOAL_METHODS)]
    if len(goal):
        seconds = float(goal.ours.iloc[0])
        met = "as it should" if seconds < GOAL_SECONDS else "which is too long"
        found.append(
            f"{GOAL_METHODS:,} methods over {GOAL_CASES} cases take {seconds:.2g} s, {met} (goal: "
            f"below {GOAL_SECONDS:g} s)."
        )
    found.append(
        "The paper calls its times acceptable, milliseconds for a substantial number of methods; its "
        "numbers are in a figure that we do not have."
    )
    return found
