r"""Conjugate gradients with a multigrid preconditioner, for the weighted means of neighbors.

Every removed pixel is the weighted mean of those of its eight neighbors that lie in the image,

.. math::
    \sum_{j \sim i} w_{ij} (x_i - x_j) = 0, \qquad w_{ij} = 1/6 \text{ or, diagonally, } 1/12

and kept pixels are known. The matrix of the removed pixels is symmetric, and positive definite if any
pixel is kept, because every removed pixel is connected to a kept one. Coarse operators are
:math:`R A R^T` with bilinear interpolation :math:`R^T`, which is 0 at kept pixels, so that masks of
any shape are seen on every level; the smoother divides by the absolute sums of rows, so that it is
stable on every level (Baker, Falgout, Kolev and Yang, 2011).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attributionlab.errors import AttributionLabError
from attributionlab.imputation.kernels import (
    Numbers,
    absolute_row_sums,
    add_prolonged,
    advance,
    coarse_stencil,
    image_residual,
    image_stencil,
    redirect,
    residual,
    restrict,
)

__all__ = ["filled_by_means"]

RELAXATION = 1.5
"""Times the inverse absolute sums of rows; stable below 2, since no eigenvalue exceeds 1."""
COARSEST = 3
"""Rows and columns of the last grid, which is swept `COARSEST_SWEEPS` times."""
COARSEST_SWEEPS = 10
MOST_STEPS = 200
"""Of conjugate gradients; 5 to 15 are usual."""
ROUNDING = 2.0**-44
"""Of the values' size: no smaller error is asked for."""


