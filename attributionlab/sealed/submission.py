"""A submission: maps and answers of somebody who may try anything."""

import io
import os
import stat
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.errors import AttributionLabError, cut
from attributionlab.sealed.archives import (
    MOST_ENTRIES,
    array_of,
    file_bytes,
    json_document,
    zip_members,
)
from attributionlab.sealed.laboratory import LAB, lab_files
from attributionlab.sealed.questions import CAUSES, DOSES, METHODS, NEVER

MAPS, ANSWERS = "maps.npz", "answers.json"
ARRAYS = ("maps.npy", "arr_0.npy")
"""Names that `numpy.savez` gives to one array."""
MOST_LISTED = 1000
"""Items of an answer."""
MOST_SHOWN = 3
"""Names of files in a message."""


@dataclass(frozen=True, eq=False)
class Submission:
    """What was handed in, as far as it could be read.

    Parameters
    ----------
    maps : array of float64, (n, 1, H, W), or None
        Of each image, its largest magnitude 1; channels are summed.
    answers : dict
        By question, as the readers of `QUESTIONS` return them: equal answers are equal, however they
        are written.
    problems : list of str
        What could not be read.
    """

    maps: NDArray[np.float64] | None
    answers: Mapping[str, Any]
    problems: list[str]


def read_submission(path: Path, spec: Mapping[str, Any]) -> Submission:
    """Read a folder or zip of maps.npz and answers.json for the laboratory with this lab.json.

    Raises
    ------
    AttributionLabError
        If nothing of it can be read.
    """
    files, names, problems = _folder(path) if _is_folder(path) else _archive(path)
    found: dict[str, Any] = {}
    for name in (MAPS, ANSWERS):
        if name not in files:
            if name not in names:  # else it is said already why it is not read
                others = sorted(map(_shown, names - {MAPS, ANSWERS}))[:MOST_SHOWN]
                there = f", and {', '.join(others)} is no such name" if others else ""
                problems.append(f"{name} is missing{there}: hand in {MAPS} and {ANSWERS}")
            continue
        try:
            found[name] = (
                _maps(files[name], spec["images"])
                if name == MAPS
                else json_document(files[name], ANSWERS)
            )
        except AttributionLabError as error:
            problems.append(str(error))
    if not found:
        raise AttributionLabError("; ".join(problems))
    answers = dict[str, Any]()
    if ANSWERS in found:
        answers, unread = read_answers(found[ANSWERS], spec)
        problems += unread
    return Submission(found.get(MAPS), answers, problems)


def check_submission(lab: str | Path, submission: str | Path) -> list[str]:
    """Look for what is missing in a submission, or cannot be read; no key is needed, no mark given.

    Parameters
    ----------
    lab : str or Path
        The laboratory, as students have it.
    submission : str or Path
        A folder or zip file with maps.npz and answers.json.

    Returns
    -------
    list of str
        What is missing, or of the wrong type or shape: a sentence each, none if all can be graded.

    Raises
    ------
    AttributionLabError
        If the laboratory cannot be read.
    """
    spec = json_document(lab_files(Path(lab))[LAB], LAB)
    try:
        given = read_submission(Path(submission), spec)
    except AttributionLabError as error:
        return [str(error)]
    problems = list(given.problems)
    for question, names in (("methods", spec["methods"]), ("doses", spec["colors"])):
        left_out = [name for name in names if name not in given.answers.get(question, names)]
        if left_out:
            problems.append(f"{question} says nothing of {', '.join(left_out)}: answer for each")
    return problems


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False  # said where it is read


Files = tuple[dict[str, bytes], set[str], list[str]]
"""Those of the two files that can be read, the names of all, and what is wrong with the others."""


def _archive(path: Path) -> Files:
    packed = file_bytes(path)
    found = zip_members(packed, (MAPS, ANSWERS), "the archive")
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        return found, {name.rpartition("/")[2] for name in archive.namelist()}, []


def _folder(path: Path) -> Files:
    """No file but the two is opened."""
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
    return files, names, problems


def _shown(name: str) -> str:
    return cut(repr(name), 60)


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


# Answers. Each reader takes what answers.json has, and lab.json; equal answers become equal values.


def read_answers(
    document: Mapping[str, Any], spec: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Answers by question, and what is missing, cannot be read, or was not asked."""
    found, problems = {}, []
    for question, read in QUESTIONS.items():
        if question not in document:
            problems.append(f"{question} is missing: see questions.md")
            continue
        try:
            found[question] = read(document[question], spec)
        except AttributionLabError as error:
            problems.append(f"{question} {error}")
    for key in sorted(set(document) - set(QUESTIONS)):
        problems.append(f"answers.json has {_shown(key)}, which nobody asked")
    return found, problems


def _checked(fits: bool, given: Any, remedy: str) -> None:
    if not fits:
        raise AttributionLabError(f"is {cut(repr(given), 80)}: {remedy}")


def _read_table(given: Any, names: Collection[str], values: Sequence[Any]) -> dict[str, Any]:
    """Answers by name, each as it stands in `values`; True is no 1 here."""
    wrong = given
    if isinstance(given, dict):
        wrong = {
            name: each
            for name, each in given.items()
            if name not in names or type(each) not in (int, float, str) or each not in values
        }
    shown = ", ".join(map(str, values))
    remedy = f"write an object with known names and values of {shown}"
    _checked(isinstance(given, dict) and not wrong, wrong, remedy)
    return {name: values[values.index(each)] for name, each in given.items()}


def _read_parts(given: Any, spec: Mapping[str, Any]) -> dict[str, int]:
    return {
        part: sign for part, sign in _read_table(given, spec["parts"], (-1, 0, 1)).items() if sign
    }


def _read_contexts(given: Any, spec: Mapping[str, Any]) -> set[tuple[str, ...]]:
    fits = isinstance(given, list) and len(given) <= MOST_LISTED
    fits = fits and all(
        isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(each, str) and each in spec["parts"] for each in pair)
        and pair[0] != pair[1]
        for pair in given
    )
    _checked(fits, given, "write a list of pairs of two parts each")
    return {tuple(sorted(pair)) for pair in given}


def _read_baselines(given: Any, spec: Mapping[str, Any]) -> set[str]:
    fits, wrong = isinstance(given, list) and len(given) <= MOST_LISTED, given
    if fits:
        known = spec["baselines"]
        wrong = [each for each in given if not isinstance(each, str) or each not in known]
    _checked(fits and not wrong, wrong, "write a list of names of candidates")
    return set(given)


QUESTIONS: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "parts": _read_parts,
    "contexts": _read_contexts,
    "baselines": _read_baselines,
    "methods": lambda given, spec: _read_table(given, METHODS, tuple(CAUSES)),
    "doses": lambda given, spec: _read_table(given, spec["colors"], (*DOSES, NEVER)),
}
"""Readers by the keys of answers.json."""
