"""A network as a list of layers that any framework can run, and its weights by name."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import AttributionLabError
from attributionlab.worlds import Environment

SCHEMA = 1


class ListedNetwork(NamedTuple):
    """A network without torch.

    `document`: what network.json holds: `input`, `baseline`, `outputs`, `layers`, `attach`. `tensors`:
    weights and biases, under the names that the layers give.
    """

    document: dict[str, Any]
    tensors: dict[str, NDArray[np.float32]]

    def equals(self, document: Any, tensors: Mapping[str, NDArray[Any]]) -> bool:
        """Whether files say the same."""
        return (
            bool(self.document == document)
            and self.tensors.keys() == tensors.keys()
            and all(np.array_equal(each, tensors[name]) for name, each in self.tensors.items())
        )


def listed_network(env: Environment, numbered: bool = False) -> ListedNetwork:
    """The layers of an environment's network in the order in which they act; `numbered` takes away
    their names.

    The networks are chains: each layer reads what the one before it gives, and there are neither
    branches nor sums of them. For a classifier, temperature (a linear layer without bias) and softmax
    come last.

    Raises AttributionLabError for what is no chain of `nn.Conv2d`, `nn.Linear`, `nn.ReLU`, `nn.Flatten`
    and `nn.Softmax` with weights of float32.
    """
    modules = list(_chain(env.model, ""))
    if numbered:
        modules = [(f"layer{k:02}", module) for k, (_, module) in enumerate(modules)]
    outputs = {"logit": len(modules)}
    if env.softmax_model is not None:
        behind = _parts(env.softmax_model)
        modules += [(name, module) for name, module in behind if module is not env.model]
        outputs["probability"] = len(modules)
    layers, tensors = [], dict[str, NDArray[np.float32]]()
    for name, module in modules:
        described = _described(env, name, module)
        weights = {
            key: _array(env, f"{name}.{key}", value)
            for key in ("weight", "bias")
            if (value := getattr(module, key, None)) is not None
        }
        tensors |= {f"{name}.{key}": value for key, value in weights.items()}
        if weights:
            described |= {
                key: f"{name}.{key}" if key in weights else None for key in ("weight", "bias")
            }
        layers.append({"name": name, **described})
    names = {module: name for name, module in modules}
    recipe = env.recipe
    document = {
        "schema": SCHEMA,
        "input": {
            "channels": recipe.channels,
            "height": recipe.image_size,
            "width": recipe.image_size,
            "lowest": 0,
            "highest": env.max_value,
        },
        "baseline": [int(value) for value in recipe.background],
        "outputs": outputs,
        "layers": layers,
        "attach": {key: names[module] for key, module in env.layers.items() if module in names},
    }
    return ListedNetwork(document, tensors)


def _chain(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """The modules of nested chains with their names; what has no parts is for `_described`."""
    if type(module) is not nn.Sequential:
        yield name, module
        return
    for key, part in _parts(module):
        yield from _chain(part, f"{name}.{key}" if name else key)


def _parts(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Its children with their names; `named_children` leaves out one that is there twice."""
    return [(key, part) for key, part in module._modules.items() if part is not None]


def _described(env: Environment, name: str, module: Any) -> dict[str, Any]:
    """What a layer does, apart from its weights; a subclass may do something else."""
    kind = type(module)
    if kind is nn.Conv2d and _is_plain(module):
        return {
            "kind": "conv2d",
            "kernel": list(module.kernel_size),
            "stride": list(module.stride),
            "padding": list(module.padding),
        }
    if kind is nn.Linear:
        return {"kind": "linear"}
    if kind is nn.ReLU:
        return {"kind": "relu"}
    if kind is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
        return {"kind": "flatten"}
    if kind is nn.Softmax and module.dim == 1:
        return {"kind": "softmax"}
    said = " ".join(str(module).split())
    raise AttributionLabError(
        f"{env.name}: layer {name!r} is {said}, which a list of layers cannot represent: export "
        "networks that are chains (nn.Sequential) of Conv2d, Linear, ReLU, Flatten and Softmax"
    )


def _is_plain(convolution: Any) -> bool:
    """Whether kernel, stride and padding with zeros are all there is to a convolution."""
    rest = convolution.groups, convolution.dilation, convolution.padding_mode
    return rest == (1, (1, 1), "zeros") and not isinstance(convolution.padding, str)


def _array(env: Environment, name: str, value: Tensor) -> NDArray[np.float32]:
    found: NDArray[np.float32] = np.ascontiguousarray(value.detach().cpu().numpy())
    if found.dtype != np.float32:
        raise AttributionLabError(f"{env.name}: {name} is of {value.dtype}: export float32")
    return found
