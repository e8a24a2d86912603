"""InputIBA once more, step by step and without torch's optimizers and normalizations."""

import math

import torch
from torch.nn import functional as F


def divergence(mean, std, other_mean, other_std):
    """KL of two Gaussians, value by value."""
    spread = (std**2 + (mean - other_mean) ** 2) / (2 * other_std**2)
    return torch.log(other_std / std) + spread - 0.5


def mirror_matrix(side, sigma):
    """What a Gaussian over +-ceil(2 sigma) cells, mirrored at the ends, does to a row."""
    radius = math.ceil(2 * sigma)
    weights = [math.exp(-((o / sigma) ** 2) / 2) for o in range(-radius, radius + 1)]
    matrix = torch.zeros(side, side, dtype=torch.float64)
    for i in range(side):
        for o, weight in zip(range(-radius, radius + 1), weights, strict=True):
            j = abs(i + o)
            matrix[i, 2 * (side - 1) - j if j >= side else j] += weight / sum(weights)
    return matrix


def passing_of(alpha, sigma):
    rows, columns = (mirror_matrix(side, sigma) for side in alpha.shape[-2:])
    return rows @ torch.sigmoid(alpha) @ columns.T


def information(passing, values, mean, std, granted):
    before = passing * granted
    return divergence(
        *(passing * values + (1 - passing) * mean, (1 - passing) * std),
        *(before * values + (1 - before) * mean, (1 - before) * std),
    )


def adam(values, mean, std, loss, granted, generator, *, beta, steps, rate, copies, sigma):
    alpha = torch.full_like(values, 5.0)
    first, second = torch.zeros_like(alpha), torch.zeros_like(alpha)
    for step in range(1, steps + 1):
        alpha = alpha.detach().requires_grad_()
        passing = passing_of(alpha, sigma)
        total = beta * information(passing, values, mean, std, granted).mean()
        noise = torch.randn((copies, *values.shape[1:]), generator=generator).double()
        for each in noise:
            mixed = passing * values + (1 - passing) * (mean + std * each)
            total = total + loss(mixed) / copies
        (slope,) = torch.autograd.grad(total, alpha)
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        unbiased = first / (1 - 0.9**step), second / (1 - 0.999**step)
        alpha = alpha.detach() - rate * unbiased[0] / (unbiased[1].sqrt() + 1e-8)
    return passing_of(alpha, sigma)


def normalized(values, scale, shift):
    """Each map by its mean and variance over the batch."""
    axes = (0, 2, 3)
    centered = values - values.mean(axes, keepdim=True)
    deviation = (centered**2).mean(axes, keepdim=True) + 1e-5
    return centered / deviation.sqrt() * scale[:, None, None] + shift[:, None, None]


def leaky(values):
    return torch.where(values > 0, values, 0.2 * values)


def judged(weights, features, halved):
    """The critic: convolution, normalization, leaky ReLU three times; then three linear layers."""
    rest = list(weights)
    for halves in (*halved, False):
        kernel, bias, scale, shift = rest[:4]
        rest = rest[4:]
        moved = F.conv2d(features, kernel, bias, stride=2 if halves else 1, padding=1)
        features = leaky(normalized(moved, scale, shift))
    values = features.reshape(len(features), -1)
    for index in range(3):
        values = values @ rest[2 * index].T + rest[2 * index + 1]
        values = values if index == 2 else leaky(values)
    return values


def critic_shapes(channels, height, width, halved):
    shapes, given = [], channels
    for returned, halves in zip((2, 4, 1), (*halved, False), strict=True):
        size = 4 if halves else 3
        if halves:
            height, width = height // 2, width // 2
        maps = returned * channels
        shapes += [(maps, given, size, size), (maps,), (maps,), (maps,)]
        given = maps
    flat = channels * height * width
    return [*shapes, (512, flat), (512,), (256, 512), (256,), (1, 256), (1,)]


def rmsprop(values, slopes, squares, rates):
    for index, slope in enumerate(slopes):
        squares[index] = 0.99 * squares[index] + 0.01 * slope**2
        step = rates[index] * slope / (squares[index].sqrt() + 1e-16)
        values[index] = (values[index].detach() - step).requires_grad_()


def adversarial_mask(image, layer, true, start, halved, generator, *, epochs, batch, clip):
    weights = []
    for shape in critic_shapes(*true.shape[1:], halved):
        drawn = torch.rand(shape, generator=generator)
        weights.append(((2 * drawn - 1) * clip).double().requires_grad_())
    channels = image.shape[1]
    made_of = [
        start.expand_as(image).clone(),
        torch.zeros(1, channels, 1, 1).double(),
        torch.ones(1, channels, 1, 1).double(),
    ]
    made_of = [each.requires_grad_() for each in made_of]
    squares = [torch.zeros_like(each) for each in weights], [torch.zeros_like(e) for e in made_of]
    rounds = 0
    for _ in range(epochs):
        order = torch.randperm(len(true), generator=generator)
        for first in range(0, len(true) - batch + 1, batch):
            if rounds % 5 == 0:
                noise = torch.randn((batch, *image.shape[1:]), generator=generator).double()
            mask, mean, std = torch.sigmoid(made_of[0]), *made_of[1:]
            made = layer(mask * image + (1 - mask) * (mean + std * noise))
            real = judged(weights, true[order[first : first + batch]], halved).mean()
            gap = judged(weights, made.detach(), halved).mean() - real
            rmsprop(weights, torch.autograd.grad(gap, weights), squares[0], [5e-5] * len(weights))
            weights = [each.detach().clamp(-clip, clip).requires_grad_() for each in weights]
            rounds += 1
            if rounds % 5 == 0:
                score = -judged(weights, made, halved).mean()
                rmsprop(
                    made_of, torch.autograd.grad(score, made_of), squares[1], [0.003, 0.1, 0.05]
                )
    return torch.sigmoid(made_of[0].detach())


def true_samples(activation, passing, samples, generator):
    means = 4 * torch.rand(10, generator=generator) - 2
    stds = 5 * torch.rand(10, generator=generator)
    noise = torch.randn((samples, *activation.shape[1:]), generator=generator).double()
    made = []
    for index in range(samples):
        group = index // (samples // 10)
        replaced = means[group].double() + stds[group].double() * noise[index]
        made.append(passing[0] * activation[0] + (1 - passing[0]) * replaced)
    return torch.stack(made)
