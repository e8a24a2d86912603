"""Other replacements of removed pixels, and what makes any imputation a valid image again.

All take `(images, keep, **settings)` as `attributionlab.imputation.noisy_linear` does: images
(B, C, H, W), keep (B, 1, H, W) of bool, a single one of either repeated for the other; kept pixels are
untouched, `==`, no gradient flows through, and bad input is an `AttributionLabError`.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from scipy.ndimage import gaussian_filter
from torch import Tensor

from attributionlab.base import (
    AttributionLabError,
    Sigma,
    broadcast_replacement,
    checked_arguments,
    shown,
)
from attributionlab.metrics.imputation.linear import checked_pair, noisy_linear, refuse_nothing_kept

Images = Float[Tensor, "images channels height width"]
Keep = Bool[Tensor, "masks 1 height width"]
Imputed = Float[Tensor, "batch channels height width"]
Imputation = Callable[..., Tensor]
"""From `(images, keep, **settings)` to images."""


@checked_arguments
def constant(images: Images, keep: Keep, *, value: float) -> Imputed:
    """Removed pixels become one number in all channels.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.imputation import constant
    >>> constant(torch.ones(1, 1, 1, 2), torch.tensor([[[[True, False]]]]), value=0.5)
    tensor([[[[1.0000, 0.5000]]]])
    """
    images, keep = checked_pair(images, keep)
    return torch.where(keep, images, torch.full_like(images, float(value)))


@checked_arguments
def true_baseline(images: Images, keep: Keep, *, baseline: Float[Tensor, "..."]) -> Imputed:
    """Removed pixels become the baseline's: one pixel (C, 1, 1), or what broadcasts to the images.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.imputation import true_baseline
    >>> keep = torch.tensor([[[[True, False]]]])
    >>> true_baseline(torch.ones(1, 1, 1, 2), keep, baseline=torch.tensor([[[7.0]]]))
    tensor([[[[1., 7.]]]])
    """
    images, keep = checked_pair(images, keep)
    if not isinstance(baseline, Tensor) or not bool(baseline.isfinite().all()):
        raise AttributionLabError(
            f"baseline is {shown(baseline)}: pass a tensor of finite values, such as a pixel (C, 1, 1)"
        )
    return torch.where(keep, images, broadcast_replacement(baseline, images).to(images))


@checked_arguments
def mean(images: Images, keep: Keep, *, of: Literal["kept", "image"] = "kept") -> Imputed:
    """Removed pixels become the mean of each channel, over kept pixels or over the whole image.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.imputation import mean
    >>> mean(torch.tensor([[[[1.0, 2.0, 9.0]]]]), torch.tensor([[[[True, True, False]]]]))
    tensor([[[[1.0000, 2.0000, 1.5000]]]])
    """
    if of not in ("kept", "image"):
        raise AttributionLabError(f"of is {of!r}: take 'kept' or 'image'")
    images, keep = checked_pair(images, keep)
    counted = torch.ones_like(keep)
    if of == "kept":
        refuse_nothing_kept(keep)
        counted = keep
    sums = torch.where(counted, images, 0).sum((2, 3), keepdim=True, dtype=torch.float64)
    means = sums / counted.sum((2, 3), keepdim=True)
    return torch.where(keep, images, means.to(images.dtype))


@checked_arguments
def blur(images: Images, keep: Keep, *, sigma: Sigma) -> Imputed:
    """Removed pixels become those of the image blurred by a Gaussian of sigma pixels.

    The whole image is blurred, removed pixels included; it is mirrored at its edges, and the kernel is
    cut off at 4 sigma.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.imputation import blur
    >>> blur(torch.eye(2)[None, None], torch.eye(2)[None, None] > 0, sigma=100).round(decimals=2)
    tensor([[[[1.0000, 0.5000],
              [0.5000, 1.0000]]]])
    """
    images, keep = checked_pair(images, keep)
    blurred = gaussian_filter(
        images.cpu().double().numpy(), (0, 0, sigma, sigma), mode="reflect", truncate=4
    )
    return torch.where(keep, images, torch.from_numpy(blurred).to(images))


@checked_arguments
def rounded(
    images: Images,
    keep: Keep,
    *,
    low: float,
    high: float,
    imputation: Imputation = noisy_linear,
    **settings: Any,
) -> Imputed:
    """Removed pixels become integers in [low, high] nearest to what another imputation makes of them.

    Halves go to the even integer. `settings` are those of the imputation.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.imputation import constant, rounded
    >>> keep = torch.tensor([[[[True, False]]]])
    >>> rounded(torch.zeros(1, 1, 1, 2), keep, low=0, high=255, imputation=constant, value=300.7)
    tensor([[[[  0., 255.]]]])
    """
    if low > high or low != int(low) or high != int(high):
        raise AttributionLabError(
            f"the box is [{low:g}, {high:g}]: take integers for low and high, the lower one first"
        )
    images, keep = checked_pair(images, keep)
    imputed = imputation(images, keep, **settings)
    return torch.where(keep, images, imputed.round().clamp(low, high))


@checked_arguments
def nearest_known_color(
    images: Images,
    keep: Keep,
    *,
    colors: Float[Tensor, "colors channels"] | None = None,
    imputation: Imputation = noisy_linear,
    **settings: Any,
) -> Imputed:
    """Removed pixels become the known colors nearest to what another imputation makes of them.

    Parameters
    ----------
    images, keep
        As in `attributionlab.imputation.noisy_linear`.
    colors : Tensor, (K, C), optional
        Known ones; without them the distinct colors of each image's kept pixels, in sorted order. Of
        equally near ones, in Euclidean distance, the first is taken.
    imputation, settings
        What imputes, and its settings.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.imputation import nearest_known_color
    >>> image = torch.tensor([[[[0.0, 9.0, 9.0, 3.0]]]])
    >>> nearest_known_color(image, image != 9, noise=0)
    tensor([[[[0., 0., 3., 3.]]]])
    """
    images, keep = checked_pair(images, keep)
    if colors is None:
        refuse_nothing_kept(keep)
    elif (
        not isinstance(colors, Tensor)
        or colors.ndim != 2
        or colors.shape[1] != images.shape[1]
        or not len(colors)
        or not bool(colors.isfinite().all())
    ):
        raise AttributionLabError(
            f"colors are {shown(colors)}: pass finite ones of shape (K, {images.shape[1]})"
        )
    imputed = imputation(images, keep, **settings)
    result = images.clone()
    for into, image, kept, each in zip(result, images, keep[:, 0], imputed, strict=True):
        known = image[:, kept].T.unique(dim=0) if colors is None else colors.to(image)
        wanted = each[:, ~kept].T  # (pixels, C)
        # In parts, so that many pixels and many colors fit in memory.
        parts = [known[_squared_distances(part, known).argmin(1)] for part in wanted.split(4096)]
        into[:, ~kept] = torch.cat(parts).T
    return result


def _squared_distances(pixels: Tensor, known: Tensor) -> Tensor:
    """(pixels, colors), by differences: near colors are told apart exactly."""
    distances = torch.zeros(len(pixels), len(known), dtype=torch.float64, device=pixels.device)
    for channel in range(pixels.shape[1]):
        difference = pixels[:, channel, None].double() - known[None, :, channel].double()
        distances += difference * difference
    return distances
