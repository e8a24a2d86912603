r"""The least information with which an output stays what it is: what noise in place of values leaves.

.. math:: z = \lambda r + (1 - \lambda) \epsilon, \qquad \epsilon \sim N(\mu, \sigma^2)

Whatever values r are, those of a layer (`iba`) or of the image (`input_iba`), the share
:math:`\lambda` of each that passes is looked for by the same descent.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attributionlab.methods.batching import drawn_in_memory, in_smaller_batches, surely_fitting
from attributionlab.validation import MOST_ROUNDS, integer_problem, number_problem

INITIAL = 5.0
"""alpha at the start: lambda = sigmoid(5) = 0.993 lets almost everything through."""

Gradient = Callable[[Float[Tensor, "copies channels rows columns"]], Tensor]
"""Noisy values -> gradient of the loss with respect to them."""


class Descent(NamedTuple):
    """Settings of the descent; see `attributionlab.methods.iba`."""

    beta: float
    steps: int
    learning_rate: float
    copies: int
    sigma: float


@torch.enable_grad()
def least_passing(
    values: Float[Tensor, "1 channels rows columns"],
    mean: Float[Tensor, "channels #rows #columns"],
    std: Float[Tensor, "channels #rows #columns"],
    gradient: Gradient,
    descent: Descent,
    generator: torch.Generator,
    who: str,
    granted: Float[Tensor, "1 channels rows columns"] | None = None,
) -> Float[Tensor, "1 channels rows columns"]:
    r"""The share of each value that passes after a descent of loss and information.

    .. math:: \min_\alpha \; L(z) + \beta \, \frac{1}{Chw} \sum_{cij} I_{cij}

    with :math:`\lambda` = sigmoid(alpha) under a Gaussian (`smoothed`). Adam, from alpha = 5; one fresh
    draw of the noise for each copy and step.

    Parameters
    ----------
    values, mean, std : Tensor
        r, and mu and sigma of the noise.
    gradient : callable
        Of the loss L, the mean over the copies.
    descent : Descent
        Settings.
    generator : torch.Generator
        Of the noise.
    who : str
        The method, for messages.
    granted : Tensor, optional
        As for `capacity`.
    """
    on: dict[str, Any] = {"generator": generator, "device": generator.device}
    alpha = torch.full_like(values, INITIAL, requires_grad=True)
    optimizer = torch.optim.Adam([alpha], lr=descent.learning_rate)
    for _ in range(descent.steps):
        # Noise, what is mixed of it, and their gradients.
        each = 8 * values.nbytes
        with drawn_in_memory(who, "copies", descent.copies, each, values.device):
            noise = torch.randn((descent.copies, *values.shape[1:]), **on)
            passing = smoothed(alpha.sigmoid(), descent.sigma)
            mixed = passing * values + (1 - passing) * (mean + std * noise.to(values))
        information = capacity(passing, values, mean, std, granted).mean()
        slopes = [gradient(mixed.detach()), information.new_tensor(descent.beta)]
        (alpha.grad,) = torch.autograd.grad([mixed, information], alpha, slopes)
        optimizer.step()
    return smoothed(alpha.detach().sigmoid(), descent.sigma)


def slope(value: Float[Tensor, ""], at: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The gradient at a tensor, 0 where the value does not depend on it; the weights get none."""
    if not value.requires_grad:
        return torch.zeros_like(at)
    return torch.autograd.grad(value, at, materialize_grads=True)[0]


def slope_of_mean(
    loss: Callable[[Tensor], Tensor], at: Float[Tensor, "copies ..."], at_once: int, who: str
) -> Float[Tensor, "copies ..."]:
    """The gradient of a mean over copies, of which as many pass at a time as fit in memory."""

    def of_part(part: Tensor) -> Tensor:
        kept = part.detach().requires_grad_()
        # The mean of a part counts by the part's share.
        return slope(loss(kept) * (len(part) / len(at)), kept)

    def run(batch: int) -> Tensor:
        return torch.cat([of_part(part) for part in torch.split(at, batch)])

    return in_smaller_batches(run, surely_fitting(at, min(at_once, len(at))), who)


