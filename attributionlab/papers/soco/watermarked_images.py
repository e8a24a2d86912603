"""Images with watermarks that tell a label: a number in a black square, or stripes in binary.

They are put on patches of our own or on what a folder holds, and on a blank canvas.
"""

import math
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import (
    AttributionLabError,
    checked_images,
    checked_targets,
    integer_problem,
    refuse_if,
)
from attributionlab.runs import LabeledImages, cifar10, cifar100, images_in
from attributionlab.worlds.images import color_patches, draw

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
ORIGINAL, NUMBER, STRIPES = "original", "number", "stripes"
MARKS = (NUMBER, STRIPES)
ON_IMAGES, BLANK = "images", "blank"
SIDE = 32
COLORS = (
    *((220, 60, 60), (60, 220, 60), (60, 60, 220), (220, 220, 60)),
    *((220, 60, 220), (60, 220, 220), (220, 140, 60), (140, 60, 220)),
)
LEAD = 5
"""Pixels by which a color is ahead of all others: fewer are chance to look at."""
RECIPE = color_patches(
    image_size=SIDE,
    colors=COLORS,
    background=(120, 120, 120),
    shapes=("triangle", "square", "circle"),
    patch_size=(0.12, 0.3),
    fill=0.8,
)
TESTED_SHARE = 0.2
"""Share for testing of a folder of class folders, which has no such part of its own."""


Images = Float32[Tensor, "batch channels height width"]
Labels = Int64[Tensor, " batch"]


class Watermarked(NamedTuple):
    """Images in [0, 1] with a watermark for their label, and the pixels that it modifies."""

    images: Images
    labels: Labels
    region: Bool[Tensor, "batch 1 height width"]
    """The effective region of Zhou et al. (2022): the whole rectangle, or all stripes. No stripe spells
    label 0, whose region is empty."""


class NaturalImages(NamedTuple):
    """Images with their own labels and no watermark, apart for training and testing."""

    training: Watermarked
    testing: Watermarked
    classes: int
    source: str
    """What they are, in a few words."""


class Data(NamedTuple):
    """One of the five data sets."""

    mark: str
    """the watermark: "original" (none), "number" or "stripes" """
    canvas: str
    """what it is put on: "images" (semi-natural data sets) or "blank" (pure synthetic ones)"""
    training: Watermarked
    testing: Watermarked
    before: Float[Tensor, "batch channels height width"]
    """the images for testing without their watermarks"""
    classes: int


def data_sets(natural: NaturalImages, seed: int) -> list[Data]:
    """The original images, and both watermarks on them and on a blank (black) canvas.

    All four watermarked data sets have the same re-assigned labels, and both with numbers have these
    at the same places.
    """
    classes = natural.classes
    # Labels and places are drawn apart, for training and for testing.
    seeds = np.random.SeedSequence(seed).generate_state(4).tolist()
    result = [Data(ORIGINAL, ON_IMAGES, *natural[:2], natural.testing.images, classes)]
    for mark in MARKS:
        for canvas in (ON_IMAGES, BLANK):
            before, marked = [], []
            for part, of_labels, of_places in zip(natural[:2], seeds[:2], seeds[2:], strict=True):
                images = torch.zeros_like(part.images) if canvas == BLANK else part.images
                labels = reassigned_labels(len(images), classes, of_labels)
                before.append(images)
                marked.append(watermarked(mark, images, labels, classes=classes, seed=of_places))
            result.append(Data(mark, canvas, marked[0], marked[1], before[1], classes))
    return result


def reassigned_labels(n: int, classes: int, seed: int) -> Int64[Tensor, " n"]:
    """Draw labels uniformly, whatever the images show (Zhou et al., 2022).

    What an image showed before then says nothing about its label: a network that is right more often
    than by chance must have used the watermark.
    """
    return torch.from_numpy(np.random.default_rng(seed).integers(classes, size=n))


def watermarked(
    mark: str, images: Tensor, labels: Tensor, *, classes: int, seed: int
) -> Watermarked:
    """Put a number or stripes on images; the seed is that of the numbers' places."""
    if mark == NUMBER:
        return number_watermarks(images, labels, classes=classes, seed=seed)
    return stripe_watermarks(images, labels, classes=classes)


