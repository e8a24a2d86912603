"""CIFAR-10 and CIFAR-100 from the files of their binary version.

A record is a label (CIFAR-10) or a coarse and a fine label (CIFAR-100), one byte each, and 3,072 bytes
of an image: 32 rows of 32 pixels of red, then green, then blue (https://www.cs.toronto.edu/~kriz/cifar.html).
The python version of the archives is pickled, and a pickle runs code when it is read.
"""

import os
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from attributionlab.base import AttributionLabError, Count, Whole, checked_arguments
from attributionlab.runs.local_data.folders import LabeledImages

Part = Literal["train", "test"]

CHANNELS, SIDE = 3, 32


class _Archive(NamedTuple):
    """The files of each part; of each label in a record its name, number of classes and their names."""

    name: str
    files: dict[str, tuple[str, ...]]
    labels: tuple[str, ...]
    classes: tuple[int, ...]
    class_names: tuple[str, ...]


CIFAR10 = _Archive(
    "cifar-10-binary.tar.gz",
    {
        "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        "test": ("test_batch.bin",),
    },
    ("label",),
    (10,),
    ("batches.meta.txt",),
)
CIFAR100 = _Archive(
    "cifar-100-binary.tar.gz",
    {"train": ("train.bin",), "test": ("test.bin",)},
    ("coarse", "fine"),
    (20, 100),
    ("coarse_label_names.txt", "fine_label_names.txt"),
)


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
    return _read(CIFAR10, folder, part, "label", n, seed)


@checked_arguments
def cifar100(
    folder: str | Path,
    part: Part = "train",
    *,
    labels: Literal["fine", "coarse"] = "fine",
    n: Count | None = None,
    seed: Whole = 0,
) -> LabeledImages:
    """Images of CIFAR-100 (Krizhevsky, 2009) from a folder with train.bin and test.bin.

    `labels`: the 100 classes, or the 20 superclasses. `folder`, `part`, `n`, `seed`: as in `cifar10`;
    the names are in fine_label_names.txt and coarse_label_names.txt.

    Result: (N, 3, 32, 32) float32 in [0, 1], (N,) int64, and 100 or 20 names. Raises
    AttributionLabError as in `cifar10`.
    """
    return _read(CIFAR100, folder, part, labels, n, seed)


def _read(
    archive: _Archive,
    folder: str | Path,
    part: Part,
    labels: str,
    n: int | None,
    seed: int,
) -> LabeledImages:
    folder = Path(folder)
    records = np.concatenate([_records(archive, folder / name) for name in archive.files[part]])
    if n is not None:
        if n > len(records):
            raise AttributionLabError(
                f"n is {n}: {folder} has {len(records)} images to {part}; take no more"
            )
        records = records[np.random.default_rng(seed).permutation(len(records))[:n]]
    column = archive.labels.index(labels)
    pixels = records[:, len(archive.labels) :].reshape(-1, CHANNELS, SIDE, SIDE)
    return LabeledImages(
        torch.from_numpy(pixels.astype(np.float32) / 255),
        torch.from_numpy(records[:, column].astype(np.int64)),
        _class_names(archive, folder / archive.class_names[column], archive.classes[column]),
    )


def _records(archive: _Archive, path: Path) -> NDArray[np.uint8]:
    """The records of a file, (N, labels + 3072)."""
    if not os.path.isfile(path):
        raise AttributionLabError(f"no file at {str(path)!r}: {_remedy(archive, path)}")
    size = len(archive.labels) + CHANNELS * SIDE**2
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise AttributionLabError(
            f"cannot read {str(path)!r} ({error.strerror}): check its permissions"
        ) from error
    if content.size == 0:
        raise AttributionLabError(f"{str(path)!r} is empty: extract {archive.name} again")
    if content.size % size:
        raise AttributionLabError(
            f"{str(path)!r} has {content.size} bytes, which is no multiple of the {size} bytes of a "
            f"record: it is cut off or not of {archive.name}; extract that again"
        )
    records = content.reshape(-1, size)
    for column, (name, classes) in enumerate(zip(archive.labels, archive.classes, strict=True)):
        most = int(records[:, column].max())
        if most >= classes:
            kind = "a label" if name == "label" else f"a {name} label"
            raise AttributionLabError(
                f"{kind} in {str(path)!r} is {most}, beyond 0 to {classes - 1}: the file is not of "
                f"{archive.name}, or damaged; extract that again"
            )
    return records


def _remedy(archive: _Archive, path: Path) -> str:
    pickled = path.with_suffix("")
    if os.path.isfile(pickled):
        return (
            f"{pickled.name!r} beside it is of the python version, which is pickled and not read "
            f"here; fetch {archive.name} (the binary version) from the CIFAR page and extract it"
        )
    return (
        f"fetch {archive.name} (the binary version; the python version is pickled and not read) "
        "from the CIFAR page, extract it and pass the folder with the .bin files"
    )


def _class_names(archive: _Archive, path: Path, classes: int) -> tuple[str, ...]:
    """A name in each line; numbers where the file is missing or holds other than a name for each."""
    try:
        names = tuple(path.read_text(encoding="utf-8").split()) if os.path.isfile(path) else ()
    except UnicodeDecodeError as error:
        raise AttributionLabError(
            f"{str(path)!r} is no text in UTF-8: extract {archive.name} again, or remove the file"
        ) from error
    return names if len(names) == classes else tuple(map(str, range(classes)))
