"""What becomes of a cell, its result or its error, and results as JSON and arrays, without pickle.

A record is a tree of JSON beside a table of arrays. What JSON lacks is an object with a key that begins
with "$". A class is written as its name and fields, and made again by its constructor: only
dataclasses and named tuples of this package, so that a file from a stranger runs no code of theirs.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from attributionlab.base import AttributionLabError, Read

PACKAGE = __name__.partition(".")[0]
UNREADABLE = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, ImportError, SafetensorError),
    *(RecursionError, MemoryError, OverflowError),
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

    `value`: numbers, texts, bytes, None, lists, tuples, sets, mappings (as dicts), arrays, tensors,
    tables of pandas, and dataclasses and named tuples of this package, in each other. Anything else
    comes back as an `Unreadable` that is written as it was.

    Raises AttributionLabError for a table with columns other than numbers, texts, categories and mixed
    ones.
    """
    arrays: dict[str, Tensor] = {}
    text = json.dumps(_written(value, arrays), separators=(",", ":"))
    return Record(text, safetensors.torch.save(arrays) if arrays else b"")


def value_of(record: Record) -> Any:
    """Make a result again out of what `record_of` wrote.

    Raises AttributionLabError for a record that names a class which this package does not have, or that
    has other fields.
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
    if isinstance(value, Tensor):
        return _written_tensor(value, arrays)
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, np.ma.MaskedArray):
        return _written_array(value, arrays)
    if (type(value).__name__, type(value).__module__[:6]) == ("DataFrame", "pandas"):
        return _written_table(value, arrays)
    if (dataclasses.is_dataclass(value) or hasattr(value, "_fields")) and _own(type(value)):
        return _written_object(value, arrays)
    if type(value) is bytes:
        name = str(len(arrays))
        arrays[name] = torch.from_numpy(np.frombuffer(value, np.uint8).copy())
        return {"$bytes": name}
    if type(value) in (tuple, set, frozenset, torch.Size):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        name = "tuple" if isinstance(value, tuple) else type(value).__name__
        return {f"${name}": [_written(each, arrays) for each in items]}
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


def _written_tensor(value: Tensor, arrays: dict[str, Tensor]) -> Any:
    """A tensor; one that shares memory with another one, or is a view, as one of its own."""
    if value.layout != torch.strided or value.is_quantized or value.is_complex():
        return {"$repr": _text_of(value)}
    name = str(len(arrays))
    arrays[name] = value.detach().cpu().contiguous().clone()
    return {"$tensor": name}


def _written_array(value: Any, arrays: dict[str, Tensor]) -> Any:
    array, scalar = np.asarray(value), isinstance(value, np.generic)
    about = {"dtype": array.dtype.str, "shape": list(array.shape), "scalar": scalar}
    if array.dtype.kind in "OU":
        return {"$objects": [_written(each, arrays) for each in array.ravel().tolist()], **about}
    if array.dtype.hasobject or array.dtype.names is not None:
        return {"$repr": _text_of(value)}
    # As bytes: torch and safetensors lack some of the kinds, such as times and big-endian numbers.
    name = str(len(arrays))
    arrays[name] = torch.frombuffer(bytearray(array.tobytes()) or bytearray(1), dtype=torch.uint8)
    return {"$array": name, **about}


def _written_table(table: Any, arrays: dict[str, Tensor]) -> Any:
    """A table by columns, each as an array: Parquet knows neither mixed columns nor their None."""
    columns = [_written_column(table.iloc[:, place], arrays) for place in range(table.shape[1])]
    heads = [_written_head(each, arrays) for each in (table.columns, table.index)]
    return {"$table": columns, "heads": heads}


def _written_head(index: Any, arrays: dict[str, Tensor]) -> Any:
    import pandas as pd

    if isinstance(index, pd.RangeIndex):
        return {
            "range": [index.start, index.stop, index.step],
            "name": _written(index.name, arrays),
        }
    levels = [index.get_level_values(place).to_series() for place in range(index.nlevels)]
    return {"levels": [_written_column(level, arrays) for level in levels]}


def _written_column(column: Any, arrays: dict[str, Tensor]) -> Any:
    import pandas as pd

    kind = column.dtype
    about = {"name": _written(column.name, arrays), "dtype": str(kind)}
    if isinstance(kind, pd.CategoricalDtype):
        categories = _written_column(kind.categories.to_series(), arrays)
        codes = _written_array(column.cat.codes.to_numpy(), arrays)
        return {"codes": codes, "categories": categories, "ordered": kind.ordered, **about}
    if isinstance(kind, np.dtype):
        return {"values": _written_array(column.to_numpy(), arrays), **about}
    if kind.kind not in "biufO" or isinstance(kind, pd.SparseDtype):
        raise AttributionLabError(
            f"a result's column {column.name!r} is of kind {str(kind)!r}, which a store cannot "
            "hold: use numbers or texts"
        )
    items = column.astype(object).where(column.notna(), None).to_numpy()
    return {"values": _written_array(items, arrays), **about}


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


def _read_array(name: str, tree: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Any:
    dtype = np.dtype(tree["dtype"])
    count = math.prod(tree["shape"])
    found = np.frombuffer(arrays[name].numpy().tobytes(), dtype, count).reshape(tree["shape"])
    return found[()] if tree["scalar"] else found.copy()


def _read_objects(items: Any, tree: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Any:
    found = np.empty(len(items), dtype=object)
    for place, each in enumerate(items):  # at once, lists of one length would be rows
        found[place] = _read(each, arrays)
    found = found.astype(np.dtype(tree["dtype"])).reshape(tree["shape"])
    return found[()] if tree["scalar"] else found


def _read_table(columns: Any, tree: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Any:
    import pandas as pd

    names, rows = (_read_head(each, arrays) for each in tree["heads"])
    found = {place: _read_column(each, arrays).array for place, each in enumerate(columns)}
    table = pd.DataFrame(found, index=rows)
    table.columns = names
    return table


def _read_head(tree: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Any:
    import pandas as pd

    if "range" in tree:
        return pd.RangeIndex(*tree["range"], name=_read(tree["name"], arrays))
    levels = [_read_column(each, arrays) for each in tree["levels"]]
    if len(levels) == 1:
        return pd.Index(levels[0].array, name=levels[0].name)
    return pd.MultiIndex.from_arrays(levels, names=[level.name for level in levels])


def _read_column(tree: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Any:
    import pandas as pd

    name = _read(tree["name"], arrays)
    if "codes" in tree:
        categories = pd.Index(_read_column(tree["categories"], arrays).array)
        codes = _read(tree["codes"], arrays)
        made = pd.Categorical.from_codes(codes, categories, ordered=tree["ordered"])
        return pd.Series(made, name=name)
    return pd.Series(_read(tree["values"], arrays), dtype=tree["dtype"], name=name)


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
        "$array": _read_array,
        "$bytes": lambda name, tree, arrays: arrays[name].numpy().tobytes(),
        "$objects": _read_objects,
        "$table": _read_table,
        "$class": _read_object,
    }
)
"""How each thing that JSON lacks is read."""


class Outcome(NamedTuple):
    """What became of a cell."""

    record: Record | None
    """the result; None where the cell failed"""
    error: str = ""
    """why it failed: one line, or a traceback where the laboratory did not expect it"""
    refused: bool = False
    """whether it failed because the laboratory refused it, with one line"""
    seconds: float = 0.0
    """CPU time that it took"""
    read: Read = ()
    """files that the user's code read for it, with their hashes"""
    known: str = ""
    """the day on which it was computed, where it was known before this run"""

    @property
    def value(self) -> Any:
        """The result as it was computed; the error where there is none."""
        if self.record is None:
            told = f" ({self.known_text})" if self.known else ""
            kind = AttributionLabError if self.refused else RuntimeError
            raise kind(f"{self.error.rstrip() if told else self.error}{told}")
        return value_of(self.record)

    @property
    def known_text(self) -> str:
        """Of when it is, where it was known, and how it is computed again if it failed."""
        again = "; --retry-failed (retry_failed=True) runs it again" if self.error else ""
        return f"known from {self.known}{again}"