def number_watermarks(images: Images, labels: Labels, *, classes: int, seed: int) -> Watermarked:
    """Write each label in white digits into a black square at a random place.

    The square's side is `rectangle_side`; digits are 3 x 5 pixels, as many times larger as fit, in
    the middle of the square. Numbers have no leading zeros; the largest decides the size of the
    digits. Images, in [0, 1], are copied; zeros are the blank canvas. Places are uniform within the
    image.
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


def stripe_watermarks(images: Images, labels: Labels, *, classes: int) -> Watermarked:
    """Spell each label in binary: white stripes across the image for the digits that are 1.

    The rows are those of `stripe_rows`, the most significant digit at the top; where a digit is 0
    the image stays as it is.
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
    """The side of the black square in an image of this side: 60 of 224 pixels, rounded."""
    return round(RECTANGLE * side)


def stripe_count(classes: int) -> int:
    """How many binary digits tell the classes apart: 7 for 100."""
    return math.ceil(math.log2(classes))


def stripe_rows(height: int, classes: int) -> list[slice]:
    """The rows of each digit, from the top; where the height is no multiple, some have more."""
    count = stripe_count(classes)
    edges = [height * place // count for place in range(count + 1)]
    return [slice(*ends) for ends in pairwise(edges)]


def natural_images(
    folder: str | Path | None, *, training: int, testing: int, seed: int
) -> NaturalImages:
    """Images with labels of their own: patches without a folder, else those of the folder.

    A folder has the binary files of CIFAR-100 (fine labels) or CIFAR-10, or a folder of images for each
    class, which are cut to 32 x 32 pixels and a fifth of which is kept for testing. Without one, images
    have a patch in each of eight colors, and the label is the color with the most pixels, by a lead of
    at least 5. A folder may have fewer images than `training` and `testing`.
    """
    if folder is None:
        own, fresh = (
            _patches(n, np.random.SeedSequence([seed, part]).generate_state(1)[0])
            for part, n in enumerate((training, testing))
        )
        return NaturalImages(own, fresh, len(COLORS), f"patches in {len(COLORS)} colors")
    folder = Path(folder)
    read = {"train.bin": (cifar100, 100), "data_batch_1.bin": (cifar10, 10)}
    for file, (cifar, classes) in read.items():
        if (folder / file).is_file():
            name = cifar.__name__.upper().replace("CIFAR", "CIFAR-")
            own = _some(cifar(folder, "train"), training, seed)
            fresh = _some(cifar(folder, "test"), testing, seed)
            return NaturalImages(own, fresh, classes, name)
    found = images_in(folder, size=SIDE, seed=seed)
    if len(found.classes) < 2:
        raise AttributionLabError(
            f"{str(folder)!r} has {len(found.classes)} class folders: pass one with a folder for each "
            "of at least two classes, or with the .bin files of CIFAR-100 or CIFAR-10"
        )
    order = np.random.default_rng(seed).permutation(len(found.images))
    held = max(1, round(TESTED_SHARE * len(order)))
    own, fresh = (
        _chosen(found, each) for each in (order[held:][:training], order[:held][:testing])
    )
    return NaturalImages(own, fresh, len(found.classes), folder.resolve().name)


def _number(label: int, side: int, scale: int) -> Float32[Tensor, "side side"]:
    """Draw white digits in the middle of a black square."""
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


def _without_mark(images: Tensor, labels: Tensor) -> Watermarked:
    return Watermarked(images, labels, torch.zeros_like(images[:, :1], dtype=torch.bool))


def _patches(n: int, seed: int) -> Watermarked:
    def has_a_lead(image: NDArray[np.uint8]) -> bool:
        second, first = np.sort(_counts(image))[-2:]
        return bool(first - second >= LEAD)

    images = np.stack([draw(RECIPE, int(seed), index, has_a_lead).image for index in range(n)])
    labels = np.array([_counts(image).argmax() for image in images])
    return _without_mark(torch.from_numpy(images).float() / 255, torch.from_numpy(labels))


def _counts(image: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Count the pixels of each color."""
    packed = np.tensordot((1 << 16, 1 << 8, 1), image.astype(np.int64), 1)
    return np.array([(packed == (r << 16 | g << 8 | b)).sum() for r, g, b in COLORS])


def _some(found: LabeledImages, n: int, seed: int) -> Watermarked:
    return _chosen(found, np.random.default_rng(seed).permutation(len(found.images))[:n])


def _chosen(found: LabeledImages, order: NDArray[np.int64]) -> Watermarked:
    chosen = torch.from_numpy(order)
    return _without_mark(found.images[chosen], found.labels[chosen])
