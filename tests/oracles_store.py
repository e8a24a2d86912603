"""Naive reading of stores: JSON and the layout of safetensors by hand, SQLite."""

import hashlib
import json
import sqlite3
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch

TORCH_KINDS = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


def arrays_in(data: bytes) -> dict[str, tuple[str, list[int], bytes]]:
    """Kind, shape and bytes of each array of a safetensors file: its header's length, header, data."""
    if not data:
        return {}
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    return {
        name: (about["dtype"], about["shape"], body[slice(*about["data_offsets"])])
        for name, about in header.items()
        if name != "__metadata__"
    }


def value_in(text: str, data: bytes) -> Any:
    """What a record says, with dicts for objects of classes."""
    arrays = arrays_in(data)

    def read(tree: Any) -> Any:
        if isinstance(tree, list):
            return [read(each) for each in tree]
        if not isinstance(tree, dict) or not any(key.startswith("$") for key in tree):
            return {k: read(v) for k, v in tree.items()} if isinstance(tree, dict) else tree
        if "$float" in tree:
            return {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}[tree["$float"]]
        if "$tuple" in tree:
            return tuple(map(read, tree["$tuple"]))
        if "$set" in tree:
            return set(map(read, tree["$set"]))
        if "$frozenset" in tree:
            return frozenset(map(read, tree["$frozenset"]))
        if "$dict" in tree:
            return {read(key): read(each) for key, each in tree["$dict"]}
        if "$tensor" in tree:
            kind, shape, raw = arrays[tree["$tensor"]]
            dtype = TORCH_KINDS[kind]
            flat = (
                torch.frombuffer(bytearray(raw), dtype=dtype)
                if raw
                else torch.empty(0, dtype=dtype)
            )
            return flat.reshape(shape)
        if "$array" in tree:
            _, _, raw = arrays[tree["$array"]]
            size = int(np.prod(tree["shape"], dtype=int)) * np.dtype(tree["dtype"]).itemsize
            found = np.ndarray(tree["shape"], tree["dtype"], bytearray(raw[:size]) or bytearray(1))
            return found[()] if tree["scalar"] else found
        if "$objects" in tree:
            found = np.empty(tree["shape"], object)
            for place, each in zip(np.ndindex(*tree["shape"]), tree["$objects"], strict=True):
                found[place] = read(each)
            found = found.astype(tree["dtype"])
            return found[()] if tree["scalar"] else found
        raise NotImplementedError(sorted(tree))

    return read(json.loads(text))


def cells_in(folder: Path) -> dict[str, tuple[dict[str, Any], str, bytes]]:
    """Place, JSON and arrays of each cell that did not fail, by key; refuses what is not sound."""
    connection = sqlite3.connect(folder / "store.sqlite")
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute(
            "SELECT key, kind, place, depends_on, file, result, arrays FROM cells WHERE error = ''"
        ).fetchall()
    finally:
        connection.close()
    found = {}
    for key, kind, place, depends_on, file, text, data in rows:
        assert key not in found
        assert key == key_of(kind, json.loads(place), json.loads(depends_on))
        if file:
            data = (folder / "arrays" / file).read_bytes()
            assert file == hashlib.sha256(data).hexdigest() + ".safetensors"
        found[key] = json.loads(place), text, data
    return found


def key_of(kind: str, place: dict[str, Any], depends_on: dict[str, Any]) -> str:
    """A cell's key: SHA-256 of its three parts as JSON with sorted keys."""
    return hashlib.sha256(
        json.dumps([kind, place, depends_on], sort_keys=True).encode()
    ).hexdigest()
