"""What metrics refuse, and warn of, before they ask a model for outputs."""

import warnings
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    AttributionLabWarning,
    UnservedError,
    followed_tree,
    number_problem,
    plain_problem,
    refuse_if,
    shown,
)

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
            "for values of at least 0: pass x.clamp(min=0) for what speaks for the target, "
            "(-x).clamp(min=0) for what speaks against it, or x.abs() for both"
        )
    return maps


def listed_numbers(values: Any, name: str) -> tuple[Any, ...]:
    """What is in a sequence, an array or a tensor of numbers."""
    if isinstance(values, Tensor):
        refuse_if(plain_problem(f"{name} are", values))
    numbers = values.tolist() if isinstance(values, Tensor) else values
    if isinstance(numbers, str) or not isinstance(numbers, Iterable):
        raise AttributionLabError(f"{name} are {numbers!r}: pass a sequence of numbers")
    return tuple(numbers)


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


def checked_shares(values: Sequence[float], name: str, *, falling: bool) -> tuple[float, ...]:
    """Shares of an image's area at which something is evaluated, falling or rising within [0, 1]."""
    shares = listed_numbers(values, name)
    way = "fall" if falling else "rise"
    refuse_if(
        [
            each
            for share in shares
            for each in number_problem(f"one of {name}", share, least=0, most=1)
        ][:1]
        or ([] if shares else [f"{name} are empty: pass shares of the area that {way}"])
    )
    for first, second in pairwise(shares):
        if (second >= first) if falling else (second <= first):
            raise AttributionLabError(
                f"{name} go from {first:g} to {second:g}: pass shares of the area that {way}"
            )
    return tuple(float(share) for share in shares)


def pixels_of_share(share: float, pixels: int) -> int:
    """How many of an image's pixels a share of them is, at least one."""
    refuse_if(number_problem("share", share, above=0, most=1))
    return max(1, round(float(share) * pixels))


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
