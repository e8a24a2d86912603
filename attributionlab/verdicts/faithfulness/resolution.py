r"""How well maps of a method's own resolution can score at most, computed from the truth.

With magnitudes a_j in [0, 1] and a truth g_j in [0, 1],

.. math:: F_1 = \frac{2 \sum_j a_j g_j}{\sum_j a_j + \sum_j g_j}.

A map that is coarse, a = U c with c >= 0 and U >= 0, scores :math:`F_1 = 2 w \cdot c / (m \cdot c + G)`
with :math:`w = U^T g`, :math:`m = U^T 1`, :math:`G = \sum g`. That grows with c_k where w_k / m_k, the
mean truth where c_k is felt, exceeds F1 / 2, and falls with it elsewhere. So where each c_k has a range
of its own, the best c takes those with the largest means to the end of their ranges and leaves the
others at 0, and one sort finds how many (the argument of `attributionlab.metrics.best_map`).
"""

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor
from torch.nn import functional as F

from attributionlab.base import AttributionLabError
from attributionlab.metrics import best_choice, best_map, f1

Masks = Float[Tensor, "batch 1 height width"] | Bool[Tensor, "batch 1 height width"]


def best_on_regions(
    truth: Masks, regions: Int[Tensor, "batch height width"]
) -> Float[Tensor, "batch 1 height width"]:
    """Return the map in [0, 1], constant on every region, with the largest possible F1 against a truth.

    It is 1 on the regions with the largest mean truth and 0 on the others. The largest possible for
    signed maps too: each part of the truth sees magnitudes only. `regions` are label maps of any
    integers, `truth` a mask or values in [0, 1].

    Raises AttributionLabError for label maps of another shape.
    """
    batch, _, height, width = truth.shape
    if regions.shape != (batch, height, width):
        raise AttributionLabError(
            f"regions have shape {tuple(regions.shape)}: pass labels of shape "
            f"{(batch, height, width)}, one for each pixel of the truth"
        )
    values = truth.double().flatten(1)
    known, renamed = torch.unique(regions.to(truth.device), return_inverse=True)
    labels = renamed.flatten(1)
    none = values.new_zeros(batch, len(known))
    hits = none.scatter_add(1, labels, values)
    sizes = none.scatter_add(1, labels, torch.ones_like(values))
    chosen, _ = best_choice(hits, sizes, values.sum(1))
    return chosen.gather(1, labels).reshape(truth.shape).float()


def grid_bound(truth: Masks, cells: tuple[int, int]) -> Float64[Tensor, " batch"]:
    r"""Return an F1 that no map exceeds which is enlarged bilinearly from a grid of cells >= 0.

    a = U c as of torch's ``interpolate(mode="bilinear", align_corners=False)``. From a_j <= 1 follows
    :math:`c_k \le 1 / \max_j U_{jk}`. With that range for each cell by itself the best c is found
    exactly; it may exceed 1 where cells overlap, so its F1 is a bound. NaN for an image without any
    truth. Cells of both signs, which cancel where they meet, are not covered.

    `cells`: rows and columns. Raises AttributionLabError for a grid without cells.
    """
    if min(cells) < 1:
        raise AttributionLabError(f"a grid has {cells} cells: take at least 1 row and 1 column")
    values = truth.double()[:, 0]  # (B, H, W)
    rows, columns = (
        _enlargement(count, side).to(values)
        for count, side in zip(cells, values.shape[1:], strict=True)
    )
    hits = (rows @ values @ columns.T).flatten(1)  # U^T g
    masses = torch.outer(rows.sum(1), columns.sum(1)).flatten()  # U^T 1
    # Every sum over a row of U is 1, so that c <= 1 is allowed; more only if a cell never counts fully.
    limits = 1 / torch.outer(rows.amax(1), columns.amax(1)).flatten()
    limits = torch.where(masses > 0, limits, 1.0)  # no pixel feels this cell
    _, bound = best_choice(hits * limits, (masses * limits).expand_as(hits), values.sum((1, 2)))
    # Cells above 1 may cover more than all of the truth; nothing exceeds what pixels reach.
    return bound.minimum(pixel_bound(truth))


def pixel_bound(truth: Masks) -> Float64[Tensor, " batch"]:
    """Return what maps without any constraint reach; a mask needs no search, it is its own best map."""
    return f1(truth.float() if truth.dtype == torch.bool else best_map(truth), truth)


def _enlargement(cells: int, side: int) -> Float64[Tensor, "cells side"]:
    """Along one axis, how much of each cell's value every pixel takes."""
    ones = torch.eye(cells, dtype=torch.float64)[None]
    return F.interpolate(ones, side, mode="linear", align_corners=False)[0]
