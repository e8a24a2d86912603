"""What metrics refuse before they ask a model anything."""

from typing import Any

import torch
from jaxtyping import Float, Real
from torch import Tensor

from attributionlab.errors import AttributionLabError

__all__ = ["checked_maps", "checked_replacement", "output_of", "shown"]


def checked_maps(
    attributions: Any, shape: tuple[int, int, int, int]
) -> Float[Tensor, "batch pixels"]:
    """Attributions of a batch in float64, one row of pixels for each image.

    Raises
    ------
    AttributionLabError
        For another shape than `shape`, (B, 1, H, W), and for values that are no finite real numbers.
    """
    if not isinstance(attributions, Tensor) or attributions.shape != shape:
        raise AttributionLabError(
            f"attributions are {shown(attributions)}: pass a tensor of shape {shape}, one value for "
            f"each pixel (summed over channels)"
        )
    if attributions.is_complex() or attributions.dtype == torch.bool:
        raise AttributionLabError(f"attributions are {attributions.dtype}: pass real numbers")
    maps = attributions.detach().double().flatten(1)
    if not maps.isfinite().all():
        image, pixel = (int(index) for index in (~maps.isfinite()).nonzero()[0])
        raise AttributionLabError(
            f"attributions have the value {float(maps[image, pixel])} in image {image} at pixel "
            f"{divmod(pixel, shape[3])}: pass finite numbers"
        )
    return maps


def checked_replacement(
    images: Any, replacement: Any
) -> Real[Tensor, "batch channels height width"]:
    """What takes the images' place, in their shape."""
    if not isinstance(images, Tensor) or images.ndim != 4 or not images.numel():
        raise AttributionLabError(
            f"images are {shown(images)}: pass a tensor of shape (B, C, H, W), B at least 1"
        )
    if not isinstance(replacement, Tensor):
        raise AttributionLabError(
            f"the replacement is {shown(replacement)}: pass a tensor, torch.zeros(1) for black"
        )
    try:
        return torch.broadcast_to(replacement, images.shape)
    except RuntimeError as error:
        raise AttributionLabError(
            f"the replacement has the shape {tuple(replacement.shape)}: pass one that broadcasts to "
            f"the images' {tuple(images.shape)}, such as (C, 1, 1)"
        ) from error


def output_of(outputs: Float[Tensor, "... outputs"], target: int) -> Float[Tensor, "..."]:
    """The output of one class."""
    if not 0 <= target < outputs.shape[-1]:
        raise AttributionLabError(
            f"a target is {target}: the model has {outputs.shape[-1]} outputs, pass 0 to "
            f"{outputs.shape[-1] - 1}"
        )
    return outputs[..., target]


def shown(value: Any) -> str:
    """A tensor's shape, or anything else's type."""
    if isinstance(value, Tensor):
        return f"of shape {tuple(value.shape)}"
    return f"of type {type(value).__name__}"
