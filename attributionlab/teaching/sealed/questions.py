"""What a sealed laboratory asks, and the right answers, each found by an intervention."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import GAMMA, AttributionWarning
from attributionlab.verdicts import attribute
from attributionlab.worlds import Count, Environment, Rule, evaluate, least_f1
from attributionlab.worlds.images import Color

DOSES: tuple[float, ...] = (0, 0.05, 0.1, 0.25, 0.5, 1)
"""Shares of replaced pixels that get a color; the others get the background's."""
NEVER = "never"
STEPS = 16
"""Deletion looks at the output after 0, 1/16, ..., 16/16 of the pixels are replaced."""
MARGIN = 0.05
"""So close to GAMMA, the F1 with which a method passes here, it is not asked whether it does."""
PASSES = "passes"
CAUSES: Mapping[str, str] = {
    PASSES: f"its maps of the laboratory's images reach an F1 of {GAMMA}",
    "baseline": "it fails, and passes with the background's color as its baseline",
    "path": "it fails from the background too: the output along the straight path misleads it",
    "gradient": "it fails with the background as baseline too, where removing single pixels passes",
    "single-change": "it fails, and so does removing single pixels: only several changes together show",
}
"""What may be said of a method."""
METHODS: tuple[str, ...] = (
    "saliency",
    "input-x-gradient",
    "integrated-gradients",
    "feature-ablation",
)
BLACK = (0, 0, 0)
FREE: Mapping[str, str] = {
    "irrelevant": "Name a color and a place in which it does not count. Which experiment shows it, and "
    "what did the network return?",
    "trust": "Which method would you trust on an image that is not among these, and what observation "
    "would change your mind?",
    "assumed": "What did you, or your script, take for granted without testing it?",
}
"""Questions that a lecturer reads: their answers, in words, get no points here."""
LONGEST_TEXT = 1500
"""Characters of such an answer."""
POINTS: dict[str, int] = {
    "maps": 40,
    "parts": 20,
    "contexts": 10,
    "baselines": 10,
    "methods": 10,
    "doses": 10,
}


def parts(colors: Iterable[str], places: Iterable[str]) -> list[str]:
    """Names of what images may show: each color in each place."""
    return [f"{color}@{place}" for color, place in product(colors, places)]


def signs_of_parts(
    rule: Rule,
    groups: Sequence[Sequence[Count]],
    images: NDArray[np.int64],
    signed: NDArray[np.int8],
    asked: NDArray[np.bool_],
) -> dict[str, int] | None:
    """+1, -1 or 0 for each part; None if a part has no sign, or not the same in all images.

    Parts of a group count alike: what one of them shows holds for all. `images` are (n, C, H, W),
    masks (n, 1, H, W).
    """
    found = dict[str, int]()
    for group in groups:
        shown = np.array([[rule.places.hits(image, part) for part in group] for image in images])
        seen = shown.any(1, keepdims=True)
        values = set(signed[seen].tolist())
        if len(values) != 1 or not asked[seen].all():
            return None
        found |= dict.fromkeys(map(str, group), int(values.pop()))
    return found


def contexts(rule: Rule, images: NDArray[np.int64]) -> list[list[str]]:
    """Pairs of parts of which one changes what the other does.

    A pair (p, q) is one if, in some image and after some other parts were replaced by the background,
    f(both) - f(without p) - f(without q) + f(without both) is not 0.
    """
    counts = rule.counts_used
    found = set()
    for image in images:
        sizes = rule.places.count(image, counts)
        there = np.indices((2,) * len(counts))
        outputs = evaluate(
            rule.expressions[0],
            {count: there[k] * sizes[count] for k, count in enumerate(counts)},
        )
        for first, second in combinations(range(len(counts)), 2):
            if np.diff(np.diff(outputs, axis=first), axis=second).any():
                found.add((str(counts[first]), str(counts[second])))
    return sorted(sorted(pair) for pair in found)


def safe_baselines(rule: Rule, candidates: Mapping[str, Color]) -> list[str]:
    """Candidates that count for nothing, wherever they take the place of a pixel."""
    counted = {rule.places.colors[count.colors[0]] for count in rule.counts_used}
    return sorted(name for name, color in candidates.items() if color not in counted)


