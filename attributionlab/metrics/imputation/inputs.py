"""What imputations take: images, or rows of features, and which of their parts are kept."""

from typing import Any

import torch
from torch import Tensor

from attributionlab.base import AttributionLabError, shown

LARGEST = 1e150
"""Size of a value; squares and sums of such are finite in float64."""


def checked_pair(images: Any, keep: Any) -> tuple[Tensor, Tensor]:
    """Images (B, C, H, W) and masks (B, 1, H, W), a single one of either repeated for the other.

    Images are detached: no gradient flows through an imputation.
    """
    _refuse_unless_finite(images, "images", "(B, C, H, W)", 4)
    size = (*images.shape[2:],)
    if (
        not isinstance(keep, Tensor)
        or keep.dtype != torch.bool
        or keep.ndim != 4
        or keep.shape[1:] != (1, *size)
        or not (len(keep) == len(images) or 1 in (len(keep), len(images)))
    ):
        raise AttributionLabError(
            f"keep is {shown(keep)} for images of shape {tuple(images.shape)}: pass a tensor of "
            f"torch.bool, True where a pixel is kept, of shape ({len(images)}, 1, {size[0]}, {size[1]})"
        )
    _refuse_devices(images, keep)
    batch = max(len(images), len(keep))
    return images.detach().expand(batch, -1, -1, -1), keep.expand(batch, -1, -1, -1)


def checked_rows(features: Any, keep: Any) -> tuple[Tensor, Tensor]:
    """Rows of features, detached, and their masks, both (B, N)."""
    _refuse_unless_finite(features, "features", "(B, N)", 2)
    if not isinstance(keep, Tensor) or keep.dtype != torch.bool or keep.shape != features.shape:
        raise AttributionLabError(
            f"keep is {shown(keep)} for features of shape {tuple(features.shape)}: pass a tensor of "
            f"torch.bool, True where a feature is kept, of the same shape"
        )
    _refuse_devices(features, keep)
    return features.detach(), keep


def _refuse_unless_finite(values: Any, name: str, shape: str, ndim: int) -> None:
    if (
        not isinstance(values, Tensor)
        or not values.is_floating_point()
        or values.ndim != ndim
        or not values.numel()
    ):
        raise AttributionLabError(
            f"{name} are {shown(values)}: pass a floating-point tensor of shape {shape}, not empty"
        )
    fine = values.isfinite() & (values.double().abs() <= LARGEST)
    if not bool(fine.all()):
        raise AttributionLabError(
            f"{name} have {int((~fine).sum())} values that are NaN, infinite or beyond {LARGEST:g}: "
            f"pass finite ones"
        )


def _refuse_devices(values: Tensor, keep: Tensor) -> None:
    if values.device != keep.device:
        raise AttributionLabError(
            f"keep is on {keep.device}, but the masked values are on {values.device}: move one of them"
        )


def refuse_nothing_kept(keep: Tensor, what: str = "pixel") -> None:
    """Means, interpolation and known colors need something that is known."""
    empty = (~keep.flatten(1).any(1)).nonzero().flatten().tolist()
    if empty:
        raise AttributionLabError(
            f"keep has no True at batch index {empty[0]} ({len(empty)} of {len(keep)} masks): keep at "
            f"least one {what}, or replace by a constant"
        )


def checked_noise(noise: float, value_range: float, generator: torch.Generator | None) -> float:
    """The standard deviation of the noise; a generator is needed if it is not 0."""
    if noise and generator is None:
        raise AttributionLabError(
            f"generator is {generator!r} where noise is {noise:g}: pass a seeded torch.Generator, or "
            f"noise=0"
        )
    return float(noise) * float(value_range)
