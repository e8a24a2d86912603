"""A user's own network, by the file that makes it."""

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

from attributionlab.base import (
    AttributionLabError,
    format_error,
    in_one_line,
    located,
    place_of,
    refuse_if,
    shown,
    tensors_in,
)


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
                f"{reference} is {shown(model)}: name a torch.nn.Module, or a function that returns one"
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


NESTED = ("state_dict", "model_state_dict", "model")
"""Under which training scripts save the state dict beside other things."""
WRAPPERS = ("module.", "_orig_mod.", "model.")
"""What DataParallel, torch.compile and Lightning put in front of every name."""
LISTED = 3
"""How many entries are named; one line has no room for all."""
SAVED = "torch.save(network.state_dict(), 'weights.pt')"
REFUSED_OBJECT = re.compile(
    r"(?:Unsupported global: GLOBAL|Unsupported class|unsupported GLOBAL) (\S+)"
)
"""How torch names an object that it would have to unpickle."""
PICKLED = re.compile(rb"\x80[\x02-\x05](?!\x8a\x0a)..", re.DOTALL)
"""How a pickle starts; in a file of torch.save of old a number of ten bytes follows."""
OWN_STATE = "_extra_state"
"""The last part of the name under which a module saves what is beside its tensors."""
VARIANCE = "running_var"
STATISTICS = ("running_mean", VARIANCE)
"""Buffers of batch normalization, in which infinities have no use."""


def load_weights(network: nn.Module, weights: str | Path) -> None:
    """Give a network the weights from a file; where that fails it is left as it was.

    What is left are its tensors, and what `get_extra_state` of its modules gives.

    `network`: a network of the same architecture. Its entries keep their types: numbers of other types
    (float16, float64) are converted. `weights`: a safetensors file (``.safetensors``), or one of
    `torch.save`, which is read with ``weights_only=True``: nothing in it is executed. It holds a state
    dict, or a dict with one under "state_dict", "model_state_dict" or "model". A prefix that
    DataParallel, torch.compile or Lightning put in front of all names is left out, unless the network
    has it itself; and names may be those of the only part of the network that has parameters, behind a
    normalization, whose buffers stay as they are. Of a parameter with several names, one is enough.

    Raises AttributionLabError if there is no such file; if it is cut off, of another format, or holds
    other objects than tensors, such as a whole pickled network; if its entries are not those of the
    network, in name, shape and kind (numbers that its integers cannot hold), or differ where the
    network has one parameter; and for weights that are not finite, and variances that are negative.
    """
    if not isinstance(weights, str | os.PathLike):
        raise AttributionLabError(f"the weights are {shown(weights)}: pass the path of a file")
    if not isinstance(network, nn.Module):
        raise AttributionLabError(f"the network is {shown(network)}: pass a torch.nn.Module")
    path = Path(weights)
    if os.path.isdir(path):
        raise AttributionLabError(f"{str(path)!r} is a folder: pass the file of weights in it")
    if not os.path.isfile(path):  # unlike Path.is_file, also answers for impossible names
        raise AttributionLabError(f"no file of weights at {str(path)!r}: check the path")
    read = _safetensors if path.suffix == ".safetensors" else _torch_file
    state = _without_wrappers(_state_dict(read(path), path), network)
    network = _owner(network, state)
    entries, ties = network.state_dict(), _ties(network)
    refuse_if([*_misfits(state, entries), *_torn(state, ties)], repr(str(path)))
    with _left_as_it_was(network):
        with in_one_line(
            lambda error: (
                f"{str(path)!r} does not fit the network ({format_error(error)}): pass the weights of "
                "this one"
            )
        ):
            missing, unexpected = network.load_state_dict(state, strict=False)
        missing = [name for name in missing if not state.keys() & ties.get(name, [])]
        refuse_if(_unmatched(missing, unexpected), repr(str(path)))
        refuse_if(_no_numbers(network), repr(str(path)))


