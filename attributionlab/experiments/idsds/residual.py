"""A small residual network (He, Zhang, Ren and Sun, 2016), with and without batch norm and bias."""

from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["residual_network"]

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
