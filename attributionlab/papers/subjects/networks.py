"""The network designs that IDSDS compares, small enough to be trained in seconds."""

from dataclasses import dataclass, fields
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, nearest, refuse_if
from attributionlab.papers.subjects.attention import PATCH, AttentionNetwork
from attributionlab.papers.subjects.intrinsic import BagNetwork, BCosNetwork
from attributionlab.papers.subjects.small_network import small_network
from attributionlab.validation import (
    boolean_problem,
    checked_images,
    checked_targets,
    integer_problem,
)

STAGES = 3


class Block(nn.Module):
    """x -> ReLU(f(x) + g(x)): f is two 3 x 3 convolutions, g the identity or a 1 x 1 convolution."""

    def __init__(self, before: int, after: int, stride: int, batch_norm: bool, bias: bool) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            *_convolution(before, after, 3, stride, batch_norm, bias),
            nn.ReLU(),
            *_convolution(after, after, 3, 1, batch_norm, bias),
        )
        same = stride == 1 and before == after
        self.shortcut = nn.Sequential(
            *([] if same else _convolution(before, after, 1, stride, batch_norm, bias))
        )
        self.relu = nn.ReLU()

    def forward(
        self, maps: Float[Tensor, "batch before height width"]
    ) -> Float[Tensor, "batch after rows columns"]:
        total: Tensor = self.relu(self.residual(maps) + self.shortcut(maps))
        return total


def residual_network(
    channels: int, classes: int, *, depth: int, width: int, batch_norm: bool, bias: bool
) -> nn.Sequential:
    """A convolution of stride 2, three stages of blocks, global average pooling, a linear layer.

    Each stage has `depth` blocks and twice the kernels of the one before; the second and third halve
    the maps. The weights are drawn from the global generator.
    """
    layers = [*_convolution(channels, width, 3, 2, batch_norm, bias), nn.ReLU()]
    before = width
    for stage in range(STAGES):
        after = width * 2**stage
        for index in range(depth):
            stride = 2 if stage and not index else 1
            layers.append(Block(before, after, stride, batch_norm, bias))
            before = after
    pooling = (nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*layers, *pooling, nn.Linear(before, classes, bias=bias))


def _convolution(
    before: int, after: int, kernel: int, stride: int, batch_norm: bool, bias: bool
) -> list[nn.Module]:
    """A convolution, and what normalizes it; its own bias would be undone by that."""
    own = bias and not batch_norm
    convolution = nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, bias=own)
    return [convolution, *([nn.BatchNorm2d(after)] if batch_norm else [])]


Family = Literal["plain", "residual", "attention", "bag", "b-cos"]
CONVOLUTIONAL = ("plain", "residual")
LEAST_SIDE = 8


@dataclass(frozen=True)
class Design:
    """What a network is built like.

    Parameters
    ----------
    family : {"plain", "residual", "attention", "bag", "b-cos"}
        Convolutions and maximum pooling (`small_network`), residual blocks, a vision transformer, a
        BagNet, or B-cos layers with B = 2. The others are options of the first two alone.
    depth : int
        Convolutions or blocks of each of three stages.
    width : int
        Kernels of the first stage; each has twice those of the one before.
    batch_norm, bias : bool
        Whether layers have them; a batch norm has a bias of its own.

    Raises
    ------
    AttributionLabError
        For an unknown family, an option that it does not have, and impossible values.

    Examples
    --------
    >>> from attributionlab.papers.subjects.networks import Design
    >>> Design("residual", depth=2, batch_norm=True).name
    'residual, depth 2, batch norm'
    """

    family: Family = "plain"
    depth: int = 1
    width: int = 16
    batch_norm: bool = False
    bias: bool = True

    def __post_init__(self) -> None:
        if self.family not in get_args(Family):
            raise AttributionLabError(
                f"no network family named {self.family!r}: {nearest(self.family, get_args(Family))}"
            )
        refuse_if(
            [
                *integer_problem("depth", self.depth, 1),
                *integer_problem("width", self.width, 1),
                *boolean_problem("batch_norm", self.batch_norm),
                *boolean_problem("bias", self.bias),
            ]
        )
        changed = ", ".join(self._changed())
        if changed and self.family not in CONVOLUTIONAL:
            raise AttributionLabError(
                f"family is {self.family!r}, which has no option {changed}: leave that out, or take "
                f"one of {', '.join(CONVOLUTIONAL)}"
            )
        if self.batch_norm and not self.bias:
            raise AttributionLabError(
                "bias is False with batch_norm, which shifts by itself: pass batch_norm=False, too"
            )

    def _changed(self) -> list[str]:
        options = [each for each in fields(self) if each.name != "family"]
        return [each.name for each in options if getattr(self, each.name) != each.default]

    @property
    def name(self) -> str:
        """The family and the options that are not the default, for tables."""
        said = {
            "depth": f"depth {self.depth}",
            "width": f"width {self.width}",
            "batch_norm": "batch norm",
            "bias": "no bias",
        }
        return ", ".join([self.family, *(said[option] for option in self._changed())])


