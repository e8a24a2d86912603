"""What others may build on: names, signatures and flags, as lines of text.

    python tests/surface.py

writes `tests/golden/surface.txt`. A line that leaves is a break: CONTRIBUTING.md says what it needs.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

import attributionlab as al
from attributionlab.cli.app import app

GOLDEN = Path(__file__).parent / "golden" / "surface.txt"


def surface() -> str:
    """All lines, sorted."""
    lines = {f"al.{line}" for name in al.__all__ for line in of_name(name, getattr(al, name))}
    return "\n".join(sorted(lines | set(of_commands()))) + "\n"


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
    elif callable(thing):
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
    """Each command with its arguments, then a line for each option."""
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        arguments = [
            each.name.upper() for each in command.params if each.param_type_name == "argument"
        ]
        yield " ".join(["attributionlab", name, *arguments])
        for each in command.params:
            if each.param_type_name == "option":
                yield f"attributionlab {name} {'/'.join([*each.opts, *each.secondary_opts])}"


if __name__ == "__main__":
    GOLDEN.write_text(surface(), encoding="utf-8")
