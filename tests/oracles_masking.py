"""Naive twins of methods that remove superpixels; nothing here imports the package."""

import math
from itertools import combinations

from oracles_methods import keep, solve


def players_of(image, baseline, labels):
    """The superpixels of which some value differs from the baseline's."""
    return sorted(
        {
            labels[y][x]
            for y in range(len(labels))
            for x in range(len(labels[0]))
            if any(image[c][y][x] != baseline[c][y][x] for c in range(len(image)))
        }
    )


def worth(value, image, baseline, labels, members):
    """The output with these superpixels shown and all others replaced."""
    present = [label in members for label in range(1 + max(map(max, labels)))]
    return value(keep(image, baseline, labels, present))


def spread(labels, worths):
    """(H, W): every pixel has an equal share of its superpixel's worth; 0 without one."""
    flat = [label for row in labels for label in row]
    return [[worths.get(label, 0.0) / flat.count(label) for label in row] for row in labels]


def ablation_effects(value, image, baseline, labels):
    """By superpixel, the output's fall without it."""
    everybody = set(range(1 + max(map(max, labels))))
    before = value(image)
    return {
        label: before - worth(value, image, baseline, labels, everybody - {label})
        for label in everybody
    }


def contributions(value, image, baseline, labels, order):
    """By superpixel, what it takes along when it leaves in this order."""
    members, taken = set(order), {}
    for label in order:
        before = worth(value, image, baseline, labels, members)
        members = members - {label}
        taken[label] = before - worth(value, image, baseline, labels, members)
    return taken


def shapley_values(value, image, baseline, labels):
    """By superpixel, the sum over all coalitions of the others."""
    players = players_of(image, baseline, labels)
    n, values = len(players), {}
    for player in players:
        others = [each for each in players if each != player]
        values[player] = sum(
            math.factorial(size)
            * math.factorial(n - size - 1)
            / math.factorial(n)
            * (
                worth(value, image, baseline, labels, {*some, player})
                - worth(value, image, baseline, labels, set(some))
            )
            for size in range(n)
            for some in combinations(others, size)
        )
    return values


def constrained_least_squares(rows, outputs, total, weights):
    """Coefficients of weighted least squares that sum to `total`, by a Lagrange multiplier."""
    n = len(rows[0])
    all_of_it = list(zip(rows, outputs, weights, strict=True))
    matrix = [
        [2.0 * sum(w * z[i] * z[j] for z, _, w in all_of_it) for j in range(n)] + [1.0]
        for i in range(n)
    ]
    right = [2.0 * sum(w * z[i] * y for z, y, w in all_of_it) for i in range(n)]
    return solve([*matrix, [1.0] * n + [0.0]], [*right, total])[:-1]
