r"""The information bottleneck: how much of a layer's information an output needs, and where.

Noise replaces a part of every neuron's value,

.. math:: z = \lambda r + (1 - \lambda) \epsilon, \qquad \epsilon \sim N(\mu, \sigma^2),

with mean and standard deviation of that neuron over images of the same kind. An optimization looks for
the :math:`\lambda` that let through as little information as possible while the output stays what it
is.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attributionlab.errors import refuse_if
from attributionlab.methods.batching import images_at_once, in_smaller_batches
from attributionlab.methods.declaration import declares
from attributionlab.methods.findings import Finding, tell
from attributionlab.methods.layers import find_layer, observe, resume
from attributionlab.validation import integer_problem, number_problem

__all__ = ["capacity", "iba"]

INITIAL = 5.0
"""alpha at the start: lambda = sigmoid(5) = 0.993 lets almost everything through."""
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
    variance: Float[Tensor, ""]


_known: WeakKeyDictionary[nn.Module, tuple[bytes, Noise]] = WeakKeyDictionary()
"""The noise of each model's last call, under a fingerprint of what it follows from."""


@declares(claim="positive", output="logit", resolution="iba")
def iba(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    reference_images: Tensor,
    generator: torch.Generator,
    layers: Mapping[str, nn.Module] | None = None,
    layer: str | None = None,
    beta: float = 10.0,
    steps: int = 10,
    learning_rate: float = 1.0,
    copies: int = 10,
    sigma: float = 1.0,
) -> Tensor:
    r"""Information that must pass a layer for the output to stay (information bottleneck attribution).

    .. math::
        \min_\alpha \; L(f(z)) + \beta \, \frac{1}{Chw} \sum_{cij} I_{cij}, \qquad
        a_{ij} = \frac{1}{\ln 2} \sum_c I_{cij}

    with :math:`\lambda` = sigmoid(alpha) under a Gaussian and the `capacity` I; the sum over the
    layer's channels is enlarged bilinearly. One alpha for each neuron and image, Adam, one fresh draw
    of the noise for each copy and step; the map is that of the last alpha.

    The loss L is the mean over the copies of

    - the cross entropy of the target, of the logits, or where the model ends in `nn.Softmax` of its
      probabilities (no less than float32 can hold). Explains the logits by default: their cross
      entropy is that of a network at temperature 1, as in the paper; that of probabilities at a high
      temperature changes by less than 1 nat, whatever is let through, and is no match for beta;
    - for a regression (K = 1), of which the paper does not speak,
      :math:`(f(z) - f(x))^2 / (2 s^2)` with the variance :math:`s^2` of the output over the reference
      images. As the cross entropy is the negative log-likelihood of a class, this is that of a
      Gaussian around the original output, in the same units (nats), so that beta means the same. It is
      1 on average where the output is that of another image. A remainder (modulo) is lost with noise
      of one count, and its gradient leads to the nearest count with that remainder, not back to the
      image.

    Source: Schulz et al., 2020 (its per-sample bottleneck), written here from the paper. Shows an
    upper bound of the bits that the output needs from each place: where it is 0 nothing is needed; the
    amounts depend on beta and on the noise. A neuron that hardly varies over the reference images
    counts for very many bits where the image sets it off; the result says so where such neurons
    dominate. Enlarging a map takes its cells as spread evenly over the image; behind padded
    convolutions they are not: at 224 the 9 x 9 cells of 27 pixels of the environments begin 19 pixels
    outside, and the map is as coarse and as shifted. Claims the positive truth: information has no
    sign.

    Costs one forward pass for each input, then `steps` forward and backward passes of `copies` through
    the modules behind the layer (through all of a network that is no chain of modules). The reference
    images pass once, not again in later calls with the same model, layer and images: mean and standard
    deviation are kept for as long as the model lives, and forgotten when one of its parameters,
    buffers, modules or forward hooks changes.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    reference_images : Tensor, (n, C, H, W)
        Other images of the kind, at least two, for mean and standard deviation (n - 1, at least 0.01)
        of each neuron; the environment gives them.
    generator : torch.Generator
        Of the noise.
    layers : mapping of str to nn.Module, optional
        The environment gives it; its "iba" is attached to.
    layer : str, optional
        Dotted name of another module of the model to attach to (`find_layer`).
    beta : float
        Weight of the information; AttributionLab takes 20.
    steps, learning_rate : int, float
        Of Adam.
    copies : int
        Draws of the noise in each step.
    sigma : float
        Of the Gaussian over lambda, in cells, cut off after 2 sigma, mirrored at the edges; 0 for none.

    Returns
    -------
    Tensor, (B, 1, H, W)
        Bits for each cell of the layer, interpolated.

    Raises
    ------
    AttributionLabError
        For settings out of range, fewer than two reference images or of another shape, a layer that
        does not exist or has no maps, or maps too small for the Gaussian.
    """
    _check(inputs, reference_images, beta, steps, learning_rate, copies, sigma)
    module = find_layer(model, layer, layers, "iba")
    mean, std, variance = _noise(model, module, reference_images.to(inputs))
    refuse_if(_too_small(mean, sigma))
    unvaried, std = std < SMALLEST_STD, std.clamp(min=SMALLEST_STD)
    found, shares = [], []
    for image, target in zip(torch.split(inputs, 1), targets, strict=True):
        activation, output = observe(model, module, image)
        loss = _loss(model, output, target, variance)
        alpha = torch.full_like(activation, INITIAL, requires_grad=True)
        optimizer = torch.optim.Adam([alpha], lr=learning_rate)
        for _ in range(steps):
            noise = torch.randn((copies, *mean.shape), generator=generator).to(mean)
            passing = _smooth(alpha.sigmoid(), sigma)
            mixed = passing * activation + (1 - passing) * (mean + std * noise)
            information = capacity(passing, activation, mean, std).mean()
            objective = loss(resume(model, module, image, mixed)) + beta * information
            (alpha.grad,) = torch.autograd.grad(objective, alpha)  # the weights get none
            optimizer.step()
        with torch.no_grad():
            passing = _smooth(alpha.sigmoid(), sigma)
            information = capacity(passing, activation, mean, std)
        found.append(information.sum(1, keepdim=True))
        shares.append(float((information * unvaried).sum() / information.sum()))
    tell(Finding(UNVARIED, sum(share > 0.5 for share in shares), worst=max(shares)))
    bits = torch.cat(found) / math.log(2)
    return F.interpolate(bits, tuple(inputs.shape[2:]), mode="bilinear")


