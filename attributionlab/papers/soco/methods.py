"""Figures 8, 9, 14 and 15 of Li et al. (2024): ensembles of integrated gradients, and other methods.

Soundness, completeness, ROAD and Deletion judge their maps, beside the ratios that they estimate where
the information of every pixel is known.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attributionlab.base import attributes, over_runs
from attributionlab.methods import METHODS, as_method
from attributionlab.metrics import (
    Order,
    PerformanceOptions,
    completeness_curve,
    included_pixels,
    removal_curve,
    soundness_sweep,
    true_completeness,
    true_soundness,
)
from attributionlab.metrics.ranking import fisher_interval, spearman
from attributionlab.papers.answers import above, decided
from attributionlab.papers.catalog import Found, Run, Tables, shared
from attributionlab.papers.soco.maps import (
    BLACK,
    ENSEMBLES,
    INDICATORS,
    OTHERS,
    PLAIN,
    ends_of,
    ensemble_maps,
    mean_height,
    method_maps,
    setups,
)
from attributionlab.papers.subjects.subjects import (
    TRAINED,
    OwnNetwork,
    Subject,
    chosen_subject,
    environment_subject,
    trained_subject,
)
from attributionlab.show import curves, map_grid
from attributionlab.worlds import load

Rows = dict[str, list[dict[str, Any]]]
"""By table."""

SEEN, UNSEEN = "multi-color-sum-in-distribution", "multi-color-sum"
LINEAR, BASELINE = "noisy-linear", "true-baseline"
CASES = {SEEN: (LINEAR,), UNSEEN: (LINEAR, BASELINE)}
"""Environments, and what takes the place of removed pixels. Linear imputation makes colors that no
image has: without channels for unseen colors they are absent, with them they disturb the counts."""
SIDE, QUICK_SIDE = 72, 56
"""Of the environments' images; IBA's layer has the 3 x 3 maps that it needs from 56 pixels on."""
NOISE, PAPER_NOISE = 0.0005, 0.124
"""Noise of the ensembles' samples, in units of the value range: an eighth of a gray level, chosen by
looking at what hand-weighted networks bear, and the paper's (`attributionlab.methods.PRESETS` says how
it is read)."""
NOISES, QUICK_NOISES = (0.005, PAPER_NOISE), (PAPER_NOISE,)
NOISE_IMAGES, DRAWN_IMAGES = 2, 3
FIGURE_INDICATOR = "label probability"
GROUPS = {"ensembles": (PLAIN, *ENSEMBLES), "methods": (PLAIN, *OTHERS)}
EVERY = tuple(dict.fromkeys(name for names in GROUPS.values() for name in names))
THRESHOLDS = tuple(tenth / 10 for tenth in range(1, 10))
FRACTIONS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
RATIOS = tuple(
    1 - kept / 1000 for kept in (*range(1, 20), *range(20, 100, 10), *range(100, 1001, 50))
)
"""Masked shares of the area; steps of a thousandth at first, because patches are that small."""
BEYOND = 2.0
"""A level that no performance, which is at most 1, reaches."""
FEWEST_NETWORKS = 3
"""That decide a statement."""
LEVELS = tuple(tenth / 10 for tenth in range(1, 10))
"""Predictive levels, from that of an image of which nothing is kept (0) to that of the image (1)."""
REMOVALS: Mapping[str, Order] = {
    "road-morf": "morf",
    "road-lerf": "lerf",
    "deletion-morf": "morf",
    "deletion-lerf": "lerf",
}
SIGNS = {
    "soundness": 1,
    "completeness": 1,
    **{metric: 1 if order == "lerf" else -1 for metric, order in REMOVALS.items()},
}
"""Which way is better."""
FEWEST = 4
"""Methods that an interval of a correlation needs."""
GAIN = 0.01
"""Smaller differences are none."""


def measured_rows(subject: Subject, maps: Tensor, setup: PerformanceOptions) -> Rows:
    """What the metrics say of maps (B, 1, H, W) in [0, 1] and what is true, by one indicator.

    Rows of "soundness" by level (`kept`: share of the area that reaches it; `least`, `greatest`: of an
    image; true: of the same pixels), of "completeness" by threshold, of "removal" by metric and
    fraction, and one of "summary".
    """
    given = (subject.model, subject.images, subject.targets, maps)
    phi, unknown = subject.information, torch.full((len(maps),), math.nan, dtype=torch.float64)
    nothing, intact = ends_of(*given[:3], subject.empty, setup)
    sweep = soundness_sweep(*given, ratios=RATIOS, expansion="attributed", **setup)
    rows: Rows = defaultdict(list)
    for share in LEVELS:
        level = nothing + share * (intact - nothing)
        found = sweep.at(level if level > 0 and nothing < intact else BEYOND)
        true = unknown
        if found.reached and phi is not None:
            kept = included_pixels(maps, found.ratio, expansion="attributed")
            true = true_soundness(maps, phi, included=kept)
        rows["soundness"].append(
            {
                "level": share,
                **attributes(found, "performance", "reached", "jumped"),
                "kept": 1 - found.ratio,
                "soundness": found.soundness,
                "true_soundness": float(true.nanmean()),
                **_spread(found.per_sample, ""),
                **_spread(true, "true_"),
            }
        )
    curve = completeness_curve(*given, thresholds=THRESHOLDS, **setup)
    for threshold, difference in zip(THRESHOLDS, curve.differences, strict=True):
        true = unknown if phi is None else true_completeness(maps, phi, threshold=threshold)
        row = {"threshold": threshold, "completeness": float(difference)}
        row |= {"true_completeness": float(true.mean()), **_spread(true, "true_")}
        rows["completeness"].append(row)
    heights = {}
    for metric, order in REMOVALS.items():
        how: Any = setup | ({"imputation": BLACK} if metric.startswith("deletion") else {})
        mean = removal_curve(*given, order=order, fractions=FRACTIONS, **how).mean(0)
        heights[metric] = mean_height(mean, FRACTIONS)
        rows["removal"] += [
            {"metric": metric, "fraction": fraction, "performance": float(value)}
            for fraction, value in zip(FRACTIONS, mean, strict=True)
        ]
    sound, complete = (pd.DataFrame(rows[each]) for each in ("soundness", "completeness"))
    reached = sound[sound.reached]
    summary = {
        **reached[["soundness", "true_soundness"]].mean(),
        "levels": len(reached),
        "jumped": int(reached.jumped.sum()),
        **_true_ratios(maps, phi),
        **complete[["completeness", "true_completeness"]].mean(),
        **heights,
        **_counts(maps),
    }
    return {**rows, "summary": [summary]}


def _spread(values: Tensor, name: str) -> dict[str, float]:
    """The least and the greatest value of images that have one."""
    known = values[~values.isnan()].tolist() or [math.nan]
    return {f"{name}least": min(known), f"{name}greatest": max(known)}


def _true_ratios(maps: Tensor, phi: Tensor | None) -> dict[str, float]:
    """True ratios of all attributed pixels."""
    if phi is None:
        return {"all_soundness": math.nan, "all_completeness": math.nan}
    return {
        "all_soundness": float(true_soundness(maps, phi).nanmean()),
        "all_completeness": float(true_completeness(maps, phi).mean()),
    }


def _counts(maps: Tensor) -> dict[str, int]:
    return {"empty": int((maps == 0).flatten(1).all(1).sum()), "images": len(maps)}


def case_rows(
    subject: Subject, maps: Mapping[str, Tensor], imputation: str, noise: float, seed: int
) -> Rows:
    """The rows of `measured_rows` for all indicators and methods."""
    found = {
        (indicator, method): measured_rows(subject, of_method, setup)
        for method, of_method in maps.items()
        for indicator, setup in setups(subject, imputation, seed)
    }
    rows: Rows = defaultdict(list)
    for indicator, method in product(INDICATORS, maps):
        keys = {"environment": subject.name, "imputation": imputation}
        keys |= {"indicator": indicator, "method": method}
        for table, of_table in found[indicator, method].items():
            more = {"noise": noise} if table == "summary" else {}
            rows[table] += [{**keys, **more, **row} for row in of_table]
    return rows


def noise_rows(subject: Subject, noise: float, maps: Mapping[str, Tensor]) -> Rows:
    """True ratios and empty maps of some images' ensembles; `maps` by method."""
    phi, keys = subject.information, {"environment": subject.name, "noise": noise}
    rows: list[dict[str, Any]] = []
    for name, of_name in maps.items():
        true = _true_ratios(of_name, None if phi is None else phi[: len(of_name)])
        rows.append({**keys, "method": name, **true, **_counts(of_name)})
    return {"noise": rows}


