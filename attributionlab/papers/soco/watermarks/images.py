"""The images that watermarks are put on: patches of our own, or what a folder holds."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.errors import AttributionLabError
from attributionlab.images import color_patches, draw
from attributionlab.local_data import LabeledImages, cifar10, cifar100, images_in

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
"""Of a folder of class folders, which has no part of its own for testing."""


class NaturalImages(NamedTuple):
    """Images in [0, 1] with their own labels, apart for training and testing."""

    training: Float32[Tensor, "training channels side side"]
    training_labels: Int64[Tensor, " training"]
    testing: Float32[Tensor, "testing channels side side"]
    testing_labels: Int64[Tensor, " testing"]
    classes: int
    source: str
    """What they are, in a few words."""


def natural_images(
    folder: str | Path | None, *, training: int, testing: int, seed: int
) -> NaturalImages:
    """Images with labels of their own: patches without a folder, else those of the folder.

    Parameters
    ----------
    folder : str or Path, optional
        With the binary files of CIFAR-100 (fine labels) or CIFAR-10, or with a folder of images for
        each class, which are cut to 32 x 32 pixels and a fifth of which is kept for testing. Without
        one, images have a patch in each of eight colors, and the label is the color with the most
        pixels, by a lead of at least 5.
    training, testing : int
        Images, as far as a folder has so many.
    seed : int
        Of what is drawn.

    Raises
    ------
    AttributionLabError
        For a folder without labelled images, or with fewer than two classes.
    """
    if folder is None:
        parts = [
            _patches(n, np.random.SeedSequence([seed, part]).generate_state(1)[0])
            for part, n in enumerate((training, testing))
        ]
        return NaturalImages(*parts[0], *parts[1], len(COLORS), f"patches in {len(COLORS)} colors")
    folder = Path(folder)
    read = {"train.bin": (cifar100, 100), "data_batch_1.bin": (cifar10, 10)}
    for file, (cifar, classes) in read.items():
        if (folder / file).is_file():
            fit, test = cifar(folder, "train"), cifar(folder, "test")
            chosen = (_some(each, n, seed) for each, n in ((fit, training), (test, testing)))
            name = cifar.__name__.upper().replace("CIFAR", "CIFAR-")
            return NaturalImages(*next(chosen), *next(chosen), classes, name)
    found = images_in(folder, size=SIDE, seed=seed)
    if len(found.classes) < 2:
        raise AttributionLabError(
            f"{str(folder)!r} has {len(found.classes)} class folders: pass one with a folder for each "
            "of at least two classes, or with the .bin files of CIFAR-100 or CIFAR-10"
        )
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(found.images)))
    held = max(1, round(TESTED_SHARE * len(order)))
    tested, fitted = order[:held][:testing], order[held:][:training]
    return NaturalImages(
        *(found.images[fitted], found.labels[fitted]),
        *(found.images[tested], found.labels[tested]),
        len(found.classes),
        folder.resolve().name,
    )


def _patches(n: int, seed: int) -> tuple[Tensor, Tensor]:
    images = np.stack([draw(RECIPE, int(seed), index, _has_a_lead).image for index in range(n)])
    labels = np.array([_counts(image).argmax() for image in images])
    return torch.from_numpy(images).float() / 255, torch.from_numpy(labels)


def _has_a_lead(image: NDArray[np.uint8]) -> bool:
    second, first = np.sort(_counts(image))[-2:]
    return bool(first - second >= LEAD)


def _counts(image: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Pixels of each color."""
    packed = np.tensordot((1 << 16, 1 << 8, 1), image.astype(np.int64), 1)
    return np.array([(packed == (r << 16 | g << 8 | b)).sum() for r, g, b in COLORS])


def _some(found: LabeledImages, n: int, seed: int) -> tuple[Tensor, Tensor]:
    order = np.random.default_rng(seed).permutation(len(found.images))[:n]
    chosen = torch.from_numpy(order)
    return found.images[chosen], found.labels[chosen]