def capacity(
    passing: Float[Tensor, "..."],
    activation: Float[Tensor, "..."],
    mean: Float[Tensor, "..."],
    std: Float[Tensor, "..."],
) -> Float[Tensor, "..."]:
    r"""Information that a neuron lets through, in nats.

    .. math::
        I = KL(N(\lambda r + (1-\lambda)\mu, (1-\lambda)^2 \sigma^2) \,\|\, N(\mu, \sigma^2))
          = -\tfrac12 \Big(1 + \ln (1-\lambda)^2 - \big(\lambda \tfrac{r - \mu}{\sigma}\big)^2
            - (1-\lambda)^2\Big)

    0 for lambda = 0. For lambda = 1 it would be infinite: 1 - lambda counts as no less than 2^-23.

    Parameters
    ----------
    passing : Tensor
        lambda in [0, 1].
    activation, mean, std : Tensor
        r, mu and sigma; all four broadcast.
    """
    blocked = (1 - passing).clamp(min=torch.finfo(passing.dtype).eps)
    shift = passing * (activation - mean) / std
    return (shift**2 + blocked**2 - 1) / 2 - blocked.log()


def _noise(model: nn.Module, layer: nn.Module, images: Tensor) -> Noise:
    """What the reference images say; of the model's last call, if nothing has changed since."""
    key = _fingerprint(model, layer, images)
    if model not in _known or _known[model][0] != key:
        maps, outputs = _passed(model, layer, images)
        _known[model] = key, Noise(maps.mean(0), maps.std(0), outputs.var())
    return _known[model][1]


def _fingerprint(model: nn.Module, layer: nn.Module, images: Tensor) -> bytes:
    """Of all that the noise follows from. By content: changes through `.data` count no version."""
    modules = list(model.modules())
    hooks = [(list(m._forward_hooks), list(m._forward_pre_hooks), m.training) for m in modules]
    place = next(index for index, module in enumerate(modules) if module is layer)
    digest = hashlib.sha256(repr((model, hooks, place)).encode())
    for tensor in (*model.parameters(), *model.buffers(), images):
        digest.update(repr((tensor.shape, tensor.dtype, tensor.device)).encode())
        values = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        digest.update(values.flatten().view(torch.uint8).numpy().data)
    return digest.digest()


def _passed(model: nn.Module, layer: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """What layer and network return for the reference images, as many at a time as fit."""

    def run(batch: int) -> tuple[Tensor, Tensor]:
        passed = [observe(model, layer, part) for part in torch.split(images, batch)]
        return torch.cat([maps for maps, _ in passed]), torch.cat(
            [outputs for _, outputs in passed]
        )

    return in_smaller_batches(run, images_at_once(model, images), "iba")


def _loss(model: nn.Module, output: Tensor, target: Tensor, variance: Tensor) -> Loss:
    """What is to stay small: see `iba`."""
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


def _radius(sigma: float) -> int:
    return math.ceil(2 * sigma)


def _smooth(
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


def _check(
    inputs: Tensor,
    reference_images: Tensor,
    beta: float,
    steps: int,
    learning_rate: float,
    copies: int,
    sigma: float,
) -> None:
    problems = [
        *number_problem("beta", beta, least=0),
        *integer_problem("steps", steps, 1),
        *number_problem("learning_rate", learning_rate, above=0),
        *integer_problem("copies", copies, 1),
        *number_problem("sigma", sigma, least=0),
    ]
    if reference_images.shape[1:] != inputs.shape[1:] or len(reference_images) < 2:
        problems.append(
            f"reference_images have shape {tuple(reference_images.shape)}: pass at least two of "
            f"shape {tuple(inputs.shape[1:])}"
        )
    refuse_if(problems, "iba")


def _too_small(mean: Tensor, sigma: float) -> list[str]:
    height, width = mean.shape[1:]
    if _radius(sigma) < min(height, width):
        return []
    return [
        f"iba: the layer's maps are {height} x {width}, too small for sigma {sigma:g}: take a smaller "
        "sigma (0 for none) or a layer before it"
    ]
