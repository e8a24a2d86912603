r"""The information bottleneck at the input: how much of each pixel must be seen.

At the input itself a bottleneck would have to let through whatever is rare in an image, needed or not.
What a bottleneck at a layer says is therefore carried back to the input first, by a Wasserstein
generative adversarial network: its generator is a mask over the image, and its critic tells features of
masked images from those that the bottleneck lets through. Information that this mask grants is free.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attributionlab.base import (
    AttributionLabError,
    Count,
    NotNegative,
    Positive,
    Rounds,
    Within,
    integer_problem,
    reference_images_problem,
    refuse_if,
)
from attributionlab.methods import bottleneck
from attributionlab.methods.batching import (
    drawn_in_memory,
    images_at_once,
    in_smaller_batches,
    over_batches,
)
from attributionlab.methods.declaration import checked, declares
from attributionlab.methods.defaults import other_images, seeded
from attributionlab.methods.layers import Layout, channels_first, find_layer, layout_of, returned
from attributionlab.methods.notices import Notice, notify

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

    with r in units of the bottleneck's noise; as many of each strength, as far as they go into ten.
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

    with one :math:`\gamma` for each value of the image (at first `start`, in all channels) and one
    :math:`\mu` (at first 0) and :math:`\sigma` (1) for each channel. RMSprop; after each five steps of
    the critic, whose weights are clipped, one of the generator, on the images that the critic has seen.
    Image and layer are in units of the noise; the generator draws weights, noise and order.
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
        return [bottleneck.slope((layer(kept) * slopes).sum(), kept)]

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
                trainable = made.requires_grad_()
                doubt = bottleneck.slope(-critic(trainable).mean(), trainable)
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
    with torch.device("meta"):  # no weight is drawn before the generator draws
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


LEAST_STD = 0.01
"""Deviation of a channel, as a share of the largest: images in which a channel is empty are allowed."""

KEPT = 4
"""A backward pass needs about as many times the memory of a forward pass."""

Attribution = Literal["mask", "information"]

UNVARIED = (
    "start from a layer where up to {worst} of the information comes from neurons that hardly vary "
    "over the reference images: pass more reference images"
)
BLIND = (
    "are masks that hardly depend on the network: for at least half of the steps its output had no "
    "gradient (in up to {worst} of them), for example because noise turns colors into unseen ones"
)
STILL = (
    "start from the upsampled map of the layer, of which the critic could change less than half, for "
    "example because the layer returns nothing for images mixed with noise, or because its map already "
    "lets everything pass (take a larger feature_beta)"
)


class Explained(NamedTuple):
    """What is found for one image."""

    attribution: Float[Tensor, "1 1 height width"]
    unvaried: float
    blind: float
    moved: bool


class Scale(NamedTuple):
    """The method's units: the reference images have mean 0 and deviation 1 in each channel."""

    mean: Float[Tensor, "channels 1 1"]
    std: Float[Tensor, "channels 1 1"]

    def enter(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std

    def leave(self, values: Tensor) -> Tensor:
        return values * self.std + self.mean


@checked
@declares(claim="positive", output="logit", modules=True, images=True, runs=3)
def input_iba(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    reference_images: Tensor | None = None,
    generator: torch.Generator | None = None,
    layers: Mapping[str, nn.Module] | None = None,
    layer: str | None = None,
    layout: Layout | None = None,
    attribution: Attribution = "mask",
    beta: NotNegative = 20.0,
    steps: Rounds = 60,
    learning_rate: Positive = 1.0,
    copies: Count = 10,
    sigma: NotNegative = 1.0,
    feature_beta: NotNegative = 10.0,
    feature_steps: Rounds = 10,
    epochs: Rounds = 5,
    samples: Annotated[int, Within(least=2)] = 200,
    batch: Annotated[int, Within(least=2)] = 8,
    clip: Positive = 0.1,
) -> Tensor:
    r"""InputIBA: the share of each pixel that must be visible to preserve the output.

    1. The bottleneck of `iba` at a layer: which of its features the output needs. 2. A Wasserstein
    generative adversarial network (`generated_mask`): the mask m over the image for which the layer
    returns what the bottleneck lets pass. 3. A bottleneck at the input with the prior m:

    .. math::
        z = \lambda x + (1 - \lambda) \epsilon, \qquad
        \min_\alpha \; L(f(z)) + \beta \, \overline{KL}\big(N(\lambda x, (1-\lambda)^2) \,\|\,
        N(\lambda m x, (1 - \lambda m)^2)\big)

    with :math:`\lambda` = sigmoid(alpha) under a Gaussian, noise :math:`\epsilon \sim N(0, 1)` and the
    loss L of `iba`. The attribution is the mean of :math:`\lambda` over channels, which is what the
    authors show as :math:`\Lambda^*`, or with ``attribution="information"`` the divergence, summed over
    channels, in bits. The latter is information beyond that of m, and therefore small where m is 1.

    Images x are in units in which the reference images have mean 0 and standard deviation 1 in each
    channel, as the authors' images have (a channel counts with at least 0.01 of the largest deviation);
    features are in units of the layer's noise for the critic and its samples.

    Source: Zhang et al., 2021, written here from the paper, with numbers from its public code where the
    paper states none. It differs from that code

    - in what mixes features with noise: lambda, as in the paper, not the capacity;
    - in what is returned: lambda as it is in z, under the Gaussian;
    - in the units of features, absolute there;
    - in the training: 5 epochs of 25 batches of 8, not 20 of 7 of 32, so that critic and generator make
      125 and 25 steps, not 140 and 40; the images that the critic sees are made once for each step of
      the generator; weights are clipped at 0.1, not 0.01, and RMSprop adds 1e-16, not 1e-8, to the size
      of a gradient: none reaches the generator otherwise through a critic of layers with few maps,
      which are as many here as the layer has, twice and four times as many. Where maps have one cell,
      3 x 3 convolutions take the place of those that halve them.

    Shows which pixels the output needs: where lambda is 1, everything passes. The prior m starts as the
    map of the layer in bits, upsampled and used as a logit (1/2 without information). The 25 steps of
    RMSprop move a logit by 0.3 if its gradient is constant, and not at all if it has none, as where m
    is 1: on multi-color-sum at 96 pixels by less than 0.1 in the median, which changes lambda by less
    than 0.1. If a cell has much information (12 bits or more), everything passes, the penalty has no
    effect, and lambda stays near 1 unless the loss requires noise; a larger feature_beta lets less
    pass. A network that responds to exact colors sees none of them under noise, its output has no
    gradient, and only information shapes the mask (with a warning). Claims the positive truth: a mask
    has no sign.

    Costs those of `iba`, `steps` forward and backward passes of `copies`, and `epochs` x `samples` / 5
    for the generator, whose forward passes run twice: by default 800 through the network and 100 after
    the layer.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    reference_images : Tensor, (n, C, H, W), optional
        Other images of the kind, at least two; an environment gives them. By default the inputs, if
        there are 16 or more. They determine the layer's noise and the units of the image.
    generator : torch.Generator, optional
        Generator for all noise, the critic's weights and the order of its samples; by default one with
        seed 0.
    layers, layer, layout
        As for `iba`.
    attribution : {"mask", "information"}
        What is returned.
    beta, steps : float, int
        Weight of the information and steps of Adam at the input; the authors take 10 to 50, and 60.
    learning_rate, copies, sigma : float, int, float
        As for `iba`, for both bottlenecks; sigma in cells of the layer and in pixels of the image.
    feature_beta, feature_steps : float, int
        As `beta` and `steps` of `iba`.
    epochs, samples, batch : int
        How often the critic sees its true samples, how many there are, and how many it sees at once.
    clip : float
        The critic's weights stay within +-clip.

    Returns
    -------
    Tensor, (B, 1, H, W)
        In [0, 1], or bits.

    Raises
    ------
    AttributionLabError
        For settings out of range, fewer than two reference images, of another shape, not finite or all
        of one color, a layer that does not exist or has no maps, a layout that is neither stated nor
        proven, maps of a single cell, maps or images too small for the Gaussian, and if not even one
        image fits in memory.
    """
    descent = bottleneck.Descent(beta, steps, learning_rate, copies, sigma)
    of_features = bottleneck.Descent(feature_beta, feature_steps, learning_rate, copies, sigma)
    adversary = Adversary(epochs, samples, batch, clip)
    problems = integer_problem("batch", batch, 2, samples)
    drawing, others = seeded(generator), other_images(reference_images, inputs, "input-iba")
    problems += reference_images_problem(others, inputs, 2)
    if not problems:
        remedy = "take a smaller sigma (0 for none) or larger images"
        problems = bottleneck.too_small(inputs.shape, sigma, "images are", remedy)
    refuse_if(problems, "input-iba")
    module = find_layer(model, layer, layers, "iba")
    others = others.to(inputs)
    layout = layout_of(model, module, inputs, layout, "input-iba")
    noise = bottleneck.noise_of(model, module, others, layout, sigma, "input-iba")
    scale = _scale(others)
    at_once = max(1, images_at_once(model, inputs) // KEPT)

    def in_units(features: Tensor) -> Tensor:
        return (features - noise.mean) / noise.std

    def explained(image: Tensor, target: Tensor, _: int) -> Explained:
        given = (model, module, image, target, layout, noise, of_features, drawing)
        passage = bottleneck.feature_passage(*given, "input-iba")
        bits = passage.information.sum(1, keepdim=True) / math.log(2)
        values = scale.enter(image)
        granted = generated_mask(
            values,
            lambda mixed: in_units(
                channels_first(returned(model, module, scale.leave(mixed))[0], layout)
            ),
            let_through(in_units(passage.activation), passage.passing, adversary.samples, drawing),
            F.interpolate(bits, tuple(image.shape[2:]), mode="bilinear"),
            adversary,
            drawing,
        )
        with torch.no_grad():
            loss = bottleneck.loss_of(model, model(image), target, noise.variance)
        answered = []

        def gradient(mixed: Tensor) -> Tensor:
            found = bottleneck.slope_of_mean(
                lambda copies: loss(model(scale.leave(copies))), mixed, at_once, "input-iba"
            )
            answered.append(bool(found.any()))
            return found

        mean, std = torch.zeros_like(scale.mean), torch.ones_like(scale.std)
        noisy = (values, mean, std, gradient, descent, drawing)
        passing = bottleneck.least_passing(*noisy, "input-iba", granted.mask)
        if attribution == "mask":
            shown = passing.mean(1, keepdim=True)
        else:
            information = bottleneck.capacity(passing, values, mean, std, granted.mask)
            shown = information.sum(1, keepdim=True) / math.log(2)
        return Explained(shown, passage.unvaried, 1 - sum(answered) / len(answered), granted.moved)

    found = [
        in_smaller_batches(partial(explained, image, target), 1, "input-iba")
        for image, target in zip(torch.split(inputs, 1), targets.long(), strict=True)
    ]
    shares = [each.unvaried for each in found]
    notify(Notice(UNVARIED, sum(share > 0.5 for share in shares), worst=max(shares)))
    blind = [each.blind for each in found]
    notify(Notice(BLIND, sum(share >= 0.5 for share in blind), worst=max(blind)))
    notify(Notice(STILL, sum(not each.moved for each in found)))
    return torch.cat([each.attribution for each in found])


def _scale(images: Float[Tensor, "references channels height width"]) -> Scale:
    mean = images.mean((0, 2, 3))[:, None, None]
    std = images.std((0, 2, 3))[:, None, None]
    if not std.any():
        raise AttributionLabError(
            "input-iba: reference_images are uniform, each of one color: pass images that vary"
        )
    return Scale(mean, std.clamp(min=LEAST_STD * float(std.max())))
