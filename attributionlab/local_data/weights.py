"""The weights of a user's own network, from a file that is read as tensors alone."""

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.references import said
from attributionlab.validation import shown

__all__ = ["load_weights"]

NESTED = ("state_dict", "model_state_dict", "model")
"""Under which training scripts save the state dict beside other things."""
WRAPPERS = ("module.", "_orig_mod.", "model.")
"""What DataParallel, torch.compile and Lightning put in front of every name."""
LISTED = 3
"""How many entries are named; one line has no room for all."""
SAVED = "torch.save(network.state_dict(), 'weights.pt')"
REFUSED_OBJECT = re.compile(r"Unsupported (?:global: GLOBAL|class) (\S+)")
"""How torch names an object that it would have to unpickle."""


def load_weights(network: nn.Module, weights: str | Path) -> None:
    """Give a network the weights from a file; where that fails it is left as it was.

    Parameters
    ----------
    network : torch.nn.Module
        Of the same architecture. Its entries keep their types: others' numbers (float16, float64) are
        converted.
    weights : str or Path
        A safetensors file (``.safetensors``), or one of `torch.save`, which is read with
        ``weights_only=True``: nothing in it is executed. It holds a state dict, or a dict with one
        under "state_dict", "model_state_dict" or "model". A prefix that DataParallel, torch.compile or
        Lightning put in front of all names is left out, unless the network has it itself; and names
        may be those of the only part of the network that has weights, behind a normalization.

    Raises
    ------
    AttributionLabError
        If there is no such file; if it is cut off, of another format, or holds other objects than
        tensors, such as a whole pickled network; if its entries are not those of the network, in
        name, shape and kind; and for weights that are not finite.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import torch
    >>> from attributionlab.local_data.weights import load_weights
    >>> trained, network = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"epoch": 9, "state_dict": trained.state_dict()}, Path(folder) / "w.pt")
    ...     load_weights(network, Path(folder) / "w.pt")
    >>> torch.equal(network.weight, trained.weight)
    True
    """
    if not isinstance(weights, str | os.PathLike):
        raise AttributionLabError(f"the weights are {shown(weights)}: pass the path of a file")
    path = Path(weights)
    if os.path.isdir(path):
        raise AttributionLabError(f"{str(path)!r} is a folder: pass the file of weights in it")
    if not os.path.isfile(path):  # unlike Path.is_file, also answers for impossible names
        raise AttributionLabError(f"no file of weights at {str(path)!r}: check the path")
    read = _safetensors if path.suffix == ".safetensors" else _torch_file
    state = _without_wrappers(_state_dict(read(path), path), network)
    network = _owner(network, state)
    entries = network.state_dict()
    refuse_if(_misfits(state, entries), repr(str(path)))
    with _left_as_it_was(entries):
        try:
            missing, unexpected = network.load_state_dict(state, strict=False)
        except RuntimeError as error:
            raise AttributionLabError(
                f"{str(path)!r} does not fit the network ({said(error)}): pass the weights of this one"
            ) from error
        refuse_if(_unmatched(missing, unexpected), repr(str(path)))
        refuse_if(_not_finite(network), repr(str(path)))


