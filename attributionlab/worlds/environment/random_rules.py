"""Rules from the grammar, drawn at random, and what they ask of a method."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, permutations, product
from math import ceil
from typing import Any

import numpy as np

from attributionlab.worlds.images.regions import TILE
from attributionlab.worlds.rules.expressions import (
    COMPARISONS,
    Constant,
    Count,
    Expression,
    Operation,
    Operator,
    collected,
    counts_in,
    evaluate,
    is_condition,
)

FEATURES: Mapping[str, str] = {
    "place": "a color raises the output in one quadrant and lowers it in another",
    "conjunction": "min of several terms with counts, or and: all of them are needed",
    "negation": "not",
    "xor": "xor: one of two, not both",
    "texture": "stripes or checks of the same two colors",
    "saturation": "a comparison, or a min or max with a number: beyond it, more pixels change nothing",
}
"""What a world may ask of a method. All but "place" stand in the rule's text."""

JOINING: Mapping[str, Operator] = {"negation": "not", "xor": "xor"}
"""What joins conditions in rules with a feature."""


@dataclass(frozen=True)
class Difficulty:
    """From which part of the grammar rules are drawn.

    - `depth`: how often operations stand inside each other; sums do not count.
    - `numbers`, `conditions`: operators of numbers, and those that join conditions; those that stand
      twice are drawn twice as often.
    - `features`: of which worlds have their share, in turn.
    - `least_features`: how many a world has at least.
    - `most_counts`: how many counts a rule has at most.
    - `repeats`: whether a count may stand in a rule more than once.
    """

    depth: int
    numbers: tuple[str, ...]
    conditions: tuple[str, ...]
    features: tuple[str, ...]
    least_features: int
    most_counts: int
    repeats: bool = False


DIFFICULTIES: Mapping[str, Difficulty] = {
    "easy": Difficulty(
        depth=1,
        numbers=("+", "-", "min", "max", "relu", "limit", "if"),
        conditions=(),
        features=("place", "conjunction", "saturation"),
        least_features=1,
        most_counts=4,
    ),
    "medium": Difficulty(
        depth=2,
        numbers=("+", "-", "-", "min", "max", "relu", "abs", "limit", "if", "if"),
        conditions=("and", "or", "not", "xor"),
        features=tuple(FEATURES),
        least_features=1,
        most_counts=6,
    ),
    "hard": Difficulty(
        depth=3,
        numbers=("+", "-", "-", "min", "max", "relu", "abs", "limit", "%", "if", "if", "if"),
        conditions=("and", "or", "not", "xor"),
        features=tuple(FEATURES),
        least_features=3,
        most_counts=6,
        repeats=True,
    ),
}


