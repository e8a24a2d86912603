"""Figure 3 of Duan et al. (2024): do models, data sets and protocols rank methods alike?"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from attributionlab.errors import refuse_if
from attributionlab.leaderboard import PROTOCOLS, CaseScores, Leaderboard
from attributionlab.papers.metarank.boards import boards_of, methods_of
from attributionlab.papers.metarank.reading import (
    STRONG,
    convention,
    draws_interval,
    reading,
    row_said,
    shares_said,
    strength,
)
from attributionlab.papers.reproduction import Reproduction
from attributionlab.ranking import spearman
from attributionlab.report.leaderboard import CorrelationMatrix, correlation_matrices_figure
from attributionlab.stats.intervals import mean_score
from attributionlab.validation import integer_problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ITEM = "metarank-figure-3"
IMAGES, SIZE, SEEDS = 8, 48, 6
QUICK_IMAGES, QUICK_SIZE, QUICK_SEEDS = 4, 32, 2
LEVELS = ("model", "data set", "protocol")
PAPER = {
    "model": "strong between ResNet-18 and Inception-v4 on Food-101 alone, in both protocols",
    "data set": "few are strong",
    "protocol": "none of nine is strong",
}
MEANING = {
    "strong": "shown to be strong",
    "not strong": "shown not to be strong",
    "undecided": "of which it is undecided whether it is strong",
}
SHOWN = {
    "levels": "mean Spearman correlation of the rankings of two cases that differ in one thing alone, "
    "with its 95 % interval over draws of images and weights; share strong: of all correlations",
}


def metarank_consistency(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    seeds: int | None = None,
    device: str | None = None,
    show_progress: bool = False,
) -> Reproduction:
    """Spearman correlations of the rankings of cases that differ in one thing.

    Two cases differ in the model where images and protocol are the same, and the networks have other
    doses of redundant channels or another replacement; in the data set where dose and protocol are the
    same; in the protocol where images and network are.

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
        Tables "levels" and "correlations" (every one); figure "matrices" (means over draws).
    """
    import pandas as pd

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
    correlations = pd.concat(
        [pd.DataFrame(_rows(board)).assign(seed=board.seed) for board in boards],
        ignore_index=True,
    )
    levels = _levels(correlations, seed)
    return Reproduction(
        item=ITEM,
        title="How alike cases rank eight methods (Duan et al., Figure 3)",
        tables={"levels": levels, "correlations": correlations},
        figures={"matrices": _figure(boards[0].cases, correlations, number)},
        findings=_findings(levels, correlations, number),
        shown=SHOWN,
    )


def level_of(first: CaseScores, second: CaseScores) -> str | None:
    """In what alone two cases differ: "model", "data set" or "protocol"; None where in more."""
    different = [
        level
        for level, name in zip(LEVELS, ("network", "data", "protocol"), strict=True)
        if getattr(first, name) != getattr(second, name)
    ]
    return different[0] if len(different) == 1 else None


def _rows(board: Leaderboard) -> Iterator[dict[str, object]]:
    """Every correlation of two cases that differ in one thing."""
    ranks = board.ranks[methods_of(board)]
    truth = board.truth[methods_of(board)].round(6)
    for one, other in combinations(range(len(board.cases)), 2):
        first, second = board.cases[one], board.cases[other]
        level = level_of(first, second)
        if level is not None:
            yield {
                "level": level,
                "first": first.name,
                "second": second.name,
                "unseen": first.unseen + second.unseen,
                "correlation": spearman(ranks[:, one], ranks[:, other], missing="omit"),
                "truth": spearman(truth[:, one], truth[:, other], missing="omit"),
            }


def _levels(correlations: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    """Means by what differs, with intervals over draws."""
    import pandas as pd

    rows = []
    for level in LEVELS:
        here = correlations[correlations.level == level]
        for which, part in (("all", here), ("no unseen data", here[here.unseen == 0])):
            of_draw = part.groupby("seed").correlation.mean()
            low, high = draws_interval(of_draw, seed)
            known = part.correlation.dropna()
            read = known.map(reading)
            rows.append(
                {
                    "differ_in": level,
                    "cases": which,
                    "pairs": len(part) // part.seed.nunique() if len(part) else 0,
                    "correlation": mean_score(of_draw.to_numpy(float)),
                    "low": low,
                    "high": high,
                    "share_strong": float((read == "strong").mean()),
                    "share_moderate": float((read == "moderate").mean()),
                    "share_weak": float((read == "weak").mean()),
                    "truth": float(part.truth.mean()),
                }
            )
    return pd.DataFrame(rows)


def _findings(levels: "pd.DataFrame", correlations: "pd.DataFrame", draws: int) -> list[str]:
    found = [convention()]
    for row in levels[levels.cases == "all"].itertuples():
        here = correlations[correlations.level == row.differ_in]
        found.append(
            f"Cases that differ in the {row.differ_in} alone ({row.pairs} pairs, {draws} draws): the "
            f"paper: {PAPER[str(row.differ_in)]}. Here the mean correlation is {row_said(row)}, "
            f"{MEANING[strength(row.low, row.high)]}; {shares_said(here.correlation.tolist())}."
        )
    every = levels[levels.cases == "all"]
    verdicts = {"not strong": "agreed", "strong": "not agreed", "undecided": "undecided"}
    found.append(
        "Finding 1 of the paper, that other settings can give other rankings (agreed where the mean "
        f"correlation is shown to be below {STRONG:g}), by what cases differ in: "
        + ", ".join(
            f"{row.differ_in} {verdicts[strength(row.low, row.high)]}" for row in every.itertuples()
        )
        + "."
    )
    clean = levels[levels.cases == "no unseen data"].set_index("differ_in")
    of_all = every.set_index("differ_in")
    said = []
    for level in LEVELS:
        row, other = clean.loc[level], of_all.loc[level]
        if row.pairs:
            said.append(f"{level} {row_said(row)} instead of {other.correlation:.2f}")
    found.append(
        "Without unseen data, where removal measures what the network is known to use: "
        f"{'; '.join(said)}."
    )
    truth = correlations[correlations.level != "protocol"].truth.mean()
    found.append(
        f"The truth's rankings of the same pairs of cases, other networks or images, correlate by "
        f"{truth:.2f} on average: what differs between cases is mostly the evaluation, not which "
        "method is right."
        if truth >= STRONG
        else f"The truth's own rankings of the same pairs of cases correlate by {truth:.2f} on "
        "average: methods are right in one case and wrong in another."
    )
    return found


def _figure(cases: Sequence[CaseScores], correlations: "pd.DataFrame", draws: int) -> "Figure":
    """A matrix for the networks of each data set, the data sets of each network, and the protocols."""
    means = correlations.groupby(["first", "second"]).correlation.mean()
    rows: dict[str, list[CorrelationMatrix]] = {}
    for level, shared, label in (("model", "data", "network"), ("data set", "network", "data")):
        for protocol in PROTOCOLS:
            here = [case for case in cases if case.protocol == protocol]
            groups: dict[str, list[CaseScores]] = {
                name: [] for name in dict.fromkeys(getattr(case, shared) for case in here)
            }
            for case in here:
                groups[getattr(case, shared)].append(case)
            rows[f"by {level}, {protocol}"] = [
                _matrix(str(name), group, label, means)
                for name, group in groups.items()
                if len(group) > 1
            ]
    rows["by protocol"] = [_protocols(cases, means)]
    title = (
        "Spearman correlation of the rankings of eight methods by two cases, mean over "
        f"{draws} {'draw' if draws == 1 else 'draws'} of images and weights"
    )
    return correlation_matrices_figure(rows, title)


def _matrix(
    title: str, cases: Sequence[CaseScores], label: str, means: "pd.Series[float]"
) -> CorrelationMatrix:
    values = np.eye(len(cases))
    for (row, first), (column, second) in combinations(enumerate(cases), 2):
        values[row, column] = values[column, row] = means.get((first.name, second.name), np.nan)
    names = [str(getattr(each, label)) for each in cases]
    return CorrelationMatrix(title, names, names, values)


def _protocols(cases: Sequence[CaseScores], means: "pd.Series[float]") -> CorrelationMatrix:
    """MoRF with LeRF, by data set and network."""
    data = list(dict.fromkeys(case.data for case in cases))
    networks = list(dict.fromkeys(case.network for case in cases))
    values = np.full((len(data), len(networks)), np.nan)
    for first, second in combinations(cases, 2):
        if level_of(first, second) == "protocol":
            place = data.index(first.data), networks.index(first.network)
            values[place] = means.get((first.name, second.name), np.nan)
    return CorrelationMatrix("MoRF with LeRF", data, networks, values)
