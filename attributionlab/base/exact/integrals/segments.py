r"""Integrated gradients of a chain: layer by layer forward with more and more panels, and back.

Let G_p be the gradient of the output by a layer's output, integrated over panel p. A linear layer takes
it to W^T G_p. A ReLU that split a panel into p_1, p_2, ... takes it to the sum of mask(p_i) * G_{p_i}.
So each layer works on the panels that its own input needs, not on those that later layers add.

A panel is a piece of the path on which every neuron met so far is linear: points 0 = s_0 < ... < s_m
= 1 make m panels. A neuron's values at the points say all about it. A ReLU adds points where its inputs
cross zero; between two of its roots each neuron is on or off.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attributionlab.base.exact.chain import ROUNDING, Chain, Convolution, Layer, Relu

FINEST = 2.0**-50
"""Roots closer to each other are the same root to rounding: points near 1 lie on a grid of 2^-53."""


class TooManyKinksError(Exception):
    """More panels than allowed."""


@dataclass
class Effort:
    """How finely to resolve kinks, and how many panels that may take.

    `gap`: kinks of one layer that are closer to each other, or to a point, get one point at most.
    `most`: how many panels the whole path may have. `panels`: how many were integrated so far.
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

    `points`: the new list. `before`, `after`: indices of the old points next to a new one, both the
    same for the last. `share`: how far the new point is from `before` to `after`: exactly 0 for an old
    point.
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


NODES = 16
WIDEST = 2.0
"""Pieces of a panel over which the logits' differences change by at most this are integrated at once.

Along the piece scaled to [-1, 1] the logits' rates of change differ by at most WIDEST / 2. At the
complex point x + iy the terms of the softmax's denominator are then turned by angles that differ by at
most y WIDEST / 2, for y = pi / 2 by at most a right angle: nothing cancels by more than sqrt(2), and
p_t p_l is bounded by 2. The ellipse around [-1, 1] of half-height pi / 2 has rho = 3.43, and 16 Gauss
nodes are off by at most 64/15 * 2 rho^-32 / (1 - rho^-2) = 7e-17.
"""
SATURATED = 80.0
"""A probability whose logit is this far below another is less than exp(-80) = 2e-35: it is lost."""
PIECES_AT_ONCE = 2**16


def logit_weights(
    points: Float[Tensor, " points"], logits: Float[Tensor, "points classes"], target: int
) -> Float[Tensor, "panels classes"]:
    """The target's logit counts for the width of each panel."""
    weights = torch.zeros_like(logits[1:])
    weights[:, target] = points.diff()
    return weights


def probability_weights(
    points: Float[Tensor, " points"], logits: Float[Tensor, "points classes"], target: int
) -> Float[Tensor, "panels classes"]:
    r"""The softmax's derivative by each logit, integrated over each panel.

    .. math:: \int p_t (\delta_{tl} - p_l) \, ds

    The logits z_l are linear in s on a panel, so this asks for no network. Panels are halved until
    the logits that matter move apart by little; Gauss and Legendre's rule then leaves rounding alone.
    """
    weights = torch.zeros_like(logits[1:])
    panel = torch.arange(len(weights), device=points.device)
    width, left, right = points.diff(), logits[:-1], logits[1:]
    while len(panel):
        smooth = _spread(left, right) <= WIDEST
        for chosen in torch.split(smooth.nonzero()[:, 0], PIECES_AT_ONCE):
            products = _mean_products(left[chosen], right[chosen], target)
            weights.index_add_(0, panel[chosen], -products * width[chosen, None])
        again = ~smooth
        panel, width = panel[again].repeat(2), (width[again] / 2).repeat(2)
        middle = (left[again] + right[again]) / 2
        left, right = torch.cat([left[again], middle]), torch.cat([middle, right[again]])
    # The probabilities sum to 1: 1 - p_t is the sum of the others, without cancellation.
    weights[:, target] = 0
    weights[:, target] = -weights.sum(1)
    return weights


