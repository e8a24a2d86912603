"""How well scores on hand-weighted networks predict those on trained ones, with intervals over worlds,
trained networks and methods.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attributionlab.base import CONFIDENCE, LEAST_SHARE, middle
from attributionlab.metrics.ranking import centered_ranks
from attributionlab.worlds.nets import GRADED

TRAINED = "trained"
SOFT = " (soft sister)"
MEAN, RANKING = "mean of planes and natural", "ranking score"
OTHER, SAME = "another architecture", "another seed"
"""Trained networks themselves, as predictors of each other: the ceiling."""
PASSES = 0.5
RESAMPLES = 2000
"""Each end of a 95 % interval then has a Monte-Carlo error of 0.06 standard errors."""
STATISTICS = 3
COLUMNS = (
    *("value", "low", "high"),
    *("same_half", "same_half_low", "same_half_high"),
    *("same_verdict", "same_verdict_low", "same_verdict_high"),
)
"""Each statistic with the ends of its interval; the first is the correlation."""
Numbers = NDArray[np.float64]


class Panel(NamedTuple):
    """One world's scores: predictors in the first rows, its trained networks in the others.

    `f1`, `solved`: (P + T, M), of the M methods that ran on all its networks. `methods`: where these
    stand among all methods. `predictors`: P names. `architectures`: of the T trained networks.
    """

    f1: Numbers
    solved: Numbers
    methods: NDArray[np.int64]
    predictors: tuple[str, ...]
    architectures: tuple[str, ...]


def panel_of(scores: pd.DataFrame, methods: Sequence[str]) -> Panel | None:
    """The panel of one world's scores; None without a trained network.

    Predictors are its implementations; those with the soft sister in place of the world where there is
    one; the mean of planes and natural, and the ranking score, which is the same with soft sisters.
    """
    tables = [
        scores.pivot(index="method", columns="network", values=key) for key in ("f1", "solved")
    ]
    tables = [each.dropna(axis=1, how="all").dropna() for each in tables]
    names = [*dict.fromkeys(scores.network[scores.network.isin(tables[0].columns)])]
    learned = [name for name in names if name.startswith(TRAINED)]
    if not learned:
        return None
    sources = {name: [name] for name in names if name not in learned and SOFT not in name}
    if {*GRADED} <= sources.keys():
        softest = {name: name + SOFT if name + SOFT in names else name for name in GRADED}
        sources |= {name + SOFT: [softest[name]] for name in GRADED}
        sources |= {MEAN: [*GRADED], RANKING: [*softest.values()]}
    f1, solved = (
        np.stack(
            [table[each].mean(axis=1) for each in (*sources.values(), *([x] for x in learned))]
        )
        for table in tables
    )
    places = {name: place for place, name in enumerate(methods)}
    where = np.array([places[name] for name in tables[0].index])
    return Panel(f1, solved, where, tuple(sources), tuple(name.split()[1] for name in learned))


def statistics(
    panel: Panel, names: Sequence[str], methods: NDArray[np.int64], networks: NDArray[np.int64]
) -> Numbers:
    """(predictors, 3): three statistics, NaN for a predictor that the world lacks.

    Spearman's correlation of the F1 of methods; the share of methods whose F1 is 0.5 or more on both or
    on neither; and of those that solve three quarters of the questions on both or on neither: each the
    mean over trained networks, or over pairs of them. `methods`, `networks`: which, with repetition.
    """
    f1, solved = panel.f1[:, methods], panel.solved[:, methods]
    count = len(panel.predictors)
    ranks = centered_ranks(f1)
    squares = np.square(ranks).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN where all methods score alike
        correlation = (ranks @ ranks[count:].T) / np.sqrt(np.outer(squares, squares[count:]))
    alike = [
        (each[:, None] == each[None, count:]).mean(-1)
        for each in (f1 >= PASSES, solved >= LEAST_SHARE)
    ]
    found = np.stack([correlation, *alike])[:, :, networks]  # (3, P + T, drawn)
    kinds = np.array(panel.architectures)
    differ = kinds[networks][:, None] != kinds[networks][None]
    same_seed = (networks[:, None] == networks[None]) | differ
    pairs = found[:, count + networks]
    result = {name: found[:, row].T for row, name in enumerate(panel.predictors)}
    result |= {OTHER: pairs[:, differ].T, SAME: pairs[:, ~same_seed].T}
    return np.stack([_mean(result.get(name, np.empty((0, STATISTICS)))) for name in names])


def _mean(values: Numbers) -> Numbers:
    """Over the first axis, NaN left out; NaN without any."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means: Numbers = np.where(there, values, 0).sum(0) / there.sum(0)
    return means


def transfer_table(
    panels: Mapping[str, Panel], groups: Mapping[str, Sequence[str]], methods: int, seed: int
) -> pd.DataFrame:
    """A row for each predictor in each world and in each group of worlds.

    Columns: predictor, world, networks, and `COLUMNS`, the `statistics` with their 95 % intervals:
    trained networks and methods are drawn again, and in groups worlds too, methods alike in all worlds
    of a draw. Over a group it is the mean of its worlds' means.
    """
    names = [*dict.fromkeys(name for panel in panels.values() for name in panel.predictors)]
    names += [OTHER, SAME]
    rows = []
    for title, worlds in {**{name: [name] for name in panels}, **groups}.items():
        chosen = [panels[name] for name in worlds if name in panels]
        if not chosen:
            continue
        values = _over(chosen, names, np.arange(methods), None)
        low, high = _interval(chosen, names, methods, seed)
        for row, name in enumerate(names):
            if np.isnan(values[row]).all():
                continue
            asked = [panel for panel in chosen if name in (*panel.predictors, OTHER, SAME)]
            numbers = np.stack([values[row], low[row], high[row]], 1).ravel()
            count = sum(len(panel.architectures) for panel in asked)
            rows.append([name, title, count, *numbers])
    return pd.DataFrame(rows, columns=["predictor", "world", "networks", *COLUMNS])


def _over(
    panels: Sequence[Panel],
    names: Sequence[str],
    drawn: NDArray[np.int64],
    rng: np.random.Generator | None,
) -> Numbers:
    """The mean over worlds of `statistics` on some methods, of all networks or of some drawn again."""
    values = []
    for panel in panels:
        place = np.full(drawn.max() + 1, -1)
        there = panel.methods <= drawn.max()
        place[panel.methods[there]] = there.nonzero()[0]
        methods, count = place[drawn], len(panel.architectures)
        networks = np.arange(count) if rng is None else rng.integers(0, count, count)
        values.append(statistics(panel, names, methods[methods >= 0], networks))
    return _mean(np.stack(values))


def _interval(
    panels: Sequence[Panel], names: Sequence[str], methods: int, seed: int
) -> tuple[Numbers, Numbers]:
    """Both ends, (predictors, 3) each."""
    rng = np.random.default_rng([seed, len(panels)])
    draws = np.stack(
        [
            _over(
                [panels[world] for world in rng.integers(0, len(panels), len(panels))],
                names,
                rng.integers(0, methods, methods),
                rng,
            )
            for _ in range(RESAMPLES)
        ]
    )
    ends = [middle(each, CONFIDENCE) for each in draws.reshape(len(draws), -1).T]
    low, high = np.array(ends).reshape(len(names), STATISTICS, 2).transpose(2, 0, 1)
    return low, high