def _torch_file(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what is refused below anyway
            return tensors_in(path)
    except Exception as error:  # torch, pickle and zipfile each have exceptions of their own
        if found := REFUSED_OBJECT.search(str(error)):
            raise AttributionLabError(
                f"{str(path)!r} holds a pickled object {found[1]}, as a whole network is, and files "
                f"are never unpickled: load it where it was made and save its state dict by {SAVED}"
            ) from error
        with path.open("rb") as file:
            pickled = PICKLED.match(file.read(4))
        if pickled:
            raise AttributionLabError(
                f"{str(path)!r} is a pickled object, not one of torch.save, and files "
                f"are never unpickled: load it where it was made and save a state dict by {SAVED}"
            ) from error
        if "TorchScript" in str(error):
            raise AttributionLabError(
                f"{str(path)!r} is a TorchScript archive: save the network's state dict by {SAVED}"
            ) from error
        raise AttributionLabError(
            f"{str(path)!r} is truncated or not a file of torch.save ({type(error).__name__}): "
            f"save a state dict by {SAVED}, or pass a .safetensors file"
        ) from error


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except Exception as error:  # Rust's errors have a class of their own
        raise AttributionLabError(
            f"{str(path)!r} is truncated or not a safetensors file ({format_error(error)}): save "
            "it again, or give a file of torch.save another ending, such as .pt"
        ) from error


def _state_dict(content: Any, path: Path) -> dict[str, Any]:
    """The tensors, and modules' own states, by name in what a file holds."""
    if isinstance(content, Mapping):
        for name in NESTED:
            if isinstance(content.get(name), Mapping):
                content = content[name]
                break
    if not isinstance(content, dict):
        raise AttributionLabError(
            f"{str(path)!r} holds {shown(content)}, not a state dict: save one by {SAVED}"
        )
    if not content:
        raise AttributionLabError(
            f"{str(path)!r} holds an empty dict: save a state dict by {SAVED}"
        )
    if unnamed := [key for key in content if not isinstance(key, str)]:
        raise AttributionLabError(
            f"{str(path)!r} does not hold a state dict: of its names {_listed(unnamed)} "
            f"{'is' if len(unnamed) == 1 else 'are'} not text; save a state dict by {SAVED}"
        )
    others = [
        key
        for key, value in content.items()
        if not isinstance(value, Tensor) and not key.endswith(OWN_STATE)
    ]
    if others:
        raise AttributionLabError(
            f"{str(path)!r} does not hold a state dict: of its entries {_listed(others)} "
            f"{'is not a tensor' if len(others) == 1 else 'are not tensors'}; save a state dict "
            f"by {SAVED}"
        )
    return content


def _without_wrappers(state: dict[str, Any], network: nn.Module) -> dict[str, Any]:
    """Names as the network has them, where a wrapper's prefix is in front of all."""
    own = network.state_dict().keys()
    while prefix := next(
        (
            prefix
            for prefix in WRAPPERS
            if all(name.startswith(prefix) for name in state)
            and not any(name.startswith(prefix) for name in own)
        ),
        None,
    ):
        # Also renames the metadata, by which layers know how old a state dict is.
        consume_prefix_in_state_dict_if_present(state, prefix)
    return state


def _owner(network: nn.Module, state: Mapping[str, Any]) -> nn.Module:
    """The network, or the only module in it that has parameters, where the names are that module's.

    So published weights fit a network behind layers of its own, such as a normalization.
    """
    own = network.state_dict().keys()
    first = {name.partition(".")[0] for name, _ in network.named_parameters(remove_duplicate=False)}
    if len(first) == 1 and not own & state.keys():
        inner = getattr(network, first.pop(), None)
        if isinstance(inner, nn.Module):
            found = _owner(inner, state)
            if found.state_dict().keys() & state.keys():
                return found
    return network


def _ties(network: nn.Module) -> dict[str, list[str]]:
    """By its name, all names of an entry that has several."""
    entries = network.state_dict(keep_vars=True)
    names: dict[int, list[str]] = {}
    for name, value in entries.items():
        if not name.endswith(OWN_STATE):
            names.setdefault(id(value), []).append(name)
    return {name: each for each in names.values() if len(each) > 1 for name in each}


def _misfits(state: Mapping[str, Any], entries: Mapping[str, Any]) -> list[str]:
    """Entries that both have, but in another shape or kind."""
    shapes, kinds = [], []
    for name, value in state.items():
        own = entries.get(name)
        if not isinstance(own, Tensor) or name.endswith(OWN_STATE):
            continue
        if value.shape != own.shape:
            shapes.append(f"{name} {_by(value)} for {_by(own)}")
        elif not _convertible(value, own):
            kinds.append(f"{name} {value.dtype} for {own.dtype}")
    differing = (
        ("shapes", shapes, "pass its own weights"),
        ("types", kinds, "pass numbers that the network's types can hold"),
    )
    return [
        f"{what} differ from the network's: {_listed(found)}; {remedy}"
        for what, found, remedy in differing
        if found
    ]


def _convertible(value: Tensor, own: Tensor) -> bool:
    """Real numbers become any real ones, rounded; integers and bools must stay what they are."""
    if own.is_floating_point() or own.is_complex() or value.is_complex():
        return (value.is_floating_point(), value.is_complex()) == (
            own.is_floating_point(),
            own.is_complex(),
        )
    return torch.equal(value.to(own.dtype).to(value.dtype), value)


def _torn(state: Mapping[str, Any], ties: Mapping[str, Sequence[str]]) -> list[str]:
    """Entries that differ in the file and are one in the network, which would keep the last."""
    for names in ties.values():
        first, *others = [name for name in names if name in state] or [""]
        for other in others:
            if not torch.equal(state[first].double(), state[other].double()):
                return [
                    f"{_listed([first])} and {_listed([other])} are one in the network and differ in "
                    "the file; pass the weights of this network"
                ]
    return []


def _unmatched(missing: Sequence[str], unexpected: Sequence[str]) -> list[str]:
    """Entries that one has and the other lacks."""
    sides = (("lacks", missing), ("has beside those of the network", unexpected))
    problems = [f"it {verb} {_listed(names)}" for verb, names in sides if names]
    if problems:
        problems[-1] += "; pass the weights of this network"
    return problems


def _no_numbers(network: nn.Module) -> list[str]:
    """Weights that are NaN or infinite. A buffer may hold infinities, as masks of attention do."""
    buffers = dict(network.named_buffers())
    broken = [name for name, value in network.named_parameters() if not value.isfinite().all()]
    broken += [
        name
        for name, value in buffers.items()
        if not (value.isfinite() if name.endswith(STATISTICS) else ~value.isnan()).all()
    ]
    negative = [
        name for name, value in buffers.items() if name.endswith(VARIANCE) and (value < 0).any()
    ]
    found = (("not all weights are finite", broken), ("a variance is negative", negative))
    return [
        f"{what}: {_listed(names)}; take the file of an earlier epoch"
        for what, names in found
        if names
    ]


@contextmanager
def _left_as_it_was(network: nn.Module) -> Iterator[None]:
    """Put tensors, and modules' own states, back where something is refused."""
    entries = network.state_dict()
    before = {
        name: value.clone()
        for name, value in entries.items()
        if isinstance(value, Tensor) and not name.endswith(OWN_STATE)
    }
    states = [
        (module, deepcopy(module.get_extra_state()))
        for module in network.modules()
        if _overridden(module, "get_extra_state") and _overridden(module, "set_extra_state")
    ]
    try:
        yield
    except BaseException:
        for name, value in before.items():
            entries[name].copy_(value)
        for module, state in states:
            module.set_extra_state(state)
        raise


def _overridden(module: nn.Module, name: str) -> bool:
    return getattr(type(module), name) is not getattr(nn.Module, name)


def _by(value: Tensor) -> str:
    return " x ".join(map(str, value.shape)) or "(a number)"


def _listed(names: Sequence[Any]) -> str:
    """The first few, and how many there are."""
    more = f" ... ({len(names)} in all)" if len(names) > LISTED else ""
    texts = map(str, names[:LISTED])
    return ", ".join(text if text.isprintable() else repr(text) for text in texts) + more
