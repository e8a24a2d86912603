"""Tables 2 to 6 and figures 9, 18, 20 and 21: do perturbation metrics rank methods as the truth does?

One run of an environment yields its ranks, areas, correlations and curves.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from attributionlab.base import (
    CONFIDENCE,
    Numbers,
    draw_again,
    mean_score,
    middle,
    over_runs,
    times_drawn,
    weighted_means,
)
from attributionlab.metrics.ranking import centered_ranks, row_correlations, spearman
from attributionlab.papers.answers import above, decided
from attributionlab.papers.attributionlab.comparison_plan import (
    COLORS,
    MODULO,
    UNIFORM,
    WITHOUT,
    environment_of,
)
from attributionlab.papers.attributionlab.perturbation_study import (
    METRICS,
    SCORES,
    Study,
    constant_by_ties,
    magnitude_of,
    replacement_table,
    study,
)
from attributionlab.papers.catalog import Found, Run, Tables, items
from attributionlab.show import curves
from attributionlab.verdicts import without_rounding
from attributionlab.worlds import Environment

SIGNED = ("occlusion", "integrated-gradients", "integrated-gradients-true-baseline")
"""Methods whose signs are at the mercy of a remainder, which falls by 29 once in 30 pixels."""
FROM_BASELINE = {name: f"{name}-true-baseline" for name in ("occlusion", "integrated-gradients")}
READINGS = {
    MODULO: {"magnitude": {name: magnitude_of(name) for name in SIGNED}, "signed": {}},
    **{
        name: {"black baseline": {}, "true baseline": FROM_BASELINE}
        for name in (COLORS, WITHOUT, UNIFORM)
    },
}
"""Which maps stand for the paper's methods, the likelier reading first. single-color-modulo: IG is
among the best of Table 4, which it is without its signs only. multi-color-sum: G.2 lists the true
baseline for Occlusion and IG, G.3 speaks of black, and IG is next to last by F1 in Table 5."""
PRINTED = {
    "table-3": ("overall", (0.94, 0.98, 1.00)),
    "table-5": ("positive", (0.02, 0.47, 0.65)),
    "table-6": ("overall", (0.42, 0.61, 0.81)),
}
"""The truth of a table's F1, and its correlations of the three metrics with it; Table 2 repeats those
of Tables 5 and 6."""
TABLE_OF = {MODULO: "table-3", COLORS: "table-5", WITHOUT: "table-6", UNIFORM: "table-6"}
"""By environment; appendix I can be read in two ways, so Table 6 stands for two."""
ENVIRONMENTS = {
    "table-2": (COLORS, WITHOUT, UNIFORM),
    "table-3": (MODULO,),
    "table-4": (MODULO,),
    "table-5": (COLORS,),
    "table-6": (WITHOUT, UNIFORM),
    "figure-9": (COLORS, WITHOUT, UNIFORM),
    "figure-18": (MODULO,),
    "figure-20": (COLORS,),
    "figure-21": (WITHOUT, UNIFORM),
}
DRAWN = {"figure-9": ("insertion",)} | dict.fromkeys(
    ("figure-18", "figure-20", "figure-21"), ("sensitivity_n",)
)
"""Metrics in the figure; all of them by default."""
MEANINGS = {
    "insertion": "Insertion, higher is better",
    "deletion": "Deletion, lower is better",
    "sensitivity_n": "Sensitivity-N, higher is better",
}
EFFECTS = {
    COLORS: ("with the Unseen Data Effect",),
    WITHOUT: ("no redundant channels: no Unseen Data Effect",),
    UNIFORM: ("redundant channels, uniform weights: with the effect",),
}
"""What an environment stands for in the paper."""
EVERY = 8
"""Points of a curve from one that is drawn to the next."""
TRUTHS = ("overall", "positive")
RESAMPLES = 1000
"""Each end of a 95 % interval then has a Monte-Carlo error of less than a tenth of the standard error:
sqrt(0.025 x 0.975 / RESAMPLES) over the normal density at 1.96."""
DECIMALS = 5
"""To which scores are rounded before they are ranked: what float32 maps make differ less is a tie."""
STRONG = 0.7
"""The correlation from which a metric is said to rank as the truth does."""


def perturbation_tables(run: Run) -> Found:
    """Insertion, Deletion and Sensitivity-N beside the truth's F1, for the methods of the paper."""
    names = ENVIRONMENTS[run.item]
    studies = [run.once(name, partial(_studied, run, name)) for name in names]
    correlations, scores = correlations_table(studies, run.seed), scores_table(studies)
    undefined = pd.DataFrame([each.undefined for each in studies])
    tables = {
        "ranks": ranks_table(studies),
        **{metric: _by_environment(scores, metric) for metric in ("insertion", "sensitivity_n")},
        "summary": summary_table(correlations),
        "scores": scores,
        "correlations": correlations,
        "undefined": undefined[undefined.share > 0],
        "images": images_table(studies),
        "curves": _of_all(studies, "curves"),
    }
    if names == (MODULO,):
        tables |= {
            "areas": areas_table(studies[0]),
            "best-order": best_order_table(studies[0]),
            "ties": ties_table(studies[0].env, run.n, run.seed),
        }
    else:
        tables["replacement"] = replacement_table(studies)
    if len(names) > 1:
        tables["orders"] = orders_table(scores)
    if {COLORS, WITHOUT} <= set(names):
        tables["two-by-two"] = two_by_two_table(correlations)
    first = [name for name in items()[run.item].tables if name in tables]
    tables = {name: tables[name] for name in dict.fromkeys([*first, *tables])}
    return Found(tables, {"curves": _figure(run, studies)})


