"""Grade submissions: marks as a table, and a page of feedback for each."""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup

from attributionlab.base import (
    AttributionLabError,
    attributes,
    checked_arguments,
    folder_made_whole,
    follow,
    format_error,
    in_one_line,
    printable,
    write_csv,
)
from attributionlab.show import HERE, style_policy
from attributionlab.teaching.sealed.laboratory import open_sealed
from attributionlab.teaching.sealed.questions import POINTS
from attributionlab.teaching.sealed.rubric import MISCONCEPTIONS, Marks, marks_of
from attributionlab.teaching.sealed.submission import (
    ANSWERS,
    FREE,
    MAPS,
    Submission,
    read_submission,
)

if TYPE_CHECKING:
    import pandas as pd

ASKED: Mapping[str, str] = {
    "maps": "A: maps of the images",
    "parts": "B: which parts count, with which sign",
    "contexts": "B: which parts act together",
    "baselines": "B: which baselines are safe",
    "methods": "B: which methods fail, and why",
    "doses": "C: at which dose Deletion breaks",
}
"""What a page calls each question."""
STYLE = "thead th.number { overflow-wrap: normal; min-width: 0; }\n"
"""Names of questions are not broken."""
DIGITS = 3
"""Of values that are compared with those of others. Single precision is off by 6e-8: that 10,000 values
are all rounded as those in double precision are fails with a chance of 10,000 * 6e-8 / 1e-3 = 6e-4."""
GROUPS = ("same_maps", "same_answers", "same_texts")
FORMULA = re.compile(r"(^|;)(?=\s*[=+@\uff0b\uff1d\uff20\uff0d-])")
"""Where spreadsheets begin to run what a cell holds; in some countries semicolons part cells."""


class Graded(NamedTuple):
    """Marks of one submission."""

    name: str
    """As it was given, in printable characters."""
    status: str
    """Either "graded", or "refused": nothing of it could be read."""
    marks: Marks
    """All 0 if it was refused; the reasons are its problems."""
    same_maps: int | None
    """Number of the group of submissions with equal ones, from 1."""
    same_answers: int | None
    same_texts: int | None
    texts: Mapping[str, str]
    """Answers in words by question, in printable characters: for who reads them, without points."""


@dataclass(frozen=True, eq=False)
class Grades:
    """Grades of many submissions, in the given order."""

    submissions: Sequence[Graded]
    free: Mapping[str, str] = field(default_factory=dict)
    """Questions of the laboratory that are answered in words, by name."""

    def to_frame(self) -> "pd.DataFrame":
        """A row for each: submission, status, total, points by question, same_maps, same_answers,
        same_texts, misconceptions (their names), reason, and the answers to free questions.
        """
        import pandas as pd

        rows = [
            {
                "submission": _cell(each.name),
                "status": each.status,
                "total": each.marks.total,
                **each.marks.points,
                **attributes(each, "same_maps", "same_answers", "same_texts"),
                "misconceptions": ", ".join(each.marks.misconceptions),
                "reason": _cell("; ".join(each.marks.problems)),
                **{f"free_{name}": _cell(each.texts.get(name, "")) for name in self.free},
            }
            for each in self.submissions
        ]
        return pd.DataFrame(rows).astype(dict.fromkeys(GROUPS, "Int64"))

    def to_csv(self, path: str | Path) -> None:
        """Write `to_frame` as comma-separated text."""
        write_csv(path, self.to_frame())

    def to_html(self, folder: str | Path) -> None:
        """Write index.html for the lecturer and a page for each submission into a new folder.

        A page names no other submission and no right answer, so it can be given to its author.
        """
        style = (HERE / "page.css").read_text(encoding="utf-8") + STYLE
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent),
            autoescape=True,  # names of submissions are anybody's text
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        content = {"style": Markup(style), "policy": style_policy(style), "points": POINTS}
        content |= {"asked": ASKED, "misconceptions": MISCONCEPTIONS, "free": self.free}
        digits = len(str(len(self.submissions)))
        listed = [
            (f"{number:0{digits}}-{_slug(each.name)}.html", each)
            for number, each in enumerate(self.submissions, start=1)
        ]
        with folder_made_whole(folder) as place:
            page = environment.get_template("feedback.html.j2")
            for file, each in listed:
                _write(place / file, page.render(content, graded=each))
            index = environment.get_template("marks.html.j2")
            _write(place / "index.html", index.render(content, listed=listed))


