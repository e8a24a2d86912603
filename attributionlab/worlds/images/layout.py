"""Where patches go: non-overlapping, inside the image, at random."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import AttributionLabError
from attributionlab.worlds.images.shapes import LEAST_SIDE, SHAPES, Mask

# Positions tried for one patch before the layout starts afresh.
TRIES = 100

# Layouts begun before a placement is given up.
ATTEMPTS = 100

# Labels are 16-bit integers.
MOST_PATCHES = int(np.iinfo(np.int16).max)


def place_patches(
    rng: np.random.Generator,
    *,
    image_size: int,
    count: int,
    shapes: Sequence[str],
    patch_size: tuple[float, float],
    attempts: int = ATTEMPTS,
) -> NDArray[np.int16]:
    """Place random patches that do not overlap, each wholly inside the image.

    Each patch draws its shape uniformly from `shapes` and its diameter uniformly from
    `patch_size`. The largest patch is placed first, each at a position drawn uniformly until it
    meets no other; after 100 positions in vain the layout starts afresh with new patches. Patches
    may touch. Sizes and positions have the same distribution for every label.

    - `count`: number of patches, 1 to 32767.
    - `shapes`: names from `SHAPES`.
    - `patch_size`: smallest and largest diameter as fractions of the image side, 0 < smallest <=
      largest <= 1. Diameters are rounded to pixels, and are at least 1.
    - `attempts`: how many layouts to begin before giving up.

    Result: 0 on the background, k on the pixels of patch k = 1..count. Raises AttributionLabError if no
    attempt places all patches.
    """
    best = 0
    for _ in range(attempts):
        labels, placed = _attempt(rng, image_size, count, shapes, patch_size)
        if placed == count:
            return labels
        best = max(best, placed)
    low, high = (_pixels(fraction, image_size) for fraction in patch_size)
    raise AttributionLabError(
        f"{count} patches of {low} to {high} pixels do not fit into an image of "
        f"{image_size} x {image_size}: at best {best} of {count} were placed in {attempts} "
        "attempts; use fewer or smaller patches or a larger image"
    )


def layout_problems(
    *, image_size: int, count: int, shapes: Sequence[str], patch_size: tuple[float, float]
) -> list[str]:
    """Say, without drawing, why a layout is impossible; an empty list proves nothing.

    Every patch holds an upright block of b = max(1, floor(a d)) pixels a side, d being the smallest
    diameter and a the shape's `LEAST_SIDE`. Of the pixels whose row and column are both multiples
    of b (counted from 1) each block covers one, so at most floor(H / b)^2 patches fit into an image
    of side H. Parameters are those of `place_patches`; `shapes` and `patch_size` must be valid.

    Result: one sentence a problem.
    """
    if not 1 <= count <= MOST_PATCHES:
        return [f"{count} patches in one image; choose 1 to {MOST_PATCHES}"]
    diameter = _pixels(patch_size[0], image_size)
    block = max(1, min(int(LEAST_SIDE[shape] * diameter) for shape in shapes))
    most = (image_size // block) ** 2
    if count > most:
        return [
            f"{count} patches of at least {diameter} pixels across cannot fit into an image of "
            f"{image_size} x {image_size}, which has room for {most} at most; use fewer or smaller "
            "patches or a larger image"
        ]
    return []


def _pixels(fraction: float, image_size: int) -> int:
    return max(1, round(fraction * image_size))


def _attempt(
    rng: np.random.Generator,
    image_size: int,
    count: int,
    shapes: Sequence[str],
    patch_size: tuple[float, float],
) -> tuple[NDArray[np.int16], int]:
    """Begin one layout; return it with the number of patches placed until one found no room.

    Patches are drawn until they have more pixels than the image.
    """
    low, high = patch_size
    masks: list[Mask] = []
    room = image_size**2
    while len(masks) < count and room >= 0:
        shape = SHAPES[shapes[int(rng.integers(len(shapes)))]]
        mask = shape(rng, _pixels(low + (high - low) * rng.random(), image_size))
        room -= int(mask.sum())
        masks.append(mask)
    labels = np.zeros((image_size, image_size), dtype=np.int16)
    # Placing the largest first finds room more often. Equal sizes go in random order, or the label
    # would tell something of the position.
    order = np.lexsort((rng.random(len(masks)), [-mask.sum() for mask in masks]))
    for placed, k in enumerate(order):
        if not _place(rng, labels, masks[k], k + 1):
            return labels, placed
    return labels, len(masks)


def _place(rng: np.random.Generator, labels: NDArray[np.int16], mask: Mask, label: int) -> bool:
    """Write `label` into `labels` under `mask` at a free position; False if none was found."""
    height, width = mask.shape
    tops = rng.integers(labels.shape[0] - height, size=TRIES, endpoint=True)
    lefts = rng.integers(labels.shape[1] - width, size=TRIES, endpoint=True)
    for top, left in zip(tops.tolist(), lefts.tolist(), strict=True):
        window = labels[top : top + height, left : left + width]
        if not window[mask].any():
            window[mask] = label
            return True
    return False
