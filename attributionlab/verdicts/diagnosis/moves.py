"""Maps correlated, moved and blurred: the operations behind what a map is compared with."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

LARGEST_SHIFT = 8
"""In pixels, up to which a shifted truth is looked for."""

Maps = Float[Tensor, "batch 1 height width"]


def correlation(maps: Maps, predicted: Maps) -> Float[Tensor, " batch"]:
    """Pearson correlation over the pixels of each image, 0 where either map is constant."""
    return (_standard(maps) * _standard(predicted)).flatten(1).sum(1)


def _standard(maps: Tensor) -> Tensor:
    """With mean 0 and norm 1 in each image; constants become 0."""
    centered = maps - maps.mean((1, 2, 3), keepdim=True)
    norm = centered.square().sum((1, 2, 3), keepdim=True).sqrt()
    tiny = 1e-6 * maps.abs().amax((1, 2, 3), keepdim=True) * math.sqrt(maps[0].numel())
    return torch.where(norm > tiny, centered / norm, 0.0)


def best_shift(maps: Maps, ideal: Maps) -> tuple[int, int]:
    """Rows and columns by which the truth must move to correlate most, summed over images."""
    height, width = maps.shape[2:]
    room = min(LARGEST_SHIFT, height // 3, width // 3)
    size = (height + room, width + room)
    spectra = [torch.fft.rfft2(_standard(each)[:, 0], s=size) for each in (maps, ideal)]
    products = torch.fft.irfft2((spectra[0] * spectra[1].conj()).sum(0), s=size)
    # Negative shifts wrap to the end.
    steps = torch.arange(-room, room + 1)
    window = products[steps[:, None] % size[0], steps % size[1]]
    best = int(window.argmax())
    if not window.flatten()[best] > 0:
        return 0, 0
    return int(steps[best // len(steps)]), int(steps[best % len(steps)])


def translated(maps: Maps, dy: int, dx: int) -> Maps:
    """Moved down and to the right; zero moves in."""
    moved = torch.zeros_like(maps)
    height, width = maps.shape[2:]
    moved[..., max(dy, 0) : height + min(dy, 0), max(dx, 0) : width + min(dx, 0)] = maps[
        ..., max(-dy, 0) : height + min(-dy, 0), max(-dx, 0) : width + min(-dx, 0)
    ]
    return moved


def blurred(maps: Maps, sigma: float) -> Maps:
    """Under a Gaussian, the image mirrored at its edges: two matrix products."""
    rows, columns = (_gaussian(side, sigma) for side in maps.shape[2:])
    return rows @ maps @ columns.T


def _gaussian(side: int, sigma: float) -> Tensor:
    """(side, side): what each place gets from each, mirror images included."""
    at = torch.arange(side, dtype=torch.float32)
    kernel = torch.zeros(side, side)
    for copy in range(-math.ceil(4 * sigma / side) - 1, math.ceil(4 * sigma / side) + 1):
        place = copy * side + (at if copy % 2 == 0 else side - 1 - at)
        kernel += torch.exp(-((at[:, None] - place) ** 2) / (2 * sigma**2))
    return kernel / kernel.sum(1, keepdim=True)
