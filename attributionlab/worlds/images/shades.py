"""Shades: several values for each color of an image, those of the background included."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, compress
from typing import Annotated, NamedTuple

import numpy as np
import torch
from jaxtyping import Real
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import Within
from attributionlab.worlds.images.checks import Color

MOST = 27
HIGHEST = 255
WARMER = (1, 1, 0)
"""Red and green, or yellow: as light of another temperature changes a color."""
Shades = Annotated[int, Within(least=1, most=MOST)]
"""How many values each color has, an odd number."""
Spread = Annotated[int, Within(least=0, most=HIGHEST // 2)]
"""How much more or less red and green a shade has than its color, at most."""


MIXED, GRADIENT, OUTLINE = "mixed", "gradient", "outline"
PATTERNS = (MIXED, GRADIENT, OUTLINE)
STEEPEST = 8
"""A gradient runs along so many rows and columns at most, an integer direction."""


class Shading(NamedTuple):
    r"""Which values stand for a color: warmer and cooler ones, evenly spaced.

    .. math:: shade_t = color + t \, (1, 1, 0), \quad
        t = 0, -h, h, -2h, 2h, \dots, -spread, spread, \quad h = 2\, spread / (shades - 1)

    The color itself is the first shade. One shade is the color alone, and has no spread.
    """

    shades: int = 1
    spread: int = 0

    @property
    def offsets(self) -> NDArray[np.int64]:
        """What is added to a color, (shades, 3)."""
        warmth = np.linspace(-self.spread, self.spread, self.shades).round().astype(np.int64)
        nearest_first = warmth[np.argsort(np.abs(warmth), kind="stable")]
        offsets: NDArray[np.int64] = nearest_first[:, None] * np.array(WARMER)
        return offsets

    def of(self, color: Sequence[int]) -> tuple[Color, ...]:
        """The shades of a color, the color itself first."""
        return tuple(
            (red, green, blue) for red, green, blue in (np.array(color) + self.offsets).tolist()
        )

    def flattened(
        self,
        images: Real[Tensor, "batch channels height width"],
        colors: Iterable[Sequence[int]],
    ) -> Real[Tensor, "batch channels height width"]:
        """Images with the color itself in place of each of its shades."""
        flat = images
        for color in colors:
            for shade in self.of(color)[1:]:
                is_shade = (images == images.new_tensor(shade)[:, None, None]).all(1, keepdim=True)
                flat = torch.where(is_shade, images.new_tensor(color)[:, None, None], flat)
        return flat

    def problems(self, colors: Mapping[str, Color]) -> list[str]:
        """Why these cannot be the shades of some colors, named for the message.

        Shades must be colors, and two colors must differ by more than twice the spread in some channel.
        """
        if (self.shades > 1) != (self.spread > 0):
            return [
                f"shades is {self.shades} and spread {self.spread}: give shades above 1 and a spread "
                "above 0, or leave out both"
            ]
        if self.shades % 2 == 0:
            return [
                f"shades is {self.shades}: take an odd number, for as many warmer as cooler ones"
            ]
        on_each_side = (self.shades - 1) // 2
        if on_each_side and self.spread % on_each_side:
            return [
                f"spread is {self.spread} for {self.shades} shades: take a multiple of {on_each_side}, "
                "which are then evenly spaced integers"
            ]
        if not self.spread:
            return []
        changed = {name: [*compress(color, WARMER)] for name, color in colors.items()}
        room = {name: min(*values, HIGHEST - max(values)) for name, values in changed.items()}
        gaps = {
            (name, other): max(abs(one - two) for one, two in zip(color, near, strict=True))
            for (name, color), (other, near) in combinations(colors.items(), 2)
        }
        tightest = min(room, key=lambda name: room[name])
        problems = []

        def at_most(limit: int) -> str:
            fits = limit - limit % on_each_side
            return f"take at most {fits} or other colors" if fits else "take other colors"

        if self.spread > room[tightest]:
            problems.append(
                f"spread is {self.spread}: shades of {tightest} {tuple(colors[tightest])} would leave "
                f"[0, {HIGHEST}], {at_most(room[tightest])}"
            )
        if gaps and 2 * self.spread >= min(gaps.values()):
            closest = min(gaps, key=lambda pair: gaps[pair])
            met = " and ".join(f"{name} {tuple(colors[name])}" for name in closest)
            problems.append(
                f"spread is {self.spread}: shades of {met} would meet, "
                f"{at_most((gaps[closest] - 1) // 2)}"
            )
        return problems

    def indices(
        self, pattern: str, patches: NDArray[np.int16], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Which shade each pixel has, (H, W) indices of `offsets`.

        `patches`: (H, W), the number of each pixel's patch, 0 for the background. "mixed": drawn for
        each pixel, whatever lies beside it. "gradient": in each patch, and in the background, from the
        coolest to the warmest along a direction of its own. "outline": the warmest where a patch
        meets another one or the background, the color itself elsewhere. Integer arithmetic alone.
        """
        if pattern == MIXED:
            return rng.integers(self.shades, size=patches.shape)
        found = np.zeros(patches.shape, dtype=np.int64)
        if pattern == OUTLINE:
            around = np.pad(patches, 1, mode="edge")
            beside = around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]
            differs = np.any([patches != each for each in beside], axis=0)
            found[differs & (patches > 0)] = self.shades - 1
            return found
        coolest_first = np.argsort(self.offsets[:, 0])
        for patch in np.unique(patches):
            along = (
                rng.integers(-STEEPEST, STEEPEST, size=2, endpoint=True)
                @ np.argwhere(patches == patch).T
            )
            along -= along.min()
            found[patches == patch] = coolest_first[along * self.shades // (along.max() + 1)]
        return found


FLAT = Shading()
"""Each color is one value."""
