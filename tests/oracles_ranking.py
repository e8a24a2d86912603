"""Fusing rankings as it is defined: fractions, and one equation for each pair."""

import math
from fractions import Fraction

import numpy as np


def probability(first, second):
    """That the first method beats the second: wins, half of the ties, and a half, of T + 1 cases."""
    wins, cases = Fraction(1, 2), 0
    for one, other in zip(first, second, strict=True):
        if math.isnan(one) or math.isnan(other):
            continue
        cases += 1
        if one < other:
            wins += 1
        elif one == other:
            wins += Fraction(1, 2)
    return (wins / (cases + 1), cases)


def meta_rank(ranks):
    """Least squares over the equations kappa_p - kappa_q = L_pq, and the sum 0."""
    rows, right = [], []
    for p in range(len(ranks)):
        for q in range(p):
            chance, cases = probability(ranks[p], ranks[q])
            if cases:
                row = [0.0] * len(ranks)
                row[p], row[q] = 1.0, -1.0
                rows.append(row)
                right.append(math.log(chance / (1 - chance)))
    # The sum contradicts no other equation, so that least squares meet it exactly.
    rows.append([1.0] * len(ranks))
    right.append(0.0)
    kappa = np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0]
    residual = math.sqrt(np.mean(np.square(np.array(rows[:-1]) @ kappa - right[:-1])))
    return kappa, residual


def repeated_correlation(first, second, times):
    """Spearman's correlation of items that are written down as often as they are drawn."""

    def ranks(values):
        below = [sum(other < value for other in values) for value in values]
        alike = [sum(other == value for other in values) for value in values]
        return [low + Fraction(same + 1, 2) for low, same in zip(below, alike, strict=True)]

    drawn = [index for index, count in enumerate(times) for _ in range(count)]
    one, other = (ranks([values[index] for index in drawn]) for values in (first, second))
    center = Fraction(len(drawn) + 1, 2)
    product = sum((a - center) * (b - center) for a, b in zip(one, other, strict=True))
    square = sum((a - center) ** 2 for a in one) * sum((b - center) ** 2 for b in other)
    return product / Fraction(square) ** Fraction(1, 2) if square else math.nan
