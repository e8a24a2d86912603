"""Patches of images: a grid of square cells, or any regions, of which one at a time is deleted."""

import math
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int, Int64, Real
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.exact.stepwise.checks import checked_pair
from attributionlab.metrics.checked_inputs import checked_maps, refuse_other_than_maps
from attributionlab.validation import (
    Replacement,
    checked_images,
    integer_problem,
    number_problem,
    shown,
)

Maps = Real[Tensor, "batch 1 height width"]
PatchValues = Float64[Tensor, "batch patches"]
Patches = int | Int[Tensor, "..."]
"""How many cells a square grid has, or the number of each pixel's patch, from 0 on: (H, W) or
(B, 1, H, W); pixels with a negative number lie in no patch."""


def grid_patches(height: int, width: int, patches: int = 16) -> Int64[Tensor, "height width"]:
    """Number the cells of a square grid in reading order.

    Parameters
    ----------
    height, width : int
        In pixels.
    patches : int
        A square number from 4 on: 16 for 4 x 4 cells.

    Returns
    -------
    Tensor of int64, (H, W)
        From 0 to patches - 1.

    Raises
    ------
    AttributionLabError
        If the grid does not divide the image into cells of one size. Nothing is padded: crop or resize
        the images, or number the patches yourself.

    Examples
    --------
    >>> from attributionlab.metrics import grid_patches
    >>> grid_patches(2, 4, patches=4)
    tensor([[0, 0, 1, 1],
            [2, 2, 3, 3]])
    """
    refuse_if([*integer_problem("height", height, 1), *integer_problem("width", width, 1)])
    if not isinstance(patches, Integral) or isinstance(patches, bool):
        raise AttributionLabError(
            f"patches are {shown(patches)}: pass a square number such as 16, or a label map (H, W)"
        )
    side = math.isqrt(max(int(patches), 0))
    if side**2 != patches or side < 2:
        raise AttributionLabError(
            f"patches is {patches}: take a square number from 4 on, such as 16 for 4 x 4 cells"
        )
    if height % side or width % side:
        raise AttributionLabError(
            f"{patches} patches are a grid of {side} x {side}, which does not divide {height} x "
            f"{width} pixels: take another number, crop the images, or pass a label map (H, W)"
        )
    rows = torch.arange(height, device="cpu") // (height // side)
    columns = torch.arange(width, device="cpu") // (width // side)
    return rows[:, None] * side + columns


def patch_deleted(
    images: Float[Tensor, "batch channels height width"],
    patches: Patches,
    replacement: Replacement,
    *,
    share: float = 0.5,
    generator: torch.Generator,
) -> Float[Tensor, "batch channels height width"]:
    """Images of which some lack one patch, drawn uniformly: what aligns training with deletion.

    A model that is trained on such images has seen what `idsds` shows it: whole images and images
    without one patch, half of each by default.

    Parameters
    ----------
    images : Tensor, (B, C, H, W)
        Left as they are.
    patches : int or Tensor
        As for `single_deletion`; with (B, 1, H, W) the patch is drawn from those of each image.
    replacement : float or Tensor
        What a deleted pixel becomes: a number, a pixel (C, 1, 1), or what broadcasts to the images.
    share : float
        The probability that an image loses a patch, in [0, 1].
    generator : torch.Generator
        Of the draws, on the CPU.

    Raises
    ------
    AttributionLabError
        For patches that do not fit, and settings out of range.

    References
    ----------
    Hesse, Schaub-Meyer and Roth (2024): Benchmarking the attribution quality of vision models. NeurIPS.
    Section 3 and appendix B.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import patch_deleted
    >>> generator = torch.Generator().manual_seed(0)
    >>> patch_deleted(torch.ones(1, 1, 2, 2), 4, 0.0, share=1.0, generator=generator)
    tensor([[[[0., 1.],
              [1., 1.]]]])
    """
    refuse_if(number_problem("share", share, least=0, most=1))
    if not isinstance(generator, torch.Generator):
        raise AttributionLabError(
            f"the generator is {shown(generator)}: pass torch.Generator().manual_seed(0)"
        )
    whole, fillings = checked_pair(images, replacement, images.dtype, images.device)
    if not whole.is_floating_point():
        raise AttributionLabError(f"images are {shown(images)}: pass images.float()")
    hit = torch.rand(len(whole), generator=generator, device=generator.device) < share
    # One number in [0, 1) for each image, whatever the patches: draws do not depend on them.
    drawn = torch.rand(
        len(whole), generator=generator, dtype=torch.float64, device=generator.device
    )
    made = []
    for image, filling, inside, lost, number in zip(
        whole, fillings, members(patches, whole), hit, drawn, strict=True
    ):
        there = inside.flatten(1).any(1).nonzero()[:, 0]
        if lost and len(there):
            image = torch.where(inside[there[int(number * len(there))]], filling, image)
        made.append(image)
    return torch.stack(made)


def patch_sums(attributions: Maps, patches: Patches = 16) -> PatchValues:
    """The sum of the attributions in each patch, (B, P), patches as for `single_deletion`.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import patch_sums
    >>> patch_sums(torch.ones(1, 1, 4, 4), 4)
    tensor([[4., 4., 4., 4.]], dtype=torch.float64)
    """
    refuse_other_than_maps(attributions)
    maps = checked_maps(attributions, attributions.shape)  # type: ignore[arg-type]
    sums = []
    for values, inside in zip(maps.cpu(), members(patches, attributions), strict=True):
        regions = inside.flatten(1).cpu()
        sums.append([_sum(values[region]) if region.any() else torch.nan for region in regions])
    return torch.tensor(sums, dtype=torch.float64, device=attributions.device)


def _sum(values: Float64[Tensor, " pixels"]) -> float:
    """Correctly rounded, so that equal values in another order have an equal sum."""
    try:
        return math.fsum(values.tolist())
    except OverflowError as error:
        raise AttributionLabError(
            f"attributions up to {float(values.abs().max()):g} have no finite sum: divide them by it"
        ) from error


def members(patches: Any, images: Tensor) -> Iterator[Bool[Tensor, "patches height width"]]:
    """Which pixels belong to each patch, image by image; all images have as many patches."""
    labels = _label_maps(patches, images)
    numbers = torch.arange(int(labels.max()) + 1, device=labels.device)[:, None, None]
    for label_map in labels:
        yield label_map == numbers


def _label_maps(patches: Any, images: Tensor) -> Int64[Tensor, "batch 1 height width"]:
    """The number of each pixel's patch, for each image; negative in none."""
    batch, _, height, width = checked_images(images).shape
    if not isinstance(patches, Tensor):
        grid = grid_patches(height, width, patches)
        return grid.to(images.device).expand(batch, 1, height, width)
    if (
        patches.is_floating_point()
        or patches.is_complex()
        or patches.dtype == torch.bool
        or patches.shape not in {(height, width), (batch, 1, height, width)}
    ):
        raise AttributionLabError(
            f"patches are {shown(patches)}: pass a label map of integers, ({height}, {width}) or "
            f"({batch}, 1, {height}, {width}), or a number of cells such as 16"
        )
    labels = patches.long()
    highest = int(labels.max())
    if highest < 1 or highest >= height * width:
        raise AttributionLabError(
            f"patches are numbered up to {highest}: number two or more of them from 0 on, up to "
            f"{height * width - 1} at most"
        )
    return labels.to(images.device).expand(batch, 1, height, width)
