"""What checks the shapes and dtypes of arrays while testing."""

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import beartype
from jaxtyping import AbstractArray

CALLS = 3
"""Checked calls of each function in each test: a loop's thousands of calls have the same shapes."""

_test = 0  # how many have begun


def begin_test() -> None:
    """Check the next calls of every function again."""
    global _test
    _test += 1


def install() -> None:
    """Check the package's array annotations from its import on, in each test at the first calls.

    jaxtyping's import hook decorates every function, and each call of a decorated one binds its
    arguments to its signature. At every call that took more than a third of this suite, most of it
    for functions that speak of no array: these stay as they are.
    """
    decorate = jaxtyping.jaxtyped

    def jaxtyped(thing: Any = None, **how: Any) -> Any:
        if thing is None:
            return partial(jaxtyped, **how)
        function = thing.__init__ if inspect.isclass(thing) else thing
        if not _may_speak_of_arrays(function):
            return thing
        decorated = decorate(thing, **how)
        return _at_first(decorated, thing) if inspect.isfunction(thing) else decorated

    jaxtyping.jaxtyped = jaxtyped  # what the code that the hook compiles asks for by name
    jaxtyping.install_import_hook("attributionlab", "shape_checks.checked")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its array arguments and its array results checked at every call.

    Other types are left to mypy: tests hand over wrong numbers and strings on purpose, to read what
    the package says about them.
    """
    hints = function.__annotations__
    function.__annotations__ = {
        name: hint for name, hint in hints.items() if _speaks_of_arrays(hint)
    }
    return beartype(function) if function.__annotations__ else function


def _at_first(decorated: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """The decorated function at its first calls in each test, then the plain one."""
    test = calls = 0

    @wraps(decorated)
    def function(*args: Any, **settings: Any) -> Any:
        nonlocal test, calls
        if test != _test:
            test, calls = _test, 0
        calls += 1
        return (decorated if calls <= CALLS else plain)(*args, **settings)

    return function


def _may_speak_of_arrays(function: Callable[..., Any]) -> bool:
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError:  # a class that is not defined yet
        return True
    return any(map(_speaks_of_arrays, hints.values()))


def _speaks_of_arrays(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(map(_speaks_of_arrays, get_args(hint)))
