"""Table 3 of Duan et al. (2024): does ROAD rank methods alike in different cases?"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from attributionlab.environment import Environment
from attributionlab.environment.spec import known_colors
from attributionlab.errors import refuse_if
from attributionlab.imputation import constant, nearest_known_color, noisy_linear
from attributionlab.leaderboard import PAPER_METHODS, PROTOCOLS, Pair
from attributionlab.leaderboard.agreement import ranks_of
from attributionlab.leaderboard.evaluation import Explained, explained, f1_of
from attributionlab.leaderboard.report import interval_said
from attributionlab.metric_trials.agreement import lowest_part
from attributionlab.metrics import area_under_curve, removal_curve
from attributionlab.papers.metarank.reading import convention, draws_interval, shares_said, strength
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import track
from attributionlab.ranking import CorrelationInterval, spearman
from attributionlab.report.leaderboard import CorrelationMatrix, correlation_matrices_figure
from attributionlab.stats.intervals import mean_score
from attributionlab.validation import integer_problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ITEM = "metarank-table-3"
IMAGES, SIZE, SEEDS = 12, 32, 6
QUICK_IMAGES, QUICK_SIZE, QUICK_SEEDS = 4, 24, 2
PAIRS = (
    Pair("multi-color-sum", 1, label="four colors"),
    Pair("multi-color-sum-distractors", 4, label="distractors"),
)
FRACTIONS = tuple(tenth / 10 for tenth in range(10))
NOISE, MOST = 0.01, 0.5
ROAD, KNOWN, BLACK = "noisy linear (ROAD)", "nearest known color", "black"
SHOWN = {
    "correlations": "Spearman correlation of the rankings of eight methods by two cases, mean over "
    "draws of images and weights with its 95 % interval; truth: of the truth's rankings there",
    "differences": "ROAD's correlation less that of the other kind of removal, in the same draw",
}


def metarank_road(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    seeds: int | None = None,
    show_progress: bool = False,
) -> Reproduction:
    """Correlations of the rankings of four cases, with removed pixels imputed or not.

    Two pairs of images and network, each MoRF and LeRF. Pixels become what ROAD's noisy linear
    interpolation makes of them; the known color nearest to that, which no network has an unforeseen
    reaction to; or black, as in the rest of the paper.

    Parameters
    ----------
    n : int, optional
        Images of each pair.
    quick : bool
        Fewer and smaller images, two draws.
    seed : int
        The first draw.
    seeds : int, optional
        How many draws of images and random weights; 6 by default.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "correlations", "differences", "draws" and "ranks"; figure "matrices".
    """
    import pandas as pd

    number = seeds if seeds is not None else QUICK_SEEDS if quick else SEEDS
    refuse_if(integer_problem("seeds", number, 1))
    images = n if n is not None else QUICK_IMAGES if quick else IMAGES
    side = QUICK_SIZE if quick else SIZE
    ranks, draws = [], []
    asked = [(draw, pair) for draw in range(seed, seed + number) for pair in PAIRS]
    for draw, pair in track(asked, len(asked), ITEM, show_progress):
        env = pair.load(side, draw)
        seen = explained(PAPER_METHODS, env, images, draw)
        ranks += [
            {"seed": draw, "environment": pair.data, "network": pair.network, **row}
            for row in _ranks(env, seen, draw)
        ]
    table = pd.DataFrame(ranks)
    for (draw, imputation), here in table.groupby(["seed", "imputation"], sort=False):
        keys = {"seed": draw, "imputation": imputation}
        draws += [keys | row for row in _correlations(here)]
    correlations = pd.DataFrame(draws)
    tables = {
        "correlations": _summary(correlations, seed),
        "differences": _differences(correlations, seed),
        "draws": correlations,
        "ranks": table,
    }
    return Reproduction(
        item=ITEM,
        title="How alike four cases rank eight methods under ROAD (Duan et al., Table 3)",
        tables=tables,
        figures={"matrices": _figure(correlations, number)},
        findings=_findings(tables, number),
        shown=SHOWN,
    )


def imputations_of(env: Environment, seed: int) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """What removed pixels become, by name; noise is the same for every mask."""
    highest = float(env.max_value)

    def road(images: Tensor, keep: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        noisy = noisy_linear(images, keep, noise=NOISE, value_range=highest, generator=generator)
        return noisy.clamp(0, highest)

    return {
        ROAD: road,
        KNOWN: partial(
            nearest_known_color, colors=torch.tensor(known_colors(env.spec)).float(), noise=0
        ),
        BLACK: partial(constant, value=0.0),
    }


def _ranks(env: Environment, seen: Explained, seed: int) -> Iterator[dict[str, Any]]:
    """Every method's area and rank, by imputation and protocol, and its F1."""
    truth = lowest_part(f1_of(seen)).mean(1)
    at = torch.tensor(FRACTIONS, dtype=torch.float64)
    for imputation, made in imputations_of(env, seed).items():
        for protocol, order in PROTOCOLS.items():
            areas = []
            for maps in seen.maps.values():
                curves = removal_curve(
                    env.model,
                    seen.images,
                    seen.targets,
                    maps,
                    order=order,
                    fractions=FRACTIONS,
                    imputation=made,
                    value_range=(0.0, float(env.max_value)),
                )
                areas.append(float(area_under_curve(curves.mean(0), at)))
            [ranks] = ranks_of(np.array(areas)[:, None], [order == "morf"]).T
            for method, area, rank, f1 in zip(seen.maps, areas, ranks, truth, strict=True):
                yield {
                    "imputation": imputation,
                    "protocol": protocol,
                    "method": method,
                    "area": area,
                    "rank": rank,
                    "truth": f1,
                }


