r"""Ceilings: the best F1 that any map can reach under a constraint, computed from the truth.

With magnitudes a_j in [0, 1] and a truth g_j in [0, 1],

.. math:: F_1 = \frac{2 \sum_j a_j g_j}{\sum_j a_j + \sum_j g_j}.

A map that is coarse, a = U c with c >= 0 and U >= 0, scores :math:`F_1 = 2 w \cdot c / (m \cdot c + G)`
with :math:`w = U^T g`, :math:`m = U^T 1`, :math:`G = \sum g`. That grows with c_k where w_k / m_k, the
mean truth where c_k is felt, exceeds F1 / 2, and falls with it elsewhere. So where each c_k has a range
of its own, the best c takes those with the largest means to the end of their ranges and leaves the
others at 0, and one sort finds how many (the argument of `attributionlab.metrics.best_map`).
"""

import math
from collections.abc import Mapping
from typing import NamedTuple, cast, get_args

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor
from torch.nn import functional as F

from attributionlab.errors import AttributionLabError
from attributionlab.metrics import Part, best_map, f1, magnitudes, normalize
from attributionlab.truth import Truth

Masks = Float[Tensor, "batch 1 height width"] | Bool[Tensor, "batch 1 height width"]
PartCeilings = Mapping[str, Mapping[str, Tensor]]
"""Name of the constraint -> part of the truth -> F1 of each image."""

PATCH = 5
"""Side of the square patches that stand for methods which work on small patches."""


EXACT_SHAPLEY = "exact Shapley values"
POSITIVE_ONLY = "positive only"
"""Name of the constraint that a map has no negative values."""


class GridCeiling(NamedTuple):
    """How good a map can be that is enlarged from a grid of cells."""

    best: Float64[Tensor, "batch 1 height width"]
    """a good map in [0, 1]: cells of 0 and 1, enlarged, divided by the maximum"""
    reached: Float64[Tensor, " batch"]
    """its F1"""
    bound: Float64[Tensor, " batch"]
    """an F1 that no such map exceeds"""


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
    chosen, _ = _best_choice(hits, sizes, values.sum(1))
    return chosen.gather(1, labels).reshape(truth.shape).float()


def best_on_grid(truth: Masks, cells: tuple[int, int]) -> GridCeiling:
    r"""Bound the F1 of maps that are enlarged bilinearly from a grid of cells >= 0 (rows, columns).

    a = U c as of torch's ``interpolate(mode="bilinear", align_corners=False)``. From a_j <= 1 follows
    :math:`c_k \le 1 / \max_j U_{jk}`. With that range for each cell by itself the best c is found
    exactly; it may exceed 1 where cells overlap, so its F1 is a bound. The F1 of the best c in {0, 1},
    enlarged and divided by its maximum, is reached. The two differ by the factor
    :math:`1 / \min_k \max_j U_{jk}` at most: not at all where a pixel lies at the center of every cell.
    NaN for an image without any truth.

    Cells of both signs, which cancel where they meet, are not covered: see `part_ceilings`.

    Raises AttributionLabError for a grid without cells.
    """
    if min(cells) < 1:
        raise AttributionLabError(f"a grid has {cells} cells: take at least 1 row and 1 column")
    values = truth.double()[:, 0]  # (B, H, W)
    rows, columns = (
        _enlargement(count, side).to(values)
        for count, side in zip(cells, values.shape[1:], strict=True)
    )
    total = values.sum((1, 2))
    hits = (rows @ values @ columns.T).flatten(1)  # U^T g
    masses = torch.outer(rows.sum(1), columns.sum(1)).flatten()  # U^T 1
    # Every sum over a row of U is 1, so that c <= 1 is allowed; more only if a cell never counts fully.
    limits = 1 / torch.outer(rows.amax(1), columns.amax(1)).flatten()
    limits = torch.where(masses > 0, limits, 1.0)  # no pixel feels this cell
    chosen, _ = _best_choice(hits, masses.expand_as(hits), total)
    _, bound = _best_choice(hits * limits, (masses * limits).expand_as(hits), total)
    enlarged = rows.T @ chosen.double().reshape(-1, *cells) @ columns
    highest = enlarged.amax((1, 2), keepdim=True)
    best = torch.where(highest > 0, enlarged / highest, enlarged)[:, None]
    # Cells above 1 may cover more than all of the truth; nothing exceeds what pixels reach, which is
    # NaN without any truth.
    return GridCeiling(best, f1(best, truth), bound.minimum(_pixel_ceiling(truth)))


