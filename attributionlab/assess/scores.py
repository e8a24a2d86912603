"""Scores of images: one number for each, NaN where it does not apply; checked, counted, averaged."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.errors import AttributionLabError, refuse_if

__all__ = [
    "CONFIDENCE",
    "Scores",
    "applicable",
    "checked_scores",
    "mean_score",
    "of_the_same_images",
    "tail_of",
]

CONFIDENCE = 0.95
"""Of an interval, unless the user asks for another."""

Scores = NDArray[np.float64]
"""(n,), NaN where not applicable"""


def applicable(values: Scores) -> int:
    """To how many images a score applies."""
    return int((~np.isnan(values)).sum())


def mean_score(values: Scores) -> float:
    """Over the applicable images, NaN without any; exactly their score where all have the same."""
    there = values[~np.isnan(values)]
    if not len(there):
        return np.nan
    lowest = there.min()
    return float(lowest + (there - lowest).mean())


def checked_scores(values: Any, name: str) -> Scores:
    """Scores as a float64 array, or what is wrong with them."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise AttributionLabError(
            f"{name} is {values!r}: take an array with one number for each image"
        ) from None
    if array.ndim != 1:
        raise AttributionLabError(
            f"{name} has the shape {array.shape}: take one number for each image, (n,)"
        )
    if np.isinf(array).any():
        raise AttributionLabError(
            f"{name} holds {array[np.isinf(array)][0]}: take finite numbers, NaN where they do not "
            "apply"
        )
    return array


def of_the_same_images(scores: Mapping[str, Any]) -> dict[str, Scores]:
    """Several checked scores of equal length, by name."""
    arrays = {name: checked_scores(values, name) for name, values in scores.items()}
    if len({len(array) for array in arrays.values()}) > 1:
        said = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise AttributionLabError(
            f"numbers of images differ ({said}): take the scores of the same images"
        )
    return arrays


def tail_of(seed: Any, confidence: Any) -> float:
    """The probability outside an interval on either side, or all that is wrong at once."""
    problems = []
    if not isinstance(seed, Integral) or isinstance(seed, bool) or int(seed) < 0:
        problems.append(f"seed is {seed!r}: take an integer of at least 0")
    if not isinstance(confidence, Real) or not 0 < float(confidence) < 1:
        problems.append(f"confidence is {confidence!r}: take a number in (0, 1), such as 0.95")
    refuse_if(problems)
    return (1 - float(confidence)) / 2
