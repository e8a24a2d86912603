"""Pictures whose background tells a known part of the class, and the regions that are cut out."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

from attributionlab.worlds.images import circle, triangle

SIDE, CLASSES = 32, 10
CONTEXT = 0.6
"""How often the background is that of the picture's own class; else it is one of the nine others'."""

SHAPES = (circle, triangle)
COLORS = (
    (0.9, 0.2, 0.2),
    (0.2, 0.75, 0.25),
    (0.25, 0.35, 0.95),
    (0.95, 0.85, 0.2),
    (0.9, 0.9, 0.95),
)
"""Classes of the objects: class = shape x 5 + color."""
DIAMETERS, STRAY = (12, 18), 1
"""Diameters of an object in pixels, and how far its bounding box is off the middle at most."""
CLUTTER, CLUTTER_DIAMETERS = 3, (3, 6)
NOISE = 0.05


Images = Float32[Tensor, "batch channels side side"]


class Pictures(NamedTuple):
    """Pictures in [0, 1], their classes, and where the object is that tells the class."""

    images: Float32[Tensor, "batch 3 side side"]
    labels: Int64[Tensor, " batch"]
    objects: Bool[Tensor, "batch 1 side side"]


def pictures(n: int, seed: int, contrast: float = 1.0) -> Pictures:
    """Draw pictures of ten classes, 32 x 32 pixels, each with an object on a background.

    The object in the middle is a disc or a triangle in one of five colors, which is the class,
    drawn uniformly. The background's color is that of the class with probability `CONTEXT`, so that
    without the object no classifier has an expected accuracy above `CONTEXT`. Three small patches
    of clutter, in the objects' colors and shapes, lie anywhere under the object; Gaussian noise
    lies on everything. With `contrast` 1 objects and clutter have their colors, with 0 they would
    have the background's.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=n)
    other = (labels + rng.integers(1, CLASSES, size=n)) % CLASSES
    contexts = np.where(rng.random(n) < CONTEXT, labels, other)
    images = np.empty((n, SIDE, SIDE, 3))
    objects = np.zeros((n, SIDE, SIDE), dtype=np.bool_)
    for image, inside, label, context in zip(images, objects, labels, contexts, strict=True):
        background = _background(context)
        colors = background + contrast * (np.array(COLORS) - background)
        image[:] = background
        for clutter in rng.integers(CLASSES, size=CLUTTER):
            image[_patch(rng, clutter, CLUTTER_DIAMETERS, SIDE)] = colors[clutter % len(COLORS)]
        inside[:] = _patch(rng, label, DIAMETERS, STRAY)
        image[inside] = colors[label % len(COLORS)]
    images += rng.normal(0, NOISE, images.shape)
    return Pictures(
        torch.from_numpy(images.clip(0, 1).transpose(0, 3, 1, 2).astype(np.float32)).contiguous(),
        torch.from_numpy(labels),
        torch.from_numpy(objects[:, None]),
    )


def _background(context: int) -> NDArray[np.float64]:
    """Muted colors around the hue circle: none is an object's."""
    angle = 2 * np.pi * (context / CLASSES + np.arange(3) / 3)
    return np.asarray(0.45 + 0.25 * np.cos(angle))


def _patch(
    rng: np.random.Generator, label: int, diameters: tuple[int, int], stray: int
) -> NDArray[np.bool_]:
    """The shape of a class somewhere within `stray` pixels of the middle, but inside the picture."""
    shape = SHAPES[label // len(COLORS)](rng, int(rng.integers(*diameters, endpoint=True)))
    inside = np.zeros((SIDE, SIDE), dtype=np.bool_)
    height, width = shape.shape
    top, left = (
        np.clip((SIDE - extent) // 2 + rng.integers(-stray, stray + 1), 0, SIDE - extent)
        for extent in (height, width)
    )
    inside[top : top + height, left : left + width] = shape
    return inside


def regions(
    side: int, places: int, *, center: float, edge: float
) -> Bool[Tensor, "places side side"]:
    """What is cut out for each place: a disc in the middle and a region at the edge.

    The disc has the pixels nearest to the middle. The places divide the frame of the image evenly,
    clockwise from its top left corner; a region has the pixels nearest to its place of those that
    the disc leaves. `center` and `edge` are shares of all pixels, together at most 1; so all
    regions have the same number of pixels.
    """
    y, x = np.mgrid[:side, :side]
    middle = (side - 1) / 2
    disc = np.zeros(side**2, dtype=np.bool_)
    disc[_nearest(y, x, middle, middle)[: round(center * side**2)]] = True
    found = np.repeat(disc[None], places, axis=0)
    for place, mask in enumerate(found):
        order = _nearest(y, x, *_on_the_frame(side, place / places))
        mask[order[~disc[order]][: round(edge * side**2)]] = True
    return torch.from_numpy(found.reshape(places, side, side))


def _nearest(
    y: NDArray[np.int64], x: NDArray[np.int64], row: float, column: float
) -> NDArray[np.int64]:
    """Flat indices of all pixels by their distance from a point, the first of equals first."""
    return np.argsort((((y - row) ** 2) + (x - column) ** 2).ravel(), kind="stable")


def _on_the_frame(side: int, turn: float) -> tuple[float, float]:
    """Row and column after a share of the way along the outermost pixels."""
    last = side - 1
    edge, along = divmod(4 * turn, 1)
    corners = ((0, 0), (0, last), (last, last), (last, 0), (0, 0))
    (row, column), (to_row, to_column) = corners[int(edge)], corners[int(edge) + 1]
    return row + along * (to_row - row), column + along * (to_column - column)


def boxes_of(region: Bool[Tensor, "height width"]) -> list[tuple[int, int, int, int]]:
    """The top, left, bottom and right of each connected part of a region."""
    numbered, _ = ndimage.label(region.numpy(), np.ones((3, 3)))
    return [(y.start, x.start, y.stop, x.stop) for y, x in ndimage.find_objects(numbered)]


def cut_out(
    images: Images, places: Int64[Tensor, " batch"], number: int, *, center: float, edge: float
) -> Images:
    """Images with `regions` in black, each at its own one of a number of places."""
    removed = regions(images.shape[-1], number, center=center, edge=edge).to(images.device)
    return images.masked_fill(removed[places, None], 0)


def hidden_in_background(images: Images, *, center: float, seed: int) -> Images:
    """Images whose middle disc (`regions`) continues what is around it.

    Each gets the median color of its pixels outside of the disc, which is a drawn picture's background,
    with noise as `pictures` have it, drawn from the seed.
    """
    [disc] = regions(images.shape[-1], 1, center=center, edge=0).to(images.device)
    color = images[:, :, ~disc].median(dim=2).values[:, :, None, None]
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(seed))
    return torch.where(disc, (color + NOISE * noise.to(images)).clamp(0, 1), images)
