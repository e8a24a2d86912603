"""Table 4 and Figure 3 of Duan et al. (2024): eight methods in 26 cases, fused, and case by case.

The cases are ours: networks whose weights are set by hand, whose images and random weights are drawn
several times.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from attributionlab.metrics.ranking import spearman
from attributionlab.papers.answers import above, decided, over_draws
from attributionlab.papers.catalog import Found, Run, Tables, claim
from attributionlab.papers.metarank.correlation_strength import (
    STRONG,
    is_strong,
    shares,
    with_fisher_interval,
)
from attributionlab.show import heat_map
from attributionlab.verdicts import (
    ALL,
    CONTROL,
    PAIRS,
    PAPER_METHODS,
    SCORE_DIGITS,
    CaseScores,
    Leaderboard,
    placed,
    rank_methods,
)

FUSED, CONSISTENCY = "metarank-table-4", "metarank-figure-3"
ORDER = {method: place for place, method in enumerate(PAPER_METHODS, start=1)}
"""The paper prints the order alone in the text that we have, and no scores."""
CLEAN, UNSEEN = "no unseen data", "unseen data"
MODEL, DATA, PROTOCOL = "model", "data set", "protocol"
LEVELS = {MODEL: "network", DATA: "data", PROTOCOL: "protocol"}
"""What two cases may differ in, and the attribute of a case that says it."""


def fused_leaderboard(run: Run, *, image_size: int, seeds: int) -> Found:
    """Fuse the rankings of the paper's methods, beside the paper's order and the truth's.

    Means are over `seeds` draws of images and random weights; table "cases" and the figure are of the
    first one.
    """
    boards = _boards(run, image_size, seeds)
    frames = [board.to_frame().assign(seed=board.seed) for board in boards]
    draws = pd.concat(frames, ignore_index=True)
    leaderboard = _leaderboard(draws, run.seed)
    tables = {
        "leaderboard": leaderboard,
        "orders": _orders(leaderboard),
        "recovery": _recovery(boards, run.seed),
        "checks": _checks(boards, frames),
        "left-out": boards[0].left_out(),
        "draws": draws,
        "cases": boards[0].per_case(),
    }
    return Found(tables, {"leaderboard": boards[0].figure()})


@claim(
    FUSED,
    place="Table 4",
    statement="Best first: " + ", ".join(ORDER),
    reason="Networks whose weights are set by hand, and two kinds of removal, in place of six trained "
    "architectures on photographs",
)
def order_is_the_paper_s(tables: Tables) -> bool | None:
    row = tables["orders"].iloc[0]
    return above(row.low, row.high)


@claim(FUSED)
def fusing_gains(tables: Tables) -> bool | None:
    """Fusing comes nearer to the truth than a single case does."""
    row = _recovered(tables, ALL, "signed")
    return above(row.gain_low, row.gain_high)


@claim(FUSED)
def unseen_data_remains(tables: Tables) -> bool | None:
    """Fusing cannot undo an error that cases share: those without unseen data come nearer to the
    truth than those with it.
    """
    clean, unseen = (_recovered(tables, name, "signed") for name in (CLEAN, UNSEEN))
    return decided(clean.low > unseen.high, clean.high < unseen.low)


@claim(FUSED)
def unseen_data_reverses(tables: Tables) -> bool | None:
    """With unseen data, removal ranks methods the wrong way round by their F1 on what speaks for
    the label, and no number of cases helps.
    """
    row = _recovered(tables, UNSEEN, "positive")
    return above(-row.high, -row.low)


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


@claim(
    CONSISTENCY,
    place="Figure 3",
    reason="Our models are one network with other doses of redundant channels",
)
def models_differ(tables: Tables) -> bool | None:
    """Models rank methods differently: correlations are strong between ResNet-18 and Inception-v4
    on Food-101 alone (here: the mean correlation is not strong).
    """
    return _differ(tables, MODEL)


@claim(CONSISTENCY, place="Figure 3")
def data_sets_differ(tables: Tables) -> bool | None:
    """Data sets rank methods differently: few correlations are strong (here: the mean correlation
    is not strong).
    """
    return _differ(tables, DATA)


@claim(CONSISTENCY, place="Figure 3")
def protocols_differ(tables: Tables) -> bool | None:
    """MoRF and LeRF rank methods differently: none of nine correlations is strong (here: the mean
    correlation is not strong).
    """
    return _differ(tables, PROTOCOL)


@claim(CONSISTENCY, reason="Methods are right in one case and wrong in another")
def truth_is_consistent(tables: Tables) -> bool | None:
    """It is the evaluation that differs between networks and data sets, not which method is right:
    the truth's own rankings correlate strongly.
    """
    table = tables["levels"].set_index(["differ_in", "cases"])
    ends = table.loc[[(MODEL, "all"), (DATA, "all")], ["truth_low", "truth_high"]]
    return is_strong(*ends.min(skipna=False))


def _boards(run: Run, image_size: int, seeds: int) -> list[Leaderboard]:
    """Return leaderboards of the same cases with images and weights of seed, seed + 1, ..."""
    return [
        rank_methods(PAPER_METHODS, run.n, seed, pairs=PAIRS, size=image_size, device=run.device)
        for seed in run.track(range(run.seed, run.seed + seeds))
    ]


def _leaderboard(draws: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return means over draws, best method first."""
    table = over_draws(draws, ["method"], "score", seed)
    table["truth"] = table.method.map(draws.groupby("method").truth.mean())
    table["paper_place"] = table.method.map(ORDER).astype(float)
    table = table.round({"score": SCORE_DIGITS})
    table = table.sort_values("score", ascending=False, ignore_index=True)
    table.insert(1, "place", placed(table.score.to_numpy(float)))
    table["truth_place"] = placed(table.truth.round(6).to_numpy(float))
    return table