def _correlations(ranks: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    """Of every two of the four cases, and of the truth's rankings there."""
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


def _summary(draws: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    """Means over draws with their intervals."""
    import pandas as pd

    rows = []
    for keys, here in draws.groupby(["imputation", "first", "second"], sort=False):
        low, high = draws_interval(here.correlation, seed)
        rows.append(
            dict(zip(("imputation", "first", "second"), keys, strict=True))
            | {
                "correlation": float(here.correlation.mean()),
                "low": low,
                "high": high,
                "truth": float(here.truth.mean()),
            }
        )
    return pd.DataFrame(rows)


def _differences(draws: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    """How much more alike ROAD's rankings are than other removals', mean over pairs of cases."""
    import pandas as pd

    means = draws.groupby(["seed", "imputation"]).correlation.mean().unstack("imputation")
    protocols = draws[_same_environment(draws)]
    within = protocols.groupby(["seed", "imputation"]).correlation.mean().unstack("imputation")
    rows = []
    for which, table in (("all six pairs of cases", means), ("MoRF with LeRF", within)):
        for other in (BLACK, KNOWN):
            values = table[ROAD] - table[other]
            low, high = draws_interval(values, seed)
            rows.append(
                {
                    "pairs": which,
                    "against": other,
                    "road": float(table[ROAD].mean()),
                    "other": float(table[other].mean()),
                    "difference": mean_score(values.to_numpy(float)),
                    "low": low,
                    "high": high,
                }
            )
    return pd.DataFrame(rows)


def _same_environment(draws: "pd.DataFrame") -> "pd.Series[bool]":
    names = [draws[column].str.rsplit(", ", n=1).str[0] for column in ("first", "second")]
    return names[0] == names[1]


def _findings(tables: Mapping[str, "pd.DataFrame"], draws: int) -> list[str]:
    table, found = tables["correlations"], [convention()]
    for imputation, here in table.groupby("imputation", sort=False):
        said = shares_said(here.correlation.tolist())
        found.append(
            f"{imputation}, means over {draws} draws: {said}. By their intervals {_shown(here)}. The "
            f"truth's rankings correlate by {here.truth.mean():.2f} on average."
        )
    found.append(
        "The paper: with ROAD all correlations of four cases are moderate or weak. Here by their "
        f"intervals {_shown(table[table.imputation == ROAD])}."
    )
    for row in tables["differences"].itertuples():
        outcome = (
            f"{draws} draws give no interval"
            if np.isnan(row.low)
            else "ROAD is more consistent"
            if row.low > 0
            else "ROAD is less consistent"
            if row.high < 0
            else "no difference is shown"
        )
        found.append(
            f"{row.pairs}: ROAD {row.road:.2f}, {row.against} {row.other:.2f}; difference "
            f"{interval_said(CorrelationInterval(row.difference, row.low, row.high))}: {outcome}."
        )
    found += _same_as_black(tables["ranks"])
    row = tables["differences"].iloc[0]
    verdict = (
        "not agreed, ROAD is more consistent than removal to black"
        if row.low > 0
        else "agreed, it is shown to be no more consistent than removal to black"
        if row.high <= 0
        else "undecided, whether it is more consistent than removal to black is not shown"
    )
    found.append(f"Finding 3 of the paper, that ROAD fares no better than baselines: {verdict}.")
    return found


def _shown(correlations: "pd.DataFrame") -> str:
    """How many are shown to be strong, and how many not to be."""
    found = [strength(row.low, row.high) for row in correlations.itertuples()]
    return (
        f"{found.count('strong')} of {len(found)} are strong, {found.count('not strong')} are not, "
        f"{found.count('undecided')} undecided"
    )


def _same_as_black(ranks: "pd.DataFrame") -> Iterator[str]:
    """In how many cases of all draws ROAD ranks exactly as removal to black does."""
    keys = ["seed", "environment", "protocol", "method"]
    wide = ranks.pivot(index=keys, columns="imputation", values="rank")
    same = (wide[ROAD] == wide[BLACK]).groupby(keys[:-1]).all()
    reason = (
        ": redundant channels react to every unknown color, so that an interpolated color with noise "
        "is as unseen as black"
    )
    yield (
        f"ROAD gives the very ranks of removal to black in {int(same.sum())} of {len(same)} cases of "
        f"all draws{reason if same.mean() > MOST else ''}."
    )


def _figure(draws: "pd.DataFrame", number: int) -> "Figure":
    matrices = []
    for imputation, here in draws.groupby("imputation", sort=False):
        names = list(dict.fromkeys([*here["first"], *here["second"]]))
        values = np.eye(len(names))
        for (first, second), each in here.groupby(["first", "second"]).correlation.mean().items():
            row, column = names.index(first), names.index(second)
            values[row, column] = values[column, row] = each
        matrices.append(CorrelationMatrix(str(imputation), names, names, values))
    title = (
        "Spearman correlation of the rankings of eight methods by two cases, mean over "
        f"{number} {'draw' if number == 1 else 'draws'} of images and weights"
    )
    return correlation_matrices_figure({"": matrices}, title)
