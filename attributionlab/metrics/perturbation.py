r"""Insertion, Deletion and Pixel Flipping: what the output does while pixels go or come in an order.

With x_c the image in which the first c of its P pixels in an order took the replacement's values, z_c
the replacement in which they took the image's, and f the target's output of the model handed in:

    deletion curve  y(c) = f(x_c),    insertion curve  y(c) = f(z_c),    c = 0, step, 2 step, ..., P
    Deletion, Insertion = integral of y over c / P from 0 to 1 (trapezoids)
    Pixel Flipping      = mean of y(0) - y(c) over all c of a deletion curve

Sources: Petsiuk, Das and Saenko, 2018 (Insertion, Deletion); Bach et al., 2015, and Samek et al., 2017,
eq. 12 (Pixel Flipping, AOPC); AttributionLab, F.4 and G.4 (the forms used there).

Conventions: most relevant first, by signed value, equal values in reading order; all channels of a
pixel are replaced together; a curve begins with nothing perturbed and ends with everything perturbed;
neither curves nor attributions are normalized, clipped or made absolute.
"""

from typing import TypedDict, Unpack

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor, nn

from attributionlab.base import Count, Replacement, broadcast_replacement, checked_arguments
from attributionlab.metrics.curves import (
    Measure,
    area_under_curve,
    curve_counts,
    curve_fractions,
    outputs_along,
)
from attributionlab.metrics.marking import metric
from attributionlab.metrics.orders import Order, Ties, removal_order

Images = Real[Tensor, "batch channels height width"]
Maps = Real[Tensor, "batch 1 height width"]
Targets = Int[Tensor, " batch"]
Curves = Float[Tensor, "batch counts"]
Scores = Float[Tensor, " batch"]


class CurveOptions(TypedDict, total=False):
    """Keywords of every curve of a perturbation, and of every score of one.

    Parameters
    ----------
    order : {"morf", "lerf"}
        Most relevant first, by default, or least relevant first.
    step : int
        Pixels from one point of the curve to the next, 1 by default. The last step may be shorter.
    ties : {"stable", "random"}
        The order of equal values, see `removal_order`; "stable" by default.
    generator : torch.Generator
        Shuffles equal values.
    measure : {"output", "changed-steps"}
        The output as it is, by default; or, with n_c the first c steps, one pixel each, that change it,
        1 - n_c / n_P for deletion and n_c / n_P for insertion (AttributionLab, F.4). Meant for outputs
        that wrap, such as a count mod N, where an equal output does not mean that equally much is left;
        needs exact outputs. NaN where no step does.
    """

    order: Order
    step: Count
    ties: Ties
    generator: torch.Generator | None
    measure: Measure


@checked_arguments
def deletion_curve(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    **options: Unpack[CurveOptions],
) -> Curves:
    """The target's output while pixels are removed.

    Parameters
    ----------
    model : nn.Module
        Any (B, C, H, W) -> (B, K), in eval mode. It determines what is measured: pass a model that
        returns probabilities, or one that returns logits.
    images : Tensor, (B, C, H, W)
        What is explained.
    targets : Tensor of int, (B,)
        The output to follow, a class index for each image; zeros for regressions.
    attributions : Tensor, (B, 1, H, W)
        Signed, of any scale: only their order counts.
    replacement : Tensor or float
        Value of removed pixels: a number, or a tensor that broadcasts to the images: (C, 1, 1) for a
        pixel, (C, H, W) for one image such as noise, (B, C, H, W) for one each such as their blur.
    **options
        As `CurveOptions` says: order, step, ties, generator, measure.

    Returns
    -------
    Tensor of float64, (B, S)
        At the fractions removed `curve_fractions(H * W, step)`; the first is f(image), the last
        f(replacement).

    Raises
    ------
    AttributionLabError
        For NaN among attributions, shapes that do not fit, targets that the model does not have,
        unknown words, steps below 1, and outputs that are not finite real numbers; and whatever
        `exact.trajectories` refuses.

    Warns
    -----
    AttributionLabWarning
        For more than 100,000 forward passes, see `outputs_along`: a larger `step` needs fewer.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.perturbation import deletion_curve
    >>> total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> _ = torch.nn.init.ones_(total[1].weight)
    >>> image, target = torch.tensor([[[[1.0, 0.0, 5.0, 2.0]]]]), torch.tensor([0])
    >>> deletion_curve(total, image, target, image, replacement=0.0)
    tensor([[8., 3., 1., 0., 0.]], dtype=torch.float64)
    """
    canvases = broadcast_replacement(replacement, images)
    curves = _curves(model, images, canvases, targets, attributions, **options)
    return curves if options.get("measure", "output") == "output" else 1 - curves


