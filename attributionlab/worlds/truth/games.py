r"""Games that a counting network plays with the pixels of one image, and their closed forms.

A player is a pixel, all channels together. There it counts for one class or for none, and absent, with
the value of a baseline, for another or for none. What the network says depends on the counts alone, so
all pixels that make the same move (from one class to another) have the same effect.

Integrated gradients of a softmax of counts along the straight line in the space of counts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from typing import Annotated, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import (
    AttributionLabError,
    Count,
    Numbers,
    Within,
    checked_arguments,
    integer_problem,
    refuse_if,
)
from attributionlab.worlds.truth.arrivals import ClassCount
from attributionlab.worlds.truth.gumbel import WARMEST
from attributionlab.worlds.truth.masks import Output
from attributionlab.worlds.truth.shapley import (
    cached_softmax_shapley,
    remainder_shapley,
    symmetric_shapley,
)

NODES = 20
"""Gauss-Legendre nodes of a panel. Of two classes the integrand is analytic in an ellipse of radius
3 + sqrt(8): the rule errs by some 5.8^-40 = 3e-31 of its maximum. K - 1 equal logits move the poles
log(K - 1) T / d along the line from the crossing with the last one (d: the difference of the slopes),
to where panels are wider: a radius of 3.6 or more for 100 classes, of 2.8 for 1,000 (2.8^-40 =
1e-18)."""
SCALE = 600
"""Products of two shares are reckoned in units of 2^-600: none underflows that still matters."""


class PathGradients(NamedTuple):
    """Mean gradients over a path.

    `values`: one for each count. `relative`: each is off by no more than this times its size, plus
    2^-1022.
    """

    values: Numbers
    relative: float


def softmax_path_gradients(
    start: Sequence[int], end: Sequence[int], target: int, temperature: float
) -> PathGradients:
    r"""Mean over the path of the gradient of p_t = softmax(k / T)_t by each count.

    .. math::
        G_c = \int_0^1 \frac{\partial p_t}{\partial k_c}(k(s)) \, ds, \qquad
        k(s) = k(0) + s \, [k(1) - k(0)], \qquad
        \frac{\partial p_t}{\partial k_c} = -\frac{p_t \, p_c}{T} \ (c \ne t)

    and G_t is minus the sum of the others, since all shifted counts give the same softmax.

    `start`, `end`: k(0) and k(1). `target`: t. `temperature`: T > 0.

    Logits are straight lines in s, so the integrand is smooth but where two of them cross, and analytic
    up to pi T / R from the real line (R: the range of the slopes), because until there all exponentials
    lie in a half-plane and cannot sum to zero. Panels double from each crossing outward, the first T /
    (4 R) wide. Crossings are rational numbers, so the logits there are exact; next to them they are
    reckoned from the crossing and relative to the largest, which up to the next crossing stays it.
    """
    slopes = np.subtract(end, start)
    spread = int(slopes.max() - slopes.min())
    unit = temperature / (4 * spread) if spread else 1.0
    integrals, nodes = np.zeros(len(start)), 0
    for left, right in pairwise(_crossings(start, slopes.tolist())):
        for anchor, reach in ((left, (right - left) / 2), (right, (left - right) / 2)):
            offsets, weights = _nodes(abs(float(reach)), unit)
            offsets = offsets if reach > 0 else -offsets
            counts = [k + anchor * slope for k, slope in zip(start, slopes.tolist(), strict=True)]
            top = max(range(len(start)), key=lambda c: (counts[c], slopes[c] * reach))
            below = np.array([float(count - counts[top]) for count in counts])
            logits = below[:, None] + (slopes - slopes[top])[:, None] * offsets
            logits /= temperature
            products = np.exp(logits + logits[target] + SCALE * math.log(2))
            integrals += (products / np.exp(logits).sum(0) ** 2) @ weights
            nodes += len(weights)
    integrals[target] = 0.0
    gradients = -np.ldexp(integrals / temperature, -SCALE)
    gradients[target] = -gradients.sum()
    # Logits down to -745 - 600 log 2 are rounded a few times and exponentiated; the rest is 0 anyway.
    return PathGradients(gradients, (8 * 1200 + nodes + 4 * len(start)) * 2.0**-53)


def _crossings(start: Sequence[int], slopes: Sequence[int]) -> list[Fraction]:
    """The ends of the path and where on it two logits are equal, sorted."""
    places = {Fraction(0), Fraction(1)}
    lines = list(zip(start, slopes, strict=True))
    for (a, up), (b, other) in combinations(lines, 2):
        if up != other:
            places.add(Fraction(b - a, up - other))
    return sorted(place for place in places if 0 <= place <= 1)


def _nodes(reach: float, unit: float) -> tuple[Numbers, Numbers]:
    """Gauss-Legendre nodes and weights of panels that double from 0, the last one up to `reach`."""
    levels = max(0, math.ceil(math.log2(reach / unit)))
    edges = np.array([0.0, *(unit * 2.0 ** np.arange(levels)), reach])
    x, w = np.polynomial.legendre.leggauss(NODES)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()


UNDERFLOW = 2.0**-1021
"""Twice the smallest normal number: more than what all roundings below that number may add up to."""


def with_signs(
    values: Numbers, errors: Numbers, signs: NDArray[np.int64]
) -> tuple[Numbers, Numbers]:
    """Values whose signs are known where a sign is not 0, and bounds that leave no doubt of it.

    Where the error alone would leave the sign open, the exact value is between 0, exclusive, and the
    far end of what the error allows. The middle of that is off by less than itself.
    """
    unclear = (abs(values) <= errors) & (signs != 0)
    middle = (signs * values + errors) / 2
    below = np.nextafter(middle, 0.0)
    return np.where(unclear, signs * middle, values), np.where(unclear, below, errors)


Counts = NDArray[np.int64]
NONE = -1
"""The class of a pixel that counts for none; in tables, the last row and column."""


class Solution(NamedTuple):
    """An attribution in closed form, and how far off it may be.

    A value that is larger than its bound has the exact value's sign. What a pixel does to a softmax has
    a known sign even where it is too small to compute, such as e^-1000. The value is then the middle of
    all numbers of that sign within the error, at least 2^-1022, and the bound the next number below.

    `values`: one value a pixel, in units of the output. `bounds`: for each pixel a bound of |value -
    exact value|, rounded by less than 2^-51 of itself; 0 only for values that are exact.
    """

    values: Float64[Tensor, "1 height width"]
    bounds: Float64[Tensor, "1 height width"]

    @property
    def error(self) -> float:
        """Bound of the sum over all pixels of |value - exact value|."""
        return float(self.bounds.sum())


@checked_arguments
@dataclass(frozen=True, eq=False)
class CountingGame:
    r"""What each pixel of one image does to a softmax of counts, a count, or its remainder.

    - `present`, `absent`: the class that a pixel counts for with the image's value and with the
      baseline's, -1 for none. A pixel that counts for the same class either way is a dummy: all its
      values are 0.
    - `classes`: K, at least 1.
    - `target`: t, the class explained.
    - `output`: "probability" is softmax(k / T)_t, "logit" is k_t, the target's count.
    - `temperature`: T from 1e-30 to 1e15, for probabilities.
    - `modulus`: N >= 2: the logit is k_t mod N.

    Raises AttributionLabError for a game that does not exist.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.worlds.truth.games import CountingGame
    >>> present = torch.tensor([[[0, 0, 1, -1]]])  # (1, 1, 4): one row of four pixels
    >>> game = CountingGame(present, torch.full_like(present, -1), 2, 0, "probability", 1.0)
    >>> game.ablation().values[0, 0, 2] < 0  # a pixel of the other class
    tensor(True)
    """

    present: Int64[Tensor, "1 height width"]
    absent: Int64[Tensor, "1 height width"]
    classes: Count
    target: int
    output: Output
    temperature: Annotated[float, Within(least=1e-30, most=WARMEST)] | None = None
    modulus: Annotated[int, Within(least=2)] | None = None

    def __post_init__(self) -> None:
        problems = integer_problem("target", self.target, 0, self.classes - 1)
        both = torch.stack([self.present, self.absent])
        wrong = both[(both < NONE) | (both >= self.classes)]
        if len(wrong):
            problems.append(
                f"a pixel is of class {int(wrong[0])}: take {NONE} to {self.classes - 1}"
            )
        if self.output == "probability":
            if self.temperature is None:
                problems.append("a probability needs a temperature: pass one")
            if self.modulus is not None:
                problems.append("a probability has no modulus: take output 'logit'")
        refuse_if(problems, "CountingGame")

    # What the network says

    def value(self, counts: Int64[Tensor, "*coalitions classes"]) -> Float64[Tensor, "*coalitions"]:
        """The explained output for counts, one of each class."""
        if self.output == "logit":
            of_target = counts[..., self.target]
            return (of_target if self.modulus is None else of_target % self.modulus).double()
        return (counts.double() / self._temperature).softmax(-1)[..., self.target]

    @cached_property
    def full(self) -> float:
        """f(x): what the network says of the image."""
        return float(self.value(torch.from_numpy(self._moves.sum(1)[:-1])))

    @cached_property
    def empty(self) -> float:
        """f(b): what it says of the baseline."""
        return float(self.value(torch.from_numpy(self._moves.sum(0)[:-1])))

    # What a single pixel does

    def ablation(self) -> Solution:
        """f(x) - f(x without pixel i): each pixel in turn takes the baseline's value."""
        full = self._moves.sum(1)
        return self._each(lambda one: self._change(full - one, full))

    def insertion(self) -> Solution:
        """f(b with pixel i) - f(b): each pixel in turn enters the baseline."""
        empty = self._moves.sum(0)
        return self._each(lambda one: self._change(empty, empty + one))

    # The value of each pixel over orders and along a path

    def shapley(self) -> Solution:
        r"""Exact Shapley values (Shapley, 1953): the mean over all orders of what a pixel adds.

        A logit is additive, so a pixel has the value of its own move. A remainder is shared equally
        where all moves go one way (`symmetric_shapley`), and is an integral over one count where they
        do not (`remainder_shapley`). For the softmax see `softmax_shapley`.

        Raises
        ------
        AttributionLabError
            For probabilities where some pixels move from one counted class to another: their counts
            are not independent, and no closed form is known.
        """
        if self.output == "probability":
            return self._softmax_shapley()
        arriving, leaving = self._moves_of(self.target)
        if self.modulus is None:
            return self._solution(*self._linear(np.eye(self.classes)[self.target]))
        if arriving and leaving:
            constant = int(self._moves[self.target, self.target])
            pixels = ClassCount(arriving, leaving, constant)
            values = remainder_shapley(pixels, self.modulus)
            return self._target_moves(*values)
        value = symmetric_shapley(self.empty, self.full, arriving + leaving)
        return self._target_moves(value, value, 2.0**-52 * abs(value))

    def count_path(self) -> Solution:
        r"""Integrated gradients along the straight line of counts (Aumann and Shapley, 1974).

        .. math::
            \phi_i = \int_0^1 \frac{\partial f}{\partial k_p}(k(s)) -
                \frac{\partial f}{\partial k_a}(k(s)) \, ds, \qquad k(s) = k(0) + s \, [k(1) - k(0)],

        for a pixel that counts for p with the image's value and for a with the baseline's: all pixels
        appear at once and by degrees. Values sum to f(x) - f(b). The path in the space of colors is
        another one: half-way between two colors lies a color that no class has. For a remainder of a
        count that moves one way, completeness along one dimension leaves (f(x) - f(b)) / n.

        Raises
        ------
        AttributionLabError
            For a remainder where some pixels arrive and others leave.
        """
        if self.modulus is not None:
            arriving, leaving = self._moves_of(self.target)
            if arriving and leaving:
                raise AttributionLabError(
                    f"count_path: {arriving} pixels raise the count and {leaving} lower it, and "
                    f"a remainder is undefined between integers: take `shapley`"
                )
            value = symmetric_shapley(self.empty, self.full, arriving + leaving)
            return self._target_moves(value, value, 2.0**-52 * abs(value))
        if self.output == "logit":
            return self._solution(*self._linear(np.eye(self.classes)[self.target]))
        start, end = self._moves.sum(0)[:-1].tolist(), self._moves.sum(1)[:-1].tolist()
        gradients = softmax_path_gradients(start, end, self.target, self._temperature)
        table, errors = self._linear(*gradients)
        if self.classes > 1:  # a single class has no slope
            errors += UNDERFLOW
        return self._solution(*with_signs(table, errors, self._signs))

    def _softmax_shapley(self) -> Solution:
        counted = self._moves[:-1, :-1]
        if self._crossing:
            raise AttributionLabError(
                f"shapley: {self._crossing} pixels count for one class in the image and for another in "
                f"the baseline, which has no closed form: estimate it with env.sampled_shapley"
            )
        parts = self._moves[:-1, NONE], self._moves[NONE, :-1], counted.diagonal()
        classes = tuple(map(ClassCount, *(each.tolist() for each in parts)))
        solved = cached_softmax_shapley(classes, self.target, self._temperature)
        table = np.zeros((self.classes + 1, self.classes + 1))
        table[:-1, NONE], table[NONE, :-1] = solved.values.numpy(), solved.leaving.numpy()
        errors = solved.relative * abs(table) + solved.absolute
        return self._solution(*with_signs(table, errors, self._signs))

    @property
    def has_closed_shapley(self) -> bool:
        """Whether `shapley` has a closed form: a logit, or no move between two counted classes."""
        return self.output == "logit" or not self._crossing

    @property
    def has_closed_count_path(self) -> bool:
        """Whether `count_path` is defined: no remainder of a count that moves both ways."""
        return self.modulus is None or not all(self._moves_of(self.target))

    @property
    def _crossing(self) -> int:
        """How many pixels move from one counted class to another."""
        counted = self._moves[:-1, :-1]
        return int(counted.sum() - counted.trace())

    # Moves: tables whose row is the class when present and whose column is the class when absent

    @cached_property
    def _moves(self) -> Counts:
        """How many pixels make each move."""
        rows = self.classes + 1
        moves = (self.present % rows * rows + self.absent % rows).flatten().cpu()
        return torch.bincount(moves, minlength=rows**2).reshape(rows, rows).numpy()

    @property
    def _temperature(self) -> float:
        """T, which `__post_init__` has seen to be a number."""
        return float(cast(float, self.temperature))

    @property
    def _signs(self) -> Counts:
        """Signs of what moves add to the probability whatever the counts; 0 if these matter."""
        of_class = -np.ones(self.classes + 1, dtype=np.int64)
        of_class[NONE], of_class[self.target] = 0, 1
        signs = np.sign(of_class[:, None] - of_class)
        return signs if self.classes > 1 else np.zeros_like(signs)

    def _moves_of(self, of_class: int) -> tuple[int, int]:
        """How many pixels raise and how many lower the count of a class."""
        constant = self._moves[of_class, of_class]
        arriving = self._moves[of_class].sum() - constant
        return int(arriving), int(self._moves[:, of_class].sum() - constant)

    def _each(self, effect: Callable[[Counts], tuple[float, float]]) -> Solution:
        """Value and error of each move that some pixel makes; `effect` takes what it does to counts."""
        table, errors = np.zeros(self._moves.shape), np.zeros(self._moves.shape)
        one = np.eye(self.classes + 1, dtype=np.int64)
        for move in zip(*self._moves.nonzero(), strict=True):
            present, absent = move
            if present != absent:
                table[move], errors[move] = effect(one[present] - one[absent])
        return self._solution(table, errors)

    def _change(self, start: Counts, end: Counts) -> tuple[float, float]:
        r"""f(end) - f(start) and its error, for counts one pixel apart, of no class last.

        Of two softmaxes p and q, because each sums to 1,

        .. math:: q_t - p_t = \sum_{j \ne t} (q_t p_j - p_t q_j),

        where each term is the larger of its two products times 1 - e^{-|x|}, x the change of the
        difference of the two logits: nothing cancels but what has opposite signs.
        """
        start, end = start[:-1], end[:-1]
        if self.output == "logit":
            ends = self.value(torch.from_numpy(np.stack([start, end])))
            return float(ends[1] - ends[0]), 0.0
        # 1 / p_t sums e^(m / T) over m = k_j - k_t. One pixel moves all m but that of t to one side, or
        # one of them down and another up by 1: whichever has the larger m then has the larger sum.
        before, after = (sorted(counts - counts[self.target])[::-1] for counts in (start, end))
        if before == after:
            return 0.0, 0.0
        # Differences of counts are exact; exponents are added before one exponential may underflow.
        p, q = start - start.max(), end - end.max()
        shift = end - start - (end - start)[self.target]
        products = np.where(shift < 0, q[self.target] + p, p[self.target] + q)
        sizes = np.exp(products / self._temperature) * -np.expm1(-abs(shift) / self._temperature)
        sizes /= np.exp(p / self._temperature).sum() * np.exp(q / self._temperature).sum()
        # Exponents down to -745, beyond which all underflows, are rounded, 2^-53 of each, and sums.
        error = 2.0**-50 * (750 + self.classes) * sizes.sum() + UNDERFLOW
        both = np.where(shift < 0, sizes, -sizes).sum(keepdims=True), np.array([error])
        value, bound = with_signs(*both, np.array([1 if before > after else -1]))
        return float(value[0]), float(bound[0])

    def _linear(self, gradients: Numbers, relative: float = 0.0) -> tuple[Numbers, Numbers]:
        """Values and errors of moves where each count has a gradient, off by `relative` times it."""
        slopes = np.append(gradients, 0.0)
        return slopes[:, None] - slopes, relative * (abs(slopes)[:, None] + abs(slopes))

    def _target_moves(self, arriving: float, leaving: float, error: float) -> Solution:
        """Values of pixels that raise or lower the target's count; all others are dummies."""
        table, errors = np.zeros(self._moves.shape), np.zeros(self._moves.shape)
        table[self.target], table[:, self.target] = arriving, leaving
        errors[self.target] = errors[:, self.target] = error
        return self._solution(table, errors)

    def _solution(self, table: Numbers, errors: Numbers) -> Solution:
        """Spread the moves' values over the pixels."""
        dummies = np.eye(len(table), dtype=bool)
        tables = [torch.from_numpy(np.where(dummies, 0.0, each)) for each in (table, errors)]
        # Class -1 is the last row and column.
        place = self.present.device
        values, bounds = (each.to(place)[self.present, self.absent] for each in tables)
        return Solution(values, bounds)
