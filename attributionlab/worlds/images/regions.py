"""Regions of an image, and motifs on a grid of tiles: where patches go, where pixels are counted."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Rectangle = tuple[float, float, float, float]
"""Top, left, bottom and right edge as fractions of the image side; bottom and right are excluded."""

QUADRANTS: dict[str, Rectangle] = {
    "top_left": (0, 0, 1 / 2, 1 / 2),
    "top_right": (0, 1 / 2, 1 / 2, 1),
    "bottom_left": (1 / 2, 0, 1, 1 / 2),
    "bottom_right": (1 / 2, 1 / 2, 1, 1),
}
REGIONS: dict[str, Rectangle] = {
    "left": (0, 0, 1, 1 / 2),
    "right": (0, 1 / 2, 1, 1),
    "top": (0, 0, 1 / 2, 1),
    "bottom": (1 / 2, 0, 1, 1),
    **QUADRANTS,
    "center": (1 / 4, 1 / 4, 3 / 4, 3 / 4),
}
"""Rectangles with names of their own."""
RING = "ring"
"""The region of all pixels outside the center."""
KNOWN_REGIONS = (*REGIONS, RING)

TILE = 2
"""Side of the tiles in which motifs are looked for: rows and columns 0 and 1, 2 and 3, ..."""
MOTIFS: dict[str, tuple[tuple[int | None, ...], ...]] = {
    "stripes": ((0, 1), (0, 1)),
    "checks": ((0, 1), (1, 0)),
    "corner": ((0, None), (0, 0)),
}
"""Which of a motif's colors each pixel of a tile has; None for a pixel of any color."""


def region_mask(region: str, side: int, own: Mapping[str, Rectangle] | None = None) -> Mask:
    """Pixels (H, W) of a region.

    A pixel belongs to a rectangle if its center does, so that left and right, or the four quadrants,
    share out the image without rest, whatever its side.

    `region`: a name of `KNOWN_REGIONS` or of `own`, or "" for the whole image. `side`: H = W. `own`:
    further rectangles.
    """
    if region == "":
        return np.ones((side, side), dtype=bool)
    if region == RING:
        return ~region_mask("center", side)
    top, left, bottom, right = {**(own or {}), **REGIONS}[region]
    centers = (np.arange(side) + 0.5) / side
    rows, columns = (
        (low <= centers) & (centers < high) for low, high in ((top, bottom), (left, right))
    )
    mask: Mask = rows[:, None] & columns
    return mask


def motif_colors(motif: str) -> int:
    """How many colors a motif has."""
    return 1 + max(place for row in MOTIFS[motif] for place in row if place is not None)


def tiles_in(mask: Mask) -> Mask:
    """Tiles (H // 2, W // 2) that lie wholly in a region."""
    rows, columns = (length // TILE for length in mask.shape)
    tiles = mask[: rows * TILE, : columns * TILE].reshape(rows, TILE, columns, TILE)
    return np.asarray(tiles.all((1, 3)))


def region_problems(own: Mapping[str, Rectangle], side: int) -> list[str]:
    """Say what is wrong with further rectangles."""
    problems = []
    for name, (top, left, bottom, right) in own.items():
        if name in KNOWN_REGIONS or not name.isidentifier():
            problems.append(f"a region is named {name!r}: take another name, of letters and _")
        if not (0 <= top < bottom <= 1 and 0 <= left < right <= 1):
            problems.append(
                f"region {name!r} is {(top, left, bottom, right)}: take top < bottom and left < right "
                "in [0, 1], as fractions of the image side"
            )
        elif not region_mask(name, side, own).any():
            problems.append(f"region {name!r} has no pixel at a side of {side}: enlarge it")
    return problems
