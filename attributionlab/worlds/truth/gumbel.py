r"""A softmax of independent counts as an integral of a product, and its Shapley values by that.

With Gumbel's cumulative :math:`h(d) = exp(-e^d)` and density :math:`g(d) = exp(d - e^d)`

.. math::
    softmax(k / T)_t = \int g(k_t / T - s) \prod_{j \ne t} h(k_j / T - s) \, ds

(the Gumbel-max trick; or 1 / S as the integral of e^{-aS} with a = e^{-s}), and the expectation of a
product of independent factors is that of their expectations.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import Numbers
from attributionlab.worlds.truth.arrivals import NEGLIGIBLE, ClassCount, times

STEP = 0.25
"""Step of s. At an imaginary part b < pi / 2 the density and the rise of h are no larger than 1 / cos b
times what they are on the real line, shifted by log(cos b), and h no larger than itself there. So a
trapezoidal sum errs by 2 e^(-2 pi b / step) / cos^2 b of the whole, least 2e-14 for b near pi / 2."""
WARMEST = 1e15
"""Warmer, no pixel changes a probability by more than rounding does."""
COLDEST = 1 / 48
"""At lower temperatures too the largest counts share the probability, up to e^-48 for each class."""
H_ENDS = 4.5
"""h(4.5) = 8e-40."""


class _Kernels(NamedTuple):
    """Values at the difference d = k / T - s: h(d), g(d) and h(d + 1 / T) - h(d)."""

    below: Numbers
    density: Numbers
    rise: Numbers


class _Expected(NamedTuple):
    """At each s of a grid: E[h], E[g], (points,), and the expected rise of h with one more, (moves,
    points), for everybody but one who arrives and, where some leave, everybody but one who does."""

    below: Numbers
    density: Numbers
    rises: Numbers


class _Grid(NamedTuple):
    """Where s is evaluated, in counts (s T): `lattice` (cells,) plus `phases` within a cell."""

    lattice: NDArray[np.int64]
    step: float

    def points(self, phases: Numbers) -> Numbers:
        return (self.lattice[:, None] + phases).ravel()


@dataclass(frozen=True)
class SoftmaxGame:
    """Probability of one class among others, of which equal ones are treated once.

    - `others`: distinct pixels of the classes that are not the target.
    - `copies`: how many classes have each of them.
    - `target`: pixels of the target.
    - `temperature`: T, at least `COLDEST`.
    """

    others: Sequence[ClassCount]
    copies: NDArray[np.int64]
    target: ClassCount
    temperature: float

    def shapley(self) -> tuple[Numbers, float, float]:
        """Values (2, others + target) of a pixel that arrives and one that leaves, and their error.

        Result: `values`: 0 where there is no such pixel; `relative, absolute`: a value is off by no
        more than `relative` times its size, plus `absolute`.
        """
        movers = np.array([[c.arriving, c.leaving] for c in [*self.others, self.target]]).T
        players = int((movers * np.append(self.copies, 1)).sum())
        if not players or not self.others:
            return np.zeros(movers.shape), 0.0, 0.0
        u, v, weights, error = times(players)
        marginal = np.stack([self.marginal_values(*at) for at in zip(u, v, strict=True)], axis=-1)
        values = (weights * marginal).sum(-1)
        # With r = e^(1/T) a pixel changes a probability by at most (sqrt(r) - 1) / (sqrt(r) + 1).
        largest = math.tanh(1 / (4 * self.temperature))
        cut = 8 * (2 + int(self.copies.sum())) * math.exp(-NEGLIGIBLE)
        return np.where(movers > 0, values, 0.0), self.relative_error, largest * (error + cut)

    @property
    def relative_error(self) -> float:
        """Error of sums of products without cancellation: the trapezoidal sum's, 2^-53 a rounding."""
        roundings = 200.0
        for each, copies in zip([*self.others, self.target], [*self.copies, 1], strict=True):
            windows = sum(
                high - low
                for low, high in (
                    ClassCount(each.arriving).bounds(0.5, 0.5),
                    ClassCount(each.leaving).bounds(0.5, 0.5),
                )
            )
            roundings += copies * (3 * windows + 350)
        return 2e-14 + roundings * 2.0**-53

    def marginal_values(self, u: float, v: float) -> Numbers:
        """What a pixel that arrives, and one that leaves, adds at time u = 1 - v; as of `shapley`."""
        grid = self.grid(u, v)
        expected = [self.expected(each, u, v, grid) for each in self.others]
        below = np.stack([each.below for each in expected])
        of_target = self.expected(self.target, u, v, grid)
        # The product over all other classes but one of the kind c, without a division by it
        repeated = bool((self.copies > 1).any())
        powers = below ** self.copies[:, None] if repeated else below
        ones = np.ones_like(powers[0])
        # (NumPy's own cumulative products go down the columns one by one.)
        before = accumulate([ones, *powers[:-1]], np.multiply)
        after = [*accumulate([ones, *powers[:0:-1]], np.multiply)][::-1]
        rest = np.stack([np.multiply(*each) for each in zip(before, after, strict=True)])
        if repeated:
            rest *= below ** (self.copies - 1)[:, None]
        rises = np.stack([each.rises for each in expected], axis=1)
        for_others = (of_target.density * rest * rises).sum(-1)
        # All outputs sum to 1, so a pixel of the target adds what it takes from the others.
        outputs = sum(
            copies * each.density * product
            for copies, each, product in zip(self.copies, expected, rest, strict=True)
        )
        for_target = -(outputs * of_target.rises).sum(-1)
        values = grid.step * np.concatenate([for_others, for_target[:, None]], axis=1)
        # A pixel that leaves takes away what one more would add.
        return np.stack([values[0], -values[-1]])

    @cached_property
    def moves(self) -> int:
        """Kinds of players: 1 if all arrive, 2 if some leave."""
        return 1 + any(each.leaving for each in [*self.others, self.target])

    @cached_property
    def cell(self) -> int:
        """Counts between two points of the lattice."""
        return max(1, math.floor(STEP * self.temperature))

    @cached_property
    def phases(self) -> Numbers:
        """Points of s within a cell, in counts: several where a single count is many steps of s."""
        number = max(1, math.ceil(1 / (STEP * self.temperature)))
        return np.arange(number) / number

    def grid(self, u: float, v: float) -> _Grid:
        """The range of s in which any product is more than negligible."""
        classes = [*self.others, self.target]
        bounds = [each.bounds(u, v) for each in classes]
        lowest = max(low for low, _ in bounds) - H_ENDS * self.temperature
        # Far up the integrands, products of two densities, fall as e^(-2s).
        reach = NEGLIGIBLE / 2 + math.log(1 + int(self.copies.sum()))
        highest = max(high for _, high in bounds) + reach * self.temperature
        skip = 1
        if len(self.phases) > 1:
            # At each phase the sum over cells is one over products of J binomials. At an imaginary
            # part y of the count each grows by no more than e^(y^2 / 2 var), so with steps of q the
            # sum errs by e^(-2 pi y / q + J y^2 / 2 var), least e^(-2 (pi sigma / q)^2 / J) = e^-64.
            # Binomials below the range are constant there.
            narrowest = min(
                each.deviation(u, v)
                for each, (_, high) in zip(classes, bounds, strict=True)
                if high >= lowest
            )
            skip = max(1, math.floor(narrowest / (1.8 * math.sqrt(1 + int(self.copies.sum())))))
        spacing = self.cell * skip
        first, last = math.floor(lowest / self.cell), math.ceil(highest / self.cell)
        lattice = np.arange(first * self.cell, last * self.cell + spacing, spacing)
        return _Grid(lattice, spacing / len(self.phases) / self.temperature)

    def expected(self, each: ClassCount, u: float, v: float, grid: _Grid) -> _Expected:
        """Expectations over one class's count at time u, at each s of the grid."""
        deviation = each.deviation(u, v)
        wide_kernels = self.cell > 1 and self.temperature >= 2 * deviation
        # Few of a wide binomial's counts tell as much as all: with T >= 2 sigma and steps of sigma
        # / 2.2 the sum errs by e^-37, since the kernels are analytic up to pi T / 2.
        spacing = max(1, math.floor(deviation / 2.2)) if wide_kernels else self.cell
        low, everybody, *without = each.at(u, v)
        probabilities = np.stack([everybody, *without[: self.moves]])
        first = -low % spacing
        counts = np.arange(low + first, low + len(everybody), spacing)
        probabilities = spacing * probabilities[:, first::spacing]
        if wide_kernels:
            kernels = self.kernels(counts[:, None] - grid.points(self.phases))
            p, p_without = probabilities[0], probabilities[1:]
            return _Expected(p @ kernels.below, p @ kernels.density, p_without @ kernels.rise)
        # The binomial is wide: only the counts near s make a difference, and they are on the lattice.
        least, most = self.table_range
        cells = grid.lattice // self.cell
        places = counts // self.cell - (int(cells[0]) + least)
        length = int(cells[-1] - cells[0]) + most - least + 1
        inside = (places >= 0) & (places < length)
        padded = np.zeros((1 + self.moves, length))
        padded[:, places[inside]] = probabilities[:, inside]
        # h is 1 for all counts below the table.
        before = probabilities[0, places < 0].sum() + np.append(0.0, np.cumsum(padded[0]))
        lower = before[cells - cells[0], None]
        below, density, *rises = self.near(padded, cells - cells[0])
        return _Expected(
            (below + lower).ravel(), density.ravel(), np.stack(rises).reshape(-1, below.size)
        )

    def near(self, padded: Numbers, starts: NDArray[np.int64]) -> list[Numbers]:
        """Sums of probabilities times the table, laid on them from each start: h, g, then the rises."""
        pairs = [(0, self.table.below), (0, self.table.density)]
        pairs += [(row, self.table.rise) for row in range(1, len(padded))]
        if len(self.phases) == 1:  # every start
            return [
                np.correlate(padded[row], kernel[:, 0], "valid")[:, None] for row, kernel in pairs
            ]
        views = np.lib.stride_tricks.sliding_window_view(padded, len(self.table.below), axis=1)
        windows = np.ascontiguousarray(views[:, starts])  # (1 + moves, cells, table)
        return [windows[row] @ kernel for row, kernel in pairs]

    @cached_property
    def table_range(self) -> tuple[int, int]:
        """Cells below and above s beyond which h is 1 or 0, and does not rise."""
        below = math.ceil((NEGLIGIBLE * self.temperature + 1) / self.cell)
        return -below, math.ceil(H_ENDS * self.temperature / self.cell) + 1

    @cached_property
    def table(self) -> _Kernels:
        """The kernels for counts on the lattice, (cells, phases)."""
        least, most = self.table_range
        return self.kernels(np.arange(least, most + 1)[:, None] * self.cell - self.phases)

    def kernels(self, difference: Numbers) -> _Kernels:
        """Kernels of k - s T."""
        d = np.minimum(difference / self.temperature, 6.0)  # h(6) = 1e-175; e^d must not overflow
        e = np.exp(d)
        below = np.exp(-e)
        rise = below * np.expm1(-e * math.expm1(1 / self.temperature))
        return _Kernels(below, np.exp(d - e), rise)
