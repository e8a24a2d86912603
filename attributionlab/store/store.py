"""Results of cells in one folder: SQLite for what is small, safetensors for arrays beside it."""

import hashlib
import json
import os
import shutil
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from attributionlab.errors import AttributionLabError
from attributionlab.files import make_folder, write_atomically
from attributionlab.store.cells import Cell
from attributionlab.store.records import Record, value_of

SCHEMA = 1
NAME, HOLDER, ARRAYS = "store.sqlite", "holder", "arrays"
INLINE_BYTES = 1 << 14
"""Arrays up to this size lie in the database: a million small files are slow to copy."""
CACHE_KIB = 16_384
STATEMENTS = f"""
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (
  key TEXT PRIMARY KEY, kind TEXT NOT NULL, place TEXT NOT NULL, depends_on TEXT NOT NULL,
  result TEXT, arrays BLOB, file TEXT, bytes INTEGER NOT NULL,
  error TEXT, refused INTEGER NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS places ON cells (kind, place);
INSERT OR IGNORE INTO about VALUES ('schema', '{SCHEMA}');
"""


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


class Store:
    """A folder of results, written by one process at a time and read by any number.

    A cell is written in one transaction; after SIGKILL at any moment it is there whole or not at all.

    Parameters
    ----------
    folder : str or Path
        Made where it is missing. One that holds other files is refused.
    writable : bool
        False to look at a store while another process works on it.

    Raises
    ------
    AttributionLabError
        For a folder that is something else, is held by another process (named with its age), was
        written by another version, or is damaged. A damaged database is copied, and left as it is.
    """

    def __init__(self, folder: str | Path, *, writable: bool = True) -> None:
        self.folder, self.writable = Path(folder), writable
        self.path = self.folder / NAME
        if not writable and not self.path.is_file():
            raise AttributionLabError(f"{str(folder)!r} holds no store: name the folder of --out")
        self._refuse_other_folder()
        if writable:
            make_folder(self.folder / ARRAYS)
            self._lock = self._held()
        try:
            self._database = self._opened()
        except BaseException:
            self._release()
            raise

    def _refuse_other_folder(self) -> None:
        if self.folder.is_dir() and not self.path.exists():
            others = sorted(path.name for path in self.folder.iterdir())
            others = [name for name in others if name not in (HOLDER, ARRAYS)]
            if others:
                raise AttributionLabError(
                    f"{str(self.folder)!r} holds {others[0]!r} and no store: name an empty folder, or "
                    "a new one"
                )

    def _held(self) -> sqlite3.Connection:
        """The lock, which the system gives back when this process ends, however it ends.

        It is that of an SQLite file of its own: it works on every system, is not inherited by child
        processes, and readers of the store do not meet it.
        """
        lock = sqlite3.connect(self.folder / HOLDER, timeout=0, isolation_level=None)
        try:
            lock.execute("PRAGMA journal_mode = MEMORY")
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            lock.close()
            if "locked" not in str(error):
                raise AttributionLabError(
                    f"cannot write into {str(self.folder)!r}: {error}"
                ) from error
            raise AttributionLabError(
                f"{str(self.folder)!r} is in use{self._who()}: wait for it, or stop it"
            ) from error
        except sqlite3.DatabaseError as error:
            lock.close()
            raise AttributionLabError(
                f"{str(self.folder / HOLDER)!r} is no lock ({error}): remove it"
            ) from error
        who = {"process": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        write_atomically(self.folder / f"{HOLDER}.json", json.dumps(who) + "\n")
        return lock

    def _who(self) -> str:
        try:
            who = json.loads((self.folder / f"{HOLDER}.json").read_text(encoding="utf-8"))
            minutes = (time.time() - who["since"]) / 60
            return f" by process {who['process']} on {who['host']} for {minutes:.0f} min"
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _opened(self) -> sqlite3.Connection:
        mode = "rwc" if self.writable else "ro"
        try:
            database = sqlite3.connect(
                f"{self.path.resolve().as_uri()}?mode={mode}", uri=True, timeout=60,
                isolation_level=None,
            )  # fmt: skip
            database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            if self.writable:
                # In WAL mode a commit is whole or absent after a kill; NORMAL may lose the last commits
                # of a machine without power, never the file.
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = NORMAL")
            [(sound,)] = database.execute("PRAGMA quick_check(1)")
            if sound != "ok":
                raise sqlite3.DatabaseError(sound)
            if self.writable:
                database.executescript(STATEMENTS)
            found = dict(database.execute("SELECT name, value FROM about"))
        except sqlite3.OperationalError as error:  # a full disk, no permission
            raise AttributionLabError(f"cannot use {str(self.path)!r}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise AttributionLabError(self._damaged(error)) from error
        if found.get("schema") != str(SCHEMA):
            raise AttributionLabError(
                f"{str(self.path)!r} has schema {found.get('schema')}, and this version reads "
                f"{SCHEMA}: name another folder, or install the version that wrote it"
            )
        return database

    def _damaged(self, error: Exception) -> str:
        copy = self.path.with_name(f"{NAME}.damaged")
        if not copy.exists():
            with suppress(OSError):
                shutil.copy2(self.path, copy)
        return (
            f"{str(self.path)!r} is damaged ({' '.join(str(error).split())}); a copy is "
            f"{copy.name!r}. Save what can still be read: attributionlab merge NEW {self.folder}"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others write."""
        self._database.close()
        self._release()

    def _release(self) -> None:
        if self.writable:
            with suppress(OSError):
                (self.folder / f"{HOLDER}.json").unlink()
            self._lock.close()

    def outcome(self, key: str, *, arrays: bool = True) -> Outcome | None:
        """What became of a cell; None where it is missing, or its arrays are.

        Without `arrays` those in a file are not read: only the file's size is looked at, and they are
        empty in the outcome's value.
        """
        query = (
            "SELECT result, arrays, file, bytes, error, refused, seconds FROM cells WHERE key = ?"
        )
        with _in_one_line(self.path):
            row = self._database.execute(query, (key,)).fetchone()
        if row is None:
            return None
        text, inline, file, size, error, refused, seconds = row
        if error:
            return Outcome(None, error, bool(refused), seconds)
        data: bytes | None = inline or b""
        if file is not None:
            path = self.folder / ARRAYS / file
            try:
                data = path.read_bytes() if arrays else None
                if data is None and path.stat().st_size != size:
                    return None
            except OSError:
                return None
            if data is not None and hashlib.sha256(data).hexdigest() != file.partition(".")[0]:
                return None
        return Outcome(Record(text, data), "", False, seconds)

    def size(self) -> int:
        """Bytes of all files in the folder."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return sum(path.stat().st_size for path in files)

    def describe(self, name: str, value: Any) -> None:
        """Keep what the cells belong to, as JSON, under a name."""
        with _in_one_line(self.path):
            row = (name, json.dumps(value))
            self._database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", row)

    def description(self, name: str) -> Any:
        """What `describe` kept; None without any."""
        with _in_one_line(self.path):
            query = "SELECT value FROM about WHERE name = ?"
            row = self._database.execute(query, (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def holder(self) -> dict[str, Any] | None:
        """Process, host and start (seconds since 1970) of whoever writes; None where nobody does."""
        import psutil

        try:
            text = (self.folder / f"{HOLDER}.json").read_text(encoding="utf-8")
            who: dict[str, Any] = json.loads(text)
            # A process that was killed leaves the file behind.
            gone = who["host"] == socket.gethostname() and not psutil.pid_exists(who["process"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return None if gone else who

    def reference(self, key: str, *, travels: bool = False) -> "Reference | None":
        """What leads to a result without reading its arrays; None where there is none."""
        query = "SELECT result, arrays, file FROM cells WHERE key = ? AND error = ''"
        with _in_one_line(self.path):
            row = self._database.execute(query, (key,)).fetchone()
        if row is None:
            return None
        text, inline, file = row
        path = None if file is None else (self.folder / ARRAYS / file).resolve()
        return Reference(text, inline or b"", path, travels)

    def put(self, cell: Cell, outcome: Outcome) -> None:
        """Keep what became of a cell, in place of what was there."""
        data = b"" if outcome.record is None else outcome.record.data or b""
        file = None
        if len(data) > INLINE_BYTES:  # named by what is in it, so that damage is seen
            file = f"{hashlib.sha256(data).hexdigest()}.safetensors"
            write_atomically(self.folder / ARRAYS / file, data)
        row = (
            *(cell.key, cell.kind, _json(cell.place), _json(cell.depends_on)),
            *(outcome.record and outcome.record.text, None if file else data, file, len(data)),
            *(outcome.error, outcome.refused, outcome.seconds, time.time()),
        )
        marks = ", ".join("?" * len(row))
        with _in_one_line(self.path):
            self._database.execute(f"INSERT OR REPLACE INTO cells VALUES ({marks})", row)

    def keys(self) -> dict[str, bool]:
        """Every cell's key, and whether it failed."""
        with _in_one_line(self.path):
            return {
                key: bool(error)
                for key, error in self._database.execute("SELECT key, error FROM cells")
            }

    def rows(self, kind: str | None = None) -> Iterator[Row]:
        """All cells, or those of a kind, without their results, by place."""
        query = (
            "SELECT key, kind, place, depends_on, error, seconds, bytes, finished FROM cells "
            "WHERE ?1 IS NULL OR kind = ?1 ORDER BY kind, place, key"
        )
        with _in_one_line(self.path):
            for row in self._database.execute(query, (kind,)):
                key, kind, place, depends_on, *others = row
                yield Row(key, kind, json.loads(place), json.loads(depends_on), *others)

    def why_missing(self, cell: Cell) -> str:
        """Why a cell must be computed: "new", or what has changed since its place was computed last."""
        query = "SELECT depends_on FROM cells WHERE kind = ? AND place = ? ORDER BY finished DESC"
        with _in_one_line(self.path):
            last = self._database.execute(query, (cell.kind, _json(cell.place))).fetchone()
        if last is None:
            return "new"
        before, now = json.loads(last[0]), cell.depends_on
        changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return f"changed: {', '.join(changed)}" if changed else "damaged"

    def take_over(self, others: Iterable["Store | Path"]) -> int:
        """Copy the cells of other stores that this one lacks or has as failed; how many."""
        taken = 0
        for other in others:
            path = other.path if isinstance(other, Store) else other / NAME
            taken += self._take_over(path)
        return taken

    def _take_over(self, path: Path) -> int:
        known, taken = self.keys(), 0
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source:
            for row in _readable(source):
                key, file, error = row[0], row[6], row[8]
                if key in known and (error or not known[key]):
                    continue
                if file is not None:
                    try:
                        data = (path.parent / ARRAYS / file).read_bytes()
                    except OSError:
                        continue  # without its arrays it counts as missing
                    write_atomically(self.folder / ARRAYS / file, data)
                with _in_one_line(self.path):
                    marks = ", ".join("?" * len(row))
                    self._database.execute(f"INSERT OR REPLACE INTO cells VALUES ({marks})", row)
                known[key] = bool(error)
                taken += 1
        return taken


@contextmanager
def stored(folder: str | Path | None) -> Iterator[Store | None]:
    """The store of a folder, open; None without a folder."""
    if folder is None:
        yield None
        return
    with Store(folder) as store:
        yield store


def _readable(source: sqlite3.Connection) -> Iterator[Any]:
    """Rows of a database that may be damaged: all that can be read."""
    with suppress(sqlite3.DatabaseError):
        yield from source.execute("SELECT * FROM cells")


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), sort_keys=True, default=repr)


@contextmanager
def _in_one_line(path: Path) -> Iterator[None]:
    """A full disk, or a file that was damaged meanwhile, as one line."""
    try:
        yield
    except sqlite3.Error as error:
        raise AttributionLabError(
            f"cannot use {str(path)!r} ({error}): what is in it stays; make room, and run again"
        ) from error
