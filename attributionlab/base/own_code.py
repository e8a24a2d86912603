"""Which code of this package a result depends on: modules, all that these import, and so on.

Imports are read from texts, wherever they stand, since many are made only when they are needed. Code
that loads a module under a name that is put together names it itself (`runs.cells.Cell.modules`).
"""

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(sys.modules[__name__.partition(".")[0]].__path__[0])
"""The folder of the package."""
IMPORT = re.compile(
    r"^ *(?:from (PACKAGE[\w.]*) import (\([^)]*\)|[^\n]*)|import (PACKAGE[\w.]*))".replace(
        "PACKAGE", ROOT.name
    ),
    re.MULTILINE,
)
FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:(?: +[^\n]*)?\n)*", re.MULTILINE)
"""Nothing in such a block is imported."""
NAMED = re.compile(r"^from (\.[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
"""What a package's table of names (`__init__.pyi`) says of where they are defined."""
Imported = tuple[str, str]
"""A module, and a name that is taken from it; "" for the module as it is, with any of its names."""


@cache
def code_digest(*names: str, root: Path = ROOT) -> str:
    """SHA-256 of the code of modules or names of the package, in full, and of what they import, and so
    on; without any of all its code.
    """
    files = code_behind(names, root) if names else {*root.rglob("*.py"), *root.rglob("*.pyi")}
    found = "".join(
        f"{path.relative_to(root).as_posix()} {_hash(path)}\n" for path in sorted(files)
    )
    return hashlib.sha256(found.encode()).hexdigest()[:16]


def code_behind(names: Iterable[str], root: Path = ROOT) -> set[Path]:
    """The files of some modules or names of the package, such as "attributionlab.methods.lrp", of those
    that they import, and so on; also the tables of names by which they are found.
    """
    files, seen = set[Path](), set[Imported]()
    parted = (each.rpartition(".") for each in names)
    waiting = [(module or name, name if module else "") for module, _, name in parted]
    while waiting:
        imported = waiting.pop()
        if imported in seen:
            continue
        seen.add(imported)
        module, name = imported
        inner = f"{module}.{name}" if name and _file_of(f"{module}.{name}", root) else module
        for path in _loaded(inner, root):
            if path not in files:
                files.add(path)
                waiting += _imports(path)
        table = _table(inner, root)
        # A module that is passed on as it is may be asked for any of its names.
        asked = [name] if name and inner == module else list(table)
        waiting += [table[each] for each in asked if each in table]
        if any(each in table for each in asked):
            files.add(_stub(inner, root))
    return files


def imports_in(text: str) -> set[Imported]:
    """What a text of this package's style imports of the package."""
    found = set[Imported]()
    for source, names, whole in IMPORT.findall(FOR_TYPES.sub("", text)):
        found |= {(whole, "")} if whole else {(source, name) for name in _names(names)}
    return found


def _names(listed: str) -> Iterator[str]:
    """Names of an import, without what they are called there."""
    for line in listed.strip("()").splitlines() or [""]:
        for each in line.partition("#")[0].split(","):
            yield from each.split()[:1]


def _loaded(module: str, root: Path) -> Iterator[Path]:
    """The files that are run where a module is imported: its packages', and its own."""
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        path = _file_of(".".join(parts[:end]), root)
        if path is not None:
            yield path


@cache
def _table(package: str, root: Path) -> dict[str, Imported]:
    """Where a package's names are defined, as far as a table says it."""
    stub = _stub(package, root)
    if _file_of(package, root) is None or not stub.is_file():
        return {}
    return {
        name: (package + source.rstrip("."), name)
        for source, names in NAMED.findall(stub.read_text(encoding="utf-8"))
        for name in _names(names)
    }


def _stub(package: str, root: Path) -> Path:
    return root.joinpath(*package.split(".")[1:], "__init__.pyi")


@cache
def _file_of(module: str, root: Path) -> Path | None:
    """The file of a module of the package; None for other names."""
    top, *inner = module.split(".")
    path = root.joinpath(*inner)
    places = (path / "__init__.py", path.with_name(f"{path.name}.py"))
    return next((each for each in places if top == root.name and each.is_file()), None)


@cache
def _imports(path: Path) -> frozenset[Imported]:
    return frozenset(imports_in(path.read_text(encoding="utf-8")))


@cache
def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
