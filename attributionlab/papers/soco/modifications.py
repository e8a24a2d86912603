"""Table 1 and Figures 7 and 13 of Li et al. (2024): do metrics see that the values of a map changed?"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import FEWEST_FOR_ORDER, with_intervals
from attributionlab.metrics import (
    PerformanceOptions,
    completeness_curve,
    rank_correlation,
    removal_curve,
    soundness_sweep,
)
from attributionlab.metrics.ranking import hausdorff
from attributionlab.papers.answers import above
from attributionlab.papers.catalog import Found, Run, Tables, shared
from attributionlab.papers.soco.maps import BLACK, SCHEMES, method_maps, modified, setups
from attributionlab.papers.subjects.subjects import (
    OwnNetwork,
    Subject,
    chosen_subject,
    environment_subject,
    trained_subject,
)
from attributionlab.show import curves as plot_curves
from attributionlab.show import map_grid
from attributionlab.worlds import load

Curve = NDArray[np.float64]
"""(points, 2): where, and the metric there; no points where it is not known."""

ENVIRONMENT, SIDE = "multi-color-sum-in-distribution", 32
ORIGINAL, REMOVE, INTRODUCE = "Original", "Remove", "Introduce"
PAIRS = [f"{first} - {second}" for first, second in combinations((ORIGINAL, REMOVE, INTRODUCE), 2)]
LEVELS = tuple(percent / 100 for percent in range(5, 100, 5))
TENTHS = tuple(tenth / 10 for tenth in range(1, 10))
"""Thresholds of completeness, and fractions that are removed."""
BY_VALUE, BY_ORDER = ("Completeness", "Soundness"), ("Deletion", "ROAD")
EVERY_STEP = "Soundness, every step"
METRICS = (*BY_VALUE, EVERY_STEP, *BY_ORDER)
"""Soundness at predictive levels, and all pairs of performance and soundness of Algorithm 3."""
PUBLISHED = {
    "Completeness": (0.503, 0.112),
    "Soundness": (0.183, 0.046),
    "Deletion": (0.019, 0.011),
    "ROAD": (0.014, 0.009),
}
"""Table 1: means and standard deviations (VGG16, 5,000 images of ImageNet, accuracy)."""
UNCLIPPED = "constant, not clipped"
"""The scheme of which no paper has numbers: it leaves the order of pixels as it is."""
METHODS = {"gradcam": "GradCAM", "integrated-gradients": "IG", "extremal-perturbation": "ExPerturb"}
DRAWN, MAP_IMAGES = "constant", 3
"""The scheme of the curves that are drawn (the table has all), and of how many images maps are."""


def modifications(
    maps: Float[Tensor, "batch 1 height width"], scheme: str, seed: int
) -> dict[str, Tensor]:
    """Maps in [0, 1] as they are, and modified in both directions."""
    drawing, clip = torch.Generator().manual_seed(seed), scheme != UNCLIPPED
    name: Any = scheme if clip else "constant"
    return {
        ORIGINAL: maps,
        REMOVE: modified(maps, name, "remove", drawing, clip=clip),
        INTRODUCE: modified(maps, name, "introduce", drawing, clip=clip),
    }


def curves_of(
    subject: Subject,
    maps: Float[Tensor, "batch 1 height width"],
    seed: int,
    ratios: Sequence[float],
    metrics: Sequence[str] = METRICS,
) -> Iterator[tuple[str, str, Curve]]:
    """Indicator, metric and curve on the data set of a subject; ROAD and Deletion always.

    Completeness has thresholds in units of the maps as they are, which is what `variant="paper"` means.
    ROAD imputes as soundness and completeness do; Deletion fills with black, as the paper's does. Both
    remove the most attributed pixels first, a tenth to nine tenths of all. Maps are at least 0, unless
    `metrics` are those of order.
    """
    given = (subject.model, subject.images, subject.targets, maps)
    for name, setup in setups(subject, "noisy-linear", seed):
        if "Completeness" in metrics:
            curve = completeness_curve(*given, thresholds=TENTHS, **setup)
            yield name, "Completeness", _curve(TENTHS, curve.differences)
        if "Soundness" in metrics:
            sweep = soundness_sweep(*given, ratios=ratios, expansion="attributed", **setup)
            reached = [each for each in map(sweep.at, LEVELS) if each.reached]
            levels = [each.level for each in reached]
            yield name, "Soundness", _curve(levels, [each.soundness for each in reached])
            yield name, EVERY_STEP, _curve(sweep.performance, sweep.soundness)
        for metric in BY_ORDER:
            how = (
                setup if metric == "ROAD" else PerformanceOptions(**{**setup, "imputation": BLACK})
            )
            removed = removal_curve(*given, fractions=TENTHS, **how)
            yield name, metric, _curve(TENTHS, removed.mean(0))


def _curve(x: Any, y: Any) -> Curve:
    """Without points that have no value."""
    points = np.stack([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)], axis=1)
    return np.asarray(points[np.isfinite(points).all(1)])


def distances(curves: Mapping[str, Curve]) -> dict[str, float]:
    """Hausdorff distance of every pair of curves, and the smallest; NaN where a curve has no points."""
    found = {
        f"{first} - {second}": hausdorff(curves[first], curves[second])
        if len(curves[first]) and len(curves[second])
        else np.nan
        for first, second in combinations(curves, 2)
    }
    return found | {"smallest": float(np.min(list(found.values())))}


def modification_rows(
    subject: Subject, maps: Tensor, seed: int, ratios: Sequence[float]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of "pairs", "changes" and "curves" of one method's maps, for all schemes."""
    original = list(curves_of(subject, maps, seed, ratios))
    for scheme in (*SCHEMES, UNCLIPPED):
        versions = modifications(maps, scheme, seed)
        found: dict[tuple[str, str], dict[str, Curve]] = defaultdict(dict)
        for name, of_name in versions.items():
            # Metrics of values take no negative ones, which Remove leaves where nothing is clamped.
            metrics = BY_ORDER if (scheme, name) == (UNCLIPPED, REMOVE) else METRICS
            measured = (
                original if name == ORIGINAL else curves_of(subject, of_name, seed, ratios, metrics)
            )
            for indicator, metric, curve in measured:
                found[indicator, metric][name] = curve
        for (indicator, metric), curves in found.items():
            keys = {"scheme": scheme, "indicator": indicator, "metric": metric}
            yield "pairs", keys | distances(curves)
            for name, curve in curves.items():
                for x, y in curve.tolist():
                    yield "curves", {**keys, "map": name, "x": x, "y": y}
        for name in (REMOVE, INTRODUCE) if scheme != UNCLIPPED else ():
            after = versions[name]
            yield (
                "changes",
                {
                    "scheme": scheme,
                    "direction": name,
                    "rank_correlation": float(rank_correlation(maps, after).nanmean()),
                    "at_0": float((after == 0).double().mean()),
                    "at_1": float((after == 1).double().mean()),
                    "value_change": float((after - maps).abs().mean()),
                },
            )


