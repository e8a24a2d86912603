"""The command `list`: all names with what they mean, read from the source without running it.

Importing the methods takes seconds, since they need torch; their names and the first sentences of
their docstrings stand in the source files.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from attributionlab.base import AttributionLabError
from attributionlab.methods import SUFFIXES, base_and_suffix
from attributionlab.papers import items
from attributionlab.show import names_table, print_table
from attributionlab.worlds import describe, environments

PACKAGE = Path(__file__).parents[1]


def print_names() -> None:
    """Print a table of all names, under headings."""
    papers: dict[str, list[str]] = {}
    for item in items().values():
        papers.setdefault(item.paper, []).append(item.name)
    sections = {
        "environments": {name: describe(name) for name in environments()},
        "worlds of tokens": {"names": ", ".join(environments("tokens"))},
        "random worlds": {
            "random:N:DIFFICULTY:SEED": "N worlds, easy, medium or hard: random:50:medium:7."
        },
        "methods": dict(sorted(_methods())),
        "variants of any method": {
            "METHOD-SUFFIX": f"SUFFIX is {', '.join(SUFFIXES)}, or several of these."
        },
        "controls": dict(sorted(_controls())),
        "metrics": {"names": ", ".join(_metrics())},
        "reproduce": {
            paper: ", ".join(sorted(names, key=_kind_and_number)) for paper, names in papers.items()
        },
    }
    print_table(names_table(sections))


def _methods() -> Iterator[tuple[str, str]]:
    """Public functions that the registry names, and what suffixes make of them."""
    public = _public("methods")
    registry = ast.walk(_source(PACKAGE / "methods" / "registry.py"))
    named = {node.attr for node in registry if isinstance(node, ast.Attribute)}
    for function in named & public.keys():
        name, line = _kebab(function), _lines(public[function]).get(function)
        if line is None and (split := base_and_suffix(name)):
            line = SUFFIXES[split[1]].format(split[0])
        if line is not None:
            yield name, line


def _controls() -> Iterator[tuple[str, str]]:
    for function, line in _lines(PACKAGE / "verdicts" / "controls.py").items():
        if not function.startswith("_"):
            yield _kebab(function), line


def _metrics() -> Iterator[str]:
    """Public functions under `@metric` that can rank ready maps, with their second names."""
    registry = {
        ast.unparse(target): node.value
        for node in _source(PACKAGE / "verdicts" / "metric_trials" / "registry.py").body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }
    not_given, short_names = (
        ast.literal_eval(registry[name] or ast.Dict([], []))
        for name in ("NOT_GIVEN", "SHORT_NAMES")
    )
    public = _public("metrics")
    metrics = {
        node.name
        for path in set(public.values())
        for node in _source(path).body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(each).startswith("metric(") for each in node.decorator_list)
        and not {each.arg for each in (*node.args.args, *node.args.kwonlyargs)} & not_given.keys()
    }
    second = {name: short for short, name in short_names.items()}
    for name in map(_kebab, sorted(metrics & public.keys())):
        yield f"{name} (also {second[name]})" if name in second else name


def _kind_and_number(item: str) -> tuple[int, list[int], str]:
    """Key of an order of items: tables, figures, the appendix's figures, all others; each by number."""
    kinds = ("table-", "appendix-figure-", "figure-")
    kind = next((kind for kind in kinds if re.search(rf"(^|-){kind}\d", item)), "")
    rank = {"table-": 0, "figure-": 1, "appendix-figure-": 2}.get(kind, 3)
    return rank, [int(number) for number in re.findall(r"\d+", item)] if kind else [], item


def _public(part: str) -> dict[str, Path]:
    """The public functions of a part of the package, and the files that have them."""
    folder = PACKAGE / part
    return {
        alias.name: folder / f"{node.module.replace('.', '/')}.py"
        for node in _source(folder / "__init__.pyi").body
        if isinstance(node, ast.ImportFrom) and node.module  # `from . import` is of a module
        for alias in node.names
    }


@cache
def _lines(path: Path) -> Mapping[str, str]:
    """First sentences of functions of a module: of docstrings, or of the text that makes one."""
    found = {}
    for node in _source(path).body:
        match node:
            case ast.FunctionDef(name=name):
                found[name] = _first_sentence(ast.get_docstring(node) or "")
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(args=[_, ast.Constant(value=str(text))])
            ):
                found[name] = _first_sentence(text)
    return found


def _source(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except OSError as error:  # an installation that keeps compiled files alone
        raise AttributionLabError(
            f"list reads the source of the package, and {str(path)!r} cannot be read "
            f"({error.strerror}): install the package with its sources"
        ) from error


def _first_sentence(docstring: str) -> str:
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".") + "."


def _kebab(function: str) -> str:
    return function.replace("_", "-")
