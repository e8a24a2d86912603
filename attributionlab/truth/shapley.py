r"""Exact Shapley values of counting networks, whose players are the pixels of an image.

An absent pixel has the background's color, so a coalition is what it leaves of each color: counts
k_1, ..., k_K out of n_1, ..., n_K. Pixels of one color are interchangeable.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.errors import refuse_if

__all__ = ["ShapleyValues", "softmax_shapley", "symmetric_shapley"]

Numbers = NDArray[np.float64]

NEGLIGIBLE = 40.0
"""Sums and integrals end where what is left out is e^-40 of the whole, below float64's precision."""
STEP = 0.25
"""Step of s. A trapezoidal sum errs by e^(-2 pi b / step) for integrands analytic up to b from the real
line. Gumbel's density is for b < pi/2: 7e-18."""
COLDEST = 1 / 40
"""At lower temperatures too the largest counts share the probability, up to e^-40."""
TOLERANCE, FINEST = 1e-11, 2.0**-6


class ShapleyValues(NamedTuple):
    """Values of one pixel of each class, and how far off they may be.

    Parameters
    ----------
    values : Tensor of float64, (K,)
        0 for a class without pixels: there is no such player.
    error : float
        Estimate of sum_c n_c |error of phi_c|, in units of the output: the larger of what efficiency
        misses and what halving the last step of the integral over u changed.
    """

    values: Float64[Tensor, " classes"]
    error: float


def symmetric_shapley(empty: float, full: float, players: int) -> float:
    """Value of each of n interchangeable players: (v(n) - v(0)) / n, by symmetry and efficiency.

    Parameters
    ----------
    empty, full : float
        What the game gives to nobody and to all players.
    players : int
        n; without any the value is 0.

    Examples
    --------
    >>> from attributionlab.truth import symmetric_shapley
    >>> symmetric_shapley(0, 65 % 30, 65) * 65  # 65 white pixels, counted modulo 30
    5.0
    """
    return (full - empty) / players if players else 0.0


def softmax_shapley(
    counts: Int[Tensor, " classes"], target: int, temperature: float
) -> ShapleyValues:
    r"""Shapley values of p_t = softmax(counts / T)_t, for one pixel of each class.

    A player comes at a random time; those before it at time u are each there with probability u:

    .. math::
        \phi_c = \int_0^1 E[v(k + e_c) - v(k)] \, du, \qquad
        k_j \sim Bin(n_j, u), \quad k_c \sim Bin(n_c - 1, u).

    With Gumbel's cumulative :math:`h(d) = exp(-e^d)` and density :math:`g(d) = exp(d - e^d)` the
    softmax is an integral of a product (the Gumbel-max trick; or 1 / S as the integral of e^{-aS}
    with a = e^{-s}),

    .. math::
        v(k) = \int g(k_t / T - s) \prod_{j \ne t} h(k_j / T - s) \, ds,

    and so is its expectation, because the k_j are independent. For c other than t

    .. math::
        \phi_c = \int_0^1 \int E[g_t] \, E[h_c(k_c + 1) - h_c(k_c)]
            \prod_{j \ne t, c} E[h_j] \, ds \, du

    and phi_t is minus the sum of the values that a pixel of t has for the other outputs, since all
    outputs sum to 1. No term of these sums has the other sign: nothing cancels.

    Parameters
    ----------
    counts : Tensor of int, (K,)
        n, how many pixels count for each class; K at least 1.
    target : int
        t.
    temperature : float
        T > 0.

    Returns
    -------
    ShapleyValues
        Positive for the target, negative for the others (0 where K = 1).

    Raises
    ------
    AttributionLabError
        For negative counts, a target out of range, or a temperature that is not positive and finite.

    Notes
    -----
    Both integrals are trapezoidal sums over the whole line, which converge exponentially: of s with a
    fixed step, of the logit of u with a step that is halved until that changes nothing. Sums over a
    wide binomial skip counts, for the same reason: in steps of q they err by its characteristic
    function at 2 pi / q. Some 0.1 s for the counts of an image of 224 x 224 pixels.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.truth import softmax_shapley
    >>> values, error = softmax_shapley(torch.tensor([3, 1]), target=0, temperature=2.0)
    >>> round(3 * float(values[0]) + float(values[1]), 9)  # sigmoid(1) - 1/2
    0.231058579
    """
    pixels = counts.tolist()
    problems = [f"a count is {n}: none is below 0" for n in pixels if n < 0][:1]
    if not 0 <= target < len(pixels):
        problems.append(f"target is {target}: take 0 to {len(pixels) - 1}")
    if not 0 < temperature < math.inf:
        problems.append(f"temperature is {temperature}: take a positive, finite one")
    refuse_if(problems, "softmax_shapley")
    others, index, copies = np.unique(
        np.array(pixels[:target] + pixels[target + 1 :], dtype=np.int64),
        return_inverse=True,
        return_counts=True,
    )
    game = _Game([int(n) for n in others], copies, pixels[target], max(temperature, COLDEST))
    distinct, change = game.values()
    values = np.insert(distinct[index], target, distinct[-1])
    scaled = np.array(pixels) / temperature
    shares = np.exp(scaled - scaled.max())
    gain = shares[target] / shares.sum() - 1 / len(pixels)
    gap = abs(float((np.array(pixels) * values).sum() - gain))
    return ShapleyValues(torch.from_numpy(values), max(gap, change))