def _torch_file(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what is refused below anyway
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch, pickle and zipfile each have exceptions of their own
        if found := REFUSED_OBJECT.search(str(error)):
            raise AttributionLabError(
                f"{str(path)!r} holds an object {found[1]}, such as a whole network does, and nothing "
                f"is unpickled here: load it where it was made and save its state dict by {SAVED}"
            ) from error
        if "TorchScript" in str(error):
            raise AttributionLabError(
                f"{str(path)!r} is a TorchScript archive: save the network's state dict by {SAVED}"
            ) from error
        raise AttributionLabError(
            f"{str(path)!r} is cut off or no file of torch.save ({type(error).__name__}): save a state "
            f"dict by {SAVED}, or pass a .safetensors file"
        ) from error


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except Exception as error:  # Rust's errors have a class of their own
        raise AttributionLabError(
            f"{str(path)!r} is cut off or no safetensors file ({said(error)}): save it again, or give "
            "a file of torch.save another ending, such as .pt"
        ) from error


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    """The tensors by name in what a file holds."""
    if isinstance(content, Mapping):
        for name in NESTED:
            if isinstance(content.get(name), Mapping):
                content = content[name]
                break
    if not isinstance(content, dict):
        raise AttributionLabError(
            f"{str(path)!r} holds something {shown(content)} and no state dict: save one by {SAVED}"
        )
    if not content:
        raise AttributionLabError(
            f"{str(path)!r} holds an empty dict: save a state dict by {SAVED}"
        )
    others = [key for key, value in content.items() if not isinstance(value, Tensor)]
    if others:
        raise AttributionLabError(
            f"{str(path)!r} holds no state dict: of its entries {_listed(others)} "
            f"{'is no tensor' if len(others) == 1 else 'are no tensors'}; save a state dict by {SAVED}"
        )
    return content


def _without_wrappers(state: dict[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
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


def _owner(network: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    """The network, or the only module in it that has entries, where the names are that module's.

    So published weights fit a network behind layers of its own, such as a normalization.
    """
    own = network.state_dict().keys()
    first = {name.partition(".")[0] for name in own}
    if len(first) == 1 and not own & state.keys():
        inner = getattr(network, first.pop(), None)
        if isinstance(inner, nn.Module):
            found = _owner(inner, state)
            if found.state_dict().keys() & state.keys():
                return found
    return network


def _misfits(state: Mapping[str, Tensor], entries: Mapping[str, Any]) -> list[str]:
    """Entries that both have, but in another shape or kind."""
    shapes, kinds = [], []
    for name, value in state.items():
        own = entries.get(name)
        if not isinstance(own, Tensor):
            continue
        if value.shape != own.shape:
            shapes.append(f"{name} {_by(value)} for {_by(own)}")
        elif own.is_floating_point() and not value.is_floating_point():
            kinds.append(f"{name} {value.dtype} for {own.dtype}")
    differing = (
        ("shapes", shapes, "pass its own weights"),
        ("types", kinds, "pass floating-point numbers"),
    )
    return [
        f"{what} differ from the network's: {_listed(found)}; {remedy}"
        for what, found, remedy in differing
        if found
    ]


def _unmatched(missing: Sequence[str], unexpected: Sequence[str]) -> list[str]:
    """Entries that one has and the other lacks."""
    sides = (("lacks", missing), ("has beside those of the network", unexpected))
    problems = [f"it {verb} {_listed(names)}" for verb, names in sides if names]
    if problems:
        problems[-1] += "; pass the weights of this network"
    return problems


def _not_finite(network: nn.Module) -> list[str]:
    """Weights that are NaN or infinite. A buffer may hold infinities, as masks of attention do."""
    broken = [name for name, value in network.named_parameters() if not value.isfinite().all()]
    broken += [name for name, value in network.named_buffers() if value.isnan().any()]
    if not broken:
        return []
    return [f"not all weights are finite: {_listed(broken)}; take the file of an earlier epoch"]


@contextmanager
def _left_as_it_was(entries: Mapping[str, Any]) -> Iterator[None]:
    """Put tensors back where something is refused."""
    before = {name: value.clone() for name, value in entries.items() if isinstance(value, Tensor)}
    try:
        yield
    except BaseException:
        for name, value in before.items():
            entries[name].copy_(value)
        raise


def _by(value: Tensor) -> str:
    return " x ".join(map(str, value.shape)) or "(a number)"


def _listed(names: Sequence[Any]) -> str:
    """The first few, and how many there are."""
    more = f" ... ({len(names)} in all)" if len(names) > LISTED else ""
    return ", ".join(map(str, names[:LISTED])) + more
