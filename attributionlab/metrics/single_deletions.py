r"""Single deletion: does a patch's attribution say how much the output falls without it?

For P patches of an image x with the target t, a model f and an attribution a:

.. math::
    d_p = f_t(x) - f_t(x \text{ without } p), \qquad s_p = \sum_{i \in p} a_i, \qquad
    \text{score} = \rho(s, d)

where rho is Spearman's rank correlation (Hesse et al., 2024). On a model that has never seen an image
without a patch this is the single-deletion score (SDS), on one that has (`patch_deleted`) the in-domain
single-deletion score (IDSDS).

Patches are a grid of square cells, or any regions, of which one at a time is deleted.
"""

import math
from collections.abc import Iterator
from numbers import Integral
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, Unpack

import torch
from jaxtyping import Bool, Float, Float64, Int, Int64, Real
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Count,
    Replacement,
    Side,
    Within,
    asked,
    checked_arguments,
    checked_pair,
    exact_arithmetic,
    kind_of,
    shown,
)
from attributionlab.metrics.checked_inputs import checked_maps, output_of
from attributionlab.metrics.marking import metric
from attributionlab.metrics.ranking.correlations import spearman

Images = Real[Tensor, "batch channels height width"]
Maps = Real[Tensor, "batch 1 height width"]
Targets = Int[Tensor, " batch"]
Scores = Float64[Tensor, " batch"]
PatchValues = Float64[Tensor, "batch patches"]
Patches = int | Int[Tensor, "..."]
"""How many cells a square grid has, or the number of each pixel's patch, from 0 on: (H, W) or
(B, 1, H, W); pixels with a negative number lie in no patch."""

Undefined = Literal["zero", "exclude"]
"""The score of a map with the same sum in all patches: 0, or NaN."""


@checked_arguments
def grid_patches(height: Side, width: Side, patches: int = 16) -> Int64[Tensor, "height width"]:
    """Number the cells of a square grid in reading order.

    Parameters
    ----------
    height, width : int
        In pixels.
    patches : int
        A square number of at least 4: 16 for 4 x 4 cells.

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
    if not isinstance(patches, Integral) or isinstance(patches, bool):
        raise AttributionLabError(
            f"patches are {shown(patches)}: pass a square number such as 16, or a label map (H, W)"
        )
    side = math.isqrt(max(int(patches), 0))
    if side**2 != patches or side < 2:
        raise AttributionLabError(
            f"patches is {patches}: take a square number of at least 4, such as 16 for 4 x 4 cells"
        )
    if height % side or width % side:
        raise AttributionLabError(
            f"{patches} patches are a grid of {side} x {side}, which does not divide {height} x "
            f"{width} pixels: take another number, crop the images, or pass a label map (H, W)"
        )
    rows = torch.arange(height, device="cpu") // (height // side)
    columns = torch.arange(width, device="cpu") // (width // side)
    return rows[:, None] * side + columns


@checked_arguments
def patch_deleted(
    images: Float[Tensor, "batch channels height width"],
    patches: Patches,
    replacement: Replacement,
    *,
    share: Annotated[float, Within(least=0, most=1)] = 0.5,
    generator: torch.Generator,
) -> Float[Tensor, "batch channels height width"]:
    """Images of which some lack one random patch, so that deletions are in-domain for training.

    A model that is trained on such images has seen what `idsds` shows it: whole images and images
    without one patch, half of each by default.

    Source: Hesse, Schaub-Meyer and Roth (2024): Benchmarking the attribution quality of vision models.
    NeurIPS. Section 3 and appendix B.

    Parameters
    ----------
    images : Tensor, (B, C, H, W)
        Left as they are.
    patches : int or Tensor
        As for `single_deletion`; with (B, 1, H, W) the patch is drawn from those of each image.
    replacement : float or Tensor
        Value of deleted pixels: a number, a pixel (C, 1, 1), or what broadcasts to the images.
    share : float
        The probability that an image loses a patch, in [0, 1].
    generator : torch.Generator
        Draws the patches, on the CPU.

    Raises
    ------
    AttributionLabError
        For patches that do not fit, and settings out of range.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import patch_deleted
    >>> generator = torch.Generator().manual_seed(0)
    >>> patch_deleted(torch.ones(1, 1, 2, 2), 4, 0.0, share=1.0, generator=generator)
    tensor([[[[0., 1.],
              [1., 1.]]]])
    """
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


@checked_arguments
def patch_sums(attributions: Maps, patches: Patches = 16) -> PatchValues:
    """The sum of the attributions in each patch, (B, P), patches as for `single_deletion`.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import patch_sums
    >>> patch_sums(torch.ones(1, 1, 4, 4), 4)
    tensor([[4., 4., 4., 4.]], dtype=torch.float64)
    """
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
            f"attributions up to {float(values.abs().max()):g} have no finite sum: divide them "
            "by this value"
        ) from error


def members(patches: Any, images: Tensor) -> Iterator[Bool[Tensor, "patches height width"]]:
    """Which pixels belong to each patch, image by image; all images have as many patches."""
    labels = _label_maps(patches, images)
    numbers = torch.arange(int(labels.max()) + 1, device=labels.device)[:, None, None]
    for label_map in labels:
        yield label_map == numbers


def _label_maps(patches: Any, images: Tensor) -> Int64[Tensor, "batch 1 height width"]:
    """The number of each pixel's patch, for each image; negative in none."""
    batch, _, height, width = images.shape
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
            f"patches are numbered up to {highest}: number at least two of them, from 0 to "
            f"{height * width - 1} at most"
        )
    return labels.to(images.device).expand(batch, 1, height, width)


