"""Naive twins of attribution methods, as their definitions read; nothing here imports the package."""

import math

import torch
from torch import nn

# Backpropagation methods in matrix form: a chain of layers is a list of (W, b) and None, a ReLU.


def in_matrix_form(modules, shape):
    """Every linear layer as z = W x + b on flat vectors, found by pushing unit vectors through it."""
    stages = []
    for module in modules:
        if isinstance(module, nn.ReLU):
            stages.append(None)
            continue
        if isinstance(module, nn.Flatten):  # the vectors are flat
            shape = (math.prod(shape),)
            continue
        size = math.prod(shape)
        zero, units = (
            torch.zeros(1, *shape).double(),
            torch.eye(size).double().reshape(size, *shape),
        )
        bias = module(zero)
        shape = tuple(bias.shape[1:])
        stages.append(((module(units) - bias).flatten(1).T.detach(), bias[0].flatten().detach()))
    return stages


def activations(stages, x):
    """The input of every stage, and the output of the last."""
    passed = [x.flatten()]
    for stage in stages:
        x = passed[-1]
        passed.append(x.clamp(min=0) if stage is None else stage[0] @ x + stage[1])
    return passed


def guided_backward(stages, x, target):
    """The backward pass in which a ReLU hands on a gradient if it and its own input are positive."""
    passed = activations(stages, x)
    gradient = torch.zeros_like(passed[-1])
    gradient[target] = 1
    for stage, given in reversed(list(zip(stages, passed[:-1], strict=True))):
        if stage is not None:
            gradient = stage[0].T @ gradient
        else:
            for unit in range(len(gradient)):
                if given[unit] <= 0 or gradient[unit] < 0:
                    gradient[unit] = 0
    return gradient.reshape(x.shape)


def deconvolved_backward(stages, x, target):
    """The backward pass in which a ReLU hands on a gradient if that is positive, whatever its input."""
    gradient = torch.zeros_like(activations(stages, x)[-1])
    gradient[target] = 1
    for stage in reversed(stages):
        if stage is not None:
            gradient = stage[0].T @ gradient
        else:
            for unit in range(len(gradient)):
                gradient[unit] = max(gradient[unit], 0)
    return gradient.reshape(x.shape)


def winning_probabilities(stages, x, target, dual=False):
    """p of every input of every stage, the first last: each parent draws its winner among its children.

    With `dual` the last layer's weights are negated.
    """
    passed = activations(stages, x)
    probability = torch.zeros_like(passed[-1])
    probability[target] = 1
    found = []
    for index in reversed(range(len(stages))):
        if stages[index] is not None:
            weight = -stages[index][0] if dual and index == len(stages) - 1 else stages[index][0]
            children = passed[index].tolist()
            below = [0.0] * len(children)
            for row, chance in zip(weight.tolist(), probability.tolist(), strict=True):
                excitement = [max(x, 0.0) * max(w, 0.0) for x, w in zip(children, row, strict=True)]
                for child, part in enumerate(excitement):
                    if part > 0:
                        below[child] += chance * part / sum(excitement)
            probability = torch.tensor(below, dtype=torch.float64)
        found.append(probability)
    return found


# Occlusion: the window slides over every place it can start at, one forward pass each.


def occlusion(model, image, baseline, target, window, stride):
    """(H, W): the mean fall of the output over the windows that cover a pixel; image (C, H, W)."""
    height, width = image.shape[1:]
    falls = [[[] for _ in range(width)] for _ in range(height)]
    before = model(image[None])[0, target].item()
    top = 0
    while True:
        left = 0
        while True:
            hidden = image.clone()
            covered = [
                (y, x)
                for y in range(top, min(top + window, height))
                for x in range(left, min(left + window, width))
            ]
            for y, x in covered:
                hidden[:, y, x] = baseline[:, y, x]
            fall = before - model(hidden[None])[0, target].item()
            for y, x in covered:
                falls[y][x].append(fall)
            if left + window >= width:
                break
            left += stride
        if top + window >= height:
            break
        top += stride
    return torch.tensor([[sum(each) / len(each) for each in row] for row in falls])


# LIME and its superpixels


def keep(image, baseline, labels, kept):
    """(C, H, W): the image where the pixel's superpixel is kept, else the baseline."""
    return [
        [
            [image[c][y][x] if kept[labels[y][x]] else baseline[c][y][x] for x in range(len(row))]
            for y, row in enumerate(channel)
        ]
        for c, channel in enumerate(image)
    ]


def proximity(kept, width):
    """exp(-D^2 / (2 width^2)) with the cosine distance D between kept and keeping everything."""
    length = math.sqrt(sum(z * z for z in kept)) * math.sqrt(len(kept))
    distance = 1 - (sum(kept) / length if length else 0.0)
    return math.exp(-(distance**2) / (2 * width**2))


def solve(matrix, right):
    """Gaussian elimination, the largest pivot first."""
    rows = [
        [float(value) for value in row] + [float(b)] for row, b in zip(matrix, right, strict=True)
    ]
    n = len(rows)
    for k in range(n):
        best = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[best] = rows[best], rows[k]
        for i in range(n):
            if i != k:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [rows[k][n] / rows[k][k] for k in range(n)]


def lime_coefficients(kept, outputs, alpha, width):
    """Weighted least squares with a penalty on all coefficients but the intercept."""
    features = [[*map(float, z), 1.0] for z in kept]
    weights = [proximity(z, width) for z in kept]
    size = len(features[0])
    matrix = [[0.0] * size for _ in range(size)]
    right = [0.0] * size
    for z, y, w in zip(features, outputs, weights, strict=True):
        for i in range(size):
            right[i] += w * z[i] * y
            for j in range(size):
                matrix[i][j] += w * z[i] * z[j]
    for i in range(size - 1):
        matrix[i][i] += alpha
    return solve(matrix, right)[:-1]


