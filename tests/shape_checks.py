"""What checks the shapes and dtypes of arrays while testing."""

from collections.abc import Callable
from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray


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


def _speaks_of_arrays(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(map(_speaks_of_arrays, get_args(hint)))
