"""Weights before they become layers: a formula is written once, as a convolution or a linear layer."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import skip_init

from attributionlab.base import AttributionLabError, checked_arguments


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
    modules: list[nn.Module] = []
    for weight, bias in stages:
        layer = skip_init(nn.Conv2d, *weight.shape[1::-1], kernel_size=1)  # type: ignore[no-untyped-call]
        _assign(layer, weight[:, :, None, None], bias)
        modules += [layer, nn.ReLU()]
    return modules


@checked_arguments
def to_linears(stages: Sequence[Stage]) -> list[nn.Module]:
    """Linear layers, a ReLU of its own after each."""
    modules: list[nn.Module] = []
    for weight, bias in stages:
        layer = skip_init(nn.Linear, *weight.shape[1::-1])  # type: ignore[no-untyped-call]
        _assign(layer, weight, bias)
        modules += [layer, nn.ReLU()]
    return modules


def _assign(layer: nn.Conv2d | nn.Linear, weight: Tensor, bias: Tensor) -> None:
    layer.weight = nn.Parameter(weight.clone(memory_format=torch.contiguous_format))
    layer.bias = nn.Parameter(bias.clone())
