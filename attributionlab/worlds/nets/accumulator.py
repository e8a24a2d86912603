r"""Accumulators: convolutions that add up each channel over the whole image.

Every kernel is 3 x 3 and as wide as its stride, so each pixel is covered exactly once: with a map of
side s, zero padding p = -s mod 3 in front makes s + p a multiple of 3 (what PyTorch pads behind, the
stride drops), and ceil(s / 3) is the side of the next map. The last map has side 1 (at 224: 224 -> 75
-> 25 -> 9 -> 3 -> 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.base import (
    EXACT_STEPS,
    AttributionLabError,
    Count,
    ImageSide,
    Within,
    checked_arguments,
    grid_step,
)
from attributionlab.worlds.nets.detector import Redundant
from attributionlab.worlds.nets.exactness import LayerBudget, Signal, check_budget
from attributionlab.worlds.nets.stage import convolution

KERNEL = 3
FINEST, COARSEST = 6, 1
"""Grids of the non-uniform weights: multiples of 2^-6 where the budget allows, at least of 2^-1."""
REDUNDANT_GRID = 0.25
"""Weights of redundant channels and their strength are multiples of this."""
MOST_CHANNELS = 1024
"""Far above any use, far below what exhausts memory before the exactness budget can refuse it."""

Channels = Annotated[int, Within(least=1, most=MOST_CHANNELS)]
Strength = Annotated[float, Within(least=0, most=EXACT_STEPS)]
"""Beyond it float32 has no multiples of 1/4."""


@dataclass(frozen=True)
class Level:
    """One step of the kernel chain: the modules whose outputs it shows, and the side of its map."""

    side: int
    output: nn.Module
    hidden: nn.Module | None = None


@dataclass(frozen=True)
class Accumulator:
    """A chain of convolutions with what is known about it.

    - `module`: convolutions, each followed by its ReLU: (B, C, H, W) -> (B, channels, 1, 1).
    - `levels`: the maps on the way.
    - `budgets`: one per convolution.
    - `signal`: bound and grid of the sums.
    """

    module: nn.Sequential
    levels: list[Level] = field(repr=False)
    budgets: list[LayerBudget] = field(repr=False)
    signal: Signal = field(repr=False)


@checked_arguments
def kernel_chain(image_size: ImageSide) -> list[tuple[int, int, int]]:
    """(side of the next map, stride, padding) of each 3 x 3 convolution from the image to one pixel.

    Examples
    --------
    >>> from attributionlab.worlds.nets import kernel_chain
    >>> kernel_chain(224)
    [(75, 3, 1), (25, 3, 0), (9, 3, 2), (3, 3, 0), (1, 1, 0)]
    """
    chain, side = [], image_size
    while side > 1:
        # The last 3 x 3 kernel covers its whole map in one position: there the stride is free.
        stride = 1 if side == KERNEL else KERNEL
        padding = -side % KERNEL
        side = (side + padding) // KERNEL
        chain.append((side, stride, padding))
    return chain


@checked_arguments
def redundant_weights(
    channels: Channels,
    redundant_channels: Redundant,
    strength: Strength,
    generator: torch.Generator,
) -> Float[Tensor, "channels redundant 3 3"]:
    """Random signed weights by which redundant channels enter the first convolution.

    Magnitudes are uniform on {1/4, 2/4, ..., strength}, signs are fair coins. The draws do not depend
    on the strength, so that a stronger effect has the same signs and no smaller magnitudes.

    Parameters
    ----------
    channels, redundant_channels : int
        Outputs of the convolution, and N_R.
    strength : float
        Largest magnitude, a multiple of 1/4; 0 switches the Unseen Data Effect off.
    generator : torch.Generator
        Source of the randomness.
    """
    shape = (channels, redundant_channels, KERNEL, KERNEL)
    share = torch.rand(shape, generator=generator)
    sign = torch.randint(0, 2, shape, generator=generator) * 2.0 - 1.0
    magnitude = torch.ceil((1 - share) * (strength / REDUNDANT_GRID)) * REDUNDANT_GRID
    return sign * magnitude + 0.0  # no -0.0


@checked_arguments
def uniform_accumulator(
    image_size: ImageSide,
    channels: Channels,
    redundant: Float[Tensor, "channels redundant 3 3"] | None = None,
) -> Accumulator:
    """Add up each channel with kernels of ones (AttributionLab, C.2).

    Parameters
    ----------
    image_size : int
        Side of the square input, 8 to 1024.
    channels : int
        How many channels are added up, each for itself; inputs are 0 or 1.
    redundant : Tensor, optional
        Weights of further input channels in the first convolution (`redundant_weights`).

    Raises
    ------
    AttributionLabError
        If the sums would not be exact in float32.
    """
    chain = _Chain(image_size, channels)
    chain.add_level_of_ones(redundant)
    while chain.remaining:
        chain.add_level_of_ones()
    return chain.finish()


@checked_arguments
def nonuniform_accumulator(
    image_size: ImageSide,
    channels: Channels,
    generator: torch.Generator,
    redundant: Float[Tensor, "channels redundant 3 3"] | None = None,
) -> Accumulator:
    r"""Add up each channel with random, non-uniform kernels (AttributionLab, C.2).

    Each step of the chain is a block of two convolutions: three kernels w_i per channel, then a 1x1
    convolution with weights m_i, such that

    .. math:: \sum_i w_{ij} m_i = 1 \quad \text{for every position j}.

    m_i is 1/2, 1 or 2; the products w_ij m_i are random multiples of 2^-6 (coarser where the budget
    demands it), none negative, so no ReLU in between cuts anything off.

    With `redundant`, the first step is a single convolution of ones that also receives the redundant
    channels (at 224: `module[5]` is channels x 25 x 25, `module[7]` is 3 channels x 9 x 9).

    Parameters
    ----------
    image_size, channels, redundant
        As for `uniform_accumulator`.
    generator : torch.Generator
        Source of the weights.

    Raises
    ------
    AttributionLabError
        If the sums would not be exact in float32 even with multiples of 1/2.
    """
    chain = _Chain(image_size, channels)
    if redundant is not None:
        chain.add_level_of_ones(redundant)
    while chain.remaining:
        chain.add_block(generator)
    return chain.finish()


class _Chain:
    """An accumulator under construction.

    Every neuron's output is at most the number of pixels below it times `per_pixel`, the most that
    one pixel can add. That joint bound is far tighter than multiplying the bounds of its inputs.
    """

    def __init__(self, image_size: int, channels: int) -> None:
        self.remaining = kernel_chain(image_size)
        self.image_size, self.channels = image_size, channels
        self.modules: list[nn.Module] = []
        self.levels: list[Level] = []
        self.budgets: list[LayerBudget] = []
        self.per_pixel, self.step = 1.0, 1.0
        self.upper = torch.ones(channels, image_size, image_size).double()

    def add_level_of_ones(self, redundant: Tensor | None = None) -> None:
        weight = _own_kernels(torch.ones(self.channels, 1, KERNEL, KERNEL))
        if redundant is not None and len(redundant) != self.channels:
            raise AttributionLabError(
                f"redundant has {len(redundant)} channels: pass weights for each of {self.channels}"
            )
        if redundant is not None and redundant.numel():
            weight = torch.cat([weight, redundant], dim=1)
            # A pixel fires its color's channel or all redundant channels, never both.
            self.per_pixel = max(1.0, float(redundant.abs().sum(1).max()))
            self.step = min(1.0, float(grid_step(redundant).min()))
        # Other channels than the own add to a pixel's own, and never more than per_pixel in all.
        if not self.levels:
            self.upper *= self.per_pixel
        output, side = self._convolve(weight)
        self._account(self.per_pixel * self._pixels_below, self.step, self.step)
        self.levels.append(Level(side, output))

    def add_block(self, generator: torch.Generator) -> None:
        grid = self._affordable_grid()
        shares = _random_shares(
            self.channels, grid, generator
        )  # (channels, 3, 3, 3), sum over i = 1
        scale = 2.0 ** torch.randint(-1, 2, (self.channels, 3), generator=generator)  # m_i
        kernels = shares / scale[:, :, None, None]  # w_ij
        hidden, side = self._convolve(_own_kernels(kernels))
        # Dividing by a power of two moves sum and grid alike: the shares decide.
        fine = self.step * grid
        self._account(self.per_pixel * self._pixels_below, fine, fine, scale)
        output = self._append(_same_channel_merge(scale))
        # The shares sum to 1, so the block's outputs lie on the grid of its inputs again.
        self._account(self.per_pixel * self._pixels_below, fine, self.step)
        self.levels.append(Level(side, output, hidden))

    def finish(self) -> Accumulator:
        upper = torch.full((self.channels,), self.per_pixel * self.image_size**2).double()
        signal = Signal(upper, torch.full((self.channels,), self.step).double())
        return Accumulator(nn.Sequential(*self.modules), self.levels, self.budgets, signal)

    @property
    def _pixels_below(self) -> int:
        """How many pixels at most a neuron of the level under construction covers."""
        depth = len(self.levels) + 1
        return min(int(KERNEL ** (2 * depth)), self.image_size**2)

    def _affordable_grid(self) -> float:
        """The finest grid for which even the last level, the whole image, stays exact."""
        total = self.per_pixel * self.image_size**2 / self.step
        for exponent in range(FINEST, COARSEST, -1):
            if total * 2.0**exponent <= EXACT_STEPS:
                return 2.0**-exponent
        return 2.0**-COARSEST  # the budget refuses it where even that is too fine

    def _convolve(self, weight: Tensor) -> tuple[nn.Module, int]:
        side, stride, padding = self.remaining.pop(0)
        return self._append(weight, stride, padding), side

    def _append(self, weight: Tensor, stride: int = 1, padding: int = 0) -> nn.Module:
        # Bounds place by place: windows at the border hold fewer pixels. No weight here is negative
        # but those of redundant channels, which are part of what one pixel can add.
        own = weight[:, : len(self.upper)].double()
        self.upper = nn.functional.conv2d(self.upper, own, None, stride, padding)
        activation = nn.ReLU()
        self.modules += [
            convolution(weight, torch.zeros(len(weight)), stride, padding),
            activation,
        ]
        return activation

    def _account(
        self, largest_sum: float, step: float, output_step: float, scale: Tensor | None = None
    ) -> None:
        """Hold the layer just made against the budget; `scale` divides the neurons' weights.

        `step` is the grid of what the neurons add up, `output_step` that of the results.
        """
        layer = f"accumulator layer {len(self.budgets) + 1}"
        share = 1 / (torch.ones(len(self.upper)) if scale is None else scale.flatten()).double()
        budget = check_budget(layer, largest_sum * share, step * share)
        self.budgets.append(replace(budget, signal=Signal(self.upper, output_step * share)))


def _random_shares(
    channels: int, grid: float, generator: torch.Generator
) -> Float[Tensor, "channels kernels 3 3"]:
    """Split 1 into three random non-negative multiples of the grid, at every kernel position."""
    parts = round(1 / grid)
    cuts = torch.randint(0, parts + 1, (channels, 2, KERNEL, KERNEL), generator=generator)
    low, high = cuts.amin(1), cuts.amax(1)
    return torch.stack([low, high - low, parts - high], dim=1) * grid


def _own_kernels(
    kernels: Float[Tensor, "channels kernels 3 3"],
) -> Float[Tensor, "outputs channels 3 3"]:
    """Several kernels per channel, in the order channel by channel, each on its own channel."""
    count = kernels.shape[1]
    channel = torch.eye(len(kernels)).repeat_interleave(count, dim=0)
    return channel[:, :, None, None] * kernels.flatten(0, 1)[:, None]


def _same_channel_merge(
    scale: Float[Tensor, "channels kernels"],
) -> Float[Tensor, "channels inputs 1 1"]:
    """The 1x1 convolution that merges the kernels of each channel with the weights m_i."""
    channel = torch.eye(len(scale)).repeat_interleave(scale.shape[1], dim=1)
    return (channel * scale.flatten())[:, :, None, None]


@checked_arguments
def layer_at(levels: Sequence[Level], depth: Count, hidden: bool = False) -> nn.Module:
    """The module whose output a map-based method attaches to.

    That of level `depth` (from 1), or of the nearest level before it whose map is larger than one
    pixel; between the two convolutions of its block if `hidden` and there is such a place.
    """
    larger = [level for level in levels[:depth] if level.side > 1]
    if not larger:
        raise AttributionLabError(
            f"levels are {list(levels[:depth])}: pass those of an accumulator, of images larger than 3"
        )
    level = larger[-1]
    return level.hidden if hidden and level.hidden is not None else level.output
