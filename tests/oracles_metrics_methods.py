"""Naive twins of metrics that judge a method: one copy of an image, one layer, one pixel at a time.

Nothing here imports the package. A method is a function of model, images and targets.
"""

import copy
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from oracles_metrics import rank_correlation

Method = Callable[[nn.Module, Tensor, Tensor], Tensor]


def noises(
    images: int, draws: int, shape: Sequence[int], radius: float, seed: int
) -> list[list[Tensor]]:
    """For each image its draws, from one stream of uniform numbers."""
    stream = torch.Generator().manual_seed(seed)
    drawn = [torch.rand(draws, *shape, generator=stream) * 2 - 1 for _ in range(images)]
    return [[radius * each.double() for each in some] for some in drawn]


def explained(attribute: Method, model: nn.Module, image: Tensor, target: int) -> list[float]:
    """The map of one image, summed over channels."""
    found = attribute(model, image[None], torch.tensor([target]))[0]
    return [math.fsum(pixel.tolist()) for pixel in found.detach().flatten(1).T]


def norm(values: Sequence[float]) -> float:
    return math.sqrt(math.fsum(value**2 for value in values))


def relative(after: Sequence[float], before: Sequence[float], epsilon: float) -> float:
    """Norm of the changes, each divided by the value before, or epsilon for 0."""
    pairs = zip(after, before, strict=True)
    return norm([(new - old) / (old if old != 0 else epsilon) for new, old in pairs])


def lipschitz(
    attribute: Method, model: nn.Module, image: Tensor, target: int, drawn: Sequence[Tensor]
) -> float:
    """Largest ||a(x') - a(x)|| / ||x' - x||."""
    before = explained(attribute, model, image, target)
    largest = 0.0
    for noise in drawn:
        after = explained(attribute, model, image + noise, target)
        gap = norm([new - old for new, old in zip(after, before, strict=True)])
        largest = max(largest, gap / norm(noise.flatten().tolist()))
    return largest


def relative_stability(
    attribute: Method,
    model: nn.Module,
    image: Tensor,
    target: int,
    drawn: Sequence[Tensor],
    epsilon: float,
    seen: Callable[[Tensor], Tensor],
    is_relative: bool,
) -> float:
    """Largest relative change of the map over that of what is seen; NaN if no answer stays."""

    def answer(shown: Tensor) -> int:
        outputs = model(shown[None])[0].tolist()
        return outputs.index(max(outputs))

    before, seen_before = explained(attribute, model, image, target), seen(image).flatten().tolist()
    ratios = []
    for noise in drawn:
        if answer(image + noise) != answer(image):
            continue
        change = relative(explained(attribute, model, image + noise, target), before, epsilon)
        seen_after = seen(image + noise).flatten().tolist()
        if is_relative:
            moved = relative(seen_after, seen_before, epsilon)
        else:
            moved = norm([new - old for new, old in zip(seen_after, seen_before, strict=True)])
        ratios.append(change / max(moved, epsilon))
    return max(ratios, default=math.nan)


def randomized(model: nn.Module, numbers: Sequence[int], seed: int) -> nn.Module:
    """A copy of a model whose layers of these numbers are drawn anew."""
    other = copy.deepcopy(model)
    layers = [each for each in other.modules() if hasattr(each, "reset_parameters")]
    for number in numbers:
        torch.manual_seed(seed + number)
        layers[number].reset_parameters()  # type: ignore[operator]
    return other


def stages(layers: int, order: str) -> list[list[int]]:
    """Which layers are drawn anew at each stage."""
    if order == "independent":
        return [[number] for number in range(layers)]
    path = list(range(layers)) if order == "bottom-up" else list(range(layers))[::-1]
    return [path[: count + 1] for count in range(layers)]


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """NaN where either is constant."""
    constant = len(set(first)) == 1 or len(set(second)) == 1
    return math.nan if constant else float(rank_correlation(first, second))


def histogram_entropy(values: Sequence[float], bins: int) -> float:
    """Of the shares of values in bins of equal width; the highest value lies in the last."""
    low, high = min(values), max(values)
    if low == high:
        return 0.0
    counts = [0] * bins
    for value in values:
        counts[min(int((value - low) / (high - low) * bins), bins - 1)] += 1
    shares = [count / len(values) for count in counts if count]
    return -math.fsum(share * math.log(share) for share in shares)
