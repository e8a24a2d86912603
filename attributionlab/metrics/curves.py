"""Curves of a model's output while pixels are perturbed, the area under them, and their spread."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Count,
    Pixels,
    Replacement,
    broadcast_replacement,
    checked_arguments,
    checked_counts,
    checked_orders,
    each_trajectory,
    shown,
)
from attributionlab.metrics.checked_inputs import output_of, warn_of_forward_passes

Measure = Literal["output", "changed-steps"]
"""What replacing pixels one after the other does: to the output as it is, or at how many steps the
output changes at all (AttributionLab, F.4 and F.5: for outputs that wrap)."""


class CurveSummary(NamedTuple):
    """The mean curve over samples and how far they spread about it, each (S,) of float64."""

    mean: Tensor
    standard_deviation: Tensor
    """standard deviation of the samples (divided by n - 1); NaN for a single one"""
    lower_quartile: Tensor
    median: Tensor
    upper_quartile: Tensor
    samples: Tensor
    """how many are not NaN there; over its root the standard deviation is the mean's standard error"""


@checked_arguments
def outputs_along(
    model: nn.Module,
    images: Real[Tensor, "batch channels height width"],
    targets: Int[Tensor, " batch"],
    orders: Int[Tensor, "batch draws pixels"],
    *,
    replacement: Replacement,
    counts: Sequence[int] | None = None,
    measure: Measure = "output",
) -> Float[Tensor, "batch draws counts"]:
    """The target's output along several orders for each image.

    All orders of an image, including repetitions of the image, are evaluated together
    (`exact.trajectories`), so that shared work is done once. Only the target's output is kept.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K), in eval mode. It determines what is measured: logits or probabilities.
    images : Tensor, (B, C, H, W)
        Where the trajectories begin.
    targets : Tensor of int, (B,)
        The output to follow, a class index for each image; zeros for regressions.
    orders : Tensor of int64, (B, D, P)
        D permutations of the flat pixel indices for each image.
    replacement : Tensor or float
        Where the trajectories end: a number, or a tensor that broadcasts to the images: (C, 1, 1) for a
        pixel, (C, H, W) for an image, (B, C, H, W) for an image each.
    counts : sequence of int
        After how many replaced pixels, increasing; by default after 0, 1, ..., P.
    measure : {"output", "changed-steps"}
        The output, or the number of single-pixel steps so far that changed it, as a share of all such
        steps of that trajectory (AttributionLab, F.4). NaN if no step does. Outputs are compared with
        `!=`, so it is for models with exact outputs, such as counts.

    Returns
    -------
    Tensor of float64, (B, D, S)

    Raises
    ------
    AttributionLabError
        For targets that the model does not have, shapes that do not fit, an unknown measure, and
        outputs that are not finite real numbers; and whatever `exact.trajectories` refuses.

    Warns
    -----
    AttributionLabWarning
        For more than 100,000 forward passes, where the model's layers rule out the incremental route.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.curves import outputs_along
    >>> total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 1, bias=False))
    >>> _ = torch.nn.init.ones_(total[1].weight)
    >>> image, order = torch.tensor([[[[1.0, 0.0, 2.0]]]]), torch.tensor([[[2, 1, 0]]])
    >>> outputs_along(total, image, torch.tensor([0]), order, replacement=0.0)
    tensor([[[3., 1., 1., 0.]]], dtype=torch.float64)
    """
    ends = broadcast_replacement(replacement, images)
    pixels = images[0, 0].numel()
    every = range(pixels + 1)
    checked_orders(orders, len(images), pixels)
    whole = counts is None or (isinstance(counts, range) and counts == every)
    chosen = every if whole else checked_counts(counts, pixels).tolist()
    evaluated = None if measure == "changed-steps" or whole else chosen
    classes = targets.tolist()
    points = len(every) if evaluated is None else len(chosen)
    warn_of_forward_passes(
        model,
        images,
        len(images) * orders.shape[1] * points,
        'measure="changed-steps" needs every step: pass fewer images or orders'
        if measure == "changed-steps"
        else "pass a larger step=, or fewer counts=",
    )
    result = images.new_empty((*orders.shape[:2], len(chosen)), dtype=torch.float64)
    # One image at a time: (D, S, K) may be large where there are many classes.
    outputs = each_trajectory(model, images, ends, orders, evaluated)
    for index, (each, target) in enumerate(zip(outputs, classes, strict=True)):
        curves = output_of(each, target).double()
        if measure == "changed-steps":
            curves = _changes_seen(curves)
            curves = curves if whole else curves[:, torch.as_tensor(chosen, device="cpu")]
        result[index] = curves
    return result


