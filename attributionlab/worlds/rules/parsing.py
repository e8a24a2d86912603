"""Rules from text: a part of Python's expressions, checked name by name."""

import ast
import warnings
from collections.abc import Collection, Sequence

from attributionlab.base import AttributionLabError, cut, nearest
from attributionlab.worlds.images.regions import MOTIFS, motif_colors
from attributionlab.worlds.rules.expressions import (
    Constant,
    Count,
    Expression,
    Operation,
    Operator,
    counts_in,
    evaluate,
    is_condition,
)

BINARY: dict[type[ast.operator], Operator] = {ast.Add: "+", ast.Sub: "-"}
COMPARED: dict[type[ast.cmpop], Operator] = {
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "relu": (1, 1),
    "abs": (1, 1),
    "min": (2, None),
    "max": (2, None),
    "xor": (2, 2),
}
"""Fewest and most operands."""
RESERVED = (*FUNCTIONS, *MOTIFS, "and", "or", "not", "if", "else")
"""What no color or region can be named."""

LONGEST, SHOWN = 2_000, 100
"""Characters of a rule, and of one in a message."""
DEEPEST = 40
"""Operations inside each other: far more than anybody reads, far fewer than Python's stack holds."""
LARGEST = 2**24
"""Magnitude of an integer: float32 holds every integer up to here."""


