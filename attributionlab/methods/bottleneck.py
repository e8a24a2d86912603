r"""Information bottlenecks: how much of a layer's information an output needs, and where.

Noise replaces a part of every value,

.. math:: z = \lambda r + (1 - \lambda) \epsilon, \qquad \epsilon \sim N(\mu, \sigma^2),

and an optimization looks for the shares :math:`\lambda` that let through as little information as
possible while the output stays what it is. Values are those of a layer (`iba`) or of the image
(`input_iba`).
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attributionlab.base import (
    Count,
    NotNegative,
    Positive,
    Rounds,
    is_ours,
    reference_images_problem,
    refuse_if,
)
from attributionlab.methods.batching import (
    drawn_in_memory,
    images_at_once,
    in_smaller_batches,
    surely_fitting,
)
from attributionlab.methods.declaration import checked, declares
from attributionlab.methods.defaults import other_images, seeded
from attributionlab.methods.layers import (
    Layout,
    as_layer,
    channels_first,
    find_layer,
    layout_of,
    observe,
    refuse_single_cell,
    resume,
)
from attributionlab.methods.notices import Notice, notify

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
    draw of the noise for each copy and step. `gradient` is that of the loss L, the mean over the
    copies; `granted` is as for `capacity`.
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

    Where a share m in [0, 1] of what passes is granted, known beforehand, the second distribution is
    :math:`N(\lambda m r + (1 - \lambda m)\mu, (1 - \lambda m)^2 \sigma^2)` instead, and

    .. math::
        I = -\tfrac12 \Big(1 + \ln q^2 - \big(\tfrac{\lambda (1 - m)}{1 - \lambda m}
            \tfrac{r - \mu}{\sigma}\big)^2 - q^2\Big), \qquad q = \tfrac{1-\lambda}{1-\lambda m}

    0 for lambda = 0, and for m = 1. For lambda = 1 it would be infinite: 1 - lambda counts as no less
    than 2^-23 (2^-52 in float64).
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


def too_small(shape: torch.Size, sigma: float, what: str, remedy: str) -> list[str]:
    """What is wrong with maps (..., h, w) that a Gaussian does not fit, mirrored at the edges."""
    height, width = shape[-2:]
    if _radius(sigma) < min(height, width):
        return []
    return [f"{what} {height} x {width}, too small for sigma {sigma:g}: {remedy}"]


def _radius(sigma: float) -> int:
    return math.ceil(2 * sigma)


SMALLEST_STD = 0.01
"""Below it a neuron would let infinite information through as soon as it is not silent."""

Loss = Callable[[Float[Tensor, "copies outputs"]], Float[Tensor, ""]]

UNVARIED = (
    "owe up to {worst} of their information to neurons that hardly vary over the reference images and "
    "count for very many bits: pass more reference images"
)


class Noise(NamedTuple):
    """What stands in for a layer's maps, and how much the network's outputs vary (n - 1)."""

    mean: Float[Tensor, "maps rows columns"]
    std: Float[Tensor, "maps rows columns"]
    """At least 0.01."""
    variance: Float[Tensor, ""]
    unvaried: Bool[Tensor, "maps rows columns"]
    """Where the standard deviation is smaller than that."""


class Passage(NamedTuple):
    """What passes a layer for one image."""

    activation: Float[Tensor, "1 maps rows columns"]
    passing: Float[Tensor, "1 maps rows columns"]
    """lambda."""
    information: Float[Tensor, "1 maps rows columns"]
    """In nats."""
    unvaried: float
    """Share of the information that neurons owe which hardly vary over the reference images."""


_known: WeakKeyDictionary[nn.Module, tuple[bytes, Noise]] = WeakKeyDictionary()
"""The noise of each model's last call, under a fingerprint of what it follows from."""


