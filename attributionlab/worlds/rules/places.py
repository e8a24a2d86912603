"""What a rule counts, and where: pixels of a color, motifs on a grid of tiles."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.worlds.images.checks import Color
from attributionlab.worlds.images.regions import (
    MOTIFS,
    TILE,
    Mask,
    Rectangle,
    region_mask,
    tiles_in,
)
from attributionlab.worlds.images.shades import FLAT, Shading
from attributionlab.worlds.rules.expressions import Count


class Places:
    """Which pixels each count is about, for images of one size.

    `colors`: colors by name. `side`: H = W. `regions`: rectangles of one's own. `shading`: which values
    stand for each color. `shades`: all of them, by the color's name.
    """

    def __init__(
        self,
        colors: Mapping[str, Color],
        side: int,
        regions: Mapping[str, Rectangle],
        shading: Shading = FLAT,
    ) -> None:
        self.colors, self.side, self.regions = dict(colors), side, dict(regions)
        self.shading = shading
        self.shades = {name: shading.of(color) for name, color in colors.items()}

    def mask(self, region: str) -> Mask:
        """Pixels (H, W) of a region."""
        return region_mask(region, self.side, self.regions)

    def most(self, count: Count) -> int:
        """The largest value that a count can have in any image."""
        mask = self.mask(count.region)
        return int((tiles_in(mask) if count.motif else mask).sum())

    def hits(self, image: NDArray[Any], count: Count) -> Mask:
        """Pixels (H, W) of a color, or tiles (H // 2, W // 2) of a motif, that are counted.

        `image` (C, H, W) has integers.
        """
        of_color = [shown_in(image, self.shades[name]) for name in count.colors]
        mask = self.mask(count.region)
        if not count.motif:
            found: Mask = of_color[0] & mask
            return found
        found = tiles_in(mask)
        for row, places in enumerate(MOTIFS[count.motif]):
            for column, place in enumerate(places):
                if place is not None:
                    shown = of_color[place][row::TILE, column::TILE]
                    found = found & shown[: found.shape[0], : found.shape[1]]
        return found

    def seen(self, image: NDArray[Any], count: Count) -> Mask:
        """Pixels (H, W) that a count is about: those of the color, or of complete tiles."""
        hits = self.hits(image, count)
        if not count.motif:
            return hits
        pattern = np.array([[place is not None for place in row] for row in MOTIFS[count.motif]])
        tiles = np.kron(hits, pattern)
        mask = np.zeros((self.side, self.side), dtype=bool)
        mask[: tiles.shape[0], : tiles.shape[1]] = tiles
        return mask

    def count(self, image: NDArray[Any], counts: Sequence[Count]) -> dict[Count, int]:
        """The counts of an image (C, H, W)."""
        return {count: int(self.hits(image, count).sum()) for count in counts}


def shown_in(image: NDArray[Any], values: Sequence[Color]) -> Mask:
    """Pixels (H, W) of an image (C, H, W) that have one of some values."""
    shown = [(image == np.array(value)[:, None, None]).all(0) for value in values]
    found: Mask = np.logical_or.reduce(shown)
    return found
