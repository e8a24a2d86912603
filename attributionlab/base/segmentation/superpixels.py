"""Superpixels by the classical algorithms, with scikit-image doing the work, and by a plain grid.

A segmentation is a function of one image (C, H, W) and the largest value that a pixel can have. It
returns a label map (H, W): every pixel belongs to one superpixel, and their labels are 0, 1, ... S - 1.
"""

from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import arguments
from attributionlab.base.errors import AttributionLabError

Image = Float[Tensor, "channels height width"]
Labels = Int[Tensor, "height width"]

WIDEST = 2**13
Blur = Annotated[float, arguments.Within(least=0, most=WIDEST)]
"""A Gaussian's standard deviation in pixels, 0 for none; its cost grows with it."""


@arguments.checked_arguments
def quickshift(
    image: Image,
    highest: arguments.Positive,
    *,
    kernel_size: Annotated[float, arguments.Within(least=1, most=WIDEST)] = 4.0,
    max_dist: arguments.NotNegative = 200.0,
    ratio: Annotated[float, arguments.Within(least=0, most=1)] = 0.2,
) -> Labels:
    """Quickshift: each pixel joins its nearest neighbor of higher density in color and position.

    Source: Vedaldi and Soatto, 2008. The defaults are those of LIME's public code, which many follow;
    scikit-image's own are 5, 10 and 1. AttributionLab names Quickshift and states no settings.
    Colors are compared in the Lab space. Ties of density are broken by a generator of its own with a
    fixed seed.

    Parameters
    ----------
    image : Tensor, (C, H, W)
        In [0, `highest`]; one or three channels.
    highest : float
        The largest value that a pixel can have.
    kernel_size : float
        Width of the Gaussian that estimates the density, in pixels; at least 1.
    max_dist : float
        Pixels farther apart than this, in position and color together, are not joined.
    ratio : float
        Weight of color against position, 0 to 1.
    """
    from skimage.segmentation import quickshift as algorithm

    labels: NDArray[Any] = algorithm(  # type: ignore[no-untyped-call]
        as_rgb(image, highest), kernel_size=kernel_size, max_dist=max_dist, ratio=ratio
    )
    return contiguous(labels, image)


@arguments.checked_arguments
def felzenszwalb(
    image: Image,
    highest: arguments.Positive,
    *,
    scale: arguments.NotNegative = 1.0,
    sigma: Blur = 0.8,
    min_size: Annotated[int, arguments.Within(least=0, most=2**26)] = 20,
) -> Labels:
    """Felzenszwalb's graph cut: regions merge while their difference is small beside their own spread.

    Source: Felzenszwalb and Huttenlocher, 2004. The defaults are scikit-image's; AttributionLab states
    none. Colors are compared in RGB after a Gaussian blur.

    Parameters
    ----------
    image, highest
        As for `quickshift`.
    scale : float
        Larger values give larger superpixels.
    sigma : float
        Standard deviation of the blur, in pixels.
    min_size : int
        Smaller superpixels are merged with a neighbor, in pixels.
    """
    from skimage.segmentation import felzenszwalb as algorithm

    labels = algorithm(as_rgb(image, highest), scale=scale, sigma=sigma, min_size=min_size)
    return contiguous(labels, image)


@arguments.checked_arguments
def slic(
    image: Image,
    highest: arguments.Positive,
    *,
    n_segments: arguments.Pixels = 100,
    compactness: arguments.Positive = 10.0,
    sigma: Blur = 0.0,
) -> Labels:
    """SLIC: k-means over color and position, from centers on a grid.

    Source: Achanta et al., 2012. The defaults are scikit-image's. Colors are compared in the Lab space.

    Parameters
    ----------
    image, highest
        As for `quickshift`.
    n_segments : int
        About how many superpixels.
    compactness : float
        Weight of position against color.
    sigma : float
        Standard deviation of a Gaussian blur beforehand, in pixels.
    """
    from skimage.segmentation import slic as algorithm

    labels = algorithm(
        as_rgb(image, highest),
        n_segments=n_segments,
        compactness=compactness,
        sigma=sigma,
        start_label=0,
    )
    return contiguous(labels, image)


@arguments.checked_arguments
def grid(image: Image, highest: arguments.Positive, *, cells: arguments.Count = 16) -> Labels:
    """A grid of `cells` x `cells` rectangles, whatever the image shows.

    Parameters
    ----------
    image, highest
        As for `quickshift`; any number of channels.
    cells : int
        Along each side, 1 to the side's pixels. Where they do not divide it, some are a pixel longer.
    """
    height, width = image.shape[1:]
    if cells > min(height, width):
        raise AttributionLabError(
            f"cells is {cells}: take an integer from 1 to {min(height, width)}"
        )
    rows = torch.arange(height, device=image.device) * cells // height
    columns = torch.arange(width, device=image.device) * cells // width
    return rows[:, None] * cells + columns


@arguments.checked_arguments
def pixels(image: Image, highest: arguments.Positive) -> Labels:
    """Each pixel by itself, row by row, all its channels together; any number of channels."""
    height, width = image.shape[1:]
    return torch.arange(height * width, device=image.device).reshape(height, width)


def as_rgb(image: Image, highest: float) -> NDArray[np.float64]:
    """(H, W, 3) in [0, 1], as scikit-image reads colors; a gray image is repeated in three channels.

    So a color distance in RGB is sqrt(3) times the difference in gray.
    """
    channels = len(image)
    if channels not in (1, 3):
        raise AttributionLabError(
            f"the image has {channels} channels: superpixels need 1 or 3; pass segmentation='grid' or "
            "a label map"
        )
    scaled = image.detach().cpu().double() / highest
    if not ((scaled >= 0) & (scaled <= 1)).all():
        raise AttributionLabError(
            f"the image has values from {float(image.min()):g} to {float(image.max()):g} where highest "
            f"is {highest:g}: pass the largest value that a pixel can have or, for noisy samples of an "
            "image, a segmentation that ignores colors: grid, patches, pixels or a label map"
        )
    return np.ascontiguousarray(scaled.expand(3, -1, -1).permute(1, 2, 0).numpy())


def contiguous(labels: NDArray[Any] | Tensor, image: Tensor) -> Labels:
    """The same superpixels under the labels 0, 1, ... S - 1, on the image's device."""
    old = labels.cpu().numpy() if isinstance(labels, Tensor) else labels
    renamed = np.unique(old, return_inverse=True)[1].reshape(old.shape)
    return torch.from_numpy(renamed.astype(np.int64)).to(image.device)
