"""The database of a store: its tables, how it is opened, and what can be read of a damaged one."""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from attributionlab.base import AttributionLabError

SCHEMA = 2
NAME = "store.sqlite"
PAGE = 4096
"""Bytes of a database's page."""
# What is long stands last in a row: lists of cells then need not read it. Rows are kept in the order in
# which they come; in that of their keys each one would go to another page.
STATEMENTS = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE cells (
  key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, place TEXT NOT NULL, depends_on TEXT NOT NULL,
  error TEXT NOT NULL, refused INTEGER NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL,
  bytes INTEGER NOT NULL, file TEXT NOT NULL, read TEXT NOT NULL,
  checksum TEXT NOT NULL, result TEXT, arrays BLOB
);
CREATE INDEX places ON cells (kind, place);
INSERT INTO about VALUES ('schema', '{SCHEMA}');
"""
COLUMNS = (
    *("key", "kind", "place", "depends_on"),
    *("error", "refused", "seconds", "finished", "bytes", "file", "read", "checksum"),
    *("result", "arrays"),
)
INSERT = (
    f"INSERT OR REPLACE INTO cells ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
)
SELECT = f"SELECT {', '.join(COLUMNS)} FROM cells"
DAMAGED = (sqlite3.Error, UnicodeDecodeError)  # a message may quote what is damaged
OF_DAMAGE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""What SQLite says of a damaged file; all else is about who may read it, and where."""
NO_LOCK = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
"""What SQLite says where a reader can make no file for its locks."""


def connected(path: Path, mode: str) -> sqlite3.Connection:
    """An open database; as it lies there, where the file system lets nothing be written."""
    address = f"{path.resolve().as_uri()}?mode={mode}"
    database = sqlite3.connect(address, uri=True, timeout=60, isolation_level=None)
    try:
        database.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError as error:
        database.close()
        log = path.with_name(f"{path.name}-wal")
        if mode != "ro" or error.sqlite_errorcode & 0xFF not in NO_LOCK:
            raise
        if log.exists() and log.stat().st_size:
            raise AttributionLabError(
                f"{str(path)!r} was interrupted and cannot be repaired in a read-only folder: copy the "
                "folder to a writable place"
            ) from error
        database = sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
    except BaseException:
        database.close()
        raise
    database.text_factory = lambda text: text.decode(
        "utf-8", "replace"
    )  # damage is seen by checksums
    return database


def write_empty(path: Path) -> None:
    """A database without cells."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript(
            f"PRAGMA page_size = {PAGE}; BEGIN; {STATEMENTS} COMMIT; PRAGMA journal_mode = WAL"
        )


@contextmanager
def readable(path: Path) -> Iterator[tuple[Iterator[Any], bool]]:
    """Rows of a database that may be damaged, and whether SQLite takes it as it is: if not, or if it
    finds no row in it, those that a copy has whose header states what is there, or whose first page,
    which says where the tables are, is that of a new one.
    """
    whole = False
    try:
        with closing(connected(path, "ro")) as source:
            numbers = _numbers_left(source, path)
            if _any_row(source, numbers):
                yield _rows_left(source, numbers), True
                return
            names = [name for (name,) in source.execute("SELECT name FROM sqlite_master")]
            sound = source.execute("PRAGMA quick_check").fetchone() == ("ok",)
            whole = sound and "cells" in names and not numbers
    except DAMAGED as error:
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in OF_DAMAGE:
            raise AttributionLabError(f"cannot read {str(path)!r}: {error}") from error
    with tempfile.TemporaryDirectory(prefix="attributionlab-") as folder:
        for copy in _repaired(path, Path(folder)):
            with suppress(*DAMAGED), closing(connected(copy, "rw")) as source:
                numbers = _numbers_left(source, path)
                if _any_row(source, numbers):
                    yield _rows_left(source, numbers), False
                    return
        yield iter(()), whole


def _repaired(path: Path, folder: Path) -> Iterator[Path]:
    """Copies of a damaged database whose header states as many pages as there are; the second has the
    first page of a new database, which says where the tables are.
    """
    new, copy, log = folder / "new", folder / NAME, Path(f"{path}-wal")
    write_empty(new)
    with open(path, "rb") as file:
        own = file.read(PAGE)
    pages = -(-path.stat().st_size // PAGE)
    for first in (own, new.read_bytes()[:PAGE]):
        shutil.copyfile(path, copy)
        if log.is_file():  # the last commits
            shutil.copyfile(log, f"{copy}-wal")
        head = bytearray(first.ljust(PAGE, b"\0"))
        head[28:32] = pages.to_bytes(4, "big")  # the format's header
        head[92:96] = head[24:28]  # the number of changes, for which that of pages is valid
        with open(copy, "r+b") as file:
            file.write(head)
            file.truncate(pages * PAGE)
        yield copy


def _numbers_left(source: sqlite3.Connection, path: Path) -> list[int]:
    """The numbers of all rows that can be found."""
    with suppress(*DAMAGED):
        found = dict(source.execute("SELECT name, value FROM about")).get("schema")
        # What is no number is itself what is damaged.
        if str(found).isdecimal() and found != str(SCHEMA):
            raise AttributionLabError(
                f"{str(path)!r} has schema {found}, but this version reads {SCHEMA}: merge it with the "
                f"version that wrote it"
            )
    numbers: set[int] = set()
    # From both ends of the table and of its indexes: each way stops at the first page that is damaged.
    ways = ("rowid", "rowid DESC", "kind, place, rowid", "kind DESC, place DESC", "key", "key DESC")
    for way in ways:
        with suppress(*DAMAGED):
            for (number,) in source.execute(f"SELECT rowid FROM cells ORDER BY {way}"):
                numbers.add(number)
    return sorted(numbers)


def _any_row(source: sqlite3.Connection, numbers: Sequence[int]) -> bool:
    """Whether one of some of the rows can be read: all are lost with the name of a column."""
    return any(row is not None for row in _rows_left(source, numbers[:: 1 + len(numbers) // 8]))


def _rows_left(source: sqlite3.Connection, numbers: Sequence[int]) -> Iterator[Any]:
    """All rows that can be read, None for others that there were."""
    for number in numbers:
        row = None
        with suppress(*DAMAGED):
            row = source.execute(f"{SELECT} WHERE rowid = ?", (number,)).fetchone()
        yield row
