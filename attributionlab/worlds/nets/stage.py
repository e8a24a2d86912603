"""Weights before they become layers: a formula is written once, as a convolution or a linear layer."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, checked_arguments

Made = TypeVar("Made", nn.Conv2d, nn.Linear)


class Stage(NamedTuple):
    """One pointwise layer: ``ReLU(weight @ x + bias)``."""

    weight: Float[Tensor, "outputs inputs"]
    bias: Float[Tensor, " outputs"]

    @classmethod
    def of(cls, weight: Tensor, bias: Sequence[float] | float = 0.0) -> "Stage":
        """Make a stage; a single bias counts for every output."""
        offsets = torch.as_tensor(bias, dtype=torch.float32).expand(len(weight)).clone()
        return cls(weight.float(), offsets)


@checked_arguments
def evaluate(
    stages: Sequence[Stage], values: Float[Tensor, "batch inputs"]
) -> list[Float[Tensor, "batch _"]]:
    """Outputs of each stage in turn, in float64."""
    if stages and values.shape[1] != stages[0].weight.shape[1]:
        raise AttributionLabError(
            f"values have {values.shape[1]} columns: pass {stages[0].weight.shape[1]}, one for each "
            "input of the first stage"
        )
    outputs = []
    for weight, bias in stages:
        values = torch.relu(values.double() @ weight.double().T + bias.double())
        outputs.append(values)
    return outputs


@checked_arguments
def to_convolutions(stages: Sequence[Stage]) -> list[nn.Module]:
    """1x1 convolutions, a ReLU of its own after each."""
    return [
        module
        for weight, bias in stages
        for module in (convolution(weight[:, :, None, None], bias), nn.ReLU())
    ]


@checked_arguments
def to_linears(stages: Sequence[Stage]) -> list[nn.Module]:
    """Linear layers, a ReLU of its own after each."""
    return [module for stage in stages for module in (linear(*stage), nn.ReLU())]


# Layers are made on "meta", which draws no weights: that would take numbers of the global random state.


def convolution(weight: Tensor, bias: Tensor, stride: int = 1, padding: int = 0) -> nn.Conv2d:
    """A convolution with copies of weights (outputs, inputs, kernel, kernel), in float32."""
    outputs, inputs, *kernel = weight.shape
    geometry = inputs, outputs, (kernel[0], kernel[1]), stride, padding
    return _with_weights(nn.Conv2d(*geometry, device="meta"), weight, bias)


def linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """A linear layer with copies of weights (outputs, inputs), in float32."""
    outputs, inputs = weight.shape
    layer = nn.Linear(inputs, outputs, bias is not None, device="meta")
    return _with_weights(layer, weight, bias)


def _with_weights(layer: Made, weight: Tensor, bias: Tensor | None) -> Made:
    layer.weight = nn.Parameter(weight.float().clone(memory_format=torch.contiguous_format))
    if bias is not None:
        layer.bias = nn.Parameter(bias.float().clone())
    return layer
