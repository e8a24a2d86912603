"""Naive twins of what the package computes, written as the definitions read: loops and comparisons.

Nothing here imports the networks. Images are nested lists or tensors; a pixel is a tuple of integers.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from torch import Tensor

Pixel = tuple[int, ...]


# Numbers and colors


def is_greater(x: int, i: int) -> int:
    """I_{>i}(x)."""
    return 1 if x > i else 0


def is_number(x: int, number: int) -> int:
    """I_N(x)."""
    return 1 if x == number else 0


def is_color(pixel: Pixel, color: Pixel) -> int:
    """C(r, g, b)."""
    return 1 if tuple(pixel) == tuple(color) else 0


def is_unseen(pixel: Pixel, known: Sequence[Pixel]) -> int:
    """R(r, g, b): none of the known colors, the background among them."""
    return 0 if any(is_color(pixel, color) for color in known) else 1


def remainder(count: int, modulus: int) -> int:
    """x mod N by taking N away as long as there is enough."""
    while count >= modulus:
        count -= modulus
    return count


def argmax(values: Sequence[Any]) -> int:
    """Index of the largest value, the first of equals."""
    winner = 0
    for index, value in enumerate(values):
        if value > values[winner]:
            winner = index
    return winner


# Images


def pixels(image: Tensor) -> list[list[Pixel]]:
    """(C, H, W) as rows of pixels."""
    rows = image.permute(1, 2, 0).tolist()
    return [[tuple(int(value) for value in pixel) for pixel in row] for row in rows]


def total(image: Tensor) -> float:
    """The sum over all values of a single-channel image, one by one."""
    result = 0.0
    for channel in image.tolist():
        for row in channel:
            for value in row:
                result += value
    return result


def count(image: Tensor, color: Pixel) -> int:
    """How many pixels have this color."""
    result = 0
    for row in pixels(image):
        for pixel in row:
            result += is_color(pixel, color)
    return result


def counts(image: Tensor, colors: Sequence[Pixel]) -> list[int]:
    """How many pixels have each of the colors."""
    return [count(image, color) for color in colors]


def label(image: Tensor, colors: Sequence[Pixel], modulus: int | None = None) -> int:
    """The right answer: the winning color, the count of one color, or its remainder."""
    counted = counts(image, colors)
    if len(colors) > 1:
        return argmax(counted)
    return counted[0] if modulus is None else remainder(counted[0], modulus)


def is_degenerate(image: Tensor, colors: Sequence[Pixel], modulus: int | None = None) -> bool:
    """Nothing counts, several colors win, or the remainder is 0."""
    counted = counts(image, colors)
    if modulus is not None:
        return remainder(counted[0], modulus) == 0
    most = counted[argmax(counted)]
    return most == 0 or len([number for number in counted if number == most]) > 1


def mask(image: Tensor, colors: Sequence[Pixel], target: int, output: str) -> list[list[int]]:
    """+1, -1, 0 for each pixel (AttributionLab, F.1 and G.1)."""
    signs = []
    for row in pixels(image):
        signs.append([])
        for pixel in row:
            sign = 0
            for index, color in enumerate(colors):
                if is_color(pixel, color):
                    if index == target:
                        sign = 1
                    elif output == "probability":
                        sign = -1
            signs[-1].append(sign)
    return signs


def intervention(
    output: Callable[[Tensor], Tensor], image: Tensor, baseline: Tensor
) -> list[list[list[float]]]:
    """(H, W, K): what each output loses when one pixel, and no other, becomes the baseline."""
    height, width = image.shape[1:]
    before = output(image[None])[0]
    effects = []
    for y in range(height):
        effects.append([])
        for x in range(width):
            changed = image.clone()
            changed[:, y, x] = baseline.flatten()
            effects[-1].append((before - output(changed[None])[0]).tolist())
    return effects


# Convolutions


def coverage(side: int, outputs: int, stride: int, padding: int, kernel: int = 3) -> list[int]:
    """How many of a convolution's positions along one axis see each input."""
    seen = [0] * side
    for output in range(outputs):
        for offset in range(kernel):
            position = output * stride - padding + offset
            if 0 <= position < side:
                seen[position] += 1
    return seen


# Alignment of an attribution with a truth (AttributionLab, section 4 and eq. 17). Attributions and
# truths are flat sequences.


def normalize(attribution: Sequence[float]) -> list[float]:
    """Positive values over the largest, negative values over the size of the smallest (eq. 17)."""
    top = max((a for a in attribution if a > 0), default=None)
    bottom = min((a for a in attribution if a < 0), default=None)
    normalized = []
    for a in attribution:
        if a > 0:
            normalized.append(a / top)
        elif a < 0:
            normalized.append(a / abs(bottom))
        else:
            normalized.append(0.0)
    return normalized


