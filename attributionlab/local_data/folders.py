"""Images in folders: one for each class, as in the validation part of ImageNet, or one for all."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.local_data.labeled import LabeledImages
from attributionlab.validation import integer_problem

__all__ = ["images_in"]

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
LISTED = 3
"""How many broken files are named; one line has no room for all."""


def images_in(
    folder: str | Path,
    *,
    size: int,
    shorter_side: int | None = None,
    n: int | None = None,
    seed: int = 0,
    classes: Sequence[str] | None = None,
) -> LabeledImages:
    """Images of a folder of class folders, or of a folder of images, cut to one size.

    Each image is converted to RGB (gray to three equal channels), scaled (bilinear, with smoothing)
    so that its shorter side has `shorter_side` pixels, and cut to the `size` x `size` pixels in its
    middle. Nothing else is done: what a network was trained with, such as a mean to subtract, belongs
    into the network (`attributionlab.local_data.local_model`).

    Parameters
    ----------
    folder : str or Path
        Of class folders, or of images whose classes are not known. Other files are left out, and so
        are names that start with a dot.
    size : int
        Side of the result in pixels.
    shorter_side : int, optional
        At least `size`, which is the default; 256 with a size of 224 is common for ImageNet.
    n : int, optional
        Images of each class (of a folder of images: in all), drawn without replacement; without it
        all.
    seed : int
        Of that draw, which for a class does not depend on the others.
    classes : sequence of str, optional
        Names of the class folders in the order of a network's outputs, for a folder that lacks some;
        without it the sorted names of the folders that are there.

    Returns
    -------
    LabeledImages
        (N, 3, size, size) float32 in [0, 1], class by class in sorted order of the files; (N,)
        int64; names. A folder of images has labels -1 and no names.

    Raises
    ------
    AttributionLabError
        For a folder without images, a class with fewer than n, files that are no images or broken,
        and settings that do not fit.
    """
    problems = [*integer_problem("size", size, 1), *integer_problem("seed", seed, 0)]
    if n is not None:
        problems += integer_problem("n", n, 1)
    if shorter_side is not None and not problems:
        problems += integer_problem("shorter_side", shorter_side, size)
    refuse_if(problems)
    folder = Path(folder)
    if not folder.is_dir():
        raise AttributionLabError(f"no folder at {str(folder)!r}: check the path")
    names, files = _listed(folder, classes)
    chosen = [
        (path, label)
        for label, paths in files.items()
        for path in _drawn(paths, n, np.random.default_rng([seed, label + 1]))
    ]
    images = _read([path for path, _ in chosen], size, shorter_side or size)
    return LabeledImages(
        torch.from_numpy(images), torch.tensor([label for _, label in chosen]), names
    )


def _listed(
    folder: Path, classes: Sequence[str] | None
) -> tuple[tuple[str, ...], dict[int, list[Path]]]:
    """The classes' names, and the image files by label."""
    inside = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    folders = {path.name: path for path in inside if path.is_dir()}
    loose = _images(inside)
    if loose and folders:
        raise AttributionLabError(
            f"{str(folder)!r} has both folders and images, such as {loose[0].name!r}: pass one with "
            "class folders alone, or with images alone"
        )
    if not loose and not folders:
        raise AttributionLabError(
            f"{str(folder)!r} has neither class folders nor images "
            f"({', '.join(sorted(SUFFIXES))}): check the path"
        )
    if loose:
        if classes is not None:
            raise AttributionLabError(
                f"{str(folder)!r} has images and no class folders: leave out classes"
            )
        return (), {-1: loose}
    names = tuple(folders) if classes is None else tuple(classes)
    if unknown := [name for name in folders if name not in names]:
        raise AttributionLabError(
            f"{str(folder)!r} has a folder {unknown[0]!r} that is not in classes: add it there, in "
            "the order of the network's outputs"
        )
    if len(set(names)) < len(names):
        raise AttributionLabError("classes has a name twice: give each once")
    files = {
        label: _images(sorted(folders[name].iterdir()))
        for label, name in enumerate(names)
        if name in folders
    }
    if empty := [names[label] for label, paths in files.items() if not paths]:
        raise AttributionLabError(
            f"class folder {empty[0]!r} in {str(folder)!r} has no images: remove it or fill it"
        )
    return names, files


def _images(paths: Sequence[Path]) -> list[Path]:
    return [
        path
        for path in paths
        if path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith(".")
    ]


def _drawn(paths: list[Path], n: int | None, rng: np.random.Generator) -> list[Path]:
    if n is None:
        return paths
    if n > len(paths):
        raise AttributionLabError(
            f"n is {n}: {str(paths[0].parent)!r} has {len(paths)} images; take no more"
        )
    return [paths[index] for index in np.sort(rng.permutation(len(paths))[:n])]


def _read(paths: Sequence[Path], size: int, shorter_side: int) -> NDArray[np.float32]:
    """Images (N, 3, size, size); those that cannot be read are named together."""
    images = np.empty((len(paths), 3, size, size), dtype=np.float32)
    broken = []
    for image, path in zip(images, paths, strict=True):
        try:
            image[:] = _cut(path, size, shorter_side).transpose(2, 0, 1)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            why = "no image" if isinstance(error, UnidentifiedImageError) else str(error)
            broken.append(f"{str(path)!r} ({why})")
    if broken:
        more = f" and {len(broken) - LISTED} more" if len(broken) > LISTED else ""
        raise AttributionLabError(
            f"cannot read {', '.join(broken[:LISTED])}{more}: replace or remove them"
        )
    images /= 255
    return images


def _cut(path: Path, size: int, shorter_side: int) -> NDArray[np.uint8]:
    """One image in RGB, (size, size, 3)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about metadata, and large images
        with Image.open(path) as opened:
            if opened.mode[0] in "IF":  # would be clipped at 255, not scaled
                raise ValueError(f"more than 8 bits a channel (mode {opened.mode})")
            image = opened.convert("RGB")
    scale = shorter_side / min(image.size)
    width, height = (max(shorter_side, round(side * scale)) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - size) // 2, (height - size) // 2
    return np.asarray(image.crop((left, top, left + size, top + size)))
