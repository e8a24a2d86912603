"""Naive twins of the metrics, written as the definitions read: one forward pass a step, plain loops.

Nothing here imports the package.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

import torch
from torch import Tensor

# Perturbation in an order. An order is a list of flat pixel indices.

Model = Callable[[Tensor], Tensor]


def removal_order(values: Sequence[float], falling: bool) -> list[int]:
    """Take the largest (or smallest) value that is left, the first of equals, until none is left."""
    left = list(range(len(values)))
    order = []
    while left:
        best = left[0]
        for pixel in left:
            if (values[pixel] > values[best]) if falling else (values[pixel] < values[best]):
                best = pixel
        order.append(best)
        left.remove(best)
    return order


def replaced(image: Tensor, other: Tensor, chosen: Sequence[int]) -> Tensor:
    """The image (C, H, W) with all channels of the chosen pixels from the other."""
    result = image.clone()
    for pixel in chosen:
        row, column = pixel // image.shape[2], pixel % image.shape[2]
        for channel in range(image.shape[0]):
            result[channel, row, column] = other[channel, row, column]
    return result


def outputs_along(
    model: Model, image: Tensor, other: Tensor, order: Sequence[int], target: int
) -> list[float]:
    """The target's output with the first 0, 1, ..., P pixels of the order replaced."""
    outputs = []
    with torch.no_grad():
        for count in range(len(order) + 1):
            outputs.append(float(model(replaced(image, other, order[:count])[None])[0, target]))
    return outputs


def changed_so_far(outputs: Sequence[float]) -> list[float] | None:
    """At each step, the share of all changing steps that are past (F.4); None without any."""
    past = [0]
    for before, after in pairwise(outputs):
        past.append(past[-1] + (1 if after != before else 0))
    return [count / past[-1] for count in past] if past[-1] else None


def kept_steps(pixels: int, step: int) -> list[int]:
    """0, step, 2 step, ... and the last."""
    kept = [0]
    while kept[-1] < pixels:
        kept.append(min(kept[-1] + step, pixels))
    return kept


def area(heights: Sequence[float], places: Sequence[float]) -> float:
    """Trapezoid by trapezoid."""
    total = 0.0
    for index in range(len(heights) - 1):
        width = places[index + 1] - places[index]
        total += width * (heights[index] + heights[index + 1]) / 2
    return total


def aopc(heights: Sequence[float]) -> float:
    """1 / (L + 1) sum over k = 0 ... L of f(x_0) - f(x_k)."""
    total = 0.0
    for height in heights:
        total += heights[0] - height
    return total / len(heights)


def summary(samples: Sequence[float]) -> tuple[float, float, float, float, float]:
    """Mean, standard deviation, quartiles, of at least two samples."""
    lower, median, upper = statistics.quantiles(samples, method="inclusive")
    return statistics.mean(samples), statistics.stdev(samples), lower, median, upper


# Subsets of pixels. Draws come from a generator as the package says: image after image.


def permutations(images: int, draws: int, pixels: int, seed: int) -> list[list[list[int]]]:
    """For each image its draws, each a permutation of the pixels, from one stream."""
    generator = torch.Generator().manual_seed(seed)
    return [
        [torch.randperm(pixels, generator=generator).tolist() for _ in range(draws)]
        for _ in range(images)
    ]


def output_without(
    model: Model, image: Tensor, other: Tensor, chosen: Sequence[int], target: int
) -> float:
    """The target's output for the image without the chosen pixels."""
    with torch.no_grad():
        return float(model(replaced(image, other, chosen)[None])[0, target])


def loss(model: Model, image: Tensor, other: Tensor, chosen: Sequence[int], target: int) -> float:
    """f(x) - f(x without the chosen pixels)."""
    before = output_without(model, image, other, [], target)
    return before - output_without(model, image, other, chosen, target)


def changed_steps(
    model: Model, image: Tensor, other: Tensor, chosen: Sequence[int], target: int
) -> float:
    """Remove the chosen pixels one by one and count how often the output changes (F.5)."""
    count = 0
    for step in range(len(chosen)):
        before = output_without(model, image, other, chosen[:step], target)
        after = output_without(model, image, other, chosen[: step + 1], target)
        if after != before:
            count += 1
    return float(count)


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """cov(x, y) / sqrt(var(x) var(y)), without rounding but for the root; None if one is constant."""
    exact_x, exact_y = [Fraction(value) for value in x], [Fraction(value) for value in y]
    mean_x, mean_y = sum(exact_x) / len(x), sum(exact_y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(exact_x, exact_y, strict=True))
    variance_x = sum((a - mean_x) ** 2 for a in exact_x)
    variance_y = sum((b - mean_y) ** 2 for b in exact_y)
    if variance_x == 0 or variance_y == 0:
        return None
    square = float(covariance**2 / (variance_x * variance_y))
    return math.copysign(math.sqrt(square), covariance)


