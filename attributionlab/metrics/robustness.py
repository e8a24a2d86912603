r"""Infidelity and Max-Sensitivity (Yeh et al., 2019), computed by Captum.

    infidelity       E [ (sum of a_j over S  -  (f(x) - f(x without S)))^2 ]    over random subsets S
    max-sensitivity  max ||a(x + d) - a(x)|| / ||a(x)||                         over |d_j| <= radius

Both are lower where they are better. The first asks what Sensitivity-N asks, and wants the sizes to
agree too; the second asks nothing about the model: a method that always returns the same map scores 0.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int, Real
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Count,
    Positive,
    Replacement,
    Seed,
    asked,
    checked_arguments,
    checked_pair,
    exact_arithmetic,
    kind_of,
    number_problem,
    refuse_if,
)
from attributionlab.metrics.checked_inputs import checked_maps, output_of
from attributionlab.metrics.marking import metric

PIXELS_AT_ONCE = 5 * 224 * 224
"""Pixels of the images that a model or a method sees at once."""

Images = Real[Tensor, "batch channels height width"]
Attribute = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""A method: model, images and targets to attributions."""


@metric(higher_is_better=False, per_sample=True, unit="output change", sampled=True)
@checked_arguments
def infidelity(
    model: nn.Module,
    images: Images,
    targets: Int[Tensor, " batch"],
    attributions: Real[Tensor, "batch 1 height width"],
    *,
    replacement: Replacement,
    draws: Count = 100,
    seed: Seed = 0,
    normalize: bool = False,
) -> Float[Tensor, " batch"]:
    """Mean squared gap between summed attributions and the output's change.

    Attributions are taken as contributions, in units of the output; the perturbation is the removal of
    a random subset (Captum's binary perturbation, for "global" attributions): a size drawn uniformly
    from 1 .. H W, then a subset drawn uniformly among those of that size. Local attributions such as
    gradients need a perturbation with a magnitude; call `captum.metrics.infidelity` for one.

    Source: Yeh, Hsieh, Suggala, Inouye and Ravikumar (2019): On the (in)fidelity and sensitivity of
    explanations. Advances in Neural Information Processing Systems 32.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K); the output that is explained.
    images : Tensor, (B, C, H, W)
        Converted to the type of the model's parameters, float32 if it has none.
    targets : Tensor of int, (B,)
        Classes; zeros for a regression.
    attributions : Tensor, (B, 1, H, W)
        Signed, with their scale: it counts unless `normalize`.
    replacement : float or Tensor
        Value of removed pixels: a number, or what broadcasts to the images.
    draws : int
        Subsets for each image.
    seed : int
        Seed for the subsets, at least 0. All images draw from one stream, so an image's subsets depend
        on its position in the batch. Use a different seed for each batch.
    normalize : bool
        Whether attributions are first multiplied by the number that fits them best, as in Captum.

    Returns
    -------
    Tensor of float64, (B,)
        At least 0, lower is better; in squared units of the output.

    Raises
    ------
    AttributionLabError
        For shapes that do not fit; images, replacements, attributions or outputs that are not finite
        real numbers; targets that the model does not have; draws < 1; and seeds out of range.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import infidelity
    >>> image = torch.tensor([[[[3.0, 1.0], [0.0, 2.0]]]])
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> _ = model[1].weight.data.fill_(1)
    >>> infidelity(model, image, torch.tensor([0]), image, replacement=torch.zeros(1))
    tensor([0.], dtype=torch.float64)
    """
    starts, ends = checked_pair(images, replacement, *kind_of(model))
    batch, _, height, width = starts.shape
    maps = checked_maps(attributions, (batch, 1, height, width)).reshape(batch, 1, height, width)
    generator = torch.Generator().manual_seed(int(seed))
    scores = [
        _infidelity(model, image, end, target, values, draws, generator, normalize)
        for image, end, target, values in zip(
            starts, ends, targets.tolist(), maps.to(starts.device), strict=True
        )
    ]
    return torch.stack(scores)


@metric(
    higher_is_better=False,
    per_sample=True,
    sampled=True,
    invariances=("scale",),
    varies="image",
    unchanged=0,
)
@checked_arguments
def max_sensitivity(
    attribute: Attribute,
    model: nn.Module,
    images: Images,
    targets: Int[Tensor, " batch"],
    *,
    radius: Positive,
    draws: Count = 10,
    seed: Seed = 0,
) -> Float[Tensor, " batch"]:
    """Largest relative change of an attribution under small changes of all values of the image.

    It explains modified images, so it takes the method instead of its maps. Each value of the image
    gets its own noise, uniform in [-radius, radius]; norms are Euclidean, of the attributions summed
    over channels. A map of zeros is divided by 1 (Captum's choice).

    Source: Yeh, Hsieh, Suggala, Inouye and Ravikumar (2019), as for `infidelity`.

    Parameters
    ----------
    attribute : callable
        `attribute(model, images, targets)` -> attributions (B, C, H, W) or (B, 1, H, W). It receives
        several noisy copies of one image at a time, with gradients enabled; a method that draws random
        numbers must seed itself.
    model : nn.Module
        Handed to it.
    images : Tensor, (B, C, H, W)
        Converted to the type of the model's parameters, float32 if it has none.
    targets : Tensor of int, (B,)
        Classes; zeros for a regression.
    radius : float
        In the units of the images: 0.02 of a range of 0 to 1 (Captum's default) is 5.1 of 0 to 255.
    draws : int
        Noisy copies of each image.
    seed : int
        Seed for the noise, at least 0. Image after image draws from one stream, as in `infidelity`.

    Returns
    -------
    Tensor of float64, (B,)
        At least 0, lower is better.

    Raises
    ------
    AttributionLabError
        For a radius that is not positive, draws < 1, seeds out of range, and images or attributions
        of another shape or that are not finite real numbers.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import max_sensitivity
    >>> def twice(model, images, targets):
    ...     return 2 * images
    >>> image = torch.tensor([[[[3.0, 0.0], [0.0, 4.0]]]])
    >>> score = max_sensitivity(twice, torch.nn.Identity(), image, torch.tensor([0]), radius=0.5)
    >>> bool(score <= 0.5 * 2 / 5)  # four values change by at most 0.5; the image's norm is 5
    True
    """
    starts = noise_ready(model, images, radius)
    generator = torch.Generator().manual_seed(int(seed))
    scores = [
        _max_sensitivity(attribute, model, image, target, radius, draws, generator)
        for image, target in zip(starts, targets.tolist(), strict=True)
    ]
    return torch.stack(scores)