def _studied(run: Run, name: str) -> Study:
    """The study of an environment, which several items need."""
    methods = [*printed_ranks(name).index, *([] if name == MODULO else FROM_BASELINE.values())]
    return study(
        *(environment_of(name, run.quick), methods, run.n, run.seed),
        unsigned=SIGNED if name == MODULO else (),
        quick=run.quick,
        track=run.track,
    )


def printed_ranks(name: str) -> pd.DataFrame:
    """Ranks of the paper's table about an environment, by method: F1 and the metrics, 1 is best."""
    table = pd.read_csv(Path(__file__).parent / "published_ranks.csv")
    return table[table["item"] == TABLE_OF[name]].drop(columns="item").set_index("method")


def printed_areas() -> pd.DataFrame:
    """Table 4: Insertion and Deletion AUC by method."""
    return pd.read_csv(Path(__file__).parent / "published_areas.csv", index_col="method")


def scores_table(studies: Sequence[Study]) -> pd.DataFrame:
    """Means over images; of a method that optimizes also the lowest and the highest of several runs."""
    means = _means(_of_all(studies, "scores"), ["environment", "method", "run"])
    return _first_and_ends(means.reset_index())


def images_table(studies: Sequence[Study]) -> pd.DataFrame:
    """A row for each environment, method and image, as in `scores_table`."""
    return _first_and_ends(_of_all(studies, "scores"))


def ranks_table(studies: Sequence[Study]) -> pd.DataFrame:
    """The paper's ranks and ours, 1 the best.

    F1 is of the truth that the paper's table is about; maps are those of the first of `READINGS`.
    """
    rows = []
    for each in studies:
        printed, (truth, _) = printed_ranks(each.env.name), PRINTED[TABLE_OF[each.env.name]]
        methods = _read(each, next(iter(READINGS[each.env.name])))
        means = _rounded_means(each).rename(columns={f"f1_{truth}": "f1"})[[*printed]]
        first = means.xs(0, level="run").loc[methods]
        for ours, (method, theirs) in zip(methods, printed.iterrows(), strict=True):
            of_runs = []
            for of_run in means.loc[ours].to_numpy():
                table = first.copy()
                table.loc[ours] = of_run
                # The more the better, but for Deletion.
                of_runs.append((table * [1, 1, -1, 1]).rank(ascending=False).loc[[ours]])
            beside = _beside_the_paper(str(method), theirs, of_runs)
            rows += [{"environment": each.env.name, **row} for row in beside]
    return pd.DataFrame(rows)


def _beside_the_paper(
    method: str, theirs: pd.Series, runs: Sequence[pd.DataFrame]
) -> Iterator[dict[str, Any]]:
    """A method's numbers by run, each after the paper's, which has one run."""
    for label, ours in _ends(method, runs):
        row: dict[str, Any] = {"method": label}
        for name in ours:
            paper = theirs[name] if label == method else np.nan
            row |= {f"{name}_paper": paper, name: ours[name].item()}
        yield row


