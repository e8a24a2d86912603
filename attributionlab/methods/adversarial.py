r"""A Wasserstein generative adversarial network whose generator is a mask over the image.

Noise in place of parts of the image makes a layer return features; a critic tells these from the
features that a bottleneck at the layer lets through. What the mask has to leave of the image until the
critic is deceived is the part that those features come from.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.methods.batching import drawn_in_memory, over_batches
from attributionlab.methods.information import slope
from attributionlab.validation import MOST_ROUNDS, integer_problem, number_problem

GROUPS = 10
STDS, MEANS = (0.0, 5.0), (-2.0, 2.0)
"""Ranges of the noise on the critic's true samples, one draw of both for each group."""
CRITIC_RATE, MEAN_RATE, STD_RATE, MASK_RATE = 5e-5, 0.1, 0.05, 0.003
CRITIC_STEPS = 5
"""For each step of the generator."""
SMALLEST = 1e-16
"""Added to the size of a gradient: clipped weights leave ones far below torch's default of 1e-8."""
SLOPE = 0.2
WIDTHS = (512, 256)

Layer = Callable[[Float[Tensor, "samples channels height width"]], Tensor]
"""Images -> what the layer returns, with gradients where they are enabled."""


class Adversary(NamedTuple):
    """Settings of the training; see `attributionlab.methods.input_iba`."""

    epochs: int
    samples: int
    batch: int
    clip: float


class Generated(NamedTuple):
    """What the generator has learned."""

    mask: Float[Tensor, "1 channels height width"]
    """m in [0, 1]."""
    moved: bool
    """Whether half of its logits are others than at first, by the rate of a single step at least.

    Rounding alone moves a few, because RMSprop divides even that by its own size.
    """


def let_through(
    activation: Float[Tensor, "1 maps rows columns"],
    passing: Float[Tensor, "1 maps rows columns"],
    samples: int,
    generator: torch.Generator,
) -> Float[Tensor, "samples maps rows columns"]:
    r"""Features that a bottleneck lets through, under noise of ten strengths: true samples.

    .. math:: \lambda r + (1 - \lambda)(u + v \epsilon), \qquad u \sim U(-2, 2), \; v \sim U(0, 5)

    Parameters
    ----------
    activation, passing : Tensor
        r, in units of the bottleneck's noise, and lambda.
    samples : int
        As many of each strength, as far as they go into ten.
    generator : torch.Generator
        Of u, v and epsilon, in this order.
    """
    on: dict[str, Any] = {"generator": generator, "device": generator.device}
    means, stds = (low + (high - low) * torch.rand(GROUPS, **on) for low, high in (MEANS, STDS))
    with drawn_in_memory("input-iba", "samples", samples, 4 * activation.nbytes):
        group = torch.arange(samples, device=generator.device) * GROUPS // samples
        noise = torch.randn((samples, *activation.shape[1:]), **on)
        noise = means[group, None, None, None] + stds[group, None, None, None] * noise
        return passing * activation + (1 - passing) * noise.to(activation)