def sensitivity(
    values: Sequence[float], changes: Sequence[float], orders: Sequence[Sequence[int]], size: int
) -> float | None:
    """Correlation of summed attributions and changes over draws; None where a size says nothing."""
    sums = []
    for order in orders:
        total = Fraction(0)
        for pixel in order[:size]:
            total += Fraction(values[pixel])
        sums.append(total)
    if size == len(values) or all(change == changes[0] for change in changes):
        return None
    if all(total == sums[0] for total in sums):
        return 0.0
    return pearson(sums, changes)


def infidelity(
    model: Model,
    image: Tensor,
    other: Tensor,
    values: Sequence[float],
    target: int,
    subsets: Sequence[Sequence[int]],
    normalize: bool,
) -> float:
    """Mean of (sum of a over S - (f(x) - f(x without S)))^2 over subsets (Yeh et al., 2019)."""
    sums = [math.fsum(values[pixel] for pixel in subset) for subset in subsets]
    losses = [loss(model, image, other, subset, target) for subset in subsets]
    scale = 1.0
    if normalize:
        square = math.fsum(x * x for x in sums)
        products = math.fsum(x * y for x, y in zip(sums, losses, strict=True))
        scale = products / square if square else 1.0
    gaps = [(scale * x - y) ** 2 for x, y in zip(sums, losses, strict=True)]
    return math.fsum(gaps) / len(gaps)


def max_sensitivity(
    attribute: Callable[[Tensor], Tensor], image: Tensor, noises: Sequence[Tensor]
) -> float:
    """Largest ||a(x + d) - a(x)|| / ||a(x)|| over the noises d; a norm of 0 is taken for 1."""
    before = attribute(image).flatten().tolist()
    norm = math.sqrt(math.fsum(value**2 for value in before)) or 1.0
    largest = 0.0
    for noise in noises:
        after = attribute(image + noise).flatten().tolist()
        gap = math.fsum((b - a) ** 2 for a, b in zip(before, after, strict=True))
        largest = max(largest, math.sqrt(gap) / norm)
    return largest


# Localization. A mask is a list of booleans.


def rankings(values: Sequence[float]) -> list[list[int]]:
    """All orders of the pixels in which values never rise: every way to break ties."""
    return [
        list(order)
        for order in itertools.permutations(range(len(values)))
        if all(values[a] >= values[b] for a, b in itertools.pairwise(order))
    ]


def pointing_game(values: Sequence[float], mask: Sequence[bool]) -> float | None:
    """How often the first pixel is a hit, over all ways to break ties."""
    if not any(mask):
        return None
    return statistics.mean(float(mask[order[0]]) for order in rankings(values))


def mass_accuracy(values: Sequence[float], mask: Sequence[bool]) -> float | None:
    """Attribution inside the mask / all attribution."""
    if not any(mask):
        return None
    inside = math.fsum(value for value, inside in zip(values, mask, strict=True) if inside)
    return inside / math.fsum(values) if any(values) else 0.0


def rank_accuracy(values: Sequence[float], mask: Sequence[bool]) -> float | None:
    """Hits among the first n pixels / n, the mean over all ways to break ties."""
    n = sum(mask)
    if n == 0:
        return None
    return statistics.mean(sum(mask[p] for p in order[:n]) / n for order in rankings(values))


# Attributions against values


def rank_correlation(attributions, values):
    """Pearson's correlation of mean ranks, from their definition."""

    def ranks(numbers):
        return [
            sum(other < one for other in numbers) + (sum(o == one for o in numbers) + 1) / 2
            for one in numbers
        ]

    a, v = ranks(attributions), ranks(values)
    middle = (len(a) + 1) / 2
    a, v = [r - middle for r in a], [r - middle for r in v]
    if not any(v):
        return math.nan
    if not any(a):
        return 0.0
    product = sum(x * y for x, y in zip(a, v, strict=True))
    return product / math.sqrt(sum(x * x for x in a) * sum(y * y for y in v))


def cosine(attributions, values):
    """Cosine of the angle between two lists of numbers."""
    if not any(values):
        return math.nan
    if not any(attributions):
        return 0.0
    product = sum(a * v for a, v in zip(attributions, values, strict=True))
    return product / (math.hypot(*attributions) * math.hypot(*values))


def sign_agreement(attributions, values):
    """Share of the values other than 0 whose sign the attribution has."""
    there = [(a, v) for a, v in zip(attributions, values, strict=True) if v != 0]
    if not there:
        return math.nan
    return sum((a > 0) == (v > 0) and a != 0 for a, v in there) / len(there)