def smallest_mask(masks, y, x):
    """Which mask a pixel goes to: the smallest one that holds it, of equals the last; -1 for none."""
    winner, least = -1, math.inf
    for number, mask in enumerate(masks):
        size = sum(bool(value) for row in mask for value in row)
        if mask[y][x] and size <= least:
            winner, least = number, size
    return winner


# Maps and masks: GradCAM, the information bottleneck, extremal perturbations. Rows are lists.


def enlarge(rows, height, width):
    """Bilinear: pixel centers at halves, nothing but the edge beyond it."""

    def places(size, old):
        for new in range(size):
            place = min(max((new + 0.5) * old / size - 0.5, 0), old - 1)
            low = min(int(place), old - 1)
            yield low, min(low + 1, old - 1), place - low

    return [
        [
            (1 - down) * ((1 - right) * rows[y][x] + right * rows[y][u])
            + down * ((1 - right) * rows[v][x] + right * rows[v][u])
            for x, u, right in places(width, len(rows[0]))
        ]
        for y, v, down in places(height, len(rows))
    ]


def gradcam(maps, gradients, relu=True):
    """(h, w): maps times the spatial mean of their gradients, summed, positive part."""
    height, width = len(maps[0]), len(maps[0][0])
    weights = [sum(sum(row) for row in gradient) / (height * width) for gradient in gradients]
    summed = [
        [sum(w * m[y][x] for w, m in zip(weights, maps, strict=True)) for x in range(width)]
        for y in range(height)
    ]
    return [[max(value, 0.0) if relu else value for value in row] for row in summed]


def linear_approximation(maps, gradients):
    """(h, w): maps times their gradients, summed over maps."""
    return [
        [
            sum(m[y][x] * g[y][x] for m, g in zip(maps, gradients, strict=True))
            for x in range(len(maps[0][0]))
        ]
        for y in range(len(maps[0]))
    ]


def divergence(mean, std, other_mean, other_std):
    """KL(N(mean, std^2) || N(other_mean, other_std^2)), in nats."""
    spread = std**2 + (mean - other_mean) ** 2
    return math.log(other_std / std) + spread / (2 * other_std**2) - 0.5


def mirrored_smoothing(rows, sigma):
    """A Gaussian of 2 ceil(2 sigma) + 1 cells a side, the map mirrored at its outermost cells."""
    radius = math.ceil(2 * sigma)

    def mirror(place, size):
        return abs(place) if place < size else 2 * (size - 1) - place

    offsets = range(-radius, radius + 1)
    weights = {(d, r): math.exp(-(d**2 + r**2) / (2 * sigma**2)) for d in offsets for r in offsets}
    height, width = len(rows), len(rows[0])
    return [
        [
            sum(
                weight * rows[mirror(y + d, height)][mirror(x + r, width)]
                for (d, r), weight in weights.items()
            )
            / sum(weights.values())
            for x in range(width)
        ]
        for y in range(height)
    ]


def smooth_mask(cells, height, width, sigma, step):
    """The smooth maximum, at coldness 20, of all cells within 2 sigma, seen by the kernel."""
    mask = []
    for y in range(height):
        mask.append([])
        for x in range(width):
            weighted = total = 0.0
            for i, row in enumerate(cells):
                for j, cell in enumerate(row):
                    middle = step * i + (step - 1) / 2, step * j + (step - 1) / 2
                    distance = math.dist((y, x), middle)
                    if distance <= 2 * sigma:
                        value = math.exp(-2 * max(0, distance / sigma - 0.5) ** 2) * cell
                        weighted += value * math.exp(20 * value)
                        total += math.exp(20 * value)
            mask[-1].append(weighted / total)
    return mask


def area_gap(values, area):
    """Mean squared distance of the sorted values from 0, ..., 0, 1, ..., 1."""
    values = sorted(values)
    zeros = len(values) - round(area * len(values))
    return sum((v - (k >= zeros)) ** 2 for k, v in enumerate(values)) / len(values)


def gaussian_blur(rows, sigma):
    """A Gaussian cut off at 4 sigma, the edge's values beyond it."""
    radius = int(4 * sigma + 0.5)
    weights = [math.exp(-(d**2) / (2 * sigma**2)) for d in range(-radius, radius + 1)]
    height, width = len(rows), len(rows[0])
    return [
        [
            sum(
                weights[d + radius]
                * weights[r + radius]
                * rows[min(max(y + d, 0), height - 1)][min(max(x + r, 0), width - 1)]
                for d in range(-radius, radius + 1)
                for r in range(-radius, radius + 1)
            )
            / sum(weights) ** 2
            for x in range(width)
        ]
        for y in range(height)
    ]


def between_levels(levels, mask):
    """The value of a pixel at the height (1 - mask) among levels of equal distance."""
    height = (1 - mask) * (len(levels) - 1)
    low = min(int(height), len(levels) - 2)
    return levels[low] + (height - low) * (levels[low + 1] - levels[low])


# Ensembles over noisy samples: each value by itself, from the values that the samples' maps have there.


def mean(values):
    return sum(values) / len(values)


def mean_of_squares(values):
    return mean([value * value for value in values])


def variance(values):
    return mean([(value - mean(values)) ** 2 for value in values])
