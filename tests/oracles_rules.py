"""A naive twin of rules: their text, run by Python itself on counts taken by loops."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

Rectangle = tuple[float, float, float, float]
"""Top, left, bottom, right, as fractions of the side."""

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
RECTANGLES: dict[str, Sequence[Fraction | float]] = {
    "": (0, 0, 1, 1),
    "left": (0, 0, 1, HALF),
    "right": (0, HALF, 1, 1),
    "top": (0, 0, HALF, 1),
    "bottom": (HALF, 0, 1, 1),
    "top_left": (0, 0, HALF, HALF),
    "top_right": (0, HALF, HALF, 1),
    "bottom_left": (HALF, 0, 1, HALF),
    "bottom_right": (HALF, HALF, 1, 1),
    "center": (QUARTER, QUARTER, 3 * QUARTER, 3 * QUARTER),
}
"""The ring is all but the center."""

# What each of a tile's pixels shows: upper left, upper right, lower left, lower right.
MOTIFS = {"stripes": "ABAB", "checks": "ABBA", "corner": "A.AA"}


def shades_of(color: tuple[int, int, int], shades: int, spread: int) -> list[tuple[int, int, int]]:
    """The color, then cooler and warmer ones by turns, evenly spaced up to the spread."""
    found = [color]
    for step in range(1, (shades - 1) // 2 + 1):
        by = step * (2 * spread) // (shades - 1)
        found += [(color[0] + each, color[1] + each, color[2]) for each in (-by, by)]
    return found


class Picture:
    """An image as rows of names of colors; "" for any other color."""

    def __init__(
        self,
        image: Sequence[Sequence[Sequence[int]]],
        colors: Mapping[str, tuple[int, int, int]],
        own: Mapping[str, Rectangle],
        shades: int = 1,
        spread: int = 0,
    ) -> None:
        names = {
            shade: name
            for name, color in colors.items()
            for shade in shades_of(color, shades, spread)
        }
        red, green, blue = image
        self.rows = [
            [names.get(pixel, "") for pixel in zip(*three, strict=True)]
            for three in zip(red, green, blue, strict=True)
        ]
        self.side = len(self.rows)
        self.rectangles = RECTANGLES | dict(own)
        self.kept: dict[tuple[str, ...], int] = {}

    def inside(self, low: Fraction | float, high: Fraction | float) -> list[int]:
        """Rows or columns whose middle lies in a rectangle."""
        return [
            place
            for place in range(self.side)
            if low * 2 * self.side <= 2 * place + 1 < high * 2 * self.side
        ]

    def pixels(self, color: str, region: str) -> int:
        """How many pixels of a region have a color."""
        if region == "ring":
            return self.pixels(color, "") - self.pixels(color, "center")
        key = (color, region)
        if key not in self.kept:
            top, left, bottom, right = self.rectangles[region]
            columns = self.inside(left, right)
            first, end = columns[0], columns[-1] + 1
            self.kept[key] = sum(
                self.rows[y][first:end].count(color) for y in self.inside(top, bottom)
            )
        return self.kept[key]

    def is_inside(self, y: int, x: int, region: str) -> bool:
        """Whether a pixel lies in a region."""
        if region == "ring":
            return not self.is_inside(y, x, "center")
        top, left, bottom, right = self.rectangles[region]
        return (
            top * 2 * self.side <= 2 * y + 1 < bottom * 2 * self.side
            and left * 2 * self.side <= 2 * x + 1 < right * 2 * self.side
        )

    def tiles(self, motif: str, a: str, b: str, region: str) -> int:
        """How many tiles with a motif lie wholly in a region."""
        key = (motif, a, b, region)
        if key not in self.kept:
            wanted = [{"A": a, "B": b}.get(letter) for letter in MOTIFS[motif]]
            found = 0
            for y in range(0, self.side - 1, 2):
                for x in range(0, self.side - 1, 2):
                    shown = self.rows[y][x : x + 2] + self.rows[y + 1][x : x + 2]
                    if all(w in (None, s) for w, s in zip(wanted, shown, strict=True)):
                        places = [(y, x), (y, x + 1), (y + 1, x), (y + 1, x + 1)]
                        found += all(self.is_inside(*place, region) for place in places)
            self.kept[key] = found
        return self.kept[key]


class Pixels(int):
    """The count of a color, which `@` restricts to a region."""

    picture: Picture
    color: str

    def __matmul__(self, region: str) -> int:
        return self.picture.pixels(self.color, region)


class Tiles(int):
    """The count of a motif, which `@` restricts to a region."""

    picture: Picture
    motif: tuple[str, str, str]

    def __matmul__(self, region: str) -> int:
        return self.picture.tiles(*self.motif, region)


def rule_value(text: str, picture: Picture, colors: Sequence[str]) -> int:
    """What a rule gives for an image, as Python reads its text."""
    known: dict[str, object] = {"__builtins__": {}}
    for name in colors:
        known[name] = Pixels(picture.pixels(name, ""))
        known[name].picture, known[name].color = picture, name
    for motif in MOTIFS:

        def counted(a: Pixels, b: Pixels | None = None, motif: str = motif) -> Tiles:
            names = (motif, a.color, b.color if b is not None else "")
            tiles = Tiles(picture.tiles(*names, ""))
            tiles.picture, tiles.motif = picture, names
            return tiles

        known[motif] = counted
    known |= {name: name for name in (*picture.rectangles, "ring") if name}
    known |= {"min": min, "max": max, "abs": abs}
    known |= {"relu": lambda x: x if x > 0 else 0, "xor": lambda a, b: bool(a) != bool(b)}
    return int(eval(text, known))