class RuleDrawing:
    """Draws rules.

    - `difficulty`: the part of the grammar.
    - `counts`: what may be counted.
    - `fewest`: pixels of the smallest patch; a number in a rule lies between 1 and what such a patch
      counts.
    - `wanted`: a feature that rules are to have; "linear" for weighted sums; empty for any rule. Only
      rare features are forced; for the others rules are drawn until one has it.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        difficulty: Difficulty,
        counts: Sequence[Count],
        fewest: int,
        wanted: str,
    ) -> None:
        self.rng, self.difficulty, self.fewest, self.wanted = rng, difficulty, fewest, wanted
        self.counts, self._left = counts, list(counts)

    def rule(self) -> Expression:
        """Draw a rule."""
        self._left = list(self.counts)
        if self.wanted == "linear":
            return self._sum((2, 3, 4), doubled=0.25)
        depth = int(self.rng.integers(1, self.difficulty.depth, endpoint=True))
        if self.wanted in JOINING:
            return self._choice(max(2, depth), JOINING[self.wanted])
        return self._number(depth)

    def _chosen(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def _count(self) -> Count:
        """Draw a count, unused so far unless the difficulty allows repeats."""
        count: Count = self._chosen(self._left or self.counts)
        if self._left and not self.difficulty.repeats:
            self._left.remove(count)
        return count

    def _term(self, doubled: float = 0) -> Expression:
        """A count, that of tiles as their pixels; some are doubled."""
        count = self._count()
        factor = (TILE**2 if count.motif else 1) * (2 if self.rng.random() < doubled else 1)
        return count if factor == 1 else Operation("*", (Constant(factor), count))

    def _sum(self, terms: Sequence[int] = (1, 1, 1, 2, 2, 3), doubled: float = 0) -> Expression:
        """Counts, added or subtracted."""
        found = self._term(doubled)
        for _ in range(self._chosen(terms) - 1):
            signed: Operator = "+" if self.rng.random() < 0.5 else "-"
            found = Operation(signed, (found, self._term(doubled)))
        return found

    def _number(self, depth: int) -> Expression:
        """A sum, or an operation on numbers of less depth."""
        if depth == 0:
            return self._sum()
        kind = self._chosen(self.difficulty.numbers)
        if kind in ("relu", "abs"):
            # Of equally many, one counts twice, or abs would have no sign.
            left = self._term(doubled=1) if kind == "abs" else self._sum((1, 2))
            return Operation(kind, (Operation("-", (left, self._term())),))
        if kind == "limit":
            # A limit that half of the pixels of a patch reach, or miss: otherwise it hardly matters.
            half = max(1, self.fewest // 2)
            limits: dict[Operator, tuple[int, int]] = {"min": (1, half), "max": (half, self.fewest)}
            limit = self._chosen(tuple(limits))
            number = Constant(int(self.rng.integers(*limits[limit], endpoint=True)))
            return Operation(limit, (self._number(depth - 1), number))
        if kind == "%":
            return Operation("%", (self._sum(), Constant(self._chosen((2, 3, 5, 7)))))
        if kind == "if":
            return self._choice(depth)
        if kind in ("+", "-"):
            return Operation(kind, (self._number(depth - 1), self._number(depth)))
        terms = self._chosen((2, 2, 3)) if depth == 1 else 2
        return Operation(kind, tuple(self._number(depth - 1) for _ in range(terms)))

    def _choice(self, depth: int, joined: Operator | None = None) -> Expression:
        """One number or another, or 0; the condition may have to be of a kind."""
        condition = self._condition(depth - 1, joined)
        other = Constant(0) if self.rng.random() < 0.3 else self._number(depth - 1)
        branches = [self._number(depth - 1), other]
        return Operation("if", (condition, *(branches[k] for k in self.rng.permutation(2))))

    def _condition(self, depth: int, kind: Operator | None = None) -> Expression:
        """A comparison, or conditions joined."""
        if depth == 0 or not self.difficulty.conditions:
            return self._comparison()
        kind = kind or self._chosen(self.difficulty.conditions)
        joined = tuple(self._condition(depth - 1) for _ in range(1 if kind == "not" else 2))
        return Operation(kind, joined)

    def _comparison(self) -> Expression:
        """A count against a number, or two sums against each other."""
        kind: Operator = self._chosen((">", ">=", "<", "<="))
        if self.rng.random() < 0.25:
            return Operation(kind, (self._sum(), self._sum()))
        count = self._count()
        most = ceil(self.fewest / TILE**2) if count.motif else self.fewest
        return Operation(kind, (count, Constant(int(self.rng.integers(1, most, endpoint=True)))))


def features_of(expression: Expression) -> frozenset[str]:
    """Those of `FEATURES` that stand in a rule's text: all but "place"."""
    found = {"texture" for count in counts_in(expression) if count.motif}
    if isinstance(expression, Operation):
        operator, operands = expression.operator, expression.operands
        for operand in operands:
            found |= features_of(operand)
        numbers = sum(isinstance(each, Constant) for each in operands)
        if operator in COMPARISONS or (operator in ("min", "max") and numbers):
            found.add("saturation")
        if operator == "and" or (operator == "min" and len(operands) - numbers > 1):
            found.add("conjunction")
        found |= {feature for feature, joining in JOINING.items() if joining == operator}
    return frozenset(found)


def has_idle_part(expression: Expression, most: int, rng: np.random.Generator) -> bool:
    """Whether an operation could be left out: the value is the same without it for 256 drawn numbers of
    pixels, each uniform from 0 to `most`.
    """
    counts = sorted(set(counts_in(expression)))
    drawn = dict(zip(counts, rng.integers(0, most + 1, (len(counts), 256)), strict=True))
    value = evaluate(expression, drawn)
    return any((value == evaluate(each, drawn)).all() for each in _without_a_part(expression))


