"""Constants of TOML files: a function's signature is their schema."""

import inspect
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin

__all__ = ["convert", "default_constants"]


def convert(value: Any, annotation: Any) -> Any:
    """A TOML value as the annotated type; lists become tuples.

    Raises
    ------
    TypeError
        Saying what would have been right.

    Examples
    --------
    >>> from attributionlab.schema import convert
    >>> convert([255, 127, 0], tuple[int, int, int])
    (255, 127, 0)
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        if value in arguments:
            return value
    elif origin in (list, tuple, Sequence):
        items = _items(value, origin, arguments)
        if items is not None:
            return items
    elif annotation is float:
        if isinstance(value, Real) and not isinstance(value, bool):
            return float(value)
    elif annotation is int and isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    elif isinstance(value, annotation) and not (isinstance(value, bool) and annotation is int):
        return value
    raise TypeError(_describe(annotation))


def _items(value: Any, origin: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
    if not isinstance(value, list | tuple):
        return None
    if origin is not tuple or arguments[1:] == (Ellipsis,):
        arguments = (arguments[0],) * len(value)
    if len(value) != len(arguments):
        return None
    try:
        return tuple(map(convert, value, arguments))
    except TypeError:
        return None  # the whole is described, not the part


def _describe(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin is tuple and arguments[1:] != (Ellipsis,):
        return "[" + ", ".join(map(_describe, arguments)) + "]"
    if origin is not None:
        return f"a list of {_describe(arguments[0])}"
    names = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}
    return names[annotation]


def default_constants(*functions: Callable[..., Any]) -> dict[str, Any]:
    """Default values of all their keyword arguments."""
    return {
        name: parameter.default
        for function in functions
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
    }
