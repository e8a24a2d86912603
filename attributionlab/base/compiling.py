"""Loops over pixels, compiled by numba when first called and kept in its cache.

Import it, and what it compiles, where it is needed: numba takes a second to import.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile without the interpreter's lock, so that threads can share the work."""
    loops = inspect.unwrap(function)  # what checks types at import wraps functions; numba cannot
    try:
        machine_code: Any = numba.njit(cache=True, nogil=True)(loops)
    except RuntimeError:  # there is no folder that numba may write its cache to
        machine_code = numba.njit(nogil=True)(loops)
    return cast(Function, machine_code)
