"""Figure 4 of Duan et al. (2024): how long fusing rankings takes, by the number of methods."""

import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg

from attributionlab.base import Numbers
from attributionlab.metrics.ranking import meta_rank
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.show import curves

METHODS = (8, 16, 32, 64, 128, 256, 512, 1000)
PAPER_CASES = 26
REPEATS = 5
ROUNDING = 1e-9
"""Rounding of scores of size 1 from thousands of equations in float64."""
OURS, BY_PAIRS = "Meta-Rank", "an equation for each pair"


def fusion_seconds(run: Run, *, largest_by_pairs: int) -> Found:
    """Measure how long fusing takes, two ways, for the paper's number of cases and for `run.n`.

    Rankings are simulated, uniformly random. Equations are solved pair by pair for up to
    `largest_by_pairs` methods.
    """
    counts = sorted({PAPER_CASES, run.n})
    rows: list[dict[str, Any]] = []
    for cases, methods in run.track((cases, methods) for cases in counts for methods in METHODS):
        ranks = simulated_ranks(methods, cases, run.seed)
        ours, scores = seconds_of(meta_rank, ranks)
        row = {"cases": cases, "methods": methods, "ours": ours}
        if methods <= largest_by_pairs:
            by_pairs, expected = seconds_of(pair_by_pair, ranks)
            difference = float(np.abs(scores - expected).max())
            row |= {"by_pairs": by_pairs, "ratio": by_pairs / ours, "difference": difference}
        rows.append(row)
    table = pd.DataFrame(rows)
    lines = [
        table.assign(seconds=table[column], way=[f"{way}, {each} cases" for each in table.cases])
        for way, column in ((OURS, "ours"), (BY_PAIRS, "by_pairs"))
        if column in table
    ]
    figure = curves(
        *(pd.concat(lines).dropna(subset=["seconds"]), "methods", "seconds", "way"),
        title="Fusing rankings: shortest of several runs",
        ylabel="seconds (lower is better)",
        log="xy",
    )
    return Found({"seconds": table}, {"seconds": figure})


def closed_form_is_exact(tables: Tables) -> bool | None:
    difference = tables["seconds"].get("difference", pd.Series(dtype=float)).dropna()
    return bool(difference.max() < ROUNDING) if len(difference) else None


def simulated_ranks(methods: int, cases: int, seed: int) -> Numbers:
    """Independent, uniformly random rankings, (methods, cases)."""
    drawing = np.random.default_rng(seed)
    ranked = np.tile(np.arange(1.0, methods + 1)[:, None], cases)
    shuffled: Numbers = drawing.permuted(ranked, axis=0)
    return shuffled


def pair_by_pair(ranks: Numbers) -> Numbers:
    """Solve Meta-Rank's equations as they are written, one for each pair of methods, by least squares.

    Of ranks (methods, cases) without missing ones; up to rounding `attributionlab.ranking.meta_rank`.
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
    """The least time of several runs, after one that does not count, and the scores."""
    scores, seconds = fuse(ranks), []
    for _ in range(REPEATS):
        start = time.perf_counter()
        fuse(ranks)
        seconds.append(time.perf_counter() - start)
    return min(seconds), scores
