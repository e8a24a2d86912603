r"""Operators of mask-based methods: smooth masks, the area they cover, and what they hide.

A mask is made of cells on a coarse grid, which a kernel and a maximum smooth over the image; it keeps
the image where it is 1, and blurs it where it is 0.
"""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.ndimage import gaussian_filter
from torch import Tensor
from torch.nn import functional as F

from attributionlab.memory import refuse_beyond_memory

LN_2 = math.log(2)
COLDNESS = 20.0
"""1/T of the smooth maximum; at a temperature of 0 it is the maximum."""
REACH = 2.0
"""Cells farther than this many sigma do not count: the kernel is below 1.2 % there."""
ABSENT = -1e4
"""An exponent, or the value of a cell, that gives a weight of 0 wherever the kernel is not 0."""


class SmoothMask:
    r"""Smooth masks from coarse ones.

    .. math::
        m(u) = \frac{\sum_j v_j e^{20 v_j}}{\sum_j e^{20 v_j}}, \qquad v_j = k(|u - p_j|) \, c_j, \qquad
        k(d) = e^{-2 \max(0, \, d / \sigma - 1/2)^2}

    over the cells j whose position :math:`p_j` lies within 2 sigma of the pixel u. Cells lie in the
    middle of blocks of `step` x `step` pixels that cover the image from its upper left corner on;
    there are none outside the image.

    Parameters
    ----------
    images : Tensor, (B, C, H, W)
        What is to be masked; gives size, type and device.
    sigma : float
        Scale of the kernel, in pixels.
    step : int
        Pixels from cell to cell.
    normalized : bool
        Divide masks by the one that cells of 1 give, and cut them off at 1. At a sigma of 21 and a
        step of 7 that one is 0.985 to 0.996: the smooth maximum counts cells farther off, too.
    """

    def __init__(self, images: Tensor, sigma: float, step: int, normalized: bool = False) -> None:
        (height, width), self.step = images.shape[2:], step
        self.size = (height, width)
        self.grid = (-(-height // step), -(-width // step))
        self.radius = math.ceil((REACH * sigma + step / 2) / step)
        refuse_beyond_memory(
            32 * (2 * self.radius + 1) ** 2 * step**2,
            f"extremal-perturbation: sigma is {sigma:g} and step {step}: a mask's kernel",
            "take a smaller one",
            images.device,
        )
        within = np.arange(step) - (step - 1) / 2  # of the pixels of a block, from its middle
        self.shifts: list[tuple[int, int]] = []
        kernels = []
        for down in range(-self.radius, self.radius + 1):
            for right in range(-self.radius, self.radius + 1):
                distance = np.hypot(
                    (step * down - within)[:, None], (step * right - within)[None]
                ).ravel()
                if distance.min() <= REACH * sigma:
                    self.shifts.append((down + self.radius, right + self.radius))
                    kernel = np.exp(-2 * np.maximum(0, distance / sigma - 0.5) ** 2)
                    kernels.append(np.where(distance <= REACH * sigma, kernel, 0))
        # (shifts, step^2, 1): what a cell's value is multiplied by, and what is added, to give the
        # base-2 exponent 20 v / ln 2 of its weight.
        kernel = np.stack(kernels)[:, :, None]
        self.kernels = torch.as_tensor(kernel).to(images)
        self.slopes = torch.as_tensor(COLDNESS / LN_2 * kernel).to(images)
        self.offsets = torch.as_tensor(np.where(kernel > 0, 0, ABSENT)).to(images)
        self.full = self._smooth(images.new_ones((1, *self.grid))) if normalized else None

    def __call__(
        self, cells: Float[Tensor, "batch rows columns"]
    ) -> Float[Tensor, "batch 1 height width"]:
        """Masks from cells, both in [0, 1]; differentiable once."""
        masks = self._smooth(cells)
        if self.full is None:
            return masks
        masks = masks / self.full
        # Not clamp: from torch 2.14 on it has no gradient at its bound, where every mask begins.
        return torch.where(masks > 1, 1.0, masks)

    def _smooth(self, cells: Tensor) -> Tensor:
        blocks: Tensor = _Smoothing.apply(cells, self)  # type: ignore[no-untyped-call]
        whole = F.pixel_shuffle(
            blocks.reshape(-1, *cells.shape).transpose(0, 1).contiguous(), self.step
        )
        return whole[:, :, : self.size[0], : self.size[1]]

    def neighbors(self, cells: Tensor) -> Float[Tensor, "shifts cells"]:
        """For each shift the cells that far from every cell."""
        rows, columns = self.grid
        padded = F.pad(cells, (self.radius,) * 4, value=ABSENT)
        found = [padded[:, y : y + rows, x : x + columns].flatten() for y, x in self.shifts]
        return torch.stack(found)


class _Smoothing(torch.autograd.Function):
    """The smooth maximum, shift by shift: what is computed at a time fits a processor's cache.

    Maps are (step^2, B * rows * columns): a pixel by its place in its block, and the blocks. Powers are
    those of 2, which are faster than those of e.
    """

    @staticmethod
    def forward(ctx: Any, cells: Tensor, masks: SmoothMask) -> Tensor:
        neighbors = masks.neighbors(cells)
        total = cells.new_zeros(masks.step**2, cells.numel())
        weighted, exponent, weight = torch.zeros_like(total), total.clone(), total.clone()
        for slope, offset, neighbor in zip(masks.slopes, masks.offsets, neighbors, strict=True):
            torch.mul(slope, neighbor, out=exponent).add_(offset)
            torch.exp2(exponent, out=weight)
            total += weight
            weighted.addcmul_(weight, exponent)
        mask = weighted.div_(total).mul_(LN_2 / COLDNESS)
        ctx.masks = masks
        ctx.save_for_backward(cells, mask, total)
        return mask

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # dm / dv_j = e^{20 v_j} (1 - 20 m + 20 v_j) / total
        cells, mask, total = ctx.saved_tensors
        masks: SmoothMask = ctx.masks
        share = gradients[0] / total
        constant = share * (1 - COLDNESS * mask)
        share = share * LN_2
        exponent, weight = torch.empty_like(mask), torch.empty_like(mask)
        (rows, columns), edge = masks.grid, masks.radius
        padded = F.pad(torch.zeros_like(cells), (edge,) * 4)
        operators = zip(masks.slopes, masks.offsets, masks.kernels, masks.shifts, strict=True)
        for (slope, offset, kernel, (y, x)), neighbor in zip(
            operators, masks.neighbors(cells), strict=True
        ):
            torch.mul(slope, neighbor, out=exponent).add_(offset)
            torch.exp2(exponent, out=weight)
            change = torch.addcmul(constant, share, exponent, out=exponent).mul_(weight)
            padded[:, y : y + rows, x : x + columns] += (kernel.T @ change).view_as(cells)
        return padded[:, edge : edge + rows, edge : edge + columns], None


def area_gap(masks: Float[Tensor, "batch 1 height width"], area: float) -> Float[Tensor, " batch"]:
    r"""How far masks are from covering an area fully and nothing else.

    .. math:: R_a(m) = \frac{1}{HW} \lVert sort(m) - r_a \rVert^2

    with :math:`r_a` the sorted mask that is 1 on the share `area` of its pixels (rounded to whole
    ones) and 0 on the others. Where pixels tie for a place among them, as all do at first, each gets
    its share of the gradient; a sorting algorithm would prefer some by their place in the image.

    Parameters
    ----------
    masks : Tensor, (B, 1, H, W)
        Values in [0, 1].
    area : float
        Share of the image in (0, 1].
    """
    flat = masks.flatten(1)
    pixels = flat.shape[1]
    outside = pixels - round(area * pixels)
    if outside == 0:
        return ((1 - flat) ** 2).mean(1)
    with torch.no_grad():
        threshold = flat.kthvalue(outside, dim=1, keepdim=True).values
        below, tied = flat < threshold, flat == threshold
        missing = outside - below.sum(1, keepdim=True)
        hidden = below + tied * (missing / tied.sum(1, keepdim=True))  # how much of it is to be 0
    return (hidden * flat**2 + (1 - hidden) * (1 - flat) ** 2).mean(1)


def blur_pyramid(
    images: Float[Tensor, "batch channels height width"], sigma: float, levels: int
) -> Float[Tensor, "levels batch channels height width"]:
    """Images under Gaussians of sigma 0 to `sigma` in equal steps; edge pixels continue outside.

    Parameters
    ----------
    images : Tensor, (B, C, H, W)
        Any values.
    sigma : float
        Largest sigma, in pixels; Gaussians are cut off after 4 sigma.
    levels : int
        How many, at least two; the first is the images themselves.
    """
    values = images.double().cpu().numpy()
    blurs = [values] + [
        gaussian_filter(values, (0, 0, level, level), mode="nearest")
        for level in np.linspace(0, sigma, levels)[1:]
    ]
    return torch.as_tensor(np.stack(blurs)).to(images)


def blurred(
    pyramid: Float[Tensor, "levels batch channels height width"],
    masks: Float[Tensor, "batch 1 height width"],
) -> Float[Tensor, "batch channels height width"]:
    """Images kept where a mask is 1 and blurred the more, the smaller it is.

    A pixel is interpolated linearly between the two levels of the pyramid next to 1 - m of its height.
    """
    height = len(pyramid) - 1
    depth = (1 - masks) * height
    above = depth.detach().floor().clamp(0, height - 1)
    index = above.long()[None].expand(1, *pyramid.shape[1:])
    first, second = pyramid.gather(0, index)[0], pyramid.gather(0, index + 1)[0]
    return torch.lerp(first, second, (depth - above).expand_as(first))
