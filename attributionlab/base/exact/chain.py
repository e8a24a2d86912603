"""A feed-forward chain of standard layers, read off a model and kept in float64."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.grad import conv2d_input

from attributionlab.base.passes import is_ours

ROUNDING = 2.0**-52
"""Spacing of float64 at 1, twice the largest relative rounding error."""


class LinearMap(Protocol):
    """A layer without kinks: what it computes, its transpose, and how exactly it computes."""

    def __call__(self, values: Tensor) -> Tensor:
        """Weight times values plus bias."""

    def transpose(self, gradients: Tensor, shape: torch.Size) -> Tensor:
        """Gradients at its input, of this shape, from those at its output."""

    def rounding(self, largest: Tensor) -> Tensor:
        """How far rounding may take each output from its value, for inputs of at most this size.

        A sum of n products is off by at most n u sum |w x|, u = 2^-53; twice that leaves room for
        the rounding of the inputs themselves. Products with a zero weight round nothing.
        """


@dataclass(frozen=True)
class Convolution:
    """`nn.Conv2d` with zero padding."""

    weight: Tensor
    bias: Tensor
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @classmethod
    def of(cls, layer: nn.Conv2d) -> "Convolution":
        padding = layer.padding
        if padding == "valid":
            padding = (0, 0)
        elif padding == "same":
            pairs = zip(layer.dilation, layer.kernel_size, strict=True)
            padding = tuple(dilation * (kernel - 1) // 2 for dilation, kernel in pairs)
        assert isinstance(padding, tuple)
        weight, bias = _parameters(layer)
        return cls(weight, bias, layer.stride, padding, layer.dilation, layer.groups)

    @property
    def is_pointwise(self) -> bool:
        """Whether every pixel is treated alone."""
        return (
            self.weight.shape[2:] == (1, 1) and set(self.stride) == {1} and set(self.padding) == {0}
        )

    def __call__(self, values: Tensor) -> Tensor:
        return self._convolve(values, self.bias)

    def without_bias(self, values: Tensor) -> Tensor:
        """What it does to differences."""
        return self._convolve(values, None)

    def transpose(self, gradients: Tensor, shape: torch.Size) -> Tensor:
        result: Tensor = conv2d_input(  # type: ignore[no-untyped-call]
            [len(gradients), *shape],
            self.weight,
            gradients,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
        )
        return result

    def rounding(self, largest: Tensor) -> Tensor:
        sums: Tensor = self._absolute(largest[None])[0]
        return ROUNDING * (self._terms[:, None, None] + 1) * sums

    def _convolve(self, values: Tensor, bias: Tensor | None) -> Tensor:
        return nn.functional.conv2d(
            values, self.weight, bias, self.stride, self.padding, self.dilation, self.groups
        )

    @cached_property
    def _absolute(self) -> "Convolution":
        return replace(self, weight=self.weight.abs(), bias=self.bias.abs())

    @cached_property
    def _terms(self) -> Tensor:
        return (self.weight != 0).flatten(1).sum(1)


@dataclass(frozen=True)
class Matrix:
    """`nn.Linear`."""

    weight: Tensor
    bias: Tensor

    def __call__(self, values: Tensor) -> Tensor:
        return nn.functional.linear(values, self.weight, self.bias)

    def transpose(self, gradients: Tensor, shape: torch.Size) -> Tensor:
        return gradients @ self.weight

    def rounding(self, largest: Tensor) -> Tensor:
        sums = nn.functional.linear(largest, self.weight.abs(), self.bias.abs())
        return ROUNDING * ((self.weight != 0).sum(1) + 1) * sums


@dataclass(frozen=True)
class Flattening:
    """`nn.Flatten`."""

    def __call__(self, values: Tensor) -> Tensor:
        return values.flatten(1)

    def transpose(self, gradients: Tensor, shape: torch.Size) -> Tensor:
        return gradients.reshape(len(gradients), *shape)

    def rounding(self, largest: Tensor) -> Tensor:
        return ROUNDING * largest.flatten()


@dataclass(frozen=True)
class Relu:
    """`nn.ReLU`, the only layer with kinks."""


Layer = Convolution | Matrix | Flattening | Relu


class Chain(NamedTuple):
    """Layers in the order in which they act, and whether a softmax over the outputs follows."""

    layers: tuple[Layer, ...]
    has_softmax: bool


def chain_of(model: nn.Module) -> Chain | None:
    """Read a model as a chain, or None if it is anything else.

    Exact types only, and none with hooks: a subclass or a hook may compute what its layer does not.
    """
    modules = list(_flattened(model))
    has_softmax = bool(modules) and _is_softmax(modules[-1])
    if has_softmax:
        modules.pop()
    layers = [_layer_of(module) for module in modules]
    if None in layers:
        return None
    return Chain(tuple(layer for layer in layers if layer is not None), has_softmax)


def _flattened(module: nn.Module) -> Iterator[nn.Module]:
    if type(module) is nn.Sequential and not _has_hooks(module):
        for child in module:
            yield from _flattened(child)
    else:
        yield module


def _layer_of(module: nn.Module) -> Layer | None:
    if _has_hooks(module):
        return None
    if type(module) is nn.ReLU:
        return Relu()
    if type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
        return Flattening()
    if type(module) is nn.Linear:
        return Matrix(*_parameters(module))
    if type(module) is nn.Conv2d and module.padding_mode == "zeros" and _pads_evenly(module):
        return Convolution.of(module)
    return None


def _is_softmax(module: nn.Module) -> bool:
    return type(module) is nn.Softmax and module.dim == 1 and not _has_hooks(module)


def _has_hooks(module: nn.Module) -> bool:
    """Whether something else than its layer may act when it is called."""
    # Backward hooks change gradients, which a chain does not ask for from the module.
    everywhere = torch.nn.modules.module
    tables = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
        everywhere._global_forward_hooks,
        everywhere._global_forward_pre_hooks,
        everywhere._global_backward_hooks,
        everywhere._global_backward_pre_hooks,
    )
    hooks = (hook for table in tables for hook in table.values())
    return "forward" in vars(module) or not all(map(is_ours, hooks))


def _pads_evenly(layer: nn.Conv2d) -> bool:
    """Whether as much is padded in front as behind: "same" may need one more behind."""
    pairs = zip(layer.dilation, layer.kernel_size, strict=True)
    return layer.padding != "same" or all(d * (k - 1) % 2 == 0 for d, k in pairs)


def _parameters(layer: nn.Conv2d | nn.Linear) -> tuple[Tensor, Tensor]:
    """Weight and bias; float64 holds every narrower number exactly."""
    weight = layer.weight.detach().double()
    if layer.bias is None:
        return weight, weight.new_zeros(len(weight))
    return weight, layer.bias.detach().double()
