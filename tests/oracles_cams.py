"""Weights of class activation maps written like their formulas, with loops over lists of numbers."""

import math

import torch

from oracles_methods import enlarge


def tapped(model, layer, images, target):
    """What a layer of a torch network returns for images, and the gradient of an output there."""
    seen = []
    handle = layer.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    output = model(images)[:, target].sum()
    handle.remove()
    return seen[0], torch.autograd.grad(output, seen)[0]


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


def hirescam(maps, gradients, relu=True):
    """Every cell by its own gradient."""
    return weighted(maps, lambda c, y, x: gradients[c][y][x], relu)


def scorecam(maps, image, baseline, output, relu=True):
    """Maps by the softmax of how far what each shows of an image (C, H, W) raises an output."""
    height, width = len(image[0]), len(image[0][0])
    increases = []
    for each in maps:
        large = enlarge(each, height, width)
        low, high = min(map(min, large)), max(map(max, large))
        if low == high:
            increases.append(-math.inf)
            continue
        shown = [
            [
                [
                    image[k][y][x] * (large[y][x] - low) / (high - low)
                    + baseline[k][y][x] * (high - large[y][x]) / (high - low)
                    for x in range(width)
                ]
                for y in range(height)
            ]
            for k in range(len(image))
        ]
        increases.append(output(shown) - output(baseline))
    total = sum(math.exp(each) for each in increases)
    return weighted(maps, lambda c, _y, _x: math.exp(increases[c]) / total, relu)


def ablationcam(maps, output, relu=True):
    """Maps by the share of an output, a function of all maps, that is lost without each."""
    whole = output(maps)
    weights = []
    for c in range(len(maps)):
        zeros = [[0.0] * len(row) for row in maps[c]]
        weights.append((whole - output([*maps[:c], zeros, *maps[c + 1 :]])) / whole)
    return weighted(maps, lambda c, _y, _x: weights[c], relu)


def as_grid(tokens, rows, columns, prefix):
    """Maps (c, rows, columns) of an image's tokens (N, c), row by row behind `prefix` others."""
    return [
        [[tokens[prefix + y * columns + x][c] for x in range(columns)] for y in range(rows)]
        for c in range(len(tokens[0]))
    ]
