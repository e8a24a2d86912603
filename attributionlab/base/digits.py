"""Scores and correlations as text: how many digits they are shown with."""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


def score_text(value: float | None, gamma: float) -> str:
    """Two digits behind the point, or three or four where fewer hide on which side of gamma it lies.

    Where four hide it too, they are rounded away from gamma.
    """
    if value is None:
        return "n/a"
    for digits in (2, 3, 4):
        text = f"{value:.{digits}f}"
        if (float(text) >= gamma) == (value >= gamma):
            return text
    away = ROUND_FLOOR if value < gamma else ROUND_CEILING
    return str(Decimal(value).quantize(Decimal("0.0001"), away))


def interval_text(interval: Sequence[float] | None, gamma: float) -> str:
    """Both ends of an interval, empty where there is none."""
    return "" if interval is None else " to ".join(score_text(end, gamma) for end in interval)


def correlation_text(value: float, low: float, high: float) -> str:
    """A correlation to two digits with its interval, empty where there is none.

    Examples
    --------
    >>> nan = float("nan")
    >>> correlation_text(0.608, -0.001, 0.832), correlation_text(0.5, nan, nan)
    ('0.61 [0.00, 0.83]', '0.50')
    """
    if math.isnan(value):
        return ""
    return f"{value:z.2f}" if math.isnan(low) else f"{value:z.2f} [{low:z.2f}, {high:z.2f}]"
