"""What a reference leads to (method, network, maps); errors of strangers' code become one line."""

import difflib
import importlib
import importlib.util
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from attributionlab.base.errors import AttributionLabError, nearest
from attributionlab.base.signatures import public, refuse_missing, syntax_of
from attributionlab.base.sources import heard

NUMPY_FILES, TORCH_FILES = (".npy", ".npz"), (".pt", ".pth")
SAFETENSORS, NAMELESS = ".safetensors", "maps"
"""A file in which every array has a name, and what the only one of a file is called there."""
LONGEST_TEXT = 1000
"""Characters of an exception in a message: an error of torch's is rarely longer."""
USERS = "attributionlab_user_"
"""Begins the names of modules that are users' files."""
NOT_THE_USERS = {__name__.partition(".")[0], "numpy", "torch", *sys.stdlib_module_names}
"""Top-level packages in which no method of a user's lies."""


def located(reference: str, known: Mapping[str, Any]) -> Any:
    """The object behind ``file.py:name`` or ``module:name``; split from the right (C:\\x.py:name).

    Behind ``file.npy``, ``.npz``, ``.pt``, ``.pth`` and ``.safetensors`` are the arrays that it holds,
    one or several by name; nothing is unpickled.

    What names no place is refused as an unknown method; `known` are the methods' names for the hint.
    """
    place, _, name = reference.rpartition(":")
    if Path(reference).suffix in (*NUMPY_FILES, *TORCH_FILES, SAFETENSORS):
        return _load_maps(Path(reference))
    if reference.endswith(".py"):
        refuse_missing(Path(reference))
        found = public(syntax_of(Path(reference)) or [])
        defined = f"; it defines {', '.join(found)}" if found else ""
        raise AttributionLabError(
            f"{reference!r} does not name a function: write {reference}:{[*found, 'name'][0]}{defined}"
        )
    if not place:
        raise AttributionLabError(f"no method named {reference!r}: {_meant(reference, known)}")
    module = load_file(Path(place)) if place.endswith(".py") else _import(place)
    if not hasattr(module, name):
        there = [
            key
            for key, value in vars(module).items()
            if not (key.startswith("_") or isinstance(value, ModuleType))
        ]
        raise AttributionLabError(f"{place} has no {name!r}: {nearest(name, there)}")
    return getattr(module, name)


def _meant(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the built-in one most like it, or a file that has been forgotten."""
    others = "module:name, or a file of maps: .npy, .npz, .pt, .safetensors"
    if difflib.get_close_matches(name, known, n=1):
        return f"{nearest(name, known)} (or path/to/file.py:name, {others})"
    few = ", ".join(difflib.get_close_matches(name, known, n=3, cutoff=0))
    own = f"write path/to/file.py:{name} if it is yours (or {others})"
    return own + f"; built-in are {few}, and others: see attributionlab list" * bool(few)


def _load_maps(path: Path) -> Any:
    """The array in a file, or its arrays by name."""
    import numpy as np
    import torch

    refuse_missing(path)
    remedy = "save one by numpy.save or torch.save, or a dict of them by environment"
    with in_one_line(
        lambda error: f"{str(path)!r} holds no array ({format_error(error)}): {remedy}"
    ):
        if path.suffix == SAFETENSORS:
            from safetensors.torch import load_file as tensors_of

            maps: Any = tensors_of(path)
            if [*maps] == [NAMELESS]:
                maps = maps[NAMELESS]
        elif path.suffix in TORCH_FILES:
            maps = tensors_in(path)
        else:
            maps = np.load(path, allow_pickle=False)
        if isinstance(maps, np.lib.npyio.NpzFile):
            with maps:
                maps = dict(maps)
    arrays = list(maps.values()) if isinstance(maps, Mapping) else [maps]
    if not arrays or not all(isinstance(each, np.ndarray | torch.Tensor) for each in arrays):
        kinds = ", ".join(dict.fromkeys(type(each).__name__ for each in arrays)) or "nothing"
        raise AttributionLabError(f"{str(path)!r} holds {kinds}, not an array: {remedy}")
    return maps


def tensors_in(path: Path) -> Any:
    """What a file of `torch.save` holds, on the CPU; nothing in it is executed."""
    import torch

    with warnings.catch_warnings():
        # What torch before 2.6 says before it runs the code in such an archive, weights_only or not.
        warnings.filterwarnings("error", ".*looks like a TorchScript archive")
        return torch.load(path, map_location="cpu", weights_only=True)


def loaded_files() -> dict[str, str]:
    """The user's files that have been loaded, by the names of their modules."""
    return {
        name: str(module.__file__)
        for name, module in list(sys.modules.items())
        if name.startswith(USERS)
    }


def load_file(path: Path) -> Any:
    """Run a user's file as a module."""
    refuse_missing(path)
    # A name of its own: the file may be called like a module that is in use.
    spec = importlib.util.spec_from_file_location(f"{USERS}{path.stem}", path)
    if spec is None or spec.loader is None:
        raise AttributionLabError(f"{str(path)!r} cannot be loaded as Python: check the file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    folder = str(path.parent)
    sys.path.insert(0, folder)  # its neighbors are found, as when Python runs it
    try:
        with in_one_line(
            lambda error: (
                f"{path} raised {format_error(error)} while it was loaded{place_of(error)}"
            )
        ):
            heard(partial(spec.loader.exec_module, module))
    except BaseException:  # it is not loaded: no other process shall try it
        sys.modules.pop(spec.name, None)
        raise
    finally:
        if folder in sys.path:  # the file may have changed the path itself
            sys.path.remove(folder)
    return module


def _import(name: str) -> Any:
    with in_one_line(lambda error: f"module {name!r} cannot be imported: {format_error(error)}"):
        return heard(partial(importlib.import_module, name))


def format_error(error: BaseException) -> str:
    """An exception in one line, of which the beginning where it is long."""
    try:
        text = f"{type(error).__name__}: {error}"
    except KeyboardInterrupt:
        raise
    except BaseException:  # its own __str__ fails, or exits
        text = type(error).__name__
    line = " ".join(text.split())
    left_out = len(line) - LONGEST_TEXT
    return f"{line[:LONGEST_TEXT]} ... ({left_out:,} characters more)" if left_out > 0 else line


def place_of(error: BaseException) -> str:
    """The deepest line of the user's own code that led to an error, in parentheses; without any, the
    deepest line in NumPy or torch.
    """
    frames = [
        (str(frame.f_globals.get("__name__")).partition(".")[0], frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    called = next((package for package, *_ in frames if package not in NOT_THE_USERS), None)
    users = [
        frame
        for frame in frames
        if frame[0] == called or (frame[0] not in NOT_THE_USERS and not _installed(frame[1]))
    ]
    named = users or [frame for frame in frames if frame[0] in ("numpy", "torch")]
    if not named:
        return ""
    _, file, line = named[-1]
    return f" ({Path(file).name}, line {line})"


def _installed(file: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


@contextmanager
def in_one_line(describe: Callable[[BaseException], str]) -> Iterator[None]:
    """Run somebody's code; what it raises becomes a refusal, said in one line."""
    try:
        yield
    except (AttributionLabError, KeyboardInterrupt):
        raise
    except BaseException as error:  # an exit of theirs is no verdict of ours
        raise AttributionLabError(describe(error)) from error
