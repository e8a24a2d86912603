r"""Proof that a network adds up without rounding, whichever pixels of an image are replaced.

All that a neuron adds up lies on a grid, and float32 holds every multiple of a grid step up to 2^24
steps. So a layer is exact for every mixture of an image and its replacement if

    (largest sum of absolute terms) / (grid step of the terms) <= 2^24

for each of its neurons, and if neither leaves the type's range. Then the order of the additions does
not matter, and following changes gives what forward passes give, to the last bit.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from attributionlab.base.dyadic import exact_steps, grid_step
from attributionlab.base.exact.stepwise.tree import Pointwise, UnservedError
from attributionlab.base.stats.intervals import Numbers


class Proof:
    """Holds layer after layer against the budget of a number type.

    `dtype`: what the network computes in.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        # Changes are followed in float64, and are up to twice as large as what they change.
        self.limit = min(exact_steps(dtype), exact_steps(torch.float64) // 2)
        self.range = torch.finfo(dtype)
        self.layers = 0

    def hold(self, sizes: Tensor, weight: Tensor, bias: Tensor, grid: Tensor) -> Tensor:
        """Check one layer.

        `sizes` (outputs,): the largest sum of absolute terms of each output. `weight`, `bias` (kinds,
        inputs, outputs): everything that inputs are multiplied by, and what is added. `grid` (inputs,):
        a power of two that divides every value of each input.

        Result, (outputs,): the same of the outputs. Raises UnservedError if it may round.
        """
        self.layers += 1
        if not (weight.isfinite().all() and bias.isfinite().all()):
            raise UnservedError(f"its layer {self.layers} has weights that are not finite")
        steps = grid_of_sums(weight, bias, grid)
        if float(steps.min()) < self.range.tiny or float(sizes.max()) > self.range.max:
            raise UnservedError(
                f"its layer {self.layers} may leave the range of {self.range.dtype}: it needs numbers "
                f"from {float(steps.min()):.3g} to {float(sizes.max()):.3g}"
            )
        needed = float((sizes / steps).max())
        if not needed <= self.limit:  # also where it is no number
            raise UnservedError(
                f"its layer {self.layers} may round: it needs {needed:.4g} grid steps, but the proof "
                f"for {self.range.dtype} reaches up to {self.limit:,}"
            )
        return steps

    def rows(self, layers: Sequence[Pointwise], rows: Tensor) -> tuple[Tensor, Tensor]:
        """Check layers for each of these rows (n, inputs): what they make of them, and its grid."""
        grid = grid_step(rows).amin(0)
        for layer in layers:
            if layer.matrix is not None:
                weight, bias = layer.matrix
                sizes = rows.abs().amax(0).double() @ weight.abs() + bias.abs()
                grid = self.hold(sizes, weight[None], bias, grid)
            rows = layer(rows)
        return rows, grid

    def ranges(self, layers: Sequence[Pointwise], low: Tensor, high: Tensor, grid: Tensor) -> None:
        """Check layers for every row between two (inputs,)."""
        for layer in layers:
            if layer.matrix is None:
                low, high = low.clamp(min=0), high.clamp(min=0)
                continue
            weight, bias = layer.matrix
            sizes = torch.maximum(low.abs(), high.abs()) @ weight.abs() + bias.abs()
            grid = self.hold(sizes, weight[None], bias, grid)
            up, down = weight.clamp(min=0), weight.clamp(max=0)
            low, high = low @ up + high @ down + bias, high @ up + low @ down + bias


def grid_of_sums(weight: Tensor, bias: Tensor, grid: Tensor) -> Tensor:
    """Largest power of two that divides all terms of each output; parameters as for `Proof.hold`."""
    return torch.minimum((grid_step(weight) * grid[:, None]).amin((0, 1)), grid_step(bias))


def fits_exactly(first: Numbers, second: Numbers, grid: float) -> bool:
    """Whether float64 holds all products of matrices (..., a, b) and (..., b, c), given their grid."""
    with np.errstate(over="ignore"):  # infinity does not fit
        size = float(np.abs(first).sum(-1).max() * np.abs(second).max())
    limits = torch.finfo(torch.float64)
    in_range = limits.tiny <= grid and size <= limits.max
    return in_range and size <= exact_steps(torch.float64) * grid


def finest(values: Numbers) -> float:
    """Largest power of two that divides all values."""
    return float(grid_step(torch.from_numpy(values)).min())
