r"""Orders in which a perturbation metric takes pixels, and what they do to an image.

Most relevant first, or least relevant first (`removal_order`).

Reference Pixel Flipping is random masking within an attribution's most relevant pixels. Masking the n
pixels that a map ranks first mixes two things: what these pixels tell, and how they lie (adjacent or
isolated). Of the N pixels that the map ranks first, the reference set, any n masked at random are about
as informative and as isolated as random ones. The larger N, the further they are from the map's own
first n: the expected Dice similarity of the two is n / N.

Isolation is how far the pixels that an order removes first lie apart. Masked pixels that lie alone
change an image in another way than a masked patch does, whatever they tell the model: Wang and Wang
(2022), B.3 and 6.2.3, call it pixel isolation and give no measure of it. Ours: with R_n the first n
pixels of an order and N(i) the neighbors of pixel i inside the image,

    isolation(n) = 1 / n sum_{i in R_n} |N(i) \ R_n| / |N(i)|.

An order that is drawn uniformly from all P! has the expectation (P - n) / (P - 1) at every n >= 1: any
neighbor of a removed pixel is one of the P - 1 others, of which P - n are left.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float64, Int, Int64, Real
from torch import Tensor

from attributionlab.base import (
    AttributionLabError,
    Count,
    Grid,
    checked_arguments,
    checked_counts,
    integer_problem,
    refuse_if,
)

Order = Literal["morf", "lerf"]
"""Most relevant first or least relevant first: falling or rising attribution, sign included."""

Ties = Literal["stable", "random"]
"""Equal values in reading order, or shuffled by a generator."""

Neighbors = Literal[4, 8]
"""Pixels that share an edge, or an edge or a corner."""

STEPS = {4: ((0, 1), (1, 0)), 8: ((0, 1), (1, 0), (1, 1), (1, -1))}
"""To half of the neighbors, in rows and columns; the way back leads to the others."""
WHOLE = 120
"""A multiple of every possible number of neighbors (1, 2, 3, 4, 5, 8): their shares are integers."""


@checked_arguments
def removal_order(
    attributions: Real[Tensor, "batch 1 height width"],
    *,
    order: Order = "morf",
    ties: Ties = "stable",
    generator: torch.Generator | None = None,
) -> Int[Tensor, "batch pixels"]:
    """Pixels of each image from the first to be perturbed to the last.

    Signed values are compared as they are: under "morf" a large negative attribution comes last.
    Infinite values come before or after all others.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        One value for each pixel, of any scale, summed over channels.
    order : {"morf", "lerf"}
        Most relevant first (falling values) or least relevant first (rising); Samek et al., 2017.
    ties : {"stable", "random"}
        Equal values in reading order, whichever order is chosen, or shuffled. Shuffles differ from
        image to image, and from call to call as the generator moves on.
    generator : torch.Generator
        What shuffles equal values; needed for `ties="random"` only.

    Returns
    -------
    Tensor of int64, (B, P)
        Flat indices y W + x, a permutation of 0 ... P - 1 for each image.

    Raises
    ------
    AttributionLabError
        For NaN, which cannot be ordered, for non-real numbers, truth values, wrong shapes, images
        without pixels, unknown words and a missing generator.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.orders import removal_order
    >>> maps = torch.tensor([[[[0.5, -2.0], [0.5, 3.0]]]])
    >>> removal_order(maps)
    tensor([[3, 0, 2, 1]])
    >>> removal_order(maps, order="lerf")
    tensor([[1, 0, 2, 3]])
    """
    if ties == "random" and generator is None:
        raise AttributionLabError(
            "ties='random' needs a generator: pass torch.Generator().manual_seed(0)"
        )
    # float64 holds every narrower number exactly, and numpy sorts it several times faster than torch.
    values = attributions.detach().flatten(1).double().cpu().numpy()
    if np.isnan(values).any():
        image, pixel = (int(index) for index in np.argwhere(np.isnan(values))[0])
        row, column = divmod(pixel, attributions.shape[3])
        raise AttributionLabError(
            f"the attribution of image {image} at row {row}, column {column} is NaN: it cannot "
            "be ordered; replace it, for example by 0"
        )
    keys = -values if order == "morf" else values
    if ties == "stable":
        return torch.from_numpy(_in_order(keys)).to(attributions.device)
    assert generator is not None
    shuffled = np.stack(
        [
            torch.randperm(keys.shape[1], generator=generator, device=generator.device).cpu()
            for _ in keys
        ]
    )
    places = _in_order(np.take_along_axis(keys, shuffled, 1))
    return torch.from_numpy(np.take_along_axis(shuffled, places, 1)).to(attributions.device)


def _in_order(keys: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Indices that sort each row (rows, n), equal keys by their index.

    A stable sort in two unstable ones, each vectorized in numpy: about 1 ms instead of 4 for 224 x 224.
    """
    order: npt.NDArray[np.int64] = np.argsort(keys, axis=1)
    ranked = np.take_along_axis(keys, order, 1)
    n = keys.shape[1]
    groups = np.zeros_like(order)  # of equal keys, in rising order
    np.cumsum(ranked[:, 1:] != ranked[:, :-1], axis=1, out=groups[:, 1:])
    pairs: npt.NDArray[np.int64] = groups * n + order  # (group, index), below n^2
    pairs.sort(axis=1)
    pairs %= n
    return pairs


