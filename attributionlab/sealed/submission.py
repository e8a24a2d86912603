"""A submission: maps and answers of somebody who may try anything."""

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.errors import AttributionLabError
from attributionlab.sealed.archives import (
    MOST_ENTRIES,
    array_of,
    file_bytes,
    json_bytes,
    json_document,
    zip_members,
)

MAPS, ANSWERS = "maps.npz", "answers.json"
ARRAYS = ("maps.npy", "arr_0.npy")
"""Names that `numpy.savez` gives to one array."""
DIGITS = 3
"""Of values that are compared with those of others. Single precision is off by 6e-8: that 10,000 values
are all rounded as those in double precision are fails with a chance of 10,000 * 6e-8 / 1e-3 = 6e-4."""


@dataclass(frozen=True, eq=False)
class Submission:
    """What was handed in, as far as it could be read.

    Parameters
    ----------
    maps : array of float64, (n, 1, H, W), or None
        Of each image, its largest magnitude 1; channels are summed.
    answers : dict or None
        What answers.json holds.
    problems : list of str
        What could not be read.
    """

    maps: NDArray[np.float64] | None
    answers: Mapping[str, Any] | None
    problems: list[str]

    @property
    def prints(self) -> dict[str, str]:
        """Numbers that equal maps, or answers, have in common, whatever their files look like.

        Neither order of images, scale and type of maps, nor the order of keys and lists matters.
        """
        found = {}
        if self.maps is not None and self.maps.any():
            rounded = np.round(self.maps, DIGITS) + 0.0  # no negative zeros
            images = sorted(hashlib.sha256(each.tobytes()).hexdigest() for each in rounded)
            found["maps"] = hashlib.sha256("".join(images).encode()).hexdigest()
        if self.answers:
            found["answers"] = hashlib.sha256(json_bytes(_sorted(self.answers))).hexdigest()
        return found


def read_submission(path: Path, shape: Sequence[int]) -> Submission:
    """Read a folder or zip of maps.npz and answers.json.

    Parameters
    ----------
    path : Path
        Where it lies.
    shape : sequence of int
        That of the images, (n, 3, H, W).

    Raises
    ------
    AttributionLabError
        If nothing of it can be read.
    """
    files, problems = _folder(path) if _is_folder(path) else (_archive(path), [])
    found: dict[str, Any] = {}
    for name, read in ((MAPS, _maps), (ANSWERS, _answers)):
        if name not in files:
            problems.append(f"{name} is missing: hand in {MAPS} and {ANSWERS}")
            continue
        try:
            found[name] = read(files[name], shape)
        except AttributionLabError as error:
            problems.append(str(error))
    if not found:
        raise AttributionLabError("; ".join(problems))
    return Submission(found.get(MAPS), found.get(ANSWERS), problems)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False  # said where it is read


def _archive(path: Path) -> dict[str, bytes]:
    return zip_members(file_bytes(path), (MAPS, ANSWERS), "the archive")


def _folder(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """The two files of a folder; no other is opened."""
    names = set()
    with os.scandir(path) as entries:
        for count, entry in enumerate(entries, start=1):
            if count > MOST_ENTRIES:
                raise AttributionLabError(
                    f"the folder holds more than {MOST_ENTRIES} files: hand in only yours"
                )
            names.add(entry.name)
    files, problems = {}, []
    for name in sorted({MAPS, ANSWERS} & names):
        try:
            files[name] = file_bytes(path / name)
        except AttributionLabError as error:
            problems.append(str(error))
    return files, problems


def _maps(packed: bytes, shape: Sequence[int]) -> NDArray[np.float64]:
    arrays = zip_members(packed, ARRAYS, MAPS)
    if len(arrays) != 1:
        raise AttributionLabError(f"{MAPS} holds no one array: numpy.savez('{MAPS}', maps=maps)")
    [(name, content)] = arrays.items()
    given = array_of(content, f"{name} in {MAPS}")
    n, channels, *size = shape
    allowed = [(n, *size), (n, 1, *size), (n, channels, *size)]
    if given.shape not in allowed:
        raise AttributionLabError(
            f"{MAPS} has the shape {given.shape}: give one map for each image, {allowed[0]}"
        )
    maps = given.astype(np.float64).reshape(n, -1, *size)
    wrong = np.flatnonzero(~np.isfinite(maps).all((1, 2, 3)))
    if len(wrong):
        raise AttributionLabError(
            f"{MAPS} holds NaN or infinity (image {wrong[0]}): give finite numbers"
        )
    # Scaled before and after the sum, which else might leave the range of float64.
    return _scaled(_scaled(maps).sum(1, keepdims=True))


def _scaled(maps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each image's largest magnitude becomes 1; zeros stay."""
    largest = np.abs(maps).max((1, 2, 3), keepdims=True)
    scaled: NDArray[np.float64] = np.divide(
        maps, largest, out=np.zeros_like(maps), where=largest > 0
    )
    return scaled


def _answers(packed: bytes, shape: Sequence[int]) -> dict[str, Any]:
    return json_document(packed, ANSWERS)


def _sorted(value: Any) -> Any:
    """A document in which the order of lists does not matter."""
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted(map(_sorted, value), key=lambda each: json_bytes(each))
    return repr(value) if isinstance(value, float) else value
