"""Loops of the multigrid solver, compiled by numba when first called and kept in its cache.

Planes are (C, H + 2, W + 2) with a border of zeros, and 0 wherever nothing is unknown. An operator is
symmetric and has nine points; its `stencil`, (5, H + 2, W + 2), holds at each pixel the diagonal and
the entries for the neighbors to the right, below, below to the right and below to the left.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.compiling import compiled

__all__ = [
    "Numbers",
    "absolute_row_sums",
    "add_prolonged",
    "advance",
    "coarse_stencil",
    "image_residual",
    "image_stencil",
    "redirect",
    "residual",
    "restrict",
]

Numbers = NDArray[np.floating[Any]]


@compiled
def image_residual(diagonal: Numbers, unknown: Numbers, v: Numbers, b: Numbers, r: Numbers) -> None:
    """r = b - A v for the image's own weights, 1/6 and 1/12; `unknown` is 1 or 0.

    Equals `residual`, but few enough arrays are read for the compiler to use vector instructions.
    """
    channels, height, width = v.shape
    # Of the arrays' own type, so that nothing is converted
    weights = np.array([1 / 6, 1 / 12], dtype=v.dtype)
    direct_weight, diagonal_weight = weights[0], weights[1]
    for y in range(1, height - 1):
        d, m = diagonal[y], unknown[y]
        for c in range(channels):
            up, here, down, right_hand, out = v[c, y - 1], v[c, y], v[c, y + 1], b[c, y], r[c, y]
            for x in range(width - 2):
                direct = up[x + 1] + down[x + 1] + here[x] + here[x + 2]
                diagonally = up[x] + up[x + 2] + down[x] + down[x + 2]
                neighbors = direct_weight * direct + diagonal_weight * diagonally
                out[x + 1] = right_hand[x + 1] - d[x + 1] * here[x + 1] + m[x + 1] * neighbors


@compiled
def residual(stencil: Numbers, v: Numbers, b: Numbers, r: Numbers) -> None:
    """r = b - A v."""
    channels, height, width = v.shape
    for y in range(1, height - 1):
        for c in range(channels):
            up, here, down = v[c, y - 1], v[c, y], v[c, y + 1]
            for x in range(width - 2):
                r[c, y, x + 1] = (
                    b[c, y, x + 1]
                    - stencil[0, y, x + 1] * here[x + 1]
                    - stencil[1, y, x + 1] * here[x + 2]
                    - stencil[1, y, x] * here[x]
                    - stencil[2, y, x + 1] * down[x + 1]
                    - stencil[2, y - 1, x + 1] * up[x + 1]
                    - stencil[3, y, x + 1] * down[x + 2]
                    - stencil[3, y - 1, x] * up[x]
                    - stencil[4, y, x + 1] * down[x]
                    - stencil[4, y - 1, x + 2] * up[x + 2]
                )


@compiled
def restrict(fine: Numbers, coarse: Numbers) -> None:
    """Sums over the pixels around each coarse point, with the weights of bilinear interpolation.

    The coarse point (Y, X) lies on the fine pixel (2 Y, 2 X), counted without the border. The last may
    lie outside the image.
    """
    channels, height, width = coarse.shape
    rows, columns = fine.shape[1:]
    for c in range(channels):
        for y in range(1, height - 1):
            up, here = fine[c, 2 * y - 2], fine[c, 2 * y - 1]
            down = fine[c, min(2 * y, rows - 1)]
            for x in range(1, width - 1):
                left, middle, right = 2 * x - 2, 2 * x - 1, min(2 * x, columns - 1)
                coarse[c, y, x] = (
                    here[middle]
                    + 0.5 * (up[middle] + down[middle] + here[left] + here[right])
                    + 0.25 * (up[left] + up[right] + down[left] + down[right])
                )


@compiled
def add_prolonged(coarse: Numbers, unknown: Numbers, fine: Numbers) -> None:
    """Add bilinear interpolation to the unknown pixels: the transpose of `restrict`."""
    channels, height, width = fine.shape
    weights = np.array([0.5, 0.25], dtype=fine.dtype)
    for c in range(channels):
        for y in range(1, height - 1):
            above, below = coarse[c, (y + 1) // 2], coarse[c, y // 2 + 1]
            m, row = unknown[y], fine[c, y]
            for x in range(1, (width - 1) // 2 + 1):
                here, following = above[x] + below[x], above[x + 1] + below[x + 1]
                row[2 * x - 1] += weights[0] * m[2 * x - 1] * here
                row[2 * x] += weights[1] * m[2 * x] * (here + following)


@compiled
def image_stencil(removed: NDArray[np.bool_], stencil: Numbers) -> None:
    """Weights 1/6 and 1/12 between removed pixels (H, W); the diagonal counts kept neighbors, too."""
    height, width = removed.shape
    for y in range(height):
        for x in range(width):
            if not removed[y, x]:
                continue
            total = 0.0
            for i in range(max(y - 1, 0), min(y + 2, height)):
                for j in range(max(x - 1, 0), min(x + 2, width)):
                    if i != y or j != x:
                        total += 1 / 6 if i == y or j == x else 1 / 12
            stencil[0, y + 1, x + 1] = total
            if x + 1 < width and removed[y, x + 1]:
                stencil[1, y + 1, x + 1] = -1 / 6
            if y + 1 < height:
                if removed[y + 1, x]:
                    stencil[2, y + 1, x + 1] = -1 / 6
                if x + 1 < width and removed[y + 1, x + 1]:
                    stencil[3, y + 1, x + 1] = -1 / 12
                if x > 0 and removed[y + 1, x - 1]:
                    stencil[4, y + 1, x + 1] = -1 / 12


@compiled
def coarse_stencil(fine: Numbers, coarse: Numbers) -> None:
    """The entries R A R^T of the coarse operator, R being `restrict`."""
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
            coarse[0, y, x] = center
            coarse[1, y, x] = right if x + 2 < width else 0.0
            coarse[2, y, x] = below if y + 2 < height else 0.0
            coarse[3, y, x] = below_right if x + 2 < width and y + 2 < height else 0.0
            coarse[4, y, x] = below_left if x > 1 and y + 2 < height else 0.0


@compiled
def absolute_row_sums(stencil: Numbers, sums: Numbers) -> None:
    """Of the operator's entries."""
    height, width = sums.shape
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            sums[y, x] = (
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


@compiled
def advance(lengths: Numbers, direction: Numbers, product: Numbers, v: Numbers, r: Numbers) -> None:
    """A step of conjugate gradients; `product` is -A times the direction, `lengths` are (C,)."""
    channels, height, _ = v.shape
    for c in range(channels):
        for y in range(height):
            v[c, y] += lengths[c] * direction[c, y]
            r[c, y] += lengths[c] * product[c, y]


@compiled
def redirect(shares: Numbers, z: Numbers, direction: Numbers) -> None:
    """The next direction of conjugate gradients: z and a share (C,) of the last one."""
    channels, height, _ = z.shape
    for c in range(channels):
        for y in range(height):
            direction[c, y] = z[c, y] + shares[c] * direction[c, y]