@shared
def modified_maps_apart(
    run: Run, *, training: int, step: int, layer: str | None = None, **own: Unpack[OwnNetwork]
) -> Found:
    """Measure how far apart curves of original and modified maps are, by the Hausdorff distance.

    Positive parts of maps, each divided by its maximum, are modified as in Table 3 of the paper and
    clamped to [0, 1]. Soundness takes steps of `step` percent of the area (1 in the paper); our network
    is trained on `training` pictures. A network of one's own (`OwnNetwork`, n images of each class) is
    measured in place of our two; GradCAM needs the dotted name of a module, `layer`.
    """
    given = chosen_subject(run.n, run.seed, layer=layer, **own)
    subjects = [given] if given else _own_subjects(run, training)
    ratios = tuple(percent / 100 for percent in range(98, -1, -step))
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    samples: dict[str, tuple[Subject, str, Tensor]] = {}
    for subject, (key, method) in run.track([(s, m) for s in subjects for m in METHODS.items()]):
        for _, maps in method_maps(subject, [key], run.seed, quick=run.quick):
            samples.setdefault(subject.name, (subject, method, maps))
            for table, row in modification_rows(subject, maps, run.seed, ratios):
                rows[table].append({"subject": subject.name, "method": method, **row})
    pairs, changes, curves = (pd.DataFrame(rows[each]) for each in ("pairs", "changes", "curves"))
    keys = ["subject", "scheme", "direction"]
    tables = {
        "distances": _summary(pairs),
        "differences": paired_differences(pairs, run.seed),
        "changes": changes.drop(columns="method").groupby(keys, sort=False).mean().reset_index(),
        "metrics": pd.DataFrame(_by_metric(pairs)),
        "networks": pd.DataFrame(_by_network(pairs, curves, subjects)),
        "pairs": pairs,
        "curves": curves,
    }
    figures = _figures(curves, list(samples.values()), run.seed)
    return Found(tables, figures, given.notes if given else ())


