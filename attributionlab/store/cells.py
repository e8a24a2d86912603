"""A cell: one piece of work, with all that its result depends on."""

import hashlib
import inspect
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

LIBRARIES = ("torch", "numpy", "scipy", "captum", "scikit-image", "scikit-learn")
"""Libraries whose versions change results. Python's, pandas' and the processor do not count: a store is
moved from one machine to another and stays as it is."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One piece of work.

    Parameters
    ----------
    kind : str
        Which command's work it is, such as "compare".
    place : mapping of str to str, int or float
        What is computed, as the rows of a table name it: method, environment, seed. No two cells of one
        kind have the same place.
    inputs : mapping
        Whatever else the result depends on, as JSON: specifications, settings, numbers of images. The
        package's code and the versions of libraries are added.
    compute : callable
        Returns the result; takes the device on which to compute, None for the cell's own. For other
        processes it is pickled by value.
    """

    kind: str
    place: Mapping[str, Any]
    inputs: Mapping[str, Any]
    compute: Callable[[str | None], Any] = field(repr=False)

    @property
    def title(self) -> str:
        """The place in words, numbers with what they are of."""
        return ", ".join(
            value if isinstance(value, str) else f"{name} {value}"
            for name, value in self.place.items()
        )

    @cached_property
    def depends_on(self) -> dict[str, Any]:
        """All that the result depends on beside the place, as JSON."""
        everything = {**self.inputs, "code": code_digest(), **library_versions()}
        found: dict[str, Any] = json.loads(
            json.dumps(everything, sort_keys=True, default=fingerprint)
        )
        return found

    @cached_property
    def key(self) -> str:
        """SHA-256 of kind, place and all that the result depends on."""
        return digest_of([self.kind, dict(self.place), self.depends_on])


def digest_of(value: Any) -> str:
    """SHA-256 of what JSON makes of a value, the same on every machine."""
    text = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def library_versions() -> Mapping[str, str]:
    """Versions of the libraries that change results, without their builds."""
    return {name: version(name).partition("+")[0] for name in LIBRARIES}


@cache
def code_digest() -> str:
    """SHA-256 of this package's code: a change of the code is a change of the results."""
    root = Path(__file__).parent.parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:16]


def fingerprint(function: Any) -> str:
    """SHA-256 of where a user's function, class or object comes from.

    That is the text of its file, so that a change in it is seen, and what the function has beside it:
    its object, defaults, and what it closes over. Other files that it imports are not looked at.
    Something without a file (a notebook's, an array) counts as what it pickles to.
    """
    kind = function if inspect.isroutine(function) or isinstance(function, type) else type(function)
    found = hashlib.sha256(f"{kind.__module__}:{kind.__qualname__}".encode())
    beside = function
    try:
        found.update(Path(inspect.getsourcefile(kind) or "").read_bytes())
        if kind is function:
            names = ("__self__", "__defaults__", "__kwdefaults__")
            closure = getattr(function, "__closure__", None) or ()
            beside = [getattr(function, name, None) for name in names]
            beside += [cell.cell_contents for cell in closure]
    except (TypeError, OSError):
        pass
    try:
        found.update(_pickled(beside))
    except Exception:  # a lock, an open file: whatever cannot be pickled is never the same again
        found.update(repr(id(function)).encode())
    return found.hexdigest()


def _pickled(value: Any) -> bytes:
    """What a value pickles to, with tensors as their values: torch writes addresses of memory."""
    import cloudpickle

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        def reducer_override(self, each: Any) -> Any:
            if isinstance(each, Tensor):
                return torch.from_numpy, (each.detach().cpu().numpy(),)
            return super().reducer_override(each)

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue()
