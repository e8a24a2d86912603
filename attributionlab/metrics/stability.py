"""Stability: how far does an attribution move when the image moves a little?

For copies x' of an image x with noise, uniform in [-radius, radius] for each value, the attribution a,
the model's outputs h, the output L of a layer and Euclidean norms:

    local Lipschitz     max of ||a(x') - a(x)|| / ||x' - x||
    relative stability  max of ||(a(x') - a(x)) / a(x)|| / max(c, epsilon), with a change c:
        input               ||(x' - x) / x||
        output              ||h(x') - h(x)||
        representation      ||(L(x') - L(x)) / L(x)||

Division by x is value by value, and epsilon stands for values of 0. Only copies that the model answers
as it answers x count for the relative ones.

These judge a method, which explains images that are not the batch's, and know no truth: a method that
always returns the same map scores 0.

Sources: Alvarez-Melis and Jaakkola (2018): On the robustness of interpretability methods. ICML workshop
on human interpretability. Agarwal, Johnson, Pawelczyk, Krishna, Saxena, Zitnik and Lakkaraju (2022):
Rethinking stability for attribution-based explanations. ICLR workshop PAIR2Struct.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypedDict, Unpack

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, Count, Positive, Seed, checked_arguments, shown
from attributionlab.metrics import robustness
from attributionlab.metrics.marking import metric
from attributionlab.metrics.perturbation import Scores, Targets


class RelativeOptions(TypedDict, total=False):
    """Keywords of relative stability.

    Parameters
    ----------
    draws : int
        Noisy copies of each image; 10 by default.
    seed : int
        Seed for the noise, 0 by default. Image after image draws from one stream.
    epsilon : float
        What stands for a value of 0 in a denominator, and the least that a change is divided by; above
        0, 1e-6 by default.
    """

    draws: Count
    seed: Seed
    epsilon: Positive


@metric(
    higher_is_better=False,
    per_sample=True,
    sampled=True,
    invariances=("shift",),
    varies="image",
    unchanged=0,
)
@checked_arguments
def local_lipschitz(
    model: nn.Module,
    images: robustness.Images,
    targets: Targets,
    attribute: robustness.Attribute,
    *,
    radius: Positive,
    draws: Count = 10,
    seed: Seed = 0,
) -> Scores:
    """Largest change of an attribution per unit of change of the image.

    Quantus 0.6.0 has Gaussian noise and scales maps by their largest magnitude, by default.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K); passed to the method.
    images, targets, radius, seed
        As for `max_sensitivity`.
    attribute : callable
        `attribute(model, images, targets)` -> attributions (B, C, H, W) or (B, 1, H, W), which are
        summed over channels. It receives several noisy copies of one image at a time.
    draws : int
        Noisy copies of each image.

    Returns
    -------
    Tensor of float64, (B,)
        At least 0, in units of the attribution over those of the image; lower is better. NaN if the
        noise is lost in rounding.

    Raises
    ------
    AttributionLabError
        For what `max_sensitivity` refuses.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import local_lipschitz
    >>> def twice(model, images, targets):
    ...     return 2 * images
    >>> image = torch.tensor([[[[3.0, 0.0], [0.0, 4.0]]]])
    >>> local_lipschitz(torch.nn.Flatten(), image, torch.tensor([0]), twice, radius=0.5).round()
    tensor([2.], dtype=torch.float64)
    """
    scores = []
    for seen, maps, _ in _noisy(model, images, targets, attribute, radius, draws, seed):
        moved = (seen[1:] - seen[:1]).flatten(1).double().norm(dim=1)
        changes = (maps[1:] - maps[:1]).norm(dim=1)
        scores.append(_largest(changes / moved, moved > 0))
    return torch.stack(scores)


@metric(higher_is_better=False, per_sample=True, sampled=True, varies="image", unchanged=0)
@checked_arguments
def relative_input_stability(
    model: nn.Module,
    images: robustness.Images,
    targets: Targets,
    attribute: robustness.Attribute,
    *,
    radius: Positive,
    **options: Unpack[RelativeOptions],
) -> Scores:
    """Largest relative change of an attribution over the relative change of the image.

    Pixels without attribution dominate: their change is divided by epsilon. Quantus 0.6.0 returns NaN
    if the model's answer differs for any copy, and divides by epsilon only where a change is 0.

    Parameters
    ----------
    model, images, targets, attribute, radius
        As for `local_lipschitz`.
    **options
        As `RelativeOptions` says: draws, seed, epsilon.

    Returns
    -------
    Tensor of float64, (B,)
        At least 0, lower is better; NaN if the model's answer differs for every noisy copy.

    Raises
    ------
    AttributionLabError
        For what `max_sensitivity` refuses, outputs that are not finite, and an epsilon of 0 or less.
    """

    def change(seen: Tensor, outputs: Tensor, epsilon: float) -> Tensor:
        return _relative_change(seen.flatten(1).double(), epsilon)

    return _relative_stability(change, model, images, targets, attribute, radius, **options)


@metric(higher_is_better=False, per_sample=True, sampled=True, varies="image", unchanged=0)
@checked_arguments
def relative_output_stability(
    model: nn.Module,
    images: robustness.Images,
    targets: Targets,
    attribute: robustness.Attribute,
    *,
    radius: Positive,
    **options: Unpack[RelativeOptions],
) -> Scores:
    """Largest relative change of an attribution over the change of all outputs of the model.

    Parameters, errors and notes of `relative_input_stability`; in units of one over the output's.
    """

    def change(seen: Tensor, outputs: Tensor, epsilon: float) -> Tensor:
        moved: Tensor = torch.linalg.vector_norm(outputs[1:] - outputs[:1], dim=1)
        return moved

    return _relative_stability(change, model, images, targets, attribute, radius, **options)


@metric(higher_is_better=False, per_sample=True, sampled=True, varies="image", unchanged=0)
@checked_arguments
def relative_representation_stability(
    model: nn.Module,
    images: robustness.Images,
    targets: Targets,
    attribute: robustness.Attribute,
    *,
    radius: Positive,
    layer: nn.Module,
    **options: Unpack[RelativeOptions],
) -> Scores:
    """Largest relative change of an attribution over the relative change of a layer's output.

    Parameters, errors and notes of `relative_input_stability`, and:

    Parameters
    ----------
    layer : nn.Module
        A layer of the model that runs once in a forward pass and returns a tensor.
    """
    if not isinstance(layer, nn.Module) or all(each is not layer for each in model.modules()):
        raise AttributionLabError(f"layer is {shown(layer)}: pass a layer of the model")

    def change(seen: Tensor, outputs: Tensor, epsilon: float) -> Tensor:
        returned: list[Any] = []
        hook = layer.register_forward_hook(lambda _, inputs, output: returned.append(output))
        try:
            robustness.outputs_of(model, seen)
        finally:
            hook.remove()
        tensors = all(isinstance(each, Tensor) and each.ndim for each in returned)
        if not tensors or sum(map(len, returned)) != len(seen):
            raise AttributionLabError(
                f"layer {type(layer).__name__} did not return one tensor for each forward pass: pass "
                "another layer"
            )
        return _relative_change(torch.cat(returned).flatten(1).double(), epsilon)

    return _relative_stability(change, model, images, targets, attribute, radius, **options)


def _relative_stability(
    change: Callable[[Tensor, Tensor, float], Tensor],
    model: nn.Module,
    images: robustness.Images,
    targets: Targets,
    attribute: robustness.Attribute,
    radius: float,
    draws: Count = 10,
    seed: Seed = 0,
    epsilon: float = 1e-6,
) -> Scores:
    """Largest relative change of the maps over a change of what the model sees or says."""
    scores = []
    for seen, maps, outputs in _noisy(model, images, targets, attribute, radius, draws, seed):
        moved = change(seen, outputs, epsilon).clamp(min=epsilon)
        answers = outputs.argmax(1)
        ratios = _relative_change(maps, epsilon) / moved
        scores.append(_largest(ratios, answers[1:] == answers[0]))
    return torch.stack(scores)


def _noisy(
    model: nn.Module,
    images: robustness.Images,
    targets: Targets,
    attribute: robustness.Attribute,
    radius: float,
    draws: Count,
    seed: Seed,
) -> Iterator[tuple[Tensor, Float64[Tensor, "copies pixels"], Float64[Tensor, "copies outputs"]]]:
    """Each image and its noisy copies behind it, their maps, and the model's outputs."""
    starts = robustness.noise_ready(model, images, radius)
    generator = torch.Generator().manual_seed(int(seed))
    for image, target in zip(starts, targets.tolist(), strict=True):
        copies = robustness.with_noise(image.expand(int(draws), *image.shape), radius, generator)
        seen = torch.cat([image[None], copies])
        maps = [
            robustness.maps_by(
                attribute, model, part, torch.full((len(part),), target, device=part.device)
            )
            for part in torch.split(seen, robustness.images_at_once(len(seen), image))
        ]
        yield seen, torch.cat(maps).flatten(1), robustness.outputs_of(model, seen)


def _relative_change(
    values: Float64[Tensor, "copies values"], epsilon: float
) -> Float64[Tensor, " draws"]:
    """Norm of (v' - v) / v, the first row's values for v and epsilon for 0."""
    first = values[:1]
    change = (values[1:] - first) / torch.where(first == 0, epsilon, first)
    size: Tensor = torch.linalg.vector_norm(change, dim=1)
    return size


def _largest(ratios: Float64[Tensor, " draws"], counted: Tensor) -> Float64[Tensor, ""]:
    return ratios[counted].amax() if counted.any() else ratios.new_tensor(torch.nan)
