"""Images on disk: in folders, one for each class as in the validation part of ImageNet, or one for all,
and CIFAR-10 from the files of its binary version.

A record of CIFAR-10 is a label, one byte, and 3,072 bytes of an image: 32 rows of 32 pixels of red,
then green, then blue (https://www.cs.toronto.edu/~kriz/cifar.html). The python version of the archive
is pickled, and a pickle runs code when it is read.
"""

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError
from torch import Tensor

from attributionlab.base import (
    AttributionLabError,
    Count,
    Whole,
    checked_arguments,
    format_error,
    integer_problem,
    refuse_if,
)


class LabeledImages(NamedTuple):
    """Images in [0, 1], the class index of each (-1 where it is not known), and the classes' names."""

    images: Float32[Tensor, "batch 3 height width"]
    labels: Int64[Tensor, " batch"]
    classes: tuple[str, ...]


SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
LISTED = 3
"""How many broken files are named; one line has no room for all."""
SIXTEEN_BITS = re.compile(";16[BLN]")
"""16 bits a channel, in Pillow's names of formats, by the order of bytes; BGR;16 is 16 bits a pixel."""


@checked_arguments
def images_in(
    folder: str | Path,
    *,
    size: Count,
    shorter_side: Count | None = None,
    n: Count | None = None,
    seed: Whole = 0,
    classes: Sequence[str] | None = None,
) -> LabeledImages:
    """Images of a folder of class folders, or of a folder of images, cut to one size.

    Each image is turned as its EXIF orientation says, converted to RGB (gray to three equal
    channels), scaled (bilinear, with smoothing) so that its shorter side has `shorter_side` pixels,
    and cut to the `size` x `size` pixels in its middle. Nothing else is done: what a network was
    trained with, such as a mean to subtract, belongs into the network
    (`attributionlab.runs.local_data.local_model`).

    - `folder`: folder of class folders, or of images whose classes are not known. Other files are left
      out, and so are names that start with a dot.
    - `size`: side of the result in pixels.
    - `shorter_side`: at least `size`, which is the default; 256 with a size of 224 is common for
      ImageNet.
    - `n`: images of each class (of a folder of images: in all), drawn without replacement; without it
      all.
    - `seed`: seed for that draw, which for a class depends on its name and files, and not on other
      classes.
    - `classes`: names of the class folders in the order of a network's outputs, for a folder that lacks
      some; without it the sorted names of the folders that are there.

    Result: (N, 3, size, size) float32 in [0, 1], class by class in sorted order of the files; (N,)
    int64; names. A folder of images has labels -1 and no names. Raises AttributionLabError for a folder
    without images, a class with fewer than n, files that are no images, broken, too large for Pillow or
    the memory, or of more than 8 bits a channel, in gray and in color; for links that lead nowhere,
    whatever their name; and for settings that do not fit.
    """
    if shorter_side is not None:
        refuse_if(integer_problem("shorter_side", shorter_side, size))
    folder = Path(folder)
    if not os.path.isdir(folder):  # unlike Path.is_dir, also answers where links lead in circles
        raise AttributionLabError(f"no folder at {str(folder)!r}: check the path")
    names, files = _listed(folder, classes)
    chosen = [
        (path, label)
        for label, paths in files.items()
        for path in _drawn(paths, n, seed, names[label] if names else "")
    ]
    images = _read([path for path, _ in chosen], size, shorter_side or size)
    return LabeledImages(
        torch.from_numpy(images), torch.tensor([label for _, label in chosen]), names
    )


def _listed(
    folder: Path, classes: Sequence[str] | None
) -> tuple[tuple[str, ...], dict[int, list[Path]]]:
    """The classes' names, and the image files by label."""
    inside = _inside(folder)
    folders = {path.name: path for path in inside if os.path.isdir(path)}
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
        label: _images(_inside(folders[name]))
        for label, name in enumerate(names)
        if name in folders
    }
    if empty := [names[label] for label, paths in files.items() if not paths]:
        raise AttributionLabError(
            f"class folder {empty[0]!r} in {str(folder)!r} has no images: remove it or fill it"
        )
    return names, files


def _inside(folder: Path) -> list[Path]:
    """What is in a folder and not hidden, sorted. A link that leads nowhere may stand for a class."""
    try:
        paths = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    except OSError as error:
        raise AttributionLabError(
            f"cannot read {str(folder)!r} ({error.strerror}): check its permissions"
        ) from error
    _refuse_broken(
        [
            f"{str(path)!r} (a link that leads nowhere)"
            for path in paths
            if os.path.islink(path) and not os.path.exists(path)
        ]
    )
    return paths


def _images(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if path.suffix.lower() in SUFFIXES and os.path.isfile(path)]


def _drawn(paths: list[Path], n: int | None, seed: int, name: str) -> list[Path]:
    if n is None:
        return paths
    if n > len(paths):
        raise AttributionLabError(
            f"n is {n}: {str(paths[0].parent)!r} has {len(paths)} images; take no more"
        )
    rng = np.random.default_rng([seed, *os.fsencode(name)])
    return [paths[index] for index in np.sort(rng.permutation(len(paths))[:n])]


def _read(paths: Sequence[Path], size: int, shorter_side: int) -> NDArray[np.float32]:
    """Images (N, 3, size, size); those that cannot be read are named together."""
    images = np.empty((len(paths), 3, size, size), dtype=np.float32)
    broken = []
    for image, path in zip(images, paths, strict=True):
        try:
            image[:] = _cut(path, size, shorter_side).transpose(2, 0, 1)
        except Exception as error:  # Pillow raises of all kinds where a file is damaged
            broken.append(f"{str(path)!r} ({_why(error)})")
    _refuse_broken(broken)
    images /= 255
    return images


