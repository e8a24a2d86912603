"""The files that results of a user's code depend on: code by its imports, and data as it is opened."""

import ast
import hashlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar

from attributionlab.base.own_code import code_digest

Result = TypeVar("Result")
Read = tuple[tuple[str, str], ...]
"""Files that were read, each with the SHA-256 of its content."""

PACKAGE = __name__.partition(".")[0]
OWN = str(Path(__file__).parents[1]) + os.sep
STANDARD = str(Path(os.__file__).parent) + os.sep
INSTALLED = ("site-packages", "dist-packages")
OF_SYSTEM = ("/proc/", "/sys/", "/dev/")
CODE = (".py", *EXTENSION_SUFFIXES)
LIBRARIES = {
    **{name: name for name in ("torch", "numpy", "scipy", "captum")},
    "scikit-image": "skimage",
    "scikit-learn": "sklearn",
}
"""Libraries whose versions change results, each with its package. Python's, pandas' and the processor
do not count: a store is moved from one machine to another and stays as it is."""
PARSED = 1024
"""Files whose imports are kept."""


class Code(NamedTuple):
    """What a function or class is made of."""

    digest: str
    """SHA-256 of the files' contents, the same wherever they lie"""
    files: frozenset[str]


def is_users(file: str) -> bool:
    """Whether a file is the user's: outside the standard library, what is installed, and this
    package.
    """
    return not (
        _is_installed(file) or file.startswith((OWN, STANDARD, *OF_SYSTEM, "<frozen ")) or not file
    )


def _is_installed(file: str) -> bool:
    return not set(INSTALLED).isdisjoint(Path(file).parts)


def code_of(thing: Any) -> Code | None:
    """The code of a function, class or module: its file, or the whole package in which that lies, and
    whatever of the user's these import, at once or later, and so on. None without a file.

    Imports are those in the text, wherever they stand, and what the loaded modules hold: names that
    are put together while the code runs are seen only if it has run (`files_read`).
    """
    try:
        file = os.path.abspath(inspect.getsourcefile(thing) or "")
        text = Path(file).read_bytes()
    except (TypeError, OSError):
        return None
    name = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
    top = name.partition(".")[0]
    folders = (
        [] if top in LIBRARIES.values() or file.startswith(STANDARD) else _folders_of(top, file)
    )
    if folders and _is_installed(file):
        return _as_code({f"{top}/{name}": _hash(path) for name, path in _code_in(folders)}, [file])
    if folders:
        return _closure({}, {top}, file)
    found = {"": hashlib.sha256(text).hexdigest()}
    if not is_users(file):
        return _as_code(found, [file])
    module = sys.modules.get(name)
    # Another file of that name may have been loaded later.
    same = module is not None and os.path.abspath(module.__file__ or "") == file
    return _closure(found, _imported(text) | _held([module] if module and same else []), file)


def code_named(place: str) -> tuple[str, Code] | None:
    """The file behind ``path/to/file.py`` or the name of a module, and its code as `code_of` has it, as
    far as texts say: nothing is loaded. None without a file.
    """
    if place.endswith(".py"):
        file = os.path.abspath(place)
        return file, _closure({"": _hash(file)}, _imported(Path(file).read_bytes()), file)
    top, *inner = place.split(".")
    for folder in _places(top, Path.cwd()):
        path = Path(folder, *inner)
        for each in (path, path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if os.path.isfile(each):
                file = os.path.abspath(each)
                if is_users(file):
                    return file, _closure({}, {top}, file)
                found = {f"{top}/{name}": _hash(path) for name, path in _code_in([folder])}
                return file, _as_code(found, [file])
    return None


def _closure(found: dict[str, str], names: Set[str], start: str) -> Code:
    """With all that is imported by these names, by what that imports, and so on."""
    files, seen, waiting = [start], set[str](), sorted(names)
    while waiting:
        top = waiting.pop()
        if top in seen:
            continue
        seen.add(top)
        if top.partition(".")[0] == PACKAGE:
            continue
        places = [place for place in _places(top, Path(start).parent) if is_users(place)]
        for name, path in _code_in(places):
            if path == start and "" in found:
                continue
            found[f"{top}/{name}"] = _hash(path)
            files.append(path)
            if path.endswith(".py"):
                waiting += sorted(_imported(Path(path).read_bytes()))
        loaded = [sys.modules[name] for name in list(sys.modules) if name.partition(".")[0] == top]
        waiting += sorted(_held(loaded) if places else [])
    if ours := sorted(name for name in seen if name.startswith(f"{PACKAGE}.")):
        found[PACKAGE] = code_digest(*ours)
    return _as_code(found, files)


def _as_code(found: Mapping[str, str], files: list[str]) -> Code:
    text = "\n".join(f"{name} {digest}" for name, digest in sorted(found.items()))
    return Code(
        hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest(), frozenset(files)
    )


def _folders_of(top: str, file: str) -> list[str]:
    """The folders of the package of that name, if the file lies in one."""
    folders = getattr(sys.modules.get(top), "__path__", [])
    return [each for each in folders if file.startswith(os.path.abspath(each) + os.sep)]


def _places(top: str, beside: Path) -> list[str]:
    """Where a module is or would be loaded from: its file, or a package's folders."""
    module = sys.modules.get(top)
    if module is None:
        spec = _spec_of(top, beside)
        if spec is None:
            return []
        return list(spec.submodule_search_locations or filter(None, [spec.origin]))
    return [*getattr(module, "__path__", filter(None, [getattr(module, "__file__", None)]))]


def _spec_of(top: str, beside: Path) -> ModuleSpec | None:
    """How a module that is not loaded would be found, as while a file beside it is loaded."""
    try:
        return PathFinder.find_spec(top, [str(beside)]) or importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):  # somebody's own finder
        return None


