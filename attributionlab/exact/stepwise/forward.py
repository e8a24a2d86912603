"""Trajectories by forward passes: for models of which nothing is known."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.device import without_tf32
from attributionlab.validation import checked_outputs

__all__ = ["by_forward_passes"]

PIXELS_AT_ONCE = 5 * 224 * 224
"""Pixels of the images of one pass: on a CPU larger passes are slower, for page faults."""


@torch.no_grad()
def by_forward_passes(
    model: nn.Module,
    image: Float[Tensor, "channels height width"],
    replacement: Float[Tensor, "channels height width"],
    orders: Int[Tensor, "draws pixels"],
    counts: Int[Tensor, " counts"],
) -> Float[Tensor, "draws counts outputs"]:
    """Show the model each image in which the first so many pixels of an order are replaced."""
    pixels = orders.shape[1]
    at_once = max(1, PIXELS_AT_ONCE // pixels)
    with without_tf32():
        outputs = [
            checked_outputs(model(images), len(images))
            for images in _batches(image, replacement, orders, counts, at_once)
        ]
    return torch.cat(outputs).reshape(len(orders), len(counts), -1)


def _batches(
    image: Tensor, replacement: Tensor, orders: Tensor, counts: Tensor, at_once: int
) -> Iterator[Tensor]:
    """Images (at most `at_once`, C, H, W), all counts of the first order, then of the next."""
    places = torch.arange(orders.shape[1], device=orders.device).expand_as(orders)
    when = torch.empty_like(orders).scatter_(1, orders, places)  # of each pixel, its place
    steps = counts.to(orders.device)
    cases = torch.arange(len(orders) * len(steps), device=orders.device)
    for first in range(0, len(cases), at_once):
        some = cases[first : first + at_once]
        draws, indices = some // len(steps), some % len(steps)
        replaced = when[draws] < steps[indices, None]  # (images, pixels)
        mask = replaced.reshape(-1, 1, *image.shape[1:]).to(image.device)
        yield torch.where(mask, replacement, image).contiguous(memory_format=torch.channels_last)
