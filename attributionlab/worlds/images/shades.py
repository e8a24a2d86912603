"""Shades: several values for each color of an image, those of the background included."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Annotated, NamedTuple

import numpy as np
import torch
from jaxtyping import Real
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import Within
from attributionlab.worlds.images.checks import Color

OFFSETS = tuple(
    sorted(
        product((-1, 0, 1), repeat=3),
        key=lambda offset: ((0, 3, 1, 2).index(sum(map(abs, offset))), offset),
    )
)
"""Points of a cube: its center, its 8 corners, the centers of its 6 faces and of its 12 edges."""
HIGHEST = 255
Shades = Annotated[int, Within(least=1, most=len(OFFSETS))]
"""How many values each color has."""
Spread = Annotated[int, Within(least=0, most=HIGHEST // 2)]
"""How far from its color a shade lies, at most, in each channel."""


class Shading(NamedTuple):
    r"""Which values stand for a color.

    .. math:: shade_i = color + spread \cdot o_i, \quad i = 0, \dots, shades - 1

    with the points o_i of `OFFSETS` in their order: the color itself is the first shade. 9, 15 and 27
    shades lie evenly around it. One shade is the color alone, and has no spread.
    """

    shades: int = 1
    spread: int = 0

    @property
    def offsets(self) -> NDArray[np.int64]:
        """What is added to a color, (shades, 3)."""
        return self.spread * np.array(OFFSETS[: self.shades], dtype=np.int64)

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

        Shades must be colors, and those of two colors must lie in cubes that do not meet: then some
        plane has the one on its one side and the other on its other.
        """
        if (self.shades > 1) != (self.spread > 0):
            return [
                f"shades is {self.shades} and spread {self.spread}: give shades above 1 and a spread "
                "above 0, or neither"
            ]
        if not self.spread:
            return []
        room = {name: min(*color, HIGHEST - max(color)) for name, color in colors.items()}
        gaps = {
            (name, other): max(abs(one - two) for one, two in zip(color, near, strict=True))
            for (name, color), (other, near) in combinations(colors.items(), 2)
        }
        tightest = min(room, key=lambda name: room[name])
        problems = []
        if self.spread > room[tightest]:
            problems.append(
                f"spread is {self.spread}: shades of {tightest} {tuple(colors[tightest])} would leave "
                f"[0, {HIGHEST}], take at most {room[tightest]} or other colors"
            )
        if gaps and 2 * self.spread >= min(gaps.values()):
            closest = min(gaps, key=lambda pair: gaps[pair])
            met = " and ".join(f"{name} {tuple(colors[name])}" for name in closest)
            problems.append(
                f"spread is {self.spread}: shades of {met} would meet, take at most "
                f"{(gaps[closest] - 1) // 2} or other colors"
            )
        return problems


FLAT = Shading()
"""Each color is one value."""
