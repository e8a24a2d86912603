"""Loops of imputation, most of them the multigrid solver's: compiled by numba when first called.

An operator is symmetric and has nine points. Its `stencil`, (5, H + 2, W + 2) with a border of zeros,
holds at each pixel the diagonal and the entries for the neighbors to the right, below, below to the
right and below to the left; all are 0 where nothing is unknown. Planes are (H + 2, W + 2) with a border
of zeros, and 0 wherever nothing is unknown. Loops along a row index whole arrays, and sums and maxima
are kept for each column, because the compiler uses vector instructions only then.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import compiled

Numbers = NDArray[np.floating[Any]]


@compiled
def interpolated(rows: Numbers, keep: NDArray[np.bool_]) -> Numbers:
    """Rows (N, D) of which removed values lie on the line between the nearest kept ones.

    Before the first and after the last kept value it is repeated; one at least is kept.
    """
    filled = rows.copy()
    for row, kept, result in zip(rows, keep, filled):  # noqa: B905 - numba knows no strict=
        last = -1
        for here in range(len(row)):
            if kept[here]:
                start = row[last] if last >= 0 else row[here]
                for place in range(last + 1, here):
                    share = (place - last) / (here - last)
                    result[place] = start + share * (row[here] - start)
                last = here
        result[last + 1 :] = row[last]
    return filled


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


@compiled
def of_kept(image: Numbers, removed: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Least, largest and mean kept value of a channel (H, W)."""
    height, width = image.shape
    least, most = np.full(width, np.inf), np.full(width, -np.inf)
    sums, counts = np.zeros(width), np.zeros(width)
    for y in range(height):
        row, gone = image[y], removed[y]
        for x in range(width):
            least[x] = min(least[x], np.inf if gone[x] else row[x])
            most[x] = max(most[x], -np.inf if gone[x] else row[x])
        for x in range(width):
            sums[x] += 0.0 if gone[x] else row[x]
            counts[x] += 0.0 if gone[x] else 1.0
    return least.min(), most.max(), sums.sum() / counts.sum()


@compiled
def descend(
    finest: bool,
    totals: Numbers,
    unknown: Numbers,
    stencil: Numbers,
    relaxed: Numbers,
    b: Numbers,
    v: Numbers,
    r: Numbers,
    coarse: Numbers,
) -> None:
    """From v = 0 one sweep, v = relaxed * b, and the sums of its residual on the coarser grid."""
    height, width = v.shape
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            v[y, x] = relaxed[y, x] * b[y, x]
    if finest:
        _relax_image(0.0, unknown, totals, b, v, r)
    else:
        _relax(0.0, unknown, stencil, b, v, r)
    _restrict(r, coarse)


@compiled
def ascend(
    finest: bool,
    totals: Numbers,
    unknown: Numbers,
    stencil: Numbers,
    relaxed: Numbers,
    b: Numbers,
    v: Numbers,
    coarse: Numbers,
    z: Numbers,
) -> None:
    """Add the coarser grid's solution to v, and sweep once: z = v + relaxed * (b - A v)."""
    _add_prolonged(coarse, unknown, v)
    if finest:
        _relax_image(1.0, relaxed, totals, b, v, z)
    else:
        _relax(1.0, relaxed, stencil, b, v, z)


@compiled
def settle(
    sweeps: int, stencil: Numbers, relaxed: Numbers, b: Numbers, v: Numbers, z: Numbers
) -> None:
    """Sweeps from 0 on the coarsest grid."""
    z[:] = 0
    for _ in range(sweeps):
        v[:] = z
        _relax(1.0, relaxed, stencil, b, v, z)


@compiled
def _relax_image(
    share: float, weights: Numbers, totals: Numbers, b: Numbers, v: Numbers, out: Numbers
) -> None:
    """share * v + weights * (b - A v) for the image's own operator."""
    height, width = v.shape
    # Of the arrays' own type, so that nothing is converted
    numbers = np.array([share, 1 / 6, 1 / 12], dtype=v.dtype)
    of_v, direct, diagonal = numbers[0], numbers[1], numbers[2]
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            out[y, x] = of_v * v[y, x] + weights[y, x] * (
                b[y, x]
                - totals[y, x] * v[y, x]
                + direct * (v[y - 1, x] + v[y + 1, x] + v[y, x - 1] + v[y, x + 1])
                + diagonal * (v[y - 1, x - 1] + v[y - 1, x + 1] + v[y + 1, x - 1] + v[y + 1, x + 1])
            )