def correlations_table(
    studies: Sequence[Study], seed: int, without: Collection[str] = ()
) -> pd.DataFrame:
    """Spearman correlation of each metric's ranking with that of F1, by truth, reading and metric.

    Methods in `without` are left out. `paper` is as printed, `of_printed_ranks` follows from its
    ranks; `low` and `high` are ours' 95 % interval, images and methods drawn again.
    """
    rows = []
    for each in studies:
        name, printed = each.env.name, printed_ranks(each.env.name)
        about, correlations = PRINTED[TABLE_OF[name]]
        recomputed = [spearman(printed["f1"].to_numpy(), printed[m].to_numpy()) for m in METRICS]
        for reading in READINGS[name]:
            methods = [method for method in _read(each, reading) if method not in without]
            found = mean_agreement({s: _pivoted(each, s, methods) for s in SCORES}, seed)
            for truth in TRUTHS:
                for metric, *theirs in zip(METRICS, correlations, recomputed, strict=True):
                    known = (name, truth, reading, metric)
                    published = theirs if truth == about else (np.nan, np.nan)
                    rows.append((*known, *published, *found[truth, metric]))
    columns = ["environment", "truth", "maps", "metric", "paper", "of_printed_ranks"]
    return pd.DataFrame(rows, columns=[*columns, "ours", "low", "high"])


def mean_agreement(
    scores: Mapping[str, Numbers], seed: int
) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Correlate the rankings of candidates by each metric with those by F1 on each truth.

    `scores` has (candidates, images) for each of `SCORES`, NaN where one does not apply, which is left
    out of means. By truth and metric: the correlation and its 95 % interval, all NaN where a metric
    scores all candidates alike or one not at all.

    A resample draws the images, with replacement, takes means over them, draws the candidates, with
    replacement, and ranks them. All metrics meet the same resamples. Drawing images again adds their
    chance a second time, which lowers correlations: the percentile interval of the resamples may lie
    below the measured value altogether. It is therefore moved until the resamples' median is the
    measured value, and cut off at -1 and 1. So it is the interval of the correlation that so many
    images give: where scores differ from image to image, endlessly many images correlate higher, and
    the interval need not reach up to that.
    """
    candidates, images = next(iter(scores.values())).shape
    rng = np.random.default_rng([seed, candidates, images])
    # The first row is what was measured, not resampled.
    drawn = times_drawn(draw_again(images, RESAMPLES, rng))
    times = np.concatenate([np.ones((1, images)), drawn])
    chosen = np.vstack([np.arange(candidates), draw_again(candidates, RESAMPLES, rng)])
    ranks = {}
    for name, values in scores.items():
        means = weighted_means(values.T, [times]) * (-1 if name == "deletion" else 1)
        ranks[name] = centered_ranks(np.take_along_axis(without_rounding(means), chosen, axis=1))
    found = {}
    for truth, metric in product(TRUTHS, METRICS):
        measured, *resampled = row_correlations(ranks[metric], ranks[f"f1_{truth}"])
        there = np.array([each for each in resampled if not np.isnan(each)])
        moved = there - np.median(there) + measured if len(there) else there
        low, high = np.clip(middle(moved, CONFIDENCE), -1, 1).tolist()
        found[truth, metric] = float(measured), low, high
    return found


def summary_table(correlations: pd.DataFrame) -> pd.DataFrame:
    """A row for each environment, truth and reading: ours with its interval, and the paper's."""
    rows = []
    for key, group in correlations.groupby(["environment", "truth", "maps"], sort=False):
        row = dict(zip(("environment", "truth", "maps"), key, strict=True))
        for line in group.itertuples():
            row[str(line.metric)] = f"{line.ours:.2f} ({line.low:.2f}, {line.high:.2f})"
        row["paper"] = ", ".join(f"{number:.2f}" for number in group["paper"].dropna())
        rows.append(row)
    return pd.DataFrame(rows)


def two_by_two_table(correlations: pd.DataFrame) -> pd.DataFrame:
    """Table 2 for either truth: with and without the Unseen Data Effect, ours beside the paper's."""
    summary, effects = summary_table(correlations), {COLORS: "with", WITHOUT: "without"}
    first = summary["maps"] == next(iter(READINGS[COLORS]))
    rows = summary[first & summary["environment"].isin(effects)]
    effect = rows["environment"].map(effects)
    return pd.DataFrame({"unseen_data_effect": effect}).join(rows[["truth", *METRICS, "paper"]])