@checked_arguments
def insertion_curve(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    **options: Unpack[CurveOptions],
) -> Curves:
    """The target's output while the image's pixels are inserted into the replacement.

    Parameters and errors of `deletion_curve`, except:

    Parameters
    ----------
    replacement : Tensor or float
        The canvas that pixels are inserted into.
    **options
        As for `deletion_curve`; order="morf" inserts the highest attribution first (AttributionLab's
        G.4 says "ascending", with which higher would not be better).

    Returns
    -------
    Tensor of float64, (B, S)
        At the fractions inserted `curve_fractions(H * W, step)`; the first is f(replacement), the last
        f(image).

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.perturbation import insertion_curve
    >>> total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> _ = torch.nn.init.ones_(total[1].weight)
    >>> image, target = torch.tensor([[[[1.0, 0.0, 5.0, 2.0]]]]), torch.tensor([0])
    >>> insertion_curve(total, image, target, image, replacement=0.0)
    tensor([[0., 5., 7., 8., 8.]], dtype=torch.float64)
    """
    canvases = broadcast_replacement(replacement, images)
    return _curves(model, canvases, images, targets, attributions, **options)


@metric(higher_is_better=False, per_sample=True, unit="order", ties="reading order")
@checked_arguments
def deletion(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    **options: Unpack[CurveOptions],
) -> Scores:
    """Area under `deletion_curve`, with its parameters and errors, over the fraction removed.

    In units of the output, or in [0, 1] for `measure="changed-steps"`. Lower is better for
    `order="morf"`, higher for `order="lerf"`.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.perturbation import deletion
    >>> total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> _ = torch.nn.init.ones_(total[1].weight)
    >>> image, target = torch.tensor([[[[1.0, 0.0, 5.0, 2.0]]]]), torch.tensor([0])
    >>> deletion(total, image, target, image, replacement=0.0)  # (8/2 + 3 + 1 + 0 + 0/2) / 4
    tensor([2.], dtype=torch.float64)
    """
    curves = deletion_curve(
        model, images, targets, attributions, replacement=replacement, **options
    )
    return _area(curves, attributions, options)


@metric(higher_is_better=True, per_sample=True, unit="order", ties="reading order")
@checked_arguments
def insertion(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    **options: Unpack[CurveOptions],
) -> Scores:
    """Area under `insertion_curve`, with its parameters and errors, over the fraction inserted.

    In units of the output, or in [0, 1] for `measure="changed-steps"`. Higher is better for
    `order="morf"`, lower for `order="lerf"`.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.perturbation import insertion
    >>> total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> _ = torch.nn.init.ones_(total[1].weight)
    >>> image, target = torch.tensor([[[[1.0, 0.0, 5.0, 2.0]]]]), torch.tensor([0])
    >>> insertion(total, image, target, image, replacement=0.0)  # (0/2 + 5 + 7 + 8 + 8/2) / 4
    tensor([6.], dtype=torch.float64)
    """
    curves = insertion_curve(
        model, images, targets, attributions, replacement=replacement, **options
    )
    return _area(curves, attributions, options)


@metric(higher_is_better=True, per_sample=True, unit="order", ties="reading order")
@checked_arguments
def pixel_flipping(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    **options: Unpack[CurveOptions],
) -> Scores:
    """Mean drop of the output over `deletion_curve`, with its parameters and errors.

    AOPC, the area over the perturbation curve, of each image (Samek et al., 2017, eq. 12):
    1 / (L + 1) times the sum of y(0) - y(k) for k = 0, ..., L, where L steps remove all pixels.
    Samek et al. stop after 100 steps of 9 x 9 pixels: for the first L steps of a curve, take
    `(curve[:, :1] - curve[:, : L + 1]).mean(1)`. Higher is better for `order="morf"`, lower for
    `order="lerf"`.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.perturbation import pixel_flipping
    >>> total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> _ = torch.nn.init.ones_(total[1].weight)
    >>> image, target = torch.tensor([[[[1.0, 0.0, 5.0, 2.0]]]]), torch.tensor([0])
    >>> pixel_flipping(total, image, target, image, replacement=0.0)  # (0 + 5 + 7 + 8 + 8) / 5
    tensor([5.6000], dtype=torch.float64)
    """
    curves = deletion_curve(
        model, images, targets, attributions, replacement=replacement, **options
    )
    return (curves[:, :1] - curves).mean(1)


def _curves(
    model: nn.Module,
    starts: Tensor,
    ends: Tensor,
    targets: Tensor,
    attributions: Tensor,
    *,
    order: Order = "morf",
    step: Count = 1,
    ties: Ties = "stable",
    generator: torch.Generator | None = None,
    measure: Measure = "output",
) -> Tensor:
    """What happens while pixels turn from those of one image into those of the other."""
    orders = removal_order(attributions, order=order, ties=ties, generator=generator)[:, None]
    counts = curve_counts(orders.shape[2], step)
    return outputs_along(
        model, starts, targets, orders, replacement=ends, counts=counts, measure=measure
    )[:, 0]


def _area(curves: Tensor, attributions: Tensor, options: CurveOptions) -> Tensor:
    fractions = curve_fractions(attributions[0].numel(), options.get("step", 1))
    return area_under_curve(curves, fractions)
