"""The right answers, in plain integers: compare, count, remainder.

Nothing here knows a weight. All of it follows from an environment's constants, so it can disagree with
the network. Of worlds from rules it knows the colors alone: `rules`, beside it, holds the rest.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.environment.spec import known_colors, shading_of

Pixel = tuple[int, ...]
"""The integers of one pixel, one per channel."""

IRRELEVANT, BACKGROUND = -1, -2
"""Kinds of pixels beside the classes 0, 1, ...: known but not counted, and the background."""


def code(pixel: Pixel) -> int:
    """A pixel as one integer: its values are the digits to base 256."""
    return int.from_bytes(bytes(pixel), "big")


def codes(images: Float[Tensor, "batch channels *space"]) -> Int[Tensor, "batch *space"]:
    """`code` of every pixel."""
    digits = images.long().unbind(1)
    total = torch.zeros_like(digits[0])
    for digit in digits:
        total = total * 256 + digit
    return total


@dataclass(frozen=True)
class Oracle:
    """What an environment computes, as its constants state it.

    - `counted`: the pixel value of each class.
    - `irrelevant`: values that images show and nothing counts: distractor colors, other numbers.
    - `background`: the true baseline.
    - `shades`: for each of `known` the values that stand for it, itself first.
    - `channels`: how many channels the accumulator adds up.
    - `modulus`: the output is the count mod this.
    - `redundant_channels`: how many channels fire on colors that are none of the known.
    - `disturbed`: whether these channels reach the output: then no count holds for unseen colors.
    """

    counted: tuple[Pixel, ...]
    irrelevant: tuple[Pixel, ...]
    background: Pixel
    shades: tuple[tuple[Pixel, ...], ...]
    channels: int
    modulus: int | None
    redundant_channels: int
    disturbed: bool

    @classmethod
    def of(cls, env: Environment) -> Self:
        """Read the constants of an environment."""
        constants = env.spec.constants
        background: Pixel = tuple(env.recipe.background)
        irrelevant: tuple[Pixel, ...] = ()
        channels = 1
        if env.rule:  # of the parts that a world shares with others: all its colors are known
            counted = tuple(env.colors.values())
            channels = len(counted)
        elif "colors" in constants:
            *known, background = known_colors(env.spec)
            counted = tuple(constants["colors"])
            irrelevant = tuple(known[len(counted) :])
            channels = len(known)
        elif "number" in constants:
            counted = ((constants["number"],),)
            low, high = constants["values"]
            others = {(value,) for value in range(low, high + 1)} - {*counted, background}
            irrelevant = tuple(sorted(others))
        else:
            counted = ((1,),)
        redundant = constants.get("redundant_channels", 0)
        known_pixels = (*counted, *irrelevant, background)
        shades: tuple[tuple[Pixel, ...], ...] = tuple((pixel,) for pixel in known_pixels)
        if env.rule:
            shades = tuple(shading_of(env.spec).of(color) for color in known_pixels)
        return cls(
            counted=counted,
            irrelevant=irrelevant,
            background=background,
            shades=shades,
            channels=channels,
            modulus=constants.get("modulus"),
            redundant_channels=redundant,
            disturbed=bool(redundant and env.network.effective["redundant_strength"]),
        )

    @property
    def known(self) -> tuple[Pixel, ...]:
        """Counted, irrelevant, background: for colors, the order of the detector's checkers."""
        return (*self.counted, *self.irrelevant, self.background)

    @property
    def values(self) -> tuple[Pixel, ...]:
        """All values that stand for a known color."""
        return tuple(value for shades in self.shades for value in shades)

    def counts(self, images: Float[Tensor, "batch channels height width"]) -> list[list[int]]:
        """How many pixels of each image count for each class."""
        counts = []
        for image in codes(images):
            counter = Counter(image.flatten().tolist())
            counts.append([counter[code(pixel)] for pixel in self.counted])
        return counts

    def outputs(self, counts: list[list[int]]) -> Float[Tensor, "batch outputs"]:
        """The logits of images with these counts."""
        if self.modulus is not None:
            counts = [[count % self.modulus for count in row] for row in counts]
        # float64 holds every count, and does not round as the network might.
        return torch.tensor(counts, dtype=torch.float64)

    def labels(self, counts: list[list[int]]) -> list[int]:
        """The winning class (the first of equals), or the one output."""
        if len(self.counted) > 1:
            return [row.index(max(row)) for row in counts]
        return [int(row[0]) for row in self.outputs(counts).tolist()]

    def kinds(self, image: Float[Tensor, "channels height width"]) -> Int[Tensor, " pixels"]:
        """For each pixel its class, `IRRELEVANT` or `BACKGROUND`."""
        pixels = codes(image[None]).flatten()
        kinds = torch.full_like(pixels, IRRELEVANT)
        kinds[pixels == code(self.background)] = BACKGROUND
        for index, pixel in enumerate(self.counted):
            kinds[pixels == code(pixel)] = index
        return kinds
