"""What marks a function as a metric."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

from attributionlab.errors import refuse_if

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

    Raises
    ------
    AttributionLabError
        For other values.
    """
    stated = {"higher_is_better": higher_is_better, "per_sample": per_sample, "maps": maps}
    refuse_if(marking_problems(**stated))

    def mark(function: Function) -> Function:
        function.higher_is_better = higher_is_better  # type: ignore[attr-defined]
        function.per_sample = per_sample  # type: ignore[attr-defined]
        function.maps = maps  # type: ignore[attr-defined]
        return function

    return mark


def marking_problems(**stated: Any) -> list[str]:
    """What is wrong with the attributes that a metric states, each by its name."""
    allowed = {name: get_args(Scale) if name == "maps" else (True, False) for name in stated}
    return [
        f"{name} is {value!r}: take {' or '.join(map(repr, allowed[name]))}"
        for name, value in stated.items()
        # By type, too: 1 equals True, and an array equals nothing as a whole.
        if type(value) is not type(allowed[name][0]) or value not in allowed[name]
    ]
