"""A submission: maps and answers of somebody who may try anything."""

import math
import os
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice, permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import (
    AttributionLabError,
    checked_arguments,
    format_error,
    in_one_line,
    listed,
    nearest,
    refuse_if,
)
from attributionlab.teaching.sealed import archives
from attributionlab.teaching.sealed.laboratory import files_in, spec_in
from attributionlab.teaching.sealed.questions import CAUSES, DOSES, LONGEST_TEXT, METHODS, NEVER

MAPS, ANSWERS, FREE = "maps.npz", "answers.json", "free"
ARRAYS = ("maps.npy", "arr_0.npy")
"""Names that `numpy.savez` gives to one array; a single one may have any."""
MOST_LISTED = 1000
"""Items of an answer."""
MOST_SHOWN = 3
"""Names in a message."""


class Submission(NamedTuple):
    """What was handed in, as far as it could be read."""

    maps: NDArray[np.float64] | None
    """(n, 1, H, W): of each image, its largest magnitude 1; channels are summed."""
    answers: Mapping[str, Any]
    """By question, as `QUESTIONS` reads them: equal answers are equal, however they are written."""
    problems: list[str]
    """What could not be read."""
    texts: Mapping[str, str] | None = None
    """Answers in words by question, each in one line; None if there are none that can be read."""


@in_one_line(lambda error: f"cannot be read: {format_error(error)}")
def read_submission(path: Path, spec: Mapping[str, Any]) -> Submission:
    """Read a folder or zip of maps.npz and answers.json for the laboratory with this lab.json; refuse
    one of which nothing can be read.
    """
    # Maps of each channel in double precision have room.
    largest = max(archives.LARGEST_FILE, 8 * math.prod(spec["images"]) + archives.LARGEST_JSON)
    files, names, problems = _files(path, largest)
    readers: dict[str, Callable[[bytes], Any]] = {
        MAPS: lambda packed: _maps(packed, spec["images"], largest),
        ANSWERS: lambda packed: archives.json_document(packed, ANSWERS),
    }
    found: dict[str, Any] = {}
    for name, read in readers.items():
        if name not in names:
            similar = get_close_matches(name, names - {MAPS, ANSWERS}, n=1)
            there = "".join(f" ({reprlib.repr(each)} is another name)" for each in similar)
            problems.append(f"{_missing(name)}{there}: hand in {MAPS} and {ANSWERS}")
        elif name in files:  # else it is said already why it is not read
            try:
                found[name] = read(files[name])
            except AttributionLabError as error:
                problems.append(str(error))
    if not found:
        refuse_if(problems)
    answers = dict[str, Any]()
    if ANSWERS in found:
        answers, unread = read_answers(found[ANSWERS], spec)
        problems += unread
    texts = answers.pop(FREE, None)
    return Submission(found.get(MAPS), answers, problems, texts)


@checked_arguments
@in_one_line(lambda error: f"the laboratory cannot be read: {format_error(error)}")
def check_submission(lab: str | Path, submission: str | Path) -> list[str]:
    """Check a submission for missing or unreadable parts, without a key and without a grade.

    Parameters
    ----------
    lab : str or Path
        The laboratory, as students have it.
    submission : str or Path
        A folder or zip file with maps.npz and answers.json.

    Returns
    -------
    list of str
        One sentence for each part that is missing or has the wrong type or shape; empty if everything
        can be graded.

    Raises
    ------
    AttributionLabError
        If the laboratory cannot be read.
    """
    spec = spec_in(files_in(Path(lab)))
    for needed in (
        "images",
        "methods",
        "colors",
    ):  # what is missing here is no fault of a submission
        spec[needed]
    try:
        given = read_submission(Path(submission), spec)
    except AttributionLabError as error:
        return [*error.problems] or [str(error)]
    problems = list(given.problems)
    answers = given.answers if given.texts is None else {**given.answers, FREE: given.texts}
    asked = {"methods": spec["methods"], "doses": spec["colors"], FREE: spec.get(FREE, {})}
    for question, names in asked.items():
        left_out = [name for name in names if name not in answers.get(question, names)]
        if left_out:
            missing = _unanswered(left_out) if question == FREE else _missing(*left_out)
            problems.append(f"{missing}: mention each under {question}")
    return problems


def _files(path: Path, largest: int) -> tuple[dict[str, bytes], set[str], list[str]]:
    """Those of the two files that can be read, the names of all, what is wrong with the others."""
    if os.path.islink(path) or not os.path.isdir(path):
        packed = archives.file_bytes(path, largest)
        return *archives.zip_members(packed, (MAPS, ANSWERS), "the archive", largest), []
    with os.scandir(path) as entries:
        names = {entry.name for entry in islice(entries, archives.MOST_ENTRIES + 1)}
    if len(names) > archives.MOST_ENTRIES:
        raise AttributionLabError(
            f"the folder holds more than {archives.MOST_ENTRIES} files: hand in only yours"
        )
    files, problems = {}, []
    for name in sorted({MAPS, ANSWERS} & names):  # no other file is opened
        try:
            files[name] = archives.file_bytes(path / name, largest)
        except AttributionLabError as error:
            problems.append(str(error))
    return files, names, problems