def _code_in(places: list[str]) -> Iterator[tuple[str, str]]:
    """Files of code at a module's places, by names that do not depend on where these are."""
    for number, place in enumerate(map(os.path.abspath, places)):
        if os.path.isfile(place):
            yield Path(place).name, place
        for folder, inner, files in os.walk(place):
            inner[:] = [each for each in inner if each[0] != "." and each not in INSTALLED]
            for path in (os.path.join(folder, name) for name in files if name.endswith(CODE)):
                if os.path.isfile(path):
                    yield f"{number}/{Path(path).relative_to(place).as_posix()}", path


@lru_cache(maxsize=PARSED)
def _imported(text: bytes) -> frozenset[str]:
    """Top-level names of the modules that a file imports wherever in it, also by `import_module` with
    a text; of this package, whatever is imported, by its full name.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    names = list[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names += [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__"):
                names.append(str(node.args[0].value))
    tops = {name.partition(".")[0] for name in names}
    # "attributionlab." is the package as a whole.
    ours = {f"{name}." if name == PACKAGE else name for name in names}
    ours = {name.removesuffix("*") for name in ours if name.startswith(f"{PACKAGE}.")}
    return frozenset({*filter(str.isidentifier, tops - {PACKAGE}), *ours})


def _held(modules: list[ModuleType]) -> set[str]:
    """Top-level names of the modules whose functions and classes these have, or which they hold."""
    held = [value for module in modules for value in list(vars(module).values())]
    names = [each.__name__ for each in held if isinstance(each, ModuleType)]
    names += [str(each.__module__) for each in held if isinstance(each, FunctionType | type)]
    return {name.partition(".")[0] for name in names}


def _hash(path: str) -> str:
    """SHA-256 of a file's content; of nothing where it cannot be read."""
    try:
        about = os.stat(path)
        return _hashed(path, about.st_mtime_ns, about.st_size, about.st_ino)
    except OSError:
        return ""


@lru_cache(maxsize=PARSED)
def _hashed(path: str, changed: int, size: int, number: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_opened: dict[str, set[str]] = {}
"""Files that the user's code has opened to read, each with the files of that code."""
_written: set[str] = set()
"""Files that it has opened to write: they are its own."""
_calls: list[int] = []
"""Calls of `heard` that go on; threads may have one each."""


def heard(call: Callable[[], Result]) -> Result:
    """Call something, and note which files the user's code in it opens.

    Python tells of them (`sys.addaudithook`, which can never be taken back, so that outside of such
    calls ours returns at once); of those that a library in C or Rust opens itself it does not.
    """
    _hook()
    _calls.append(1)
    try:
        return call()
    finally:
        _calls.pop()


@lru_cache(maxsize=1)
def _hook() -> None:
    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and _calls and isinstance(arguments[0], str | bytes):
            by = _users_above()
            if by:
                path = os.path.abspath(os.fsdecode(arguments[0]))
                if arguments[2] & (os.O_WRONLY | os.O_RDWR):
                    _written.add(path)
                else:
                    _opened.setdefault(path, set()).update(by)

    sys.addaudithook(hear)


def _users_above() -> set[str]:
    """The user's files whose code is running, up to the call of `heard`."""
    found, frame = set(), sys._getframe(2)
    while frame.f_code is not heard.__code__ and frame.f_back is not None:
        found.add(frame.f_code.co_filename)
        frame = frame.f_back
    return {file for file in found if is_users(file)}


def files_read(files: Set[str]) -> Read:
    """What code in these files has opened in this process, as it is now: data, and modules under names
    that no text says; not what the code itself wrote.
    """
    found = {}
    for opened, by in sorted(_opened.items()):
        path = opened
        if Path(opened).parent.name == "__pycache__":
            with suppress(ValueError, NotImplementedError):
                path = importlib.util.source_from_cache(opened)
        if by & files and opened not in _written and path not in files and is_users(path):
            found[_told(path)] = _hash(path)
    return tuple((name, digest) for name, digest in found.items() if digest)


def opened_files() -> tuple[dict[str, list[str]], list[str]]:
    """What `heard` noted in this process, as JSON, for the process that asked it."""
    return {path: sorted(by) for path, by in _opened.items()}, sorted(_written)


def note_opened(opened: Mapping[str, list[str]], written: list[str]) -> None:
    """Note what `opened_files` told in another process."""
    for path, by in opened.items():
        _opened.setdefault(str(path), set()).update(map(str, by))
    _written.update(map(str, written))


def _told(path: str) -> str:
    """A path as a store keeps it: what lies in the current folder may move with it."""
    short = os.path.relpath(path)
    return path if short.startswith(os.pardir) else short


def changed_files(read: Read) -> list[str]:
    """Those of the files that are otherwise now, or gone."""
    return [name for name, digest in read if _hash(name) != digest]
