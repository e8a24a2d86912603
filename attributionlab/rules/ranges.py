"""Smallest and largest values: what each part of a rule can be, in any image."""

from collections.abc import Mapping

from attributionlab.rules.expressions import COMPARISONS, Constant, Count, Expression, Operation

Range = tuple[int, int]
"""Smallest and largest value, both included."""


class Ranges:
    """Ranges of expressions, given that each count takes any integer from 0 to its largest value.

    Every range is sound: no image leads outside it. It is exact for weighted sums of counts, and for
    whatever is applied to one of those: sums are collected term by term first, so that ``red - red``
    is 0 and ``red > red + 1`` never holds. Where other terms share counts, it may be wider than needed.

    `most`: the largest value of each count.
    """

    def __init__(self, most: Mapping[Count, int]) -> None:
        self.most = most
        self._known: dict[Expression, Range] = {}

    def of(self, expression: Expression) -> Range:
        """Smallest and largest value of an expression."""
        if expression not in self._known:
            self._known[expression] = self._found(expression)
        return self._known[expression]

    def _found(self, expression: Expression) -> Range:
        """The range of an expression from those of its parts."""
        if isinstance(expression, Constant):
            return expression.value, expression.value
        if isinstance(expression, Count):
            return 0, self.most[expression]
        if expression.operator in ("+", "-", "*", "not"):
            return self._range_of_sum(expression)
        if expression.operator in COMPARISONS:
            return self._range_of_comparison(expression)
        return self._range_of_operation(expression)

    def _range_of_sum(self, expression: Expression) -> Range:
        """Range of a weighted sum, each term of which is on its own."""
        weights, offset = collected(expression)
        low = high = offset
        for term, weight in weights.items():
            ends = [weight * end for end in self.of(term)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _range_of_comparison(self, expression: Operation) -> Range:
        """1 or 0 where the difference of both sides leaves no doubt, else both."""
        low, high = self._range_of_sum(Operation("-", expression.operands))
        always, never = {
            ">": (low > 0, high <= 0),
            ">=": (low >= 0, high < 0),
            "<": (high < 0, low >= 0),
            "<=": (high <= 0, low > 0),
            "==": (low == high == 0, low > 0 or high < 0),
            "!=": (low > 0 or high < 0, low == high == 0),
        }[expression.operator]
        return int(always), int(not never)

    def _range_of_operation(self, expression: Operation) -> Range:
        """Range of what is neither a sum nor a comparison."""
        ends = [self.of(each) for each in expression.operands]
        lows, highs = [low for low, _ in ends], [high for _, high in ends]
        match expression.operator:
            case "min" | "and":
                return min(lows), min(highs)
            case "max" | "or":
                return max(lows), max(highs)
            case "relu":
                return max(lows[0], 0), max(highs[0], 0)
            case "abs":
                return max(lows[0], -highs[0], 0), max(-lows[0], highs[0])
            case "xor":
                if lows == highs:
                    return lows[0] ^ lows[1], lows[0] ^ lows[1]
                return 0, 1
            case "%":
                modulus = lows[1]
                if lows[0] // modulus == highs[0] // modulus:
                    return lows[0] % modulus, highs[0] % modulus
                return 0, modulus - 1
            case "if":
                # Only branches that can be taken.
                taken = [*ends[1:2] * (highs[0] == 1), *ends[2:] * (lows[0] == 0)]
                return min(low for low, _ in taken), max(high for _, high in taken)
        raise NotImplementedError(expression.operator)


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