@checked
@declares(claim="positive", output="logit", resolution="iba", modules=True, images=True, runs=3)
def iba(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    reference_images: Tensor | None = None,
    generator: torch.Generator | None = None,
    layers: Mapping[str, nn.Module] | None = None,
    layer: str | None = None,
    layout: Layout | None = None,
    beta: NotNegative = 10.0,
    steps: Rounds = 10,
    learning_rate: Positive = 1.0,
    copies: Count = 10,
    sigma: NotNegative = 1.0,
) -> Tensor:
    r"""IBA: the information that must pass a layer to preserve the output (information bottleneck).

    .. math::
        \min_\alpha \; L(f(z)) + \beta \, \frac{1}{Chw} \sum_{cij} I_{cij}, \qquad
        a_{ij} = \frac{1}{\ln 2} \sum_c I_{cij}

    with :math:`\lambda` = sigmoid(alpha) under a Gaussian and the `capacity` I; the sum over the
    layer's channels is upsampled bilinearly. One alpha for each neuron and image, Adam, one new draw of
    the noise for each copy and step; the last alpha gives the map.

    The loss L is the mean over the copies of

    - the cross entropy of the target, of the logits, or where the model ends in `nn.Softmax` of its
      probabilities (no less than float32 can hold). Explains the logits by default: their cross entropy
      is that of a network at temperature 1, as in the paper; that of probabilities at a high
      temperature changes by less than 1 nat, whatever passes, too little to outweigh beta;
    - for a regression (K = 1), which the paper does not cover, :math:`(f(z) - f(x))^2 / (2 s^2)` with
      the variance :math:`s^2` of the output over the reference images. As the cross entropy is the
      negative log-likelihood of a class, this is that of a Gaussian around the original output, in the
      same units (nats), so that beta has the same meaning. It is 1 on average if the output is that of
      another image. A remainder (modulo) is lost with noise of one count, and its gradient leads to the
      nearest count with that remainder, not back to the image.

    Source: Schulz et al., 2020 (its per-sample bottleneck), written here from the paper. Shows an upper
    bound of the bits that the output needs from each position: nothing is needed where it is 0; the
    amounts depend on beta and on the noise. A neuron that hardly varies over the reference images
    counts for very many bits if the image activates it; a warning says so if such neurons dominate.
    Upsampling assumes that a map's cells are spread evenly over the image; after padded convolutions
    they are not: at 224 the 9 x 9 cells of 27 pixels of the environments begin 19 pixels outside, and
    the map is as coarse and as shifted. Claims the positive truth: information has no sign.

    Costs one forward pass for each input, then `steps` forward and backward passes of `copies` through
    the modules after the layer (through the whole network if it is not a chain of modules). The
    reference images pass only once per model, layer and images: mean and standard deviation are cached
    as long as the model exists, until one of its parameters, buffers, modules or forward hooks changes.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    reference_images : Tensor, (n, C, H, W), optional
        Other images of the same kind, at least two, for mean and standard deviation (n - 1, at least
        0.01) of each neuron; an environment provides them. By default the inputs, if there are 16 or
        more.
    generator : torch.Generator, optional
        Generator for the noise; by default one with seed 0.
    layers : mapping of str to nn.Module, optional
        Provided by the environment; the method attaches to its "iba".
    layer : str, optional
        Dotted name of another module of the model to attach to (`find_layer`).
    layout : {"channels-first", "channels-last"}, optional
        Layout of what the layer returns, as for `gradcam`.
    beta : float
        Weight of the information; AttributionLab takes 20.
    steps, learning_rate : int, float
        Of Adam.
    copies : int
        Draws of the noise in each step.
    sigma : float
        Sigma of the Gaussian over lambda, in cells; cut off after 2 sigma, mirrored at edges; 0: none.

    Returns
    -------
    Tensor, (B, 1, H, W)
        Bits for each cell of the layer, interpolated.

    Raises
    ------
    AttributionLabError
        For settings out of range, fewer than two reference images, of another shape or not finite, a
        layer that does not exist or has no maps, a layout that is neither stated nor proven, maps of a
        single cell or too small for the Gaussian, and if not even one image fits in memory.
    """
    descent = Descent(beta, steps, learning_rate, copies, sigma)
    drawing, others = seeded(generator), other_images(reference_images, inputs, "iba")
    refuse_if(reference_images_problem(others, inputs, 2), "iba")
    module = find_layer(model, layer, layers, "iba")
    layout = layout_of(model, module, inputs, layout, "iba")
    noise = noise_of(model, module, others.to(inputs), layout, descent.sigma, "iba")

    def passage_of(image: Tensor, target: Tensor) -> Passage:
        given = (model, module, image, target, layout, noise, descent, drawing, "iba")
        return in_smaller_batches(lambda _: feature_passage(*given), 1, "iba")

    passages = [
        passage_of(image, target)
        for image, target in zip(torch.split(inputs, 1), targets.long(), strict=True)
    ]
    shares = [passage.unvaried for passage in passages]
    notify(Notice(UNVARIED, sum(share > 0.5 for share in shares), worst=max(shares)))
    nats = torch.cat([passage.information.sum(1, keepdim=True) for passage in passages])
    return F.interpolate(nats / math.log(2), tuple(inputs.shape[2:]), mode="bilinear")


