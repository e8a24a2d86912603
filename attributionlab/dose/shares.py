"""Soundness and completeness of many maps of one image, read off the curves that they share.

The indicator is the image's own output as a share of its way from the replacement (0) to the image (1),
so that predictive levels mean the same for every image, output and condition. Pixels are replaced, not
imputed: to put back the pixels of largest attribution, and to remove those above a threshold, are then
points of the insertion and the deletion curve.
"""

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from attributionlab.dose.case import Seen

__all__ = ["LEVELS", "completeness_scores", "soundness_scores"]

LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Predictive levels of Li et al. (2024), as shares of the output's change."""
THRESHOLDS = tuple(tenth / 10 for tenth in range(1, 10))
EPSILON = 0.01
PERCENT = 100


def soundness_scores(seen: Seen) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.soundness_at` of what each map says raises the output, mean over levels.

    NaN for a map that reaches none of the levels, and for all where the output does not rise from the
    replacement to the image. Levels that are not reached are left out, and those that are jumped over
    count as what was reached.
    """
    values, counts = seen.case.positive.flatten(1).double(), _included(seen)
    ranked = values.gather(1, seen.case.orders)
    sums = torch.nn.functional.pad(ranked.cumsum(1), (1, 0)).gather(1, counts)
    reached = _shares_of_way(seen.inserted, seen).gather(1, counts)
    start = reached.new_zeros(len(reached), 1)
    informs = reached.diff(dim=1, prepend=start) >= EPSILON
    added = sums.diff(dim=1, prepend=start)
    soundness = (added * informs).cumsum(1) / added.cumsum(1)
    at_levels = []
    for level in LEVELS:
        there = reached >= level
        first = there.int().argmax(1, keepdim=True)
        at_levels.append(soundness.gather(1, first)[:, 0].where(there.any(1), torch.nan))
    return torch.stack(at_levels).nanmean(0)


def completeness_scores(seen: Seen) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.completeness_curve` of what each map says raises the output: its mean.

    Thresholds are shares of each map's maximum. NaN where the output does not rise from the replacement
    to the image.
    """
    values = seen.case.positive.flatten(1).double()
    limits = values.amax(1, keepdim=True)
    counts = torch.stack([(values > t * limits).sum(1) for t in THRESHOLDS], 1)
    left = _shares_of_way(seen.removed, seen).gather(1, counts)
    return (1 - left).mean(1)


def _included(seen: Seen) -> Int[Tensor, "maps steps"]:
    """Pixels put back after each step of a percent of the area; none without attribution."""
    pixels = seen.case.pixels
    attributed = (seen.case.positive.flatten(1) > 0).sum(1, keepdim=True)
    steps = [pixels - round(percent / PERCENT * pixels) for percent in range(PERCENT - 1, -1, -1)]
    return torch.tensor(steps).expand(len(attributed), -1).minimum(attributed)


def _shares_of_way(outputs: Tensor, seen: Seen) -> Float64[Tensor, "maps counts"]:
    """Outputs with the replacement's at 0 and the image's at 1."""
    nothing, everything = seen.inserted[0, 0], seen.inserted[0, -1]
    way = everything - nothing
    return (outputs - nothing) / way.where(way > 0, torch.nan)