class PatchOptions(TypedDict, total=False):
    """Keywords of every metric that deletes patches one by one, as `single_deletion` says."""

    patches: Patches
    batch_size: Count


class DeletionOptions(PatchOptions, total=False):
    """Keywords of `sds` and `idsds`: those of `single_deletion`, with its defaults."""

    undefined: Undefined


class SingleDeletion(NamedTuple):
    """How well attributions rank patches as deletion does; NaN for patches without a pixel."""

    drops: PatchValues
    """how much the target's output falls, in its unit"""
    sums: PatchValues
    """sums of the attributions"""
    scores: Scores
    """Spearman's correlation of both, in [-1, 1]; NaN where all drops are equal"""
    constant_maps: Bool[Tensor, " batch"]
    """where all sums are equal"""
    constant_drops: Bool[Tensor, " batch"]
    """where all drops are equal, so that no map can be judged"""


@checked_arguments
def single_deletion(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    patches: Patches = 16,
    replacement: Replacement,
    undefined: Undefined = "zero",
    batch_size: Count = 64,
) -> SingleDeletion:
    """Delete each patch separately, and compare the output's drop with the patch's attribution.

    Source: Hesse, Schaub-Meyer and Roth (2024): Benchmarking the attribution quality of vision models.
    NeurIPS. Selvaraju et al. (2017): Grad-CAM. ICCV, for rank correlation with deletion.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K), in eval mode. It determines the output: pass a model that returns logits
        (as Hesse et al. do) or one that returns probabilities.
    images : Tensor, (B, C, H, W)
        What is explained.
    targets : Tensor of int, (B,)
        A class index for each image.
    attributions : Tensor, (B, 1, H, W)
        Signed; signs count.
    patches : int or Tensor of int
        The number of cells of a square grid (`grid_patches`), or each pixel's patch number, from 0, (H,
        W) or (B, 1, H, W), for example the known parts of each image. Pixels with a negative number are
        never deleted.
    replacement : float or Tensor
        Value of deleted pixels: a number, a pixel (C, 1, 1), an image (C, H, W) such as noise, or (B,
        C, H, W) such as the images' blur.
    undefined : {"zero", "exclude"}
        The score of a map with equal sums: 0, because it is not informative, or NaN, which leaves it
        out of a mean. `constant_maps` counts both.
    batch_size : int
        Images in one forward pass.

    Raises
    ------
    AttributionLabError
        For shapes that do not fit, a grid that does not divide the images, a model in training mode,
        and outputs that are not finite.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import single_deletion
    >>> total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False)).eval()
    >>> _ = torch.nn.init.ones_(total[1].weight)
    >>> image = torch.tensor([[[[1.0, 0.0], [5.0, 2.0]]]])
    >>> target, maps = torch.tensor([0]), torch.tensor([[[[1.0, 2.0], [9.0, 3.0]]]])
    >>> found = single_deletion(total, image, target, maps, patches=4, replacement=0.0)
    >>> found.drops, found.scores.round(decimals=1)
    (tensor([[1., 0., 5., 2.]], dtype=torch.float64), tensor([0.8000], dtype=torch.float64))
    """
    drops = deletion_drops(
        model, images, targets, patches=patches, replacement=replacement, batch_size=batch_size
    )
    return judged_by_drops(patch_sums(attributions, patches), drops, undefined=undefined)


@checked_arguments
def deletion_drops(
    model: nn.Module,
    images: Images,
    targets: Targets,
    *,
    patches: Patches = 16,
    replacement: Replacement,
    batch_size: Count = 64,
) -> PatchValues:
    """How much the output of the target falls without each patch; parameters of `single_deletion`.

    Computed once, they score any number of maps (`patch_sums`, `judged_by_drops`).

    Returns
    -------
    Tensor of float64, (B, P)
        In the output's unit; exactly 0 where the deletion changes no pixel.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import deletion_drops
    >>> total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False)).eval()
    >>> _ = torch.nn.init.ones_(total[1].weight)
    >>> image = torch.tensor([[[[1.0, 0.0], [5.0, 2.0]]]])
    >>> deletion_drops(total, image, torch.tensor([0]), patches=4, replacement=0.0)
    tensor([[1., 0., 5., 2.]], dtype=torch.float64)
    """
    whole, fillings = checked_pair(images, replacement, *kind_of(model))
    classes = targets.tolist()
    drops = []
    for image, fill, inside, target in zip(
        whole, fillings, members(patches, images), classes, strict=True
    ):
        there = inside.flatten(1).any(1)
        fallen = inside.new_full((len(inside),), torch.nan, dtype=torch.float64)
        deleted = torch.where(inside[there][:, None], fill, image)  # (P, C, H, W)
        changed = (deleted != image).flatten(1).any(1)
        shown = torch.cat([image[None], deleted[changed]])
        with torch.no_grad(), exact_arithmetic():
            parts = torch.split(shown, min(int(batch_size), len(shown)))
            outputs = torch.cat([asked(model, part) for part in parts])
        before, *without = output_of(outputs, target).double()
        own = fallen.new_zeros(len(deleted))
        # What changes nothing costs nothing, whatever rounding makes of the same image elsewhere.
        if without:
            own[changed] = before - torch.stack(without)
        fallen[there] = own
        drops.append(fallen)
    return torch.stack(drops)


