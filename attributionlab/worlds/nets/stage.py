"""Weights before they become layers: a formula is written once, as a convolution or a linear layer."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Stage(NamedTuple):
    """One pointwise layer: ``ReLU(weight @ x + bias)``."""

    weight: Float[Tensor, "outputs inputs"]
    bias: Float[Tensor, " outputs"]

    @classmethod
    def of(cls, weight: Tensor, bias: Sequence[float] | float = 0.0) -> "Stage":
        """Make a stage; a single bias counts for every output."""
        offsets = torch.as_tensor(bias, dtype=torch.float32).expand(len(weight)).clone()
        return cls(weight.float(), offsets)


def evaluate(
    stages: Iterable[Stage], values: Float[Tensor, "batch inputs"]
) -> list[Float[Tensor, "batch _"]]:
    """Outputs of each stage in turn, in float64."""
    outputs = []
    for weight, bias in stages:
        values = torch.relu(values.double() @ weight.double().T + bias.double())
        outputs.append(values)
    return outputs


def to_convolutions(stages: Iterable[Stage]) -> list[nn.Module]:
    """1x1 convolutions, a ReLU of its own after each."""
    modules: list[nn.Module] = []
    for weight, bias in stages:
        layer = nn.Conv2d(weight.shape[1], weight.shape[0], kernel_size=1)
        _assign(layer, weight[:, :, None, None], bias)
        modules += [layer, nn.ReLU()]
    return modules


def to_linears(stages: Iterable[Stage]) -> list[nn.Module]:
    """Linear layers, a ReLU of its own after each."""
    modules: list[nn.Module] = []
    for weight, bias in stages:
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        _assign(layer, weight, bias)
        modules += [layer, nn.ReLU()]
    return modules


def _assign(layer: nn.Conv2d | nn.Linear, weight: Tensor, bias: Tensor) -> None:
    layer.weight = nn.Parameter(weight.clone(memory_format=torch.contiguous_format))
    layer.bias = nn.Parameter(bias.clone())
