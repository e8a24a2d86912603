"""Ratios that Algorithms 1 and 2 estimate beside the true ones, and removal metrics beside them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attributionlab.experiments.soco.truth_conditions import Condition, Place
from attributionlab.experiments.soco.truth_panel import Entry
from attributionlab.metrics import (
    completeness_curve,
    included_pixels,
    road,
    soundness_sweep,
    true_completeness,
    true_soundness,
)
from attributionlab.metrics.indicators import indicator_of

__all__ = [
    "LEVELS",
    "MIDDLE",
    "THRESHOLDS",
    "Ends",
    "ends_of",
    "ratio_rows",
    "schedule",
    "soundness_rows",
]

LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Predictive levels, as shares of the way from the performance on nothing to that on the images."""
MIDDLE = 0.6
"""The level that stands for soundness where metrics are compared, chosen beforehand."""
THRESHOLDS = tuple(tenth / 10 for tenth in range(9, -1, -1))
"""Algorithm 4's, and 0, which is Definition 4.9's."""
FINE, COARSE = 30.0, 5.0
"""Percent of the area up to which steps are those that are asked for, and steps beyond: by then most
attributions are past the levels."""

Rows = Mapping[str, list[dict[str, Any]]]


class Ends(NamedTuple):
    """Performance on images of which nothing, and of which all is kept."""

    nothing: float
    all: float

    def level(self, share: float) -> float:
        return self.nothing + share * (self.all - self.nothing)


def schedule(step: float = 1.0) -> list[float]:
    """Masked shares of the area, falling to 0, in steps of so many percent, larger ones at the "
    "end."""
    fine = [step * index for index in range(1, round(FINE / step) + 1)]
    left = round((100 - FINE) / COARSE)
    coarse = [FINE + COARSE * index for index in range(1, left + 1)]
    return [1 - percent / 100 for percent in (*fine, *coarse)]


def ends_of(place: Place, condition: Condition, indicator: str) -> Ends:
    """Of one network and indicator."""
    ask, network = indicator_of(place.indicator(indicator)), place.network(condition.strength)
    images, targets = place.panel.images, place.panel.targets
    with torch.no_grad():
        nothing, everything = (
            float(ask(network(each), targets).mean())
            for each in (place.env.baseline.expand_as(images), images)
        )
    return Ends(nothing, everything)


def ratio_rows(place: Place, condition: Condition, indicator: str, entry: Entry) -> Rows:
    """One attribution under one condition: rows of "soundness", "completeness" and "scores".

    The scores are what methods are ranked by, all higher for better ones: soundness at the middle
    level, completeness as the mean over Algorithm 4's thresholds, and removal in both orders, the area
    over or under the curve of the performance. With noisy linear imputation removal is ROAD, with black
    Deletion.
    """
    ends = ends_of(place, condition, indicator)
    keys = {**condition.keys, "indicator": indicator, "attribution": entry.name, "kind": entry.kind}
    sound = [keys | row for row in soundness_rows(place, condition, indicator, entry, ends)]
    complete = [keys | row for row in _completeness_rows(place, condition, indicator, entry, ends)]
    asked = place.network(condition.strength), place.panel.images, place.panel.targets, entry.maps
    setup = place.setup(condition, indicator)
    [middle] = [row["estimate"] for row in sound if row["share"] == MIDDLE]
    estimates = [row["estimate"] for row in complete if row["threshold"] > 0]
    scores = {
        "soundness": middle,
        "completeness": sum(estimates) / len(estimates),
        "removal, most first": -float(road(*asked, order="morf", **setup)),
        "removal, least first": float(road(*asked, order="lerf", **setup)),
    }
    ranked = [
        {**keys, "metric": metric, "score": score, **entry.truths}
        for metric, score in scores.items()
    ]
    return {"soundness": sound, "completeness": complete, "scores": ranked}


def soundness_rows(
    place: Place,
    condition: Condition,
    indicator: str,
    entry: Entry,
    ends: Ends,
    step: float = 1.0,
    epsilon: float = 0.01,
) -> Iterator[dict[str, Any]]:
    """Algorithm 1 at every level, and the true soundness of the same pixels and of all "
    "attributed."""
    maps, information = entry.maps, place.panel.information
    sweep = soundness_sweep(
        place.network(condition.strength),
        place.panel.images,
        place.panel.targets,
        maps,
        ratios=schedule(step),
        epsilon=epsilon,
        expansion="attributed",
        **place.setup(condition, indicator),
    )
    for share in LEVELS:
        found = sweep.at(ends.level(share))
        truth = torch.nan
        if found.reached:
            included = included_pixels(maps, found.ratio, expansion="attributed")
            truth = _mean(true_soundness(maps, information, included=included))
        yield {
            "share": share,
            "level": found.level,
            "reached": found.reached,
            "jumped": found.jumped,
            "ratio": found.ratio,
            "estimate": found.soundness,
            "truth": truth,
            "truth_of_all": entry.soundness,
        }


def _completeness_rows(
    place: Place, condition: Condition, indicator: str, entry: Entry, ends: Ends
) -> Iterator[dict[str, Any]]:
    """Algorithm 2 at every threshold, in units of what there is to lose, beside the true share."""
    curve = completeness_curve(
        place.network(condition.strength),
        place.panel.images,
        place.panel.targets,
        entry.maps,
        thresholds=THRESHOLDS,
        **place.setup(condition, indicator),
    )
    for threshold, difference in zip(THRESHOLDS, curve.differences.tolist(), strict=True):
        true = true_completeness(entry.maps, place.panel.information, threshold=threshold)
        yield {
            "threshold": threshold,
            "estimate": difference / (ends.all - ends.nothing),
            "truth": _mean(true),
        }


def _mean(values: Tensor) -> float:
    """Of those images for which there is a value."""
    return float(values.nanmean())
