"""The superpixels that LIME is given: the paper's, and controls."""

import torch
from jaxtyping import Bool, Float, Int64
from scipy import ndimage
from torch import Tensor

from attributionlab.papers.attributionlab.photographs.pictured import Pictured
from attributionlab.papers.subjects.drawn_pictures import NOISE
from attributionlab.segmentation import grid, segment

SAM = "SAM"
DRAWN_REGIONS = "drawn regions"
CONTROL = "grid of as many"
GIVEN = {"quickshift": {}, "felzenszwalb": {"scale": 100, "sigma": 0.5, "min_size": 50}}
"""LIME's public code, and scikit-image's gallery; the paper states none."""
DRAWN = {"quickshift": {"kernel_size": 2, "max_dist": 6, "ratio": 0.5}, "felzenszwalb": {}}
"""For pictures of 32 x 32 pixels, on which those leave one or two superpixels."""
DEVIATIONS = 5
"""By how many standard deviations of the noise clutter differs from the background."""


def superpixels_of(
    pictured: Pictured, sam_weights: str | None
) -> dict[str, Int64[Tensor, "batch height width"]]:
    """Superpixels by their name; those that group what belongs together come first.

    These are SAM's where there are weights for it, and the drawn regions of drawn pictures. A grid of
    about as many squares as the first of these has is the control: what it shares with them is the
    number alone.

    Parameters
    ----------
    pictured : Pictured
        Whose images are divided.
    sam_weights : str, optional
        A file with the weights of a Segment Anything model.
    """
    images, highest = pictured.subject.images, pictured.subject.highest
    found: dict[str, Tensor] = {}
    if pictured.objects is not None:
        found[DRAWN_REGIONS] = drawn_regions(images, pictured.objects)
    if sam_weights is not None:
        found[SAM] = segment(images, "sam", highest=highest, settings={"weights": sam_weights})
    settings = GIVEN if pictured.objects is None else DRAWN
    plain = {
        name: segment(images, name, highest=highest, settings=own) for name, own in settings.items()
    }
    for labels in list(found.values())[:1]:
        plain[CONTROL] = torch.stack(
            [
                grid(image, highest, cells=round((int(each.max()) + 1) ** 0.5))
                for image, each in zip(images, labels, strict=True)
            ]
        )
    return found | plain


def drawn_regions(
    images: Float[Tensor, "batch channels height width"],
    objects: Bool[Tensor, "batch 1 height width"],
) -> Int64[Tensor, "batch height width"]:
    """Background, object and each connected patch of clutter of drawn pictures.

    Clutter is what differs from the background's color, the median outside of the object, by more than
    five standard deviations of the noise in a channel.
    """
    maps = []
    for image, inside in zip(images, objects[:, 0], strict=True):
        background = image[:, ~inside].median(dim=1).values[:, None, None]
        clutter = ((image - background).abs().amax(0) > DEVIATIONS * NOISE) & ~inside
        patches, _ = ndimage.label(clutter.numpy())
        labels = torch.from_numpy(patches).long()
        maps.append(torch.where(inside, 1, torch.where(clutter, labels + 1, 0)))
    return torch.stack(maps)
