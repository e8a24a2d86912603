"""What becomes of a cell: its result or its error, and what a store tells of it."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from attributionlab.errors import AttributionLabError
from attributionlab.store.records import Record, value_of


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

    @property
    def value(self) -> Any:
        """The result as it was computed; the error where there is none."""
        if self.record is None:
            raise (AttributionLabError if self.refused else RuntimeError)(self.error)
        return value_of(self.record)


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

    Parameters
    ----------
    text, data : str and bytes
        The record; without its arrays where they have a file.
    path : Path or None
        That file.
    travels : bool
        Whether the arrays go along to other processes, which may be on machines without that file.
    """

    text: str = field(repr=False)
    data: bytes = field(repr=False)
    path: Path | None
    travels: bool = False

    @property
    def value(self) -> Any:
        """The result as it was computed.

        Raises
        ------
        AttributionLabError
            If its file is missing or damaged.
        """
        return value_of(Record(self.text, self._read()))

    def _read(self) -> bytes:
        if self.path is None:
            return self.data
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise AttributionLabError(
                f"cannot read {str(self.path)!r} ({error.strerror}): run again, which makes it again"
            ) from error
        if hashlib.sha256(data).hexdigest() != self.path.stem:
            raise AttributionLabError(
                f"{str(self.path)!r} is damaged: remove it and run again, which makes it again"
            )
        return data

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        return state | {"data": self._read(), "path": None} if self.travels else state