class _Kernels(NamedTuple):
    """Of the difference d = k / T - s: h(d), g(d) and h(d + 1 / T) - h(d)."""

    below: Numbers
    density: Numbers
    rise: Numbers


class _Grid(NamedTuple):
    """Where s is evaluated, in counts (s T): `lattice` (cells,) plus `phases` within a cell."""

    lattice: NDArray[np.int64]
    step: float

    def points(self, phases: Numbers) -> Numbers:
        return (self.lattice[:, None] + phases).ravel()


@dataclass(frozen=True)
class _Game:
    """Probability of one class among others, of which equal ones are treated once.

    Parameters
    ----------
    others : list of int
        Distinct counts of the classes that are not the target.
    copies : array of int
        How many classes have each of them.
    target : int
        Count of the target.
    temperature : float
        T, at least `COLDEST`.
    """

    others: list[int]
    copies: NDArray[np.int64]
    target: int
    temperature: float

    def values(self) -> tuple[Numbers, float]:
        """Values of the others' pixels and, last, of the target's; and their last change, summed."""
        pixels = np.array([*self.others, self.target])
        weights = np.append(self.copies, 1) * pixels
        # logit(u) = WIDTH sinh(x / WIDTH): even where the counts change with u, sparse in the tails
        width = 12.0
        largest = NEGLIGIBLE + math.log(1 + int(weights.sum()))
        end = width * math.asinh(largest / width)
        total, values, change, step = np.zeros(len(pixels)), np.zeros(len(pixels)), math.inf, 1.0
        size = 1.0
        while change > TOLERANCE * min(1.0, size) and step >= FINEST:
            nodes = np.arange(-math.ceil(end / step), math.ceil(end / step) + 1)
            for x in nodes[nodes % 2 != 0] * step if step < 1 else nodes:
                logit = width * math.sinh(x / width)
                slope = math.cosh(x / width) * _sigmoid(logit) * _sigmoid(-logit)
                total += slope * self.marginal_values(logit)
            change = float((weights * abs(step * total - values)).sum())
            values, step = step * total, step / 2
            size = float((weights * abs(values)).sum())
        return np.where(pixels > 0, values, 0.0), change

    def marginal_values(self, logit: float) -> Numbers:
        """E[v(k + e_c) - v(k)] at one u: for each of the others and, last, for the target."""
        if not self.others:
            return np.zeros(1)
        grid = self.grid(logit)
        below, density, rise = (
            np.stack(parts)
            for parts in zip(*(self.expected(n, logit, grid) for n in self.others), strict=True)
        )
        of_target = self.expected(self.target, logit, grid)
        # The product over all other classes but one of the kind c, without a division by it
        powers = below ** self.copies[:, None]
        ones = np.ones_like(powers[:1])
        before = np.cumprod(np.concatenate([ones, powers[:-1]]), 0)
        after = np.cumprod(np.concatenate([ones, powers[:0:-1]]), 0)[::-1]
        rest = before * after * below ** (self.copies - 1)[:, None]
        for_others = (of_target.density * rest * rise).sum(1)
        outputs = (self.copies[:, None] * density * rest).sum(0)
        return grid.step * np.append(for_others, -(outputs * of_target.rise).sum())

    @property
    def cell(self) -> int:
        """Counts between two points of the lattice."""
        return max(1, math.floor(STEP * self.temperature))

    @property
    def phases(self) -> Numbers:
        """Points of s within a cell, in counts: several where a single count is many steps of s."""
        number = max(1, math.ceil(1 / (STEP * self.temperature)))
        return np.arange(number) / number

    def grid(self, logit: float) -> _Grid:
        """The range of s in which any product is more than negligible."""
        pixels = [*self.others, self.target]
        bounds = [_bounds(n, logit) for n in pixels]
        lowest = max(low for low, _ in bounds) - 4.5 * self.temperature  # h(4.5) = 8e-40
        # Far up the integrands, products of two densities, fall as e^(-2s).
        reach = NEGLIGIBLE / 2 + math.log(1 + int(self.copies.sum()))
        highest = max(high for _, high in bounds) + reach * self.temperature
        # At each phase the sum over cells is one over products of binomials of these widths: all but
        # those that lie below the range.
        narrowest = min(
            _deviation(n, logit)
            for n, (_, high) in zip(pixels, bounds, strict=True)
            if high >= lowest
        )
        skip = 1
        if len(self.phases) > 1:
            skip = max(1, math.floor(narrowest / (1.5 * math.sqrt(1 + int(self.copies.sum())))))
        spacing = self.cell * skip
        first, last = math.floor(lowest / self.cell), math.ceil(highest / self.cell)
        lattice = np.arange(first * self.cell, last * self.cell + spacing, spacing)
        return _Grid(lattice, spacing / len(self.phases) / self.temperature)

    def expected(self, n: int, logit: float, grid: _Grid) -> _Kernels:
        """E[h], E[g] for Bin(n, u) and the expected rise of h with one more, for Bin(n - 1, u)."""
        deviation = _deviation(n, logit)
        if self.cell > 1 and self.temperature >= 2 * deviation:
            # The kernels are wide: few of the binomial's counts tell as much as all.
            spacing = max(1, math.floor(deviation / 2.2))
            counts, p, p_without = _binomial(n, logit, spacing)
            kernels = self.kernels(counts[:, None] - grid.points(self.phases))
            return _Kernels(p @ kernels.below, p @ kernels.density, p_without @ kernels.rise)
        # The binomial is wide: only the counts near s make a difference, and they are on the lattice.
        counts, p, p_without = _binomial(n, logit, self.cell)
        least, most = self.table_range
        cells = grid.lattice // self.cell
        places = (counts / self.cell).astype(np.int64) - (int(cells[0]) + least)
        length = int(cells[-1] - cells[0]) + most - least + 1
        inside = (places >= 0) & (places < length)
        padded = np.zeros((2, length))
        padded[:, places[inside]] = p[inside], p_without[inside]
        views = np.lib.stride_tricks.sliding_window_view(padded, most - least + 1, axis=1)
        near, near_without = np.ascontiguousarray(views[:, cells - cells[0]])  # (cells, table)
        # h is 1 for all counts below the table.
        lower = p[places < 0].sum() + np.append(0.0, np.cumsum(padded[0]))[cells - cells[0]]
        return _Kernels(
            (near @ self.table.below + lower[:, None]).ravel(),
            (near @ self.table.density).ravel(),
            (near_without @ self.table.rise).ravel(),
        )

    @cached_property
    def table_range(self) -> tuple[int, int]:
        """Cells below and above s beyond which h is 1 or 0, and does not rise."""
        below = math.ceil((NEGLIGIBLE * self.temperature + 1) / self.cell)
        return -below, math.ceil(4.5 * self.temperature / self.cell) + 1

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


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _deviation(n: int, logit: float) -> float:
    """Standard deviation of Bin(n, u)."""
    return math.sqrt(n * _sigmoid(logit) * _sigmoid(-logit))


def _bounds(n: int, logit: float) -> tuple[int, int]:
    """Counts outside of which Bin(n, u) has less than e^-40 on each side (Bernstein's inequality)."""
    reach = NEGLIGIBLE / 3
    reach += math.sqrt(reach**2 + 2 * NEGLIGIBLE * _deviation(n, logit) ** 2)
    mean = n * _sigmoid(logit)
    return max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach))


def _binomial(n: int, logit: float, spacing: int) -> tuple[Numbers, Numbers, Numbers]:
    """Multiples k of `spacing`, and there `spacing` times Bin(n, u) and Bin(n - 1, u)."""
    low, high = _bounds(n, logit)
    k = np.arange(low, high + 1, dtype=np.float64)
    # Ratios of neighbors; factorials of 1e5 would cost five digits.
    logs = np.concatenate([[0.0], np.cumsum(np.log((n - k[:-1]) / (k[:-1] + 1)) + logit)])
    p = np.exp(logs - logs.max())
    p /= p.sum()
    kept = slice(-low % spacing, None, spacing)
    k, p = k[kept], spacing * p[kept]
    p_without = p * (n - k) / (n * _sigmoid(-logit)) if n else np.zeros_like(p)
    return k, p, p_without
