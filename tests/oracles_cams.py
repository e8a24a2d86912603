"""Weights of class activation maps written like their formulas, with loops over lists of numbers."""


def cells_of(maps):
    """Every row and column of maps (c, h, w)."""
    return [(y, x) for y in range(len(maps[0])) for x in range(len(maps[0][0]))]


def weighted(maps, weight, relu):
    """(h, w): sum over c of weight(c, y, x) times the map, its positive part if asked for."""
    summed = [[0.0] * len(maps[0][0]) for _ in maps[0]]
    for y, x in cells_of(maps):
        summed[y][x] = sum(weight(c, y, x) * maps[c][y][x] for c in range(len(maps)))
        if relu:
            summed[y][x] = max(summed[y][x], 0.0)
    return summed


def moments(samples, power):
    """(c, h, w): mean over samples of the gradients' power."""
    return [
        [
            [sum(g[c][y][x] ** power for g in samples) / len(samples) for x in range(len(row))]
            for y, row in enumerate(channel)
        ]
        for c, channel in enumerate(samples[0])
    ]


def gradcam_plus_plus(maps, samples, relu=True):
    """Map from gradients of several samples (s, c, h, w); from one for Grad-CAM++ itself."""
    first, second, third = (moments(samples, power) for power in (1, 2, 3))
    weights = []
    for c, activations in enumerate(maps):
        total = sum(sum(row) for row in activations)
        weight = 0.0
        for y, x in cells_of(maps):
            if second[c][y][x] == 0:
                continue
            alpha = second[c][y][x] / (2 * second[c][y][x] + total * third[c][y][x])
            weight += alpha * max(first[c][y][x], 0.0)
        weights.append(weight)
    return weighted(maps, lambda c, _y, _x: weights[c], relu)


def xgradcam(maps, gradients, relu=True):
    """Gradients weighted by the activations' shares in their sum."""
    weights = []
    for c, activations in enumerate(maps):
        total = sum(sum(row) for row in activations)
        weights.append(
            sum(activations[y][x] / total * gradients[c][y][x] for y, x in cells_of(maps))
            if total
            else 0.0
        )
    return weighted(maps, lambda c, _y, _x: weights[c], relu)


def layercam(maps, gradients, relu=True):
    """Every cell by its own gradient where that is positive."""
    return weighted(maps, lambda c, y, x: max(gradients[c][y][x], 0.0), relu)


def as_grid(tokens, rows, columns, prefix):
    """Maps (c, rows, columns) of an image's tokens (N, c), row by row behind `prefix` others."""
    return [
        [[tokens[prefix + y * columns + x][c] for x in range(columns)] for y in range(rows)]
        for c in range(len(tokens[0]))
    ]
