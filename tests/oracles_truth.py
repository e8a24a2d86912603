"""Naive twins of several definitions of the truth, each reading like its definition."""

import itertools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import Any

from torch import Tensor

# Single replacements and sampled Shapley values: one forward pass for each image.


def single_replacements(
    model: Callable[[Tensor], Tensor], image: Tensor, replacement: Tensor
) -> list[list[float]]:
    """What a model says when each pixel alone, in the order of rows, is the replacement's."""
    outputs = []
    for y in range(image.shape[1]):
        for x in range(image.shape[2]):
            mixed = image.clone()
            mixed[:, y, x] = replacement[:, y, x]
            outputs.append(model(mixed[None])[0].tolist())
    return outputs


def pixel_game(
    explained: Callable[[Tensor], float], image: Tensor, replacement: Tensor
) -> Callable[[frozenset[int]], float]:
    """What an output is for a set of pixels: all others are the replacement's."""

    def game(coalition: frozenset[int]) -> float:
        mixed = replacement.clone()
        for pixel in coalition:
            y, x = divmod(pixel, image.shape[2])
            mixed[:, y, x] = image[:, y, x]
        return explained(mixed[None])

    return game


def shapley_of_orders(
    game: Callable[[frozenset[int]], float], orders: Sequence[Sequence[int]]
) -> list[list[float]]:
    """For each order in which players leave, what the game loses with each player."""
    rows = []
    for order in orders:
        row = [0.0] * len(order)
        for step, player in enumerate(order):
            row[player] = game(frozenset(order[step:])) - game(frozenset(order[step + 1 :]))
        rows.append(row)
    return rows


# Games of counts: a pixel is of one class in the image and of another in the baseline.


def counts_of_coalition(
    present: Sequence[int], absent: Sequence[int], coalition: frozenset[int], classes: int
) -> list[int]:
    """How many pixels count for each class when those of a coalition are there; -1 counts for none."""
    counts = [0] * classes
    for pixel in range(len(present)):
        of_class = present[pixel] if pixel in coalition else absent[pixel]
        if of_class != -1:
            counts[of_class] += 1
    return counts


def said(counts: Sequence[int], target: int, temperature: float | None, modulus: int | None) -> Any:
    """The softmax of the target in 40 digits; without a temperature its count, or the remainder."""
    if temperature is None:
        return counts[target] if modulus is None else counts[target] % modulus
    with localcontext() as context:
        context.prec = 40
        weights = [(Decimal(n - max(counts)) / Decimal(temperature)).exp() for n in counts]
        return weights[target] / sum(weights)


def shapley_over_all_orders(game: Callable[[frozenset[int]], float], players: int) -> list[float]:
    """The mean over all orders of what each player adds to those before it."""
    orders = list(itertools.permutations(range(players)))
    rows = shapley_of_orders(game, orders)
    return [math.fsum(row[player] for row in rows) / len(orders) for player in range(players)]


def shapley_of_moves(
    game: Callable[[tuple[int, ...]], Decimal],
    moves: Sequence[tuple[int, int, int]],
    classes: int,
) -> list[Decimal]:
    """One value for each move (present, absent, number of pixels that make it), in 40 digits: equal
    coalitions are counted instead of listed."""
    with localcontext() as context:
        context.prec = 40
        worths = {
            numbers: game(tuple(counts_of_moves(moves, numbers, classes)))
            for numbers in itertools.product(*[range(number + 1) for *_, number in moves])
        }
        players = sum(number for *_, number in moves)
        values = []
        for kind in range(len(moves)):
            value = Decimal(0)
            without = [number - (kind == k) for k, (*_, number) in enumerate(moves)]
            for numbers in itertools.product(*[range(number + 1) for number in without]):
                coalitions = math.prod(map(math.comb, without, numbers))
                one_more = tuple(n + (kind == k) for k, n in enumerate(numbers))
                gained = worths[one_more] - worths[numbers]
                value += gained * coalitions / (players * math.comb(players - 1, sum(numbers)))
            values.append(value)
        return values


def counts_of_moves(
    moves: Sequence[tuple[int, int, int]], numbers: Sequence[int], classes: int
) -> list[int]:
    """How many pixels count for each class when so many of each move are present."""
    counts = [0] * classes
    for (present, absent, number), there in zip(moves, numbers, strict=True):
        if present != -1:
            counts[present] += there
        if absent != -1:
            counts[absent] += number - there
    return counts


def mean_gradients(
    start: Sequence[int], end: Sequence[int], target: int, temperature: float, steps: int
) -> list[float]:
    """The gradient of a softmax of counts by each count, at the midpoints of equal steps of a line."""
    sums = [0.0] * len(start)
    for step in range(steps):
        s = (step + 0.5) / steps
        logits = [(a + s * (b - a)) / temperature for a, b in zip(start, end, strict=True)]
        weights = [math.exp(logit - max(logits)) for logit in logits]
        p = [weight / sum(weights) for weight in weights]
        for c in range(len(start)):
            sums[c] += p[target] * ((c == target) - p[c]) / temperature / steps
    return sums
