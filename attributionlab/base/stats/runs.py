"""Several runs of a method that optimizes: their names, the lowest and the highest of their numbers."""

import math
from collections.abc import Callable, Mapping, Sequence

OfRuns = Callable[[Sequence[float | None]], float | None]
"""A number of each run -> one of them; None or NaN where it does not apply."""


def run_name(method: str, index: int) -> str:
    """The name of a run, counted from 0: the first one goes by the name of the method."""
    return f"{method}, run {index + 1}" if index else method


def over_runs(runs: int) -> Mapping[str, OfRuns]:
    """Rows below a method that optimizes: their names, and what each takes of the numbers of all runs.

    The first run is among them. Nothing stands below a single run.

    Examples
    --------
    >>> {name: end([0.7, 0.6, 0.75]) for name, end in over_runs(3).items()}
    {'lowest of 3 runs': 0.6, 'highest of 3 runs': 0.75}
    >>> over_runs(1)
    {}
    """
    if runs < 2:
        return {}
    return {f"lowest of {runs} runs": _lowest, f"highest of {runs} runs": _highest}


def _lowest(numbers: Sequence[float | None]) -> float | None:
    return min(_known(numbers), default=None)


def _highest(numbers: Sequence[float | None]) -> float | None:
    return max(_known(numbers), default=None)


def _known(numbers: Sequence[float | None]) -> list[float]:
    return [number for number in numbers if number is not None and not math.isnan(number)]
