"""Naive twins of DeepLift and LRP, as their papers read; nothing here imports the package.

A network is a list of layers on flat vectors of one image, one after the other:

- ("linear", W, c): z = W x + c,
- ("relu",),
- ("pool", windows): the maximum of each window, a list of places,
- ("sum", branches): the sum of what several lists of layers make of the same vector.
"""

import itertools
import math

import torch
from torch import nn

from oracles_methods import in_matrix_form

POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)


def layers_of(modules, shape):
    """The layers of a chain of modules for images (C, *size); another kind is a list of chains, which
    are summed.
    """
    layers = []
    for module in modules:
        if isinstance(module, list):
            branches = [layers_of(branch, shape) for branch in module]
            layers.append(("sum", [branch for branch, _ in branches]))
            shape = branches[0][1]
        elif isinstance(module, nn.ReLU):
            layers.append(("relu",))
        elif isinstance(module, nn.Flatten):  # the vectors are flat
            shape = (math.prod(shape),)
        elif isinstance(module, POOLS):
            how = (module.kernel_size, module.stride, module.padding, module.dilation)
            windows, shape = pool_windows(shape, *how, module.ceil_mode)
            layers.append(("pool", windows))
        else:
            layers += [("linear", *stage) for stage in in_matrix_form([module], shape)]
            shape = tuple(module(torch.zeros(1, *shape).double()).shape[1:])
    return layers, shape


def pool_windows(shape, kernel, stride, padding, dilation, ceil_mode):
    """The places (C, *size) of each window of max pooling, channel by channel; none lies outside.

    A last window begins where there is still room for it or, with `ceil_mode`, wherever it does not
    begin behind the last place and the padding in front of it.
    """
    channels, *size = shape
    starts = []
    for length in size:
        room = length + 2 * padding - dilation * (kernel - 1) - 1
        count = (math.ceil(room / stride) if ceil_mode else room // stride) + 1
        if ceil_mode and (count - 1) * stride >= length + padding:
            count -= 1
        starts.append([index * stride - padding for index in range(count)])
    windows = []
    for channel in range(channels):
        for corner in itertools.product(*starts):
            window = []
            for steps in itertools.product(range(kernel), repeat=len(size)):
                place = [at + dilation * step for at, step in zip(corner, steps, strict=True)]
                if all(0 <= at < length for at, length in zip(place, size, strict=True)):
                    flat = channel
                    for at, length in zip(place, size, strict=True):
                        flat = flat * length + at
                    window.append(flat)
            windows.append(window)
    return windows, (channels, *map(len, starts))


def highest(window, values):
    """The place of a window's maximum, the first of equals."""
    best = window[0]
    for place in window:
        if values[place] > values[best]:
            best = place
    return best


def forwards(layers, x):
    """What goes into each layer, and what comes out of the last."""
    passed = [x]
    for kind, *given in layers:
        x = passed[-1]
        if kind == "linear":
            passed.append(given[0] @ x + given[1])
        elif kind == "relu":
            passed.append(torch.stack([max(value, 0 * value) for value in x]))
        elif kind == "pool":
            passed.append(torch.stack([x[highest(window, x)] for window in given[0]]))
        else:
            passed.append(sum(forwards(branch, x)[-1] for branch in given[0]))
    return passed


def rescaled(layers, x, b, multipliers, eps):
    """DeepLift's multipliers in front of the layers, from those behind them, for x beside b."""
    here, there = forwards(layers, x), forwards(layers, b)
    for index in reversed(range(len(layers))):
        kind, *given = layers[index]
        z, z0, y, y0 = here[index], there[index], here[index + 1], there[index + 1]
        if kind == "linear":
            multipliers = given[0].T @ multipliers
        elif kind == "sum":
            branches = [rescaled(branch, z, z0, multipliers, eps) for branch in given[0]]
            multipliers = sum(branches)
        elif kind == "relu":
            slopes = [
                (y[unit] - y0[unit]) / (z[unit] - z0[unit])
                if abs(z[unit] - z0[unit]) >= eps
                else 1.0 * (z[unit] > 0)
                for unit in range(len(z))
            ]
            multipliers = multipliers * torch.tensor(slopes).to(multipliers)
        else:
            parts, gradient = torch.zeros_like(z), torch.zeros_like(z)
            for k, window in enumerate(given[0]):
                winner, winner0 = highest(window, z), highest(window, z0)
                peak = max(y[k], y0[k])
                parts[winner] += multipliers[k] * (peak - y0[k])
                parts[winner0] += multipliers[k] * (y[k] - peak)
                gradient[winner] += multipliers[k]
            multipliers = torch.stack(
                [
                    parts[place] / (z[place] - z0[place])
                    if abs(z[place] - z0[place]) >= eps
                    else gradient[place]
                    for place in range(len(z))
                ]
            )
    return multipliers


def deep_lift(layers, x, b, target, eps=1e-10):
    """Contributions m (x - b) to the change of one output, in the shape of x."""
    multipliers = torch.zeros_like(forwards(layers, x.flatten())[-1])
    multipliers[target] = 1
    found = rescaled(layers, x.flatten(), b.flatten(), multipliers, eps)
    return (found * (x - b).flatten()).reshape(x.shape)


def shares(terms, bias, rule, epsilon, gamma, alpha):
    """What part of a unit's relevance each of its terms gets."""

    def stable(divisor):
        return divisor + (epsilon if divisor >= 0 else -epsilon)

    z = sum(terms) + bias
    up, down = (sum(pick(each, 0.0) for each in [*terms, bias]) for pick in (max, min))
    if rule == "gamma":
        pick, favored = (max, up) if z >= 0 else (min, down)
        return [(each + gamma * pick(each, 0.0)) / stable(z + gamma * favored) for each in terms]
    if rule == "alpha-beta":
        return [
            alpha * max(each, 0.0) / stable(up) - (alpha - 1) * min(each, 0.0) / stable(down)
            for each in terms
        ]
    return [each / stable(z) for each in terms]


def distributed(layers, x, relevance, epsilon, rule="epsilon", gamma=0.25, alpha=2.0):
    """Relevance in front of the layers, from that behind them."""
    passed, how = forwards(layers, x), (rule, epsilon, gamma, alpha)
    for index in reversed(range(len(layers))):
        kind, *given = layers[index]
        z, y = passed[index], passed[index + 1]
        if kind == "linear":
            weights, biases = given
            parts = [
                shares((row * z).tolist(), bias.item(), *how)
                for row, bias in zip(weights, biases, strict=True)
            ]
            relevance = torch.tensor(parts, dtype=relevance.dtype).T @ relevance
        elif kind == "sum":
            whole = torch.where(y == 0, 1.0, y)  # a sum of 0 has no relevance
            relevance = sum(
                distributed(
                    *(branch, z, relevance * forwards(branch, z)[-1] / whole),
                    *(epsilon, rule, gamma, alpha),
                )
                for branch in given[0]
            )
        elif kind == "pool":
            below = torch.zeros_like(z)
            for k, window in enumerate(given[0]):
                below[highest(window, z)] += relevance[k]
            relevance = below
    return relevance  # an activation hands it on unchanged


def lrp(layers, x, target, epsilon, **how):
    """R_j = sum_k of the shares (epsilon, gamma, alpha-beta) of R_k, from the output to the input."""
    output = forwards(layers, x.flatten())[-1]
    relevance = torch.zeros_like(output)
    relevance[target] = output[target]
    return distributed(layers, x.flatten(), relevance, epsilon, **how).reshape(x.shape)
