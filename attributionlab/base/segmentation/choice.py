"""Which pixels belong together: superpixels by name, from functions, mask generators or label maps."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base.arguments import Positive, checked_arguments
from attributionlab.base.errors import AttributionLabError, nearest
from attributionlab.base.segmentation import superpixels
from attributionlab.base.segmentation.segment_anything import MaskGenerator, partition, sam

SEGMENTATIONS: Mapping[str, Callable[..., superpixels.Labels]] = {
    "felzenszwalb": superpixels.felzenszwalb,
    "grid": superpixels.grid,
    "pixels": superpixels.pixels,
    "quickshift": superpixels.quickshift,
    "sam": sam,
    "slic": superpixels.slic,
}
"""Functions (image, highest, settings) -> labels by name."""

Segmentation = str | Callable[..., Any] | MaskGenerator | Tensor | NDArray[np.integer[Any]]
"""A name in `SEGMENTATIONS`, or "patches"; a function (image, highest) -> labels; an object with
`generate`; or label maps."""


@checked_arguments
def segment(
    images: Float[Tensor, "batch channels height width"],
    segmentation: Segmentation,
    *,
    highest: Positive,
    patches: Int[Tensor, "batch height width"] | None = None,
    settings: Mapping[str, Any] | None = None,
    others: Sequence[str] = (),
) -> Int[Tensor, "batch height width"]:
    """Superpixels of each image, with the labels 0, 1, ... S - 1 in each.

    Parameters
    ----------
    images : Tensor, (B, C, H, W)
        In [0, `highest`].
    segmentation : str, callable, MaskGenerator or label map
        A name in `SEGMENTATIONS`; "patches", the environment's own patches with the outside as one
        superpixel more; ``f(image, highest, **settings)``; an object with `generate` (`partition`); or
        integers (H, W) for all images or (B, H, W).
    highest : float
        The largest value that a pixel can have.
    patches : Tensor, (B, H, W), optional
        The environment's label map.
    settings : mapping, optional
        Settings of a segmentation by name or function.
    others : sequence of str
        Settings that the caller takes itself, to be suggested for a misspelled one.

    Raises
    ------
    AttributionLabError
        For unknown names and settings, and for invalid label maps.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.base.segmentation import segment
    >>> segment(torch.zeros(1, 3, 4, 4), "grid", highest=255, settings={"cells": 2})
    tensor([[[0, 0, 1, 1],
             [0, 0, 1, 1],
             [2, 2, 3, 3],
             [2, 2, 3, 3]]])
    """
    given = dict(settings or {})
    if isinstance(segmentation, str) and segmentation == "patches":
        if patches is None:
            raise AttributionLabError(
                "segmentation 'patches' has no label map: pass patches=, as the tests of an "
                "environment do"
            )
        segmentation = patches
    if isinstance(segmentation, str):
        if segmentation not in SEGMENTATIONS:
            known = [*SEGMENTATIONS, "patches"]
            raise AttributionLabError(
                f"segmentation is {segmentation!r}: {nearest(segmentation, known)}"
            )
        named = SEGMENTATIONS[segmentation]
        parameters = inspect.signature(named).parameters.values()
        own = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        for key in given:
            if key not in own:
                raise AttributionLabError(
                    f"segmentation {segmentation!r} has no setting {key!r}: "
                    f"{nearest(key, [*own, *others])}"
                )
        segmentation = named
    if callable(segmentation):
        maps = [segmentation(image, highest, **given) for image in images]
    elif given:
        raise AttributionLabError(f"settings are {given}: this segmentation takes none")
    elif isinstance(segmentation, MaskGenerator):
        maps = [partition(segmentation, image, highest) for image in images]
    else:
        maps = list(_each(segmentation, images))
    return torch.stack(
        [_checked(labels, image) for labels, image in zip(maps, images, strict=True)]
    )


def _each(labels: Any, images: Tensor) -> Any:
    """One label map for each image."""
    shape = tuple(getattr(labels, "shape", ()))
    size = tuple(images.shape[2:])
    if shape not in (size, (len(images), *size)):
        what = f"label maps of shape {shape}" if shape else f"{labels!r}"
        raise AttributionLabError(
            f"segmentation is {what}: pass a name, a function, an object with generate, or integers "
            f"of shape {size} or {(len(images), *size)}"
        )
    return labels if len(shape) == 3 else [labels] * len(images)


def _checked(labels: Any, image: superpixels.Image) -> superpixels.Labels:
    """A label map of this image, with contiguous labels."""
    shape = tuple(getattr(labels, "shape", ()))
    kind = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels).dtype.kind
    if shape != tuple(image.shape[1:]) or kind not in "biu":
        raise AttributionLabError(
            f"a segmentation gave labels of shape {shape} (kind {kind!r}) for an image of "
            f"{tuple(image.shape[1:])}: return one integer for each pixel"
        )
    return superpixels.contiguous(labels, image)