def breaking_doses(
    rule: Rule, images: NDArray[np.int64], signed: NDArray[np.int8], chosen: NDArray[np.bool_]
) -> dict[str, float | str]:
    """For each color the least dose at which Deletion no longer prefers the truth.

    It is compared with two maps that know nothing: they rank pixels in reading order, and in its
    reverse. Deletion replaces pixels by falling value of a map, equal ones in reading order; the score
    is the sum of the output over `STEPS` + 1 points and all images, and a lower one is better. Images
    are (n, C, H, W), their truth `signed` (n, 1, H, W); of the pixels that are replaced those `chosen`
    (doses, H, W) get the color.
    """
    background = np.array(rule.background)[:, None, None]
    found: dict[str, float | str] = {}
    for name, color in rule.places.colors.items():
        found[name] = NEVER
        for dose, where in zip(DOSES, chosen, strict=True):
            canvas = np.where(where, np.array(color)[:, None, None], background)
            scores = np.zeros(3, dtype=np.int64)
            for image, truth in zip(images, signed, strict=True):
                maps = truth[0], np.zeros(truth.size), np.arange(truth.size)
                scores += [deletion(rule, image, canvas, each) for each in maps]
            if scores[0] >= scores[1:].min():
                found[name] = dose
                break
    return found


def deletion(
    rule: Rule, image: NDArray[np.int64], canvas: NDArray[np.int64], values: NDArray[Any]
) -> int:
    """Sum of the output while pixels go; from counts, as the network returns the rule exactly."""
    before, after = _hits(rule, image), _hits(rule, canvas)
    order = np.argsort(-values.astype(np.float64).ravel(), kind="stable")
    changes = np.cumsum((after - before)[:, order], 1)
    changes = np.concatenate([np.zeros((len(before), 1), dtype=np.int64), changes], 1)
    points = [step * len(order) // STEPS for step in range(STEPS + 1)]
    return int(_outputs(rule, before.sum(1, keepdims=True) + changes[:, points]).sum())


def single_removals(
    rule: Rule, images: NDArray[np.int64], color: Sequence[int]
) -> NDArray[np.int64]:
    """By how much the output falls when one pixel takes a color: (n, 1, H, W)."""
    maps = []
    for image in images:
        before = _hits(rule, image)
        filled = np.broadcast_to(np.array(color)[:, None, None], image.shape)
        total = before.sum(1, keepdims=True)
        falls = _outputs(rule, total) - _outputs(rule, total + _hits(rule, filled) - before)
        maps.append(falls.reshape(1, *image.shape[1:]))
    return np.stack(maps)


def causes(env: Environment, images: Tensor, signed: Tensor) -> dict[str, str]:
    """What is to be said of each method: names of `CAUSES`; methods close to gamma are left out.

    Methods start from black unless another baseline is named, as Captum's do.
    """
    rule, targets = env.counting, torch.zeros(len(images), dtype=torch.int64)
    assert isinstance(rule, Rule)
    pixels = images.numpy().astype(np.int64)

    def by(method: Any) -> float:
        with warnings.catch_warnings():
            # That a map is zero everywhere, or misses a sum, is what is asked.
            warnings.simplefilter("ignore", AttributionWarning)
            return least_f1(attribute(method, env, images, targets), signed)

    def removed(color: Sequence[int]) -> float:
        return least_f1(torch.from_numpy(single_removals(rule, pixels, color)).double(), signed)

    single = removed(rule.background)
    without = "gradient" if single >= GAMMA else "single-change"
    difference = by(_difference_x_gradient)
    found = {
        # What a method scores, what it scores from the background, why it fails there too.
        "saliency": (by("saliency"), [], without),
        "input-x-gradient": (by("input-x-gradient"), [difference], without),
        "integrated-gradients": (
            by("integrated-gradients"),
            [by("integrated-gradients-true-baseline")],
            "path",
        ),
        "feature-ablation": (removed(BLACK), [single], "single-change"),
    }
    answers = {}
    for method, (own, from_background, otherwise) in found.items():
        cause, deciding = PASSES, [own]
        if own < GAMMA:
            cause = "baseline" if max(from_background, default=0) >= GAMMA else otherwise
            deciding += from_background + [single] * (otherwise == without)
        if min(abs(score - GAMMA) for score in deciding) >= MARGIN:
            answers[method] = cause
    return answers


def _difference_x_gradient(model: Any, inputs: Tensor, targets: Tensor, baseline: Tensor) -> Tensor:
    """Input x Gradient with the true baseline in place of black."""
    inputs.requires_grad_()
    (gradient,) = torch.autograd.grad(model(inputs).gather(1, targets[:, None]).sum(), inputs)
    return gradient * (inputs.detach() - baseline)


def _hits(rule: Rule, image: NDArray[np.int64]) -> NDArray[np.int64]:
    """1 where a pixel is counted: (counts, P)."""
    hits = [rule.places.hits(image, count).ravel() for count in rule.counts_used]
    return np.stack(hits).astype(np.int64)


def _outputs(rule: Rule, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The output for columns of counts."""
    found = evaluate(rule.expressions[0], dict(zip(rule.counts_used, counts, strict=True)))
    return np.broadcast_to(found, counts.shape[1:])
