r"""Conjugate gradients with a multigrid preconditioner, for the weighted means of neighbors.

Every removed pixel is the weighted mean of those of its eight neighbors that lie in the image,

.. math::
    \sum_{j \sim i} w_{ij} (x_i - x_j) = 0, \qquad w_{ij} = 1/6 \text{ or, diagonally, } 1/12

and kept pixels are known. The matrix A of the removed pixels is symmetric, and positive definite if any
pixel is kept, because every removed pixel is connected to a kept one. Coarse operators are
:math:`R A R^T` with bilinear interpolation :math:`R^T`, which is 0 at kept pixels, so that masks of
any shape are seen on every level; the smoother divides by the absolute sums of rows, so that it is
stable on every level (Baker, Falgout, Kolev and Yang, 2011).

The error is bounded, not estimated. No entry of :math:`A^{-1}` is negative, so that any u with
:math:`A u \ge s > 0` bounds the error e that belongs to a residual r = A e:

.. math::
    \max_i |e_i| \le \max_i |r_i| \, \max_i (A^{-1} 1)_i \le \max_i |r_i| \, \max_i u_i / s.

u is what a few steps for A u = 1 come to.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import AttributionLabError
from attributionlab.metrics.imputation import kernels

RELAXATION = 1.8
"""Times the inverse absolute sums of rows; stable below 2, since no eigenvalue exceeds 1."""
COARSEST = 3
"""Rows and columns of the last grid, which is swept `COARSEST_SWEEPS` times."""
COARSEST_SWEEPS = 5
MOST_STEPS = 200
"""Steps of conjugate gradients; 5 to 20 are usual."""
ROUNDING = 2.0**-52
"""Share of the values' size: no smaller residual is sought."""


@dataclass(frozen=True)
class _Grid:
    """The preconditioner's operator on one grid, and room to compute with it, all in float32."""

    stencil: kernels.Numbers
    unknown: kernels.Numbers
    relaxed: kernels.Numbers
    b: kernels.Numbers
    v: kernels.Numbers
    z: kernels.Numbers

    @classmethod
    def of(cls, height: int, width: int) -> "_Grid":
        size = (height + 2, width + 2)
        return cls(*(np.zeros(shape, np.float32) for shape in [(5, *size), *5 * [size]]))


class WeightedMeans:
    """Solver for images of one size, in memory that is used again.

    Channels are solved for one after the other, because the memory for one is more likely to fit in the
    processor's cache.
    """

    def __init__(self, height: int, width: int) -> None:
        size = (height + 2, width + 2)
        self._v, self._r, self._product = np.zeros((3, *size))
        self._direction = np.zeros(size, np.float32)
        self._totals = np.pad(_total_weights(height, width), 1)
        self._single_totals = self._totals.astype(np.float32)
        self._grids = [_Grid.of(height, width)]
        while max(height, width) > COARSEST:
            # Points at every other pixel, the last at or beyond the image's end
            height, width = height // 2 + 1, width // 2 + 1
            self._grids.append(_Grid.of(height, width))

    def remove(self, removed: NDArray[np.bool_]) -> float:
        """Set the removed pixels (H, W), some but not all; returned is a bound of A^-1 1."""
        self._removed = removed
        finest = self._grids[0]
        kernels.image_stencil(removed, self._single_totals, finest.unknown, finest.stencil)
        kernels.relaxations(finest.stencil, RELAXATION, finest.relaxed)
        for fine, coarse in pairwise(self._grids):
            kernels.coarse_stencil(fine.stencil, coarse.unknown, coarse.stencil)
            kernels.relaxations(coarse.stencil, RELAXATION, coarse.relaxed)
        self._v[:] = 0
        self._r[:] = finest.unknown
        rest, _ = self._reduce(1.0, 0.5)
        self._bound = float(self._v.max()) / (1 - rest)  # A u = 1 - r >= 1 - rest
        return self._bound

    def fill(
        self,
        channel: kernels.Numbers,
        start: kernels.Numbers | None,
        tolerance: float,
        out: kernels.Numbers,
    ) -> int:
        """Removed pixels as weighted means of their neighbors.

        `channel`, `start`: kept pixels, and a first guess of the others; without it, the mean of kept
        ones. `tolerance`: largest error of a value, in the image's own units. `out`: where the result
        is put. Kept pixels are those of the image.

        Result: `steps`: of conjugate gradients.

        Weighted means lie between the least and the largest kept value, and are put there.
        """
        low, high, mean = kernels.of_kept(channel, self._removed)
        inner, r = self._v[1:-1, 1:-1], self._r
        np.copyto(inner, channel)
        guess = mean if start is None else np.clip(start, low, high)
        np.copyto(inner, guess, where=self._removed)
        kernels.negative_product(self._totals, self._grids[0].unknown, self._v, r)
        enough = max(tolerance / self._bound, ROUNDING * max(high, -low))
        _, steps = self._reduce(max(r.max(), -r.min()), enough)
        np.clip(inner, low, high, out=out)
        return steps

    def _reduce(self, peak: float, enough: float) -> tuple[float, int]:
        """Steps of conjugate gradients for v, with residual r, until no residual exceeds `enough`.

        The largest residual, in size, is `peak`; returned are the last one and the number of steps.
        """
        unknown, b, z = self._grids[0].unknown, self._grids[0].b, self._grids[0].z
        # A power of two, because the preconditioner computes in float32
        scale = 2.0 ** np.ceil(np.log2(max(peak, np.finfo(np.float64).tiny)))
        np.divide(self._r, scale, out=b, casting="same_kind")
        size = 0.0
        for steps in range(MOST_STEPS + 1):
            if peak <= enough:
                return peak, steps
            self._precondition()
            size = kernels.redirect(b, z, size, self._direction)
            kernels.negative_product(self._totals, unknown, self._direction, self._product)
            peak = kernels.advance(size, scale, self._direction, self._product, self._v, self._r, b)
        raise AttributionLabError(
            f"no imputation within the tolerance after {MOST_STEPS} steps: take a larger one"
        )

    def _precondition(self) -> None:
        """One V-cycle from 0 for the finest grid's b, to its z: a symmetric operator on b."""
        finest, last = self._grids[0], self._grids[-1]
        for fine, coarse in pairwise(self._grids):
            kernels.descend(
                fine is finest,
                self._single_totals,
                fine.unknown,
                fine.stencil,
                fine.relaxed,
                fine.b,
                fine.v,
                fine.z,
                coarse.b,
            )
        kernels.settle(
            COARSEST_SWEEPS,
            last.stencil,
            last.relaxed,
            last.b,
            last.v,
            last.z,
        )
        for coarse, fine in pairwise(reversed(self._grids)):
            kernels.ascend(
                fine is finest,
                self._single_totals,
                fine.unknown,
                fine.stencil,
                fine.relaxed,
                fine.b,
                fine.v,
                coarse.z,
                fine.z,
            )


def _total_weights(height: int, width: int) -> kernels.Numbers:
    """Total weight of each pixel's neighbors in the image, (H, W)."""
    inside = np.pad(np.ones((height, width)), 1)
    across = inside[:, :-2] + 2 * inside[:, 1:-1] + inside[:, 2:]
    both: kernels.Numbers = across[:-2] + 2 * across[1:-1] + across[2:]
    return (both - 4) / 12
