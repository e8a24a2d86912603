"""Naive twins of soundness, completeness and ROAD: Algorithms 1 to 4 of Li et al. (2024), with sets.

A map is a dictionary from pixels to exact fractions, what is kept of an image is a set of pixels, and
whatever can be a fraction is one. Nothing here imports the package.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor

from oracles_imputation import linear_imputation

Pixel = tuple[int, int]
Map = Mapping[Pixel, Fraction]
Kept = set[Pixel]
Performance = Callable[[list[Kept]], Fraction]
"""Performance on the data set, where a set of pixels of each image is kept."""


# Maps and sets of pixels.


def map_of(values: Tensor) -> Map:
    """A map (1, H, W), every number as it is stored."""
    return {
        (y, x): Fraction(float(values[0, y, x]))
        for y in range(values.shape[1])
        for x in range(values.shape[2])
    }


def eight_bit(values: Map) -> Map:
    """The nearest of 256 levels, the even one of two."""
    return {pixel: Fraction(round(255 * value)) for pixel, value in values.items()}


def amount(pixels: Kept, values: Map) -> Fraction:
    """Definition 4.7."""
    return sum((values[pixel] for pixel in pixels), Fraction(0))


def highest(values: Map, among: Kept, count: int) -> Kept:
    """The pixels with the largest values, the first in reading order of equal ones."""
    left, chosen = set(among), set()
    while left and len(chosen) < count:
        best = None
        for pixel in sorted(left):
            if best is None or values[pixel] > values[best]:
                best = pixel
        chosen.add(best)
        left.remove(best)
    return chosen


def kept_count(pixels: int, ratio: float) -> int:
    """How many are left where a share of them is masked."""
    return pixels - round(ratio * pixels)


# Performance.


def accuracy(outputs: Sequence[float], label: int) -> Fraction:
    """The chance to be right, if one of the classes with the largest output is drawn."""
    best = [k for k, output in enumerate(outputs) if output == max(outputs)]
    return Fraction(1, len(best)) if label in best else Fraction(0)


def label_probability(outputs: Sequence[float], label: int, temperature: float) -> float:
    powers = [math.exp((output - max(outputs)) / temperature) for output in outputs]
    return powers[label] / sum(powers)


def blackened(image: Tensor, kept: Kept) -> Tensor:
    """The image (C, H, W) with zeros for all pixels that are not kept."""
    result = torch.zeros_like(image)
    for y, x in kept:
        for channel in range(len(image)):
            result[channel, y, x] = image[channel, y, x]
    return result


def noisy_linear(image: Tensor, kept: Kept, noise: Tensor) -> Tensor:
    """Removed pixels solved for, plus their noise (C, H, W)."""
    removed = torch.tensor(
        [[(y, x) not in kept for x in range(image.shape[2])] for y in range(image.shape[1])]
    )
    solved = torch.from_numpy(linear_imputation(image.double().numpy(), removed.numpy()))
    return torch.where(removed, (solved + noise).to(image.dtype), image)


def performance_of(
    model: Callable[[Tensor], Tensor],
    images: Tensor,
    labels: Tensor,
    impute: Callable[[int, Tensor, Kept], Tensor],
    indicator: Callable[[Sequence[float], int], Fraction] = accuracy,
) -> Performance:
    """Mean indicator over images (B, C, H, W), imputed and shown to the model one by one."""

    def performance(kept: list[Kept]) -> Fraction:
        total = Fraction(0)
        for number, (image, label, pixels) in enumerate(zip(images, labels, kept, strict=True)):
            with torch.no_grad():
                [outputs] = model(impute(number, image, pixels)[None]).tolist()
            total += Fraction(indicator(outputs, int(label)))
        return total / len(images)

    return performance


# Soundness.


class Level(NamedTuple):
    """What Algorithm 1 ends with."""

    performance: Fraction
    included: list[Kept]
    sound: list[Fraction | None]
    """None for images without included attribution"""


def shares(sound: list[Kept], included: list[Kept], maps: list[Map]) -> list[Fraction | None]:
    totals = [amount(pixels, values) for pixels, values in zip(included, maps, strict=True)]
    return [
        amount(pixels, values) / total if total else None
        for pixels, values, total in zip(sound, maps, totals, strict=True)
    ]


def soundness_at_level(
    performance: Performance,
    maps: list[Map],
    ratios: Sequence[float],
    level: Fraction,
    epsilon: Fraction,
) -> Level | None:
    """Algorithm 1; None if every attributed pixel is included and the level is not reached.

    A step expands the included pixels to the share of the area that the next ratio leaves, or to all
    attributed ones.
    """
    attributed = [{p for p in values if values[p] > 0} for values in maps]
    included: list[Kept] = [set() for _ in maps]
    false: list[Kept] = [set() for _ in maps]
    s, steps = Fraction(0), list(ratios)
    while s < level:
        if not steps:
            return None
        ratio = steps.pop(0)
        added = [
            highest(values, pixels - inside, kept_count(len(values), ratio) - len(inside))
            for values, pixels, inside in zip(maps, attributed, included, strict=True)
        ]
        included = [inside | more for inside, more in zip(included, added, strict=True)]
        new = performance(included)
        if new - s < epsilon:
            false = [wrong | more for wrong, more in zip(false, added, strict=True)]
        s = new
    sound = [inside - wrong for inside, wrong in zip(included, false, strict=True)]
    return Level(s, included, shares(sound, included, maps))


class Step(NamedTuple):
    performance: Fraction
    sound: list[Fraction | None]
    false: bool


def kept_pixels(values: Map, ratio: float, attributed: bool) -> Kept:
    """Those with the highest values where a share of the area is masked, perhaps of attributed ones."""
    among = {pixel for pixel in values if values[pixel] > 0 or not attributed}
    return highest(values, among, kept_count(len(values), ratio))


def soundness_steps(
    performance: Performance,
    maps: list[Map],
    ratios: Sequence[float],
    epsilon: Fraction,
    attributed: bool,
) -> list[Step]:
    """Algorithm 3."""
    found = []
    false: list[Kept] = [set() for _ in maps]
    before: list[Kept] = [set() for _ in maps]
    s0 = Fraction(0)
    for ratio in ratios:
        included = [kept_pixels(values, ratio, attributed) for values in maps]
        added = [now - then for now, then in zip(included, before, strict=True)]
        s = performance(included)
        is_false = s - s0 < epsilon
        if is_false:
            false = [wrong | more for wrong, more in zip(false, added, strict=True)]
        sound = [inside - wrong for inside, wrong in zip(included, false, strict=True)]
        found.append(Step(s, shares(sound, included, maps), is_false))
        s0, before = s, included
    return found


def released_steps(
    performance: Performance,
    maps: list[Map],
    ratios: Sequence[float],
    epsilon: Fraction,
    attributed: bool,
) -> list[Step]:
    """The public code: 256 levels, q first, `<=`, and nothing false up to a performance of 0.04."""
    maps = [eight_bit(values) for values in maps]
    found = []
    false: list[Kept] = [set() for _ in maps]
    before: list[Kept] = [set() for _ in maps]
    s0 = Fraction(0)
    for ratio in ratios:
        included = [kept_pixels(values, ratio, attributed) for values in maps]
        s = performance(included)
        sound = [inside - wrong for inside, wrong in zip(included, false, strict=True)]
        is_false = s - s0 <= epsilon and s > Fraction(4, 100)
        found.append(Step(s, shares(sound, included, maps), is_false))
        if is_false:
            false = [
                wrong | (now - then)
                for wrong, now, then in zip(false, included, before, strict=True)
            ]
        s0, before = s, included
    return found


# Completeness.


class Rest(NamedTuple):
    difference: Fraction
    removed: Fraction
    emptied: int


def completeness_at_threshold(
    performance: Performance, maps: list[Map], above: Sequence[Fraction]
) -> Rest:
    """Algorithm 2; a threshold for each map."""
    everything = [set(values) for values in maps]
    attributed = [
        {p for p in values if values[p] > limit} for values, limit in zip(maps, above, strict=True)
    ]
    rest = [pixels - chosen for pixels, chosen in zip(everything, attributed, strict=True)]
    return Rest(
        performance(everything) - performance(rest),
        Fraction(sum(map(len, attributed)), sum(map(len, everything))),
        sum(not pixels for pixels in rest),
    )


def completeness_steps(
    performance: Performance, maps: list[Map], thresholds: Sequence[Fraction]
) -> list[Rest]:
    """Algorithm 4."""
    return [completeness_at_threshold(performance, maps, [t] * len(maps)) for t in thresholds]


def released_completeness_steps(
    performance: Performance, maps: list[Map], thresholds: Sequence[float]
) -> list[Rest]:
    """The public code: 256 levels, and a threshold is a share of each map's own maximum."""
    maps = [eight_bit(values) for values in maps]
    return [
        completeness_at_threshold(
            performance, maps, [Fraction(str(t)) * max(values.values()) for values in maps]
        )
        for t in thresholds
    ]


