"""Single and incremental deletion of one image with many maps, from what they share."""

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from attributionlab.dose.case import Seen
from attributionlab.metrics import deletion_drops, judged_by_drops, patch_sums
from attributionlab.metrics.incremental_deletion import step_counts

__all__ = ["incremental_deletion_scores", "single_deletion_scores"]

SIDE = 4
"""Cells of the grid along each side, as in Hesse et al. (2024)."""
STEPS = 32


def single_deletion_scores(seen: Seen) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.sds` with 4 x 4 cells, as equal as the image's size allows."""
    case = seen.case
    cells = _cells(*case.image.shape[1:])
    drops = deletion_drops(
        seen.model, case.image[None], case.target, patches=cells, replacement=seen.replacement
    )
    sums = patch_sums(case.maps, cells)
    return judged_by_drops(sums, drops.expand(sums.shape)).scores


def incremental_deletion_scores(seen: Seen) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.ids` in 32 steps, on all of an image's pixels if it has fewer."""
    pixels = seen.case.pixels
    return seen.removed_least[:, step_counts(pixels, min(STEPS, pixels))].mean(1)


def _cells(height: int, width: int) -> Int64[Tensor, "height width"]:
    down, across = min(SIDE, height), min(SIDE, width)
    rows, columns = torch.arange(height) * down // height, torch.arange(width) * across // width
    return rows[:, None] * across + columns
