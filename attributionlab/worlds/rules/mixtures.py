r"""Shapley values where the table of counts is too large, from distributions of sub-expressions.

Let each unit of cell j be there with probability q_j, all independently, and F(q) = E f. Then
dF/dq_c = N_c E[f(n + e_c) - f(n)], n_c of the other N_c - 1 units, because F is linear in the
probability of every single unit and those of a cell have the same derivative. With q_j = p^{k_j},

.. math:: \phi_c = \int_0^1 p^{k_c - 1} E[f(n + e_c) - f(n)] \, dp
    = \frac{1}{N_c} \int_0^1 p^{k_c - 1} \frac{\partial F}{\partial q_c} \, dp,

one pass backward through F for all cells. F itself needs no table where no count feeds two operands of
an operation: their values are independent, so a sum has the convolution of their distributions, a
minimum the product of their survival functions P(X >= v), a function of one of them its image, and an
if-else the mixture of its branches, which may share counts with each other because only one is taken.
A count that feeds two operands is conditioned upon: F = E[F given its value].

The quadrature is exact with n // 2 + 1 nodes of n pixels, as F is a polynomial. Fewer are tried first:
nodes double until no value changes, and until values add up to f(x) - f(b). That is a check, no proof.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.fft import next_fast_len
from torch import Tensor

from attributionlab.base import Numbers
from attributionlab.worlds.rules.cells import Unit
from attributionlab.worlds.rules.forms import (
    Coefficients,
    Form,
    Node,
    Readout,
    Tree,
    apply,
    forms_in,
    interval,
    value,
)
from attributionlab.worlds.rules.tables import binomials, legendre

FIRST_NODES = 64
TOLERANCE, MOST_MISSED = 1e-11, 2e-10
"""Change by doubled nodes, and missed efficiency: as shares of the largest value that f may have, and
in its units."""
WIDEST = 2**15
"""Values of a sub-expression times values of the counts that are conditioned upon."""
AT_ONCE = 2**22
"""Probabilities in one tensor."""


class Distribution(NamedTuple):
    """Distributions of an integer, (nodes, cases, values); the first value is `low`."""

    low: int
    weights: Tensor


def shared_units(tree: Tree, forms: Sequence[Coefficients], units: Sequence[Unit]) -> list[int]:
    """Units that feed two operands of an operation, and have to be conditioned upon."""
    feeds = {
        form: [at for at, unit in enumerate(units) if unit.whole[index]]
        for index, form in enumerate(forms)
    }
    return sorted(at for at, times in _uses(tree, feeds).items() if times > 1)


def _uses(tree: Tree, feeds: Mapping[Coefficients, Sequence[int]]) -> Counter[int]:
    """How many operands at once each unit feeds at most."""
    if isinstance(tree, Form):
        return Counter(feeds[tree.coefficients] if tree.coefficients else ())
    below = [_uses(child, feeds) for child in tree.children]
    if tree.kind == "if":
        return below[0] + (below[1] | below[2])
    return sum(below, Counter[int]())


def is_narrow(tree: Tree, units: Sequence[Unit]) -> bool:
    """Whether distributions of all sub-expressions are small enough to be worked out."""
    if not all(unit.is_pure for unit in units):
        return False
    forms = forms_in([tree])
    ranges = form_ranges(forms, units)
    cases = math.prod(units[at].number + 1 for at in shared_units(tree, forms, units))
    return cases * widest(tree, ranges) <= WIDEST


def form_ranges(
    forms: Sequence[Coefficients], units: Sequence[Unit]
) -> dict[Coefficients, tuple[int, int]]:
    """Least and largest value of each form."""
    return {
        form: (
            sum(unit.number * min(0, unit.whole[at]) for unit in units),
            sum(unit.number * max(0, unit.whole[at]) for unit in units),
        )
        for at, form in enumerate(forms)
    }


def widest(tree: Tree, ranges: Mapping[Coefficients, tuple[int, int]]) -> int:
    """How many values a sub-expression has at most; the root's are summed up, not spread."""
    low, high = interval(tree, ranges)
    below = tree.children if isinstance(tree, Node) else ()
    return max([high - low + 1, *(widest(child, ranges) for child in below)])