def _spread(left: Tensor, right: Tensor) -> Tensor:
    """The largest difference between the changes of two logits that matter on a piece.

    A logit that is far below one and the same other at both ends is so in between.
    """
    leader = (left + right).argmax(1, keepdim=True)
    behind = torch.minimum(left.gather(1, leader) - left, right.gather(1, leader) - right)
    lost, change = behind > SATURATED, right - left
    highest, lowest = change.masked_fill(lost, -math.inf), change.masked_fill(lost, math.inf)
    return highest.amax(1) - lowest.amin(1)


def _mean_products(left: Tensor, right: Tensor, target: int) -> Tensor:
    """The mean of p_t p_l over the way from one vector of logits to the other."""
    at, weight = (left.new_tensor(part / 2) for part in np.polynomial.legendre.leggauss(NODES))
    nodes = left[:, None] + (at + 0.5)[:, None] * (right - left)[:, None]  # (pieces, nodes, K)
    probabilities = nodes.softmax(-1)
    products = probabilities * probabilities[:, :, target, None]
    return torch.einsum("n,pnk->pk", weight, products)


NUMBERS_AT_ONCE = 2**22
"""How many values of neurons at points of the path are worked on at once, 32 MiB for each array."""
FEW_PIXELS = 256
"""How many different pixels are few enough to tell them apart."""
MOST_FEATURES = 2**10
"""With 3 input channels the tangents of 256 pixels then take 6 MiB for each panel at most."""

Ending = Callable[[Tensor, Tensor], Tensor]


def integrate_chain(
    chain: Chain,
    start: Float[Tensor, "channels height width"],
    end: Float[Tensor, "channels height width"],
    target: int,
    effort: Effort,
) -> Float[Tensor, "channels height width"]:
    """Integrated gradients of one image.

    Raises TooManyKinksError if that takes more panels than `effort` allows.
    """
    weights = probability_weights if chain.has_softmax else logit_weights

    def ending(points: Tensor, logits: Tensor) -> Tensor:
        effort.panels += len(points) - 1
        return weights(points, logits, target)

    pointwise = list(takewhile(_is_pointwise, chain.layers))
    pairs = torch.cat([start, end]).flatten(1)  # (2C, HW)
    distinct, kind = torch.unique(pairs, dim=1, return_inverse=True)
    if pointwise and distinct.shape[1] <= FEW_PIXELS:
        first, last = distinct.chunk(2)
        front = _Front(pointwise, first, last, effort)
        behind = chain.layers[len(pointwise) :]
        return front.integrate(behind, kind.reshape(start.shape[1:]), ending, effort)
    points = start.new_tensor([0.0, 1.0])
    values = torch.stack([start, end])
    rounding = ROUNDING * values.abs().amax(0)
    gradients = _integrate(chain.layers, points, values, rounding, ending, effort)
    return gradients[0] * (end - start)


def _is_pointwise(layer: Layer) -> bool:
    """Whether it treats every pixel alone, and so few features that their tangents fit in memory."""
    if isinstance(layer, Convolution):
        return layer.is_pointwise and len(layer.weight) <= MOST_FEATURES
    return isinstance(layer, Relu)


