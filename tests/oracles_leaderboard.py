"""A leaderboard as it is defined: one image, one step, one resample at a time."""

import math
from itertools import pairwise


def accuracy(logits, label):
    """1, shared among the classes with the largest logit."""
    best = [index for index, value in enumerate(logits) if value == max(logits)]
    return 1 / len(best) if label in best else 0.0


def probability(logits, label, temperature):
    weights = [math.exp((value - max(logits)) / temperature) for value in logits]
    return weights[label] / sum(weights)


def curve(answer, image, order, pixel):
    """What a function of images says after 0, 1, ..., all pixels became another, in an order."""
    current = image.clone()
    width = image.shape[2]
    values = [answer(current)]
    for place in order:
        current[:, place // width, place % width] = pixel
        values.append(answer(current))
    return values


def area(values):
    """By trapezoids over the fraction removed."""
    steps = len(values) - 1
    return sum((one + other) / 2 for one, other in pairwise(values)) / steps


def ranks(scores, lower_is_better):
    """1 is best; equal ones share the mean of their ranks; None has none."""
    known = sorted((score for score in scores if score is not None), reverse=not lower_is_better)
    result = []
    for score in scores:
        places = [place for place, other in enumerate(known, start=1) if other == score]
        result.append(sum(places) / len(places) if score is not None else None)
    return result


def spearman(first, second):
    """Pearson's correlation of ranks; None where one of them is constant."""
    first, second = ranks(first, True), ranks(second, True)
    mean = (len(first) + 1) / 2
    product = sum((one - mean) * (other - mean) for one, other in zip(first, second, strict=True))
    scale = sum((one - mean) ** 2 for one in first) * sum((other - mean) ** 2 for other in second)
    return product / math.sqrt(scale) if scale else None


def mean(values):
    """Over those that there are; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def single_cases(ranked, target):
    """Mean correlation of cases, each a list of ranks by method (None: missing), with scores."""
    found = []
    for case in ranked:
        there = [method for method, rank in enumerate(case) if rank is not None]
        found.append(spearman([-case[each] for each in there], [target[each] for each in there]))
    return mean(found)


# Metrics in worlds


def between(correlations, apart, first, second):
    """Mean over the questions that tell two definitions apart; None without any."""
    return mean(
        [
            each[first] - each[second]
            for each, told in zip(correlations, apart, strict=True)
            if told[first][second] and each[first] is not None and each[second] is not None
        ]
    )


def estimated(names, contrasts, correlations, differences, interval):
    """Which definition of the truth a metric estimates.

    Lists by world, None where there is nothing; `interval` gives the two ends for the mean of a list.
    """

    def side(values):
        """Of 0: means that differ from it by 1e-12 are rounding."""
        if sum(value is not None for value in values) < 6:
            return "unknown"
        low, high = interval(values)
        return "above" if low > 1e-12 else "not above" if high <= 1e-12 else "unknown"

    means = [mean([world[place] for world in correlations]) for place in range(len(names))]
    ranked = sorted(
        (place for place in range(len(names)) if means[place] is not None),
        key=lambda place: -means[place],
    )
    sides = [side(contrasts)] + [
        side([world[place] for world in correlations]) for place in ranked[:1]
    ]
    if "not above" in sides:
        return "none"
    for place in ranked[:1]:
        for other in range(len(names)):
            if other != place:
                sides.append(side([world[place][other] for world in differences]))
        if set(sides) == {"above"}:
            return names[place]
    return "not told apart"


def welch(first, second, quantile):
    """Difference of means and its interval; `quantile`: of Student's t, by degrees of freedom."""
    parts = []
    for values in (first, second):
        center = sum(values) / len(values)
        parts.append(sum((v - center) ** 2 for v in values) / (len(values) - 1) / len(values))
    difference = sum(first) / len(first) - sum(second) / len(second)
    freedom = sum(parts) ** 2 / (
        parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(second) - 1)
    )
    reach = quantile(freedom) * math.sqrt(sum(parts))
    return difference, difference - reach, difference + reach