def feature_passage(
    model: nn.Module,
    layer: nn.Module,
    image: Float[Tensor, "1 channels height width"],
    target: Int[Tensor, ""],
    layout: Layout,
    noise: Noise,
    descent: Descent,
    generator: torch.Generator,
    who: str,
) -> Passage:
    """The least that must pass a layer for the output of one image to stay (`iba`)."""
    returned, output = observe(model, layer, image)
    activation = channels_first(returned, layout)
    loss = loss_of(model, output, target, noise.variance)

    def gradient(mixed: Tensor) -> Tensor:
        return slope_of_mean(
            lambda copies: loss(resume(model, layer, image, as_layer(copies, layout))),
            *(mixed, len(mixed), who),
        )

    passing = least_passing(activation, noise.mean, noise.std, gradient, descent, generator, who)
    information = capacity(passing, activation, noise.mean, noise.std)
    share = float((information * noise.unvaried).sum() / information.sum())
    return Passage(activation, passing, information, share)


def noise_of(
    model: nn.Module, layer: nn.Module, images: Tensor, layout: Layout, sigma: float, who: str
) -> Noise:
    """What the reference images say; of the model's last call, if nothing has changed since.

    Refuses maps of a single cell, or too small for the Gaussian of a descent.
    """
    key = _fingerprint(model, layer, images, layout)
    if model not in _known or _known[model][0] != key:

        def passed(batch: int) -> tuple[Tensor, Tensor]:
            each = [observe(model, layer, part) for part in torch.split(images, batch)]
            maps, outputs = (torch.cat(parts) for parts in zip(*each, strict=True))
            return channels_first(maps, layout), outputs

        maps, outputs = in_smaller_batches(passed, images_at_once(model, images), who)
        std = maps.std(0)
        unvaried = std < SMALLEST_STD
        noise = Noise(maps.mean(0), std.clamp(min=SMALLEST_STD), outputs.var(), unvaried)
        _known[model] = key, noise
    found = _known[model][1]
    refuse_single_cell(found.mean[None], who)
    remedy = "take a smaller sigma (0 for none) or a layer before it"
    refuse_if(too_small(found.mean.shape, sigma, "the layer's maps are", remedy), who)
    return found


def _fingerprint(model: nn.Module, layer: nn.Module, images: Tensor, layout: Layout) -> bytes:
    """Digest of what the noise follows from. By content: changes through `.data` count no version."""
    modules = list(model.modules())
    hooks = [
        (m.training, [key for key, hook in table.items() if not is_ours(hook)])
        for m in modules
        for table in (m._forward_hooks, m._forward_pre_hooks)
    ]
    place = next(index for index, module in enumerate(modules) if module is layer)
    digest = hashlib.sha256(repr((model, hooks, place, layout)).encode())
    for tensor in (*model.parameters(), *model.buffers(), images):
        digest.update(repr((tensor.shape, tensor.dtype, tensor.device)).encode())
        values = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        digest.update(values.flatten().view(torch.uint8).numpy().data)
    return digest.digest()


def loss_of(model: nn.Module, output: Tensor, target: Tensor, variance: Tensor) -> Loss:
    """What is to stay small, the mean over copies of the outputs: see `iba`."""
    if output.shape[1] == 1:
        scale = 2 * variance.clamp(min=torch.finfo(variance.dtype).eps)
        return lambda changed: ((changed - output) ** 2).mean() / scale
    if isinstance(_last(model), nn.Softmax):
        least = torch.finfo(output.dtype).tiny
        return lambda changed: -changed[:, target].clamp(min=least).log().mean()
    return lambda changed: F.cross_entropy(changed, target.expand(len(changed)))


def _last(module: nn.Module) -> nn.Module:
    """The module that gives the output, as far as the order of the modules tells."""
    children = list(module.children())
    return _last(children[-1]) if children else module