@torch.enable_grad()
def generated_mask(
    image: Float[Tensor, "1 channels height width"],
    layer: Layer,
    true: Float[Tensor, "samples maps rows columns"],
    start: Float[Tensor, "1 1 height width"],
    adversary: Adversary,
    generator: torch.Generator,
) -> Generated:
    r"""The mask that leaves of an image what a layer's features come from.

    .. math::
        \min_{\gamma, \mu, \sigma} \max_D \; E[D(true)] - E[D(f(m x + (1 - m)(\mu + \sigma \epsilon)))],
        \qquad m = sigmoid(\gamma)

    with one :math:`\gamma` for each value of the image and one :math:`\mu` (at first 0) and
    :math:`\sigma` (1) for each channel. RMSprop; after each five steps of the critic, whose weights
    are clipped, one of the generator, on the images that the critic has seen.

    Parameters
    ----------
    image : Tensor, (1, C, H, W)
        In units of the noise.
    layer : callable
        Images in these units -> features.
    true : Tensor, (n, c, h, w)
        True samples (`let_through`).
    start : Tensor, (1, 1, H, W)
        :math:`\gamma` at first, in all channels.
    adversary : Adversary
        Settings.
    generator : torch.Generator
        Of weights, noise and order.
    """
    logits = start.expand_as(image).clone().requires_grad_()
    mean = image.new_zeros((1, image.shape[1], 1, 1), requires_grad=True)
    std = torch.ones_like(mean).requires_grad_()
    drawn = [logits, mean, std]
    critic = _critic(true, adversary.clip, generator)
    weights = list(critic.parameters())
    of_critic = torch.optim.RMSprop(weights, lr=CRITIC_RATE, eps=SMALLEST)
    of_generator = torch.optim.RMSprop(
        [
            {"params": [logits], "lr": MASK_RATE},
            {"params": [mean], "lr": MEAN_RATE},
            {"params": [std], "lr": STD_RATE},
        ],
        eps=SMALLEST,
    )

    size = int(adversary.batch)  # a NumPy integer does not split
    on: dict[str, Any] = {"generator": generator, "device": generator.device}

    def mixtures() -> Tensor:
        with drawn_in_memory("input-iba", "batch", size, 8 * image.nbytes, image.device):
            noise = torch.randn((size, *image.shape[1:]), **on).to(image)
            mask = logits.sigmoid()
            return mask * image + (1 - mask) * (mean + std * noise)

    def back(part: Tensor, slopes: Tensor) -> list[Tensor]:
        kept = part.requires_grad_()
        return [slope((layer(kept) * slopes).sum(), kept)]

    seen = 0
    for _ in range(adversary.epochs):
        order = torch.randperm(len(true), **on).to(true.device)
        for batch in torch.split(order, size)[: len(true) // size]:
            if seen % CRITIC_STEPS == 0:
                mixed = mixtures()
                with torch.no_grad():
                    [made] = over_batches(lambda part: [layer(part)], [mixed], "input-iba")
            gap = critic(made).mean() - critic(true[batch]).mean()
            _step(of_critic, weights, torch.autograd.grad(gap, weights))
            with torch.no_grad():
                for weight in weights:
                    weight.clamp_(-adversary.clip, adversary.clip)
            seen += 1
            if seen % CRITIC_STEPS == 0:
                judged = made.requires_grad_()
                doubt = slope(-critic(judged).mean(), judged)
                # The layer runs once more, because a graph of all mixtures may not fit in memory.
                [slopes] = over_batches(back, [mixed.detach(), doubt], "input-iba")
                _step(of_generator, drawn, torch.autograd.grad(mixed, drawn, slopes))
    learned = logits.detach()
    moved = bool((learned - start).abs().median() >= MASK_RATE)
    return Generated(learned.sigmoid(), moved)


def _step(
    optimizer: torch.optim.Optimizer, tensors: Iterable[Tensor], slopes: Iterable[Tensor]
) -> None:
    for tensor, gradient in zip(tensors, slopes, strict=True):
        tensor.grad = gradient
    optimizer.step()


def _critic(like: Tensor, clip: float, generator: torch.Generator) -> nn.Sequential:
    """Two convolutions that halve the maps, one that keeps them, and three linear layers.

    Maps of a single cell a side cannot be halved: such a convolution keeps them, 3 x 3. Batch
    normalization is by the batch alone. Weights are drawn within the clip, as a training leaves them.
    """
    channels, *sides = like.shape[1:]
    layers: list[nn.Module] = []
    with torch.device("meta"):  # no weight is drawn before the generator is asked
        for given, returned, halves in ((1, 2, True), (2, 4, True), (4, 1, False)):
            halves = halves and min(sides) > 1
            size, stride = (4, 2) if halves else (3, 1)
            sides = [side // stride for side in sides]
            layers += [
                nn.Conv2d(given * channels, returned * channels, size, stride, padding=1),
                nn.BatchNorm2d(returned * channels, track_running_stats=False),
                nn.LeakyReLU(SLOPE),
            ]
        layers.append(nn.Flatten())
        given = channels * math.prod(sides)
        for width in WIDTHS:
            layers += [nn.Linear(given, width), nn.LeakyReLU(SLOPE)]
            given = width
        layers.append(nn.Linear(given, 1))
        critic = nn.Sequential(*layers)
    critic.to_empty(device=like.device).to(like.dtype)
    with torch.no_grad():
        for weight in critic.parameters():
            drawn = torch.rand(weight.shape, generator=generator, device=generator.device)
            weight.copy_((2 * drawn - 1) * clip)
    return critic


def adversary_problems(adversary: Adversary) -> list[str]:
    """What is wrong with the settings of a training; a batch of one has nothing to normalize by."""
    problems = [
        *integer_problem("epochs", adversary.epochs, 1, MOST_ROUNDS),
        *integer_problem("samples", adversary.samples, 2),
        *number_problem("clip", adversary.clip, above=0),
    ]
    if not problems:
        problems = integer_problem("batch", adversary.batch, 2, adversary.samples)
    return problems