@checked_arguments
def grade_submissions(
    lab: str | Path,
    key: str | Path,
    submissions: Sequence[str | Path],
    *,
    show_progress: bool = False,
) -> Grades:
    """Grade submissions for a sealed laboratory.

    Submissions are never executed, unpickled or written to disk. A bad submission does not affect the
    others. The same files always get the same marks.

    Parameters
    ----------
    lab, key : str or Path
        The two files of `seal_laboratory`, as they were sealed.
    submissions : sequence of str or Path
        Folders or zip files with maps.npz and answers.json, as described in the laboratory's
        questions.md; or one folder that holds such folders and zip files.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Grades

    Raises
    ------
    AttributionLabError
        If laboratory and key do not match or were changed, or if there are no submissions.
    """
    if isinstance(submissions, str | Path) or not submissions:
        raise AttributionLabError(f"submissions are {submissions!r}: give a list of paths")
    truths = open_sealed(lab, key)
    submissions = _each_of(submissions)
    found, to_compare = [], []
    shown = follow("grade", len(submissions), "submissions", show=show_progress)
    with shown as advance:
        for path in submissions:
            status, marks, texts = "graded", Marks(), dict[str, str]()
            compared: tuple[list[str], Mapping[str, Any], dict[str, str]] = [], {}, {}
            try:
                with in_one_line(lambda error: f"cannot be marked: {format_error(error)}"):
                    given = read_submission(Path(path), truths.spec)
                    marks = marks_of(given, truths)
                texts = {name: printable(text) for name, text in (given.texts or {}).items()}
                compared = *_comparable(given, marks), texts
            except AttributionLabError as error:
                status, marks = "refused", Marks(problems=[str(error)])
            found.append((printable(str(path)), status, marks, texts))
            to_compare.append(compared)
            advance()
    groups = (_groups(list(each)) for each in zip(*to_compare, strict=True))
    return Grades(
        [
            Graded(name, status, marks, maps, answers, words, texts)
            for (name, status, marks, texts), maps, answers, words in zip(
                found, *groups, strict=True
            )
        ],
        truths.spec.get(FREE, {}),
    )


def _each_of(submissions: Sequence[str | Path]) -> Sequence[str | Path]:
    """The submissions themselves where a single folder of them is given."""
    folder = Path(submissions[0])
    if len(submissions) > 1 or not folder.is_dir() or {MAPS, ANSWERS} & {*os.listdir(folder)}:
        return submissions
    inside = [each for each in folder.iterdir() if each.is_dir() or each.suffix == ".zip"]
    return sorted(inside) or submissions


def _comparable(given: Submission, marks: Marks) -> tuple[list[str], Mapping[str, Any]]:
    """What copies have in common, in another order of images, scale or type too.

    Empty where there is nothing, and for full points: that right ones are equal says nothing.
    """
    full = {name for name, most in POINTS.items() if marks.points[name] == most}
    maps, answers = list[str](), given.answers
    if given.maps is not None and given.maps.any() and "maps" not in full:
        rounded = np.round(given.maps, DIGITS) + 0.0  # no negative zeros
        maps = sorted(hashlib.sha256(each.tobytes()).hexdigest() for each in rounded)
    return maps, {} if full >= set(POINTS) - {"maps"} or not any(answers.values()) else answers


def _groups(contents: Sequence[Any]) -> list[int | None]:
    """For each content the number of the group of equal ones, None where it is alone or empty."""
    shared: list[Any] = []
    for each in contents:
        if each and each not in shared and contents.count(each) > 1:
            shared.append(each)
    return [shared.index(each) + 1 if each in shared else None for each in contents]


def _cell(text: str) -> str:
    """A text that no spreadsheet runs."""
    return FORMULA.sub(r"\1'", text)


def _slug(name: str) -> str:
    """What of a name may stand in a file's name anywhere."""
    return re.sub(r"[^a-z0-9]+", "-", Path(name).stem.lower()).strip("-")[:40] or "submission"


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "backslashreplace"))