@checked_arguments
def reference_order(
    orders: Int64[Tensor, "batch pixels"], reference: int, generator: torch.Generator
) -> Int[Tensor, "batch pixels"]:
    """Orders whose first `reference` pixels are shuffled, with all others in their places.

    The first n <= reference pixels of a shuffled order are a random subset of the reference set, every
    subset of n pixels equally likely. `reference=1` (or 0) leaves an order unchanged; all pixels give a
    random order.

    Source: Wang and Wang (2022): A unified study of machine learning explanation evaluation metrics,
    section 6.2.3.

    Parameters
    ----------
    orders : Tensor of int64, (B, P)
        A permutation of 0 ... P - 1 for each image, such as `removal_order` returns.
    reference : int
        N, from 0 to P.
    generator : torch.Generator
        Shuffles; images are shuffled one by one, each in its own way.

    Returns
    -------
    Tensor of int64, (B, P)
        On the device of `orders`.

    Raises
    ------
    AttributionLabError
        For orders that are not integers of shape (B, P), a number beyond the pixels, and a missing
        generator.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.orders import reference_order
    >>> orders = torch.tensor([[5, 4, 3, 2, 1, 0]])
    >>> shuffled = reference_order(orders, 3, torch.Generator().manual_seed(0))
    >>> sorted(shuffled[0, :3].tolist()), shuffled[0, 3:].tolist()
    ([3, 4, 5], [2, 1, 0])
    """
    refuse_if(integer_problem("reference", reference, 0, orders.shape[1]))
    shuffled = orders.clone()
    for image in range(len(orders)):
        places = torch.randperm(reference, generator=generator, device=generator.device)
        shuffled[image, :reference] = orders[image, places.to(orders.device)]
    return shuffled


@checked_arguments
def dice(first: Int[Tensor, " first"], second: Int[Tensor, " second"]) -> Fraction:
    """Dice similarity of two sets of pixels: 2 |A and B| / (|A| + |B|).

    Source: Dice (1945): Measures of the amount of ecologic association between species. Ecology 26.

    Parameters
    ----------
    first, second : Tensor of integers, (n,) and (m,)
        Flat indices, each at most once.

    Returns
    -------
    Fraction
        Exact, from 0 (nothing shared) to 1 (the same set); 1 for two empty sets.

    Raises
    ------
    AttributionLabError
        For tensors that are not lists of integers, and for repeated indices.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.orders import dice
    >>> dice(torch.tensor([0, 1, 2]), torch.tensor([2, 3, 4]))
    Fraction(1, 3)
    """
    sets = [_indices(first, "first"), _indices(second, "second")]
    total = len(sets[0]) + len(sets[1])
    return Fraction(2 * len(sets[0] & sets[1]), total) if total else Fraction(1)