@shared
def methods_compared(
    run: Run,
    *,
    pictures: int,
    training: int,
    networks: int,
    noise: float | None = None,
    layer: str | None = None,
    **own: Unpack[OwnNetwork],
) -> Found:
    """Measure methods by soundness, completeness, ROAD and Deletion, beside the truth if it is known.

    What is positive of a map, summed over channels, is divided by its maximum. Judged are n images of
    each environment, and `pictures` of each of so many `networks`, trained on `training` pictures with
    consecutive seeds. `noise` is the standard deviation of the ensembles' noise in units of the value
    range; without it 0.0005 for environments, else 0.124. A network of one's own (`OwnNetwork`, n
    images of each class) is measured in place of ours, without a truth; GradCAM and IBA need the dotted
    name of a module, `layer`.
    """
    given = chosen_subject(run.n, run.seed, layer=layer, **own)
    judged, trained = [given] if given else [], list[Subject]()
    if given is None:
        side = QUICK_SIDE if run.quick else SIDE
        judged = [
            environment_subject(load(name, image_size=side), run.n, run.seed) for name in CASES
        ]
        trained = [
            replace(trained_subject(pictures, training, each), name=f"{TRAINED}, seed {each}")
            for each in range(run.seed, run.seed + networks)
        ]
    rows: Rows = defaultdict(list)
    others: list[dict[str, Any]] = []
    drawn: list[tuple[Subject, Mapping[str, Tensor]]] = []
    runs = max(as_method(name, METHODS).runs for name in OTHERS)
    for subject in run.track([*judged, *trained]):
        chosen = noise
        if chosen is None:
            chosen = PAPER_NOISE if subject.information is None else NOISE
        maps, *other_runs = (
            dict(method_maps(subject, (PLAIN, *OTHERS), run.seed, quick=run.quick, repeat=repeat))
            for repeat in range(runs)
        )
        ensembles = ensemble_maps(subject, chosen, run.seed, quick=run.quick)
        maps = {PLAIN: maps.pop(PLAIN), **ensembles, **maps}
        found = list(_noises(subject, maps, chosen, run))
        for imputation in CASES.get(subject.name, (LINEAR,)):
            found.append(case_rows(subject, maps, imputation, chosen, run.seed))
            for again in other_runs:
                others += case_rows(subject, again, imputation, chosen, run.seed)["summary"]
        for by_table in found:
            for table, of_table in by_table.items():
                rows[table] += of_table
        if subject is judged[-1] or subject in trained[:1]:
            drawn.append((subject, maps))
    tables = _tables(rows, others, [subject.name for subject in trained])
    figures = _figures(tables, [*judged, *trained[:1]], drawn, run.seed)
    return Found(tables, figures, given.notes if given else ())


