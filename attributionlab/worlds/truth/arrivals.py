r"""Players that come at random times, independently: what a class counts at time u, and means over u.

A player that comes at a time drawn uniformly from [0, 1] finds each other player there with
probability u. Averaging over u averages over all orders, so a Shapley value is an integral over u of an
expectation over independent players.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from attributionlab.base import Numbers

NEGLIGIBLE = 45.0
"""Sums and integrals end where what is left out is e^-45 = 3e-20 of the whole."""
PRECISE = 33.0
"""The mean over u of n players, at N nodes, errs by less than 3 (1 + (n - 1) / 2N) e^-33 / n of the
largest effect: 1e-14 / n times a factor that grows as sqrt(n / log n), 25 at 224 x 224 players."""


class Times(NamedTuple):
    """Nodes of a mean over u.

    Its arrays are read-only: all who ask for as many players share them.

    `u`, `v`: times, and 1 - u; both to full relative precision. `weights`: weights of sum 1. `error`:
    bound of the mean's error for players whose largest effect is 1.
    """

    u: Numbers
    v: Numbers
    weights: Numbers
    error: float


@lru_cache(maxsize=64)
def times(players: int) -> Times:
    r"""Gauss-Legendre nodes for the mean over u of what a player adds to `players` - 1 others.

    The expectation F(u) is a polynomial of degree D = `players` - 1, a mean of effects of size at most
    M. With :math:`u = \cos^2(\theta / 2)` and complex theta its weights sum to

    .. math::
        (|u| + |1 - u|)^D = \cosh(\Im \theta)^D \le e^{D (\Im \theta)^2 / 2},

    so its Chebyshev coefficients are at most :math:`2 M e^{-m^2 / 2D}` (shift the contour by m / D). n
    nodes are exact up to degree 2n - 1; each later term errs by at most its coefficient times
    1 + 1 / (m^2 - 1), altogether by less than

    .. math::
        3 M e^{-2 n^2 / D} (1 + D / 2n).

    So about 4.7 sqrt(D) nodes do what D / 2 would do exactly, whatever the game.

    `players`: at least 1.
    """
    degree = players - 1
    enough = math.ceil(math.sqrt(degree * (PRECISE + math.log(players)) / 2))
    number = min(enough, degree // 2 + 1) or 1
    error = 0.0
    if 2 * number - 1 < degree:
        error = 3 * math.exp(-2 * number**2 / degree) * (1 + degree / (2 * number))
    angles, weights = _gauss_legendre(number)
    nodes = np.cos(angles / 2) ** 2, np.sin(angles / 2) ** 2, weights
    for array in nodes:
        array.setflags(write=False)
    return Times(*nodes, error)


def _gauss_legendre(number: int) -> tuple[Numbers, Numbers]:
    """Angles theta of the nodes cos(theta) of [-1, 1], and weights scaled to a sum of 1.

    Newton's method in theta, on a recurrence for differences of the Legendre polynomials that takes
    1 - cos(theta) = 2 sin^2(theta / 2): nodes near the ends keep their relative precision.
    """
    n = number
    half = (np.arange((n + 1) // 2) + 0.75) * math.pi / (n + 0.5)  # theta up to pi / 2
    for _ in range(4):
        below_one = 2 * np.sin(half / 2) ** 2
        polynomial, difference = 1 - below_one, -below_one
        for k in range(1, n):
            difference = (k * difference - (2 * k + 1) * below_one * polynomial) / (k + 1)
            polynomial = polynomial + difference
        # sin^2 P' = n (P_{n-1} - cos P_n), and dP / dtheta = -sin P'
        slope = n * (below_one * polynomial - difference)
        half = half + polynomial * np.sin(half) / slope
    weights = (np.sin(half) / slope) ** 2
    if n % 2:
        half[-1] = math.pi / 2
    angles = np.concatenate([half, math.pi - half[: n // 2][::-1]])
    weights = np.concatenate([weights, weights[: n // 2][::-1]])
    return angles, weights / weights.sum()


class Distribution(NamedTuple):
    """Probabilities of the counts `low`, `low` + 1, ... of a class at one time.

    `low`: the first count. `everybody`: probabilities for everybody. `without_arriving`,
    `without_leaving`: probabilities for everybody but one pixel that arrives, or one that leaves; zeros
    if there is none.
    """

    low: int
    everybody: Numbers
    without_arriving: Numbers
    without_leaving: Numbers


@dataclass(frozen=True, order=True)
class ClassCount:
    """The pixels of one class, by what their presence does to its count.

    `arriving`: count when present. `leaving`: count when absent: the baseline is of the class there,
    and the image is not. `constant`: count either way.
    """

    arriving: int
    leaving: int = 0
    constant: int = 0

    def deviation(self, u: float, v: float) -> float:
        """Standard deviation of the count at time u = 1 - v."""
        return math.sqrt((self.arriving + self.leaving) * u * v)

    def bounds(self, u: float, v: float) -> tuple[int, int]:
        """Counts outside of which lies no more than twice e^-45 on each side."""
        low, high = _bounds(self.arriving, u, v)
        below, above = _bounds(self.leaving, v, u)
        return self.constant + low + below, self.constant + high + above

    def at(self, u: float, v: float) -> Distribution:
        """The count's distribution at time u = 1 - v."""
        low, p, p_without = _binomial(self.arriving, u, v)
        if not self.leaving:
            return Distribution(self.constant + low, p, p_without, np.zeros_like(p))
        below, q, q_without = _binomial(self.leaving, v, u)
        return Distribution(
            self.constant + low + below,
            np.convolve(p, q),
            np.convolve(p_without, q),
            np.convolve(p, q_without),
        )


def _bounds(n: int, u: float, v: float) -> tuple[int, int]:
    """Counts outside of which Bin(n, u) has less than e^-45 on each side (Bernstein's inequality)."""
    reach = NEGLIGIBLE / 3
    reach += math.sqrt(reach**2 + 2 * NEGLIGIBLE * n * u * v)
    return max(0, math.floor(n * u - reach)), min(n, math.ceil(n * u + reach))


def _binomial(n: int, u: float, v: float) -> tuple[int, Numbers, Numbers]:
    """The first of the counts that matter, Bin(n, u) and Bin(n - 1, u) there."""
    low, high = _bounds(n, u, v)
    if not n:
        return 0, np.ones(1), np.zeros(1)
    # Ratios of neighbors, from the mode outward: factorials of 1e5 would cost five digits.
    mode = min(max(math.floor((n + 1) * u), low), high)
    up = np.arange(mode, high, dtype=np.float64)
    down = np.arange(mode, low, -1, dtype=np.float64)
    p = np.concatenate(
        [
            np.cumprod(down / (n - down + 1) * (v / u))[::-1],
            np.ones(1),
            np.cumprod((n - up) / (up + 1) * (u / v)),
        ]
    )
    p /= p.sum()
    k = np.arange(low, high + 1, dtype=np.float64)
    return low, p, p * (n - k) / (n * v)