@checked_arguments
def judged_by_drops(
    sums: PatchValues, drops: PatchValues, *, undefined: Undefined = "zero"
) -> SingleDeletion:
    """Rank correlation of `patch_sums` with `deletion_drops` of the same images and patches.

    Patches that are NaN in either are left out; `undefined` as for `single_deletion`.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import judged_by_drops
    >>> sums = torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]], dtype=torch.float64)
    >>> judged_by_drops(sums, torch.tensor([[3.0, 2.0, 1.0]]).double().expand(2, 3)).scores
    tensor([ 0., -1.], dtype=torch.float64)
    """
    for name, values in (("sums", sums), ("drops", drops)):
        if not isinstance(values, Tensor) or values.dtype != torch.float64 or values.ndim != 2:
            raise AttributionLabError(
                f"{name} are {shown(values)}: pass a tensor of float64 of shape (B, P), as patch_sums "
                "and deletion_drops return them"
            )
    if sums.shape != drops.shape or not sums.numel():
        raise AttributionLabError(
            f"sums are {shown(sums)} and drops {shown(drops)}: pass those of the same patches"
        )
    sums, drops = sums.detach(), drops.detach()
    rows = zip(sums.cpu().numpy(), drops.cpu().numpy(), strict=True)
    scores = torch.tensor(
        [spearman(*row, missing="omit") for row in rows], dtype=torch.float64, device="cpu"
    )
    missing = sums.isnan() | drops.isnan()
    constant_maps, constant_drops = (_constant(values, missing) for values in (sums, drops))
    if undefined == "zero":
        scores = torch.where((constant_maps & ~constant_drops).cpu(), 0.0, scores)
    return SingleDeletion(drops, sums, scores.to(drops.device), constant_maps, constant_drops)


@metric(
    higher_is_better=True,
    per_sample=True,
    unit="output change",
    invariances=("scale",),
    neighbors="patches",
)
@checked_arguments
def sds(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    **options: Unpack[DeletionOptions],
) -> Scores:
    """Single-deletion score: `single_deletion(...).scores`, with its parameters and errors.

    In [-1, 1], higher is better. If the model has never seen an image without a patch, its output may
    fall because the image is unusual, not because of the patch's content: see `idsds`.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import sds
    >>> total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False)).eval()
    >>> _ = torch.nn.init.ones_(total[1].weight)
    >>> image = torch.tensor([[[[1.0, 0.0], [5.0, 2.0]]]])
    >>> sds(total, image, torch.tensor([0]), -image, patches=4, replacement=0.0)
    tensor([-1.], dtype=torch.float64)
    """
    found = single_deletion(
        model, images, targets, attributions, replacement=replacement, **options
    )
    return found.scores


@metric(
    higher_is_better=True,
    per_sample=True,
    unit="output change",
    invariances=("scale",),
    neighbors="patches",
)
@checked_arguments
def idsds(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    **options: Unpack[DeletionOptions],
) -> Scores:
    """In-domain single-deletion score: `sds` of a model for which such deletions are in-domain.

    The value is that of `sds`; the model makes it in-domain, which no function can check. Train or
    fine-tune it on `patch_deleted` images, with the same patches and replacement; a network of this
    laboratory needs no training if the replacement is the true baseline (`env.baseline`), which
    activates no redundant channel.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=12)
    >>> images, labels = env.batch(1)
    >>> maps = env.shapley(images[0], int(labels[0]), output="logit")[None]
    >>> al.metrics.idsds(env.model, images, labels, maps, patches=9, replacement=env.baseline)
    tensor([1.], dtype=torch.float64)
    """
    return sds(model, images, targets, attributions, replacement=replacement, **options)


def _constant(
    values: PatchValues, missing: Bool[Tensor, "batch patches"]
) -> Bool[Tensor, " batch"]:
    """Whether all values of a row are equal, or none is left."""
    highest = values.masked_fill(missing, -torch.inf).amax(1)
    return highest <= values.masked_fill(missing, torch.inf).amin(1)
