"""Curves of four metrics for maps and their modifications, and how far apart they are."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.metrics import (
    Setup,
    completeness_curve,
    rank_correlation,
    removal_curve,
    soundness_sweep,
)
from attributionlab.papers.soco.methods.measures import BLACK, setups
from attributionlab.papers.soco.modified_maps import Scheme, modified
from attributionlab.papers.subjects.subjects import Subject
from attributionlab.ranking import hausdorff
from attributionlab.stats.intervals import mean_interval

if TYPE_CHECKING:
    import pandas as pd

Curve = NDArray[np.float64]
"""(points, 2): where, and the metric there; no points where it is not known."""

ORIGINAL = "Original"
LEVELS = tuple(percent / 100 for percent in range(5, 100, 5))
TENTHS = tuple(tenth / 10 for tenth in range(1, 10))
"""Thresholds of completeness, and fractions that are removed."""
BY_VALUE, BY_ORDER = ("Completeness", "Soundness"), ("Deletion", "ROAD")
METRICS = (*BY_VALUE, "Soundness, every step", *BY_ORDER)
"""Soundness at predictive levels, and all pairs of performance and soundness of Algorithm 3."""
UNCLIPPED = "constant, not clipped"
"""The scheme of which no paper has numbers: it leaves the order of pixels as it is."""


def modifications(
    maps: Float[Tensor, "batch 1 height width"], scheme: Scheme, seed: int, *, clip: bool = True
) -> dict[str, Tensor]:
    """Maps in [0, 1] as they are, and modified in both directions."""
    drawing = torch.Generator().manual_seed(seed)
    return {
        ORIGINAL: maps,
        "Remove": modified(maps, scheme, "remove", drawing, clip=clip),
        "Introduce": modified(maps, scheme, "introduce", drawing, clip=clip),
    }


def curves_of(
    subject: Subject,
    maps: Float[Tensor, "batch 1 height width"],
    seed: int,
    ratios: Sequence[float],
    metrics: Sequence[str] = METRICS,
) -> Iterator[tuple[str, str, Curve]]:
    """Indicator, metric and curve, on the data set of a subject.

    Completeness has thresholds in units of the maps as they are, which is what `variant="paper"` means.
    ROAD imputes as soundness and completeness do; Deletion fills with black (`BLACK`), as the paper's
    does. Both remove the most attributed pixels first, a tenth to nine tenths of all.

    Parameters
    ----------
    subject : Subject
        Network, images, labels.
    maps : Tensor, (B, 1, H, W)
        At least 0, unless `metrics` are those of order.
    seed : int
        Of the noise that imputation adds.
    ratios : sequence of float
        Masked shares of the sweep of soundness.
    metrics : sequence of str
        Some of `METRICS`.
    """
    asked = (subject.model, subject.images, subject.targets, maps)
    for name, setup in setups(subject, "noisy-linear", seed):
        if "Completeness" in metrics:
            curve = completeness_curve(*asked, thresholds=TENTHS, **setup)
            yield name, "Completeness", _curve(TENTHS, curve.differences)
        if "Soundness" in metrics:
            sweep = soundness_sweep(*asked, ratios=ratios, expansion="attributed", **setup)
            levels = [sweep.at(level) for level in LEVELS]
            reached = [each for each in levels if each.reached]
            at = [each.level for each in reached]
            yield name, "Soundness", _curve(at, [each.soundness for each in reached])
            yield name, "Soundness, every step", _curve(sweep.performance, sweep.soundness)
        for metric in BY_ORDER:
            how = setup if metric == "ROAD" else Setup(**{**setup, "imputation": BLACK})
            removed = removal_curve(*asked, fractions=TENTHS, **how)
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


def paired_differences(pairs: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    """How much farther apart metrics of values see maps than metrics of order, case by case.

    A case is a method and a scheme; both metrics judge the same maps in it. The interval holds the mean
    over such cases in 95 % of the samples (bootstrap). It tells nothing of other images or networks.

    Parameters
    ----------
    pairs : DataFrame
        With columns subject, indicator, metric, method, scheme and smallest.
    seed : int
        Of the resampling.
    """
    import pandas as pd

    rows = []
    clipped = pairs[pairs.scheme != UNCLIPPED]
    for (subject, indicator), here in clipped.groupby(["subject", "indicator"], sort=False):
        cases = here.set_index(["method", "scheme", "metric"]).smallest.unstack("metric")
        for metric in BY_VALUE:
            for against in BY_ORDER:
                values = (cases[metric] - cases[against]).dropna().to_numpy(float)
                interval = mean_interval(values, seed)
                rows.append(
                    {
                        "subject": subject,
                        "indicator": indicator,
                        "metric": metric,
                        "against": against,
                        "difference": float(values.mean()) if len(values) else np.nan,
                        "low": interval.low if interval else np.nan,
                        "high": interval.high if interval else np.nan,
                        "cases": len(values),
                    }
                )
    return pd.DataFrame(rows)


def change_rows(
    original: Float[Tensor, "batch 1 height width"], versions: Mapping[str, Tensor]
) -> Iterator[dict[str, Any]]:
    """How much of the order a modification leaves: rank correlation and ties, means over images."""
    for name, maps in versions.items():
        if name != ORIGINAL:
            correlations = rank_correlation(original, maps)
            yield {
                "direction": name,
                "rank_correlation": float(correlations.nanmean()),
                "at_0": float((maps == 0).double().mean()),
                "at_1": float((maps == 1).double().mean()),
                "value_change": float((maps - original).abs().mean()),
            }
