"""Random networks in which most pixels have one path to the outputs, with an image to change."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from attributionlab.base.exact import route_of


class Case(NamedTuple):
    """A model, where a trajectory starts and ends, and the order of its pixels."""

    model: nn.Sequential
    image: Tensor  # (C, H, W)
    replacement: Tensor
    order: Tensor  # (P,)

    @property
    def asked(self) -> tuple[nn.Sequential, Tensor, Tensor, Tensor]:
        """As `trajectory` takes it."""
        return self.model, self.image, self.replacement, self.order


class _Dice:
    """Choices from one seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def upto(self, most: int) -> int:
        """An integer from 0 to `most`."""
        return int(torch.randint(most + 1, (), generator=self.generator))

    def numbers(self, shape: torch.Size, most: int) -> Tensor:
        """Integers of at most this magnitude."""
        return torch.randint(-most, most + 1, shape, generator=self.generator).double()


def random_tree(seed: int, dtype: torch.dtype = torch.float32) -> Case:
    """Pointwise layers, convolutions whose windows seldom overlap, linear layers.

    Maps and kernels are rectangular, strides wider than kernels (so that some pixels feed nothing) or
    windows interleaved by dilation, some padded beyond their kernel. Weights are dyadic, of both
    signs, so that ReLUs switch for some mixtures, and from small to so large that sums come near
    the limit.
    """
    dice = _Dice(seed)
    channels, height, width = 1 + dice.upto(2), 1 + dice.upto(6), 1 + dice.upto(6)
    layers: list[nn.Module] = [nn.ReLU()] if dice.upto(5) == 0 else []
    features = channels
    for _ in range(dice.upto(2)):
        outputs = 1 + dice.upto(2)
        layers += [nn.Conv2d(features, outputs, 1, bias=dice.upto(1) == 1), *_relu(dice)]
        features = outputs
    shape = (height, width)
    for _ in range(dice.upto(3)):
        convolution, shape = _convolution(dice, features, shape)
        layers += [convolution, *_relu(dice)]
        features = convolution.out_channels
        if dice.upto(2) == 0:
            outputs = 1 + dice.upto(1)
            layers += [nn.Conv2d(features, outputs, 1, bias=dice.upto(1) == 1), *_relu(dice)]
            features = outputs
    if shape != (1, 1) and dice.upto(1):
        layers += [nn.Conv2d(features, 2, shape), *_relu(dice)]
        features, shape = 2, (1, 1)
    layers.append(nn.Flatten())
    features *= shape[0] * shape[1]
    for _ in range(dice.upto(2) + (shape != (1, 1))):
        outputs = 1 + dice.upto(2)
        layers += [nn.Linear(features, outputs, bias=dice.upto(1) == 1), *_relu(dice)]
        features = outputs
    if dice.upto(3) == 0:
        layers.append(nn.Softmax(dim=1))
    model = nn.Sequential(*layers).to(dtype).eval()
    for parameter in model.parameters():
        most, exponent = (2, 3, 3, 9, 200)[dice.upto(4)], dice.upto(6) - 5
        parameter.data = (dice.numbers(parameter.shape, most) * 2.0**exponent).to(dtype)
    ends = dice.numbers(torch.Size((2, channels, height, width)), 3) / 2 ** dice.upto(1)
    # Few different pixels, as in drawn images, and places where nothing changes.
    same = torch.rand(height, width, generator=dice.generator) < 0.2
    ends[1] = torch.where(same, ends[0], ends[1])
    order = torch.randperm(height * width, generator=dice.generator)
    return Case(model, ends[0].to(dtype), ends[1].to(dtype), order)


def agreed(seed, dtype, served, by_passes):
    """The route of a random network, if what is served for it is what forward passes give.

    Networks that round do so in the same way in batches of one, in the same layout of memory.
    """
    case = random_tree(seed, dtype)

    def alike(images):
        return case.model(images.contiguous(memory_format=torch.channels_last))

    outputs = served(*case.asked)
    assert outputs.dtype == dtype
    assert outputs.tolist() == by_passes(alike, *case.asked[1:]), seed
    return route_of(case.model, case.image, case.replacement).name


def _relu(dice: _Dice) -> list[nn.Module]:
    return [nn.ReLU()] if dice.upto(2) else []


def _convolution(
    dice: _Dice, features: int, shape: tuple[int, int]
) -> tuple[nn.Conv2d, tuple[int, int]]:
    """A convolution that fits a map, and the shape of what it makes of it."""
    axes = [_axis(dice, size) for size in shape]
    kernel, stride, padding, dilation, sizes = zip(*axes, strict=True)
    groups = features if dice.upto(3) == 0 else 1
    outputs = groups * (1 + dice.upto(1))
    convolution = nn.Conv2d(
        features, outputs, kernel, stride, padding, dilation, groups, bias=dice.upto(1) == 1
    )
    return convolution, (sizes[0], sizes[1])


def _axis(dice: _Dice, size: int) -> tuple[int, int, int, int, int]:
    """Kernel, stride, padding, dilation and the size of the next map along one axis."""
    padding = (0, 0, 1, 2)[dice.upto(3)]
    kernel = 1 + dice.upto(min(2, size + 2 * padding - 1))
    dilation = 1 + dice.upto(1)
    reach = dilation * (kernel - 1) + 1
    if reach > size + 2 * padding:
        dilation, reach = 1, kernel
    stride = 1 if dice.upto(5) == 0 else reach + (0, 0, 0, 1, 2)[dice.upto(4)]
    return kernel, stride, padding, dilation, (size + 2 * padding - reach) // stride + 1