def _maps(packed: bytes, shape: Sequence[int], largest: int) -> NDArray[np.float64]:
    arrays, names = archives.zip_members(packed, ARRAYS, MAPS, largest)
    if not arrays and len(names) == 1:  # under another name
        arrays, _ = archives.zip_members(packed, names, MAPS, largest)
    if len(arrays) != 1:
        raise AttributionLabError(
            f"{MAPS} does not hold exactly one array: numpy.savez('{MAPS}', maps=maps)"
        )
    [(name, content)] = arrays.items()
    given = archives.array_of(content, f"{name} in {MAPS}")
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


def read_answers(
    document: Mapping[str, Any], spec: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Answers by question, and what is missing, cannot be read, or was not asked."""
    found, problems, missing = {}, [], []
    asked = {name: read for name, read in QUESTIONS.items() if name != FREE or FREE in spec}
    for question, read in asked.items():
        if question not in document:
            missing.append(question)
            continue
        try:
            found[question] = read(document[question], spec)
        except AttributionLabError as error:
            problems.append(f"{question} {error}")
    if marked := [name for name in missing if name != FREE]:
        problems.append(f"{_missing(*marked)}: see questions.md")
    if FREE in missing:
        problems.append(f"{_unanswered([FREE])}: see questions.md")
    if others := _few(set(document) - set(asked)):
        problems.append(f"answers.json has {others}, which is not asked for")
    return found, problems


def _missing(*names: str) -> str:
    """What becomes of files and answers that are missing, as questions.md says it."""
    is_and_gets = "is missing and gets" if len(names) == 1 else "are missing and get"
    return f"{listed(names)} {is_and_gets} no points"


def _unanswered(names: Sequence[str]) -> str:
    """As `_missing`, of answers in words, which get no points anyway."""
    return (
        f"{listed(names)} {'is' if len(names) == 1 else 'are'} missing, which a person would read"
    )


def _few(names: set[str]) -> str:
    """The first of names that somebody made up."""
    shown = list(map(reprlib.repr, sorted(names)[:MOST_SHOWN]))
    more = [f"{len(names) - MOST_SHOWN:,} more"] * (len(names) > MOST_SHOWN)
    return ", ".join(shown + more)


def _table(given: Any, names: Collection[str], values: Sequence[Any]) -> dict[str, Any]:
    """Answers by name, each as it stands in `values`; True is no 1 here."""
    wrong = given
    if isinstance(given, dict):
        for name in given:
            if name not in names:
                raise AttributionLabError(f"has {reprlib.repr(name)}: {nearest(name, names)}")
        wrong = {
            name: each
            for name, each in given.items()
            if isinstance(each, bool) or each not in values
        }
    if wrong != {}:
        raise AttributionLabError(
            f"is {reprlib.repr(wrong)}: write an object with known names and values of "
            f"{', '.join(map(str, values))}"
        )
    return {name: values[values.index(each)] for name, each in given.items()}


def _list(given: Any, known: Sequence[Any], what: str) -> list[Any]:
    """Answers of which each is a known one."""
    wrong = given
    if isinstance(given, list) and len(given) <= MOST_LISTED:
        wrong = [each for each in given if each not in known]
    if wrong != []:
        raise AttributionLabError(f"is {reprlib.repr(wrong)}: write a list of {what}")
    return list(given)


def _parts(given: Any, spec: Mapping[str, Any]) -> dict[str, int]:
    signs = _table(given, spec["parts"], (-1, 0, 1))
    return {part: sign for part, sign in signs.items() if sign}


def _contexts(given: Any, spec: Mapping[str, Any]) -> set[tuple[str, ...]]:
    pairs = list(map(list, permutations(spec["parts"], 2)))
    return {tuple(sorted(pair)) for pair in _list(given, pairs, "pairs of two parts each")}


def _free(given: Any, spec: Mapping[str, Any]) -> dict[str, str]:
    """Answers in words; blanks and line breaks become single blanks, and empty ones are left out."""
    wrong = given
    if isinstance(given, dict):
        wrong = {
            name: each
            for name, each in given.items()
            if name not in spec[FREE] or not isinstance(each, str) or len(each) > LONGEST_TEXT
        }
    if wrong != {}:
        raise AttributionLabError(
            f"is {reprlib.repr(wrong)}: write an object with texts of at most {LONGEST_TEXT:,} "
            f"characters for {', '.join(spec[FREE])}"
        )
    return {name: text for name, each in given.items() if (text := " ".join(each.split()))}


QUESTIONS: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "parts": _parts,
    "contexts": _contexts,
    "baselines": lambda given, spec: set(
        _list(given, list(spec["baselines"]), "names of candidates")
    ),
    "methods": lambda given, spec: _table(given, METHODS, tuple(CAUSES)),
    "doses": lambda given, spec: _table(given, spec["colors"], (*DOSES, NEVER)),
    FREE: _free,
}
"""Readers by the keys of answers.json: from what it has, and lab.json, to what equal answers share."""
