r"""Panels: pieces of the path on which every neuron met so far is linear.

A list of points 0 = s_0 < ... < s_m = 1 makes m panels. A neuron's values at the points say all about
it. A ReLU adds points where its inputs cross zero; between two of its roots each neuron is on or off.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

FINEST = 2.0**-50
"""Roots closer to each other are the same root to rounding: points near 1 lie on a grid of 2^-53."""


class TooManyKinksError(Exception):
    """More panels than asked for."""


@dataclass
class Effort:
    """How finely to resolve kinks, and how many panels that may take.

    Parameters
    ----------
    gap : float
        Kinks of one layer that are closer to each other, or to a point, get one point at most.
    most : int
        How many panels the whole path may have.
    panels : int
        How many were integrated so far.
    """

    gap: float
    most: int
    panels: int = 0

    def check(self, more: int) -> None:
        """Give up as soon as it is known that the panels will be too many."""
        if self.panels + more > self.most:
            raise TooManyKinksError


class Refinement(NamedTuple):
    """Points that include those of before, and where each lies among those.

    Parameters
    ----------
    points : Tensor, (n + 1,)
        The new list.
    before, after : Tensor, (n + 1,)
        Indices of the old points next to a new one, both the same for the last.
    share : Tensor, (n + 1,)
        How far the new point is from `before` to `after`: exactly 0 for an old point.
    """

    points: Float[Tensor, " points"]
    before: Int[Tensor, " points"]
    after: Int[Tensor, " points"]
    share: Float[Tensor, " points"]

    def interpolate(self, values: Tensor, first: int, last: int) -> Tensor:
        """Values at the new points from `first` to `last`, both included, from those at the old."""
        chosen = slice(first, last + 1)
        before, after = values[self.before[chosen]], values[self.after[chosen]]
        share = self.share[chosen].reshape(-1, *[1] * (values.ndim - 1))
        return torch.lerp(before, after, share, out=before)


def refine(
    points: Float[Tensor, " points"],
    values: Float[Tensor, "points *neurons"],
    rounding: Float[Tensor, "*neurons"],
    gap: float,
) -> Refinement:
    """Add the points at which a neuron's value crosses zero.

    Values within `rounding` of zero have no sign. Neurons of hand-weighted networks are zero on whole
    panels, or touch zero at the ends of panels, where rounding would make up roots.
    """
    left, right = values[:-1], values[1:]
    crosses = (torch.minimum(left, right) < -rounding) & (torch.maximum(left, right) > rounding)
    panel = crosses.nonzero()[:, 0]
    start, end = left[crosses], right[crosses]
    share = start / (start - end)
    width = points.diff()[panel]
    roots = points[panel] + width * share
    roots = roots[(width * share > gap) & (width * (1 - share) > gap)].sort().values
    cell = torch.floor(roots / gap)
    refined = torch.cat([points, roots[cell.diff(prepend=cell.new_full((1,), -1.0)) > 0]])
    refined = refined.sort().values
    before = torch.searchsorted(points, refined, right=True) - 1
    after = (before + 1).clamp(max=len(points) - 1)
    widths = torch.cat([points.diff(), points.new_ones(1)])
    return Refinement(refined, before, after, (refined - points[before]) / widths[before])


def active_share(
    values: Float[Tensor, "points *neurons"], rounding: Float[Tensor, "*neurons"]
) -> Float[Tensor, "panels *neurons"]:
    r"""On what share of each panel a ReLU hands its input on.

    .. math:: \frac{ReLU(v_1) - ReLU(v_0)}{v_1 - v_0}

    for a neuron that goes from v_0 to v_1: 1 or 0 where it keeps its sign, in between where a root
    was not resolved. This is the mean of ReLU' over the panel, and also the secant's slope, so that
    slope times change is the change of the output however coarse the panels are. A neuron that stays
    at zero follows the convention ReLU'(0) = 0.
    """
    left, right = values[:-1], values[1:]
    above = torch.maximum(left, right).clamp_(min=0)
    below = torch.minimum(left, right).neg_().clamp_(min=0)
    stays_zero = (above <= rounding) & (below <= rounding)
    return above.div_(below.add_(above)).masked_fill_(stays_zero, 0)