def _infidelity(
    model: nn.Module,
    image: Tensor,
    end: Tensor,
    target: int,
    values: Tensor,
    draws: Count,
    generator: torch.Generator,
    normalize: bool,
) -> Tensor:
    """Captum's infidelity of one image, as a function of which pixels are present."""
    from captum.metrics import infidelity as captum_infidelity

    height, width = image.shape[1:]

    def output(present: Tensor) -> Tensor:
        shown = torch.where(present > 0, image, end)
        with exact_arithmetic():
            return output_of(asked(model, shown), target).double()

    def removal(present: Tensor) -> tuple[Tensor, Tensor]:
        removed = torch.stack([_subset(height, width, generator) for _ in present]).to(present)
        return removed, present - removed

    score: Tensor = captum_infidelity(
        output,
        removal,
        torch.ones_like(values)[None],
        values[None],
        n_perturb_samples=draws,
        max_examples_per_batch=images_at_once(draws, image),
        normalize=normalize,
    )
    return score[0]


def _max_sensitivity(
    attribute: Attribute,
    model: nn.Module,
    image: Tensor,
    target: int,
    radius: float,
    draws: Count,
    generator: torch.Generator,
) -> Tensor:
    """Captum's Max-Sensitivity of one image."""
    from captum.metrics import sensitivity_max

    def explain(inputs: Tensor | tuple[Tensor]) -> Tensor | tuple[Tensor]:
        if isinstance(inputs, tuple):  # Captum's first call; a bare tensor would be taken apart
            return (explained(inputs[0]),)
        return explained(inputs)

    def explained(shown: Tensor) -> Tensor:
        targets = torch.full((len(shown),), target, device=shown.device)
        return maps_by(attribute, model, shown, targets)

    def noisy(shown: Tensor) -> Tensor:
        return with_noise(shown, radius, generator)

    score: Tensor = sensitivity_max(
        explain,
        image[None],
        noisy,
        n_perturb_samples=draws,
        max_examples_per_batch=images_at_once(draws, image),
    )
    return score[0]


def noise_ready(model: nn.Module, images: Images, radius: float = 0.0) -> Images:
    """Images in the model's numbers, to which noise of a radius can be added."""
    starts, _ = checked_pair(images, 0, *kind_of(model))
    refuse_if(number_problem("radius", radius, most=torch.finfo(starts.dtype).max))
    return starts


def outputs_of(model: nn.Module, images: Images) -> Float64[Tensor, "batch outputs"]:
    """All outputs of a model for images, some at a time."""
    parts = torch.split(images, images_at_once(len(images), images[0]))
    with torch.no_grad(), exact_arithmetic():
        outputs = [asked(model, part).double() for part in parts]
    found = torch.cat(outputs)
    if not found.isfinite().all():
        raise AttributionLabError(
            "the model's output is not finite for an image, or a noisy copy: choose other images, or a "
            "smaller radius"
        )
    return found


def maps_by(
    attribute: Attribute, model: nn.Module, images: Images, targets: Int[Tensor, " batch"]
) -> Float[Tensor, "batch 1 height width"]:
    """What a method returns, in float64 and summed over channels."""
    # Captum switches gradients off, the caller perhaps inference mode on. Methods may change copies.
    with torch.inference_mode(False), torch.enable_grad():
        attributions: Any = attribute(model, images.clone(), targets.clone())
    batch, channels, height, width = images.shape
    each = isinstance(attributions, Tensor) and attributions.shape == images.shape
    maps = checked_maps(attributions, (batch, channels if each else 1, height, width))
    return maps.reshape(batch, -1, height, width).sum(1, keepdim=True)


def with_noise(images: Images, radius: float, generator: torch.Generator) -> Images:
    """Images of which each value got noise of its own, uniform in [-radius, radius]."""
    noise = torch.rand(images.shape, generator=generator, device="cpu") * 2 - 1
    return images + radius * noise.to(images)


def _subset(height: int, width: int, generator: torch.Generator) -> Bool[Tensor, "1 height width"]:
    """A subset of the pixels: of uniform size, and uniform among those of that size."""
    pixels = height * width
    size = int(torch.randint(1, pixels + 1, (), generator=generator, device="cpu"))
    removed = torch.zeros(pixels, dtype=torch.bool, device="cpu")
    removed[torch.randperm(pixels, generator=generator, device="cpu")[:size]] = True
    return removed.reshape(1, height, width)


def images_at_once(draws: int, image: Tensor) -> int:
    """How many copies of an image go through a model together; Captum warns above `draws`."""
    return min(draws, max(1, PIXELS_AT_ONCE // image[0].numel()))
