"""What marks a function as a metric."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

Scale = Literal["signed", "nonnegative", "unit"]
"""Maps that a metric is defined for: any, those of at least 0, or those in [0, 1]."""


def metric(
    *, higher_is_better: bool, per_sample: bool, maps: Scale = "signed"
) -> Callable[[Function], Function]:
    """State on a metric which direction is better, what it scores, and for which maps.

    The function gets the attributes `higher_is_better`, `per_sample` and `maps`; nothing else changes.

    Parameters
    ----------
    higher_is_better : bool
        Otherwise lower scores are better.
    per_sample : bool
        Whether it scores each sample of a batch; otherwise the data set as a whole.
    maps : {"signed", "nonnegative", "unit"}
        Which maps it is defined for: any, those of at least 0, or those in [0, 1]. `al.metric_test`
        hands the positive values of a map to the last two, scaled to a maximum of 1 to the last.
    """

    def mark(function: Function) -> Function:
        function.higher_is_better = higher_is_better  # type: ignore[attr-defined]
        function.per_sample = per_sample  # type: ignore[attr-defined]
        function.maps = maps  # type: ignore[attr-defined]
        return function

    return mark
