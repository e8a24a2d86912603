"""Naive twins of what Wang and Wang (2022) is repeated with: boxes, hits nearby, orders one by one.

Nothing here imports the package.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from fractions import Fraction

Grid = Sequence[Sequence[bool]]


def places(mask: Grid) -> list[tuple[int, int]]:
    """Row and column of each pixel of a mask."""
    return [
        (row, column) for row, line in enumerate(mask) for column, there in enumerate(line) if there
    ]


def hits_nearby(
    values: Sequence[Sequence[float]], mask: Grid, squared_tolerance: float
) -> float | None:
    """Share of the highest pixels whose nearest pixel of the mask is near; distances squared."""
    objects = places(mask)
    if not objects:
        return None
    highest = max(max(line) for line in values)
    pointed = places([[value == highest for value in line] for line in values])
    return statistics.mean(
        float(
            min((row - other) ** 2 + (column - beside) ** 2 for other, beside in objects)
            <= squared_tolerance
        )
        for row, column in pointed
    )


def smallest_box(mask: Grid, margin: int) -> list[list[bool]]:
    """Pixel by pixel: is it between the outermost pixels, a margin added on each side?"""
    objects = places(mask)
    rows, columns = [row for row, _ in objects], [column for _, column in objects]
    return [
        [
            bool(objects)
            and min(rows) - margin <= row <= max(rows) + margin
            and min(columns) - margin <= column <= max(columns) + margin
            for column in range(len(mask[0]))
        ]
        for row in range(len(mask))
    ]


def dice(first: set[int], second: set[int]) -> Fraction:
    """2 |A and B| / (|A| + |B|)."""
    return Fraction(2 * len(first & second), len(first) + len(second))


def mean_dice(masked: int, reference: int) -> Fraction:
    """Over every subset of `masked` of the first `reference` pixels, against the first `masked`."""
    first = set(range(masked))
    subsets = list(itertools.combinations(range(reference), masked))
    return sum((dice(first, set(chosen)) for chosen in subsets), Fraction(0)) / len(subsets)


def scores(
    weights: Sequence[Sequence[int]], inputs: Sequence[int], masked: Sequence[int]
) -> list[int]:
    """Scores of the classes of a linear classifier whose masked pixels are 0."""
    left = [0 if pixel in masked else value for pixel, value in enumerate(inputs)]
    return [sum(w * x for w, x in zip(row, left, strict=True)) for row in weights]


def share_right(outputs: Sequence[int], target: int) -> Fraction:
    """1 / m where the target is one of m largest, else 0."""
    best = max(outputs)
    return Fraction(outputs[target] == best, outputs.count(best))


def heights(
    weights: Sequence[Sequence[int]],
    inputs: Sequence[int],
    indicator: Callable[[Sequence[int]], Fraction | int],
) -> dict[tuple[int, ...], Fraction]:
    """The sum of an indicator of the scores over 0, 1, ..., d masked pixels, by order."""
    return {
        order: sum(
            (
                Fraction(indicator(scores(weights, inputs, order[:count])))
                for count in range(len(order) + 1)
            ),
            Fraction(0),
        )
        for order in itertools.permutations(range(len(inputs)))
    }


def by_falling(values: Sequence[int]) -> tuple[int, ...]:
    """The largest first, equal ones from left to right."""
    return tuple(sorted(range(len(values)), key=lambda pixel: (-values[pixel], pixel)))


def proof_sum(masked: int, reference: int) -> Fraction:
    """The paper's sum over k pixels in common, with factorials."""

    def choose(n: int, k: int) -> int:
        if not 0 <= k <= n:
            return 0
        return math.factorial(n) // math.factorial(k) // math.factorial(n - k)

    total = Fraction(0)
    for k in range(masked + 1):
        ways = choose(masked, k) * choose(reference - masked, masked - k)
        total += Fraction(ways, choose(reference, masked)) * Fraction(k, masked)
    return total