def _why(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "no image"
    if isinstance(error, MemoryError):
        return "too large for the memory"
    return str(error) if isinstance(error, AttributionLabError) else format_error(error)


def _refuse_broken(broken: Sequence[str]) -> None:
    if broken:
        more = f" and {len(broken) - LISTED} more" if len(broken) > LISTED else ""
        raise AttributionLabError(
            f"cannot read {', '.join(broken[:LISTED])}{more}: replace or remove them"
        )


def _cut(path: Path, size: int, shorter_side: int) -> NDArray[np.uint8]:
    """One image in RGB, (size, size, 3)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about metadata, and large images
        with Image.open(path) as opened:
            if _is_deep(opened):
                raise AttributionLabError("more than 8 bits a channel")
            ImageOps.exif_transpose(opened, in_place=True)
            image = opened.convert("RGB")
    scale = shorter_side / min(image.size)
    # The sides of the scaled image, which is not made: of a long and thin one it would be huge.
    scaled = [round(side * scale) for side in image.size]
    starts = [(side - size) // 2 for side in scaled]
    left, top, right, bottom = (
        (start + offset) * side / length
        for offset in (0, size)
        for start, side, length in zip(starts, image.size, scaled, strict=True)
    )
    cut = image.resize((size, size), Image.Resampling.BILINEAR, box=(left, top, right, bottom))
    return np.asarray(cut)


def _is_deep(image: ImageFile.ImageFile) -> bool:
    """Whether a file has more than 8 bits a channel; Pillow clips such gray and shortens such color."""
    return image.mode[0] in "IF" or any(
        SIXTEEN_BITS.search(str(arguments))
        or (codec.startswith("ppm") and isinstance(arguments, tuple) and arguments[1] > 255)
        for codec, _, _, arguments in image.tile
    )


Part = Literal["train", "test"]

CHANNELS, SIDE, CLASSES = 3, 32, 10
ARCHIVE, NAMES = "cifar-10-binary.tar.gz", "batches.meta.txt"
FILES: dict[Part, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}


@checked_arguments
def cifar10(
    folder: str | Path, part: Part = "train", *, n: Count | None = None, seed: Whole = 0
) -> LabeledImages:
    """Images of CIFAR-10 (Krizhevsky, 2009) from a folder with the files of its binary version.

    - `folder`: with data_batch_1.bin to data_batch_5.bin and test_batch.bin. A file may hold fewer
      records than the published 10,000.
    - `part`: which of the files.
    - `n`: images, drawn without replacement; without it all, in the order of the files.
    - `seed`: seed for that draw.

    Result: (N, 3, 32, 32) float32 in [0, 1], (N,) int64, and 10 names, which are the classes' numbers
    where batches.meta.txt is missing. Raises AttributionLabError for a file that is missing, empty, cut
    off or has labels beyond the classes, for names that are not UTF-8, for settings that do not fit,
    and if n is more than there is.
    """
    folder = Path(folder)
    records = np.concatenate([_records(folder / name) for name in FILES[part]])
    if n is not None:
        if n > len(records):
            raise AttributionLabError(
                f"n is {n}: {folder} has {len(records)} images to {part}; take no more"
            )
        records = records[np.random.default_rng(seed).permutation(len(records))[:n]]
    pixels = records[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE)
    return LabeledImages(
        torch.from_numpy(pixels.astype(np.float32) / 255),
        torch.from_numpy(records[:, 0].astype(np.int64)),
        _class_names(folder / NAMES),
    )


def _records(path: Path) -> NDArray[np.uint8]:
    """The records of a file, (N, 1 + 3072)."""
    if not os.path.isfile(path):
        raise AttributionLabError(f"no file at {str(path)!r}: {_remedy(path)}")
    size = 1 + CHANNELS * SIDE**2
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise AttributionLabError(
            f"cannot read {str(path)!r} ({error.strerror}): check its permissions"
        ) from error
    if content.size == 0:
        raise AttributionLabError(f"{str(path)!r} is empty: extract {ARCHIVE} again")
    if content.size % size:
        raise AttributionLabError(
            f"{str(path)!r} has {content.size} bytes, which is not a multiple of the {size} bytes of a "
            f"record: it is cut off or not of {ARCHIVE}; extract that again"
        )
    records = content.reshape(-1, size)
    most = int(records[:, 0].max())
    if most >= CLASSES:
        raise AttributionLabError(
            f"a label in {str(path)!r} is {most}, beyond 0 to {CLASSES - 1}: the file is not of "
            f"{ARCHIVE}, or damaged; extract that again"
        )
    return records


def _remedy(path: Path) -> str:
    pickled = path.with_suffix("")
    if os.path.isfile(pickled):
        return (
            f"{pickled.name!r} next to it is the Python version, which is pickled and not read here; "
            f"get {ARCHIVE} (the binary version) from the CIFAR page and extract it"
        )
    return (
        f"fetch {ARCHIVE} (the binary version; the python version is pickled and not read) "
        "from the CIFAR page, extract it and pass the folder with the .bin files"
    )


def _class_names(path: Path) -> tuple[str, ...]:
    """A name in each line; numbers where the file is missing or holds other than a name for each."""
    try:
        names = tuple(path.read_text(encoding="utf-8").split()) if os.path.isfile(path) else ()
    except UnicodeDecodeError as error:
        raise AttributionLabError(
            f"{str(path)!r} is not UTF-8 text: extract {ARCHIVE} again, or remove the file"
        ) from error
    return names if len(names) == CLASSES else tuple(map(str, range(CLASSES)))