class Extender:
    """The multilinear extension of what is made of some trees.

    - `forms`: what the units' vectors are about.
    - `units`: pure ones.
    - `shared`: units that are conditioned upon.
    - `width`: values of the widest sub-expression.
    """

    largest: float
    """Largest value of the output, or more."""
    change: float
    """f(x) - f(b)."""

    def __init__(
        self,
        forms: Sequence[Coefficients],
        units: Sequence[Unit],
        shared: Sequence[int],
        width: int,
    ) -> None:
        self.units, self.shared, self.width = units, shared, width
        self.index = {form: at for at, form in enumerate(forms)}
        sizes = [units[at].number + 1 for at in shared]
        grid = np.indices(sizes, dtype=np.int64)
        self.cases = grid.reshape(len(sizes), math.prod(sizes))  # (shared units, cases)

    def expectation(self) -> Tensor:
        """F at each node."""
        raise NotImplementedError

    def extension(self) -> tuple[Numbers, Numbers]:
        """Values of one pixel of each unit, with as many nodes as it takes, and how far off each may
        be.
        """
        pixels = sum(unit.size * unit.number for unit in self.units)
        exact = pixels // 2 + 1
        counts = [FIRST_NODES]
        while counts[-1] < exact:
            counts.append(min(2 * counts[-1], exact))
        sizes = np.array([unit.size * unit.number for unit in self.units])
        allowed = min(TOLERANCE * self.largest, MOST_MISSED)
        values, changes = self.values(counts[0]), np.zeros(len(self.units))
        for _, nodes in pairwise(counts):
            before, values = values, self.values(nodes)
            changes = abs(values - before)
            missed = abs((sizes * values).sum() - self.change)
            if (sizes * changes).sum() <= allowed and missed <= allowed:
                break
        missed = abs((sizes * values).sum() - self.change)
        # Nothing is known of where the rest is missed: any cell's pixels may miss all of it.
        return values, changes + (missed + allowed) / sizes

    def values(self, nodes: int) -> Numbers:
        """Values with so many nodes, some at a time."""
        places, weights = legendre(nodes)
        at_once = max(1, AT_ONCE // (self.cases.shape[1] * self.width))
        total = np.zeros(len(self.units))
        for start in range(0, nodes, at_once):
            some = slice(start, start + at_once)
            total += self._part(places[some], weights[some])
        return total

    def _part(self, places: Numbers, weights: Numbers) -> Numbers:
        self.probabilities = [
            torch.from_numpy(places**unit.size).requires_grad_() for unit in self.units
        ]
        expected = self.expectation() * torch.from_numpy(weights)
        slopes = torch.autograd.grad(expected.sum(), self.probabilities, allow_unused=True)
        return np.array(
            [
                0.0
                if slope is None
                else float((slope.numpy() * places ** (unit.size - 1)).sum()) / unit.number
                for slope, unit in zip(slopes, self.units, strict=True)
            ]
        )

    def _binomial(self, at: int) -> Tensor:
        """P(n of the unit's number are there), differentiable, (nodes, number + 1)."""
        number, q = self.units[at].number, self.probabilities[at][:, None]
        mantissas, exponents = binomials(number)
        logarithms = torch.from_numpy(np.log(mantissas) + exponents * math.log(2))
        n = torch.arange(number + 1, dtype=torch.float64)
        return (logarithms + n * q.log() + (number - n) * torch.log1p(-q)).exp()

    def distribution(self, tree: Tree) -> Distribution:
        """The distribution of a tree at the nodes, given each case of what is conditioned upon."""
        if isinstance(tree, Form):
            return self._of_form(tree)
        parts = [self.distribution(child) for child in tree.children]
        match tree.kind:
            case "sum":
                scaled = [_scaled(*each) for each in zip(parts, tree.weights, strict=True)]
                return _summed(scaled)
            case "max":
                return _largest(parts)
            case "min":
                return _negative(_largest([_negative(part) for part in parts]))
            case "if":
                return _chosen(*parts)
        return _image(tree, parts[0])

    def _of_form(self, form: Form) -> Distribution:
        nodes = len(self.probabilities[0]) if self.probabilities else 1
        one = torch.ones(nodes, 1, 1, dtype=torch.float64)
        if not form.coefficients:
            return Distribution(form.constant, one)
        index = self.index[form.coefficients]
        weights = [unit.whole[index] for unit in self.units]
        alone = [
            _scaled(Distribution(0, self._binomial(at)[:, None]), weight)
            for at, weight in enumerate(weights)
            if weight and at not in self.shared
        ]
        low, spread = _summed([Distribution(form.constant, one), *alone])
        moved = [weights[at] for at in self.shared]
        if not any(moved):
            return Distribution(low, spread)
        shifts = np.array(moved) @ self.cases  # (cases,)
        start, width = int(shifts.min()), spread.shape[-1]
        wide = np.arange(width + int(shifts.max()) - start)
        taken = wide - (shifts - start)[:, None]  # (cases, values)
        inside = (taken >= 0) & (taken < width)
        padded = torch.nn.functional.pad(spread[:, 0], (0, 1))
        index_ = torch.from_numpy(np.where(inside, taken, width))
        return Distribution(low + start, padded[:, index_])


class OneTree(Extender):
    """The extension of one tree that `is_narrow`, read out; vectors of units are of its forms."""

    def __init__(self, tree: Tree, units: Sequence[Unit], readout: Readout) -> None:
        forms = forms_in([tree])
        ranges = form_ranges(forms, units)
        super().__init__(forms, units, shared_units(tree, forms, units), widest(tree, ranges))
        self.tree, self.readout = tree, readout
        self.largest = float(abs(readout([np.array(interval(tree, ranges))])).max()) or 1.0
        full, empty = (readout([value(tree, each)]) for each in ends(forms, units))
        self.change = float(full - empty)

    def expectation(self) -> Tensor:
        low, spread = self.distribution(self.tree)
        reads = torch.from_numpy(self.readout([np.arange(low, low + spread.shape[-1])]))
        given = spread @ reads  # (nodes, cases), or one case for all
        cases = torch.ones(len(given), 1, dtype=torch.float64)
        for at in self.shared:
            pmf = self._binomial(at)
            cases = (cases[:, :, None] * pmf[:, None, :]).flatten(1)
        return (given * cases).sum(1)


def ends(
    forms: Sequence[Coefficients], units: Sequence[Unit]
) -> tuple[dict[Coefficients, Any], dict[Coefficients, Any]]:
    """The forms when all units are there, and when none is."""
    totals = [sum(unit.number * unit.whole[at] for unit in units) for at in range(len(forms))]
    full = dict(zip(forms, map(np.int64, totals), strict=True))
    return full, dict.fromkeys(forms, np.int64(0))


def _scaled(part: Distribution, weight: int) -> Distribution:
    """The distribution of a multiple."""
    low, spread = part
    if abs(weight) > 1:
        wide = torch.zeros(
            *spread.shape[:-1], (spread.shape[-1] - 1) * abs(weight) + 1, dtype=torch.float64
        )
        wide[..., :: abs(weight)] = spread
        spread = wide
    scaled = Distribution(abs(weight) * low, spread)
    return _negative(scaled) if weight < 0 else scaled


def _negative(part: Distribution) -> Distribution:
    low, spread = part
    return Distribution(-(low + spread.shape[-1] - 1), spread.flip(-1))


def _summed(parts: Sequence[Distribution]) -> Distribution:
    """The distribution of a sum of independent parts."""
    low, spread = parts[0]
    for other_low, other in parts[1:]:
        low += other_low
        if other.shape[-1] == 1 or spread.shape[-1] == 1:
            spread = spread * other
            continue
        width = spread.shape[-1] + other.shape[-1] - 1
        fast = next_fast_len(width, real=True)
        both = torch.fft.rfft(spread, fast) * torch.fft.rfft(other, fast)
        spread = torch.fft.irfft(both, fast)[..., :width]
    return Distribution(low, spread)


def _largest(parts: Sequence[Distribution]) -> Distribution:
    """The distribution of the largest of independent parts, from P(X <= v)."""
    low = max(each.low for each in parts)
    high = max(each.low + each.weights.shape[-1] for each in parts)
    values = torch.arange(low - 1, high)
    below = torch.ones(1, 1, 1, dtype=torch.float64)
    for each in parts:
        cumulative = torch.nn.functional.pad(each.weights.cumsum(-1), (1, 0))
        places = (values - each.low + 1).clamp(0, each.weights.shape[-1])
        below = below * cumulative[..., places]
    return Distribution(low, below.diff(dim=-1))


def _chosen(condition: Distribution, then: Distribution, otherwise: Distribution) -> Distribution:
    """The mixture of two branches, by a condition that is independent of them."""
    holds = condition.weights[..., max(0, 1 - condition.low) :].sum(-1, keepdim=True)
    low = min(then.low, otherwise.low)
    high = max(each.low + each.weights.shape[-1] for each in (then, otherwise))
    shared = [
        torch.nn.functional.pad(
            each.weights, (each.low - low, high - each.low - each.weights.shape[-1])
        )
        for each in (then, otherwise)
    ]
    return Distribution(low, holds * shared[0] + (1 - holds) * shared[1])


def _image(node: Node, part: Distribution) -> Distribution:
    """The distribution of a function of one integer."""
    low, spread = part
    images = apply(node, [np.arange(low, low + spread.shape[-1])])
    first = int(images.min())
    gathered = torch.zeros(*spread.shape[:-1], int(images.max()) - first + 1, dtype=torch.float64)
    return Distribution(first, gathered.index_add(-1, torch.from_numpy(images - first), spread))
