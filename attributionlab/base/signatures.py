"""What a function takes by name, and which settings that refuses; of one in a file also unrun."""

import ast
import importlib.util
import inspect
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from inspect import Parameter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attributionlab.base.errors import AttributionLabError, nearest

GIVEN = ("self", "model", "inputs", "targets", "target")
"""What a method gets by its place, and as no setting."""
OFFERED = frozenset(
    {
        *("baseline", "layers", "layer", "patches", "generator", "reference_images", "highest"),
        *("nudge", "embedding", "truth", "ideal", "other_target", "other_network"),
    }
)
"""What a method, or a control, may get by its name in some environments, without any setting."""
BY_PLACE = 3
"""Arguments that a function gets by their place: model, inputs, targets."""
UNREADABLE = {
    *("*", "globals", "locals", "vars", "exec", "setattr", "sys"),
    *("__getattr__", "__dict__", "__signature__"),
}
"""A file that mentions one of these may define names, or parameters, that are not written in it."""


def arguments_of(function: Any) -> Mapping[str, Parameter]:
    """What a callable takes by name; nothing is known of some built-in ones, and where asking fails."""
    try:
        return inspect.signature(function).parameters
    except Exception:  # an attribute __signature__ may raise anything
        return {}


def refuse_settings(
    name: str,
    parameters: Mapping[str, Parameter],
    settings: Iterable[str],
    also: Mapping[str, Parameter] = MappingProxyType({}),
) -> None:
    """Refuse settings that a method of these parameters does not take."""
    for key in settings:
        if key in GIVEN:
            raise AttributionLabError(
                f"setting {key!r} of {name} is given by the test: leave it out"
            )
    known = {**also, **parameters}
    if any(each.kind is each.VAR_KEYWORD for each in known.values()):
        return
    for key in settings:
        if key not in known:
            own = [each for each in known if each not in GIVEN]
            raise AttributionLabError(f"{name} has no setting {key!r}: {nearest(key, own)}")


def refuse_incomplete(
    name: str, parameters: Mapping[str, Parameter], by_place: int, given: Collection[str]
) -> None:
    """Refuse a call that would lack arguments, behind those given by their place."""
    lacking = [
        each.name
        for each in [*parameters.values()][by_place:]
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        and each.name not in given
    ]
    if lacking:
        options = " ".join(f"--set {each}=..." for each in lacking)
        python = ", ".join(f"{each!r}: ..." for each in lacking)
        raise AttributionLabError(
            f"{name}: no value for {' and '.join(map(repr, lacking))}: give it by {options} (test), in "
            f"Python by settings={{{python}}}, or call it from a function in a file, as in compare "
            "mine.py:f with def f(model, inputs, targets)"
        )


def refuse_unread(reference: str, settings: Mapping[str, Any] | None = None) -> None:
    """Refuse a reference to a file or module that is not there, or does not define the name, before
    anything is loaded; with `settings`, also those that the function does not take or lacks.

    Nothing is run. What the text alone does not tell (decorators, classes, names that are made while
    the file runs) is left to whoever loads it.
    """
    place, _, name = reference.rpartition(":")
    if not name.isidentifier() or not place:
        return
    if not place.endswith(".py"):
        package = place.partition(".")[0]
        found: Any = True
        with suppress(ValueError):  # a module that was made without a specification
            found = not package.isidentifier() or importlib.util.find_spec(package)
        if not found:
            raise AttributionLabError(
                f"module {place!r} cannot be imported: ModuleNotFoundError: No module named {package!r}"
            )
        return
    path = Path(place)
    refuse_missing(path)
    body = syntax_of(path)
    if body is None:
        return
    nodes = [(each, _names(each)) for tree in body for each in ast.walk(tree)]
    if any(not names.isdisjoint(UNREADABLE) for _, names in nodes):
        return
    named = [node for node, names in nodes if name in names]
    if not named:
        raise AttributionLabError(f"{place} has no {name!r}: {nearest(name, public(body))}")
    made = [each for each in named if not isinstance(getattr(each, "ctx", None), ast.Load)]
    if settings is None or len(made) != 1 or made[0] not in body:
        return
    [function] = made
    if isinstance(function, ast.FunctionDef) and not function.decorator_list:
        parameters = {each.name: each for each in _written(function.args)}
        refuse_settings(name, parameters, settings)
        refuse_incomplete(name, parameters, BY_PLACE, {*settings, *OFFERED})


def refuse_missing(path: Path) -> None:
    """Refuse a path at which there is no file."""
    if not os.path.isfile(path):  # unlike Path.is_file, also answers for impossible names
        raise AttributionLabError(f"no file at {str(path)!r}: check the path")


def syntax_of(path: Path) -> list[ast.stmt] | None:
    """The statements of a file that is not run; None if it cannot be read as Python."""
    try:
        return ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def public(body: Iterable[ast.stmt]) -> list[str]:
    """Names of the public functions and classes among statements."""
    kinds = ast.FunctionDef | ast.ClassDef
    names = [each.name for each in body if isinstance(each, kinds)]
    return [name for name in names if not name.startswith("_")]


def _names(node: ast.AST) -> set[str]:
    """Names that a piece of syntax mentions, in a text too."""
    keys = ("id", "name", "asname", "attr", "value", "arg")
    found = {each for key in keys if isinstance(each := getattr(node, key, None), str)}
    return found | {each.partition(".")[0] for each in found if isinstance(node, ast.alias)}


def _written(arguments: ast.arguments) -> Iterator[Parameter]:
    """Parameters as a file has them, without the values of their defaults."""
    kinds: list[tuple[list[ast.arg], Any]] = [
        (arguments.posonlyargs, Parameter.POSITIONAL_ONLY),
        (arguments.args, Parameter.POSITIONAL_OR_KEYWORD),
        ([arguments.vararg] if arguments.vararg else [], Parameter.VAR_POSITIONAL),
        (arguments.kwonlyargs, Parameter.KEYWORD_ONLY),
        ([arguments.kwarg] if arguments.kwarg else [], Parameter.VAR_KEYWORD),
    ]
    by_place = [*arguments.posonlyargs, *arguments.args]
    optional = {id(each) for each in by_place[len(by_place) - len(arguments.defaults) :]}
    optional |= {
        id(each)
        for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    }
    for listed, kind in kinds:
        for each in listed:
            default = None if id(each) in optional else Parameter.empty
            yield Parameter(each.arg, kind, default=default)
