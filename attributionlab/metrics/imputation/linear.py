"""Noisy linear imputation of images and of rows of features; what imputations take."""

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attributionlab.base import (
    AttributionLabError,
    NotNegative,
    Positive,
    Within,
    checked_arguments,
    shown,
)

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


LEAST_TOLERANCE = 1e-12


@checked_arguments
def noisy_linear(
    images: Float[Tensor, "images channels height width"],
    keep: Bool[Tensor, "masks 1 height width"],
    *,
    noise: NotNegative = 0.01,
    value_range: Positive = 1.0,
    generator: torch.Generator | None = None,
    tolerance: Annotated[float, Within(least=LEAST_TOLERANCE)] = 1e-6,
    start: Float[Tensor, "starts channels height width"] | None = None,
) -> Float[Tensor, "batch channels height width"]:
    r"""Removed pixels as weighted means of their neighbors, all solved for at once, and noise.

    .. math::
        x_i = \frac{\sum_j w_{ij} x_j}{\sum_j w_{ij}} + \sigma \, \epsilon_i, \qquad
        \epsilon_i \sim N(0, 1)

    over the up to eight neighbors j of pixel i that lie in the image, with weights 1/6 for direct and
    1/12 for diagonal ones; noise is added after solving.

    Solved in float64 on the CPU, wherever the images are, with as many threads as torch uses; in time
    about proportional to the number of pixels. The error is bounded by the maximum principle, not
    estimated: `attributionlab.imputation.multigrid` says how. A result does not depend on what else
    is in the batch, apart from the noise.

    Source: Rong, Leemann, Borisov, Kasneci and Kasneci, "A consistent and efficient evaluation strategy
    for attribution methods", ICML 2022.

    Parameters
    ----------
    images : Tensor, (B, C, H, W)
        Floating-point. A single image is repeated for several masks.
    keep : Tensor of bool, (B, 1, H, W)
        False where a pixel is removed. A single mask is repeated for several images.
    noise : float
        Standard deviation of the noise in units of the value range: sigma = noise * value_range.
    value_range : float
        Largest minus least value of images: 1 for [0, 1], 255 for [0, 255].
    generator : torch.Generator, optional
        Source of the noise, required unless `noise` is 0. One number is drawn for every value of an
        image whatever the mask, so that equally seeded calls differ only in what is removed.
    tolerance : float
        Largest error of the linear part, in units of the value range; at least 1e-12. Rounding comes
        on top: to the images' type, and in float64 to about 1e-16 of the values' size times the
        squared width, in pixels, of what is removed.
    start : Tensor, (B, C, H, W), optional
        First guess of removed pixels, such as the result for a similar mask; saves time.

    Returns
    -------
    Tensor, (B, C, H, W)
        Images of the same type and device; kept pixels are untouched. No gradient flows through.

    Raises
    ------
    AttributionLabError
        If an image has no kept pixel (the equations have no single solution), and for bad input.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.imputation import noisy_linear
    >>> image = torch.tensor([[[[0.0, 9.0, 1.0]]]])
    >>> noisy_linear(image, image != 9, noise=0)
    tensor([[[[0.0000, 0.5000, 1.0000]]]])
    """
    sigma = checked_noise(noise, value_range, generator)
    images, keep = checked_pair(images, keep)
    refuse_nothing_kept(keep)
    guesses = None if start is None else _checked_start(start, images)
    added = _drawn(images.shape, sigma, generator)
    result = torch.empty(images.shape, dtype=images.dtype, device="cpu")
    threads = min(torch.get_num_threads(), len(images))

    # Imported where it is needed: numba takes a second to import.
    from attributionlab.metrics.imputation.multigrid import WeightedMeans

    def solve_every(first: int) -> None:
        """One image after the other, written to `result`."""
        means = WeightedMeans(*images.shape[2:])
        for index in range(first, len(images), threads):
            image, kept, into = images[index], keep[index, 0], result[index]
            if kept.all():
                into.copy_(image)
                continue
            means.remove(_as_array(~kept))
            values = _as_array(image.double())
            filled = np.empty_like(values)
            own = [None] * len(values) if guesses is None else _as_array(guesses[index].double())
            for channel, guess, out in zip(values, own, filled, strict=True):
                means.fill(channel, guess, tolerance * value_range, out)
            linear = torch.from_numpy(filled)
            if added is not None:  # before rounding to the images' type
                linear = torch.where(kept.cpu(), linear, linear + added[index])
            into.copy_(linear)

    if threads == 1:
        solve_every(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(solve_every, range(threads)))  # raises what a thread raised
    return result.to(images.device)


def _as_array(values: Tensor) -> np.ndarray:
    array: np.ndarray = values.cpu().contiguous().numpy()
    return array


def _checked_start(start: object, images: Tensor) -> Tensor:
    if (
        not isinstance(start, Tensor)
        or start.ndim != 4
        or start.shape[1:] != images.shape[1:]
        or len(start) not in (1, len(images))
        or not bool(start.isfinite().all())
    ):
        raise AttributionLabError(
            f"start is {shown(start)}: pass finite values of shape {tuple(images.shape)}, or None"
        )
    return start.detach().expand_as(images)


def _drawn(
    shape: tuple[int, ...], sigma: float, generator: torch.Generator | None
) -> Tensor | None:
    """Noise in float64 on the CPU, if there is any."""
    if not sigma:
        return None
    assert generator is not None  # checked_noise
    drawn = torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float64)
    return drawn.cpu().mul_(sigma)


@checked_arguments
def noisy_linear_1d(
    features: Float[Tensor, "batch features"],
    keep: Bool[Tensor, "batch features"],
    *,
    noise: NotNegative = 0.01,
    value_range: Positive = 1.0,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "batch features"]:
    """Removed features by linear interpolation between the nearest kept ones, and noise.

    Before the first and after the last kept feature its value is repeated.

    Parameters
    ----------
    features : Tensor, (B, N)
        Floating-point; their order is their place.
    keep : Tensor of bool, (B, N)
        False where a feature is removed.
    noise, value_range, generator
        As in `noisy_linear`.

    Returns
    -------
    Tensor, (B, N)
        Kept features are untouched.

    Raises
    ------
    AttributionLabError
        If a row has no kept feature, and for bad input.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.imputation import noisy_linear_1d
    >>> row = torch.tensor([[9.0, 1.0, 9.0, 2.0, 9.0]])
    >>> noisy_linear_1d(row, row != 9, noise=0)
    tensor([[1.0000, 1.0000, 1.5000, 2.0000, 2.0000]])
    """
    sigma = checked_noise(noise, value_range, generator)
    features, keep = checked_rows(features, keep)
    refuse_nothing_kept(keep, "feature")
    from attributionlab.metrics.imputation.kernels import (
        interpolated,  # numba takes a second to import
    )

    solved = torch.from_numpy(interpolated(_as_array(features.double()), _as_array(keep)))
    added = _drawn(features.shape, sigma, generator)
    if added is not None:
        solved += added
    return torch.where(keep, features, solved.to(features))