@checked_arguments
def curve_counts(pixels: Pixels, step: Count = 1) -> Sequence[int]:
    """Numbers of perturbed pixels at which a curve is evaluated: 0, step, 2 step, ..., and P itself.

    The last step is shorter where `step` does not divide P.

    Examples
    --------
    >>> from attributionlab.metrics.curves import curve_counts
    >>> curve_counts(10, step=4)
    [0, 4, 8, 10]
    """
    pixels, step = _checked_step(pixels, step)
    if pixels % step == 0:
        return range(0, pixels + 1, step)
    return [*range(0, pixels, step), pixels]


@checked_arguments
def curve_fractions(pixels: Pixels, step: Count = 1) -> Float[Tensor, " counts"]:
    """The x axis of a curve: the fraction of P pixels that is removed or inserted, from 0 to 1.

    Examples
    --------
    >>> from attributionlab.metrics.curves import curve_fractions
    >>> curve_fractions(10, step=4)
    tensor([0.0000, 0.4000, 0.8000, 1.0000], dtype=torch.float64)
    """
    pixels, step = _checked_step(pixels, step)
    counts = torch.arange(
        0,
        pixels + step,
        step,
        dtype=torch.float64,
        device="cpu",
    )  # 3 ms faster than from a list
    return counts.clamp(max=pixels) / pixels


@checked_arguments
def area_under_curve(
    curves: Float[Tensor, "*batch counts"], fractions: Float[Tensor, " counts"]
) -> Float[Tensor, "*batch"]:
    """Area under curves by the trapezoid rule: their mean height over fractions from 0 to 1.

    Parameters
    ----------
    curves : Tensor, (..., S)
        In any unit; nothing is normalized.
    fractions : Tensor, (S,)
        Where they are known (`curve_fractions`); they need not be equally spaced.

    Returns
    -------
    Tensor of float64, (...)

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.curves import area_under_curve
    >>> area_under_curve(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([0.0, 0.5, 1.0]))
    tensor([0.2500], dtype=torch.float64)
    """
    for name, values in (("curves", curves), ("fractions", fractions)):
        if not isinstance(values, Tensor) or not values.ndim or values.is_complex():
            raise AttributionLabError(f"{name} are {shown(values)}: pass a tensor of real numbers")
    if fractions.shape != curves.shape[-1:]:
        raise AttributionLabError(
            f"fractions are {shown(fractions)}: pass {curves.shape[-1]}, one for each point of a curve"
        )
    return torch.trapezoid(curves.double(), fractions.to(curves.device).double())


@checked_arguments
def summarize_curves(curves: Float[Tensor, "samples counts"]) -> CurveSummary:
    """Mean, standard deviation and quartiles over samples at every point of their curves.

    NaN (not applicable) is left out, and the remaining samples are counted.

    Parameters
    ----------
    curves : Tensor, (B, S)
        One curve for each sample.

    Returns
    -------
    CurveSummary
        Quartiles are interpolated linearly between samples; without any sample all are NaN.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.curves import summarize_curves
    >>> summary = summarize_curves(torch.tensor([[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]]))
    >>> summary.mean, summary.standard_deviation
    (tensor([3., 0.], dtype=torch.float64), tensor([2., 0.], dtype=torch.float64))
    """
    if not isinstance(curves, Tensor) or curves.ndim != 2 or not len(curves) or curves.is_complex():
        raise AttributionLabError(
            f"curves are {shown(curves)}: pass a tensor of shape (B, S), at least one curve"
        )
    values = curves.double()
    samples = (~values.isnan()).sum(0)
    mean = values.nansum(0) / samples
    variance = (values - mean).square().nansum(0) / (samples - 1)
    ranked = values.sort(0).values  # NaN last
    lower, median, upper = (_quantile(ranked, samples, share) for share in (0.25, 0.5, 0.75))
    spread = torch.where(samples > 1, variance.sqrt(), torch.nan)
    return CurveSummary(mean, spread, lower, median, upper, samples)


def _quantile(ranked: Tensor, samples: Tensor, share: float) -> Tensor:
    """Quantile of each column's first `samples` rows; torch.quantile refuses more than 2^24 values."""
    place = share * (samples - 1).clamp(min=0).double()
    below, above = (ranked.gather(0, at.long()[None])[0] for at in (place.floor(), place.ceil()))
    return torch.lerp(below, above, place.frac())


def _changes_seen(outputs: Tensor) -> Tensor:
    """Share of all changes between consecutive outputs (..., P + 1) that lie before each of them."""
    changed = (outputs.diff(dim=-1) != 0).double().cumsum(-1)
    seen = torch.nn.functional.pad(changed, (1, 0))
    return seen / seen[..., -1:]


def _checked_step(pixels: int, step: int) -> tuple[int, int]:
    """Both, the step no longer than the curve; NumPy's small integers would overflow."""
    return int(pixels), min(int(step), int(pixels))
