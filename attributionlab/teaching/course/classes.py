"""What a class predicted: the records of its students, gate by gate."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
from markupsafe import Markup

from attributionlab.base import (
    AttributionLabError,
    cut,
    printable,
    write_atomically,
    write_csv,
)
from attributionlab.show import HERE, style_policy
from attributionlab.teaching.course.gates import FILE, read_record, skip

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 8
"""Bars of a histogram; what fewer students wrote is one more bar."""
WIDTH = 240
STYLE = """.right rect { fill: #0072b2; } .wrong rect { fill: #d55e00; } .skipped rect { fill: #999; }
svg { vertical-align: middle; } td.bar { width: 250px; }
"""


class Bar(NamedTuple):
    """How many students wrote this first."""

    text: str
    kind: str
    """Either "right", "wrong" or "skipped"."""
    students: int


@dataclass(frozen=True, eq=False)
class ClassRecord:
    """The tries of a class: by gate, and there by student, in order."""

    students: Sequence[str]
    gates: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]

    def to_frame(self) -> "pd.DataFrame":
        """A row for each gate: gate, students (with a prediction), right at once, right later, skipped,
        not yet right, mean tries, most frequent first mistake, and how many students made it.
        """
        import pandas as pd

        rows = []
        for gate, tries in self.gates.items():
            first = [bar for bar in self._first(gate) if bar.kind == "wrong"]
            ends = Counter(_end(each) for each in tries)
            at_once = sum(each[0]["right"] is True for each in tries)
            rows.append(
                {
                    "gate": gate,
                    "students": len(tries),
                    "right_at_once": at_once,
                    "right_later": ends["right"] - at_once,
                    "skipped": ends["skipped"],
                    "not_right": ends["wrong"],
                    "mean_tries": round(sum(map(len, tries)) / len(tries), 2),
                    "first_mistake": first[0].text if first else "",
                    "by": first[0].students if first else 0,
                }
            )
        return pd.DataFrame(rows)

    def bars(self, gate: str) -> list[Bar]:
        """First predictions at a gate, the most frequent first; rare ones of one kind share a bar."""
        first = self._first(gate)
        rest = Counter[str]()
        for bar in first[SHOWN:]:
            rest[bar.kind] += bar.students
        return first[:SHOWN] + [Bar("others", *each) for each in rest.items()]

    def _first(self, gate: str) -> list[Bar]:
        """All first predictions at a gate."""
        kinds = {True: "right", False: "wrong", None: "skipped"}
        found = Counter(
            (each[0]["prediction"].strip().casefold(), kinds[each[0]["right"]])
            for each in self.gates[gate]
        )
        listed = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        return [Bar(cut(printable(text)), kind, number) for (text, kind), number in listed]

    def to_csv(self, path: str | Path) -> None:
        """Write `to_frame` as comma-separated text."""
        write_csv(path, self.to_frame())

    def to_html(self, path: str | Path) -> None:
        """Write one page with a histogram of first predictions at each gate. It names no student."""
        style = (HERE / "page.css").read_text(encoding="utf-8") + STYLE
        templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent),
            autoescape=True,  # predictions are anybody's text
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        page = templates.get_template("class.html.j2").render(
            style=Markup(style),
            policy=style_policy(style),
            students=len(self.students),
            rows=self.to_frame().to_dict("records"),
            bars={gate: self.bars(gate) for gate in self.gates},
            width=WIDTH,
        )
        write_atomically(path, page)


def read_class(files: Sequence[str | Path]) -> ClassRecord:
    """Read what students handed in: their files of predictions.

    Parameters
    ----------
    files : sequence of str or Path
        The files ``predictions.json``, under any names; a folder stands for the file in it. One
        student, one file.

    Raises
    ------
    AttributionLabError
        If one of them is missing or no record of predictions, and without any.
    """
    if not files:
        raise AttributionLabError("no prediction file is given: name at least one")
    gates: dict[str, list[list[Mapping[str, Any]]]] = {}
    for file in map(Path, files):
        path = file / FILE if os.path.isdir(file) else file
        if not os.path.isfile(path):  # unlike Path.is_file, also answers for impossible names
            raise AttributionLabError(f"there is no file {str(path)!r}: check the path")
        for gate, tries in read_record(path)["gates"].items():
            if tries:
                gates.setdefault(gate, []).append(tries)
    students = [printable(str(file)) for file in files]
    return ClassRecord(students, dict(sorted(gates.items(), key=lambda item: _place(item[0]))))


def _end(tries: Sequence[Mapping[str, Any]]) -> str:
    if any(each["right"] for each in tries):
        return "right"
    return "skipped" if any(each["prediction"] == skip for each in tries) else "wrong"


def _place(gate: str) -> tuple[str, bool, str]:
    """Exercises come after the questions of a notebook."""
    notebook, _, number = gate.partition(".")
    return notebook, number.startswith("E"), number
