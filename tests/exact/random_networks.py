"""Small random networks with dyadic weights, and the same networks in rational numbers."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from oracles import Affine


class Case(NamedTuple):
    """A chain without a softmax, the ends of a path, and a target."""

    model: nn.Sequential
    start: Tensor  # (1, C, H, W)
    end: Tensor
    target: int

    @property
    def path(self) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, baselines and targets."""
        return self.end, self.start, torch.tensor([self.target])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Pointwise layers, convolutions and linear layers with weights in multiples of 1/2.

    Small integers at both ends put many kinks exactly on the ends of the path, and whole neurons on
    zero throughout; random weights would do neither.
    """
    # Hypothesis chooses the architecture, torch the numbers: thousands of choices would be too many.
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    channels, side = draw(st.integers(1, 2)), draw(st.integers(2, 4))
    layers: list[nn.Module] = []
    features = channels
    for _ in range(draw(st.integers(0, 2))):
        outputs = draw(st.integers(1, 3))
        layers += [nn.Conv2d(features, outputs, 1), nn.ReLU()]
        features = outputs
    map_side = side
    for _ in range(draw(st.integers(0, 2))):
        outputs, kernel = draw(st.integers(1, 3)), draw(st.integers(1, min(3, map_side)))
        stride, padding = draw(st.integers(1, 2)), draw(st.integers(0, 1))
        groups = features if outputs % features == 0 and draw(st.booleans()) else 1
        bias = draw(st.booleans())
        convolution = nn.Conv2d(
            features, outputs, kernel, stride, padding, groups=groups, bias=bias
        )
        layers += [convolution, nn.ReLU()]
        features, map_side = outputs, (map_side + 2 * padding - kernel) // stride + 1
    layers.append(nn.Flatten())
    classes = draw(st.integers(1, 3))
    if draw(st.booleans()):
        hidden = draw(st.integers(1, 5))
        layers += [nn.Linear(features * map_side**2, hidden), nn.ReLU()]
        layers.append(nn.Linear(hidden, classes))
    else:
        layers.append(nn.Linear(features * map_side**2, classes, bias=False))
    model = nn.Sequential(*layers)
    for parameter in model.parameters():
        parameter.data = torch.randint(-4, 5, parameter.shape, generator=generator) / 2
    ends = torch.randint(-3, 4, (2, 1, channels, side, side), generator=generator).float()
    return Case(model, ends[0], ends[1], draw(st.integers(0, classes - 1)))


def as_rational(model: nn.Sequential, shape: Sequence[int]) -> list[Affine | None]:
    """The matrix of each layer, read off unit images in arithmetic that is exact for small weights."""
    layers: list[Affine | None] = []
    example = torch.zeros(1, *shape)
    for layer in model:
        if isinstance(layer, nn.ReLU):
            layers.append(None)
        elif not isinstance(layer, nn.Flatten):
            units = torch.eye(example.numel()).reshape(-1, *example.shape[1:])
            offsets = layer(example).flatten()
            columns = layer(units).flatten(1) - offsets
            layers.append(([rational(row) for row in columns.T], rational(offsets)))
        example = torch.zeros_like(layer(example))
    return layers


def rational(values: Tensor) -> list[Fraction]:
    """Numbers as fractions, one by one."""
    return [Fraction(value) for value in values.flatten().tolist()]


class Opaque(nn.Module):
    """The same function behind a type that no chain is read from."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images)
