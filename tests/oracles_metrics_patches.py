"""Naive twins of metrics of maps alone, of two methods, and of patches: loops over the definitions.

Nothing here imports the package. Images are (C, H, W), maps lists of numbers, pixels flat indices.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from torch import Tensor

from oracles_metrics import output_without, pearson, rank_correlation, rankings, removal_order

Patch = Sequence[int]


def gini(values: Sequence[float]) -> float:
    """Mean difference of all pairs, over twice the mean."""
    exact = [Fraction(value) for value in values]
    total = sum(exact)
    if not total:
        return math.nan
    differences = sum(abs(one - other) for one in exact for other in exact)
    return float(differences / (2 * len(exact) * total))


def entropy(values: Sequence[float]) -> float:
    """- sum of p ln p, p each value's share of the sum."""
    total = sum(Fraction(value) for value in values)
    if not total:
        return math.nan
    shares = [float(Fraction(value) / total) for value in values]
    return -math.fsum(p * math.log(p) for p in shares if p)


def agreement(
    first: Sequence[float],
    second: Sequence[float],
    k: int,
    *,
    magnitude: bool,
    ranks: bool,
    signs: bool,
) -> float:
    """Share of the k first pixels of one map that are among those of the other, under conditions."""
    keys = [[abs(v) if magnitude else v for v in values] for values in (first, second)]
    if any(len(set(key)) == 1 for key in keys):
        return math.nan
    tops = [removal_order(key, falling=True)[:k] for key in keys]
    count = 0
    for place, pixel in enumerate(tops[0]):
        if pixel not in tops[1]:
            continue
        if ranks and tops[1][place] != pixel:
            continue
        if signs and math.copysign(bool(first[pixel]), first[pixel]) != math.copysign(
            bool(second[pixel]), second[pixel]
        ):
            continue
        count += 1
    return count / k


def top_share(values: Sequence[float], mask: Sequence[bool], k: int) -> float | None:
    """Share of the k first pixels inside the mask, the mean over all ways to break ties."""
    if not any(mask):
        return None
    orders = rankings(values)
    hits = sum(mask[pixel] for order in orders for pixel in order[:k])
    return hits / (k * len(orders))


def region_curve(
    model: Callable[[Tensor], Tensor],
    image: Tensor,
    other: Tensor,
    values: Sequence[float],
    patches: Sequence[Patch],
    target: int,
    falling: bool,
) -> list[float]:
    """The output with the first 0, 1, ... patches replaced, by their exact mean value."""
    means = [sum(Fraction(values[p]) for p in patch) / len(patch) for patch in patches]
    order = removal_order(means, falling)  # type: ignore[arg-type]
    gone: list[int] = []
    outputs = [output_without(model, image, other, gone, target)]
    for number in order:
        gone = gone + list(patches[number])
        outputs.append(output_without(model, image, other, gone, target))
    return outputs


def sums_of(values: Sequence[float], patches: Sequence[Patch]) -> list[float]:
    """Each patch's exact sum."""
    return [float(sum(Fraction(values[p]) for p in patch)) for patch in patches]


def correlated(sums: Sequence[float], drops: Sequence[float], ranked: bool) -> float:
    """Pearson's or Spearman's correlation; NaN for equal drops, 0 where only the sums are equal."""
    if len(set(drops)) == 1:
        return math.nan
    if len(set(sums)) == 1:
        return 0.0
    if ranked:
        return float(rank_correlation(sums, drops))
    found = pearson(sums, drops)
    assert found is not None
    return found


def one_without_the_other(
    sizes: Sequence[float], changes: Sequence[float], tolerance: float
) -> float:
    """Share of the patches of which just one is at most the tolerance's share of the largest."""
    count = 0
    for size, change in zip(sizes, changes, strict=True):
        small = size <= tolerance * max(sizes), change <= tolerance * max(changes)
        count += small[0] != small[1]
    return count / len(sizes)


def same_answers(
    maps: Sequence[Sequence[float]], answers: Sequence[int], closeness: float
) -> list[float]:
    """For each map the share of the maps no farther away that have its answer."""
    shares = []
    for i, one in enumerate(maps):
        near = [
            answers[j] == answers[i]
            for j, other in enumerate(maps)
            if j != i and math.dist(one, other) <= closeness
        ]
        shares.append(sum(near) / len(near) if near else math.nan)
    return shares
