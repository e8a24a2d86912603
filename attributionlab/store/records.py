"""Results as JSON and arrays, and back, without pickle.

A record is a tree of JSON beside a table of arrays. What JSON lacks is an object with a key that begins
with "$". A class is written as its name and fields, and made again by its constructor: only
dataclasses and named tuples of this package, so that a file from a stranger runs no code of theirs.
"""

import dataclasses
import io
import json
import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from attributionlab.errors import AttributionLabError

PACKAGE = __name__.partition(".")[0]
UNREADABLE = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, ImportError, SafetensorError),
)
"""What a record of another version, or a damaged one, may raise."""


class Record(NamedTuple):
    """A result as it is kept."""

    text: str
    """JSON"""
    data: bytes | None = b""
    """the arrays that it refers to by name, as safetensors; empty without any; None where they were
    left where they are"""


class _Absent(dict[str, Tensor]):
    """Stands for arrays that were not read: each is empty."""

    def __missing__(self, name: str) -> Tensor:
        return torch.empty(0)


class Unreadable:
    """Stands for an object of a user's settings that cannot be kept: it knows how that was written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def record_of(value: Any) -> Record:
    """Write a result down.

    Parameters
    ----------
    value : object
        Numbers, texts, None, lists, tuples, sets, mappings, arrays, tensors, tables of pandas, and
        dataclasses and named tuples of this package, in each other. Anything else comes back as an
        `Unreadable` that is written as it was.

    Examples
    --------
    >>> from attributionlab.store.records import record_of, value_of
    >>> value_of(record_of({"f1": (0.5, float("inf")), 3: None}))
    {'f1': (0.5, inf), 3: None}
    """
    arrays: dict[str, Tensor] = {}
    text = json.dumps(_written(value, arrays), separators=(",", ":"))
    return Record(text, safetensors.torch.save(arrays) if arrays else b"")


def value_of(record: Record) -> Any:
    """Make a result again out of what `record_of` wrote.

    Raises
    ------
    AttributionLabError
        For a record that names a class which this package does not have, or that has other fields.
    """
    try:
        arrays: Mapping[str, Tensor] = _Absent()
        if record.data is not None:
            arrays = safetensors.torch.load(record.data) if record.data else {}
        return _read(json.loads(record.text), arrays)
    except UNREADABLE as error:
        if isinstance(error, AttributionLabError):
            raise
        raise AttributionLabError(
            f"a stored result cannot be read ({type(error).__name__}: {error}): compute it again"
        ) from error


def _written(value: Any, arrays: dict[str, Tensor]) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if type(value) is list:
        return [_written(each, arrays) for each in value]
    if isinstance(value, Mapping):
        return _written_mapping(value, arrays)
    if isinstance(value, np.ndarray | np.generic | Tensor) or type(value).__name__ == "DataFrame":
        return _written_array(value, arrays)
    if (dataclasses.is_dataclass(value) or hasattr(value, "_fields")) and _own(type(value)):
        return _written_object(value, arrays)
    if type(value) in (tuple, set, frozenset):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return {f"${type(value).__name__}": [_written(each, arrays) for each in items]}
    if isinstance(value, PurePath):
        return {"$repr": repr(str(value))}
    return {"$repr": _text_of(value)}


def _text_of(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # of somebody's own __repr__
        return f"<{type(value).__name__}>"


def _written_mapping(value: Mapping[Any, Any], arrays: dict[str, Tensor]) -> Any:
    plain = all(type(key) is str and not key.startswith("$") for key in value)
    if plain:
        return {key: _written(each, arrays) for key, each in value.items()}
    pairs = [[_written(key, arrays), _written(each, arrays)] for key, each in value.items()]
    return {"$dict": pairs}


def _written_array(value: Any, arrays: dict[str, Tensor]) -> Any:
    name = str(len(arrays))
    if isinstance(value, Tensor):
        # A tensor that shares memory with another one, or is a view, is kept as one of its own.
        arrays[name] = value.detach().cpu().contiguous().clone()
        return {"$tensor": name}
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            return {
                "$objects": [_written(each, arrays) for each in array.ravel().tolist()],
                "shape": list(array.shape),
                "dtype": array.dtype.str,
            }
        arrays[name] = torch.from_numpy(array.copy())
        return {"$scalar" if isinstance(value, np.generic) else "$array": name}
    buffer = io.BytesIO()
    value.to_parquet(buffer)
    arrays[name] = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
    return {"$table": name}


def _written_object(value: Any, arrays: dict[str, Tensor]) -> Any:
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.init]
    else:
        names = list(value._fields)
    fields = {name: _written(getattr(value, name), arrays) for name in names}
    return {"$class": f"{kind.__module__}:{kind.__qualname__}", "fields": fields}


def _own(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == PACKAGE


def _read(tree: Any, arrays: Mapping[str, Tensor]) -> Any:
    if isinstance(tree, list):
        return [_read(each, arrays) for each in tree]
    if not isinstance(tree, dict):
        return tree
    tag = next(iter(tree), "")
    if not tag.startswith("$"):
        return {key: _read(each, arrays) for key, each in tree.items()}
    return READERS[tag](tree[tag], tree, arrays)


def _read_object(name: str, tree: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Any:
    module, _, qualified = name.partition(":")
    kind: Any = import_module(module) if module.partition(".")[0] == PACKAGE else None
    for part in qualified.split("."):
        kind = getattr(kind, part)
    if not (isinstance(kind, type) and _own(kind)) or not (
        dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")
    ):
        raise TypeError(f"{name} is no dataclass or named tuple of {PACKAGE}")
    return kind(**{key: _read(each, arrays) for key, each in tree["fields"].items()})


def _read_table(name: str, tree: Any, arrays: Mapping[str, Tensor]) -> Any:
    import pandas as pd

    return pd.read_parquet(io.BytesIO(arrays[name].numpy().tobytes()))


def _read_objects(items: Any, tree: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Any:
    found = np.empty(len(items), dtype=object)
    found[:] = [_read(each, arrays) for each in items]
    return found.astype(np.dtype(tree["dtype"])).reshape(tree["shape"])


READERS: Mapping[str, Any] = MappingProxyType(
    {
        "$float": lambda text, tree, arrays: float(text),
        "$tuple": lambda items, tree, arrays: tuple(_read(items, arrays)),
        "$set": lambda items, tree, arrays: set(_read(items, arrays)),
        "$frozenset": lambda items, tree, arrays: frozenset(_read(items, arrays)),
        "$dict": lambda pairs, tree, arrays: {
            _read(key, arrays): _read(each, arrays) for key, each in pairs
        },
        "$repr": lambda text, tree, arrays: Unreadable(text),
        "$tensor": lambda name, tree, arrays: arrays[name].clone(),
        "$array": lambda name, tree, arrays: arrays[name].numpy().copy(),
        "$scalar": lambda name, tree, arrays: arrays[name].numpy()[()],
        "$objects": _read_objects,
        "$table": _read_table,
        "$class": _read_object,
    }
)
"""How each thing that JSON lacks is read."""
