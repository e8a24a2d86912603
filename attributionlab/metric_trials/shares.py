"""Soundness and completeness of many maps of one image, read off the curves that they share.

The indicator is the image's own output as a share of its way from the replacement (0) to the image (1),
so that predictive levels mean the same for every image, output and condition. Pixels are replaced, not
imputed: to put back the pixels of largest attribution, and to remove those above a threshold, are then
points of the insertion and the deletion curve.
"""

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from attributionlab.metric_trials.case import Seen
from attributionlab.metrics.checked_inputs import above
from attributionlab.metrics.completeness_curves import THRESHOLDS
from attributionlab.metrics.inclusion import EPSILON, informs, reaches
from attributionlab.metrics.indicators import precision_of

LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Predictive levels of Li et al. (2024), as shares of the output's change."""
PERCENT = 100


def soundness_scores(seen: Seen) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.soundness_at` of what each map says raises the output, mean over levels.

    A level that all attributed pixels of a map together do not reach counts 0: none of what it
    attributes predicts the output to that level. A level that is jumped over counts as what was
    reached. NaN, for all maps, where the output does not rise from the replacement to the image
    (`_shares_of_way`).
    """
    values, counts = seen.case.positive.flatten(1).double(), _included(seen)
    ranked = values.gather(1, seen.case.orders)
    sums = torch.nn.functional.pad(ranked.cumsum(1), (1, 0)).gather(1, counts)
    shares, rounding = _shares_of_way(seen.inserted, seen)
    reached = shares.gather(1, counts)
    start = reached.new_zeros(len(reached), 1)
    informative = informs(reached.diff(dim=1, prepend=start), EPSILON, rounding)
    added = sums.diff(dim=1, prepend=start)
    soundness = (added * informative).cumsum(1) / added.cumsum(1)
    at_levels = []
    for level in LEVELS:
        there = reaches(reached, level, rounding)
        first = there.int().argmax(1, keepdim=True)
        at_levels.append(soundness.gather(1, first)[:, 0].where(there.any(1), 0.0))
    return torch.stack(at_levels).mean(0).where(reached.isfinite().all(1), torch.nan)


def completeness_scores(seen: Seen) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.completeness_curve` of what each map says raises the output: its mean.

    Thresholds are shares of each map's maximum. NaN where the output does not rise from the replacement
    to the image (`_shares_of_way`).
    """
    values = seen.case.positive.flatten(1)
    most = values.amax(1, keepdim=True)
    parts = values / most.where(most > 0, 1)
    counts = torch.stack([above(parts, t).sum(1) for t in THRESHOLDS], 1)
    left = _shares_of_way(seen.removed, seen)[0].gather(1, counts)
    return (1 - left).mean(1)


def _included(seen: Seen) -> Int[Tensor, "maps steps"]:
    """Pixels put back after each step of a percent of the area; none without attribution."""
    pixels = seen.case.pixels
    attributed = (seen.case.positive.flatten(1) > 0).sum(1, keepdim=True)
    steps = [pixels - round(percent / PERCENT * pixels) for percent in range(PERCENT - 1, -1, -1)]
    return (
        torch.tensor(steps, device=attributed.device)
        .expand(len(attributed), -1)
        .minimum(attributed)
    )


def _shares_of_way(outputs: Tensor, seen: Seen) -> tuple[Float64[Tensor, "maps counts"], float]:
    """Outputs with the replacement's at 0 and the image's at 1, and by how much they may be off.

    NaN where the output does not rise by so much that rounding, in the precision of images, is less
    than half of epsilon.
    """
    nothing, everything = (float(seen.inserted[0, end]) for end in (0, -1))
    rounding = precision_of(seen.case.image.dtype) * max(abs(nothing), abs(everything))
    way = everything - nothing
    if way <= 0 or rounding > way * EPSILON / 2:
        return torch.full_like(outputs, torch.nan), 0.0
    return (outputs - nothing) / way, rounding / way