@compiled
def _relax(
    share: float, weights: Numbers, stencil: Numbers, b: Numbers, v: Numbers, out: Numbers
) -> None:
    """share * v + weights * (b - A v) for any operator."""
    height, width = v.shape
    of_v = np.array([share], dtype=v.dtype)[0]
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            out[y, x] = of_v * v[y, x] + weights[y, x] * (
                b[y, x]
                - stencil[0, y, x] * v[y, x]
                - stencil[1, y, x] * v[y, x + 1]
                - stencil[1, y, x - 1] * v[y, x - 1]
                - stencil[2, y, x] * v[y + 1, x]
                - stencil[2, y - 1, x] * v[y - 1, x]
                - stencil[3, y, x] * v[y + 1, x + 1]
                - stencil[3, y - 1, x - 1] * v[y - 1, x - 1]
                - stencil[4, y, x] * v[y + 1, x - 1]
                - stencil[4, y - 1, x + 1] * v[y - 1, x + 1]
            )


@compiled
def _restrict(fine: Numbers, coarse: Numbers) -> None:
    """Sums over the pixels around each coarse point, with the weights of bilinear interpolation.

    The coarse point (Y, X) lies on the fine pixel (2 Y, 2 X), counted without the border. The last may
    lie outside the image.
    """
    height, width = coarse.shape
    rows, columns = fine.shape
    sums = np.zeros(2 * width, fine.dtype)
    half = np.array([0.5], dtype=fine.dtype)[0]
    for y in range(1, height - 1):
        up, here = fine[2 * y - 2], fine[2 * y - 1]
        down = fine[min(2 * y, rows - 1)]
        for x in range(columns):
            sums[x] = here[x] + half * (up[x] + down[x])
        out = coarse[y]
        for x in range(1, width - 1):
            out[x] = sums[2 * x - 1] + half * (sums[2 * x - 2] + sums[2 * x])


@compiled
def _add_prolonged(coarse: Numbers, unknown: Numbers, fine: Numbers) -> None:
    """Add bilinear interpolation to the unknown pixels: the transpose of `_restrict`."""
    height, width = fine.shape
    weights = np.array([0.5, 0.25], dtype=fine.dtype)
    for y in range(1, height - 1):
        above, below = coarse[(y + 1) // 2], coarse[y // 2 + 1]
        m, row = unknown[y], fine[y]
        for x in range(1, (width - 1) // 2 + 1):
            here, following = above[x] + below[x], above[x + 1] + below[x + 1]
            row[2 * x - 1] += weights[0] * m[2 * x - 1] * here
            row[2 * x] += weights[1] * m[2 * x] * (here + following)


@compiled
def negative_product(totals: Numbers, unknown: Numbers, v: Numbers, product: Numbers) -> None:
    """-A v in float64: by how much the weighted means of neighbors exceed v, at unknown pixels."""
    height, width = v.shape
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            # Each on its own: sums of float32 values would be rounded to float32.
            direct = np.float64(v[y - 1, x]) + np.float64(v[y + 1, x])
            direct += np.float64(v[y, x - 1]) + np.float64(v[y, x + 1])
            diagonal = np.float64(v[y - 1, x - 1]) + np.float64(v[y - 1, x + 1])
            diagonal += np.float64(v[y + 1, x - 1]) + np.float64(v[y + 1, x + 1])
            sums = (2 * direct + diagonal) / 12
            product[y, x] = unknown[y, x] * (sums - totals[y, x] * v[y, x])


@compiled
def redirect(b: Numbers, z: Numbers, last: float, direction: Numbers) -> float:
    """The next direction of conjugate gradients: z and a share of the last one.

    Returns the product of b and z; `last` is that of the last step, or 0 in the first.
    """
    height, width = z.shape
    size = _dot(b, z)
    share = np.float32(size / last if last > 0 else 0.0)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            direction[y, x] = z[y, x] + share * direction[y, x]
    return size


@compiled
def advance(
    size: float,
    scale: float,
    direction: Numbers,
    product: Numbers,
    v: Numbers,
    r: Numbers,
    b: Numbers,
) -> float:
    """A step of conjugate gradients along scale * direction; returns the largest residual, in size.

    `product` is -A times the direction, in float64, so that r stays v's own residual but for rounding
    in float64, whatever the direction. b becomes r / scale, and `size` was what `redirect` returned.
    """
    height, width = v.shape
    peaks = np.zeros(width)
    inverse = 1 / scale
    length = -scale * size / _dot(direction, product)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            v[y, x] += length * direction[y, x]
        for x in range(1, width - 1):
            r[y, x] += length * product[y, x]
        for x in range(1, width - 1):
            b[y, x] = inverse * r[y, x]
        for x in range(1, width - 1):
            peaks[x] = max(peaks[x], abs(r[y, x]))
    peak: float = peaks.max()
    return peak


@compiled
def _dot(a: Numbers, b: Numbers) -> float:
    height, width = a.shape
    sums = np.zeros(width)
    for y in range(height):
        for x in range(width):
            sums[x] += np.float64(a[y, x]) * np.float64(b[y, x])
    total: float = sums.sum()
    return total
