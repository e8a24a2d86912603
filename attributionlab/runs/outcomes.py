"""What becomes of a cell: its result or its error, and what a store tells of it."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from attributionlab.base import AttributionLabError, Read
from attributionlab.runs.records import Record, value_of


class Outcome(NamedTuple):
    """What became of a cell."""

    record: Record | None
    """the result; None where the cell failed"""
    error: str = ""
    """why it failed: one line, or a traceback where the laboratory did not expect it"""
    refused: bool = False
    """whether it failed because the laboratory refused it, with one line"""
    seconds: float = 0.0
    """CPU time that it took"""
    read: Read = ()
    """files that the user's code read for it, with their hashes"""
    known: str = ""
    """the day on which it was computed, where it was known before this run"""

    @property
    def value(self) -> Any:
        """The result as it was computed; the error where there is none."""
        if self.record is None:
            told = f" ({self.known_text})" if self.known else ""
            kind = AttributionLabError if self.refused else RuntimeError
            raise kind(f"{self.error.rstrip() if told else self.error}{told}")
        return value_of(self.record)

    @property
    def known_text(self) -> str:
        """Of when it is, where it was known, and how it is computed again if it failed."""
        again = "; --retry-failed, retry_failed=True, runs it again" if self.error else ""
        return f"known from {self.known}{again}"


class Row(NamedTuple):
    """A cell that the store knows, without its result."""

    key: str
    kind: str
    place: dict[str, Any]
    depends_on: dict[str, Any]
    error: str
    seconds: float
    bytes: int
    finished: float


@dataclass(frozen=True)
class Reference:
    """A result in a store, for a cell that is computed from it: its arrays are read there.

    `record`: the result; without its arrays where they have a file. `path`: that file. `travels`:
    whether the arrays go along to other processes, which may be on machines without that file. `read`:
    files that were read for it, with their hashes.
    """

    record: Record = field(repr=False)
    path: Path | None
    travels: bool = False
    read: Read = ()

    @property
    def value(self) -> Any:
        """The result as it was computed.

        Raises AttributionLabError if its file is missing or damaged.
        """
        return value_of(self._whole())

    def _whole(self) -> Record:
        if self.path is None:
            return self.record
        data = sound_arrays(self.path)
        if data is None:
            raise AttributionLabError(
                f"{str(self.path)!r} is missing or is damaged: remove it and run again, which makes it "
                "again"
            )
        return self.record._replace(data=data)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        return state | {"record": self._whole(), "path": None} if self.travels else state


def sound_arrays(path: Path) -> bytes | None:
    """What is in a file that is named by its SHA-256; None where it is missing or something else."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == path.stem else None