def capacity(
    passing: Float[Tensor, "..."],
    activation: Float[Tensor, "..."],
    mean: Float[Tensor, "..."],
    std: Float[Tensor, "..."],
    granted: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "..."]:
    r"""Information that a neuron lets through, in nats.

    .. math::
        I = KL(N(\lambda r + (1-\lambda)\mu, (1-\lambda)^2 \sigma^2) \,\|\, N(\mu, \sigma^2))
          = -\tfrac12 \Big(1 + \ln (1-\lambda)^2 - \big(\lambda \tfrac{r - \mu}{\sigma}\big)^2
            - (1-\lambda)^2\Big)

    Where a share m of what passes is granted, known beforehand, the second distribution is
    :math:`N(\lambda m r + (1 - \lambda m)\mu, (1 - \lambda m)^2 \sigma^2)` instead, and

    .. math::
        I = -\tfrac12 \Big(1 + \ln q^2 - \big(\tfrac{\lambda (1 - m)}{1 - \lambda m}
            \tfrac{r - \mu}{\sigma}\big)^2 - q^2\Big), \qquad q = \tfrac{1-\lambda}{1-\lambda m}

    0 for lambda = 0, and for m = 1. For lambda = 1 it would be infinite: 1 - lambda counts as no less
    than 2^-23 (2^-52 in float64).

    Parameters
    ----------
    passing : Tensor
        lambda in [0, 1].
    activation, mean, std : Tensor
        r, mu and sigma; all four broadcast.
    granted : Tensor, optional
        m in [0, 1]; nothing by default.
    """
    smallest = torch.finfo(passing.dtype).eps
    blocked = (1 - passing).clamp(min=smallest)
    shift = passing * (activation - mean) / std
    if granted is not None:
        blocked_before = (1 - passing * granted).clamp(min=smallest)
        blocked = blocked / blocked_before
        shift = shift * (1 - granted) / blocked_before
    return (shift**2 + blocked**2 - 1) / 2 - blocked.log()


def smoothed(
    passing: Float[Tensor, "batch maps rows columns"], sigma: float
) -> Float[Tensor, "batch maps rows columns"]:
    """Each map under a Gaussian of 2 ceil(2 sigma) + 1 cells a side, mirrored at the edges."""
    if sigma == 0:
        return passing
    radius, channels = _radius(sigma), passing.shape[1]
    offsets = torch.arange(-radius, radius + 1, dtype=passing.dtype, device=passing.device)
    weights = torch.exp(-((offsets / sigma) ** 2) / 2)
    weights = weights / weights.sum()
    padded = F.pad(passing, (radius,) * 4, mode="reflect")
    down = F.conv2d(padded, weights.view(1, 1, -1, 1).expand(channels, 1, -1, 1), groups=channels)
    return F.conv2d(down, weights.view(1, 1, 1, -1).expand(channels, 1, 1, -1), groups=channels)


def descent_problems(descent: Descent) -> list[str]:
    """What is wrong with the settings of a descent."""
    return [
        *number_problem("beta", descent.beta, least=0),
        *integer_problem("steps", descent.steps, 1, MOST_ROUNDS),
        *number_problem("learning_rate", descent.learning_rate, above=0),
        *integer_problem("copies", descent.copies, 1),
        *number_problem("sigma", descent.sigma, least=0),
    ]


def too_small(shape: torch.Size, sigma: float, what: str, remedy: str) -> list[str]:
    """What is wrong with maps (..., h, w) that a Gaussian does not fit, mirrored at the edges."""
    height, width = shape[-2:]
    if _radius(sigma) < min(height, width):
        return []
    return [f"{what} {height} x {width}, too small for sigma {sigma:g}: {remedy}"]


def _radius(sigma: float) -> int:
    return math.ceil(2 * sigma)
