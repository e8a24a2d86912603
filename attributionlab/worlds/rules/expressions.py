"""Rules as trees: integers, counts of pixels, and operations on them.

Conditions (comparisons and what joins them) are numbers, too: 1 where they hold, 0 where not.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, get_args

import numpy as np

Comparison = Literal[">", ">=", "<", "<=", "==", "!="]
Junction = Literal["and", "or", "not", "xor"]
Arithmetic = Literal["+", "-", "*", "%", "relu", "abs", "min", "max", "if"]
Operator = Comparison | Junction | Arithmetic

COMPARISONS = get_args(Comparison)
CALLED = ("relu", "abs", "min", "max", "xor")
"""Operators that are written as functions."""
ATOM = 7
BINDING = {
    "if": 0,
    "or": 1,
    "and": 2,
    "not": 3,
    "+": 5,
    "-": 5,
    "*": 6,
    "%": 6,
    **dict.fromkeys(COMPARISONS, 4),
}
"""How strongly operators bind, as Python has it."""
CONDITIONS = (*COMPARISONS, *get_args(Junction))
"""Operators whose results are 0 or 1."""


@dataclass(frozen=True)
class Constant:
    """An integer."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, order=True)
class Count:
    """How many pixels of a color, or tiles with a motif, an image has.

    `colors`: the color's name, or those of a motif. `motif`: one of
    `attributionlab.images.regions.MOTIFS`; empty for pixels of the one color. `region`: where they are
    counted; empty for the whole image.
    """

    colors: tuple[str, ...]
    motif: str = ""
    region: str = ""

    def __str__(self) -> str:
        what = f"{self.motif}({', '.join(self.colors)})" if self.motif else self.colors[0]
        return f"{what}@{self.region}" if self.region else what


@dataclass(frozen=True)
class Operation:
    """An operator with its operands.

    "*" has a `Constant` first, "%" a positive one second; "min", "max", "and" and "or" have two
    operands or more; "if" has the condition, the value where it holds, and the value where not.
    """

    operator: Operator
    operands: tuple["Expression", ...]

    def __str__(self) -> str:
        if self.operator in CALLED:
            return f"{self.operator}({', '.join(map(str, self.operands))})"
        own = BINDING[self.operator]
        if self.operator == "not":
            return f"not {_text(self.operands[0], own)}"
        if self.operator == "if":
            condition, then, otherwise = (_text(each, own + 1) for each in self.operands)
            return f"{then} if {condition} else {otherwise}"
        # Python reads a - b - c from the left; comparisons and junctions in a row mean something else.
        chained = self.operator in ("+", "-", "*", "%")
        first, *others = self.operands
        texts = [_text(first, own + (not chained)), *(_text(each, own + 1) for each in others)]
        return f" {self.operator} ".join(texts)


Expression = Constant | Count | Operation


def _text(expression: Expression, least: int) -> str:
    """An operand's text, in brackets where it binds less than that."""
    match expression:
        case Constant(value=value):
            binds = ATOM if value >= 0 else 0
        case Count(region=region):
            # Python reads 2*red@left as (2*red)@left: @ binds as * does, and is not to be split.
            binds = BINDING["*"] if region else ATOM
        case Operation(operator=operator):
            binds = ATOM if operator in CALLED else BINDING[operator]
    return str(expression) if binds >= least else f"({expression})"


def is_condition(expression: Expression) -> bool:
    """Whether its value is 0 or 1 because it is a comparison, or joins some."""
    return isinstance(expression, Operation) and expression.operator in CONDITIONS


def counts_in(expression: Expression) -> Iterator[Count]:
    """The counts of an expression from left to right, as often as they stand there."""
    if isinstance(expression, Count):
        yield expression
    elif isinstance(expression, Operation):
        for operand in expression.operands:
            yield from counts_in(operand)


MEANINGS: Mapping[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "%": lambda a, b: a % b,
    "relu": lambda a: np.maximum(a, 0),
    "abs": np.abs,
    "min": lambda *values: reduce(np.minimum, values),
    "max": lambda *values: reduce(np.maximum, values),
    ">": lambda a, b: 1 * (a > b),
    ">=": lambda a, b: 1 * (a >= b),
    "<": lambda a, b: 1 * (a < b),
    "<=": lambda a, b: 1 * (a <= b),
    "==": lambda a, b: 1 * (a == b),
    "!=": lambda a, b: 1 * (a != b),
    "and": lambda *values: reduce(np.minimum, values),
    "or": lambda *values: reduce(np.maximum, values),
    "not": lambda a: 1 - a,
    "xor": lambda a, b: (a + b) % 2,
    "if": lambda condition, then, otherwise: np.where(condition == 1, then, otherwise),
}
"""What each operator does with integers, or arrays of them."""


def evaluate(expression: Expression, counts: Mapping[Count, Any]) -> Any:
    """Value of an expression, given all its counts as integers or arrays that broadcast.

    Returns
    -------
    int64 scalar or array

    Examples
    --------
    >>> from attributionlab.worlds.rules.expressions import Count, Operation, evaluate
    >>> red, blue = Count(("red",)), Count(("blue",))
    >>> int(evaluate(Operation("min", (red, blue)), {red: 3, blue: 2}))
    2
    """
    if isinstance(expression, Constant):
        return np.int64(expression.value)
    if isinstance(expression, Count):
        return np.asarray(counts[expression], dtype=np.int64)
    operands = [evaluate(each, counts) for each in expression.operands]
    return MEANINGS[expression.operator](*operands)


def ties(expression: Expression, counts: Mapping[Count, int]) -> int:
    """How many equal operands decide a minimum or maximum: the most anywhere, or 1.

    A derivative there is a convention: it follows one of them, or a mean.

    Examples
    --------
    >>> from attributionlab.worlds.rules.expressions import Count, Operation, ties
    >>> red, blue = Count(("red",)), Count(("blue",))
    >>> ties(Operation("min", (red, blue)), {red: 3, blue: 3})
    2
    """
    if not isinstance(expression, Operation):
        return 1
    own = 1
    if expression.operator in ("min", "max"):
        value = evaluate(expression, counts)
        own = sum(int(evaluate(each, counts) == value) for each in expression.operands)
    return max(own, *(ties(each, counts) for each in expression.operands))


def with_counts(expression: Expression, replaced: Mapping[Count, Count]) -> Expression:
    """The same expression of other counts; those that are not in the mapping stay."""
    if isinstance(expression, Count):
        return replaced.get(expression, expression)
    if isinstance(expression, Operation):
        operands = tuple(with_counts(each, replaced) for each in expression.operands)
        return Operation(expression.operator, operands)
    return expression


def collected(expression: Expression) -> tuple[dict[Expression, int], int]:
    """An expression as weights of terms, none of which is a sum, and an offset."""
    weights: dict[Expression, int] = {}
    offset = _collect(expression, 1, weights)
    return {term: weight for term, weight in weights.items() if weight}, offset


def _collect(expression: Expression, factor: int, weights: dict[Expression, int]) -> int:
    """Offset of an expression times a factor, whose terms are added to the weights."""
    match expression:
        case Constant(value):
            return factor * value
        case Operation("+", (left, right)):
            return _collect(left, factor, weights) + _collect(right, factor, weights)
        case Operation("-", (left, right)):
            return _collect(left, factor, weights) + _collect(right, -factor, weights)
        case Operation("*", (Constant(value), multiplied)):
            return _collect(multiplied, factor * value, weights)
        case Operation("not", (condition,)):
            return factor + _collect(condition, -factor, weights)
    weights[expression] = weights.get(expression, 0) + factor
    return 0
