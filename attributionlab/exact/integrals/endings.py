r"""What the last layer asks of the gradients of the logits on each panel."""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

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
