"""Metrics that can be tested: the built-in ones, and anybody else's."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.errors import AttributionLabError, nearest
from attributionlab.metric_trials.case import Seen
from attributionlab.metric_trials.shares import completeness_scores, soundness_scores
from attributionlab.metrics import deletion_drops, judged_by_drops, patch_sums
from attributionlab.metrics.curves import area_under_curve, curve_fractions
from attributionlab.metrics.incremental_deletion import step_counts
from attributionlab.metrics.localization import (
    pointing_game,
    relevance_mass_accuracy,
    relevance_rank_accuracy,
)
from attributionlab.references import in_one_line, place_of, said

SIDE = 4
"""Cells of the grid along each side, as in Hesse et al. (2024)."""
STEPS = 32


def single_deletion_scores(seen: Seen) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.sds` with 4 x 4 cells, as equal as the image's size allows."""
    case = seen.case
    cells = _cells(*case.image.shape[1:])
    drops = deletion_drops(
        seen.model, case.image[None], case.target, patches=cells, replacement=seen.replacement
    )
    sums = patch_sums(case.maps, cells)
    return judged_by_drops(sums, drops.expand(sums.shape)).scores


def incremental_deletion_scores(seen: Seen) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.ids` in 32 steps, on all of an image's pixels if it has fewer."""
    pixels = seen.case.pixels
    return seen.removed_least[:, step_counts(pixels, min(STEPS, pixels))].mean(1)


def _cells(height: int, width: int) -> Int64[Tensor, "height width"]:
    down, across = min(SIDE, height), min(SIDE, width)
    rows, columns = torch.arange(height) * down // height, torch.arange(width) * across // width
    return rows[:, None] * across + columns


Scores = NDArray[np.float64]

MAPS_AT_ONCE = 16
"""How many maps somebody's metric gets in a batch."""


@dataclass(frozen=True)
class Metric:
    """A metric that can be tested.

    Parameters
    ----------
    name : str
        For reports.
    higher_is_better : bool
        Which maps it prefers.
    scores : callable
        What is seen of a case -> a number for each of its maps, NaN where not applicable.
    perturbs : bool
        Whether it depends on the model, and so on the condition.
    """

    name: str
    higher_is_better: bool
    scores: Callable[[Seen], Scores]
    perturbs: bool = True


def sensitivity(
    sums: Float64[Tensor, "maps draws sizes"], losses: Float64[Tensor, "draws sizes"]
) -> Float64[Tensor, " maps"]:
    """Pearson's correlation over the draws, mean over the sizes at which the output varies.

    As `attributionlab.metrics.sensitivity_n`: NaN where it varies at none, 0 where only sums are equal.
    """
    varies = losses.amax(0) != losses.amin(0)
    if not varies.any():
        return sums.new_full((len(sums),), torch.nan)
    sums, losses = sums[..., varies], losses[:, varies]
    # Measured from the first draw, equal values leave exact zeros.
    sums, losses = sums - sums[:, :1], losses - losses[:1]
    constant = sums.abs().amax(1) == 0
    sums, losses = sums - sums.mean(1, keepdim=True), losses - losses.mean(0)
    scale = (sums.square().sum(1) * losses.square().sum(0)).sqrt()
    return torch.where(constant, 0.0, (sums * losses).sum(1) / scale).mean(1)


def squared_misfit(
    sums: Float64[Tensor, "maps draws sizes"], losses: Float64[Tensor, "draws sizes"]
) -> Float64[Tensor, " maps"]:
    """Mean square of what the output loses less the summed attributions, at the best scale from 0 up.

    Attributions that are ranked have no common scale, but their sign is theirs. Otherwise as
    `attributionlab.metrics.infidelity` with `normalize=True`, over sizes that are evenly spaced.
    """
    sums, losses = sums.flatten(1), losses.flatten()
    product, square = sums @ losses, sums.square().sum(1)
    factor = torch.where(square > 0, product / square, 0.0).clamp(min=0)
    return (factor[:, None] * sums - losses).square().mean(1)


def _area(curves: Tensor) -> Scores:
    area: Scores = area_under_curve(curves, curve_fractions(curves.shape[1] - 1)).cpu().numpy()
    return area


def _localization(name: str, function: Any, *, signed: bool) -> Metric:
    """A metric that holds maps against the mask of what raises the output."""

    def scores(seen: Seen) -> Scores:
        maps = seen.case.maps if signed else seen.case.positive
        mask = seen.case.truth.positive.expand(len(maps), *maps.shape[1:])
        values: Tensor = function(maps, mask)
        return values.cpu().numpy()

    return Metric(name, function.higher_is_better, scores, perturbs=False)


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("insertion", True, lambda seen: _area(seen.inserted)),
        Metric("deletion", False, lambda seen: _area(seen.removed)),
        Metric(
            "pixel-flipping",
            True,
            lambda seen: (seen.removed[:, :1] - seen.removed).mean(1).cpu().numpy(),
        ),
        Metric(
            "sensitivity-n",
            True,
            lambda seen: sensitivity(seen.case.sums, seen.losses).cpu().numpy(),
        ),
        Metric(
            "infidelity",
            False,
            lambda seen: squared_misfit(seen.case.sums, seen.losses).cpu().numpy(),
        ),
        Metric("soundness", True, lambda seen: soundness_scores(seen).cpu().numpy()),
        Metric("completeness", True, lambda seen: completeness_scores(seen).cpu().numpy()),
        Metric("single-deletion", True, lambda seen: single_deletion_scores(seen).cpu().numpy()),
        Metric(
            "incremental-deletion",
            True,
            lambda seen: incremental_deletion_scores(seen).cpu().numpy(),
        ),
        _localization("pointing-game", pointing_game, signed=True),
        _localization("relevance-mass-accuracy", relevance_mass_accuracy, signed=False),
        _localization("relevance-rank-accuracy", relevance_rank_accuracy, signed=True),
    )
}
"""The built-in metrics by name. Removal goes pixel by pixel, most relevant first; subsets are drawn
`DRAWS` times at `SIZES` sizes; soundness and completeness see what each map says raises the output
(`metric_trials/shares.py`); single deletion has 4 x 4 cells, and is in-domain where nothing
is unseen; localization is held against the positive mask."""


def as_metric(metric: Any, higher_is_better: bool | None = None) -> Metric:
    """Adapt whatever scores attributions.

    Parameters
    ----------
    metric : str or callable
        A name in `METRICS`, or a function ``(model, images, targets, attributions, *, ...) -> (B,)``.
        Of `replacement` (C, H, W), `truth` (the positive mask, (B, 1, H, W)) and `seed` it is given
        what it declares; one that declares no `model` is called ``(attributions, *, ...)``.
    higher_is_better : bool, optional
        For a function that does not say so itself (`attributionlab.metrics.metric`).

    Raises
    ------
    AttributionLabError
        For an unknown name, and for what cannot be called or does not say which direction is better.
    """
    if isinstance(metric, str):
        if metric not in METRICS:
            raise AttributionLabError(f"no metric named {metric!r}: {nearest(metric, METRICS)}")
        if higher_is_better is not None:
            raise AttributionLabError(
                f"higher_is_better is {higher_is_better!r}: {metric} says itself which direction is "
                "better, leave it out"
            )
        return METRICS[metric]
    if not callable(metric):
        raise AttributionLabError(f"metric is {metric!r}: pass a name or a function")
    name = getattr(metric, "__name__", type(metric).__name__)
    said = getattr(metric, "higher_is_better", None)
    better = said if higher_is_better is None else higher_is_better
    if not isinstance(better, bool):
        raise AttributionLabError(
            f"{name} does not say which direction is better: mark it with "
            "attributionlab.metrics.metric, or pass higher_is_better"
        )
    return _anybodys(metric, name, better)


def _anybodys(function: Any, name: str, higher_is_better: bool) -> Metric:
    """A function of a batch: the image is repeated beside its maps."""
    taken = _parameters(function, name)

    def scores(seen: Seen) -> Scores:
        case, each = seen.case, []
        for maps in torch.split(case.maps, MAPS_AT_ONCE):
            n, mask = len(maps), case.truth.positive
            # Copies: what a metric writes into, no other metric sees.
            offered = {
                "replacement": seen.replacement.clone(),
                "truth": mask.repeat(n, 1, 1, 1),
                "seed": case.seed,
            }
            given = {key: value for key, value in offered.items() if key in taken}
            repeated = seen.model, case.image.repeat(n, 1, 1, 1), case.target.repeat(n)
            arguments = (*repeated, maps.clone()) if "model" in taken else (maps.clone(),)
            _check_call(function, name, arguments, given)
            with in_one_line(lambda error: f"{name} raised {said(error)}{place_of(error)}"):
                returned = function(*arguments, **given)
            each.append(_checked_scores(returned, n, name))
        return np.concatenate(each)

    return Metric(name, higher_is_better, scores, perturbs="model" in taken)


def _parameters(function: Any, name: str) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError) as error:
        raise AttributionLabError(
            f"{name} does not tell its parameters: wrap it in a function of your own"
        ) from error


def _check_call(
    function: Any, name: str, arguments: tuple[Any, ...], given: Mapping[str, Any]
) -> None:
    try:
        inspect.signature(function).bind(*arguments, **given)
    except TypeError as error:
        raise AttributionLabError(
            f"{name} takes {inspect.signature(function)} ({error}): write it as (model, images, "
            "targets, attributions, *, ...), or without a model as (attributions, *, ...)"
        ) from error


def _checked_scores(scores: Any, number: int, name: str) -> Scores:
    """What somebody's metric returned, if it is a number for each map."""
    if isinstance(scores, Tensor):
        scores = scores.detach().cpu()
    try:
        if np.iscomplexobj(scores):
            raise TypeError
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttributionLabError(
            f"{name} returned {type(scores).__name__}: return one number for each attribution"
        ) from error
    if np.isinf(values).any():
        raise AttributionLabError(
            f"{name} returned {values[np.isinf(values)][0]}: return finite numbers, NaN where it does "
            "not apply"
        )
    if values.shape != (number,):
        raise AttributionLabError(
            f"{name} returned the shape {values.shape} for {number} attributions: return one number "
            "for each (a metric of whole data sets cannot be tested)"
        )
    return values
