"""Mixtures of an image and its replacement by forward passes: for models of which nothing is known."""

from collections.abc import Iterable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.device import exact_arithmetic
from attributionlab.validation import checked_outputs

PIXELS_AT_ONCE = 5 * 224 * 224
"""Pixels of the images of one pass: on a CPU larger passes are slower, for page faults."""


def by_forward_passes(
    model: nn.Module,
    image: Float[Tensor, "channels height width"],
    replacement: Float[Tensor, "channels height width"],
    orders: Int[Tensor, "draws pixels"],
    counts: Int[Tensor, " counts"],
) -> Float[Tensor, "draws counts outputs"]:
    """Show the model each image in which the first so many pixels of an order are replaced."""
    places = torch.arange(orders.shape[1], device=orders.device).expand_as(orders)
    when = torch.empty_like(orders).scatter_(1, orders, places)  # of each pixel, its place
    steps = counts.to(orders.device)

    def masks() -> Iterator[Tensor]:
        """All counts of the first order, then of the next."""
        cases = torch.arange(len(orders) * len(steps), device=orders.device)
        for some in torch.split(cases, _at_once(image)):
            draws, indices = some // len(steps), some % len(steps)
            yield when[draws] < steps[indices, None]

    return _outputs(model, image, replacement, masks()).reshape(len(orders), len(counts), -1)


def single_by_forward_passes(
    model: nn.Module,
    image: Float[Tensor, "channels height width"],
    replacement: Float[Tensor, "channels height width"],
) -> Float[Tensor, "pixels outputs"]:
    """Show the model each image in which one pixel is replaced."""
    pixels = torch.arange(image[0].numel(), device="cpu")
    masks = (some[:, None] == pixels for some in torch.split(pixels, _at_once(image)))
    return _outputs(model, image, replacement, masks)


def _at_once(image: Tensor) -> int:
    return max(1, PIXELS_AT_ONCE // image[0].numel())


@torch.no_grad()
def _outputs(
    model: nn.Module, image: Tensor, replacement: Tensor, masks: Iterable[Tensor]
) -> Float[Tensor, "images outputs"]:
    """Outputs for masks (images, P) of pixels that are replaced, batch by batch."""
    outputs = []
    with exact_arithmetic():
        for mask in masks:
            replaced = mask.reshape(-1, 1, *image.shape[1:]).to(image.device)
            images = torch.where(replaced, replacement, image)
            images = images.contiguous(memory_format=torch.channels_last)
            outputs.append(checked_outputs(model(images), len(images)))
    return torch.cat(outputs)
