"""Networks small enough to be trained in seconds: their designs, and how they are trained.

The designs that IDSDS compares: plain and residual convolutions, and two that explain themselves,
BagNet (Brendel and Bethge, 2019) and B-cos (Boehle et al., 2022).
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    checked_images,
    checked_targets,
    integer_problem,
    refuse_if,
)

STAGES, WIDTH = 3, 16
LEARNING_RATE, WEIGHT_DECAY, BATCH_SIZE, EPOCHS = 1e-3, 1e-4, 64, 10
EVIDENCE_KERNELS, EVIDENCE_SCALE = 32, 10.0
"""Sizes of a BagNet; most places have little to say, so their mean alone would be slow to learn."""
B_COS_KERNELS, TINY = (32, 64, 64), 1e-6
"""Kernels of each layer; what keeps norms of nothing from being divided by."""


Images = Float[Tensor, "batch channels height width"]
Labels = Int64[Tensor, " batch"]
Logits = Float[Tensor, "batch classes"]
Maps = Float[Tensor, "batch 1 height width"]
Augmentation = Callable[[Tensor, torch.Generator], Tensor]
"""(images of a batch, generator) -> images to train on"""


def small_network(
    channels: int,
    classes: int,
    side: int,
    seed: int,
    *,
    depth: int = 1,
    width: int = WIDTH,
    batch_norm: bool = False,
) -> nn.Sequential:
    """Three stages of convolutions and a linear layer, not trained; images are square.

    Each convolution (3 x 3, zero padding) has a ReLU of its own, each stage ends with 2 x 2 maximum
    pooling, and its kernels are twice those of the stage before; the linear layer reads every place
    of the last maps. By default there are three convolutions, with 16, 32 and 64 kernels; the
    options are those of `Design`. The side is at least 8. The seed is that of the weights, PyTorch's
    default ones; the global generator is left as it was.
    """
    layers: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        before = channels
        for stage in range(STAGES):
            kernels = width * 2**stage
            for _ in range(depth):
                layers += [*convolution(before, kernels, 3, 1, batch_norm), nn.ReLU()]
                before = kernels
            layers.append(nn.MaxPool2d(2))
        places = (side // 2**STAGES) ** 2
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * places, classes))


def convolution(
    before: int, after: int, kernel: int, stride: int, batch_norm: bool
) -> list[nn.Module]:
    """A convolution, and what normalizes it; its own bias would be undone by that."""
    first = nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, bias=not batch_norm)
    return [first, *([nn.BatchNorm2d(after)] if batch_norm else [])]


def fit_network(
    network: nn.Module,
    images: Images,
    labels: Labels,
    *,
    seed: int,
    epochs: int = EPOCHS,
    learning_rate: float = LEARNING_RATE,
    optimizer: torch.optim.Optimizer | None = None,
    batch_size: int = BATCH_SIZE,
    augmentation: Augmentation | None = None,
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
) -> None:
    """Train a network in place on the mean cross-entropy, and put it in eval mode.

    By Adam with weight decay, an L2 penalty (Kingma and Ba, 2015), or by another `optimizer` of its
    parameters. `augmentation`, (images of a batch, generator on the CPU) -> images, is called anew for
    every batch; `schedule` of the optimizer's learning rate is stepped after each epoch.

    Images have values of the order of 1. The seed is that of the order of the images, drawn anew in
    each epoch; the last batch may be smaller. The global generator is not used, unless the network
    uses it. Refused are images, labels and settings that cannot be used, and a loss that is not finite.
    """
    checked_images(images)
    checked_targets(labels, len(images))
    refuse_if(integer_problem("epochs", epochs, 1))
    if optimizer is None:
        optimizer = torch.optim.Adam(
            network.parameters(), lr=learning_rate, weight_decay=WEIGHT_DECAY
        )
    generator = torch.Generator().manual_seed(seed)
    network.train()
    for epoch in range(epochs):
        order = torch.randperm(len(images), generator=generator).to(images.device)
        for chosen in torch.split(order, batch_size):
            shown = images[chosen]
            if augmentation is not None:
                shown = augmentation(shown, generator)
            loss = nn.functional.cross_entropy(network(shown), labels[chosen])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if not loss.isfinite():
            raise AttributionLabError(
                f"the loss is {loss.item()} after epoch {epoch + 1}: take a learning_rate below "
                f"{optimizer.param_groups[0]['lr']:g}, or images with values in [0, 1]"
            )
        if schedule is not None:
            schedule.step()
    network.eval()


def trained_small_network(
    images: Images, labels: Labels, *, classes: int, seed: int, epochs: int = EPOCHS
) -> nn.Sequential:
    """A `small_network` for square images, trained on them by `fit_network`; one seed for both."""
    _, channels, side, _ = checked_images(images).shape
    network = small_network(channels, classes, side, seed).to(images.device)
    fit_network(network, images, labels, seed=seed, epochs=epochs)
    return network


def accuracy_of(
    network: nn.Module, images: Images, labels: Labels, *, batch_size: int = 500
) -> float:
    """The share of images on which a network is `right`."""
    checked_targets(labels, len(checked_images(images)))
    return int(right(network, images, labels, batch_size).sum()) / len(images)


def right(
    network: nn.Module, images: Tensor, labels: Tensor, batch_size: int = 64
) -> Bool[Tensor, " batch"]:
    """Whether the label has the largest output, image by image; among equal ones the first counts."""
    with torch.no_grad():
        found = [network(part).argmax(1) for part in torch.split(images, batch_size)]
    return torch.cat(found) == labels


class Block(nn.Module):
    """x -> ReLU(f(x) + g(x)): f is two 3 x 3 convolutions, g the identity or a 1 x 1 convolution."""

    def __init__(self, before: int, after: int, stride: int, batch_norm: bool) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            *convolution(before, after, 3, stride, batch_norm),
            nn.ReLU(),
            *convolution(after, after, 3, 1, batch_norm),
        )
        same = stride == 1 and before == after
        self.shortcut = nn.Sequential(
            *([] if same else convolution(before, after, 1, stride, batch_norm))
        )
        self.relu = nn.ReLU()

    def forward(
        self, maps: Float[Tensor, "batch before height width"]
    ) -> Float[Tensor, "batch after rows columns"]:
        total: Tensor = self.relu(self.residual(maps) + self.shortcut(maps))
        return total


def residual_network(
    channels: int,
    classes: int,
    *,
    depth: int,
    width: int,
    batch_norm: bool,
    stride: int = 2,
) -> nn.Sequential:
    """A convolution of a stride, three stages of blocks, global average pooling, a linear layer.

    Each stage has `depth` blocks and twice the kernels of the one before; the second and third halve
    the maps. The weights are drawn from the global generator.
    """
    layers = [*convolution(channels, width, 3, stride, batch_norm), nn.ReLU()]
    before = width
    for stage in range(STAGES):
        after = width * 2**stage
        for index in range(depth):
            halving = 2 if stage and not index else 1
            layers.append(Block(before, after, halving, batch_norm))
            before = after
    pooling = (nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*layers, *pooling, nn.Linear(before, classes))


class BagNetwork(nn.Module):
    """Each place sees 5 x 5 pixels and has evidence for each class; a logit is ten times its mean.

    Two convolutions of 3 x 3, the second of stride 2, one of 1 x 1, each with a ReLU of its own, and
    a linear layer at each place.
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        kernels = EVIDENCE_KERNELS
        self.evidence = nn.Sequential(
            nn.Conv2d(channels, kernels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(kernels, kernels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(kernels, kernels, 1),
            nn.ReLU(),
            nn.Conv2d(kernels, classes, 1),
        )

    def forward(self, images: Images) -> Logits:
        logits: Tensor = EVIDENCE_SCALE * self.evidence(images).mean((2, 3))
        return logits

    def contributions(self, images: Images) -> Float[Tensor, "batch classes side side"]:
        """The evidence of each place, spread evenly over its pixels: they sum to the logits."""
        evidence: Tensor = self.evidence(images)
        pixels = images.shape[-1] // evidence.shape[-1]
        spread = evidence.repeat_interleave(pixels, 2).repeat_interleave(pixels, 3)
        return EVIDENCE_SCALE * spread / images[0, 0].numel()


class BCosConvolution(nn.Conv2d):
    """out = gain |cos(x, w)| (w / |w|) . x without bias: linear in x while the cosine is held.

    The gain, sqrt(length of x), keeps outputs of the order of the inputs at the start, when cosines
    are of the order of its inverse.
    """

    def __init__(self, before: int, after: int, kernel: int, stride: int) -> None:
        super().__init__(before, after, kernel, stride, padding=kernel // 2, bias=False)
        self.gain = math.sqrt(before * kernel**2)

    def response(self, inputs: Tensor, *, held: bool) -> Tensor:
        """The output; with `held` no gradient passes through the cosine."""
        unit = nn.functional.normalize(self.weight.flatten(1), dim=1).view_as(self.weight)
        linear = self._conv_forward(inputs, unit, None)
        ones = torch.ones_like(self.weight[:1])
        squares = self._conv_forward(inputs**2, ones, None)
        cosine = (linear / (squares + TINY).sqrt()).abs()
        output: Tensor = self.gain * linear * (cosine.detach() if held else cosine)
        return output

    def forward(self, inputs: Tensor) -> Tensor:
        return self.response(inputs, held=False)


class BCosNetwork(nn.Module):
    """Three B-cos convolutions of 3 x 3, the first two of stride 2, one of 1 x 1, and the mean.

    With B = 2. The input is encoded as [x, 1 - x], so that dark pixels can contribute, too.
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        before, layers = 2 * channels, []
        for index, after in enumerate(B_COS_KERNELS):
            layers.append(BCosConvolution(before, after, 3, 2 if index < 2 else 1))
            before = after
        self.features = nn.Sequential(*layers)
        self.classifier = BCosConvolution(before, classes, 1, 1)

    def forward(self, images: Images) -> Logits:
        logits: Tensor = self.classifier(self.features(_encoded(images))).mean((2, 3))
        return logits

    def contributions(self, images: Images, targets: Labels) -> Maps:
        """The label's row of W(x) times the encoded x, summed over channels: they sum to the logit.

        W(x) is the gradient while all cosines are held.
        """
        encoded = _encoded(images.detach()).requires_grad_()
        maps = encoded
        for layer in (*self.features, self.classifier):
            maps = layer.response(maps, held=True)
        chosen = maps.mean((2, 3)).gather(1, targets[:, None]).sum()
        [weights] = torch.autograd.grad(chosen, encoded)
        return (weights * encoded.detach()).sum(1, keepdim=True)


def _encoded(images: Tensor) -> Tensor:
    return torch.cat([images, 1 - images], dim=1)


Family = Literal["plain", "residual", "bag", "b-cos"]


@dataclass(frozen=True)
class Design:
    """What a network is built like.

    Families are convolutions and maximum pooling (`small_network`), residual blocks, a BagNet, and
    B-cos layers with B = 2. The first two alone have options: `depth`, convolutions or blocks of each
    of three stages; `width`, kernels of the first stage, of which each stage has twice those of the one
    before; `batch_norm`, which shifts by itself, without a bias of the convolution.
    """

    family: Family = "plain"
    depth: int = 1
    width: int = 16
    batch_norm: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """All but the family."""
        return {name: value for name, value in asdict(self).items() if name != "family"}


def network_of(design: Design, channels: int, classes: int, side: int, seed: int) -> nn.Module:
    """A network of a design, not trained, in training mode: (B, channels, side, side) -> (B, classes).

    Images lie in [0, 1]; their side is a multiple of 4, at least 8. The seed is that of the
    weights: those of convolutions are normal ones of He et al. (2015), which let networks without
    batch norm learn, too; all others are PyTorch's default. The global generator is left as it was.
    """
    network: nn.Module
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        match design.family:
            case "plain":
                network = small_network(channels, classes, side, seed, **design.options)
            case "residual":
                network = residual_network(channels, classes, **design.options)
            case "bag":
                network = BagNetwork(channels, classes)
            case "b-cos":
                return BCosNetwork(channels, classes)
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return network


def gradcam_layer(network: nn.Module) -> nn.Module:
    """The module whose maps GradCAM reads, of `network_of`: the last ones before the classifier."""
    if isinstance(network, BCosNetwork):
        return network.features
    return [module for module in network.modules() if isinstance(module, nn.ReLU)][-1]


def intrinsic_map(network: nn.Module, images: Images, targets: Labels) -> Maps:
    """How a network of family "bag" or "b-cos" explains itself: contributions that sum to the logit.

    Of a BagNet the local evidence for the class, spread over the pixels of its place (Brendel and
    Bethge, 2019); of a B-cos network W(x) x with the weights W(x) that it computes for an image
    (Boehle, Fritz and Schiele, 2022). Images lie in [0, 1].
    """
    if isinstance(network, BCosNetwork):
        return network.contributions(images, targets)
    assert isinstance(network, BagNetwork)
    with torch.no_grad():
        every = network.contributions(images)
    return every[torch.arange(len(images)), targets, None]
