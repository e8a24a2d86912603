"""Naive twins of path methods over several starts; nothing here imports the package."""

import math

import numpy as np
import torch


def gradient(model, point, target):
    """Gradient of one output at one point (C, H, W)."""
    leaf = point.clone().requires_grad_()
    model(leaf[None])[0, target].backward()
    return leaf.grad


def integrated(model, x, b, target, steps):
    """(x - b) times the gradient at Gauss-Legendre nodes, one by one."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros_like(x)
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        total += weight / 2 * gradient(model, b + (node + 1) / 2 * (x - b), target)
    return (x - b) * total


def averaged(model, x, starts, target, steps):
    """The mean over starts."""
    return sum(integrated(model, x, b, target, steps) for b in starts) / len(starts)


def gradient_shap(model, image, starts, target, which, noise, along):
    """The mean over samples of (x - b) times the gradient at a point between; noise is added to x."""
    total = torch.zeros_like(image)
    for index, moved, u in zip(which, noise, along, strict=True):
        x, b = image + moved, starts[index]
        total += (x - b) * gradient(model, b + u * (x - b), target)
    return total / len(which)


def blurred(image, sigma):
    """Under a Gaussian cut off after 4 sigma, pixel by pixel; edge pixels continue outside."""
    channels, height, width = image.shape
    reach = int(4 * sigma + 0.5)
    result = torch.zeros_like(image)
    for y in range(height):
        for x in range(width):
            weights = 0.0
            for down in range(-reach, reach + 1):
                for right in range(-reach, reach + 1):
                    weight = math.exp(-(down**2 + right**2) / (2 * sigma**2))
                    row, column = (
                        min(max(y + down, 0), height - 1),
                        min(max(x + right, 0), width - 1),
                    )
                    weights += weight
                    for channel in range(channels):
                        result[channel, y, x] += weight * image[channel, row, column]
            result[:, y, x] /= weights
    return result