def precision(attribution: Sequence[float], truth: Sequence[float]) -> float:
    """sum |a g| / sum |a|, and 0 for an attribution of zeros."""
    hit = attributed = 0.0
    for a, g in zip(attribution, truth, strict=True):
        hit += abs(a * g)
        attributed += abs(a)
    return hit / attributed if attributed else 0.0


def recall(attribution: Sequence[float], truth: Sequence[float]) -> float | None:
    """sum |a g| / sum |g|; None where there is nothing to find."""
    hit = there = 0.0
    for a, g in zip(attribution, truth, strict=True):
        hit += abs(a * g)
        there += abs(g)
    return hit / there if there else None


def f1(attribution: Sequence[float], truth: Sequence[float]) -> float | None:
    """The harmonic mean of precision and recall, 0 where both are; None where the truth is empty."""
    found = recall(attribution, truth)
    if found is None:
        return None
    correct = precision(attribution, truth)
    return 2 * correct * found / (correct + found) if correct + found else 0.0


def part(
    attribution: Sequence[float], signs: Sequence[int], claim: str
) -> tuple[list[float], list[int]]:
    """What is compared with what: the positive, the negative or the whole attribution and truth."""
    if claim == "positive":
        return [max(a, 0.0) for a in attribution], [1 if g > 0 else 0 for g in signs]
    if claim == "negative":
        return [max(-a, 0.0) for a in attribution], [1 if g < 0 else 0 for g in signs]
    return [abs(a) for a in attribution], [1 if g != 0 else 0 for g in signs]


def smooth(rows: Sequence[Sequence[float]], sigma: float) -> list[list[float]]:
    """A mask under a Gaussian cut off at 4 sigma, nothing beyond the edge, scaled to a maximum of 1."""
    radius = int(4 * sigma + 0.5)
    height, width = len(rows), len(rows[0])
    blurred = []
    for y in range(height):
        blurred.append([])
        for x in range(width):
            value = 0.0
            for v in range(max(0, y - radius), min(height, y + radius + 1)):
                for u in range(max(0, x - radius), min(width, x + radius + 1)):
                    distance = (v - y) ** 2 + (u - x) ** 2
                    value += rows[v][u] * math.exp(-distance / (2 * sigma**2))
            blurred[-1].append(value)
    most = max(max(row) for row in blurred)
    return [[value / most if most else 0.0 for value in row] for row in blurred]


# Path integrals

Affine = tuple[Sequence[Sequence[Fraction]], Sequence[Fraction]]
"""A matrix and offsets; None in a list of layers is a ReLU."""


def forward(layers: Sequence[Affine | None], values: Sequence[Fraction]) -> list[list[Fraction]]:
    """The values in front of each layer and behind the last."""
    states = [list(values)]
    for layer in layers:
        last = states[-1]
        if layer is None:
            states.append([max(value, Fraction(0)) for value in last])
        else:
            rows = zip(*layer, strict=True)
            states.append(
                [sum((w * v for w, v in zip(row, last, strict=True) if w), b) for row, b in rows]
            )
    return states


def gradient(
    layers: Sequence[Affine | None], values: Sequence[Fraction], target: int
) -> list[Fraction]:
    """The derivatives of one output, with ReLU'(0) = 0."""
    states = forward(layers, values)
    result = [Fraction(int(k == target)) for k in range(len(states[-1]))]
    for layer, before in zip(reversed(layers), reversed(states[:-1]), strict=True):
        if layer is None:
            result = [g if v > 0 else Fraction(0) for g, v in zip(result, before, strict=True)]
        else:
            columns = zip(*layer[0], strict=True)
            result = [sum(w * g for w, g in zip(c, result, strict=True) if w) for c in columns]
    return result


def path_integral(
    layers: Sequence[Affine | None],
    start: Sequence[Fraction],
    end: Sequence[Fraction],
    target: int,
) -> list[Fraction]:
    """Integrated gradients of a ReLU network in rational numbers: no rounding at all."""

    def at(s: Fraction) -> list[Fraction]:
        return [a + s * (b - a) for a, b in zip(start, end, strict=True)]

    points = [Fraction(0), Fraction(1)]
    for depth, layer in enumerate(layers):
        if layer is None:
            inputs = [forward(layers[:depth], at(s))[-1] for s in points]
            roots = {
                s + (t - s) * v / (v - w)
                for (s, before), (t, after) in pairwise(zip(points, inputs, strict=True))
                for v, w in zip(before, after, strict=True)
                if v * w < 0
            }
            points = sorted({*points, *roots})
    result = [Fraction(0)] * len(start)
    for s, t in pairwise(points):
        slopes = gradient(layers, at((s + t) / 2), target)
        result = [r + (t - s) * g for r, g in zip(result, slopes, strict=True)]
    return [(b - a) * r for a, b, r in zip(start, end, result, strict=True)]


