"""The layer of a network that a map-based method attaches to, and what passes through it."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, nearest


def find_layer(
    model: nn.Module, name: str | float | None, layers: Mapping[str, nn.Module] | None, key: str
) -> nn.Module:
    """The module to attach to: the one named, or else that of the environment.

    Parameters
    ----------
    model : nn.Module
        The network.
    name : str, optional
        A dotted name in the model, or the end of one that no other module shares: "accumulator.5" also
        finds "0.accumulator.5", its place in the same network with a softmax behind it. 4 is "4", as
        modules of a sequence are called.
    layers : mapping of str to nn.Module, optional
        The environment's layers.
    key : str
        Which of them is meant without a name.

    Raises
    ------
    AttributionLabError
        If there is no such module, or several.
    """
    named: dict[str, nn.Module] = {path: module for path, module in model.named_modules() if path}
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if name is not None:
        fitting = [path for path in named if path == name or path.endswith(f".{name}")]
        if name in named:
            return named[name]
        if len(fitting) == 1:
            return named[fitting[0]]
        remedy = f"it is one of {', '.join(fitting)}" if fitting else nearest(str(name), named)
        if isinstance(name, float):  # 1.30 is 1.3
            remedy = "write it as text, such as \"layer='1.30'\" at the shell"
        raise AttributionLabError(f"layer is {name!r}, which names no module: {remedy}")
    module = (layers or {}).get(key)
    if not any(module is own for own in named.values()):
        raise AttributionLabError(
            f"the model has no layer {key!r} of its own: name one as `layer`, for instance "
            f"{next(iter(named), None)!r}"
        )
    assert module is not None  # it is one of the model's
    return module


def observe(
    model: nn.Module, layer: nn.Module, inputs: Float[Tensor, "batch channels height width"]
) -> tuple[Float[Tensor, "batch maps rows columns"], Float[Tensor, "batch outputs"]]:
    """What a layer and the whole network return, without gradients.

    Raises
    ------
    AttributionLabError
        If the layer does not run exactly once, or returns no maps.
    """
    with torch.no_grad():
        return returned(model, layer, inputs)


def returned(
    model: nn.Module, layer: nn.Module, inputs: Float[Tensor, "batch channels height width"]
) -> tuple[Float[Tensor, "batch maps rows columns"], Float[Tensor, "batch outputs"]]:
    """What a layer and the whole network return, with gradients where they are enabled (`observe`)."""
    seen: list[object] = []

    def keep(_module: nn.Module, _inputs: object, output: object) -> None:
        # A clone, because what follows may work in place.
        seen.append(output.clone() if isinstance(output, Tensor) else output)

    handle = layer.register_forward_hook(keep)
    try:
        outputs = model(inputs)
    finally:
        handle.remove()
    return only_maps(seen), outputs


def only_maps(returned: Sequence[object]) -> Float[Tensor, "batch maps rows columns"]:
    """The maps of a layer that must have run once, from what it returned in each of its runs.

    Raises
    ------
    AttributionLabError
        If it did not run exactly once, or returned no maps.
    """
    if len(returned) != 1:
        raise AttributionLabError(
            f"the layer runs {len(returned)} times in a pass: name one that runs once"
        )
    [maps] = returned
    if not isinstance(maps, Tensor) or maps.ndim != 4:
        shape = tuple(getattr(maps, "shape", ()))
        raise AttributionLabError(
            f"the layer returns shape {shape}: name one that returns maps (B, C, h, w)"
        )
    return maps


def refuse_single_cell(maps: Float[Tensor, "batch maps rows columns"], who: str) -> None:
    """Refuse maps of 1 x 1 cells, which enlarged would be one value for all pixels."""
    if maps.shape[2:].numel() == 1:
        raise AttributionLabError(
            f"{who}: the layer's maps have a single cell, 1 x 1, which says nothing of places: "
            "name a layer before it"
        )


def resume(
    model: nn.Module,
    layer: nn.Module,
    inputs: Float[Tensor, "1 channels height width"],
    maps: Float[Tensor, "batch maps rows columns"],
) -> Float[Tensor, "batch outputs"]:
    """What a network returns for an image if a layer returns these maps instead of its own.

    In a chain of modules only those behind the layer run. In any other network all of it runs, once
    for each of the maps, because the layer's may not be the only way through.
    """
    maps = maps.clone()  # what follows may work in place
    chain = _chain(model)
    for index, module in enumerate(chain):
        if module is layer:
            for following in chain[index + 1 :]:
                maps = following(maps)
            return maps
    handle = layer.register_forward_hook(lambda *_: maps)
    try:
        outputs: Tensor = model(inputs.expand(len(maps), -1, -1, -1))
    finally:
        handle.remove()
    return outputs


def _chain(module: nn.Module) -> list[nn.Module]:
    """The modules that run one after the other; one alone if it is no `nn.Sequential`."""
    if type(module) is not nn.Sequential:
        return [module]
    return [link for child in module for link in _chain(child)]
