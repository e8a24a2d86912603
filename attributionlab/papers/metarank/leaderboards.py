"""Figure 3 of Duan et al. (2024): how alike 26 cases rank eight methods.

The cases are ours: networks whose weights are set by hand, whose images and random weights are drawn
several times.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from attributionlab.metrics.ranking import spearman
from attributionlab.papers.answers import STRONG, above, over_draws, shares
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.show import heat_map
from attributionlab.verdicts import PAIRS, PAPER_METHODS, CaseScores, Leaderboard, rank_methods

CLEAN = "no unseen data"
MODEL, DATA, PROTOCOL = "model", "data set", "protocol"
LEVELS = {MODEL: "network", DATA: "data", PROTOCOL: "protocol"}
"""What two cases may differ in, and the attribute of a case that says it."""


def consistency(run: Run, *, image_size: int, seeds: int) -> Found:
    """Correlate the rankings of cases that differ in one thing alone (Spearman).

    Two cases differ in the model where images and protocol are the same, and the networks have other
    doses of redundant channels or another replacement; in the data set where dose and protocol are the
    same; in the protocol where images and network are.
    """
    boards = _boards(run, image_size, seeds)
    correlations = pd.DataFrame([row for board in boards for row in _pairs_of_cases(board)])
    figures = {
        f"by-{level.replace(' ', '-')}": _matrices(boards[0].cases, correlations, level, seeds)
        for level in LEVELS
    }
    return Found({"levels": _levels(correlations, run.seed), "correlations": correlations}, figures)


def _differ(level: str, tables: Tables) -> bool | None:
    """Whether the mean correlation of cases that differ in a level is shown not to be strong."""
    row = tables["levels"].set_index(["differ_in", "cases"]).loc[level, "all"]
    return above(-row.high, -row.low, -STRONG)


models_differ = partial(_differ, MODEL)
data_sets_differ = partial(_differ, DATA)
protocols_differ = partial(_differ, PROTOCOL)


def truth_is_consistent(tables: Tables) -> bool | None:
    table = tables["levels"].set_index(["differ_in", "cases"])
    ends = table.loc[[(MODEL, "all"), (DATA, "all")], ["truth_low", "truth_high"]]
    low, high = ends.min(skipna=False)
    return above(low, high, STRONG)


def _boards(run: Run, image_size: int, seeds: int) -> list[Leaderboard]:
    """Leaderboards of the same cases with images and weights of seed, seed + 1, ..."""
    return [
        rank_methods(PAPER_METHODS, run.n, seed, pairs=PAIRS, size=image_size, device=run.device)
        for seed in run.track(range(run.seed, run.seed + seeds))
    ]


def level_of(first: CaseScores, second: CaseScores) -> str | None:
    """In what alone two cases differ; None where in more, or in nothing."""
    different = [
        level for level, name in LEVELS.items() if getattr(first, name) != getattr(second, name)
    ]
    return different[0] if len(different) == 1 else None


def _pairs_of_cases(board: Leaderboard) -> Iterator[dict[str, Any]]:
    """Every correlation of two cases that differ in one thing; the control is left out."""
    ranks = board.ranks[board.is_method]
    truth = board.truth[board.is_method].round(6)
    for (one, first), (other, second) in combinations(enumerate(board.cases), 2):
        level = level_of(first, second)
        if level is not None:
            yield {
                "level": level,
                "first": first.name,
                "second": second.name,
                "unseen": first.unseen + second.unseen,
                "correlation": spearman(ranks[:, one], ranks[:, other], missing="omit"),
                "truth": spearman(truth[:, one], truth[:, other], missing="omit"),
                "seed": board.seed,
            }


def _levels(correlations: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Means by what differs, with intervals over draws."""
    rows = []
    for level in LEVELS:
        here = correlations[correlations.level == level]
        for which, part in (("all", here), (CLEAN, here[here.unseen == 0])):
            of_draw = part.groupby("seed")[["correlation", "truth"]].mean().assign(cases=which)
            row: dict[str, Any] = {"differ_in": level, "cases": which}
            row["pairs"] = len(part) // max(1, part.seed.nunique())
            for value, prefix in (("correlation", ""), ("truth", "truth_")):
                found = over_draws(of_draw, ["cases"], value, seed)
                mean, low, high = found.iloc[0, 1:] if len(found) else (np.nan,) * 3
                row |= {value: mean, f"{prefix}low": low, f"{prefix}high": high}
            row["truth"] = float(part.truth.mean())
            rows.append(row | shares(part.correlation))
    return pd.DataFrame(rows)


def _matrices(
    cases: Sequence[CaseScores], correlations: pd.DataFrame, level: str, draws: int
) -> Figure:
    """Draw the mean correlations of cases that differ in a level, a panel for what they share."""
    case_of = {case.name: case for case in cases}
    here = correlations[correlations.level == level]
    means = here.groupby(["first", "second"], sort=False).correlation.mean()
    rows = []
    for (first, second), mean in means.items():
        one, other = case_of[first], case_of[second]
        shared = [getattr(one, name) for key, name in LEVELS.items() if key != level]
        if level == PROTOCOL:
            rows.append((one.network, one.data, "MoRF with LeRF", mean))
        else:
            across, down = (getattr(each, LEVELS[level]) for each in (other, one))
            rows.append((across, down, ", ".join(shared), mean))
    return heat_map(
        pd.DataFrame(rows, columns=["across", "down", "panel", "correlation"]),
        *("across", "down", "correlation"),
        panel="panel",
        title=f"Rankings of eight methods by two cases that differ in the {level} alone: mean over "
        f"{draws} {'draw' if draws == 1 else 'draws'} of images and weights",
        label="Spearman correlation of two rankings",
        limits=(-1, 1),
    )
