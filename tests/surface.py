"""What others may build on: names, signatures and flags, as lines of text.

    python tests/surface.py

writes what is new below the last heading of `tests/golden/surface.txt`. The lines above it are those of
releases: they are left as they are, and `broken` says which of them no longer hold (CONTRIBUTING.md).
"""

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

import typer

import attributionlab as al
from attributionlab.cli.app import app

GOLDEN = Path(__file__).parent / "golden" / "surface.txt"
NEW = "# new\n"
"""Heading of the lines that no release has; a release gives it its number."""


def surface() -> list[str]:
    """All lines, sorted."""
    lines = {f"al.{line}" for name in al.__all__ for line in of_name(name, getattr(al, name))}
    return sorted(lines | set(of_commands()))


def of_name(name: str, thing: Any) -> Iterator[str]:
    """A function with its parameters; a class with its own public members; a module with its names."""
    if isinstance(thing, ModuleType):
        for each in thing.__all__:
            yield from of_name(f"{name}.{each}", getattr(thing, each))
    elif inspect.isclass(thing):
        yield f"{name}({parameters(thing)})"
        for member, value in vars(thing).items():
            if not member.startswith("_"):
                yield f"{name}.{member}" + (f"({parameters(value)})" if callable(value) else "")
    elif callable(thing) and get_origin(thing) is None:  # a type such as tuple[int, int] is no call
        yield f"{name}({parameters(thing)})"
    else:
        yield name


def parameters(function: Any) -> str:
    """Names, kinds and whether there is a default; a default itself may change."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "..."
    told, keywords = [], False
    for name, each in signature.parameters.items():
        if each.kind is each.KEYWORD_ONLY and not keywords:
            told.append("*")
        keywords = each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        mark = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        told.append(mark + name + ("" if each.default is each.empty else "=..."))
    return ", ".join(told)


def of_commands() -> Iterator[str]:
    """Each command with its arguments, then a line for each spelling of an option."""
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        arguments = [
            each.name.upper() for each in command.params if each.param_type_name == "argument"
        ]
        yield " ".join(["attributionlab", name, *arguments])
        for each in command.params:
            if each.param_type_name == "option":
                yield from (
                    f"attributionlab {name} {spelling}"
                    for spelling in [*each.opts, *each.secondary_opts]
                )


def read() -> tuple[list[str], list[str]]:
    """Lines of the file: those of releases, and new ones."""
    released, _, new = GOLDEN.read_text(encoding="utf-8").partition(NEW)
    return [line for line in released.splitlines() if line[0] != "#"], new.splitlines()


def broken(released: Iterable[str], found: Iterable[str]) -> list[str]:
    """Lines that no longer hold: names that are gone, and functions that refuse a call they took."""
    now = {line.partition("(")[0]: line for line in found}
    return [line for line in released if not holds(line, now.get(line.partition("(")[0]))]


def holds(line: str, found: str | None) -> bool:
    """Whether a line is there, as it was or, for a function, so that what was a call of it is one."""
    if line == found:
        return True
    if found is None or any("(" not in each or "(...)" in each for each in (line, found)):
        return False
    was, now = (
        inspect.signature(eval(f"lambda {each[each.index('(') + 1 : -1]}: 0"))
        for each in (line, found)
    )
    try:
        return all(
            now.bind(*places, **dict(zip(names, names, strict=True))).arguments
            == {each: each for each in (*places, *names)}
            for places, names in calls(was)
        ) and variadic(was) <= variadic(now)
    except TypeError:
        return False


def variadic(signature: inspect.Signature) -> set[Any]:
    """Whether it takes any number of places, and any names."""
    kinds = {each.kind for each in signature.parameters.values()}
    return kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


def calls(signature: inspect.Signature) -> Iterator[tuple[list[str], list[str]]]:
    """The shortest call, the longest one, and that by names: arguments by place, and by name."""
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    given = signature.parameters.values()
    every = places, names = [[each.name for each in given if each.kind is kind] for kind in kinds]
    needed = {each.name for each in given if each.default is each.empty}
    yield tuple([each for each in some if each in needed] for some in every)
    yield places, names
    yield [], places + names


if __name__ == "__main__":
    released, _, _ = GOLDEN.read_text(encoding="utf-8").partition(NEW)
    new = sorted(set(surface()) - set(released.splitlines()))
    GOLDEN.write_text(released + NEW + "".join(f"{line}\n" for line in new), encoding="utf-8")