def _orders(leaderboard: pd.DataFrame) -> pd.DataFrame:
    """Return how the fused order and the truth's correlate with the paper's."""
    methods = leaderboard[leaderboard.method.isin(list(ORDER))]
    rows = []
    for name, scores in (("Meta-Rank", methods.score), ("truth", methods.truth.round(6))):
        found = with_fisher_interval(spearman(-scores, methods.paper_place), len(methods))
        rows.append({"order": f"{name} here", "other": "the paper's", **found})
    return pd.DataFrame(rows)


def _recovery(boards: Sequence[Leaderboard], seed: int) -> pd.DataFrame:
    """Return correlations with the truth's rankings, means over draws."""
    every = pd.concat([board.agreement() for board in boards])
    every, keys = every.rename(columns={"ranked_by": "truth"}), ["fused", "truth"]
    means = dict.fromkeys(("single_case", "residual", "ceiling"), "mean")
    rest = every.groupby(keys, sort=False).agg({"cases": "first", **means})
    gains = over_draws(every, keys, "gain", seed)
    gains = gains.rename(columns={"low": "gain_low", "high": "gain_high"})
    table = over_draws(every, keys, "correlation", seed).merge(gains, on=keys)
    return table.merge(rest.reset_index(), on=keys)


def _recovered(tables: Tables, fused: str, truth: str) -> Any:
    return tables["recovery"].set_index(["fused", "truth"]).loc[fused, truth]


def _checks(boards: Sequence[Leaderboard], frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return how stable fusing is over draws, and where the control and the oracle end up."""
    fits = [board.fusions[ALL] for board in boards]
    pairs = combinations([fit.scores for fit in fits], 2)
    same = [spearman(one, other) for one, other in pairs] or [np.nan]
    places = [int(frame.place[frame.method == CONTROL].iloc[0]) for frame in frames]
    last = sum(place == len(frame) for place, frame in zip(places, frames, strict=True))
    wins = [win for board in boards for win in board.oracle_wins()]
    draws = len(boards)
    rows = [
        ("correlation of two draws' fused orders, mean", np.mean(same), draws * (draws - 1) // 2),
        ("correlation of two draws' fused orders, least", min(same), draws * (draws - 1) // 2),
        ("draws in which the control random is last", last, draws),
        ("best place of the control random", min(places), draws),
        ("cases in which no method beats the exact signed mask", sum(wins), len(wins)),
        (
            "standard deviation of fused scores, mean",
            np.mean([f.scores.std() for f in fits]),
            draws,
        ),
        ("residual of the log odds, mean", np.mean([fit.residual for fit in fits]), draws),
    ]
    return pd.DataFrame(rows, columns=["check", "value", "of"])


def level_of(first: CaseScores, second: CaseScores) -> str | None:
    """Return in what alone two cases differ; None where in more, or in nothing."""
    different = [
        level for level, name in LEVELS.items() if getattr(first, name) != getattr(second, name)
    ]
    return different[0] if len(different) == 1 else None


def _pairs_of_cases(board: Leaderboard) -> Iterator[dict[str, Any]]:
    """Yield every correlation of two cases that differ in one thing; the control is left out."""
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
    """Return means by what differs, with intervals over draws."""
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


def _differ(tables: Tables, level: str) -> bool | None:
    """Return whether the mean correlation of cases that differ in a level is shown not to be strong."""
    row = tables["levels"].set_index(["differ_in", "cases"]).loc[level, "all"]
    return above(-row.high, -row.low, -STRONG)


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
