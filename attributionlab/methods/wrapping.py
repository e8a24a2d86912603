"""What a method that is made of another one takes from it: settings, name, what it declares."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.errors import AttributionLabError
from attributionlab.validation import shown


def parameters_of(method: Any) -> Mapping[str, inspect.Parameter]:
    """What a method takes by name; refused with an `AttributionLabError` where that is not known."""
    try:
        return inspect.signature(method).parameters
    except (TypeError, ValueError) as error:
        raise AttributionLabError(
            f"the method is {shown(method)}, whose parameters are not known: pass a function "
            "f(model, inputs, targets, **settings)"
        ) from error


def declared(method: Any, key: str) -> Any:
    """What a method declares, or the one that a partial is of; None for nothing."""
    return getattr(method.func if isinstance(method, partial) else method, key, None)


def name_of(method: Any) -> str:
    """As Python has it; an object goes by its type."""
    return str(declared(method, "__name__") or type(method).__name__)


def kebab(method: Any) -> str:
    """As the command line has it."""
    return name_of(method).replace("_", "-")


def presented(
    function: Callable[..., Tensor],
    name: str,
    docstring: str,
    module: str,
    parameters: Iterable[inspect.Parameter],
) -> Callable[..., Tensor]:
    """A function under a name, with the docstring, module and parameters that `inspect` shows of it."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = docstring
    ordered = sorted(parameters, key=lambda parameter: parameter.kind)
    function.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    return function


def stored(maps: Float[Tensor, "..."], dtype: torch.dtype) -> Float[Tensor, "..."]:
    """Maps in a type, or as they are if that cannot hold them: squares reach twice as far."""
    sizes, limits = maps.abs(), torch.finfo(dtype)
    lost = (sizes > limits.max) & sizes.isfinite() | (sizes < limits.tiny) & (sizes > 0)
    return maps if lost.any() else maps.to(dtype)
