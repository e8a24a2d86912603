"""What other runs make of a number: the lowest and the highest of several."""

import math
from collections.abc import Callable, Mapping, Sequence

__all__ = ["over_runs"]

Numbers = Sequence[float | None]
"""One for each run; None or NaN where it does not apply."""


def over_runs(runs: int) -> Mapping[str, Callable[[Numbers], float | None]]:
    """The rows below that of a method that optimizes: what they are called, and what they say.

    Each takes a number of every run, the first one among them. Nothing stands below a single run.

    Examples
    --------
    >>> from attributionlab.assess import over_runs
    >>> {name: end([0.7, 0.6, 0.75]) for name, end in over_runs(3).items()}
    {'lowest of 3 runs': 0.6, 'highest of 3 runs': 0.75}
    >>> over_runs(1)
    {}
    """
    if runs < 2:
        return {}
    return {f"lowest of {runs} runs": _lowest, f"highest of {runs} runs": _highest}


def _lowest(numbers: Numbers) -> float | None:
    return min(_known(numbers), default=None)


def _highest(numbers: Numbers) -> float | None:
    return max(_known(numbers), default=None)


def _known(numbers: Numbers) -> list[float]:
    return [number for number in numbers if number is not None and not math.isnan(number)]
