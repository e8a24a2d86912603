r"""A network as a list of layers in float64 that moves rewrite, and what each neuron can hold.

Every layer is a convolution here, linear ones too: their kernel covers the whole map. Every neuron of
a hidden layer stands behind a ReLU and has a bound and a grid step, for every integer image of the
valid box. (Natural implementations have one layer without a ReLU, and bounds for colors of the palette;
no move rewrites them.) Moves hand these on (a neuron scaled by 2^k has 2^k times the bound and step),
so they stay as tight as the builder knew them; only new neurons get the interval bound of what they
read.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from attributionlab.base import EXACT_STEPS, AttributionLabError, grid_step
from attributionlab.worlds.nets.exactness import LayerBudget, Signal, check_budget
from attributionlab.worlds.nets.networks import Network
from attributionlab.worlds.nets.stage import convolution, linear

LARGEST, SMALLEST = 2.0**80, 2.0**-80
"""Far inside the range of float32, so that products with gradients do not leave it either."""


@dataclass(frozen=True)
class Layer:
    """One layer of a draft.

    - `weight` (outputs, inputs, kernel, kernel): in float64, every number one of float32's.
    - `has_relu`: whether a ReLU follows.
    - `signal`: what leaves it, behind its ReLU.
    - `attach`: which of `Network.layers` is this layer's ReLU, or itself where it has none.
    """

    weight: Tensor
    bias: Tensor
    stride: int
    padding: int
    has_relu: bool
    signal: Signal
    attach: tuple[str, ...] = ()

    @property
    def outputs(self) -> int:
        """How many neurons it has."""
        return len(self.weight)

    def part(self, rows: Tensor) -> "Layer":
        """Some of its neurons, in this order."""
        signal = Signal(self.signal.upper[rows], self.signal.step[rows])
        return replace(self, weight=self.weight[rows], bias=self.bias[rows], signal=signal)


@dataclass
class Draft:
    """A network under revision.

    `layers`: in the order in which they act. `flatten`: the layer before which the map is flattened; it
    and those behind it become linear. `inputs`: what an image can hold.
    """

    layers: list[Layer]
    flatten: int
    inputs: Signal

    @classmethod
    def of(cls, network: Network) -> "Draft":
        """Read a network and its builder's bounds.

        Raises AttributionLabError for a transformer, whose layers are no chain.
        """
        if "transformer" in dict(network.model.named_children()):
            raise AttributionLabError(
                f"a network {network.moves[-1]}, is not a chain of layers and cannot be "
                "rewritten: pass the original network"
            )
        modules = [m for m in network.model.modules() if not isinstance(m, nn.Sequential)]
        known = [budget.signal for budget in network.budgets]
        channels = network.channels
        upper = torch.full((channels,), float(network.highest)).double()
        signal = inputs = Signal(upper, torch.ones(channels).double())
        layers: list[Layer] = []
        flatten = 0
        for module, following in zip(modules, [*modules[1:], None], strict=True):
            if isinstance(module, nn.Flatten):
                flatten = len(layers)
            if not isinstance(module, nn.Conv2d | nn.Linear):
                continue
            has_relu = isinstance(following, nn.ReLU)
            weight, stride, padding = _kernels(module, signal)
            bias = torch.zeros(len(weight)).double()
            if module.bias is not None:
                bias = module.bias.detach().cpu().double()
            layer = Layer(weight, bias, stride, padding, has_relu, signal)
            found = known[len(layers)] if len(layers) < len(known) else None
            output = found or Signal(interval(layer, signal), terms(layer, signal)[1])
            if isinstance(module, nn.Linear):
                output = replace(output, upper=output.upper.reshape(-1, 1, 1))
            attach = tuple(name for name, module in network.layers.items() if module is following)
            layers.append(replace(layer, signal=output, attach=attach))
            signal = output
        return cls(layers, flatten, inputs)

    @property
    def cuts(self) -> range:
        """Layers whose neurons are hidden: another layer reads them, behind a ReLU."""
        return range(len(self.layers) - 1)

    def signal_into(self, index: int) -> Signal:
        """What a layer receives."""
        return self.layers[index - 1].signal if index else self.inputs

    def budgets(self) -> list[LayerBudget]:
        """Hold every layer against the budget."""
        budgets = []
        for index, layer in enumerate(self.layers):
            sums, steps = terms(layer, self.signal_into(index))
            budget = check_budget(f"layer {index + 1}", sums, steps)
            budgets.append(replace(budget, signal=layer.signal))
        return budgets

    def built(self) -> tuple[nn.Sequential, dict[str, nn.Module]]:
        """The draft as a model, and where map-based methods attach."""
        modules: list[nn.Module] = []
        attach: dict[str, nn.Module] = {}
        for index, layer in enumerate(self.layers):
            modules.append(module_of(layer, is_linear=index >= self.flatten))
            if layer.has_relu:
                modules.append(nn.ReLU())
            attach |= dict.fromkeys(layer.attach, modules[-1])
        split = sum(1 + layer.has_relu for layer in self.layers[: self.flatten])
        parts = OrderedDict(features=nn.Sequential(*modules[:split]), flatten=nn.Flatten())
        model = OrderedDict[str, nn.Module](parts)
        if modules[split:]:
            model["head"] = nn.Sequential(*modules[split:])
        whole = nn.Sequential(model).eval()
        whole = whole.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return whole, attach

    def finished(self, network: Network, *moves: str) -> Network:
        """The draft as a network, equal to the one it was read from, with what was done in words."""
        model, layers = self.built()
        return replace(
            network,
            model=model,
            layers=layers,
            budgets=self.budgets(),
            plain=network.model if network.plain is None else network.plain,
            moves=(*network.moves, *moves),
        )


def interval(layer: Layer, signal: Signal) -> Tensor:
    """The most that each neuron can be if its inputs reach their bounds independently."""
    most = _spread(replace(layer, weight=layer.weight.clamp(min=0)), signal.upper)
    return (most + along(layer.bias, most)).clamp(min=0)


def terms(layer: Layer, signal: Signal) -> tuple[Tensor, Tensor]:
    """Largest sum of absolute terms of each neuron, and the grid step of its terms."""
    sums = _spread(replace(layer, weight=layer.weight.abs()), signal.upper)
    sums = sums.reshape(layer.outputs, -1).amax(1)
    weight = grid_step(layer.weight) * signal.step[:, None, None]
    return sums + layer.bias.abs(), torch.minimum(weight.flatten(1).amin(1), grid_step(layer.bias))


def rows_that_fit(layer: Layer, signal: Signal) -> Tensor:
    """Which neurons stay within the exactness budget, and well within the range of float32."""
    sums, steps = terms(layer, signal)
    numbers = torch.cat([layer.weight.flatten(1), layer.bias[:, None]], dim=1)
    sizes = numbers.abs()
    return (
        (sums <= EXACT_STEPS * steps)
        & (sums <= LARGEST)
        & (steps >= SMALLEST)
        & (sizes.amax(1) <= LARGEST)
        & ((sizes == 0) | (sizes >= SMALLEST)).all(1)
        & (numbers.float().double() == numbers).all(1)
    )


def _spread(layer: Layer, upper: Tensor) -> Tensor:
    """Weights times bounds, without the bias; one bound for each channel stays one for each neuron."""
    if upper.ndim == 1:
        return layer.weight.sum((2, 3)) @ upper
    return nn.functional.conv2d(upper, layer.weight, None, layer.stride, layer.padding)


def along(values: Tensor, like: Tensor) -> Tensor:
    """One value for each channel, shaped to go with bounds."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _kernels(module: nn.Conv2d | nn.Linear, signal: Signal) -> tuple[Tensor, int, int]:
    weight = module.weight.detach().cpu().double()
    if isinstance(module, nn.Conv2d):
        return weight, module.stride[0], int(module.padding[0])
    return weight.reshape(len(weight), len(signal.step), *signal.upper.shape[1:]), 1, 0


def module_of(layer: Layer, *, is_linear: bool) -> nn.Module:
    """A layer as a linear layer or a convolution, in float32."""
    weight = layer.weight + 0.0  # no -0.0
    bias = layer.bias + 0.0
    if is_linear:
        return linear(weight.flatten(1), bias)
    return convolution(weight, bias, layer.stride, layer.padding)