def _without_a_part(expression: Expression) -> Iterator[Expression]:
    """The expression with one operation less; a condition always, or never, holds then."""
    if not isinstance(expression, Operation):
        return
    operator, operands = expression.operator, expression.operands
    if is_condition(expression):
        yield from (Constant(0), Constant(1))
    if operator in ("min", "max", "and", "or"):
        for at in range(len(operands)):
            rest = operands[:at] + operands[at + 1 :]
            yield rest[0] if len(rest) == 1 else Operation(operator, rest)
    elif operator in ("relu", "abs", "%"):
        yield operands[0]
    for at, operand in enumerate(operands):
        for other in _without_a_part(operand):
            yield Operation(operator, (*operands[:at], other, *operands[at + 1 :]))


def is_linear(expression: Expression) -> bool:
    """Whether a rule is a weighted sum of counts."""
    weights, _ = collected(expression)
    return all(isinstance(term, Count) for term in weights)


def canonical(expression: Expression) -> str:
    """A text that rules have in common if they are the same in other colors, quadrants or motifs, and
    with other numbers as limits.

    Sums are collected, operands without an order are sorted, and names are numbers: of all ways to
    number them the one with the first text. Names that stand in different places of the rule are told
    apart before, so that few ways are left to try.
    """
    counts = list(counts_in(expression))
    kinds: list[list[dict[str, str]]] = []
    for names in (
        {color for count in counts if not count.motif for color in count.colors},
        {count.region for count in counts},
        {count.motif for count in counts if count.motif},
    ):
        marked = {name: _text(expression, partial(_mark, name=name)) for name in names}
        ordered = sorted(names, key=marked.__getitem__)
        groups = [list(group) for _, group in groupby(ordered, key=marked.__getitem__)]
        ways = product(*(permutations(group) for group in groups))
        kinds.append(
            [
                {name: str(k) for k, name in enumerate(name for part in way for name in part)}
                for way in ways
            ]
        )

    def text(colors: dict[str, str], regions: dict[str, str], motifs: dict[str, str]) -> str:
        def name(count: Count) -> str:
            what = f"m{motifs[count.motif]}" if count.motif else colors[count.colors[0]]
            return f"{what}@{regions[count.region]}"

        return _text(expression, name)

    return min(text(*way) for way in product(*kinds))


def _mark(count: Count, name: str) -> str:
    """A count without names, but for the place of one."""
    parts = (*count.colors, count.motif, count.region)
    return ("m" if count.motif else "c") + "".join("x" if part == name else "-" for part in parts)


def _text(expression: Expression, name: Callable[[Count], str]) -> str:
    """An expression in a form that does not depend on how it was written."""
    weights, offset = collected(expression)
    terms = sorted(f"{weight}*{_term(term, name)}" for term, weight in weights.items())
    limit = str(offset) if abs(offset) <= 1 else "k" if offset > 0 else "-k"  # > and >= differ by 1
    return "+".join([limit, *terms])


def _term(term: Expression, name: Callable[[Count], str]) -> str:
    """What is no sum."""
    if isinstance(term, Count):
        return name(term)
    assert isinstance(term, Operation)
    operator, operands = term.operator, term.operands

    def difference(left: Expression, right: Expression, offset: int = 0) -> str:
        parts = Operation("-", (left, right))
        return _text(Operation("+", (parts, Constant(offset))), name)

    if operator in COMPARISONS or operator == "abs":
        left, right = (*operands, Constant(0))[:2]
        if operator in ("<", "<="):
            left, right = right, left
        if operator in (">", ">=", "<", "<="):
            return f"({difference(left, right, -(operator in ('>', '<')))}>=0)"
        return f"{operator}({min(difference(left, right), difference(right, left))})"
    if operator == "relu":
        operator, operands = "max", (*operands, Constant(0))
    texts = [_text(each, name) for each in operands]
    if operator not in ("%", "if"):
        texts.sort()
    return f"{operator}({','.join(texts)})"
