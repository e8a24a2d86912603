r"""Incremental deletion score: how long does the output last if the least relevant goes first?

.. math::
    \text{IDS} = \frac{1}{S} \sum_{s=0}^{S-1} f_t(x \text{ without its } \lfloor s P / S \rfloor
    \text{ least relevant pixels})

of S steps and P pixels (Samek et al., 2017, in the form of Hesse et al., 2024, appendix E).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float64, Int, Real
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Count,
    Replacement,
    asked,
    checked_arguments,
    checked_pair,
    exact_arithmetic,
    kind_of,
)
from attributionlab.metrics.checked_inputs import output_of, refuse_other_than_maps
from attributionlab.metrics.curves import outputs_along
from attributionlab.metrics.marking import metric
from attributionlab.metrics.orders import removal_order

Images = Real[Tensor, "batch channels height width"]
Maps = Real[Tensor, "batch 1 height width"]
Targets = Int[Tensor, " batch"]

Explain = Callable[[Tensor, Tensor], Tensor]
"""`(images (B, C, H, W), targets (B,)) -> (B, 1, H, W)`"""


@checked_arguments
def ids_curve(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    steps: Count = 32,
    explain: Explain | None = None,
) -> Float64[Tensor, "batch steps"]:
    """The target's output while pixels are removed, least relevant first.

    Source: Hesse, Schaub-Meyer and Roth (2024): Benchmarking the attribution quality of vision models.
    NeurIPS. Section 4.2. Samek et al. (2017): Evaluating the visualization of what a deep neural
    network has learned. IEEE Transactions on Neural Networks and Learning Systems 28(11).

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K), in eval mode; Hesse et al. take the one that returns probabilities.
    images : Tensor, (B, C, H, W)
        What is explained.
    targets : Tensor of int, (B,)
        A class index for each image.
    attributions : Tensor, (B, 1, H, W)
        Maps of the whole images. The lowest values are removed first, large negative ones before all
        others; ties in reading order.
    replacement : float or Tensor
        What a removed pixel becomes, as for `deletion_curve`.
    steps : int
        Points of the curve, at the fractions 0, 1/steps, ... removed, never at 1.
    explain : callable, optional
        `(images, targets) -> (B, 1, H, W)`: explains the remaining image again after each step, and the
        remaining pixels follow the new values. Without it, `attributions` fixes the order.

    Returns
    -------
    Tensor of float64, (B, steps)
        The first column is f(image).

    Raises
    ------
    AttributionLabError
        For NaN among attributions, shapes that do not fit, more steps than pixels, a model in training
        mode and outputs that are not finite.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import ids_curve
    >>> total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False)).eval()
    >>> _ = torch.nn.init.ones_(total[1].weight)
    >>> image, target = torch.tensor([[[[1.0, 0.0, 5.0, 2.0]]]]), torch.tensor([0])
    >>> ids_curve(total, image, target, image, replacement=0.0, steps=4)
    tensor([[8., 8., 7., 5.]], dtype=torch.float64)
    """
    whole, filling = checked_pair(images, replacement, *kind_of(model))
    pixels = attributions[0].numel()
    if steps > pixels:
        raise AttributionLabError(f"steps is {steps}: take at most {pixels}, the number of pixels")
    counts = step_counts(pixels, steps)
    if explain is None:
        orders = removal_order(attributions, order="lerf")[:, None]
        return outputs_along(model, images, targets, orders, replacement=filling, counts=counts)[
            :, 0
        ]
    classes = targets.tolist()
    current, maps = whole, attributions
    gone = torch.zeros(len(whole), pixels, dtype=torch.bool, device=whole.device)
    outputs = []
    for step, count in enumerate(counts):
        if step:
            order = removal_order(maps, order="lerf").to(whole.device)
            # What is gone already comes first, whatever the new maps say about it.
            there = ~gone.gather(1, order)
            order = order.gather(1, there.int().argsort(dim=1, stable=True))
            gone = gone.scatter(1, order[:, :count], True)
            current = torch.where(gone.view(len(whole), 1, *whole.shape[2:]), filling, whole)
            if step + 1 < steps:
                maps = explain(current.clone(), targets.clone())
                refuse_other_than_maps(maps, attributions.shape, "the updated attributions")
        with torch.no_grad(), exact_arithmetic():
            row = asked(model, current)
        values = [output_of(each, target) for each, target in zip(row, classes, strict=True)]
        outputs.append(torch.stack(values).double())
    return torch.stack(outputs, 1)


@metric(higher_is_better=True, per_sample=True, unit="order", ties="reading order")
@checked_arguments
def ids(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    steps: Count = 32,
    explain: Explain | None = None,
) -> Float64[Tensor, " batch"]:
    """Incremental deletion score: mean of `ids_curve`, with its parameters and errors.

    In units of the output, higher is better. Unlike a rank correlation it depends on the calibration of
    the model: only scores of the same model are comparable.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import ids
    >>> total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False)).eval()
    >>> _ = torch.nn.init.ones_(total[1].weight)
    >>> image, target = torch.tensor([[[[1.0, 0.0, 5.0, 2.0]]]]), torch.tensor([0])
    >>> ids(total, image, target, image, replacement=0.0, steps=4)
    tensor([7.], dtype=torch.float64)
    """
    curves = ids_curve(
        model, images, targets, attributions, replacement=replacement, steps=steps, explain=explain
    )
    return curves.mean(1)


def step_counts(pixels: int, steps: int) -> list[int]:
    """How many of the pixels are gone at each point of `ids_curve`.

    Examples
    --------
    >>> step_counts(10, 4)
    [0, 2, 5, 7]
    """
    return [step * pixels // steps for step in range(steps)]
