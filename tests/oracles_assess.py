"""Naive twins of what a test is assessed by, written as the definitions read.

Nothing here imports the package. Numbers and flat sequences in, numbers out.
"""

import math
from collections.abc import Sequence

# Where the missing F1 goes. Rows of pixels as flat sequences; a kind is one of the four words below.


def robust_side(values: Sequence[float], relevant: int) -> list[float]:
    """One side of a map, values >= 0: divided by its robust maximum if the maximum is over twice that.

    Passed over are the largest 1 % of as many values as there are relevant pixels, at least one.
    """
    ranked = sorted(values, reverse=True)
    outliers = max(1, math.ceil(relevant / 100))
    robust = ranked[min(outliers, len(ranked) - 1)]
    if robust == 0 or ranked[0] <= 2 * robust:
        return list(values)
    return [min(1.0, value / robust) for value in values]


def missing_shares(
    attribution: Sequence[float],
    signs: Sequence[int],
    kinds: Sequence[str],
    part: str,
) -> dict[str, float] | None:
    """1 - F1 of one image split over the pixels' fates; None where there is no such truth."""
    own = {"overall": 0, "positive": 1, "negative": -1}[part]
    truth = [sign != 0 if own == 0 else sign == own for sign in signs]
    if not any(truth):
        return None
    positive = robust_side([max(a, 0.0) for a in attribution], sum(s > 0 for s in signs))
    negative = robust_side([max(-a, 0.0) for a in attribution], sum(s < 0 for s in signs))
    wrong = right = 0.0
    for a, sign in zip(attribution, signs, strict=True):
        if a * sign < 0:
            wrong += abs(a)
        elif a * sign > 0:
            right += abs(a)
    flipped = wrong > 0 and wrong >= 0.9 * (wrong + right)
    lost: dict[str, float] = {}
    total = 0.0

    def lose(name: str, amount: float) -> None:
        lost[name] = lost.get(name, 0.0) + amount

    for index, a in enumerate(attribution):
        if own == 0:
            found, would_be = abs(a), positive[index] + negative[index]
            against = 0.0
        else:
            found = max(a * own, 0.0)
            would_be, against = (
                (positive[index], negative[index])
                if own > 0
                else (negative[index], positive[index])
            )
        total += found + truth[index]
        if not truth[index]:
            if signs[index] == 0:
                lose("other classes" if kinds[index] == "counted" else kinds[index], found)
            else:
                lose("whole-image sign flips" if flipped else "wrong sign", found)
        elif against > 0.05:
            lose("whole-image sign flips" if flipped else "wrong sign", 1.0)
        else:
            lose("outliers", would_be - found)
            lose("uneven values" if would_be > 0.05 else "relevant missed", 1 - would_be)
    return {name: amount / total for name, amount in lost.items()}
