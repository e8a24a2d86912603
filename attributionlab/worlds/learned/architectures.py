"""Four small architectures that learn rules: chains of standard layers, and a vision transformer."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, nearest

HIDDEN = 64
"""Neurons of the linear layer that reads every place of the last maps, since rules ask for places."""
TOKEN, HEADS, BLOCKS = 32, 4, 2
"""Numbers of a token, heads of an attention, and blocks."""
REDUCTION = 4
"""How much smaller the side of the last maps is than the image's."""


class Architecture(NamedTuple):
    """How a network is made.

    - `make`: its layers, for so many outputs and images of a side that 4 divides. The first is linear
      in the image, and so is the last one in what it reads.
    - `maps`: place of the layer whose maps CAMs and IBA read.
    - `rate`: highest learning rate.
    """

    make: Callable[[int, int], list[nn.Module]]
    maps: int
    rate: float


def _read(maps: int, side: int, outputs: int, activation: type[nn.Module]) -> list[nn.Module]:
    """Two linear layers behind the last maps."""
    places = (side // REDUCTION) ** 2
    hidden = nn.Linear(maps * places, HIDDEN)
    return [nn.Flatten(), hidden, activation(), nn.Linear(HIDDEN, outputs)]


def _patch_cnn(outputs: int, side: int) -> list[nn.Module]:
    """Kernels that do not overlap: 2 x 2 pixels, then 2 x 2 of those."""
    first, second, third = nn.Conv2d(3, 48, 2, 2), nn.Conv2d(48, 32, 1), nn.Conv2d(32, 16, 2, 2)
    maps = [first, nn.ReLU(), second, nn.ReLU(), third, nn.ReLU()]
    return [*maps, *_read(16, side, outputs, nn.ReLU)]


def _halving() -> tuple[nn.Conv2d, nn.Conv2d, nn.Conv2d]:
    """Overlapping kernels of 3 x 3 pixels, then two of 2 x 2 that halve the side."""
    return nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 32, 2, 2), nn.Conv2d(32, 16, 2, 2)


def _cnn(outputs: int, side: int) -> list[nn.Module]:
    maps = [layer for each in _halving() for layer in (each, nn.ReLU())]
    return [*maps, *_read(16, side, outputs, nn.ReLU)]


def _gelu_cnn(outputs: int, side: int) -> list[nn.Module]:
    """The same with a normalization of the batch, and GELU: no kinks anywhere."""
    maps = [
        layer
        for each in _halving()
        for layer in (each, nn.BatchNorm2d(each.out_channels), nn.GELU())
    ]
    return [*maps, *_read(16, side, outputs, nn.GELU)]


class Residual(nn.Module):
    """What a chain adds to what it reads."""

    def __init__(self, *chain: nn.Module) -> None:
        super().__init__()
        self.chain = nn.Sequential(*chain)

    def forward(self, tokens: Tensor) -> Tensor:
        """Shapes stay as they are."""
        changed: Tensor = self.chain(tokens)
        return tokens + changed


class Tokens(nn.Module):
    """Maps (B, C, H, W) as tokens (B, H W, C), each with what is learned for its place added."""

    def __init__(self, places: int, size: int) -> None:
        super().__init__()
        self.places = nn.Parameter(0.3 * torch.randn(1, places, size))

    def forward(self, maps: Tensor) -> Tensor:
        """Tokens row by row."""
        return maps.flatten(2).transpose(1, 2) + self.places


class Attention(nn.Module):
    """Each token reads all tokens: softmax(q k^T / sqrt(d)) v in each head, d the head's numbers."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(size, 3 * size)
        self.softmax = nn.Softmax(dim=-1)
        self.out = nn.Linear(size, size)

    def forward(self, tokens: Tensor) -> Tensor:
        """Shapes stay as they are."""
        batch, count, size = tokens.shape
        split = self.query_key_value(tokens).view(batch, count, 3, self.heads, size // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        weights = self.softmax(query @ key.transpose(-1, -2) / math.sqrt(size // self.heads))
        mixed = (weights @ value).transpose(1, 2).reshape(batch, count, size)
        read: Tensor = self.out(mixed)
        return read


def _vit(outputs: int, side: int) -> list[nn.Module]:
    """Tokens of 4 x 4 pixels, two blocks, and two linear layers that read all tokens.

    The first two layers are a token's embedding, since one linear layer cannot tell counts of colors.
    """
    embedding = [nn.Conv2d(3, 48, 2, 2), nn.GELU(), nn.Conv2d(48, TOKEN, 2, 2)]
    blocks: list[nn.Module] = []
    for _ in range(BLOCKS):
        wide = nn.Linear(TOKEN, 2 * TOKEN)
        perceptron = (nn.LayerNorm(TOKEN), wide, nn.GELU(), nn.Linear(2 * TOKEN, TOKEN))
        blocks += [Residual(nn.LayerNorm(TOKEN), Attention(TOKEN, HEADS)), Residual(*perceptron)]
    last = [nn.LayerNorm(TOKEN), nn.Linear(TOKEN, 16)]
    tokens = Tokens((side // REDUCTION) ** 2, TOKEN)
    return [*embedding, tokens, *blocks, *last, *_read(16, side, outputs, nn.GELU)]


ARCHITECTURES: Mapping[str, Architecture] = {
    "patch-cnn": Architecture(_patch_cnn, maps=5, rate=6e-3),
    "cnn": Architecture(_cnn, maps=5, rate=6e-3),
    "gelu-cnn": Architecture(_gelu_cnn, maps=8, rate=6e-3),
    "vit": Architecture(_vit, maps=1, rate=3e-3),
}
"""Those that can be trained, by name."""


def refuse_untrainable(architecture: str, side: int) -> None:
    """Refuse an unknown architecture, and a side that 4 does not divide."""
    if architecture not in ARCHITECTURES:
        raise AttributionLabError(
            f"architecture is {architecture!r}: {nearest(architecture, ARCHITECTURES)}"
        )
    if side % REDUCTION:
        raise AttributionLabError(
            f"image_size is {side}, but networks are trained on images whose side is "
            f"a multiple of {REDUCTION}: take {side + -side % REDUCTION}"
        )


def made(architecture: str, outputs: int, side: int) -> nn.Sequential:
    """A network with PyTorch's first weights, drawn from the global generator, in eval mode.

    Raises AttributionLabError for what `refuse_untrainable` refuses.
    """
    refuse_untrainable(architecture, side)
    network = nn.Sequential(*ARCHITECTURES[architecture].make(outputs, side))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.eval()
