"""What metrics refuse, and warn of, before they ask a model for outputs."""

import warnings
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, AttributionLabWarning
from attributionlab.exact.stepwise.replacement import followed_tree
from attributionlab.exact.stepwise.tree import UnservedError
from attributionlab.validation import integer_problem, shown

__all__ = [
    "checked_maps",
    "output_of",
    "refuse_other_than_maps",
    "seed_problem",
    "warn_of_forward_passes",
]

MANY_PASSES = 100_000
"""Two curves of all steps at 224 x 224 are more: minutes to hours."""

HIGHEST_SEED = 2**64 - 1
"""That `torch.Generator.manual_seed` takes; negative ones would stand for some of the others."""


def seed_problem(seed: object) -> list[str]:
    """What is wrong with what is to be a seed of `torch.Generator`."""
    return integer_problem("seed", seed, 0, HIGHEST_SEED)


def refuse_other_than_maps(attributions: Any, shape: tuple[int, ...] | None = None) -> None:
    """Refuse all but a tensor of real numbers, one for each pixel of each image, of this shape."""
    fits = isinstance(attributions, Tensor) and (
        attributions.shape == shape
        if shape
        else attributions.ndim == 4 and attributions.shape[1] == 1 and attributions.numel()
    )
    if not fits:
        raise AttributionLabError(
            f"attributions are {shown(attributions)}: pass a tensor of shape "
            f"{shape or '(B, 1, H, W)'}, one value for each pixel (summed over channels)"
        )
    if attributions.is_complex() or attributions.dtype == torch.bool:
        raise AttributionLabError(
            f"attributions are {attributions.dtype}: pass real numbers, mask.float() for a mask"
        )


def checked_maps(
    attributions: Any, shape: tuple[int, int, int, int]
) -> Float[Tensor, "batch pixels"]:
    """Attributions of a batch in float64, one row of pixels for each image.

    Raises
    ------
    AttributionLabError
        For another shape than `shape`, (B, 1, H, W), and for values that are no finite real numbers.
    """
    refuse_other_than_maps(attributions, shape)
    maps: Tensor = attributions.detach().double().flatten(1)
    if not maps.isfinite().all():
        image, pixel = (int(index) for index in (~maps.isfinite()).nonzero()[0])
        raise AttributionLabError(
            f"attributions have the value {float(maps[image, pixel])} in image {image} at pixel "
            f"{divmod(pixel % (shape[2] * shape[3]), shape[3])}: pass finite numbers"
        )
    return maps


def output_of(outputs: Tensor, target: int) -> Float[Tensor, "..."]:
    """The outputs (...) of one class, of (..., K), if they are finite real numbers."""
    if not 0 <= target < outputs.shape[-1]:
        raise AttributionLabError(
            f"a target is {target}: the model has {outputs.shape[-1]} outputs, pass 0 to "
            f"{outputs.shape[-1] - 1}"
        )
    chosen = outputs[..., target]
    if chosen.is_complex():
        raise AttributionLabError(
            f"the model's output is {chosen.dtype}: pass one that returns real numbers, .abs() for "
            "example"
        )
    if not chosen.isfinite().all():
        raise AttributionLabError(
            f"the model's output is not finite: {float(chosen[~chosen.isfinite()][0])} for target "
            f"{target} and an image with replaced pixels; choose another replacement or output"
        )
    return chosen


def warn_of_forward_passes(model: nn.Module, images: Tensor, passes: int, remedy: str) -> None:
    """Warn of more than `MANY_PASSES` forward passes.

    The layers decide, which costs nothing to ask. Models that could be followed if they did not round
    are small: nothing is said of those.

    Parameters
    ----------
    model : nn.Module
        What is evaluated.
    images : Tensor, (B, C, H, W)
        On which.
    passes : int
        Images that the model would be shown on the route "forward".
    remedy : str
        How the caller's user asks for fewer.
    """
    if passes <= MANY_PASSES:
        return
    try:
        followed_tree(model, images)
    except UnservedError as reason:
        warnings.warn(
            f"{passes:,} forward passes are needed, because the model cannot be evaluated "
            f"incrementally ({reason}); {remedy}",
            AttributionLabWarning,
            stacklevel=3,
        )