def _noises(
    subject: Subject, maps: Mapping[str, Tensor], chosen: float, run: Run
) -> Iterable[Rows]:
    """At the chosen noise and, where the truth is known, at others."""
    known = subject.information is not None
    count = min(NOISE_IMAGES, len(subject.images)) if known else len(subject.images)
    yield noise_rows(subject, 0.0, {PLAIN: maps[PLAIN][:count]})
    yield noise_rows(subject, chosen, {name: maps[name][:count] for name in ENSEMBLES})
    for noise in (QUICK_NOISES if run.quick else NOISES) if known else ():
        if noise != chosen:
            of_noise = ensemble_maps(subject, noise, run.seed, images=count, quick=run.quick)
            yield noise_rows(subject, noise, of_noise)


def _tables(rows: Rows, others: Sequence[dict[str, Any]], trained: Sequence[str]) -> Tables:
    """All tables; what is shown of methods that optimize has the ends of their runs below it."""
    long = {name: pd.DataFrame(of_name) for name, of_name in rows.items()}
    summary = long.pop("summary")
    complete = with_other_runs(summary, others)
    first, every = (
        table[table.indicator == FIGURE_INDICATOR].drop(columns="indicator")
        for table in (summary, complete)
    )
    judged = first[~first.environment.isin(trained)]
    of_group = every[~every.environment.isin(trained)]
    of_group = of_group.assign(name=of_group.method.str.split(", ").str[0])
    correlations = agreement_table(
        summary[summary.all_completeness.notna()], {**GROUPS, "all": EVERY}
    )
    of_all = (correlations.methods == "all") & (correlations.indicator == FIGURE_INDICATOR)
    networks = networks_table(first[first.environment.isin(trained)])
    return {
        **{
            group: of_group[of_group.name.isin(names)].drop(columns="name").reset_index(drop=True)
            for group, names in GROUPS.items()
        },
        "leaders": leaders_table(judged[judged.method.isin(GROUPS["methods"])], networks),
        "agreement": correlations[of_all].reset_index(drop=True),
        "networks": networks,
        "noise": long.pop("noise"),
        "levels": levels_table(summary),
        "summary": complete,
        "correlations": correlations,
        **long,
    }


