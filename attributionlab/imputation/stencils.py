"""Operators of the multigrid solver: compiled by numba when first called, and kept in its cache.

An operator is symmetric and has nine points. Its `stencil`, (5, H + 2, W + 2) with a border of zeros,
holds at each pixel the diagonal and the entries for the neighbors to the right, below, below to the
right and below to the left; all are 0 where nothing is unknown.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.compiling import compiled

Numbers = NDArray[np.floating[Any]]


@compiled
def image_stencil(
    removed: NDArray[np.bool_], totals: Numbers, unknown: Numbers, stencil: Numbers
) -> None:
    """Weights 1/6 and 1/12 between removed pixels (H, W); the diagonal is the neighbors' total weight.

    `unknown` becomes 1 where a pixel is removed, and 0 elsewhere.
    """
    height, width = removed.shape
    direct_weight, diagonal_weight = np.float32(1 / 6), np.float32(1 / 12)
    for y in range(height):
        here, gone = unknown[y + 1], removed[y]
        for x in range(width):
            here[x + 1] = np.float32(1) if gone[x] else np.float32(0)
    for y in range(1, height + 1):
        here, down = unknown[y], unknown[y + 1]
        diagonal, total = stencil[0, y], totals[y]
        for x in range(1, width + 1):
            diagonal[x] = here[x] * total[x]
        right, below = stencil[1, y], stencil[2, y]
        for x in range(1, width + 1):
            right[x] = -direct_weight * here[x] * here[x + 1]
            below[x] = -direct_weight * here[x] * down[x]
        below_right, below_left = stencil[3, y], stencil[4, y]
        for x in range(1, width + 1):
            below_right[x] = -diagonal_weight * here[x] * down[x + 1]
            below_left[x] = -diagonal_weight * here[x] * down[x - 1]


@compiled
def coarse_stencil(fine: Numbers, unknown: Numbers, coarse: Numbers) -> None:
    """The entries R A R^T of the coarse operator; R sums with the weights of bilinear interpolation.

    `unknown` becomes 1 at the coarse grid's points that have unknown pixels around them, else 0.
    """
    rows, columns = fine.shape[1:]
    height, width = coarse.shape[1:]
    reached = np.zeros((5, 5))  # of R A, at fine pixels up to 2 away from the coarse point
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            reached[:] = 0
            for i in range(3):
                for j in range(3):
                    p, q = 2 * y - 2 + i, 2 * x - 2 + j
                    if p < 1 or q < 1 or p >= rows - 1 or q >= columns - 1 or fine[0, p, q] == 0:
                        continue
                    weight = (1.0 if i == 1 else 0.5) * (1.0 if j == 1 else 0.5)
                    reached[i + 1, j + 1] += weight * fine[0, p, q]
                    reached[i + 1, j + 2] += weight * fine[1, p, q]
                    reached[i + 1, j] += weight * fine[1, p, q - 1]
                    reached[i + 2, j + 1] += weight * fine[2, p, q]
                    reached[i, j + 1] += weight * fine[2, p - 1, q]
                    reached[i + 2, j + 2] += weight * fine[3, p, q]
                    reached[i, j] += weight * fine[3, p - 1, q - 1]
                    reached[i + 2, j] += weight * fine[4, p, q]
                    reached[i, j + 2] += weight * fine[4, p - 1, q + 1]
            # Of the pixels around a neighboring point, two away, only the nearer ones are reached.
            center = right = below = below_right = below_left = 0.0
            for i in range(5):
                vertical = 1.0 if i == 2 else 0.5 if 1 <= i <= 3 else 0.0
                under = 1.0 if i == 4 else 0.5 if i == 3 else 0.0
                row = reached[i]
                middle = row[2] + 0.5 * (row[1] + row[3])
                to_the_right, to_the_left = row[4] + 0.5 * row[3], row[0] + 0.5 * row[1]
                center += vertical * middle
                right += vertical * to_the_right
                below += under * middle
                below_right += under * to_the_right
                below_left += under * to_the_left
            unknown[y, x] = center > 0
            coarse[0, y, x] = center
            coarse[1, y, x] = right if x + 2 < width else 0.0
            coarse[2, y, x] = below if y + 2 < height else 0.0
            coarse[3, y, x] = below_right if x + 2 < width and y + 2 < height else 0.0
            coarse[4, y, x] = below_left if x > 1 and y + 2 < height else 0.0


@compiled
def relaxations(stencil: Numbers, factor: float, weights: Numbers) -> None:
    """The factor over the absolute sums of the operator's rows; 0 where nothing is unknown."""
    height, width = weights.shape
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            weights[y, x] = (
                stencil[0, y, x]
                + abs(stencil[1, y, x])
                + abs(stencil[1, y, x - 1])
                + abs(stencil[2, y, x])
                + abs(stencil[2, y - 1, x])
                + abs(stencil[3, y, x])
                + abs(stencil[3, y - 1, x - 1])
                + abs(stencil[4, y, x])
                + abs(stencil[4, y - 1, x + 1])
            )
        for x in range(1, width - 1):
            weights[y, x] = factor / weights[y, x] if weights[y, x] > 0 else 0.0
