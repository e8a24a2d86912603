"""Networks with given weights, and trajectories through them."""

import torch
from torch import nn

import oracles
from attributionlab.base.exact import route_of, trajectories


def by_passes(model, image, replacement, order, counts=None):
    """One forward pass for each of the counts."""
    with torch.no_grad():
        ends = replacement.broadcast_to(image.shape)
        return oracles.trajectory(model, image, ends, order.tolist(), counts)


def followed(model, image, replacement, order, counts=None):
    """The outputs of a model that has to be served incrementally."""
    route = route_of(model, image, replacement)
    assert route == (
        "incremental",
        "every pixel has one path to the outputs, and no sum is rounded",
    )
    return trajectories(model, image[None], replacement, order[None, None], counts=counts)[0, 0]


def given(layer, weight, bias=None):
    """A layer with these weights."""
    layer.weight.data = torch.tensor(weight, dtype=torch.float32).reshape(layer.weight.shape)
    if bias is not None:
        layer.bias.data = torch.tensor(bias, dtype=torch.float32)
    return layer


def pair(weight, bias=None):
    """A convolution over two pixels of one channel, one row of weights for each output."""
    convolution = nn.Conv2d(1, len(weight), (1, 2), bias=bias is not None)
    return nn.Sequential(given(convolution, weight, bias), nn.Flatten())


def pointwise(outputs, weight, bias=None):
    """A 1x1 convolution."""
    inputs = torch.tensor(weight).numel() // outputs
    return given(nn.Conv2d(inputs, outputs, 1, bias=bias is not None), weight, bias)


def linear(outputs, weight, bias=None):
    """A linear layer."""
    inputs = torch.tensor(weight).numel() // outputs
    return given(nn.Linear(inputs, outputs, bias=bias is not None), weight, bias)


def sums(channels=1):
    """Each channel over two pixels."""
    layer = nn.Conv2d(channels, channels, (1, 2), groups=channels, bias=False)
    return given(layer, [1.0] * 2 * channels)