def pixel_patches(height: int, width: int, side: int) -> Int[Tensor, "1 height width"]:
    """Labels of square patches, of which the last in each row and column may be cut off."""
    across = -(-width // side)
    rows, columns = torch.arange(height) // side, torch.arange(width) // side
    return (rows[:, None] * across + columns)[None]


def part_ceilings(
    truth: Truth,
    smooth: Tensor | None = None,
    *,
    regions: Mapping[str, Tensor],
    grids: Mapping[str, tuple[int, int]],
    shapley: Tensor | None = None,
) -> dict[str, dict[str, Tensor]]:
    """The best F1 of each image and part of the truth, under one constraint at a time.

    Each part by itself: the map that is best for one need not be best for the others. "at most" for all
    of them, except for "exact Shapley values", which is the score of one map and no bound: masks state
    signs, not sizes. A grid bounds maps whose cells all have one sign, or are cut off at 0 before they
    are enlarged, as those of GradCAM and IBA are; where cells of both signs are enlarged, magnitudes
    fall off more sharply between them and may score more.

    - `truth`: of B images.
    - `smooth`: the smoothed truth, which adds the part "positive-smoothed".
    - `regions`: label maps on which a map is constant, by name.
    - `grids`: rows and columns from which a map is enlarged bilinearly, by name.
    - `shapley`: exact Shapley values of every pixel.

    Result: for each name in `regions` and `grids`, "5 x 5 patches", "positive only" and, with
    `shapley`, "exact Shapley values": the F1 by part; NaN where an image has no such truth.
    """
    batch, _, height, width = truth.signed.shape
    patches = pixel_patches(height, width, PATCH).expand(batch, -1, -1)
    partitions = {**regions, f"{PATCH} x {PATCH} patches": patches}
    parts: dict[str, Tensor] = {part: getattr(truth, part) for part in get_args(Part)}
    if smooth is not None:
        parts["positive-smoothed"] = smooth
    found: dict[str, dict[str, Tensor]] = {}
    for name, labels in partitions.items():
        found[name] = {part: f1(best_on_regions(g, labels), g) for part, g in parts.items()}
    for name, cells in grids.items():
        found[name] = {part: best_on_grid(g, cells).bound for part, g in parts.items()}
    found[POSITIVE_ONLY] = {
        part: _pixel_ceiling(g) * (0 if part == "negative" else 1) for part, g in parts.items()
    }
    if shapley is not None:
        values = normalize(shapley.to(truth.signed.device))
        found[EXACT_SHAPLEY] = {
            part: f1(magnitudes(values, _seen_by(part)), g) for part, g in parts.items()
        }
    return found


def claim_ceilings(ceilings: PartCeilings, claim: str) -> dict[str, float]:
    """The best F1 of a claim: the mean over images, for "signed" the lowest of the three parts.

    By name of the constraint, without those that apply to no image.
    """
    found = {}
    for name, parts in ceilings.items():
        wanted = get_args(Part) if claim == "signed" else (claim,)
        means = [float(parts[part].nanmean()) for part in wanted if part in parts]
        applicable = [mean for mean in means if not math.isnan(mean)]
        if applicable:
            found[name] = min(applicable)
    return found


def _seen_by(part: str) -> Part:
    """Which magnitudes a part of the truth is held against."""
    return "positive" if part == "positive-smoothed" else cast(Part, part)


def _pixel_ceiling(truth: Masks) -> Float64[Tensor, " batch"]:
    """What maps without any constraint reach; a mask needs no search, it is its own best map."""
    return f1(truth.float() if truth.dtype == torch.bool else best_map(truth), truth)


def _enlargement(cells: int, side: int) -> Float64[Tensor, "cells side"]:
    """Along one axis, how much of each cell's value every pixel takes."""
    ones = torch.eye(cells, dtype=torch.float64)[None]
    return F.interpolate(ones, side, mode="linear", align_corners=False)[0]


def _best_choice(
    hits: Float64[Tensor, "batch places"],
    sizes: Float64[Tensor, "batch places"],
    total: Float64[Tensor, " batch"],
) -> tuple[Bool[Tensor, "batch places"], Float64[Tensor, " batch"]]:
    r"""The set S with the largest :math:`2 \sum_S hits / (\sum_S sizes + total)`, and that value."""
    means = torch.where(sizes > 0, hits / sizes, 0.0)  # labels that only other images have
    order = means.argsort(dim=1, descending=True, stable=True)
    ranked = hits.gather(1, order)
    scores = 2 * ranked.cumsum(1) / (sizes.gather(1, order).cumsum(1) + total[:, None])
    place = torch.arange(hits.shape[1], device=hits.device)
    taken = (place <= scores.argmax(1, keepdim=True)) & (ranked > 0)
    return torch.zeros_like(taken).scatter(1, order, taken), scores.amax(1)
