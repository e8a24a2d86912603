"""What a direct call gets where it leaves out what a test hands to methods: deterministic, and refused
where nothing can be right.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attributionlab.base import AttributionLabError, shown
from attributionlab.base.segmentation import SEGMENTATIONS, Segmentation, segment

FEWEST_OTHERS = 16
"""Images of a call that may stand for other images of the kind. The standard deviation of n normal
numbers has a relative standard error of about 1 / sqrt(2 (n - 1)): 18 % for 16, and 71 % for two."""

BY_PLACE = ("grid", "patches", "pixels")
"""Segmentations that look at no value."""


def seeded(generator: torch.Generator | None) -> torch.Generator:
    """The generator, or one on the CPU with seed 0: a call repeated then gives the same maps."""
    return torch.Generator().manual_seed(0) if generator is None else generator


def value_range(
    highest: float | None, inputs: Float[Tensor, "batch channels *places"], who: str
) -> float:
    """`highest`, or the length of the value range that images make known: 1 for values within [0, 1],
    255 for integers within [0, 255].

    Refuses all others, such as images less their mean: their smallest and largest values are those of
    a few images, and say nothing of what a pixel can be.
    """
    if highest is not None:
        return highest
    lowest, largest = float(inputs.min()), float(inputs.max())
    if lowest >= 0 and 0 < largest <= 1:
        return 1.0
    if lowest >= 0 and 1 < largest <= 255 and bool((inputs == inputs.round()).all()):
        return 255.0
    raise AttributionLabError(
        f"{who}: no value for 'highest', and inputs from {lowest:g} to {largest:g} do not reveal it: "
        "pass highest=, the length of the range of values that a pixel can have (1 for images in [0, "
        "1], 1 / 0.226 for those divided by a standard deviation of 0.226)"
    )


def other_images(
    reference_images: Tensor | None, inputs: Float[Tensor, "batch channels *places"], who: str
) -> Tensor:
    """The reference images, or those of the call itself where there are `FEWEST_OTHERS` or more."""
    if reference_images is not None:
        return reference_images
    if len(inputs) >= FEWEST_OTHERS:
        return inputs
    raise AttributionLabError(
        f"{who}: no value for 'reference_images', and the inputs are {shown(inputs)}: pass "
        "reference_images=, other images of the same shape (some hundred), or at least "
        f"{FEWEST_OTHERS} images at once, which then serve as reference images for each other"
    )


def superpixels(
    inputs: Float[Tensor, "batch channels height width"],
    segmentation: Segmentation,
    highest: float | None,
    patches: Tensor | None,
    settings: dict[str, object],
    others: tuple[str, ...],
    who: str,
) -> Int[Tensor, "batch height width"]:
    """Superpixels of each image (`segment`), which need `highest` where they look at values alone.

    Images of one row, as of tokens, have no superpixels: there each token is one by itself.
    """
    if inputs.shape[2] == 1 and isinstance(segmentation, str) and segmentation == "quickshift":
        segmentation = "pixels"
    by_value = callable(segmentation) or hasattr(segmentation, "generate")
    if isinstance(segmentation, str):
        by_value = segmentation in SEGMENTATIONS and segmentation not in BY_PLACE
    return segment(
        inputs,
        segmentation,
        highest=value_range(highest, inputs, who) if by_value else highest or 1.0,
        patches=patches,
        settings=settings,
        others=others,
    )