# ROAD.


def kept_after_removal(values: Map, fraction: float, falling: bool) -> Kept:
    """Remove the most relevant pixel that is left (or the least), the first of equal ones."""
    signed = values if falling else {pixel: -value for pixel, value in values.items()}
    return set(values) - highest(signed, set(values), round(fraction * len(values)))


def mean_height(heights: Sequence[float], places: Sequence[float]) -> float:
    """Area of trapezoids over what they span."""
    area = 0.0
    for k in range(1, len(places)):
        area += (places[k] - places[k - 1]) * (heights[k] + heights[k - 1]) / 2
    return area / (places[-1] - places[0])


# True ratios.


def true_soundness(eta: Map, phi: Map, inside: Kept | None = None) -> Fraction | None:
    """Definition 4.8."""
    a = {p for p in eta if eta[p] > 0 and (inside is None or p in inside)}
    i = {p for p in phi if phi[p] > 0}
    return amount(a & i, eta) / amount(a, eta) if a else None


def true_completeness(eta: Map, phi: Map, threshold: Fraction) -> Fraction | None:
    """Definition 4.9."""
    a = {p for p in eta if eta[p] > threshold}
    i = {p for p in phi if phi[p] > 0}
    return amount(a & i, phi) / amount(i, phi) if i else None


# Curves.


def hausdorff(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float:
    """How far the point of either that is farthest from the other is from its nearest point."""
    farthest = 0.0
    for one, other in ((first, second), (second, first)):
        for a in one:
            nearest = math.inf
            for b in other:
                nearest = min(nearest, math.dist(a, b))
            farthest = max(farthest, nearest)
    return farthest