def network_of(design: Design, channels: int, classes: int, side: int, seed: int) -> nn.Module:
    """A network of a design, not trained.

    Parameters
    ----------
    design : Design
        Of the network.
    channels, side : int
        Of the images, whose values lie in [0, 1]; side is a multiple of 4, at least 8.
    classes : int
        Outputs (logits), at least 2.
    seed : int
        Of the weights: those of convolutions are normal ones of He et al. (2015), which let networks
        without batch norm learn, too; all others are PyTorch's default. The global generator is left as
        it was.

    Returns
    -------
    torch.nn.Module
        (B, channels, side, side) float32 -> (B, classes), on the CPU, in training mode.

    Raises
    ------
    AttributionLabError
        For sizes that are none.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.subjects.networks import Design, network_of
    >>> network_of(Design("bag"), 3, 10, 32, seed=0)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    refuse_if(
        [
            *integer_problem("channels", channels, 1),
            *integer_problem("classes", classes, 2),
            *integer_problem("side", side, LEAST_SIDE),
            *integer_problem("seed", seed, 0),
        ]
    )
    if side % PATCH:
        raise AttributionLabError(f"side is {side}: take a multiple of {PATCH}")
    options = {
        each.name: getattr(design, each.name) for each in fields(design) if each.name != "family"
    }
    network: nn.Module
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        match design.family:
            case "plain":
                network = small_network(channels, classes, side, seed, **options)
            case "residual":
                network = residual_network(channels, classes, **options)
            case "attention":
                network = AttentionNetwork(channels, classes, side)
            case "bag":
                network = BagNetwork(channels, classes)
            case "b-cos":
                return BCosNetwork(channels, classes)
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return network


def gradcam_layer(network: nn.Module) -> nn.Module:
    """The module whose maps GradCAM reads: the last ones before the classifier.

    Parameters
    ----------
    network : torch.nn.Module
        Of `network_of`.

    Examples
    --------
    >>> from attributionlab.papers.subjects.networks import Design, gradcam_layer, network_of
    >>> gradcam_layer(network_of(Design(), 3, 10, 32, seed=0))
    ReLU()
    """
    if isinstance(network, AttentionNetwork):
        return network.maps
    if isinstance(network, BCosNetwork):
        return network.features
    activations = [module for module in network.modules() if isinstance(module, nn.ReLU)]
    if not activations:
        raise AttributionLabError(
            f"the network is a {type(network).__name__} without nn.ReLU: pass one of network_of"
        )
    return activations[-1]


def intrinsic_map(
    network: nn.Module,
    images: Float[Tensor, "batch channels side side"],
    targets: Int64[Tensor, " batch"],
) -> Float[Tensor, "batch 1 side side"]:
    """How a network of family "bag" or "b-cos" explains itself: contributions that sum to the logit.

    Parameters
    ----------
    network : torch.nn.Module
        Of `network_of`.
    images : Tensor, (B, C, H, W)
        In [0, 1].
    targets : Tensor, (B,)
        The classes that are explained.

    Returns
    -------
    Tensor, (B, 1, H, W)
        Of a BagNet the local evidence for the class, spread over the pixels of its place (Brendel and
        Bethge, 2019); of a B-cos network W(x) x with the weights W(x) that it computes for an image
        (Boehle, Fritz and Schiele, 2022).

    Raises
    ------
    AttributionLabError
        For a network of another family, and for images and targets that do not fit.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.subjects.networks import Design, intrinsic_map, network_of
    >>> network, images = network_of(Design("b-cos"), 3, 4, 32, seed=0), torch.rand(1, 3, 32, 32)
    >>> contributions = intrinsic_map(network, images, torch.tensor([2]))
    >>> torch.allclose(contributions.sum(), network(images)[0, 2], rtol=1e-5)
    True
    """
    checked_targets(targets, len(checked_images(images)))
    if isinstance(network, BCosNetwork):
        return network.contributions(images, targets)
    if isinstance(network, BagNetwork):
        with torch.no_grad():
            every = network.contributions(images)
        return every[torch.arange(len(images)), targets, None]
    raise AttributionLabError(
        f"a {type(network).__name__} does not explain itself: pass a network of family 'bag' or 'b-cos'"
    )