def areas_table(each: Study) -> pd.DataFrame:
    """Table 4 beside ours, maps with and without their signs."""
    printed, means = printed_areas(), _rounded_means(each)[["insertion", "deletion"]]
    rows: list[dict[str, Any]] = []
    for method in (*printed.index, *map(magnitude_of, SIGNED)):
        runs = [of_run for _, of_run in means.loc[[method]].groupby("run")]
        theirs = printed.loc[method.removesuffix(magnitude_of(""))]
        rows += _beside_the_paper(method, theirs, runs)
    return pd.DataFrame(rows)


def best_order_table(each: Study) -> pd.DataFrame:
    """What the best order scores: it takes the white pixels, a share s, first: 1 - s / 2 and s / 2."""
    theirs, white = printed_areas().loc["lrp"], each.counted
    paper = {"of": "paper", "white_pixels": 2 * theirs.deletion, **theirs}
    ours = {"of": "ours", "white_pixels": white, "insertion": 1 - white / 2, "deletion": white / 2}
    return pd.DataFrame([paper, ours])


def ties_table(env: Environment, n: int, seed: int) -> pd.DataFrame:
    """What a constant map scores, by how its ties are broken, the paper's numbers in the first row."""
    ties = constant_by_ties(env, n, seed)
    paper = printed_areas().loc[["constant"]].assign(ties="paper")
    return pd.concat([paper[[*ties]], ties], ignore_index=True)


def orders_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Correlation of the orders of all maps by Insertion, for each pair of environments."""
    orders = _by_environment(scores[~scores.method.str.contains(", ")], "insertion")
    pairs = combinations(orders.columns[1:], 2)
    rows = [(*pair, spearman(*(orders[each].to_numpy() for each in pair))) for pair in pairs]
    return pd.DataFrame(rows, columns=["first", "second", "correlation"])


def _by_environment(scores: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One metric by method, means over images, a column for each environment."""
    columns = scores.pivot(index="method", columns="environment", values=metric)
    ordered = columns.loc[scores.method.unique(), scores.environment.unique()]
    return ordered.rename_axis(columns=None).reset_index()


def _of_all(studies: Sequence[Study], table: str) -> pd.DataFrame:
    """A table of every study, with its environment as the first column."""
    tables = {each.env.name: getattr(each, table) for each in studies}
    return pd.concat(tables, names=["environment"]).reset_index(level=0).reset_index(drop=True)


def _first_and_ends(of_runs: pd.DataFrame) -> pd.DataFrame:
    frames = []
    for (_, method), part in of_runs.groupby(["environment", "method"], sort=False):
        runs = [each.drop(columns="run").reset_index(drop=True) for _, each in part.groupby("run")]
        for label, values in _ends(str(method), [each[[*SCORES]] for each in runs]):
            frames.append(runs[0].assign(method=label, **values))
    return pd.concat(frames, ignore_index=True)