@checked_arguments
def expected_dice(n: Count, reference: int) -> Fraction:
    """Expected Dice similarity of a map's first n pixels and n random ones of its first N: n / N.

    The number k of shared pixels is hypergeometric: each of the n random pixels is one of the first n
    with probability n / N, so E k = n^2 / N, and for sets of one size the Dice similarity is k / n.

    Source: Wang and Wang (2022), proposition 1, as for `reference_order`.

    Parameters
    ----------
    n : int
        Masked pixels, at least 1.
    reference : int
        N, at least n.

    Returns
    -------
    Fraction
        Exact.

    Raises
    ------
    AttributionLabError
        For n below 1 and a reference set smaller than n.

    Examples
    --------
    >>> from attributionlab.metrics.orders import expected_dice
    >>> expected_dice(9_000, 12_000)
    Fraction(3, 4)
    """
    refuse_if(integer_problem("reference", reference, n))
    return Fraction(int(n), int(reference))


def _indices(pixels: Tensor, name: str) -> set[int]:
    indices = pixels.tolist()
    unique = set(indices)
    if len(unique) < len(indices):
        twice = Counter(indices).most_common(1)[0][0]
        raise AttributionLabError(
            f"the {name} set of pixels holds {twice} more than once: pass each index once, "
            "pixels.unique() for example"
        )
    return unique


@checked_arguments
def pixel_isolation(
    orders: Int64[Tensor, "batch pixels"],
    size: Grid,
    *,
    neighbors: Neighbors = 8,
    counts: Sequence[int] | None = None,
) -> Float64[Tensor, "batch counts"]:
    """Mean share of a removed pixel's neighbors that are not removed, along an order.

    Source: Wang and Wang (2022): A unified study of machine learning explanation evaluation metrics.
    The measure is ours.

    Parameters
    ----------
    orders : Tensor of int64, (B, P)
        Permutations of the flat pixel indices y W + x, such as those of `removal_order`.
    size : pair of int
        (H, W), with H W = P of at least 2.
    neighbors : {8, 4}
        Pixels that share an edge or a corner with the removed one, or only an edge. Neighbors outside
        the image do not count: a corner pixel has three, or two.
    counts : sequence of int, optional
        After how many removed pixels, increasing; by default after 0, 1, ..., P.

    Returns
    -------
    Tensor of float64, (B, S)
        In [0, 1]: 1 if no two removed pixels are neighbors, 0 if all are removed; NaN if none is.
        Integers are summed, so each value is the nearest double to the exact one.

    Raises
    ------
    AttributionLabError
        For orders that are not permutations, a size that does not match or has a single pixel, another
        neighborhood and counts out of range.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.orders import pixel_isolation
    >>> corners_first = torch.tensor([[0, 2, 6, 8, 4, 1, 3, 5, 7]])
    >>> pixel_isolation(corners_first, (3, 3), counts=[4, 5, 9])
    tensor([[1.0000, 0.6333, 0.0000]], dtype=torch.float64)
    """
    height, width = _checked(orders, size)
    batch, pixels = orders.shape
    chosen = checked_counts(counts, pixels)
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
    left = changes.cumsum(1)[:, chosen.to(orders.device)]
    removed = chosen.to(orders.device) * WHOLE
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


def _checked(orders: Tensor, size: Grid) -> tuple[int, int]:
    """Height and width, if everything fits."""
    height, width = size
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
            f"order {int(strange[0])} is not a permutation: name each pixel from 0 to {pixels - 1} once"
        )
    return height, width