def with_other_runs(summary: pd.DataFrame, others: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Add rows of the lowest and highest numbers below each method that optimizes.

    `summary` is of the first run; `others` are rows of the other runs.
    """
    keys = [
        each for each in ("environment", "imputation", "indicator", "method") if each in summary
    ]
    numbers = [name for name in summary if name not in keys]
    known: dict[Any, list[Any]] = defaultdict(list)
    for row in others:
        known[tuple(row[key] for key in keys)].append(row)
    rows = []
    for first in summary.to_dict("records"):
        rows.append(first)
        found = [first, *known.get(tuple(first[key] for key in keys), [])]
        for name, end in over_runs(len(found)).items():
            ends = {number: end([float(run[number]) for run in found]) for number in numbers}
            rows.append({**first, "method": f"{first['method']}, {name}", **ends})
    return pd.DataFrame(rows, columns=list(summary)).astype(summary.dtypes.to_dict())


def agreement_table(summary: pd.DataFrame, groups: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Correlate each metric with its own truth and with both, over the methods of each group."""
    rows = []
    keys = ["environment", "imputation", "indicator"]
    for (key, here), group in product(summary.groupby(keys, sort=False), groups):
        chosen = here[here.method.isin(groups[group])]
        for metric, sign in SIGNS.items():
            scores = sign * chosen[metric].to_numpy(float)
            own = _own(scores, chosen.get(f"true_{metric}"))
            others = (chosen.all_soundness, chosen.true_completeness)
            rows.append(
                (*key, group, metric, *own, *(_correlation(scores, each) for each in others))
            )
    columns = [*keys, "methods", "metric", "with_own", "low", "high", "count"]
    return pd.DataFrame(rows, columns=[*columns, "with_soundness", "with_completeness"])


def _own(scores: Any, truth: Any) -> tuple[float, float, float, int]:
    """With the truth that a metric estimates, if any, with its interval, and of how many methods."""
    if truth is None:
        return math.nan, math.nan, math.nan, 0
    count = int((np.isfinite(scores) & np.isfinite(truth.to_numpy(float))).sum())
    correlation = _correlation(scores, truth)
    # Fisher's z of a perfect correlation is infinite, and its interval has no width.
    if math.isnan(correlation) or abs(correlation) > 1 - 1e-12 or count < FEWEST:
        return correlation, math.nan, math.nan, count
    interval = fisher_interval(correlation, count)
    return correlation, interval.low, interval.high, count


def _correlation(first: Any, second: Any) -> float:
    return spearman(first, second.to_numpy(float), missing="omit")


def networks_table(summary: pd.DataFrame) -> pd.DataFrame:
    """What metrics say of each method on several networks of one kind, by one indicator."""
    rows = []
    for metric, sign in SIGNS.items():
        wide = summary.pivot(index="environment", columns="method", values=metric)
        for method in dict.fromkeys(summary.method):
            values, gains = wide[method], sign * (wide[method] - wide[PLAIN])
            better, worse = (gains > GAIN).sum(), (gains < -GAIN).sum()
            found = (values.mean(), values.min(), values.max(), better, worse, values.count())
            rows.append((method, metric, *found))
    columns = ["method", "metric", "mean", "least", "greatest", "better", "worse", "networks"]
    return pd.DataFrame(rows, columns=columns)


def leaders_table(methods: pd.DataFrame, networks: pd.DataFrame) -> pd.DataFrame:
    """Return, by case and ratio, the methods that are worse than the best by at most `GAIN`.

    `methods` has a row for each method of a case, `networks` means over trained networks.
    """
    means = networks.pivot_table(index="method", columns="metric", values="mean", sort=False)
    cases = [
        ((name, imputation), here.set_index("method"))
        for (name, imputation), here in methods.groupby(["environment", "imputation"], sort=False)
    ]
    if len(means):
        cases.append(((f"{TRAINED}, mean", "noisy-linear"), means))
    rows = []
    for (name, imputation), here in cases:
        for ratio in ("soundness", "true_soundness", "completeness", "true_completeness"):
            values = here[ratio].dropna() if ratio in here else pd.Series(dtype=float)
            if len(values):
                leading = ", ".join(values[values >= values.max() - GAIN].index)
                keys = {"environment": name, "imputation": imputation, "ratio": ratio}
                rows.append({**keys, "leaders": leading, "value": values.max()})
    return pd.DataFrame(rows, columns=["environment", "imputation", "ratio", "leaders", "value"])


def levels_table(summary: pd.DataFrame) -> pd.DataFrame:
    """How many predictive levels all maps reach, by indicator, and how many in a jump."""
    table = summary.groupby("indicator", sort=False)[["levels", "jumped"]].sum().reset_index()
    count = summary.groupby("indicator", sort=False).size().to_numpy()
    table.insert(1, "tried", len(LEVELS) * count)
    return table.rename(columns={"levels": "reached"})


def _figures(
    tables: Tables,
    subjects: Sequence[Subject],
    drawn: Sequence[tuple[Subject, Mapping[str, Tensor]]],
    seed: int,
) -> dict[str, Any]:
    """Curves of both groups by three kinds of metrics, and maps of some subjects."""
    names = [subject.name for subject in subjects]
    noise = tables["summary"].drop_duplicates("environment").set_index("environment").noise
    counted = "; ".join(
        f"{each.name}: {len(each.images)} images of {each.side} x {each.side} pixels, noise of the "
        f"ensembles {noise[each.name]:g} of the value range"
        for each in subjects
    )
    figures = {}
    for kind, x, xlabel, ylabel in (
        (
            *("soundness", "level", "predictive level (0: nothing kept, 1: whole image)"),
            "share of attribution (higher is better)",
        ),
        (
            *("completeness", "threshold", "attribution threshold (share of the map's maximum)"),
            "fall of probability, or share of\ninformation (higher is better)",
        ),
        (
            *("removal", "fraction", "fraction of pixels removed"),
            "label probability (lower is better\nin MoRF, higher in LeRF)",
        ),
    ):
        table = tables[kind]
        table = table[table.environment.isin(names) & (table.indicator == FIGURE_INDICATOR)]
        case = table.environment + ", " + table.imputation
        if kind == "removal":
            points = table.assign(y=table.performance, panel=table.metric + ": " + case)
        else:
            spread = {"least": "low", "greatest": "high"}
            true = {"true_least": "low", "true_greatest": "high"}
            estimated = table.rename(columns=spread).assign(
                y=table[kind], panel=f"Estimated {kind}: " + case
            )
            known = table[table[f"true_{kind}"].notna()].rename(columns=true)
            known = known.assign(y=known[f"true_{kind}"], panel=f"True {kind}: " + case)
            points = pd.concat([estimated, known])[[x, "y", "low", "high", "method", "panel"]]
        bands = "" if kind == "removal" else "; bands: least and greatest image"
        for group, methods in GROUPS.items():
            figures[f"{group}-{kind}"] = curves(
                *(points[points.method.isin(methods)], x, "y", "method"),
                panel="panel",
                columns=4,
                title=f"{counted}; seed {seed}{bands}",
                xlabel=xlabel,
                ylabel=ylabel,
                limits=(0, 1),
            )
    for subject, maps in drawn:
        rows: dict[str, Any] = {"image": (subject.images[:DRAWN_IMAGES] / subject.highest).numpy()}
        if subject.information is not None:
            rows["information"] = subject.information[:DRAWN_IMAGES, 0].numpy()
        rows |= {name: of_name[:DRAWN_IMAGES, 0].numpy() for name, of_name in maps.items()}
        slug = subject.name.replace(", ", "-").replace(" ", "-")
        title = f"{subject.name}: positive part of each map (noise {noise[subject.name]:g})"
        figures[f"maps-{slug}"] = map_grid(rows, title=title, signed=False)
    return figures


def _on_networks(tables: Tables, metric: str) -> pd.DataFrame | None:
    """The ensembles on trained networks, by one metric; None of too few networks."""
    table = tables["networks"]
    here = table[(table.metric == metric) & table.method.isin(ENSEMBLES)].set_index("method")
    return here if len(here) and here.networks.min() >= FEWEST_NETWORKS else None


def _leaders(tables: Tables) -> dict[str, dict[str, set[str]]]:
    """By case and ratio, where the ratio is known."""
    found: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for row in tables["leaders"].itertuples():
        found[f"{row.environment}, {row.imputation}"][row.ratio] = set(row.leaders.split(", "))
    return found


def _leads(ratio: str, names: set[str], tables: Tables) -> bool | None:
    """Whether methods lead on the mean of trained networks."""
    if _on_networks(tables, ratio) is None:
        return None
    leaders = _leaders(tables)[f"{TRAINED}, mean, {LINEAR}"].get(ratio)
    return None if leaders is None else names <= leaders


def ensembles_gain_soundness(tables: Tables) -> bool | None:
    if (here := _on_networks(tables, "soundness")) is None:
        return None
    return decided((here.better == here.networks).all(), (here.worse >= here.better).any())


def smoothgrad_alone_gains_completeness(tables: Tables) -> bool | None:
    if (here := _on_networks(tables, "completeness")) is None:
        return None
    smooth, others = here.loc[ENSEMBLES[0]], here.drop(ENSEMBLES[0])
    return decided(
        smooth.better == smooth.networks and (others.better == 0).all(),
        smooth.worse >= smooth.better or (others.better > others.worse).any(),
    )


def removal_shows_no_gain(tables: Tables) -> bool | None:
    metrics = ("road-morf", "road-lerf", "deletion-morf")
    found = [_on_networks(tables, metric) for metric in metrics]
    known = [(here.better == here.networks).any() for here in found if here is not None]
    return not any(known) if known else None


def ensembles_gain_nothing_true(tables: Tables) -> bool | None:
    table = tables["ensembles"].set_index("method")[["true_soundness", "true_completeness"]]
    if table.isna().all(axis=None):
        return None
    best = table.loc[[PLAIN]].reset_index(drop=True)
    others = (table.loc[[name]].reset_index(drop=True) for name in ENSEMBLES)
    return not any((each > best + GAIN).any(axis=None) for each in others)


def no_method_leads_in_both(tables: Tables) -> bool | None:
    both = [
        each["soundness"] & each["completeness"]
        for each in _leaders(tables).values()
        if {"soundness", "completeness"} <= each.keys()
    ]
    return not any(both) if both else None


gradcam_and_iba_lead_in_soundness = partial(_leads, "soundness", {"gradcam", "iba"})
extremal_perturbation_leads_in_completeness = partial(
    _leads, "completeness", {"extremal-perturbation"}
)


def estimates_rank_as_the_truth(tables: Tables) -> bool | None:
    table = tables["agreement"].query("environment != @UNSEEN or imputation != @LINEAR")
    table = table[table.metric.isin(["soundness", "completeness"])]
    if not len(table) or table.low.isna().any():
        return None
    return above(table.low, table.high)


def paper_noise_loses_information(tables: Tables) -> bool | None:
    table = tables["noise"].query("noise == @PAPER_NOISE").dropna(subset="all_completeness")
    return bool(table.all_completeness.mean() < 0.1) if len(table) else None
