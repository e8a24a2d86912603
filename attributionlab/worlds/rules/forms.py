"""Rules for the truth: trees over linear forms of counts, reduced by what an image can reach.

A game asks which pixels are exchangeable, which do nothing, and which parts of a rule are independent.
It is easiest to see in a tree whose leaves are whole linear forms: red > blue is a step of the one
form red - blue - 1, and sums are collected, so that what cancels is gone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np

from attributionlab.worlds.rules.expressions import MEANINGS, Constant, Count, Expression

Coefficients = tuple[tuple[Count, int], ...]
"""A linear form without its constant: counts in order, with integers that are not 0."""
Interval = tuple[int, int]
Kind = Literal["sum", "step", "zero", "abs", "%", "min", "max", "if"]


@dataclass(frozen=True)
class Form:
    """A linear form of counts and a constant."""

    coefficients: Coefficients
    constant: int = 0


@dataclass(frozen=True)
class Node:
    """An operation on trees.

    `kind`: "sum" of weighted children, "step" (1 where the child is 0 or more, else 0), "zero" (1 where
    it is 0), "abs", "%", "min", "max", and "if" (condition, value where it is 1, value else).
    `children`: at most one of a sum's is a form, the last one. `weights`: those of a sum; the modulus
    of "%".
    """

    kind: Kind
    children: tuple["Tree", ...]
    weights: tuple[int, ...] = ()


Tree = Form | Node
ONE, NOTHING = Form((), 1), Form(())


class Reducer:
    """Trees of expressions, for images in which counts have a largest value.

    `most`: the largest value of each count: that in the image, as pixels can only be missing, or that
    in any image.
    """

    def __init__(self, most: Mapping[Count, int]) -> None:
        self.most = most

    def interval(self, tree: Tree) -> Interval:
        """Bounds of the values that a tree may have: a linear form reaches both, others need not."""
        bounds = {
            form: (
                sum(min(0, weight) * self.most[count] for count, weight in form),
                sum(max(0, weight) * self.most[count] for count, weight in form),
            )
            for form in forms_in([tree])
        }
        return interval(tree, bounds)

    def tree(self, expression: Expression) -> Tree:
        """The tree of an expression; its values are equal for all counts up to the largest."""
        if isinstance(expression, Constant):
            return Form((), expression.value)
        if isinstance(expression, Count):
            return Form(((expression, 1),)) if self.most[expression] else NOTHING
        parts = [self.tree(each) for each in expression.operands]
        first, last = parts[0], parts[-1]
        difference = self.sum([(1, first), (-1, last)])
        match expression.operator:
            case "+":
                return self.sum([(1, first), (1, last)])
            case "-":
                return difference
            case "*":
                return self.sum([(self._constant(first), last)])
            case "%":
                return self._remainder(first, self._constant(last))
            case "relu":
                return self._extreme("max", [first, NOTHING])
            case "abs":
                return self._magnitude(first)
            case "min" | "and":
                return self._extreme("min", parts)
            case "max" | "or":
                return self._extreme("max", parts)
            case ">=":
                return self._test("step", difference)
            case ">":
                return self._test("step", self.sum([(1, difference), (-1, ONE)]))
            case "<=":
                return self._test("step", self.sum([(-1, difference)]))
            case "<":
                return self._test("step", self.sum([(-1, difference), (-1, ONE)]))
            case "==":
                return self._test("zero", difference)
            case "!=":
                return self.sum([(1, ONE), (-1, self._test("zero", difference))])
            case "not":
                return self.sum([(1, ONE), (-1, first)])
            case "xor":
                return self._remainder(self.sum([(1, first), (1, last)]), 2)
            case "if":
                return self._choice(first, parts[1], last)

    def sum(self, terms: Sequence[tuple[int, Tree]]) -> Tree:
        """A weighted sum with its forms added up, and equal trees, too."""
        linear: dict[Count, int] = {}
        constant = 0
        others: dict[Node, int] = {}
        pending = list(terms)
        while pending:
            weight, tree = pending.pop(0)
            if isinstance(tree, Form):
                constant += weight * tree.constant
                for count, each in tree.coefficients:
                    linear[count] = linear.get(count, 0) + weight * each
            elif tree.kind == "sum":
                inner = zip(tree.weights, tree.children, strict=True)
                pending = [(weight * each, child) for each, child in inner] + pending
            else:
                others[tree] = others.get(tree, 0) + weight
        kept = {tree: weight for tree, weight in others.items() if weight}
        form = Form(tuple(sorted((c, w) for c, w in linear.items() if w)), constant)
        if not kept:
            return form
        if form == NOTHING and list(kept.values()) == [1]:
            return next(iter(kept))
        last = [] if form == NOTHING else [form]
        return Node("sum", (*kept, *last), (*kept.values(), *[1 for _ in last]))

    def _constant(self, tree: Tree) -> int:
        """The value of a form without counts."""
        assert isinstance(tree, Form)
        return tree.constant

    def _settled(self, tree: Tree) -> Tree:
        """The constant where a tree can have one value only."""
        low, high = self.interval(tree)
        return Form((), low) if low == high else tree

    def _test(self, kind: Literal["step", "zero"], tree: Tree) -> Tree:
        return self._settled(Node(kind, (tree,)))

    def _magnitude(self, tree: Tree) -> Tree:
        low, high = self.interval(tree)
        if low >= 0 or high <= 0:
            return self.sum([(1 if low >= 0 else -1, tree)])
        return Node("abs", (tree,))

    def _remainder(self, tree: Tree, modulus: int) -> Tree:
        if isinstance(tree, Form):  # what is a multiple of the modulus changes nothing
            kept = tuple(each for each in tree.coefficients if each[1] % modulus)
            tree = Form(kept, tree.constant % modulus)
        low, high = self.interval(tree)
        if low // modulus == high // modulus:
            return self.sum([(1, tree), (-(low // modulus) * modulus, ONE)])
        return Node("%", (tree,), (modulus,))

    def _extreme(self, kind: Literal["min", "max"], trees: Sequence[Tree]) -> Tree:
        """The least or the largest, without those that never are."""
        flat: list[Tree] = []
        for tree in trees:
            inner = isinstance(tree, Node) and tree.kind == kind
            flat += tree.children if inner else [tree]  # type: ignore[union-attr]
        flat = list(dict.fromkeys(flat))
        sign = 1 if kind == "max" else -1
        ends = [sorted(sign * end for end in self.interval(tree)) for tree in flat]
        floor = max(low for low, _ in ends)
        kept = [tree for tree, (_, high) in zip(flat, ends, strict=True) if high > floor]
        at_floor = [tree for tree, (low, _) in zip(flat, ends, strict=True) if low == floor]
        if not set(kept) & set(at_floor):  # the others may all fall below the floor
            kept.append(at_floor[0])
        return kept[0] if len(kept) == 1 else self._settled(Node(kind, tuple(kept)))

    def _choice(self, condition: Tree, then: Tree, otherwise: Tree) -> Tree:
        low, high = self.interval(condition)
        if low == high or then == otherwise:
            return then if low == 1 or then == otherwise else otherwise
        return Node("if", (condition, then, otherwise))


def forms_in(trees: Sequence[Tree]) -> tuple[Coefficients, ...]:
    """The different linear forms of trees, constants apart, from left to right."""
    return tuple(dict.fromkeys(form.coefficients for form in _leaves(trees) if form.coefficients))


def _leaves(trees: Sequence[Tree]) -> Iterator[Form]:
    for tree in trees:
        if isinstance(tree, Form):
            yield tree
        else:
            yield from _leaves(tree.children)


def interval(tree: Tree, forms: Mapping[Coefficients, Interval]) -> Interval:
    """Bounds of a tree's values from those of its forms, each operation by itself."""
    if isinstance(tree, Form):
        low, high = forms[tree.coefficients] if tree.coefficients else (0, 0)
        return low + tree.constant, high + tree.constant
    ends = [interval(child, forms) for child in tree.children]
    low, high = ends[0]
    match tree.kind:
        case "sum":
            scaled = [
                sorted((weight * a, weight * b))
                for weight, (a, b) in zip(tree.weights, ends, strict=True)
            ]
            return sum(a for a, _ in scaled), sum(b for _, b in scaled)
        case "step":
            return int(low >= 0), int(high >= 0)
        case "zero":
            return int(low == high == 0), int(low <= 0 <= high)
        case "abs":
            return max(0, low, -high), max(abs(low), abs(high))
        case "%":
            modulus = tree.weights[0]
            same = low // modulus == high // modulus
            return (low % modulus, high % modulus) if same else (0, modulus - 1)
        case "min":
            return min(a for a, _ in ends), min(b for _, b in ends)
        case "max":
            return max(a for a, _ in ends), max(b for _, b in ends)
        case "if":
            reached = [ends[1]] * (high == 1) + [ends[2]] * (low == 0)
            return min(a for a, _ in reached), max(b for _, b in reached)


