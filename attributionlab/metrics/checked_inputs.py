"""What metrics refuse, and warn of, before they ask a model for outputs."""

import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    AttributionLabWarning,
    Portion,
    UnservedError,
    ascending,
    descending,
    followed_tree,
    not_empty,
    shown,
)

Rising = Annotated[Sequence[Portion], not_empty, ascending]
Falling = Annotated[Sequence[Portion], not_empty, descending]
"""Shares of an image's area at which something is evaluated."""
MANY_PASSES = 100_000
"""Two curves of all steps at 224 x 224 are more: minutes to hours."""


def refuse_other_than_maps(
    attributions: Any, shape: tuple[int, ...] | None = None, name: str = "attributions"
) -> None:
    """Refuse all but a tensor of real numbers, one for each pixel of each image, of this shape."""
    fits = isinstance(attributions, Tensor) and (
        attributions.shape == shape
        if shape
        else attributions.ndim == 4 and attributions.shape[1] == 1 and attributions.numel()
    )
    if not fits:
        raise AttributionLabError(
            f"{name} are {shown(attributions)}: pass a tensor of shape "
            f"{shape or '(B, 1, H, W)'}, one value for each pixel (summed over channels)"
        )
    if attributions.is_complex() or attributions.dtype == torch.bool:
        raise AttributionLabError(
            f"{name} are {attributions.dtype}: pass real numbers, mask.float() for a mask"
        )


def checked_maps(
    attributions: Any, shape: tuple[int, int, int, int], name: str = "attributions"
) -> Float[Tensor, "batch pixels"]:
    """Attributions of a batch in float64, one row of pixels for each image.

    Raises AttributionLabError for another shape than `shape`, (B, 1, H, W), and for values that are no
    finite real numbers.
    """
    refuse_other_than_maps(attributions, shape, name)
    maps: Tensor = attributions.detach().double().flatten(1)
    if not maps.isfinite().all():
        image, pixel = (int(index) for index in (~maps.isfinite()).nonzero()[0])
        raise AttributionLabError(
            f"{name} have the value {float(maps[image, pixel])} in image {image} at pixel "
            f"{divmod(pixel % (shape[2] * shape[3]), shape[3])}: pass finite numbers"
        )
    return maps


def nonnegative_maps(
    attributions: Any,
    shape: tuple[int, int, int, int] | None = None,
    name: str = "attributions",
) -> Float[Tensor, "batch pixels"]:
    """Maps of a batch as `checked_maps` returns them, if nothing in them is negative.

    Without a shape, any (B, 1, H, W) will do.
    """
    refuse_other_than_maps(attributions, shape, name)
    maps = checked_maps(attributions, attributions.shape, name)
    if bool((maps < 0).any()):
        image = int((maps < 0).any(1).nonzero()[0])
        raise AttributionLabError(
            f"{name} have the value {float(maps[image].min()):g} in image {image}, but this is defined "
            "for values of at least 0: pass x.clamp(min=0) for evidence for the target, "
            "(-x).clamp(min=0) for evidence against it, or x.abs() for both"
        )
    return maps


def above(attributions: Tensor, threshold: float) -> Tensor:
    """Where attributions exceed a threshold in their own precision: 0.1 is another one in float32."""
    limit = float(threshold)
    if attributions.is_floating_point():
        limit = float(torch.tensor(limit, dtype=attributions.dtype, device="cpu"))
    return attributions.detach().double() > limit


def exactly_rescaled(maps: Float[Tensor, "batch pixels"]) -> Float[Tensor, "batch pixels"]:
    """Rows in units of a power of two near each one's maximum: exact, and their sums are finite."""
    exponents = maps.amax(1).frexp().exponent.clamp(-1000, 1000).tolist()
    return maps * maps.new_tensor([2.0**-each for each in exponents])[:, None]


def pixels_of_share(share: float, pixels: int) -> int:
    """How many of an image's pixels a share of them is, at least one."""
    return max(1, round(share * pixels))


def output_of(outputs: Tensor, target: int) -> Float[Tensor, "..."]:
    """The outputs (...) of one class, of (..., K), if they are finite."""
    if not 0 <= target < outputs.shape[-1]:
        raise AttributionLabError(
            f"a target is {target}: the model has {outputs.shape[-1]} outputs, pass 0 to "
            f"{outputs.shape[-1] - 1}"
        )
    chosen = outputs[..., target]
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

    - `images` (B, C, H, W): on which.
    - `passes`: images that the model would be shown on the route "forward".
    - `remedy`: how the caller's user asks for fewer.
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
            stacklevel=4,  # past the check of the arguments
        )