class _Front:
    """The first, pointwise layers on each different pixel: what comes out, and each channel's part.

    `tangents` (panels, features, channels, kinds) are derivatives by s of each feature, one for each
    input channel's own movement from the baseline to the image.
    """

    def __init__(self, layers: Sequence[Layer], start: Tensor, end: Tensor, effort: Effort) -> None:
        self.points = start.new_tensor([0.0, 1.0])
        # Images of one row: 1x1 convolutions do not mind, tangents have one row for each channel.
        self.values = torch.stack([start, end])[:, :, None]  # (points, features, 1, kinds)
        self.tangents = torch.diag_embed((end - start).T).permute(1, 2, 0)[None]
        rounding = ROUNDING * self.values.abs().amax(0)
        for layer in layers:
            if isinstance(layer, Convolution):
                rounding = layer.rounding(self.values.abs().amax(0))
                self.values = layer(self.values)
                self.tangents = layer.without_bias(self.tangents)
                continue
            refinement = refine(self.points, self.values, rounding, effort.gap)
            panels = len(refinement.points) - 1
            effort.check(panels)
            if panels > 1 and panels * self.tangents[0].numel() > 8 * NUMBERS_AT_ONCE:
                raise TooManyKinksError  # they are all in memory at once, 256 MiB
            values = refinement.interpolate(self.values, 0, panels)
            self.points = refinement.points
            self.tangents = self.tangents[refinement.before[:-1]] * active_share(values, rounding)
            self.values = values.relu_()

    def integrate(
        self, layers: Sequence[Layer], kind: Tensor, ending: Ending, effort: Effort
    ) -> Tensor:
        """Attributions (C, H, W) through the layers behind, for pixels of these kinds (H, W)."""
        moving = self.tangents.abs().amax((1, 2)) > 0  # (panels, kinds)
        where = [(kind.flatten() == k).nonzero()[:, 0] for k in range(moving.shape[1])]
        result = self.values.new_zeros(self.tangents.shape[2], kind.numel())
        size = self.values.shape[1] * kind.numel()
        # Where nothing moves every derivative is zero, whatever the layers behind make of it.
        for first, last in _runs(moving.any(1).tolist(), NUMBERS_AT_ONCE // size):
            values = self.values[first : last + 1, :, 0][:, :, kind]  # (points, features, H, W)
            rounding = ROUNDING * values.abs().amax(0)
            points = self.points[first : last + 1]
            gradients = _integrate(layers, points, values, rounding, ending, effort).flatten(2)
            for k in moving[first:last].any(0).nonzero()[:, 0].tolist():
                part = gradients[:, :, where[k]].flatten(0, 1)  # (panels * features, pixels)
                tangents = self.tangents[first:last, :, :, k].flatten(0, 1)
                result[:, where[k]] += tangents.T @ part
        return result.reshape(-1, *kind.shape)


def _integrate(
    layers: Sequence[Layer],
    points: Tensor,
    values: Tensor,
    rounding: Tensor,
    ending: Ending,
    effort: Effort,
) -> Tensor:
    """Gradients by `values` (m + 1, ...), integrated over each panel (m, ...)."""
    if not layers:
        return ending(points, values)
    layer, *rest = layers
    if not isinstance(layer, Relu):
        behind = layer.rounding(values.abs().amax(0))
        size = max(behind.numel(), values[0].numel())
        pieces = []
        for first, last in _runs([True] * (len(points) - 1), NUMBERS_AT_ONCE // size):
            chosen = slice(first, last + 1)
            outputs = layer(values[chosen])
            gradients = _integrate(rest, points[chosen], outputs, behind, ending, effort)
            pieces.append(layer.transpose(gradients, values.shape[1:]))
        return torch.cat(pieces)
    refinement = refine(points, values, rounding, effort.gap)
    panels = len(refinement.points) - 1
    effort.check(panels)
    result = torch.zeros_like(values[1:])
    for first, last in _runs([True] * panels, NUMBERS_AT_ONCE // values[0].numel()):
        inside = refinement.interpolate(values, first, last)
        share = active_share(inside, rounding)
        points = refinement.points[first : last + 1]
        gradients = _integrate(rest, points, inside.relu_(), rounding, ending, effort)
        result.index_add_(0, refinement.before[first:last], share.mul_(gradients))
    return result


def _runs(wanted: Sequence[bool], longest: int) -> Iterator[tuple[int, int]]:
    """Runs of wanted panels, as many as may be worked on at once: (first, one behind the last)."""
    first = None
    for index, want in enumerate([*wanted, False]):
        if first is not None and (not want or index - first >= max(1, longest)):
            yield first, index
            first = None
        if want and first is None:
            first = index