def midpoint_rule(function: Callable[[float], Sequence[float]], n: int) -> list[float]:
    """The integral of a function from 0 to 1, by its values in the middle of n equal parts."""
    totals = [0.0] * len(function(0.5))
    for k in range(n):
        totals = [total + v / n for total, v in zip(totals, function((k + 0.5) / n), strict=True)]
    return totals


# Shapley values: what a player adds, on average over all orders in which the players may come.


def softmax(counts: Sequence[int], target: int, temperature: float) -> float:
    """softmax(counts / T)_t."""
    top = max(counts)
    powers = [math.exp((count - top) / temperature) for count in counts]
    return powers[target] / sum(powers)


def shapley(game: Callable[[frozenset[int]], float], players: int) -> list[float]:
    """For each player the sum over all coalitions S without it of |S|! (n - |S| - 1)! / n! times what
    it adds to S."""
    values = [0.0] * players
    for chosen in range(2**players):
        coalition = frozenset(p for p in range(players) if chosen >> p & 1)
        for player in set(range(players)) - coalition:
            share = 1 / (players * math.comb(players - 1, len(coalition)))
            values[player] += share * (game(coalition | {player}) - game(coalition))
    return values


def shapley_of_kinds(game: Callable[[Sequence[int]], float], counts: Sequence[int]) -> list[float]:
    """The same for players of few kinds, one value a kind, where the game sees numbers of players
    alone: equal coalitions are counted instead of listed."""
    players = sum(counts)
    values = [0.0] * len(counts)
    for kind, count in enumerate(counts):
        if not count:
            continue
        without = [n - (k == kind) for k, n in enumerate(counts)]
        for numbers in itertools.product(*[range(n + 1) for n in without]):
            coalitions = math.prod(map(math.comb, without, numbers))
            share = coalitions / (players * math.comb(players - 1, sum(numbers)))
            one_more = [n + (k == kind) for k, n in enumerate(numbers)]
            values[kind] += share * (game(one_more) - game(numbers))
    return values


# Trajectories: pixel after pixel of an image is replaced.


def trajectory(
    model: Callable[[Tensor], Tensor],
    image: Tensor,
    replacement: Tensor,
    order: Sequence[int],
    counts: Sequence[int] | None = None,
) -> list[list[float]]:
    """What a model says after so many replacements (after each, by default): one forward pass for
    each. Image and replacement are (C, H, W), `order` holds flat indices."""
    width = image.shape[2]
    mixed = image.clone()
    outputs = []
    for step in range(len(order) + 1):
        if step > 0:
            y, x = divmod(order[step - 1], width)
            mixed[:, y, x] = replacement[:, y, x]
        if counts is None or step in counts:
            outputs.append(model(mixed[None])[0].tolist())
    return outputs


# Layers


def feed_forward(layers: Sequence[dict[str, Any]], image: list[Any]) -> list[Fraction]:
    """A network on one image (C, H, W), in fractions, as nested loops.

    A layer is {"weight": (out, in, k, k), "bias": (out,), "stride": s, "padding": p, "relu": bool} or,
    behind the flattened map, {"weight": (out, in), "bias": (out,), "relu": bool}.
    """
    maps: Any = [[[Fraction(value) for value in row] for row in channel] for channel in image]
    for layer in layers:
        if "stride" in layer:
            maps = _convolved(layer, maps)
        else:
            if isinstance(maps[0], list):
                maps = [value for channel in maps for row in channel for value in row]
            rows = zip(layer["weight"], layer["bias"], strict=True)
            maps = [
                sum((Fraction(w) * x for w, x in zip(row, maps, strict=True)), Fraction(bias))
                for row, bias in rows
            ]
        if layer["relu"]:
            maps = _positive(maps)
    if isinstance(maps[0], list):
        maps = [value for channel in maps for row in channel for value in row]
    return list(maps)


def _positive(values: Any) -> Any:
    if isinstance(values, list):
        return [_positive(value) for value in values]
    return max(values, Fraction(0))


def _convolved(layer: dict[str, Any], maps: Any) -> Any:
    side, kernel = len(maps[0]), len(layer["weight"][0][0])
    places = range((side + 2 * layer["padding"] - kernel) // layer["stride"] + 1)
    return [
        [[_at(layer, maps, output, top, left) for left in places] for top in places]
        for output in range(len(layer["weight"]))
    ]


def _at(layer: dict[str, Any], maps: Any, output: int, top: int, left: int) -> Fraction:
    total, side = Fraction(layer["bias"][output]), len(maps[0])
    for channel, kernel in enumerate(layer["weight"][output]):
        for dy, row in enumerate(kernel):
            for dx, weight in enumerate(row):
                y = top * layer["stride"] - layer["padding"] + dy
                x = left * layer["stride"] - layer["padding"] + dx
                if weight and 0 <= y < side and 0 <= x < side:
                    total += Fraction(weight) * maps[channel][y][x]
    return total
