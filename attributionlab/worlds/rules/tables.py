r"""Shapley values and their rising and falling parts from a table of all counts.

Merged cells have N_j units of k_j pixels. A unit counts when all its pixels are there. By the
multilinear extension (Owen, 1972) a pixel of cell c has the value

.. math:: \phi_c = \int_0^1 p^{k_c - 1} E[f(n + e_c) - f(n)] \, dp, \quad n_j \sim Bin(N_j, p^{k_j}),

with n_c of the N_c - 1 other units. Integrated over p for each entry of the table this is a sum over
entries. With s_g units present of the S_g that have g pixels,

.. math:: \phi_c = \sum_n \frac{N_c - n_c}{N_c} H(n) M_c(s) [f(n + e_c) - f(n)], \qquad
    H(n) = \prod_g \prod_{j \in g} \binom{N_j}{n_j} / \binom{S_g}{s_g}, \qquad
    M_c(s) = \int_0^1 \frac{p^{k_c - 1}}{1 - p^{k_c}}
        \prod_g \binom{S_g}{s_g} p^{g s_g} (1 - p^g)^{S_g - s_g} dp,

and with one size alone M_c = 1 / (k (S - s)): no quadrature at all. Where sizes are mixed,
Gauss-Legendre nodes are exact: wherever the weight is not 0 the integrand is a polynomial.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_legendre

from attributionlab.base import Numbers
from attributionlab.worlds.rules.cells import Unit

Integers = NDArray[np.int64]

MOST_ENTRIES = 3_000_000
"""Entries of the largest table: 24 MB."""
MOST_DIFFERENCES = 20_000_000
"""Entries times cells: some tenths of a second."""
EXACT, BY_QUADRATURE = 2.0**-46, 2.0**-38
"""Relative errors of a weighted sum over a table. A weight is a product and quotient of at most 30
roundings, a difference of float64 one, and numpy's pairwise sum of 3e6 terms some 40: less than 2^7
roundings of 2^-53. A pmf by logarithms has an exponent off by less than 2^-52 (745 + 2 x 3600), its
parts being at most log C(5184, 2592) = 3590 where it does not underflow: 2^-39, 2^-38 with the rest."""


class Parts(NamedTuple):
    """What a pixel of a cell adds, over all orders of arrival.

    `rising`, `falling`: S+ = E max(marginal, 0) and S- = E max(-marginal, 0).
    """

    rising: float
    falling: float


def entries(units: Sequence[Unit]) -> int:
    """How many entries the table of units has."""
    return math.prod(unit.number + 1 for unit in units)


def fits(units: Sequence[Unit]) -> bool:
    """Whether there is a table: small enough, and no tile whose pixels count by themselves, too."""
    size = entries(units)
    small = size <= MOST_ENTRIES and size * len(units) <= MOST_DIFFERENCES
    return small and all(unit.is_pure for unit in units)


class CountGrid:
    """A table over counts: its entries, differences and weights.

    `units`: pure ones, one an axis.
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = units
        self.shape = tuple(unit.number + 1 for unit in units)
        self.totals = Counter[int]()
        for unit in units:
            self.totals[unit.size] += unit.number
        self._axes = [
            self._along(np.arange(unit.number + 1, dtype=np.int64), axis)
            for axis, unit in enumerate(units)
        ]
        self._present = {
            size: sum(
                axis for unit, axis in zip(units, self._axes, strict=True) if unit.size == size
            )
            for size in self.totals
        }
        self._shared = self._hypergeometric()
        self._mixed: dict[int, Numbers] = {}

    def forms(self) -> list[Integers]:
        """The value of each form in the table, as far as it must be broadcast."""
        found = []
        for form in range(len(self.units[0].whole)):
            total: Integers = np.zeros([1] * len(self.units), dtype=np.int64)
            for unit, axis in zip(self.units, self._axes, strict=True):
                if unit.whole[form]:
                    total = total + unit.whole[form] * axis
            found.append(total)
        return found

    def differences(self, table: NDArray[Any], unit: int, step: int = 0) -> NDArray[Any]:
        """What one more of a unit does, and a step, for all others."""
        found = np.diff(table, axis=unit)
        return found + step if step else found

    def error(self, rising: float, falling: float, largest: float) -> float:
        """Bound of the error of each of two weighted sums, of differences up to the largest."""
        return (EXACT if len(self.totals) == 1 else BY_QUADRATURE) * (rising + falling)

    def weights(self, unit: int) -> Numbers:
        """Weights of the differences of a unit."""
        size, number = self.units[unit].size, self.units[unit].number
        if size not in self._mixed:
            self._mixed[size] = self._shared * self._mixture(size)
        share = np.arange(number, -1, -1, dtype=np.float64) / number
        weights: Numbers = self._mixed[size] * self._along(share, unit)
        return weights[(slice(None),) * unit + (slice(0, number),)]

    def _along(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        return values.reshape([-1 if each == axis else 1 for each in range(len(self.units))])

    def _hypergeometric(self) -> Numbers:
        """H(n), from mantissas and exponents of binomial coefficients."""
        mantissa: Numbers = np.ones([1] * len(self.units))
        exponent: NDArray[np.int32] = np.zeros([1] * len(self.units), dtype=np.int32)
        for axis, unit in enumerate(self.units):
            of_unit = binomials(unit.number)
            mantissa = mantissa * self._along(of_unit[0], axis)
            exponent = exponent + self._along(of_unit[1], axis)
        for size, total in self.totals.items():
            of_group = binomials(total)
            mantissa = mantissa / of_group[0][self._present[size]]
            exponent = exponent - of_group[1][self._present[size]]
        return np.asarray(np.ldexp(mantissa, exponent))

    def _mixture(self, size: int) -> Numbers:
        """M(s) in the table, for a unit of this size."""
        sizes = tuple(sorted(self.totals))
        table = _mixtures(tuple((each, self.totals[each]) for each in sizes), size)
        found: Numbers = table[tuple(self._present[each] for each in sizes)]
        return found


@lru_cache(maxsize=256)
def binomials(number: int) -> tuple[Numbers, NDArray[np.int32]]:
    """Mantissas and exponents of all C(number, n), correctly rounded."""
    mantissas, exponents, exact = [], [], 1
    for n in range(number + 1):
        bits = exact.bit_length()
        mantissas.append(exact / (1 << bits))
        exponents.append(bits)
        exact = exact * (number - n) // (n + 1)
    return np.array(mantissas), np.array(exponents, dtype=np.int32)


@lru_cache(maxsize=16)
def _mixtures(groups: tuple[tuple[int, int], ...], added: int) -> Numbers:
    """M for all numbers of present units of each size; 0 where there is no unit left to add."""
    (size, total), *others = groups
    if not others:
        left = total - np.arange(total + 1.0)
        return np.asarray(np.divide(1, size * left, out=np.zeros(total + 1), where=left > 0))
    pixels = sum(size * total for size, total in groups)
    nodes, weights = legendre((pixels + 1) // 2 + 1)
    weights = weights * nodes ** (added - 1) / -np.expm1(added * np.log(nodes))
    of_group = [binomial_pmf(total, nodes**size) for size, total in groups]
    found = weights[:, None] * of_group[0]
    if len(others) == 1:
        return np.asarray(found.T @ of_group[1])
    middle = [(found * each[:, None]).T @ of_group[2] for each in of_group[1].T]
    return np.stack(middle, axis=1)


@lru_cache(maxsize=64)
def legendre(nodes: int) -> tuple[Numbers, Numbers]:
    """Nodes and weights of Gauss-Legendre quadrature in [0, 1], exact for degree 2 nodes - 1."""
    places, weights = roots_legendre(nodes)
    return (places + 1) / 2, weights / 2


def binomial_pmf(number: int, probabilities: Numbers) -> Numbers:
    """P(n of `number`) at each probability in (0, 1), (Q, number + 1); each row sums to 1."""
    mantissas, exponents = binomials(number)
    logarithms = np.log(mantissas) + exponents * math.log(2)
    n = np.arange(number + 1)
    shown, hidden = np.log(probabilities)[:, None], np.log1p(-probabilities)[:, None]
    pmf = np.exp(logarithms + n * shown + (number - n) * hidden)
    return np.asarray(pmf / pmf.sum(1, keepdims=True))


def parts(differences: NDArray[Any], weights: Numbers) -> Parts:
    """Weighted sums of the positive differences and of the negative ones."""
    lowest, highest = differences.min(initial=0), differences.max(initial=0)
    signed = differences * weights
    if lowest >= 0:
        return Parts(float(signed.sum()), 0.0)
    if highest <= 0:
        return Parts(0.0, -float(signed.sum()))
    rising = np.maximum(signed, 0)
    return Parts(float(rising.sum()), float((rising - signed).sum()))
