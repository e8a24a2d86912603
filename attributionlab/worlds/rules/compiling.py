r"""Rules to neurons: each operation as ReLUs of weighted sums, exact for integers.

In the formulas x, y are integers with known ranges, c, d are conditions (0 or 1), and
:math:`[\dots]` is 1 where its content holds and 0 where not.
"""

from collections.abc import Callable, Sequence

from attributionlab.base import AttributionLabError, refuse_if
from attributionlab.worlds.rules.expressions import Constant, Count, Expression, Operator
from attributionlab.worlds.rules.forms import Reducer
from attributionlab.worlds.rules.neurons import Neurons, Value, constant


def absolute(neurons: Neurons, x: Value) -> Value:
    r""":math:`|x| = ReLU(x) + ReLU(-x)`."""
    return neurons.relu(x) + neurons.relu(-x)


def smallest(neurons: Neurons, *values: Value) -> Value:
    r""":math:`\min(x, y) = x - ReLU(x - y)`, of more values as a balanced tree.

    x is the one of smaller absolute terms: an integer rather than a count.
    """
    if len(values) == 1:
        return values[0]
    x, y = _halves(neurons, smallest, values)
    return (x - neurons.relu(x - y)).within(min(x.low, y.low), min(x.high, y.high))


def largest(neurons: Neurons, *values: Value) -> Value:
    r""":math:`\max(x, y) = x + ReLU(y - x)`, of more values as a balanced tree; x as for `smallest`."""
    if len(values) == 1:
        return values[0]
    x, y = _halves(neurons, largest, values)
    return (x + neurons.relu(y - x)).within(max(x.low, y.low), max(x.high, y.high))


def _halves(
    neurons: Neurons, join: Callable[..., Value], values: Sequence[Value]
) -> tuple[Value, Value]:
    """Each half of several values, joined; first the one of smaller absolute terms."""
    middle = len(values) // 2
    halves = join(neurons, *values[:middle]), join(neurons, *values[middle:])
    x, y = sorted(halves, key=neurons.terms)
    return x, y


def positive(neurons: Neurons, x: Value) -> Value:
    r""":math:`[x \ge 1] = ReLU(ReLU(x) - ReLU(x - 1))`.

    The outer ReLU changes nothing, but makes the answer one neuron of bound 1. Without it whatever
    multiplies the answer would multiply the bounds of both terms, which exceeds the budget of float32.
    """
    x = neurons.tightened(x)
    if x.low >= 1:
        return constant(1)
    return neurons.neuron((neurons.relu(x) - neurons.relu(x - 1)).within(0, 1))


def equal(neurons: Neurons, x: Value, y: Value) -> Value:
    r""":math:`[x = y] = ReLU(1 - |x - y|)`."""
    return neurons.neuron(1 - absolute(neurons, x - y))


def conjunction(neurons: Neurons, *conditions: Value) -> Value:
    r""":math:`c_1 \wedge \dots \wedge c_n = ReLU(\sum_i c_i - (n - 1))`."""
    return neurons.relu(_total(conditions) - (len(conditions) - 1)).within(0, 1)


def disjunction(neurons: Neurons, *conditions: Value) -> Value:
    r""":math:`c_1 \vee \dots \vee c_n = 1 - ReLU(1 - \sum_i c_i)`."""
    return 1 - neurons.relu(1 - _total(conditions))


def _total(values: Sequence[Value]) -> Value:
    """Sum of several values."""
    total = constant(0)
    for value in values:
        total += value
    return total


def exclusive(neurons: Neurons, c: Value, d: Value) -> Value:
    r""":math:`c \oplus d = c + d - 2\,(c \wedge d)`."""
    return (c + d - 2 * conjunction(neurons, c, d)).within(0, 1)


def chosen(neurons: Neurons, c: Value, x: Value, y: Value) -> Value:
    r""":math:`c\,x + (1 - c)\,y`, each product by a gate."""
    both = gate(neurons, c, x) + gate(neurons, 1 - c, y)
    return both.within(min(x.low, y.low), max(x.high, y.high))


