r"""How isolated the pixels are that an order removes first.

Masked pixels that lie alone change an image in another way than a masked patch does, whatever they tell
the model: Wang and Wang (2022), B.3 and 6.2.3, call it pixel isolation and give no measure of it. Ours:
with R_n the first n pixels of an order and N(i) the neighbors of pixel i inside the image,

    isolation(n) = 1 / n sum_{i in R_n} |N(i) \ R_n| / |N(i)|.

An order that is drawn uniformly from all P! has the expectation (P - n) / (P - 1) at every n >= 1: any
neighbor of a removed pixel is one of the P - 1 others, of which P - n are left.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.exact.stepwise.checks import checked_counts
from attributionlab.validation import integer_problem, shown

Neighbors = Literal[4, 8]
"""Pixels that share an edge, or an edge or a corner."""

STEPS = {4: ((0, 1), (1, 0)), 8: ((0, 1), (1, 0), (1, 1), (1, -1))}
"""To half of the neighbors, in rows and columns; the way back leads to the others."""
WHOLE = 120
"""A multiple of every possible number of neighbors (1, 2, 3, 4, 5, 8): their shares are integers."""


def pixel_isolation(
    orders: Int[Tensor, "batch pixels"],
    size: tuple[int, int],
    *,
    neighbors: int = 8,
    counts: Sequence[int] | None = None,
) -> Float64[Tensor, "batch counts"]:
    """Mean share of a removed pixel's neighbors that are not removed, after so many of an order.

    Parameters
    ----------
    orders : Tensor of int64, (B, P)
        Permutations of the flat pixel indices y W + x, such as those of `removal_order`.
    size : pair of int
        (H, W), with H W = P of at least 2.
    neighbors : {8, 4}
        Pixels that share an edge or a corner with the removed one, or an edge alone. Neighbors outside
        the image do not count: a corner pixel has three, or two.
    counts : sequence of int, optional
        After how many removed pixels, increasing; by default after 0, 1, ..., P.

    Returns
    -------
    Tensor of float64, (B, S)
        In [0, 1]: 1 where no two removed pixels are neighbors, 0 where all are removed; NaN where none
        is. Integers are summed, so each value is the nearest double to the exact one.

    Raises
    ------
    AttributionLabError
        For orders that are no permutations, a size of another number of pixels or of a single one,
        another neighborhood and counts out of range.

    References
    ----------
    Wang and Wang (2022): A unified study of machine learning explanation evaluation metrics. The
    measure is ours.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.isolation import pixel_isolation
    >>> corners_first = torch.tensor([[0, 2, 6, 8, 4, 1, 3, 5, 7]])
    >>> pixel_isolation(corners_first, (3, 3), counts=[4, 5, 9])
    tensor([[1.0000, 0.6333, 0.0000]], dtype=torch.float64)
    """
    height, width = _checked(orders, size, neighbors)
    batch, pixels = orders.shape
    asked = checked_counts(counts, pixels)
    ranks = torch.empty_like(orders)
    ranks.scatter_(1, orders, torch.arange(pixels, device=orders.device).expand(batch, -1))
    ranks = ranks.view(batch, height, width)
    pairs = [pair for step in STEPS[neighbors] for pair in _pairs(height, width, *step)]
    degrees = ranks.new_zeros(height, width)
    for here, _ in pairs:
        degrees[here] += 1
    # From the removal of a pixel to that of its neighbor, the neighbor counts as one that is left.
    changes = ranks.new_zeros(batch, pixels + 1)
    for here, there in pairs:
        first, last = (ranks[:, *part].flatten(1) for part in (here, there))
        share = (WHOLE // degrees[here]).flatten().expand(batch, -1) * (first < last)
        changes.scatter_add_(1, first + 1, share)
        changes.scatter_add_(1, last + 1, -share)
    left = changes.cumsum(1)[:, asked.to(orders.device)]
    removed = asked.to(orders.device) * WHOLE
    return torch.where(removed > 0, left.double() / removed.double(), torch.nan)


def _pairs(
    height: int, width: int, down: int, right: int
) -> list[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """Where pixels lie, and their neighbors at one step: there and back."""
    rows = slice(0, height - down), slice(down, height)
    columns = (
        slice(max(0, -right), width - max(0, right)),
        slice(max(0, right), width + min(0, right)),
    )
    here, there = (rows[0], columns[0]), (rows[1], columns[1])
    return [(here, there), (there, here)]


def _checked(orders: Tensor, size: tuple[int, int], neighbors: int) -> tuple[int, int]:
    """Height and width, if everything fits."""
    if not isinstance(orders, Tensor) or orders.ndim != 2 or orders.dtype != torch.int64:
        raise AttributionLabError(
            f"orders are {shown(orders)}: pass a tensor of torch.int64 of shape (B, P)"
        )
    if neighbors not in get_args(Neighbors) or isinstance(neighbors, bool):
        raise AttributionLabError(f"neighbors is {neighbors!r}: take 4 or 8")
    if not isinstance(size, tuple | list) or len(size) != 2:
        raise AttributionLabError(f"size is {size!r}: pass the image's (height, width)")
    height, width = size
    refuse_if([*integer_problem("height", height, 1), *integer_problem("width", width, 1)])
    pixels = orders.shape[1]
    if height * width != pixels or pixels < 2:
        raise AttributionLabError(
            f"an order has {pixels} pixels and the size is {height} x {width}: pass the size of the "
            "ordered images, of at least two pixels"
        )
    every = torch.arange(pixels, device=orders.device)
    strange = (orders.sort(1).values != every).any(1).nonzero()
    if len(strange):
        raise AttributionLabError(
            f"order {int(strange[0])} is no permutation: name each pixel from 0 to {pixels - 1} once"
        )
    return int(height), int(width)