def parse(
    text: str,
    colors: Collection[str],
    regions: Collection[str],
    kind: str = "color",
    example: str = "red@left",
) -> Expression:
    """Read a rule.

    Integers, colors, ``color@region``, motifs such as ``stripes(red, blue)``, ``+``, ``-``, ``*`` by an
    integer, ``%`` by a positive integer, ``relu``, ``min``, ``max``, ``abs``, comparisons, ``and``,
    ``or``, ``not``, ``xor(a, b)`` and ``a if condition else b``. What has no count is computed at once.

    `text`: the rule. `colors`, `regions`: known names. `kind`, `example`: what is counted, and a count
    in a region, as problems name them.

    Raises AttributionLabError with all that is wrong with it, each with its column (from 1) and the
    remedy.
    """
    if not isinstance(text, str) or not text.strip():
        counted = example.partition("@")[0]
        raise AttributionLabError(f"the rule is {text!r}: write a text such as '{counted} > 40'")
    if len(text) > LONGEST:
        raise AttributionLabError(
            f"the rule has {len(text):,} characters: take at most {LONGEST:,}"
        )
    # Lines of a long rule are one expression; blanks of the same number keep the columns.
    line = text.translate({ord(each): " " for each in "\n\r\t"})
    start = len(line) - len(line.lstrip())
    for place, each in enumerate(line):
        if each == "#" or not each.isprintable():  # a comment would hide the lines that follow
            raise AttributionLabError(
                f"rule {cut(text, SHOWN)!r}: column {place + 1}: {each!r} is not allowed in a rule: "
                "leave it out"
            )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # some versions of Python refuse what others warn of
            tree = ast.parse(line.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        column = getattr(error, "offset", None) or len(line.strip()) + 1  # 0 stands for the end
        raise AttributionLabError(
            f"rule {cut(text, SHOWN)!r}: column {start + column}: this is not an "
            f"expression ({_reason(error)})"
        ) from error
    reader = _Reader(line.strip(), start, colors, regions, kind, example)
    found = reader.read(tree.body, 0)
    if reader.problems:
        raise AttributionLabError(f"rule {cut(text, SHOWN)!r}: " + "; ".join(reader.problems))
    if not any(True for _ in counts_in(found)):
        raise AttributionLabError(
            f"rule {cut(text, SHOWN)!r} is {found} for every input: let it depend on a {kind}"
        )
    return found


def _reason(error: BaseException) -> str:
    """What Python says, or the kind of its error where it has no words."""
    return getattr(error, "msg", None) or type(error).__name__


class _Reader:
    """Python's tree to ours; problems are collected, and a 0 stands where one is."""

    def __init__(
        self,
        text: str,
        start: int,
        colors: Collection[str],
        regions: Collection[str],
        kind: str,
        example: str,
    ) -> None:
        self.text, self.start = text, start
        self.colors, self.regions = colors, regions
        self.kind, self.example = kind, example
        self.problems: list[str] = []

    def wrong(self, node: ast.AST, problem: str) -> Expression:
        """Note a problem, with the column in characters where it is."""
        bytes_before = getattr(node, "col_offset", 0)  # Python counts bytes of UTF-8
        column = self.start + len(self.text.encode()[:bytes_before].decode(errors="ignore")) + 1
        self.problems.append(f"column {column}: {problem}")
        return Constant(0)

    def source(self, node: ast.AST) -> str:
        """The text of a part."""
        return ast.get_source_segment(self.text, node) or ast.unparse(node)

    def read(self, node: ast.AST, depth: int) -> Expression:
        """An expression."""
        if depth > DEEPEST:
            return self.wrong(
                node,
                f"more than {DEEPEST} nested operations: shorten it, or put the halves of a "
                "long sum in brackets",
            )
        match node:
            case ast.Constant():
                return self.integer(node)
            case ast.Name():
                return self.color(node)
            case ast.BinOp(op=ast.MatMult()):
                return self.placed(node)
            case ast.BinOp(op=ast.Mult()):
                return self.product(node, depth)
            case ast.BinOp(op=ast.Mod()):
                return self.remainder(node, depth)
            case ast.BinOp(op=operator) if type(operator) in BINARY:
                operands = self.read(node.left, depth + 1), self.read(node.right, depth + 1)
                return self.made(node, BINARY[type(operator)], operands)
            case ast.UnaryOp(op=ast.USub()):
                return self.made(node, "*", (Constant(-1), self.read(node.operand, depth + 1)))
            case ast.UnaryOp(op=ast.UAdd()):
                return self.read(node.operand, depth)
            case ast.UnaryOp(op=ast.Not()):
                return self.made(node, "not", (self.condition(node.operand, depth + 1),))
            case ast.BoolOp():
                joined = tuple(self.condition(each, depth + 1) for each in node.values)
                return self.made(node, "and" if isinstance(node.op, ast.And) else "or", joined)
            case ast.Compare():
                return self.comparison(node, depth)
            case ast.IfExp():
                condition = self.condition(node.test, depth + 1)
                branches = self.read(node.body, depth + 1), self.read(node.orelse, depth + 1)
                return self.made(node, "if", (condition, *branches))
            case ast.Call():
                return self.call(node, depth)
        return self.wrong(
            node,
            f"{self.source(node)!r} is not part of a rule: take counts, integers, + - * %, "
            f"comparisons, and, or, not, if-else, {', '.join(FUNCTIONS)}",
        )

    def made(self, node: ast.AST, operator: Operator, operands: Sequence[Expression]) -> Expression:
        """An operation, or an integer that float32 holds where no operand has a count."""
        found = folded(operator, operands)
        if isinstance(found, Constant) and abs(found.value) > LARGEST:
            return self.wrong(node, f"{found.value:,} is too large: take at most {LARGEST:,}")
        return found

    def integer(self, node: ast.Constant) -> Expression:
        """An integer that float32 holds."""
        if type(node.value) is not int:
            return self.wrong(node, f"{self.source(node)} is not an integer: take an integer")
        if abs(node.value) > LARGEST:
            return self.wrong(node, f"{node.value:,} is too large: take at most {LARGEST:,}")
        return Constant(node.value)

    def color(self, node: ast.Name) -> Expression:
        """The count of a color in the whole image."""
        if node.id in self.colors:
            return Count((node.id,))
        if node.id in self.regions:
            return self.wrong(node, f"{node.id!r} is a region: write {self.kind}@{node.id}")
        known = nearest(node.id, self.colors)
        return self.wrong(node, f"no {self.kind} named {node.id!r}: {known}")

    def placed(self, node: ast.BinOp) -> Expression:
        """A count in a region."""
        counted = node.left
        if isinstance(counted, ast.Name):
            count = self.color(counted)
        elif isinstance(counted, ast.Call) and _name_of(counted) in MOTIFS:
            count = self.motif(counted)
        else:
            # Python reads 2*red@left as (2*red)@left.
            return self.wrong(
                node,
                f"@ follows {self.source(counted)!r}: write it after one {self.kind}, in brackets, "
                f"as in 2*({self.example})",
            )
        if not isinstance(node.right, ast.Name):
            return self.wrong(
                node.right,
                f"{self.source(node.right)!r} is not a region: write a name, as in {self.example}",
            )
        region = node.right.id
        if region not in self.regions:
            return self.wrong(
                node.right, f"no region named {region!r}: {nearest(region, self.regions)}"
            )
        return Count(count.colors, count.motif, region) if isinstance(count, Count) else count

    def product(self, node: ast.BinOp, depth: int) -> Expression:
        """A multiple of a count by an integer."""
        left, right = self.read(node.left, depth + 1), self.read(node.right, depth + 1)
        if isinstance(right, Constant):
            left, right = right, left
        if not isinstance(left, Constant):
            return self.wrong(
                node, f"{self.source(node)!r} is a product of counts: multiply by an integer"
            )
        return self.made(node, "*", (left, right))

    def remainder(self, node: ast.BinOp, depth: int) -> Expression:
        """A remainder by an integer."""
        left, right = self.read(node.left, depth + 1), self.read(node.right, depth + 1)
        if not isinstance(right, Constant) or right.value < 1:
            return self.wrong(
                node.right,
                f"% is followed by {self.source(node.right)!r}: write an integer of at least 1",
            )
        return self.made(node, "%", (left, right))

    def condition(self, node: ast.AST, depth: int) -> Expression:
        """A comparison, or what joins some."""
        before = len(self.problems)
        found = self.read(node, depth)
        known = is_condition(found) or found in (Constant(0), Constant(1))
        if not known and len(self.problems) == before:
            return self.wrong(
                node, f"{self.source(node)!r} is not a condition: compare it, as in red > 0"
            )
        return found

    def comparison(self, node: ast.Compare, depth: int) -> Expression:
        """A comparison; a chain is that of each pair."""
        values = [self.read(each, depth + 1) for each in (node.left, *node.comparators)]
        pairs = []
        for operator, left, right in zip(node.ops, values, values[1:], strict=False):
            if type(operator) not in COMPARED:
                return self.wrong(
                    node, f"{self.source(node)!r}: compare by {', '.join(COMPARED.values())}"
                )
            pairs.append(self.made(node, COMPARED[type(operator)], (left, right)))
        return pairs[0] if len(pairs) == 1 else folded("and", tuple(pairs))

    def call(self, node: ast.Call, depth: int) -> Expression:
        """A function or a motif."""
        name = _name_of(node)
        if name in MOTIFS:
            return self.motif(node)
        if name not in FUNCTIONS:
            hint = nearest(name, [*FUNCTIONS, *MOTIFS]) if name else "write a function's name"
            return self.wrong(node, f"no function named {self.source(node.func)!r}: {hint}")
        fewest, most = FUNCTIONS[name]
        given = len(node.args)
        takes = str(fewest) if most == fewest else f"{fewest} or more"
        if node.keywords:
            return self.wrong(node, f"{name} has a named operand: it takes {takes} without names")
        if given < fewest or (most is not None and given > most):
            return self.wrong(
                node, f"{name} has {given} operand{'s' * (given != 1)}: it takes {takes}"
            )
        read = self.condition if name == "xor" else self.read
        operands = tuple(read(each, depth + 1) for each in node.args)
        operator: Operator = name  # type: ignore[assignment]
        return self.made(node, operator, operands)

    def motif(self, node: ast.Call) -> Expression:
        """The count of a motif's tiles."""
        name = _name_of(node)
        names = [each.id for each in node.args if isinstance(each, ast.Name)]
        takes = motif_colors(name)
        if node.keywords or len(names) != len(node.args) or len(names) != takes:
            return self.wrong(
                node, f"{self.source(node)!r}: {name} takes {takes} color{'s' * (takes > 1)}"
            )
        if len(set(names)) < takes:
            return self.wrong(node, f"{self.source(node)!r} has one color twice: take two colors")
        for each in node.args:
            if isinstance(self.color(each), Constant):  # type: ignore[arg-type]
                return Constant(0)
        return Count(tuple(names), name)


def _name_of(call: ast.Call) -> str:
    """The name that is called, empty where it is none."""
    return call.func.id if isinstance(call.func, ast.Name) else ""


def folded(operator: Operator, operands: Sequence[Expression]) -> Expression:
    """An operation, computed at once where no operand has a count."""
    if all(isinstance(each, Constant) for each in operands):
        return Constant(int(evaluate(Operation(operator, tuple(operands)), {})))
    return Operation(operator, tuple(operands))
