"""Random rules as trees, and random images for them."""

import random
from collections.abc import Sequence

import numpy as np

from attributionlab.worlds import Count
from attributionlab.worlds.images.regions import MOTIFS, REGIONS, TILE
from attributionlab.worlds.rules.expressions import Constant, Expression, Operation
from attributionlab.worlds.rules.places import Places

COLORS = {"red": (255, 0, 0), "blue": (0, 0, 255), "green": (0, 255, 0), "yellow": (255, 255, 0)}
BACKGROUND = (20, 20, 20)
PLACES = ("", "", "", *REGIONS, "ring")


class Drawing:
    """Random rules.

    Parameters
    ----------
    seed : int
        Seed.
    largest : int
        Constants that counts are compared with are up to this.
    motifs : float
        Share of counts that are of motifs.
    regions : sequence of str
        Where counts are taken.
    """

    def __init__(
        self,
        seed: int,
        largest: int = 6,
        motifs: float = 0.0,
        regions: Sequence[str] = PLACES,
    ) -> None:
        self.random = random.Random(seed)
        self.largest, self.motifs, self.regions = largest, motifs, regions

    def count(self) -> Count:
        region = self.random.choice(self.regions)
        if self.random.random() < self.motifs:
            motif = self.random.choice(list(MOTIFS))
            names = self.random.sample(list(COLORS), 1 if motif == "corner" else 2)
            return Count(tuple(names), motif, region)
        return Count((self.random.choice(list(COLORS)),), "", region)

    def linear(self) -> Expression:
        """A sum of up to three multiples of counts, and perhaps a constant."""
        found: Expression = self.count()
        for _ in range(self.random.choice([0, 0, 1, 2])):
            term: Expression = self.count()
            if self.random.random() < 0.3:
                term = Operation("*", (Constant(self.random.choice([-2, 2, 3])), term))
            found = Operation(self.random.choice(["+", "-"]), (found, term))
        if self.random.random() < 0.2:
            found = Operation("-", (found, Constant(self.random.randint(1, self.largest))))
        return found

    def number(self, depth: int) -> Expression:
        """An integer; deeper rules have more operations."""
        if depth <= 0:
            return self.linear()
        kind = self.random.choice(["+", "-", "relu", "min", "max", "abs", "if", "%", "*", "0/1"])
        if kind == "relu" or kind == "abs":
            return Operation(kind, (Operation("-", (self.number(depth - 1), self.linear())),))
        if kind == "%":
            return Operation("%", (self.number(depth - 1), Constant(self.random.randint(2, 7))))
        if kind == "*":
            factor = Constant(self.random.choice([-1, 2, 3]))
            return Operation("*", (factor, self.number(depth - 1)))
        if kind == "if":
            branches = self.number(depth - 1), self.number(depth - 1)
            return Operation("if", (self.condition(depth - 1), *branches))
        if kind == "0/1":
            return self.condition(depth - 1)
        return Operation(kind, (self.number(depth - 1), self.number(depth - 1)))

    def condition(self, depth: int) -> Expression:
        if depth <= 0 or self.random.random() < 0.4:
            kind = self.random.choice([">", ">=", "<", "<=", "==", "!="])
            bound = Constant(self.random.randint(0, self.largest))
            return Operation(kind, (self.linear(), self.random.choice([bound, self.linear()])))
        kind = self.random.choice(["and", "or", "xor", "not"])
        if kind == "not":
            return Operation("not", (self.condition(depth - 1),))
        return Operation(kind, (self.condition(depth - 1), self.condition(depth - 1)))

    def pixels(self, side: int, players: int) -> np.ndarray:
        """An image (3, side, side) in which so many pixels at random have a color."""
        image = blank(side)
        for at in self.random.sample(range(side * side), players):
            image[:, at // side, at % side] = COLORS[self.random.choice(list(COLORS))]
        return image

    def tiles(self, side: int, number: int) -> np.ndarray:
        """An image in which so many tiles show motifs of two colors."""
        image = blank(side)
        first, second = self.random.sample(list(COLORS), 2)
        across = side // TILE
        for at in self.random.sample(range(across * across), number):
            pattern = MOTIFS[self.random.choice(list(MOTIFS))]
            for y, row in enumerate(pattern):
                for x, place in enumerate(row):
                    if place is not None:
                        color = COLORS[(first, second)[place]]
                        image[:, TILE * (at // across) + y, TILE * (at % across) + x] = color
        return image

    def patches(self, side: int, number: int = 12) -> np.ndarray:
        """An image of rectangles that may overlap."""
        image = blank(side)
        for _ in range(number):
            height, width = (self.random.randint(side // 14, side // 5) for _ in range(2))
            y, x = self.random.randint(0, side - height), self.random.randint(0, side - width)
            color = np.array(COLORS[self.random.choice(list(COLORS))])
            image[:, y : y + height, x : x + width] = color[:, None, None]
        return image


def blank(side: int) -> np.ndarray:
    """The background alone."""
    return np.tile(np.array(BACKGROUND)[:, None, None], (1, side, side)).astype(np.int64)


def places_of(side: int) -> Places:
    return Places(COLORS, side, {})


def named_pixels(image: np.ndarray) -> list[tuple[int, int, str]]:
    """Row, column and color of each pixel that has one of the colors."""
    return [
        (y, x, name)
        for y in range(image.shape[1])
        for x in range(image.shape[2])
        for name, color in COLORS.items()
        if tuple(image[:, y, x]) == color
    ]