@dataclass(frozen=True)
class _Grid:
    """The preconditioner's operator on one grid, in float32, (H + 2, W + 2)."""

    stencil: Numbers
    unknown: Numbers
    relaxation: Numbers
    finest: bool
    scratch: Numbers
    """Right-hand side, solution and residual, (3, C, H + 2, W + 2): new memory is slow."""

    @classmethod
    def of(cls, stencil: Numbers, channels: int, finest: bool = False) -> "_Grid":
        sums = np.zeros_like(stencil[0])
        absolute_row_sums(stencil, sums)
        known = stencil[0] == 0
        sums[known] = np.inf
        scratch = np.zeros((3, channels, *known.shape), np.float32)
        return cls(stencil, (~known).astype(np.float32), RELAXATION / sums, finest, scratch)

    def subtract_product(self, v: Numbers, b: Numbers, out: Numbers) -> Numbers:
        """b - A v, written to the inner points of `out`."""
        if self.finest:
            image_residual(self.stencil[0], self.unknown, v, b, out)
        else:
            residual(self.stencil, v, b, out)
        return out

    def coarser(self) -> "_Grid":
        """The operator between points at every other pixel, the last at or beyond the image's end."""
        stencil = np.zeros((5, *((n - 2) // 2 + 3 for n in self.unknown.shape)), np.float32)
        coarse_stencil(self.stencil, stencil)
        return _Grid.of(stencil, self.scratch.shape[1])


def _grids(removed: NDArray[np.bool_], channels: int) -> list[_Grid]:
    """From the image's own pixels to the coarsest."""
    stencil = np.zeros((5, *(n + 2 for n in removed.shape)), np.float32)
    image_stencil(removed, stencil)
    grids = [_Grid.of(stencil, channels, finest=True)]
    while max(grids[-1].unknown.shape) > COARSEST + 2:
        grids.append(grids[-1].coarser())
    return grids


def _neighbor_sums(padded: Numbers) -> Numbers:
    """Weighted sums of the eight neighbors, (..., H + 2, W + 2); 0 on the border."""
    sums = np.zeros_like(padded)
    across = padded[..., :-2] + 2 * padded[..., 1:-1] + padded[..., 2:]
    both = across[..., :-2, :] + 2 * across[..., 1:-1, :] + across[..., 2:, :]
    sums[..., 1:-1, 1:-1] = (both - 4 * padded[..., 1:-1, 1:-1]) / 12
    return sums


def _cycle(grids: list[_Grid], b: Numbers) -> Numbers:
    """One V-cycle for A v = b from v = 0, as a symmetric operator on b; overwritten by the next."""
    grid = grids[0]
    _, v, r = grid.scratch
    np.multiply(grid.relaxation, b, out=v)
    if len(grids) > 1:
        restrict(grid.subtract_product(v, b, r), grids[1].scratch[0])
        add_prolonged(_cycle(grids[1:], grids[1].scratch[0]), grid.unknown, v)
    for _ in range(1 if len(grids) > 1 else COARSEST_SWEEPS):
        grid.subtract_product(v, b, r)
        r *= grid.relaxation
        v += r
    result: Numbers = v
    return result


def _dots(a: Numbers, b: Numbers) -> Numbers:
    """For each channel, (C, 1, 1)."""
    products: Numbers = np.asarray(np.einsum("chw,chw->c", a, b))
    of_channels: Numbers = products[:, None, None]
    return of_channels


def _quotient(a: Numbers, b: Numbers) -> Numbers:
    """a / b, but 0 for channels that are done, where b is 0."""
    quotient: Numbers = np.divide(a, b, out=np.zeros_like(a), where=b > 0)
    return quotient


def filled_by_means(
    image: Numbers, removed: NDArray[np.bool_], start: Numbers, tolerance: float
) -> tuple[Numbers, int]:
    """Removed pixels as weighted means of their neighbors.

    Parameters
    ----------
    image, start : array, (C, H, W)
        Kept pixels, and a first guess of the others.
    removed : array of bool, (H, W)
        Not all of them.
    tolerance : float
        Largest error of a value, in the image's own units.

    Returns
    -------
    filled : array, (C, H, W)
        Kept pixels are those of the image.
    steps : int
        Of conjugate gradients.

    Notes
    -----
    What a V-cycle makes of the residual, z, is its estimate of the error, and is added last. A cycle
    that leaves a share rho < 1/2 of the error leaves less than z; the iteration stops where z is at
    most half the tolerance. Weighted means lie between the least and the largest kept value, and are
    put there.
    """
    if not removed.any():
        return image.copy(), 0
    grids = _grids(removed, len(image))
    unknown = np.pad(removed.astype(np.float64), 1)
    guess = np.where(removed, start, image)
    # In terms of the difference from the guess only removed pixels are unknown.
    known_or_not = np.pad(np.ones(removed.shape), 1)
    padded = np.pad(guess, ((0, 0), (1, 1), (1, 1)))
    diagonal = unknown * _neighbor_sums(known_or_not)
    r, zeros = np.zeros_like(padded), np.zeros_like(padded)
    image_residual(diagonal, unknown, padded, zeros, r)
    # Scaled by a power of two, because the preconditioner computes in float32.
    scale = 2.0 ** np.ceil(np.log2(max(r.max(), -r.min(), np.finfo(np.float64).tiny)))
    r /= scale
    v = np.zeros_like(r)
    enough = max(tolerance / 2, ROUNDING * float(np.abs(guess).max())) / scale
    z: Numbers = np.zeros_like(r)
    direction, product = np.zeros((2, *r.shape))
    previous: Numbers = np.ones((len(r), 1, 1))
    for steps in range(MOST_STEPS + 1):
        grids[0].scratch[0] = r
        correction = _cycle(grids, grids[0].scratch[0])
        z[:] = correction
        if max(correction.max(), -correction.min()) <= enough:
            # The cycle's correction is at hand, and leaves a smaller error than without it.
            v += z
            kept = image[:, ~removed]
            low, high = kept.min(1)[:, None, None], kept.max(1)[:, None, None]
            filled = np.clip(guess + scale * v[:, 1:-1, 1:-1], low, high)
            result: Numbers = np.where(removed, filled, image)
            return result, steps
        size = _dots(r, z)
        redirect(_quotient(size, previous)[:, 0, 0], z, direction)
        image_residual(diagonal, unknown, direction, zeros, product)
        length = _quotient(size, -_dots(direction, product))
        advance(length[:, 0, 0], direction, product, v, r)
        previous = size
    raise AttributionLabError(
        f"no imputation within {tolerance:g} after {MOST_STEPS} steps: take a larger tolerance"
    )
