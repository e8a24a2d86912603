"""What deleted pixels become in Figure 6 (b) of Hesse et al. (2024)."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.papers.idsds.data import Task
from attributionlab.papers.idsds.training import Filling

ZERO, RANDOM, BLURRED, TRUE = "zero", "random", "blurred", "true"
PAPER_SIDE, PAPER_KERNEL, PAPER_SIGMA = 224, 51, 41
"""In pixels."""

Images = Float[Tensor, "batch channels height width"]


def fillings(task: Task) -> Mapping[str, Filling]:
    """By name: black, uniform noise, the blurred image, and the pixel that stands for nothing."""
    return {ZERO: 0.0, RANDOM: uniform_noise, BLURRED: blurred, TRUE: task.baseline}


def for_images(filling: Filling, images: Images, seed: int) -> float | Tensor:
    """A filling as metrics take it: one draw for given images."""
    if callable(filling):
        return filling(images, torch.Generator().manual_seed(seed))
    return filling


def uniform_noise(images: Images, generator: torch.Generator) -> Images:
    """Independent values over the range of images, [0, 1]; the paper's is (-1, 1) about their mean."""
    return torch.rand(images.shape, generator=generator)


def blurred(images: Images, generator: torch.Generator | None = None) -> Images:
    r"""Images under the paper's Gaussian, scaled from 224 pixels to their own side.

    Weights are proportional to :math:`\exp(-(d / (2 \sigma))^2)` at a distance of d pixels in rows and
    in columns, sigma = 41 and 51 pixels in all at a side of 224. So public code has it; it is the
    density of a normal distribution with a standard deviation of 41 sqrt 2 pixels, where the text has
    one of 41, and nearly a mean over the window. Images are mirrored at their edges.

    Parameters
    ----------
    images : Tensor, (B, C, H, W)
        Square ones.
    generator : torch.Generator, optional
        Not needed; what calls fillings has one.
    """
    side = images.shape[-1]
    reach = round((PAPER_KERNEL * side / PAPER_SIDE - 1) / 2)
    sigma = PAPER_SIGMA * side / PAPER_SIDE
    distances = torch.arange(-reach, reach + 1)
    weights = torch.exp(-((distances / (2 * sigma)) ** 2))
    line = (weights / weights.sum()).to(images).expand(images.shape[1], 1, -1)
    channels = images.shape[1]
    padded = nn.functional.pad(images, (reach,) * 4, mode="reflect")
    rows = nn.functional.conv2d(padded, line[..., None], groups=channels)
    return nn.functional.conv2d(rows, line[:, :, None], groups=channels)
