"""Small data sets, models and maps for the tests of soundness, completeness and ROAD."""

from fractions import Fraction
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

import oracles_soundness as oracles

KINDS = ("ties", "sparse", "constant", "levels", "reals")
"""Kinds of maps, all within [0, 1]."""


class Case(NamedTuple):
    """Sums of integers, which are exact, so that outputs tie where they should."""

    model: nn.Module
    images: Tensor
    labels: Tensor
    maps: Tensor

    def twin(self):
        """Its maps and its performance, in black where pixels are removed."""
        maps = [oracles.map_of(each) for each in self.maps]
        return maps, self.performance()

    def performance(self, indicator=oracles.accuracy):
        def impute(_, image, kept):
            return oracles.blackened(image, kept)

        return oracles.performance_of(self.model, self.images, self.labels, impute, indicator)


def linear(weights):
    """Outputs (B, K) that are sums over all values of an image, for weights (K, C H W)."""
    layer = nn.Linear(weights.shape[1], len(weights), bias=False).requires_grad_(False)
    layer.weight.copy_(weights)
    return nn.Sequential(nn.Flatten(), layer).eval()


def maps_of(kind, shape, generator):
    draw = partial(torch.randint, generator=generator)
    if kind == "ties":
        return draw(0, 3, shape) / 2
    if kind == "sparse":
        maps = draw(0, 3, shape) * (torch.rand(shape, generator=generator) < 0.3) / 2
        maps[0] = 0
        return maps
    if kind == "constant":
        return (draw(1, 9, shape[:1]) / 8).view(-1, 1, 1, 1).expand(shape).clone()
    if kind == "levels":
        return draw(0, 256, shape) / 255
    return torch.rand(shape, generator=generator)


def case_of(seed, kind="ties", count=None):
    """One to ten images of up to twelve pixels in [0, 3], one or two channels, two or three classes."""
    generator = torch.Generator().manual_seed(seed)
    draw = partial(torch.randint, generator=generator)
    drawn = (1, 2, 3, 10)[int(draw(0, 4, ()))]
    count = drawn if count is None else count
    channels, height, width = (int(draw(1, most + 1, ())) for most in (2, 3, 4))
    classes = int(draw(2, 4, ()))
    images = draw(0, 4, (count, channels, height, width)).float()
    model = linear(draw(-2, 3, (classes, channels * height * width)).float())
    labels = draw(0, classes, (count,))
    return Case(model, images, labels, maps_of(kind, (count, 1, height, width), generator))


def black(images, keep):
    """The imputation that `Case.performance` uses."""
    return images * keep


SETUP = {"value_range": (0, 3), "imputation": black, "nothing_kept": 0.0}


def tenth(outputs, targets):
    """An indicator that stays small."""
    best = outputs == outputs.amax(1, keepdim=True)
    return best[torch.arange(len(targets)), targets] / best.sum(1).double() / 10


def exact_tenth(outputs, label):
    return oracles.accuracy(outputs, label) / 10


INDICATORS = {"accuracy": oracles.accuracy, tenth: exact_tenth}


class Share(nn.Module):
    """One output: the share of the information (1, 1, H, W) that is not black in an image."""

    def __init__(self, information):
        super().__init__()
        self.register_buffer("information", information.double() / information.double().sum())
        self.eval()

    def forward(self, images):
        return ((images != 0) * self.information).sum((1, 2, 3))[:, None]


def first_output(outputs, targets):
    """The indicator that reads it."""
    return outputs[:, 0]


def floats(values):
    """Fractions as numbers, None as NaN."""
    return [float("nan") if value is None else float(value) for value in values]


def falling_ratios(pixels, seed):
    """Masked shares of the area, some of them multiples of a pixel, some not."""
    generator = torch.Generator().manual_seed(seed)
    chosen = {int(k) / pixels for k in torch.randint(0, pixels + 1, (4,), generator=generator)} | {
        round(float(each), 2) for each in torch.rand(3, generator=generator)
    }
    return sorted(chosen, reverse=True)


def fraction(number):
    """What a decimal number means."""
    return Fraction(str(number))
