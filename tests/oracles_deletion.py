"""Naive twins of single and incremental deletion: images are dictionaries, ranks are counted.

A model is a function of an image, which maps (channel, row, column) to a number. Nothing here imports
the package.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

Pixel = tuple[int, int]
Values = Mapping[Pixel, float]
Image = Mapping[tuple[int, int, int], float]
Output = Callable[[Image], float]


def cell(pixel: Pixel, height: int, width: int, side: int) -> int:
    """The number of the cell of a side x side grid that a pixel lies in."""
    row, column = pixel
    return (row * side // height) * side + column * side // width


def without(image: Image, filling: Image, gone: set[Pixel]) -> Image:
    return {place: (filling if place[1:] in gone else image)[place] for place in image}


def drop(output: Output, image: Image, filling: Image, patch: set[Pixel]) -> float:
    return output(image) - output(without(image, filling, patch))


def mean_ranks(values: Sequence[float]) -> list[Fraction]:
    """1 + how many are lower + half of how many others are equal."""
    return [
        1
        + sum(other < value for other in values)
        + Fraction(sum(o == value for o in values) - 1, 2)
        for value in values
    ]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's correlation of the ranks; NaN where one side is constant or nothing is left."""
    if not first or len(set(first)) == 1 or len(set(second)) == 1:
        return math.nan
    ranks = [mean_ranks(first), mean_ranks(second)]
    middle = Fraction(len(first) + 1, 2)
    centered = [[rank - middle for rank in each] for each in ranks]
    product = sum(a * b for a, b in zip(*centered, strict=True))
    squares = [sum(a * a for a in each) for each in centered]
    return float(product) / math.sqrt(squares[0] * squares[1])


def incremental_curve(
    output: Output,
    image: Image,
    filling: Image,
    values: Values,
    steps: int,
    explain: Callable[[Image], Values] | None = None,
) -> list[float]:
    """Remove the lowest of those that are left, one pixel at a time; the first of equals first.

    With `explain`, `values` are those of the whole image, and new ones are asked for after each step.
    """
    pixels, gone, curve, current = len(values), set(), [], values
    for step in range(steps):
        while len(gone) < math.floor(Fraction(step * pixels, steps)):
            left = sorted(set(values) - gone)
            gone.add(min(left, key=lambda pixel: current[pixel]))  # min takes the first of equals
        now = without(image, filling, gone)
        curve.append(output(now))
        if explain is not None and step:
            current = explain(now)
    return curve