def _ends(label: str, runs: Sequence[pd.DataFrame]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The first run's numbers and, of several runs, the lowest and the highest, by label."""
    yield label, runs[0]
    for name, end in over_runs(len(runs)).items():
        rows = zip(*(each.to_numpy() for each in runs), strict=True)
        values = [[end(cells) for cells in zip(*row, strict=True)] for row in rows]
        numbers = np.array(values, dtype=float)
        yield f"{label}, {name}", pd.DataFrame(numbers, runs[0].index, runs[0].columns)


def _read(each: Study, reading: str) -> list[str]:
    """The methods of a reading, in the order of the paper's."""
    others = READINGS[each.env.name][reading]
    return [others.get(name, name) for name in printed_ranks(each.env.name).index]


def _pivoted(each: Study, score: str, methods: Sequence[str]) -> Numbers:
    """First runs, (methods, images)."""
    first = each.scores[each.scores.run == 0]
    values = first.pivot(index="method", columns="sample", values=score).loc[methods]
    return np.asarray(values.to_numpy(float).round(DECIMALS))


def _rounded_means(each: Study) -> pd.DataFrame:
    """Means over images by method and run."""
    rounded = each.scores.round(dict.fromkeys(SCORES, DECIMALS))
    return _means(rounded, ["method", "run"]).round(DECIMALS)


def _means(scores: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    by_key = scores.drop(columns="sample").groupby(keys, sort=False)
    return by_key.agg(lambda each: mean_score(each.to_numpy(float)))


def _figure(run: Run, studies: Sequence[Study]) -> Figure:
    """Draw curves: a panel for each environment and metric, means over images."""
    side, panels = studies[0].env.recipe.image_size, []
    for each in studies:
        for metric in DRAWN.get(run.item, METRICS):
            panel = ", ".join([MEANINGS[metric], each.env.name, *EFFECTS.get(each.env.name, ())])
            table = each.curves[each.curves.metric == metric]
            shorter = table.method.str.replace("integrated-gradients", "IG")
            table = table.assign(method=shorter.str.replace("-true-baseline", "*"))
            thinned = [part.iloc[::EVERY] for _, part in table.groupby("method", sort=False)]
            pixels = side**2 if metric == "sensitivity_n" else 1
            panels += [part.assign(panel=panel, x=part.x / pixels) for part in thinned]
    return curves(
        *(pd.concat(panels).drop(columns=["low", "high"]), "x", "mean", "method"),
        panel="panel",
        title=f"{items()[run.item].title}: {side} x {side} pixels, {run.n} images, seed {run.seed}; "
        "*: from the true baseline",
        xlabel="fraction of the pixels inserted or removed",
        ylabel="output (Sensitivity-N: correlation)",
        dashed=("random", "constant"),
    )


def _intervals(tables: Tables, name: str) -> pd.DataFrame:
    """Rows of an environment: of the truth that the paper's table is about, in the likelier reading."""
    table, (truth, _) = tables["correlations"], PRINTED[TABLE_OF[name]]
    reading = next(iter(READINGS[name]))
    own = (table.environment == name) & (table.truth == truth) & (table["maps"] == reading)
    return table[own].set_index("metric")


def metrics_rank_as_f1_on_modulo(tables: Tables) -> bool | None:
    found = _intervals(tables, MODULO)
    return decided(found.low.min() >= STRONG, found.high.min() < STRONG)


def signs_spoil_the_ranks_on_modulo(tables: Tables) -> bool:
    table = tables["correlations"]
    own = table[(table.environment == MODULO) & (table.truth == PRINTED["table-3"][0])]
    readings = own.pivot(index="metric", columns="maps", values="ours")
    return bool((readings["signed"] < readings["magnitude"]).all())


def no_metric_ranks_as_f1_with_unseen_colors(tables: Tables) -> bool | None:
    found = _intervals(tables, COLORS)
    return decided(found.high.max() < STRONG, found.low.max() >= STRONG)


def agreement_returns_without_unseen_colors(tables: Tables) -> bool | None:
    with_effect, without = (_intervals(tables, name) for name in (COLORS, WITHOUT))
    return above(without.low - with_effect.high, without.high - with_effect.low)


def uniform_weights_take_the_effect_away(tables: Tables) -> bool | None:
    ours, theirs = _intervals(tables, UNIFORM), _intervals(tables, WITHOUT)
    return decided((ours.ours >= theirs.ours).all(), (ours.ours < theirs.ours).all())


def four_methods_have_the_best_order(tables: Tables) -> bool:
    areas, best = tables["areas"].set_index("method"), tables["best-order"].set_index("of")
    names = ["lrp", "deep-shap", *map(magnitude_of, SIGNED[1:])]
    # Areas of the table are rounded.
    gaps = areas.loc[names, ["insertion", "deletion"]] - best.loc["ours", ["insertion", "deletion"]]
    return bool(gaps.abs().to_numpy().max() < 10**-DECIMALS)


def deep_shap_is_negative(tables: Tables) -> bool | None:
    table = tables["curves"]
    own = table[(table.metric == "sensitivity_n") & (table.method == "deep-shap")]
    share = float((own[own.environment == COLORS]["mean"] < 0).mean())
    return decided(share > 0.9, share < 0.5)


def black_sets_off_redundant_channels(tables: Tables) -> bool:
    table = tables["replacement"]
    wins = table.groupby("environment").logit.agg(lambda each: bool(each.any()))
    return all(wins[name] == (name != WITHOUT) for name in wins.index)
