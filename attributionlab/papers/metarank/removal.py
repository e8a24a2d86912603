"""Table 3 of Duan et al. (2024): does ROAD's imputation of removed pixels make rankings in different
cases more alike?
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from attributionlab.base import lowest_f1
from attributionlab.metrics import (
    Order,
    PerformanceOptions,
    area_under_curve,
    removal_curve,
)
from attributionlab.metrics.imputation import constant, nearest_known_color, noisy_linear
from attributionlab.metrics.ranking import spearman
from attributionlab.papers import answers
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.show import heat_map
from attributionlab.verdicts import (
    PAPER_METHODS,
    PROTOCOLS,
    Pair,
    explained,
    f1_of,
    ranks_of,
)
from attributionlab.worlds import Environment, known_colors

ROAD_PAIRS = (
    Pair("multi-color-sum", 1, label="four colors"),
    Pair("multi-color-sum-distractors", 4, label="distractors"),
)
FRACTIONS = tuple(tenth / 10 for tenth in range(10))
NOISE = 0.01
ROAD, KNOWN, BLACK = "noisy linear (ROAD)", "nearest known color", "black"


def road_consistency(run: Run, *, image_size: int, seeds: int) -> Found:
    """Correlate the rankings of four cases, with removed pixels imputed or not (Spearman).

    Two pairs of images and network, each MoRF and LeRF. Pixels become what ROAD's noisy linear
    interpolation makes of them; the known color nearest to that, which no network has an unforeseen
    reaction to; or black, as in the rest of the paper.
    """
    rows = []
    every = [(seed, pair) for seed in range(run.seed, run.seed + seeds) for pair in ROAD_PAIRS]
    for seed, pair in run.track(every):
        env = pair.load(image_size, seed)
        seen = explained(PAPER_METHODS, env, run.n, seed)
        truth = dict(zip(seen.maps, lowest_f1(f1_of(seen)).mean(1), strict=True))
        case = {"seed": seed, "environment": pair.data, "network": pair.network}
        for imputation, impute in imputations_of(env, seed).items():
            found = ranked_by_removal(
                *(env.model, seen.images, seen.targets, seen.maps),
                imputation=impute,
                value_range=(0.0, float(env.max_value)),
            )
            case["imputation"] = imputation
            rows += [{**case, **row, "truth": truth[row["method"]]} for row in found]
    ranks = pd.DataFrame(rows)
    draws = pd.DataFrame(
        {"seed": seed, "imputation": imputation, **row}
        for (seed, imputation), part in ranks.groupby(["seed", "imputation"], sort=False)
        for row in _correlations(part)
    )
    keys = ["imputation", "first", "second"]
    correlations = answers.over_draws(draws, keys, "correlation", run.seed)
    correlations["truth"] = draws.groupby(keys, sort=False).truth.mean().to_numpy()
    tables = {
        "correlations": correlations,
        "strength": pd.DataFrame(_strength(correlations, ranks)),
        "differences": _differences(draws, run.seed),
        "draws": draws,
        "ranks": ranks,
    }
    figure = heat_map(
        *(correlations, "second", "first", "correlation"),
        panel="imputation",
        title="Rankings of eight methods by two cases: mean over "
        f"{seeds} {'draw' if seeds == 1 else 'draws'} of images and weights",
        label="Spearman correlation of two rankings",
        limits=(-1, 1),
        columns=3,
    )
    return Found(tables, {"matrices": figure})


def road_is_not_strong(tables: Tables) -> bool | None:
    row = tables["strength"].set_index("imputation").loc[ROAD]
    return False if row.shown_strong else None if row.undecided else True


def road_is_no_better(tables: Tables) -> bool | None:
    row = tables["differences"].iloc[0]
    return answers.decided(row.high <= 0, row.low > 0)


def _ranks(areas: Sequence[float], order: Order) -> list[float]:
    """Each method's rank by its area, 1 is best."""
    [ranks] = ranks_of(np.array(areas)[:, None], [order == "morf"]).T
    return [float(rank) for rank in ranks]


def imputations_of(env: Environment, seed: int) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """What fills removed pixels, by name; noise is the same for every mask."""
    highest = float(env.max_value)

    def road(images: Tensor, keep: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        noisy = noisy_linear(images, keep, noise=NOISE, value_range=highest, generator=generator)
        return noisy.clamp(0, highest)

    colors = torch.tensor(known_colors(env.spec)).float()
    return {
        ROAD: road,
        KNOWN: partial(nearest_known_color, colors=colors, noise=0),
        BLACK: partial(constant, value=0.0),
    }


def ranked_by_removal(
    network: nn.Module,
    images: Tensor,
    targets: Tensor,
    maps: Mapping[str, Tensor],
    **setup: Unpack[PerformanceOptions],
) -> Iterator[dict[str, Any]]:
    """Every method's area under the curve of its accuracy, and its rank, in both protocols."""
    at = torch.tensor(FRACTIONS, dtype=torch.float64)
    for protocol, order in PROTOCOLS.items():
        areas = []
        for each in maps.values():
            scores = removal_curve(
                network, images, targets, each, order=order, fractions=FRACTIONS, **setup
            )
            areas.append(float(area_under_curve(scores.mean(0), at)))
        for method, area, rank in zip(maps, areas, _ranks(areas, order), strict=True):
            yield {"protocol": protocol, "method": method, "area": area, "rank": rank}


def _correlations(ranks: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Those of every two of the four cases, and of the truth's rankings there."""
    cases = ranks.assign(case=ranks.environment + ", " + ranks.protocol)
    wide = cases.pivot(index="method", columns="case", values="rank")
    truth = cases.pivot(index="method", columns="case", values="truth").round(6)
    for first, second in combinations(cases.case.unique(), 2):
        yield {
            "first": first,
            "second": second,
            "correlation": spearman(wide[first], wide[second], missing="omit"),
            "truth": spearman(truth[first], truth[second], missing="omit"),
        }


def _strength(correlations: pd.DataFrame, ranks: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Count, for each imputation, what intervals show, and the cases that it ranks as black does."""
    keys = ["seed", "environment", "protocol", "method"]
    wide = ranks.pivot(index=keys, columns="imputation", values="rank")
    for imputation, part in correlations.groupby("imputation", sort=False):
        found = [answers.above(row.low, row.high, answers.STRONG) for row in part.itertuples()]
        same = (wide[imputation] == wide[BLACK]).groupby(keys[:-1]).all()
        yield {
            "imputation": imputation,
            **answers.shares(part.correlation),
            "shown_strong": found.count(True),
            "shown_not_strong": found.count(False),
            "undecided": found.count(None),
            "truth": part.truth.mean(),
            "same_as_black": int(same.sum()),
            "cases": len(same),
        }


def _differences(draws: pd.DataFrame, seed: int) -> pd.DataFrame:
    """How much more alike ROAD's rankings are than other removals', mean over pairs of cases."""
    data = [draws[column].str.rsplit(", ", n=1).str[0] for column in ("first", "second")]
    rows = []
    for pairs, part in (
        ("all six pairs of cases", draws),
        ("MoRF with LeRF", draws[data[0] == data[1]]),
    ):
        means = part.groupby(["seed", "imputation"]).correlation.mean().unstack("imputation")
        for other in (BLACK, KNOWN):
            names = {"pairs": pairs, "against": other}
            values = pd.DataFrame({**names, "difference": means[ROAD] - means[other]})
            found = answers.over_draws(values, [*names], "difference", seed)
            rows.append(found.assign(road=means[ROAD].mean(), other=means[other].mean()))
    return pd.concat(rows, ignore_index=True)