class Row(NamedTuple):
    """A cell that the store knows, without its result."""

    key: str
    kind: str
    place: dict[str, Any]
    depends_on: dict[str, Any]
    error: str
    seconds: float
    bytes: int
    finished: float


@dataclass(frozen=True)
class Reference:
    """A result in a store, for a cell that is computed from it: its arrays are read there.

    `record`: the result; without its arrays where they have a file. `path`: that file. `travels`:
    whether the arrays go along to other processes, which may be on machines without that file. `read`:
    files that were read for it, with their hashes.
    """

    record: Record = field(repr=False)
    path: Path | None
    travels: bool = False
    read: Read = ()

    @property
    def value(self) -> Any:
        """The result as it was computed.

        Raises AttributionLabError if its file is missing or damaged.
        """
        return value_of(self._whole())

    def _whole(self) -> Record:
        if self.path is None:
            return self.record
        data = sound_arrays(self.path)
        if data is None:
            raise AttributionLabError(
                f"{str(self.path)!r} is missing or damaged: remove it and run again"
            )
        return self.record._replace(data=data)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        return state | {"record": self._whole(), "path": None} if self.travels else state


def sound_arrays(path: Path) -> bytes | None:
    """What is in a file that is named by its SHA-256; None where it is missing or something else."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == path.stem else None
