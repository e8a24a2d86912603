r"""Neurons behind the counts: weighted sums with proven ranges, and the layers that they make.

Values are integers. A neuron is :math:`ReLU(\sum_i w_i n_i + b)` of counts and earlier neurons n_i with
integers w_i and b. Where :math:`\sum_i |w_i| \max n_i + |b| \le 2^{24}`, float32 computes it without
rounding, in any order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attributionlab.base import EXACT_STEPS, AttributionLabError, cut
from attributionlab.worlds.nets.exactness import LayerBudget, Signal, check_budget, stage_budget
from attributionlab.worlds.nets.stage import Stage
from attributionlab.worlds.rules.expressions import Expression

CROWDED = 2**20
"""A multiple of larger absolute terms takes too much of the budget of what reads it."""
SHOWN = 100
"""Characters of an expression in a message."""


@dataclass(frozen=True)
class Value:
    """A weighted sum of neurons plus an offset, and what it can be.

    `weights`: weight of each neuron; none is 0. `offset`: what is added. `low`, `high`: smallest and
    largest value in any image.
    """

    weights: dict[int, int]
    offset: int
    low: int
    high: int

    def __add__(self, other: "Value | int") -> "Value":
        if isinstance(other, int):
            return Value(self.weights, self.offset + other, self.low + other, self.high + other)
        weights = dict(self.weights)
        for neuron, weight in other.weights.items():
            weights[neuron] = weights.get(neuron, 0) + weight
        return Value(
            {neuron: weight for neuron, weight in weights.items() if weight},
            self.offset + other.offset,
            self.low + other.low,
            self.high + other.high,
        )

    def __mul__(self, factor: int) -> "Value":
        if not factor:
            return constant(0)
        ends = factor * self.low, factor * self.high
        weights = {neuron: factor * weight for neuron, weight in self.weights.items()}
        return Value(weights, factor * self.offset, min(ends), max(ends))

    __rmul__ = __mul__

    def __neg__(self) -> "Value":
        return -1 * self

    def __rsub__(self, other: int) -> "Value":
        return -self + other

    def __sub__(self, other: "Value | int") -> "Value":
        return self + -other

    def within(self, low: int, high: int) -> "Value":
        """The same value, also known to lie in a range; a constant where one integer is left."""
        low, high = max(self.low, low), min(self.high, high)
        return constant(low) if low == high else Value(self.weights, self.offset, low, high)


def constant(value: int) -> Value:
    """An integer that no neuron changes."""
    return Value({}, value, value, value)


class Neurons:
    """Counts and the neurons made of them; equal neurons are made once.

    `most`: the largest value of each count. Counts are the neurons 0, 1, ..., of level 0.
    """

    def __init__(self, most: Sequence[int]) -> None:
        self.upper = list(most)
        self.level = [0] * len(most)
        self.made_of: list[Value | None] = [None] * len(most)
        self.source: Expression | None = None
        """What neurons are being made for."""
        self._known: dict[tuple[frozenset[tuple[int, int]], int], int] = {}

    def count(self, index: int) -> Value:
        """One of the counts."""
        return Value({index: 1}, 0, 0, self.upper[index]).within(0, self.upper[index])

    def terms(self, value: Value) -> int:
        """Largest sum of absolute terms of a value."""
        weighted = (abs(weight) * self.upper[neuron] for neuron, weight in value.weights.items())
        return sum(weighted) + abs(value.offset)

    def tightened(self, value: Value) -> Value:
        """A value within what its terms allow, each for itself."""
        low = high = value.offset
        for neuron, weight in value.weights.items():
            low += min(0, weight * self.upper[neuron])
            high += max(0, weight * self.upper[neuron])
        return value.within(low, high)

    def refuse_if_inexact(self, value: Value) -> None:
        """Refuse a value whose partial sums float32 might round."""
        needed = self.terms(value)
        if needed > EXACT_STEPS:
            raise AttributionLabError(
                f"{cut(str(self.source), SHOWN)!r} needs {needed:,} grid steps, float32 is exact up to "
                f"{EXACT_STEPS:,}: take smaller factors or a smaller image_size"
            )

    def relu(self, value: Value) -> Value:
        """ReLU(x): x itself where it is never negative, 0 where it is never positive, or a neuron."""
        value = self.tightened(value)
        return value if value.low >= 0 else self.neuron(value)

    def neuron(self, value: Value) -> Value:
        """ReLU(x) as one neuron, even where x is never negative; not where it is one already."""
        value = self.tightened(value)
        if value.high <= 0:
            return constant(0)
        if not value.weights or (value.offset == 0 and list(value.weights.values()) == [1]):
            return value
        self.refuse_if_inexact(value)
        key = frozenset(value.weights.items()), value.offset
        if key not in self._known:
            self._known[key] = len(self.upper)
            self.upper.append(value.high)
            self.level.append(1 + max(self.level[neuron] for neuron in value.weights))
            self.made_of.append(value)
        index = self._known[key]
        return Value({index: 1}, 0, max(value.low, 0), min(value.high, self.upper[index]))

    def times(self, factor: int, value: Value) -> Value:
        """k x; of x as a neuron of its own where that takes a quarter off large terms, or more.

        min(red, blue) takes the terms of two counts, though it is at most one of them; as a neuron it
        takes no more than it can be.
        """
        value = self.tightened(value)
        terms, as_neuron = self.terms(value), value.high - value.low + abs(value.low)
        if abs(factor) * terms > CROWDED and 4 * as_neuron <= 3 * terms:
            value = self.neuron(value - value.low) + value.low
        return factor * value

    def counts_needed(self, outputs: Sequence[Value]) -> list[int]:
        """Which counts reach the outputs, in their order."""
        needed = {neuron for output in outputs for neuron in output.weights}
        for neuron in reversed(range(len(self.upper))):  # a neuron comes after what it reads
            made_of = self.made_of[neuron]
            if neuron in needed and made_of is not None:
                needed |= set(made_of.weights)
        return sorted(neuron for neuron in needed if self.made_of[neuron] is None)

    def layers(
        self, outputs: Sequence[Value], counts: Sequence[int], signal: Signal
    ) -> tuple[list[Stage], list[LayerBudget]]:
        """Stages from the counts to the outputs, each within the budget; no ReLU behind the last.

        A value that a later layer needs is handed on by a neuron of weight 1; none is negative, so
        its ReLU keeps it.

        `outputs`: what the last stage gives. `counts`: which count each channel of the signal has; -1
        for channels that are dropped. `signal`: what the first stage receives.
        """
        stages, budgets = [], []
        present = list(counts)
        for depth, here in enumerate(self._neurons_by_layer(outputs), start=1):
            rows = [self._row(neuron, depth) for neuron in here]
            stage = _stage(rows, present)
            upper = torch.tensor([float(self.upper[neuron]) for neuron in here]).double()
            signal, budget = stage_budget(f"head layer {depth}", stage, signal, upper)
            stages.append(stage)
            budgets.append(budget)
            present = here
        last = _stage(outputs, present)
        sums = last.weight.abs().double() @ signal.upper + last.bias.abs().double()
        budgets.append(check_budget(f"head layer {len(stages) + 1}", sums, torch.ones_like(sums)))
        return [*stages, last], budgets

    def _neurons_by_layer(self, outputs: Sequence[Value]) -> list[list[int]]:
        """For each hidden layer the neurons that it makes or hands on."""
        final = {neuron for output in outputs for neuron in output.weights}
        layers = []
        for depth in range(max((self.level[neuron] for neuron in final), default=0), 0, -1):
            layers.append(sorted(final))
            rows = [self._row(neuron, depth) for neuron in final]
            final = {neuron for row in rows for neuron in row.weights}
        return layers[::-1]

    def _row(self, neuron: int, depth: int) -> Value:
        """What a neuron of a layer reads: its own terms, or itself where it was made before."""
        made_of = self.made_of[neuron]
        if self.level[neuron] == depth and made_of is not None:
            return made_of
        return Value({neuron: 1}, 0, 0, self.upper[neuron])


def _stage(rows: Sequence[Value], columns: Sequence[int]) -> Stage:
    """Weights of rows, by the neurons that the columns have."""
    place = {neuron: index for index, neuron in enumerate(columns)}
    weight: Tensor = torch.zeros(len(rows), len(columns))
    for index, row in enumerate(rows):
        for neuron, factor in row.weights.items():
            weight[index, place[neuron]] = factor
    return Stage.of(weight, [float(row.offset) for row in rows])
