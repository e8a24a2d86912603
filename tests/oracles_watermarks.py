"""Naive twins of the watermarks and of the maps made for them, pixel by pixel.

Nothing here imports the package.
"""

import math


def binary_digits(label: int, classes: int) -> str:
    """A label in as many binary digits as the largest label needs."""
    most = classes - 1
    return format(label, "b").zfill(len(format(most, "b")))


def stripe_of_row(row: int, height: int, count: int) -> int:
    """The last stripe that begins at or above a row; stripe s begins at floor(height s / count)."""
    return max(place for place in range(count) if math.floor(height * place / count) <= row)


def striped(label: int, classes: int, height: int) -> list[bool]:
    """Whether each row is white."""
    digits = binary_digits(label, classes)
    return [digits[stripe_of_row(row, height, len(digits))] == "1" for row in range(height)]


def square_at_center(values: list[list[float]], side: int) -> list[list[int]]:
    """Ones in a square around the weighted mean place, moved into the image."""
    height, width = len(values), len(values[0])
    total = sum(map(sum, values))
    if total == 0:
        return square_at_center([[1.0] * width for _ in range(height)], side)
    places = [(row, column) for row in range(height) for column in range(width)]
    middle = [sum(values[p[0]][p[1]] * p[axis] for p in places) / total for axis in (0, 1)]
    first = [
        min(max(round(center - (side - 1) / 2), 0), extent - side)
        for center, extent in zip(middle, (height, width), strict=True)
    ]
    return [
        [
            int(first[0] <= row < first[0] + side and first[1] <= column < first[1] + side)
            for column in range(width)
        ]
        for row in range(height)
    ]


def pooled(values: list[list[float]], count: int) -> list[list[float]]:
    """Each row with the mean over all rows of its stripe."""
    height = len(values)
    stripes = [stripe_of_row(row, height, count) for row in range(height)]
    result = []
    for row in range(height):
        mine = [v for r in range(height) if stripes[r] == stripes[row] for v in values[r]]
        result.append([sum(mine) / len(mine)] * len(values[row]))
    return result
