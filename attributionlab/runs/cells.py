"""A cell: one piece of work, with all that its result depends on."""

import hashlib
import inspect
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib.metadata import version
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from attributionlab.base import LIBRARIES, Read, code_digest, code_of, is_users

PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True, eq=False)
class Cell:
    """One piece of work.

    - `kind`: which command's work it is, such as "compare".
    - `place`: what is computed, as the rows of a table name it: method, environment, seed. No two cells
      of one kind have the same place.
    - `inputs`: whatever else the result depends on, as JSON: specifications, settings, numbers of
      images. Versions of libraries and the code of the package that `compute` imports are added, with
      its comments, but neither templates nor what Python, processor and threads are.
    - `compute`: returns the result; takes the device on which to compute, None for the cell's own. For
      other processes it is pickled by value.
    - `least_seconds`: what it takes at least, as far as is known.
    - `read`: files, with their hashes, that were read for results of which this one is computed.
    - `modules`: modules of this package that it loads under names that no text says.
    """

    kind: str
    place: Mapping[str, Any]
    inputs: Mapping[str, Any]
    compute: Callable[[str | None], Any] = field(repr=False)
    least_seconds: float = 0.0
    read: Read = field(default=(), repr=False)
    modules: Sequence[str] = field(default=(), repr=False)

    @property
    def title(self) -> str:
        """The place in words, numbers with what they are of, without hashes."""
        return ", ".join(
            value if isinstance(value, str) else f"{name} {value}"
            for name, value in self.place.items()
            if name != "spec"
        )

    @cached_property
    def depends_on(self) -> dict[str, Any]:
        """All that the result depends on beside the place, as JSON."""
        parts: list[Any] = [self.compute]
        if isinstance(self.compute, partial):
            parts += [self.compute.func, *self.compute.args, *self.compute.keywords.values()]
        code = code_digest(*sorted({*self.modules, *filter(None, map(_own_module, parts))}))
        return {**self._plain_inputs[0], "code": code, **decisive_versions()}

    @property
    def files(self) -> frozenset[str]:
        """The files of the user's code that the result depends on."""
        return self._plain_inputs[1]

    @cached_property
    def _plain_inputs(self) -> tuple[dict[str, Any], frozenset[str]]:
        files = set[str]()
        return _plain(self.inputs, files), frozenset(files)

    @cached_property
    def key(self) -> str:
        """SHA-256 of kind, place and all that the result depends on."""
        return digest_of([self.kind, dict(self.place), self.depends_on])


class Fingerprint(str):
    """SHA-256 of what a user's object is, with the files of its code."""

    __slots__ = ("files",)
    files: frozenset[str]