def _own_subjects(run: Run, training: int) -> list[Subject]:
    env = load(ENVIRONMENT, image_size=SIDE)
    return [trained_subject(run.n, training, run.seed), environment_subject(env, run.n, run.seed)]


def _summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """Smallest distances over schemes and methods, by subject, indicator and metric."""
    grouped = _clipped(pairs).groupby(["subject", "indicator", "metric"], sort=False).smallest
    table = grouped.agg(["mean", "std", "min", "max", "count"]).reset_index()
    table = table.rename(columns={"std": "sd", "count": "cases"})
    published = pd.DataFrame(PUBLISHED, index=["paper", "paper_sd"]).T.reindex(table.metric)
    published[table.indicator.to_numpy() != "accuracy"] = np.nan
    return table.assign(**{name: published[name].to_numpy() for name in published})


def _clipped(table: pd.DataFrame) -> pd.DataFrame:
    return table[table.scheme != UNCLIPPED]


def paired_differences(pairs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """How much farther apart metrics of values see maps than metrics of order, case by case.

    A case is a method and a scheme; both metrics judge the same maps in it. The interval holds the mean
    over such cases in 95 % of the samples (bootstrap). It tells nothing of other images or networks.
    """
    keys = ["subject", "indicator", "method", "scheme"]
    cases = _clipped(pairs).set_index([*keys, "metric"]).smallest.unstack("metric").reset_index()
    rows = [
        cases[keys[:2]].assign(
            metric=metric, against=other, difference=cases[metric] - cases[other]
        )
        for metric in BY_VALUE
        for other in BY_ORDER
    ]
    by = ["subject", "indicator", "metric", "against"]
    found = with_intervals(pd.concat(rows), by, "difference", seed)
    order = list(dict.fromkeys(zip(pairs.subject, pairs.indicator, strict=True)))
    found = found.rename(columns={"images": "cases"})
    place = [order.index(each) for each in zip(found.subject, found.indicator, strict=True)]
    return found.iloc[np.argsort(place, kind="stable")].reset_index(drop=True)


def _by_metric(pairs: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Means by scheme, which pair is the nearest, and what is left of a constant shift."""
    for metric in (*BY_VALUE, *BY_ORDER):
        here = pairs[pairs.metric == metric]
        clipped = _clipped(here)
        known = clipped[clipped.smallest.notna()]
        nearest = known[PAIRS].idxmin(axis=1).value_counts()
        constant, free = (here[here.scheme == each] for each in ("constant", UNCLIPPED))
        yield {
            "metric": metric,
            **clipped.groupby("scheme", sort=False).smallest.mean(),
            "nearest": nearest.index[0] if len(nearest) else "",
            "decides": int(nearest.iloc[0]) if len(nearest) else 0,
            "cases": len(known),
            "at_0": int((known.smallest == 0).sum()),
            "constant_largest": constant[PAIRS].max(axis=None),
            "unclipped_largest": free[PAIRS].max(axis=None),
            "unclipped_introduce": free[f"{ORIGINAL} - {INTRODUCE}"].mean(),
        }


def _by_network(
    pairs: pd.DataFrame, curves: pd.DataFrame, subjects: Sequence[Subject]
) -> Iterator[dict[str, Any]]:
    """Where soundness tells nothing apart, and where Deletion and ROAD are one measurement."""
    keys = ["subject", "method", "scheme", "indicator"]
    clipped = _clipped(curves)
    levels, steps = (
        clipped[clipped.metric == metric].groupby([*keys, "map"], sort=False)
        for metric in ("Soundness", EVERY_STEP)
    )
    flat = levels.y.min() == 1
    at_once = flat & (levels.x.max() <= steps.x.first().reindex(flat.index))
    removal = _clipped(pairs).set_index([*keys, "metric"]).smallest.unstack("metric")
    same = removal[BY_ORDER[0]] == removal[BY_ORDER[1]]
    for subject in subjects:
        of_subject = flat.index.get_level_values("subject") == subject.name
        yield {
            "subject": subject.name,
            "images": len(subject.images),
            "soundness_curves": int(of_subject.sum()),
            "soundness_1": int(flat[of_subject].sum()),
            "at_first_step": int(at_once[of_subject].sum()),
            "removal_cases": len(same[subject.name]),
            "removal_same": int(same[subject.name].sum()),
        }


def _figures(
    curves: pd.DataFrame, samples: Sequence[tuple[Subject, str, Tensor]], seed: int
) -> dict[str, Any]:
    """Curves of the first method of each subject, in three figures, and its maps."""
    drawn = curves[(curves.scheme == DRAWN) & curves.method.isin({each[1] for each in samples})]
    panel = drawn.metric + ": " + drawn.subject + ", " + drawn.method + ", " + drawn.indicator
    counted = ", ".join(
        f"{len(subject.images)} images of {subject.side} x {subject.side} pixels ({subject.name})"
        for subject, _, _ in samples
    )
    axes = {
        "completeness": (BY_VALUE[:1], "attribution threshold", "lost (higher is better)"),
        "soundness": (BY_VALUE[1:], "indicator (predictive level)", "soundness (higher is better)"),
        "removal": (
            BY_ORDER,
            "fraction removed, most relevant first",
            "indicator (lower is better)",
        ),
    }
    figures = {
        f"curves-{name}": plot_curves(
            *(drawn.assign(panel=panel)[drawn.metric.isin(metrics)], "x", "y", "map"),
            panel="panel",
            columns=2,
            title=f"Maps shifted by a constant 0.6 and clamped to [0, 1]: {counted}",
            xlabel=xlabel,
            ylabel=ylabel,
            limits=(0, 1),
        )
        for name, (metrics, xlabel, ylabel) in axes.items()
    }
    subject, method, maps = samples[0]
    rows: dict[str, Any] = {"image": (subject.images[:MAP_IMAGES] / subject.highest).numpy()}
    for scheme in SCHEMES:
        for name, of_name in modifications(maps[:MAP_IMAGES], scheme, seed).items():
            row = ORIGINAL if name == ORIGINAL else f"{scheme} {name}"
            rows.setdefault(row, of_name[:, 0].numpy())
    title = f"Modified maps of {method} (Table 3), {subject.name}"
    figures["maps"] = map_grid(rows, title=title, signed=False, limits=(0, 1))
    return figures


def _is_farther_apart(metric: str, tables: Tables) -> bool | None:
    """Than both metrics of order, on every network and by every indicator."""
    rows = tables["differences"]
    rows = rows[rows.metric == metric]
    return above(rows.low, rows.high) if rows.cases.min() >= FEWEST_FOR_ORDER else None


completeness_is_farther_apart = partial(_is_farther_apart, "Completeness")
soundness_is_farther_apart = partial(_is_farther_apart, "Soundness")


def order_is_left_without_clamping(tables: Tables) -> bool:
    table = tables["metrics"].set_index("metric")
    return bool(
        (table.unclipped_largest[list(BY_ORDER)] == 0).all()
        and table.unclipped_introduce["Completeness"] > 0
    )


def modifications_change_the_order(tables: Tables) -> bool:
    return bool((tables["changes"].groupby("scheme").rank_correlation.mean() < 0.95).all())
