"""Naive twins of the games of rules: all coalitions of pixels, one by one, in plain Python."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from functools import cache

Pixel = tuple[int, int, str]
"""Row, column, name of its color."""


class Counted(int):
    """A count, with those in regions behind @."""

    def __new__(cls, value: int, placed: Callable[[str], int]) -> "Counted":
        made = super().__new__(cls, value)
        made.placed = placed
        return made

    def __matmul__(self, where: str) -> int:
        return self.placed(where)


def is_inside(region: str, y: int, x: int, side: int) -> bool:
    """Whether the center of a pixel lies in a region; the image has side 1."""
    down, right = (y + 0.5) / side, (x + 0.5) / side
    center = 0.25 <= down < 0.75 and 0.25 <= right < 0.75
    return {
        "": True,
        "left": right < 0.5,
        "right": right >= 0.5,
        "top": down < 0.5,
        "bottom": down >= 0.5,
        "top_left": down < 0.5 and right < 0.5,
        "top_right": down < 0.5 and right >= 0.5,
        "bottom_left": down >= 0.5 and right < 0.5,
        "bottom_right": down >= 0.5 and right >= 0.5,
        "center": center,
        "ring": not center,
    }[region]


REGIONS = (
    *("left", "right", "top", "bottom", "top_left", "top_right", "bottom_left", "bottom_right"),
    *("center", "ring"),
)


@cache
def region(name: str, side: int) -> frozenset[tuple[int, int]]:
    """The pixels of a region, of the whole image for ""."""
    return frozenset(
        (y, x) for y in range(side) for x in range(side) if is_inside(name, y, x, side)
    )


@cache
def tiles(side: int) -> list[list[tuple[int, int]]]:
    """The pixels of all tiles of 2 x 2, each from left to right and from top to bottom."""
    return [
        [(y, x), (y, x + 1), (y + 1, x), (y + 1, x + 1)]
        for y in range(0, side - 1, 2)
        for x in range(0, side - 1, 2)
    ]


def logits_of(rules: Sequence[str], pixels: Sequence[Pixel], side: int) -> list[int]:
    """What rules say of an image that has these pixels only: Python reads them, names are counts."""
    color = {(y, x): name for y, x, name in pixels}

    def of_color(name: str) -> Counted:
        def placed(where: str) -> int:
            inside = region(where, side)
            return sum(shown == name and at in inside for at, shown in color.items())

        return Counted(placed(""), placed)

    def motif(wanted: Callable[..., tuple]) -> Callable[..., Counted]:
        def count(*colors: Counted) -> Counted:
            names = [each.name for each in colors]

            def placed(where: str) -> int:
                inside = region(where, side)
                return sum(
                    all(at in inside for at in tile)
                    and all(
                        name is None or color.get(at) == name
                        for at, name in zip(tile, wanted(*names), strict=True)
                    )
                    for tile in tiles(side)
                )

            return Counted(placed(""), placed)

        return count

    names = set(COLORS)
    known = {each: each for each in REGIONS}
    for name in names:
        known[name] = of_color(name)
        known[name].name = name
    known |= {
        "relu": lambda a: max(a, 0),
        "xor": lambda a, b: bool(a) != bool(b),
        "stripes": motif(lambda a, b: (a, b, a, b)),
        "checks": motif(lambda a, b: (a, b, b, a)),
        "corner": motif(lambda a: (a, None, a, a)),
    }
    return [
        int(eval(rule, {"__builtins__": {"min": min, "max": max, "abs": abs}}, known))
        for rule in rules
    ]


COLORS = ("red", "blue", "green", "yellow")


def outputs(
    rules: Sequence[str], pixels: Sequence[Pixel], side: int, target: int, temperature: float | None
) -> tuple[list[float], list[tuple[int, ...]]]:
    """The output, and all integers that it depends on, of each coalition: bit i is pixel i."""
    values, integers = [], []
    for coalition in range(2 ** len(pixels)):
        there = [pixel for at, pixel in enumerate(pixels) if coalition >> at & 1]
        logits = logits_of(rules, there, side)
        if temperature is None:
            values.append(float(logits[target]))
            integers.append((logits[target],))
        else:
            most = max(logits)
            weights = [math.exp((each - most) / temperature) for each in logits]
            values.append(weights[target] / math.fsum(weights))
            integers.append(tuple(each - logits[target] for each in logits))
    return values, integers


def without(player: int, players: int) -> list[int]:
    """All coalitions without a player."""
    return [each for each in range(2**players) if not each >> player & 1]


def marginals(values: Sequence[float], player: int, players: int) -> list[tuple[float, float]]:
    """What a player adds to each coalition, with Shapley's weight |S|! (n - |S| - 1)! / n!."""
    return [
        (
            values[each | 1 << player] - values[each],
            1 / (players * math.comb(players - 1, each.bit_count())),
        )
        for each in without(player, players)
    ]


def shapley(values: Sequence[float], player: int, players: int) -> float:
    return math.fsum(step * weight for step, weight in marginals(values, player, players))


def rising(values: Sequence[float], player: int, players: int) -> float:
    """S+: the expected positive part."""
    return math.fsum(max(step, 0) * weight for step, weight in marginals(values, player, players))


def falling(values: Sequence[float], player: int, players: int) -> float:
    """S-: the expected negative part."""
    return math.fsum(max(-step, 0) * weight for step, weight in marginals(values, player, players))


def changes(integers: Sequence[tuple[int, ...]], player: int, players: int) -> bool:
    """Whether a player ever changes an integer."""
    return any(integers[each | 1 << player] != integers[each] for each in without(player, players))


@cache
def order(integers: tuple[int, ...], temperature: float | None) -> Decimal:
    """A number that rises and falls with the output: the logit, or the negative of 1 / p.

    In 150 digits sums of exponentials differ unless their terms are the same: exponents are at most
    some hundred, and exponentials of different rationals are independent.
    """
    if temperature is None:
        return Decimal(integers[0])
    with localcontext() as context:
        context.prec = 150
        return -sum((Decimal(each) / Decimal(temperature)).exp() for each in sorted(integers))


def ever(
    integers: Sequence[tuple[int, ...]], player: int, players: int, temperature: float | None
) -> tuple[bool, bool]:
    """Whether a player ever raises the output, and whether it ever lowers it."""
    pairs = [
        (order(integers[each], temperature), order(integers[each | 1 << player], temperature))
        for each in without(player, players)
    ]
    return any(after > before for before, after in pairs), any(
        after < before for before, after in pairs
    )