def _plain(value: Any, files: set[str]) -> Any:
    """A value as JSON; what JSON lacks as its fingerprint, whose files are added."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {str(key): _plain(each, files) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, files) for each in value]
    if isinstance(value, Fingerprint):
        files |= value.files
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return None if value is None else _plain(fingerprint(value), files)


def digest_of(value: Any) -> str:
    """SHA-256 of what JSON makes of a value, the same on every machine."""
    text = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def decisive_versions() -> Mapping[str, str]:
    """Versions of the libraries that change results, without their builds.

    `attributionlab.base.versions` also has threads and processor, by which cells must not differ.
    """
    return {name: version(name).partition("+")[0] for name in LIBRARIES}


def _own_module(thing: Any) -> str:
    """The module of this package that a thing is, or in which it or its class is defined; "" for what
    is none of ours.
    """
    if isinstance(thing, ModuleType):
        name = thing.__name__
    else:
        defined = isinstance(thing, type | FunctionType | MethodType)
        name = str((thing if defined else type(thing)).__module__)
    return name if name.partition(".")[0] == PACKAGE else ""


def fingerprint(value: Any) -> Fingerprint:
    """SHA-256 of what a user's function, class or object is, the same in every process.

    Of a function or class that is its file, or the package in which that lies, and all of the user's
    code that these import (`base.sources.code_of`), so that a change in it is seen. Without a
    file (a notebook's) it is what was compiled, with what that refers to. Values count too: arrays,
    what a function closes over, an object's attributes.
    """
    walk = _Walk()
    found = Fingerprint(walk.digest(value))
    found.files = frozenset(walk.files)
    return found


class _Walk:
    """A way through an object, each part once."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[Any, str]] = {}
        self.depth = 0
        self.files = set[str]()

    def digest(self, value: Any) -> str:
        """SHA-256 of a value and all that it is made of."""
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, str, bytes):
            return digest_of([kind.__name__, repr(value)])
        if id(value) not in self.seen:
            self.seen[id(value)] = value, f"above {self.depth}"  # kept, as ids are given anew
            self.depth += 1
            self.seen[id(value)] = value, digest_of([_name(kind), *self._parts(value)])
            self.depth -= 1
        return self.seen[id(value)][1]

    def _parts(self, value: Any) -> list[Any]:
        if isinstance(value, list | tuple):
            return [self.digest(each) for each in value]
        if isinstance(value, set | frozenset):
            return sorted(map(self.digest, value))
        if isinstance(value, dict | MappingProxyType):
            return sorted([self.digest(key), self.digest(each)] for key, each in value.items())
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            flat = value.detach().cpu().contiguous().reshape(-1)
            return [str(value.dtype), list(value.shape), _hash(flat.view(torch.uint8).numpy())]
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            return [value.dtype.str, list(value.shape), _hash(value.tobytes())]
        if isinstance(value, ModuleType):
            known = _own_module(value) or is_users(getattr(value, "__file__", None) or "")
            return [value.__name__, self._code_of(value) if known else ""]
        if inspect.isfunction(value):
            return self._function(value)
        if inspect.ismethod(value):
            return [self.digest(value.__func__), self.digest(value.__self__)]
        if isinstance(value, type):
            return self._class(value)
        return self._object(value)

    def _function(self, function: Any) -> list[Any]:
        text = self._code_of(function)
        if _own_module(function) and "." not in function.__qualname__:
            return [_name(function), text]  # with what its decorators keep
        parts = [_name(function), text, function.__code__.co_firstlineno]
        if text is None or function.__name__ == "<lambda>":
            parts += self._code(function.__code__, function.__globals__ if text is None else {})
        cells = function.__closure__ or ()
        beside = [function.__defaults__, function.__kwdefaults__, vars(function)]
        return [*parts, self.digest(beside), *(self.digest(_content(cell)) for cell in cells)]

    def _code_of(self, thing: Any) -> str | None:
        """Of the files that a function, class or module is made of."""
        if module := _own_module(thing):
            return code_digest(module)
        code = code_of(thing)
        if code is None:
            self.files.add(getattr(getattr(thing, "__code__", None), "co_filename", ""))
            return None
        self.files |= code.files
        return code.digest

    def _code(self, code: CodeType, names: Mapping[str, Any]) -> list[Any]:
        used = [[name, self.digest(names[name])] for name in code.co_names if name in names]
        consts = [
            self._code(each, names) if isinstance(each, CodeType) else self.digest(each)
            for each in code.co_consts
        ]
        return [_hash(code.co_code), list(code.co_names), used, consts]

    def _class(self, kind: type) -> list[Any]:
        text = self._code_of(kind)
        if text is not None or not hasattr(kind, "__dict__") or kind.__module__ == "builtins":
            return [_name(kind), text]
        beside = {"__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__"}
        own = {name: value for name, value in vars(kind).items() if name not in beside}
        return [_name(kind), self.digest(kind.__bases__), self.digest(own)]

    def _object(self, value: Any) -> list[Any]:
        """What pickle would write, which is the type and the state."""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # a lock, an open file: it is never the same again
            return [secrets.token_hex()]
        if isinstance(reduced, str):
            return [reduced]
        return [self.digest(list(each) if isinstance(each, Iterator) else each) for each in reduced]


def _name(kind: Any) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _hash(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None