def gate(neurons: Neurons, c: Value, x: Value) -> Value:
    r""":math:`c\,x = ReLU(x - l - (h - l)(1 - c)) + l\,c` for x in [l, h].

    Open (c = 1), the ReLU gives x - l; closed, its argument is x - h, never positive.
    """
    low, width = x.low, x.high - x.low
    open_part = neurons.relu((x - low - neurons.times(width, 1 - c)).within(-width, width))
    return open_part + neurons.times(low, c)


def remainder(neurons: Neurons, x: Value, modulus: Value) -> Value:
    r"""x mod N by binary reduction.

    With l the largest multiple of N that is at most x's smallest value, and J the largest j with
    :math:`2^j N \le \max x - l`:

    .. math:: x_J = x - l, \qquad x_{j-1} = x_j - 2^j N\,[x_j \ge 2^j N], \quad j = J, \dots, 0

    x_j stays below :math:`2^{j+1} N`, so that x_{-1} is the remainder: two layers for each j, where a
    staircase of all multiples takes a neuron for each. The next comparison reads x_{j-1} as that sum
    at once; beside it one neuron hands x_{j-1} on.
    """
    size = modulus.low  # N
    x = x - x.low // size * size
    for exponent in reversed(range((x.high // size).bit_length())):
        step = size << exponent
        reached = positive(neurons, x - step + 1)
        x = (neurons.neuron(x) - step * reached).within(0, step - 1)
    return x


CONSTRUCTIONS: dict[Operator, Callable[..., Value]] = {
    "+": lambda _, x, y: x + y,
    "-": lambda _, x, y: x - y,
    "*": lambda neurons, factor, x: neurons.times(factor.low, x),
    "%": remainder,
    "relu": Neurons.relu,
    "abs": absolute,
    "min": smallest,
    "max": largest,
    ">": lambda neurons, x, y: positive(neurons, x - y),
    ">=": lambda neurons, x, y: positive(neurons, x - y + 1),
    "<": lambda neurons, x, y: positive(neurons, y - x),
    "<=": lambda neurons, x, y: positive(neurons, y - x + 1),
    "==": equal,
    "!=": lambda neurons, x, y: 1 - equal(neurons, x, y),
    "and": conjunction,
    "or": disjunction,
    "not": lambda _, c: 1 - c,
    "xor": exclusive,
    "if": chosen,
}
"""How each operator is built from its operands; x > y is x - y >= 1, and so on."""


class Compiler:
    """Values of expressions by neurons; what stands in several places is built once.

    `counts`: the counts, neurons 0, 1, ... `most`: the largest value of each.
    """

    def __init__(self, counts: Sequence[Count], most: Sequence[int]) -> None:
        self.neurons = Neurons(most)
        self._reducer = Reducer(dict(zip(counts, most, strict=True)))
        self._known: dict[Expression, Value] = {
            count: self.neurons.count(index) for index, count in enumerate(counts)
        }

    def value(self, expression: Expression) -> Value:
        """An expression by neurons.

        Raises AttributionLabError if float32 might round a part of it.
        """
        if expression not in self._known:
            self._known[expression] = self._built(expression)
        return self._known[expression]

    def _built(self, expression: Expression) -> Value:
        """An operation by its construction, or an integer."""
        low, high = self._reducer.interval(self._reducer.tree(expression))
        if low == high:
            return constant(low)
        assert not isinstance(expression, Constant | Count)
        operands = [self.value(each) for each in expression.operands]
        self.neurons.source = expression
        built = CONSTRUCTIONS[expression.operator](self.neurons, *operands)
        return built.within(low, high)


def compiled(
    expressions: Sequence[Expression], counts: Sequence[Count], most: Sequence[int]
) -> tuple[Neurons, list[Value]]:
    """Neurons for several expressions, and the value of each.

    `expressions`: one for each output. `counts`: all that stand in them. `most`: the largest value of
    each count.

    Raises AttributionLabError for each expression that float32 might round: which part of it, and how
    much it needs.
    """
    compiler, values, problems = Compiler(counts, most), [], []
    for expression in expressions:
        try:
            values.append(compiler.value(expression))
            compiler.neurons.source = expression
            compiler.neurons.refuse_if_inexact(values[-1])
        except AttributionLabError as error:
            problems.append(str(error))
    refuse_if(problems)
    return compiler.neurons, values
