"""What a reference leads to (a method, a network), and strangers' code whose errors become one line."""

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attributionlab.errors import AttributionLabError, nearest

__all__ = ["in_one_line", "located", "place_of", "said"]


def located(reference: str, known: Mapping[str, Any]) -> Any:
    """The object behind ``file.py:name`` or ``module:name``; split from the right (C:\\x.py:name).

    What names no place is refused as an unknown method; `known` are the methods' names for the hint.
    """
    place, _, name = reference.rpartition(":")
    if reference.endswith(".py"):
        raise AttributionLabError(f"{reference!r} names no function: write {reference}:name")
    if not place:
        raise AttributionLabError(
            f"no method named {reference!r}: {nearest(reference, known)} "
            "(or path/to/file.py:name, or module:name)"
        )
    module = _load_file(Path(place)) if place.endswith(".py") else _import(place)
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise AttributionLabError(f"{place} has no {name!r}: {nearest(name, public)}")
    return getattr(module, name)


def _load_file(path: Path) -> Any:
    if not os.path.isfile(path):  # unlike Path.is_file, also answers for impossible names
        raise AttributionLabError(f"no file at {str(path)!r}: check the path")
    # A name of its own: the file may be called like a module that is in use.
    spec = importlib.util.spec_from_file_location(f"attributionlab_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise AttributionLabError(f"{str(path)!r} cannot be loaded as Python: check the file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    folder = str(path.parent)
    sys.path.insert(0, folder)  # its neighbors are found, as when Python runs it
    try:
        with in_one_line(lambda error: f"{path} raised {said(error)} while it was loaded"):
            spec.loader.exec_module(module)
    finally:
        if folder in sys.path:  # the file may have changed the path itself
            sys.path.remove(folder)
    return module


def _import(name: str) -> Any:
    with in_one_line(lambda error: f"module {name!r} cannot be imported: {said(error)}"):
        return importlib.import_module(name)


def said(error: BaseException) -> str:
    """An exception in one line."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # its own __str__ fails
        text = type(error).__name__
    return " ".join(text.split())


def place_of(error: BaseException) -> str:
    """Where it was raised, in parentheses."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


@contextmanager
def in_one_line(describe: Callable[[BaseException], str]) -> Iterator[None]:
    """Run somebody's code; what it raises becomes a refusal, said in one line."""
    try:
        yield
    except (AttributionLabError, KeyboardInterrupt):
        raise
    except BaseException as error:  # an exit of theirs is no verdict of ours
        raise AttributionLabError(describe(error)) from error
