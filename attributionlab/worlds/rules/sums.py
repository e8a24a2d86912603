r"""Tables over sums where those over counts are too large.

The output depends on linear forms of counts. Units whose vectors of coefficients are multiples of one
vector, such as those that feed one and the same form, matter by the sum of these multiples only: a form
of 400 pixels of weight 1 and 400 of weight -1 has 801 sums, where the counts have 160,801 pairs. Axes
are these sums. They share no unit, hence are independent given p, so

.. math:: \phi_c = \int_0^1 p^{k_c - 1} \sum_x P_a'(x_a; p) \prod_{b \ne a} P_b(x_b; p)
    [f(x + v_c e_a) - f(x)] \, dp,

where P_a' lacks one unit of cell c, and v_c is its weight in the sum of its axis a. Everything is a
polynomial in p, so Gauss-Legendre nodes make the integral exact; P is a convolution of binomials.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len

from attributionlab.base import Numbers
from attributionlab.worlds.rules import tables
from attributionlab.worlds.rules.cells import Unit, Vector

MOST_SUMS, MOST_WORK = 2**20, 2**30
"""Entries of the largest table; times nodes, times cells: less than a second."""
CONVOLVED = 2.0**-46
"""How far each probability of a convolution by Fourier transforms of numbers up to 1 may be off: a few
roundings for each of at most 2 x 13 levels, three transforms."""


class Axis(NamedTuple):
    """A sum of counts.

    - `units`: whose counts are summed up.
    - `steps`: the weight of each.
    - `low`, `width`: the least value, and how many there are up to the largest.
    - `scales`: what one of its steps adds to each form.
    """

    units: tuple[int, ...]
    steps: tuple[int, ...]
    low: int
    width: int
    scales: tuple[int, ...]


def axes_of_sums(units: Sequence[Unit]) -> list[Axis]:
    """Independent sums that tell the values of all forms; the widest is the last."""
    along: dict[Vector, list[tuple[int, int]]] = {}
    for at, unit in enumerate(units):
        length = math.gcd(*unit.whole)
        first = next(each for each in unit.whole if each)
        step = length if first > 0 else -length
        along.setdefault(tuple(each // step for each in unit.whole), []).append((at, step))
    axes = []
    for direction, members in along.items():
        scale = math.gcd(*(step for _, step in members))
        steps = tuple(step // scale for _, step in members)
        reach = [step * units[at].number for step, (at, _) in zip(steps, members, strict=True)]
        low, high = (sum(f(0, each) for each in reach) for f in (min, max))
        scales = tuple(scale * each for each in direction)
        axes.append(Axis(tuple(at for at, _ in members), steps, low, high - low + 1, scales))
    return sorted(axes, key=lambda axis: axis.width)


def fits_sums(units: Sequence[Unit]) -> bool:
    """Whether a table of sums is small enough, and no tile has pixels that count by themselves, too."""
    if not all(unit.is_pure for unit in units):
        return False
    size = math.prod(axis.width for axis in axes_of_sums(units))
    return size <= MOST_SUMS and size * _nodes(units) * len(units) <= MOST_WORK


def _nodes(units: Sequence[Unit]) -> int:
    """How many nodes are exact: the degree is below the number of pixels."""
    return sum(unit.size * unit.number for unit in units) // 2 + 1


class SumGrid:
    """A table over sums; has what `tables.CountGrid` has.

    `units`: pure ones.
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = units
        self.axes = axes_of_sums(units)
        self.shape = tuple(axis.width for axis in self.axes)
        self.places, self.quadrature = tables.legendre(_nodes(units))

    def forms(self) -> list[tables.Integers]:
        """The value of each form in the table, as far as it must be broadcast."""
        found: list[tables.Integers] = []
        for form in range(len(self.units[0].whole)):
            total: tables.Integers = np.zeros([1] * len(self.axes), dtype=np.int64)
            for at, axis in enumerate(self.axes):
                if axis.scales[form]:
                    values = axis.low + np.arange(axis.width, dtype=np.int64)
                    total = total + axis.scales[form] * self._along(values, at)
            found.append(total)
        return found

    def differences(self, table: NDArray[Any], unit: int, step: int = 0) -> NDArray[Any]:
        """What one more of a unit does, and a step, wherever the others may be; 0 elsewhere."""
        at, rise = self._place(unit)
        size = self.axes[at].width - abs(rise)
        lower, upper = (
            table[(slice(None),) * at + (slice(start, start + size),)] for start in (0, abs(rise))
        )
        found: NDArray[Any] = upper - lower if rise > 0 else lower - upper
        found = found + step if step else found
        reached = self._reached(unit)
        if not reached.all():
            found = found * self._along(reached, at)
        return found

    def weights(self, unit: int) -> Numbers:
        """Weights of the differences of a unit."""
        at, _ = self._place(unit)
        chosen = self.quadrature * self.places ** (self.units[unit].size - 1)
        spreads = [
            self._spread(each, unit if each == at else None) for each in range(len(self.axes))
        ]
        total: Numbers = np.zeros(
            (math.prod(each.shape[1] for each in spreads[:-1]), len(spreads[-1][0]))
        )
        for start in range(0, len(chosen), 128):  # outer products of some nodes at once
            some = slice(start, start + 128)
            left = chosen[some, None]
            for spread in spreads[:-1]:
                left = (left[:, :, None] * spread[some, None, :]).reshape(len(left), -1)
            total += left.T @ spreads[-1][some]
        return total.reshape([each.shape[1] for each in spreads])

    def error(self, rising: float, falling: float, largest: float) -> float:
        """Bound of the error of each weighted sum, with the largest difference."""
        noise = sum(axis.width for axis in self.axes if len(axis.units) > 1) * CONVOLVED * largest
        return tables.BY_QUADRATURE * len(self.axes) * (rising + falling) + noise

    def _place(self, unit: int) -> tuple[int, int]:
        """A unit's axis, and its step there."""
        return next(
            (at, axis.steps[axis.units.index(unit)])
            for at, axis in enumerate(self.axes)
            if unit in axis.units
        )

    def _along(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        return values.reshape([-1 if each == axis else 1 for each in range(len(self.axes))])

    def _number(self, member: int, lacking: int | None) -> int:
        return self.units[member].number - (member == lacking)

    def _reached(self, lacking: int) -> NDArray[np.bool_]:
        """Which sums there are with one of a unit still to come."""
        axis = self.axes[self._place(lacking)[0]]
        reach, width = 1, 1  # bit i: the i-th value from below
        for member, step in zip(axis.units, axis.steps, strict=True):
            for _ in range(self._number(member, lacking)):
                reach |= reach << abs(step)
                width += abs(step)
        # All steps up are bits up; those down start at the least value, where all of them are there.
        return np.array([reach >> bit & 1 for bit in range(width)], dtype=bool)

    def _spread(self, at: int, lacking: int | None) -> Numbers:
        """P of each sum at each node, (nodes, values); with one of a unit fewer."""
        if lacking is None:
            return self._spreads[at]
        return self._convolved(self.axes[at], lacking)

    @cached_property
    def _spreads(self) -> list[Numbers]:
        return [self._convolved(axis, None) for axis in self.axes]

    def _convolved(self, axis: Axis, lacking: int | None) -> Numbers:
        parts = []
        for member, step in zip(axis.units, axis.steps, strict=True):
            number = self._number(member, lacking)
            pmf = tables.binomial_pmf(number, self.places ** self.units[member].size)
            wide = np.zeros((len(pmf), number * abs(step) + 1))
            wide[:, :: abs(step)] = pmf if step > 0 else pmf[:, ::-1]
            parts.append(wide)
        if len(parts) == 1:
            return parts[0]
        width = 1 + sum(part.shape[1] - 1 for part in parts)
        fast = next_fast_len(width, real=True)
        spectrum = math.prod(np.fft.rfft(part, fast) for part in parts)
        return np.maximum(np.fft.irfft(spectrum, fast)[:, :width], 0)
