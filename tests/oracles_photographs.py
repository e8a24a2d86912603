"""Naive twins of what is measured of maps without a truth."""

import math


def _pairs(height, width):
    """All pairs of pixels that share a side."""
    for row in range(height):
        for column in range(width):
            if row + 1 < height:
                yield (row, column), (row + 1, column)
            if column + 1 < width:
                yield (row, column), (row, column + 1)


def total_variation(values):
    """Mean difference of neighbors, by the largest absolute value; values is a list of rows."""
    pairs = list(_pairs(len(values), len(values[0])))
    highest = max(abs(value) for row in values for value in row)
    if highest == 0:
        return 0.0
    return sum(abs(values[a][b] - values[c][d]) for (a, b), (c, d) in pairs) / len(pairs) / highest


def scattered_share(values):
    """1 - the largest sum of a region of at least half of the maximum, by the sum of all positive."""
    highest = max(value for row in values for value in row)
    if highest <= 0:
        return math.nan
    strong = {
        (row, column)
        for row in range(len(values))
        for column in range(len(values[0]))
        if values[row][column] >= highest / 2
    }
    sums = []
    while strong:
        front, region = [strong.pop()], []
        while front:
            row, column = front.pop()
            region.append(values[row][column])
            for step in (
                (row + 1, column),
                (row - 1, column),
                (row, column + 1),
                (row, column - 1),
            ):
                if step in strong:
                    strong.remove(step)
                    front.append(step)
        sums.append(sum(region))
    return 1 - max(sums) / sum(max(value, 0) for row in values for value in row)


def sign_changes(values, within):
    """The share of pairs of neighbors inside whose product is negative."""
    inside = [
        (values[a][b], values[c][d])
        for (a, b), (c, d) in _pairs(len(values), len(values[0]))
        if within[a][b] and within[c][d]
    ]
    if not inside:
        return math.nan
    return sum((one > 0 > other) or (one < 0 < other) for one, other in inside) / len(inside)
