"""In which orders pixels are masked: by maps, at random, and at random within a map's first pixels."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from attributionlab.errors import refuse_if
from attributionlab.metrics import removal_order
from attributionlab.metrics.reference_masking import reference_order
from attributionlab.papers.subjects.subjects import Subject
from attributionlab.papers.unified.six_methods import GRADCAM, MAPS, map_of
from attributionlab.validation import integer_problem

RANDOM, WINDOW, TRUTH = "Random", "Random window", "Truth"
SEVEN = (*MAPS.values(), RANDOM)
REFERENCES = (0.3, 0.4, 0.5, 0.6)
"""Sizes N of the reference as shares of all pixels: the paper's 15k to 30k of 224 x 224."""


class Orders(NamedTuple):
    """Orders of each image by name, and what shuffling decides of those by maps.

    Parameters
    ----------
    names : tuple of str
        Of the orders.
    orders : Tensor of int, (B, draws, P)
        Flat pixel indices.
    positive : mapping of str to Tensor, (B,)
        Share of the pixels at which a map is above 0, by map.
    constant : mapping of str to Tensor of bool, (B,)
        Whether a map has one value everywhere, so that its order is a random one.
    """

    names: tuple[str, ...]
    orders: Int[Tensor, "batch draws pixels"]
    positive: Mapping[str, Float64[Tensor, " batch"]]
    constant: Mapping[str, Bool[Tensor, " batch"]]

    def of(self, name: str) -> Int[Tensor, "batch pixels"]:
        return self.orders[:, self.names.index(name)]


def reference_name(share: float) -> str:
    """Of the random order within the first pixels of GradCAM."""
    return f"Random in first {share:.0%}"


def orders_of(subject: Subject, seed: int, references: tuple[float, ...] = REFERENCES) -> Orders:
    """Most relevant pixels first by each map, and the orders that know less.

    Ties are shuffled: where most of a map is zero, reading order would mask connected rows.

    Parameters
    ----------
    subject : Subject
        Whose images are explained.
    seed : int
        Of ties, random orders, windows and of what is random in a method.
    references : tuple of float
        Shares of the pixels that GradCAM's reference has.
    """
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, Tensor] = {}
    maps = {name: map_of(subject, method, seed) for method, name in MAPS.items()}
    if subject.information is not None:
        maps[TRUTH] = subject.information
    for name, values in maps.items():
        found[name] = removal_order(values, ties="random", generator=generator)
    batch, _, height, width = subject.images.shape
    constant = torch.zeros(batch, 1, height, width)
    found[RANDOM] = removal_order(constant, ties="random", generator=generator)
    found[WINDOW] = window_orders(batch, (height, width), generator)
    for share in references:
        size = round(share * height * width)
        found[reference_name(share)] = reference_order(found[GRADCAM], size, generator)
    flat = {name: values.flatten(1) for name, values in maps.items()}
    return Orders(
        tuple(found),
        torch.stack(list(found.values()), 1),
        {name: (values > 0).double().mean(1) for name, values in flat.items()},
        {name: values.amax(1) == values.amin(1) for name, values in flat.items()},
    )


def window_orders(
    batch: int, size: tuple[int, int], generator: torch.Generator
) -> Int[Tensor, "batch pixels"]:
    """Pixels around a random center, the nearest first: connected, and as uninformed as random ones.

    The image is closed to a torus, and distance is the larger of those in rows and columns, so that
    the first pixels are a square; pixels of one distance are shuffled. As the center is uniform, every
    pixel is among the first n with probability n / P, exactly as in a random order. Whatever adds up
    over pixels therefore loses as much by one as by the other in expectation; only how pixels lie
    differs.

    Parameters
    ----------
    batch : int
        Orders.
    size : pair of int
        (H, W).
    generator : torch.Generator
        Of centers and shuffles.

    Returns
    -------
    Tensor of int64, (B, H W)
        Flat pixel indices.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.unified.flipping.orders import window_orders
    >>> order = window_orders(1, (1, 5), torch.Generator().manual_seed(0))[0].tolist()
    >>> [(pixel - order[0] + 2) % 5 - 2 for pixel in order]
    [0, -1, 1, 2, -2]
    """
    height, width = size
    refuse_if(
        [
            *integer_problem("batch", batch, 1),
            *integer_problem("height", height, 1),
            *integer_problem("width", width, 1),
        ]
    )
    centers = [
        torch.randint(length, (batch, 1, 1), generator=generator) for length in (height, width)
    ]
    away = [
        (torch.arange(length) - center).remainder(length)
        for length, center in zip((height, width), centers, strict=True)
    ]
    rows, columns = (
        torch.minimum(each, length - each)
        for each, length in zip(away, (height, width), strict=True)
    )
    distance = torch.maximum(rows.mT, columns)
    return removal_order(distance[:, None], order="lerf", ties="random", generator=generator)
