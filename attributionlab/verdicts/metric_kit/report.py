"""What the checks of a metric found."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from attributionlab.base import library_versions, printable, write_json
from attributionlab.show import as_text, data_table
from attributionlab.verdicts.metric_kit.asking import Status


class CheckRow(NamedTuple):
    """One check of a metric."""

    id: str
    status: Status
    expected: str
    """the known answer"""
    found: str
    asks: str
    """what was compared, in one line"""
    snippet: str
    """code that repeats this check alone, in the process that runs it"""


@dataclass(frozen=True, eq=False)
class KitReport:
    """Whether a metric's code does what the metric says: errors, and advice.

    Parameters
    ----------
    metric : str
        Its name.
    higher_is_better : bool
        Which maps it prefers.
    checks : sequence of CheckRow
        In the order in which they were asked.
    seed : int
        Seed for networks, images and maps.
    time_limit : float or None
        Seconds that each check had.
    """

    metric: str
    higher_is_better: bool
    checks: Sequence[CheckRow]
    seed: int
    time_limit: float | None

    def __repr__(self) -> str:
        columns = ["id", "status", "expected", "found"]
        return f"{self.title}\n{as_text(data_table(self.to_frame()[columns]), 120)}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.title)}</p>{self.to_frame().to_html(index=False, border=0)}"

    @property
    def faults(self) -> list[CheckRow]:
        """The checks that found an error."""
        return [row for row in self.checks if row.status == "fault"]

    @property
    def notes(self) -> list[CheckRow]:
        """The checks that found what a metric may mean, or may not."""
        return [row for row in self.checks if row.status == "note"]

    @property
    def findings(self) -> list[CheckRow]:
        """Faults, then notes."""
        return [*self.faults, *self.notes]

    @property
    def passed(self) -> bool:
        """Whether there is neither."""
        return not self.findings

    def text(self) -> str:
        """The title, and a line for each fault and note."""
        lines = [
            f"{row.status}: {row.id}: {row.asks}; expected {row.expected}; found {row.found}"
            for row in self.findings
        ]
        return "\n".join([self.title, *map(printable, lines)])

    @property
    def title(self) -> str:
        """The result in one line."""
        counts = pd.Series([row.status for row in self.checks], dtype=object).value_counts(
            sort=False
        )
        shown = ", ".join(f"{count} {status}" for status, count in counts.items())
        found = "faulty" if self.faults else "no fault"
        decisive = [row.status for row in self.checks if row.id in ("order", "network")]
        if self.passed and decisive and set(decisive) == {"by declaration"}:
            found = "no fault, but by its declarations nothing shows that it prefers exact maps"
        return f"{printable(self.metric)}: {found} ({shown})"

    def to_frame(self) -> pd.DataFrame:
        """A row for each check: id, status, expected, found, asks, snippet."""
        return pd.DataFrame(list(self.checks), columns=list(CheckRow._fields)).map(printable)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "schema": 2,
            "metric": self.metric,
            "higher_is_better": self.higher_is_better,
            "passed": self.passed,
            "seed": self.seed,
            "time_limit": self.time_limit,
            "checks": self.to_frame().to_dict("records"),
            "versions": library_versions(),
        }

    def to_json(self, path: str | Path) -> None:
        """Write `to_dict` to a file."""
        write_json(path, self.to_dict())
