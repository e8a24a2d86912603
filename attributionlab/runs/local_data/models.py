"""A user's own network, by the file that makes it."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    format_error,
    in_one_line,
    located,
    place_of,
    shown,
)
from attributionlab.runs.local_data.weights import load_weights


def local_model(reference: str | Path, weights: str | Path | None = None) -> nn.Module:
    """The network behind ``path/to/file.py:name``, in eval mode, with the weights from a file.

    `reference`: a file of Python, a colon, and the name of a network in it, or of what returns one when
    it is called without arguments. ``module:name`` works too. What goes before the first layer, such as
    a mean to subtract, is the file's business: images come in [0, 1]. `weights`: a safetensors file, or
    a state dict that `torch.save` wrote (`load_weights`). Without it the weights are those that the
    file of Python gives the network.

    Result: it works on a copy of what it gets, so that one that works in place leaves the caller's
    images as they are; one of torch.jit, which may take no hooks, works on the images themselves.
    Raises AttributionLabError if there is no such file or name, if it raises, if what it gives is no
    network, or one that stays in training mode; and for weights that cannot be read or are another
    network's.
    """
    if not isinstance(reference, str | Path):
        raise AttributionLabError(
            f"the reference is {shown(reference)}: write path/to/file.py:name"
        )
    reference = str(reference)
    file = reference if reference.endswith(".py") else "path/to/file.py"
    if file == reference or not reference.rpartition(":")[0]:
        raise AttributionLabError(f"no network named in {reference!r}: write {file}:name")
    with torch.random.fork_rng(devices=[]):  # weights that are drawn before others are loaded
        model = _network(reference)
    if weights is not None:
        load_weights(model, weights)
    with in_one_line(
        lambda error: f"{reference} raised {format_error(error)} in eval(){place_of(error)}"
    ):
        model.eval()
    if any(module.training for module in model.modules()):
        raise AttributionLabError(
            f"{reference} stays in training mode, or a part of it does: let train(mode) set it"
        )
    if not isinstance(model, torch.jit.ScriptModule):
        model.register_forward_pre_hook(_copied)
    return model


def _copied(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(each.clone() if isinstance(each, Tensor) else each for each in inputs)


def _network(reference: str) -> nn.Module:
    model: Any = located(reference, {})
    if not isinstance(model, nn.Module):
        if not callable(model):
            raise AttributionLabError(
                f"{reference} is {shown(model)}: name a torch.nn.Module, or what returns one"
            )
        with in_one_line(
            lambda error: f"{reference} raised {format_error(error)}{place_of(error)}"
        ):
            model = model()
        if not isinstance(model, nn.Module):
            raise AttributionLabError(
                f"{reference} returned something {shown(model)}: return a torch.nn.Module"
            )
    return model
