"""What marks a function as a metric."""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def metric(*, higher_is_better: bool, per_sample: bool) -> Callable[[Function], Function]:
    """State on a metric which direction is better, and whether it scores samples or data sets.

    The function gets the attributes `higher_is_better` and `per_sample`; nothing else changes.
    """

    def mark(function: Function) -> Function:
        function.higher_is_better = higher_is_better  # type: ignore[attr-defined]
        function.per_sample = per_sample  # type: ignore[attr-defined]
        return function

    return mark
