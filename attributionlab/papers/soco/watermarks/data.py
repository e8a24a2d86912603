"""Watermarks that tell a label: a number in a black square, or stripes that spell it in binary."""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.validation import checked_images, checked_targets, integer_problem

DIGITS = (
    ("###", "# #", "# #", "# #", "###"),
    (" # ", "## ", " # ", " # ", "###"),
    ("## ", "  #", " # ", "#  ", "###"),
    ("## ", "  #", " # ", "  #", "## "),
    ("# #", "# #", "###", "  #", "  #"),
    ("###", "#  ", "## ", "  #", "## "),
    (" ##", "#  ", "###", "# #", "###"),
    ("###", "  #", " # ", " # ", " # "),
    ("###", "# #", "###", "# #", "###"),
    ("###", "# #", "###", "  #", "## "),
)
"""Each five rows of three pixels."""
DIGIT_HEIGHT, DIGIT_WIDTH, GAP = 5, 3, 1
RECTANGLE = 60 / 224
"""The paper's rectangle: its side as a share of the image's."""
BLACK, WHITE = 0.0, 1.0


class Watermarked(NamedTuple):
    """Images in [0, 1] with a watermark for their label, and the pixels that it modifies."""

    images: Float32[Tensor, "batch channels height width"]
    labels: Int64[Tensor, " batch"]
    region: Bool[Tensor, "batch 1 height width"]
    """The effective region of Zhou et al. (2022): the whole rectangle, or all stripes. No stripe spells
    label 0, whose region is empty."""


def reassigned_labels(n: int, classes: int, seed: int) -> Int64[Tensor, " n"]:
    """Labels drawn uniformly, whatever the images show (Zhou et al., 2022).

    What an image showed before then says nothing about its label: a network that is right more often
    than by chance must have used the watermark.
    """
    return torch.from_numpy(np.random.default_rng(seed).integers(classes, size=n))


def number_watermarks(
    images: Float32[Tensor, "batch channels height width"],
    labels: Int64[Tensor, " batch"],
    *,
    classes: int,
    seed: int,
) -> Watermarked:
    """Write each label in white digits into a black square at a random place.

    The square's side is `rectangle_side`; digits are 3 x 5 pixels, as many times larger as fit, in the
    middle of the square. Numbers have no leading zeros.

    Parameters
    ----------
    images : Tensor, (B, C, H, W)
        In [0, 1]; they are copied. Zeros are the blank canvas.
    labels : Tensor, (B,)
        From 0 to classes - 1.
    classes : int
        How many there are; the largest number decides the size of the digits.
    seed : int
        Of the places, uniform over all that lie within the image.

    Raises
    ------
    AttributionLabError
        For labels beyond the classes, and images too small for the digits.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.soco.watermarks.data import number_watermarks
    >>> marked = number_watermarks(
    ...     torch.full((1, 1, 20, 20), 0.5), torch.tensor([7]), classes=8, seed=0
    ... )
    >>> rows = marked.images[marked.region].view(5, 5)  # a side of 5 has room for one digit
    >>> for row in rows.tolist():
    ...     print("".join("#" if value else "." for value in row))
    .###.
    ...#.
    ..#..
    ..#..
    ..#..
    """
    _refuse_other_labels(images, labels, classes)
    marked, (height, width) = images.clone(), images.shape[2:]
    side = rectangle_side(min(height, width))
    characters = len(str(classes - 1))
    scale = side // max(DIGIT_HEIGHT, characters * (DIGIT_WIDTH + GAP) - GAP)
    if scale < 1:
        raise AttributionLabError(
            f"images are {height} x {width}, whose rectangle of side {side} has no room for "
            f"{characters} digits of {DIGIT_WIDTH} x {DIGIT_HEIGHT} pixels: take larger images"
        )
    region = torch.zeros(len(images), 1, height, width, dtype=torch.bool)
    rng = np.random.default_rng(seed)
    places = rng.integers((height - side + 1, width - side + 1), size=(len(images), 2))
    for image, inside, label, (top, left) in zip(
        marked, region, labels.tolist(), places.tolist(), strict=True
    ):
        square = slice(top, top + side), slice(left, left + side)
        image[:, square[0], square[1]] = _number(label, side, scale)
        inside[:, square[0], square[1]] = True
    return Watermarked(marked, labels, region)


def stripe_watermarks(
    images: Float32[Tensor, "batch channels height width"],
    labels: Int64[Tensor, " batch"],
    *,
    classes: int,
) -> Watermarked:
    """Spell each label in binary: white stripes across the image for the digits that are 1.

    The rows are those of `stripe_rows`, the most significant digit at the top; where a digit is 0 the
    image stays as it is.

    Parameters
    ----------
    images, labels, classes
        As in `number_watermarks`.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.soco.watermarks.data import stripe_watermarks
    >>> marked = stripe_watermarks(torch.zeros(1, 1, 7, 1), torch.tensor([40]), classes=100)
    >>> marked.images.flatten().tolist()
    [0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    """
    _refuse_other_labels(images, labels, classes)
    marked, height = images.clone(), images.shape[2]
    region = torch.zeros_like(images[:, :1], dtype=torch.bool)
    for place, rows in enumerate(stripe_rows(height, classes)):
        on = (labels >> (stripe_count(classes) - 1 - place) & 1).bool()
        region[on, :, rows] = True
        marked[on, :, rows] = WHITE
    return Watermarked(marked, labels, region)


def rectangle_side(side: int) -> int:
    """Side of the black square in an image of this side: 60 of 224 pixels, rounded.

    Examples
    --------
    >>> from attributionlab.papers.soco.watermarks.data import rectangle_side
    >>> rectangle_side(224), rectangle_side(32)
    (60, 9)
    """
    return round(RECTANGLE * side)


def stripe_count(classes: int) -> int:
    """Binary digits that tell the classes apart: 7 for 100."""
    return math.ceil(math.log2(classes))


def stripe_rows(height: int, classes: int) -> list[slice]:
    """Rows of each digit, from the top; where the height is no multiple, some have one row more.

    Examples
    --------
    >>> from attributionlab.papers.soco.watermarks.data import stripe_rows
    >>> [(rows.start, rows.stop) for rows in stripe_rows(32, 8)]
    [(0, 10), (10, 21), (21, 32)]
    """
    count = stripe_count(classes)
    edges = [height * place // count for place in range(count + 1)]
    return [slice(*ends) for ends in pairwise(edges)]


def _number(label: int, side: int, scale: int) -> Float32[Tensor, "side side"]:
    """White digits in the middle of a black square."""
    figures = [
        np.array([[pixel == "#" for pixel in row] for row in DIGITS[int(each)]])
        for each in str(label)
    ]
    gap = np.zeros((DIGIT_HEIGHT, GAP), dtype=bool)
    text = np.hstack([part for each in figures for part in (gap, each)])[:, GAP:]
    text = text.repeat(scale, axis=0).repeat(scale, axis=1)
    square = np.full((side, side), BLACK, dtype=np.float32)
    top, left = ((side - extent) // 2 for extent in text.shape)
    square[top : top + text.shape[0], left : left + text.shape[1]][text] = WHITE
    return torch.from_numpy(square)


def _refuse_other_labels(images: Tensor, labels: Tensor, classes: int) -> None:
    checked_targets(labels, len(checked_images(images)))
    refuse_if(integer_problem("classes", classes, 2))
    least, most = int(labels.min()), int(labels.max())
    if least < 0 or most >= classes:
        raise AttributionLabError(
            f"a label is {least if least < 0 else most}: with {classes} classes pass 0 to "
            f"{classes - 1}"
        )