def apply(node: Node, parts: Sequence[Any]) -> Any:
    """What an operation makes of its children's values, integers or arrays that broadcast."""
    match node.kind:
        case "sum":
            weighted = zip(node.weights, parts, strict=True)
            return reduce(
                np.add, (part if weight == 1 else weight * part for weight, part in weighted)
            )
        case "step":
            return (parts[0] >= 0).astype(np.int64)
        case "zero":
            return (parts[0] == 0).astype(np.int64)
    return MEANINGS[node.kind](*parts, *node.weights)


def value(tree: Tree, forms: Mapping[Coefficients, Any]) -> Any:
    """Value of a tree, given the forms without their constants, as integers or arrays."""
    if isinstance(tree, Form):
        if not tree.coefficients:
            return np.int64(tree.constant)
        found = forms[tree.coefficients]
        return found + tree.constant if tree.constant else found
    return apply(tree, [value(child, forms) for child in tree.children])


@dataclass(frozen=True)
class Readout:
    r"""The explained output of a game's integers.

    Without a temperature it is the one integer, a logit. With T it is the target's probability

    .. math:: p_t = 1 / (1 + \sum_{j \ne t} e^{d_j / T}), \qquad d_j = l_j - l_t.

    `temperature`: T.
    """

    temperature: float | None = None

    def __call__(self, integers: Sequence[Any]) -> Any:
        """The output in float64, for arrays of one shape."""
        if self.temperature is None:
            return np.asarray(integers[0], dtype=np.float64)
        with np.errstate(over="ignore"):  # a probability of 0 then
            return 1 / (1 + sum(np.exp(each / self.temperature) for each in integers))

    @property
    def direction(self) -> int:
        """1 where the output rises with its integers, -1 where it falls."""
        return 1 if self.temperature is None else -1

    def error(self, integers: int) -> float:
        """Bound of the error of an output of so many integers.

        A relative error e of an exponential changes p by at most p (1 - p) e. An exponent x is off by
        2^-53 |x|, and p (1 - p) |x| is at most 1; sums, quotients and exponentials add their roundings.
        """
        return 0.0 if self.temperature is None else (integers + 6) * 2.0**-53
