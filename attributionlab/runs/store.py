"""Results of cells in one folder: SQLite for what is small, safetensors for arrays beside it."""

import hashlib
import json
import os
import re
import shlex
import shutil
import socket
import sqlite3
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from attributionlab.base import (
    AttributionLabError,
    AttributionLabWarning,
    Read,
    changed_files,
    make_folder,
    refuse_if,
    write_atomically,
)
from attributionlab.runs.cells import Cell, digest_of
from attributionlab.runs.database import (
    COLUMNS,
    INSERT,
    NAME,
    SCHEMA,
    SELECT,
    connected,
    readable,
    write_empty,
)
from attributionlab.runs.records import Outcome, Record, Reference, Row, sound_arrays

HOLDER, ARRAYS, TEMPORARY = "holder", "arrays", ".attributionlab-"
CACHE_KIB = 16_384
INLINE_BYTES = 1 << 14
"""Arrays up to this size lie in the database: a million small files are slow to copy."""
CHECKED_BYTES = 1 << 25
"""A larger database is looked through only after a process that wrote it did not end well: that takes
some seconds for each GiB. Every result has a checksum of its own."""
NAME_OF_ARRAYS = re.compile(r"[0-9a-f]{64}\.safetensors")


class Store:
    """A folder of results, written by one process at a time and read by any number.

    A cell is written in one transaction; after SIGKILL at any moment it is there whole or not at all.

    `folder`: made where it is missing. One that holds other files is refused. `writable`: False to look
    at a store while another process works on it.

    Raises AttributionLabError for a folder that is something else, is held by another process (named
    with its age), was written by another version, or is damaged. A damaged database is copied, and left
    as it is.
    """

    def __init__(self, folder: str | Path, *, writable: bool = True) -> None:
        refuse_if(folder_problem(folder))
        self.folder, self.writable = Path(folder), writable
        self.path = self.folder / NAME
        self._lock: sqlite3.Connection | None = None
        self._own = set[str]()
        try:
            there = self.path.is_file()
            if not writable and not there:
                raise AttributionLabError(
                    f"{str(folder)!r} does not hold a store: name the folder of --out"
                )
            if writable:
                self._refuse_other_folder()
                make_folder(make_folder(self.folder) / ARRAYS)
                self._lock = self._held()
            unclean = writable and self._holder.exists()
            if writable:
                who = {"process": os.getpid(), "host": socket.gethostname(), "since": time.time()}
                write_atomically(self._holder, json.dumps(who) + "\n")
            self._database = self._opened(unclean)
        except BaseException as error:
            if self._lock is not None:
                self._lock.close()
            if isinstance(error, OSError):
                raise AttributionLabError(f"cannot use {str(folder)!r}: {error}") from error
            raise

    @property
    def _holder(self) -> Path:
        """Who writes, for people; it is left behind by a process that was killed."""
        return self.folder / f"{HOLDER}.json"

    def _refuse_other_folder(self) -> None:
        if not self.folder.is_dir() or self.path.exists():
            return
        arrays = self.folder / ARRAYS
        found = [
            path for folder in (arrays, self.folder) if folder.is_dir() for path in folder.iterdir()
        ]
        own = {arrays, self._holder, self.folder / HOLDER, self.folder / f"{HOLDER}-journal"}
        others = [path for path in found if path not in own and not path.name.startswith(TEMPORARY)]
        if others:
            first = min(others).relative_to(self.folder)
            raise AttributionLabError(
                f"{str(self.folder)!r} holds {first.as_posix()!r} but no {NAME}: name an empty folder, "
                "or a new one"
            )

    def _held(self) -> sqlite3.Connection:
        """The lock, which the system gives back when this process ends, however it ends.

        It is that of an SQLite file of its own: it works on every system, is not inherited by child
        processes, and readers of the store do not meet it.
        """
        if (self.folder / HOLDER).is_dir():
            raise AttributionLabError(f"{str(self.folder / HOLDER)!r} is a folder: remove it")
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
            who = self.holder()
            by = f" by {who[0]} for {who[1]:.0f} min" if who else ""
            raise AttributionLabError(
                f"{str(self.folder)!r} is in use{by}: wait for it, or stop it"
            ) from error
        except sqlite3.DatabaseError as error:
            lock.close()
            raise AttributionLabError(
                f"{str(self.folder / HOLDER)!r} is not a lock ({error}): remove it"
            ) from error
        return lock

    def _opened(self, unclean: bool) -> sqlite3.Connection:
        """The database, looked through, of this schema; a new one where there is none."""
        with self._in_one_line():
            if self.writable and not self.path.exists():
                self._make()
            database = connected(self.path, "rw" if self.writable else "ro")
            try:
                database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
                # In WAL mode a commit is whole or absent after a kill; NORMAL may lose the last commits
                # of a machine without power, never the file.
                database.execute("PRAGMA synchronous = NORMAL")
                self._check(database, unclean)
            except BaseException:
                database.close()
                raise
        if unclean:
            for left in (self.folder / ARRAYS).glob(f"{TEMPORARY}*"):
                left.unlink(missing_ok=True)
        return database

    def _make(self) -> None:
        """A new database, in place when it is complete: an empty file is always a damaged one."""
        made = self.folder / f"{TEMPORARY}{NAME}"
        for left in self.folder.glob(f"{made.name}*"):
            left.unlink()
        write_empty(made)
        os.replace(made, self.path)

    def _check(self, database: sqlite3.Connection, unclean: bool) -> None:
        if self.path.stat().st_size <= CHECKED_BYTES or unclean:
            [(sound,)] = database.execute("PRAGMA quick_check(1)")
            if sound != "ok":
                raise sqlite3.DatabaseError(sound)
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        if not tables:
            raise sqlite3.DatabaseError("it is empty")
        if not tables >= {"about", "cells"}:
            raise AttributionLabError(
                f"{str(self.path)!r} is another program's database: name another folder"
            )
        found = dict(database.execute("SELECT name, value FROM about"))
        if found.get("schema") != str(SCHEMA):
            raise AttributionLabError(
                f"{str(self.path)!r} has schema {found.get('schema')}, but this version reads "
                f"{SCHEMA}: name another folder, or install the version that wrote it"
            )

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        """A full disk, a missing permission or a damaged file as one line."""
        try:
            yield
        except sqlite3.Error as error:
            # Our statements have no mistakes: where a name is unknown, the table of names is damaged.
            code = getattr(error, "sqlite_errorcode", None)
            if type(error) is sqlite3.DatabaseError or code == sqlite3.SQLITE_ERROR:
                raise AttributionLabError(self._damaged(error)) from error
            raise AttributionLabError(
                f"cannot use {str(self.path)!r} ({error}): its content is kept; free space, or "
                "get permission, and run again"
            ) from error

    def _damaged(self, error: Exception) -> str:
        copy = self.path.with_name(f"{NAME}.damaged")
        with suppress(OSError):
            if not copy.exists():
                shutil.copy2(self.path, copy)
                with suppress(FileNotFoundError):  # the last commits
                    shutil.copy2(f"{self.path}-wal", f"{copy}-wal")
        kept = f"; a copy is {copy.name!r}" if copy.exists() else ""
        return (
            f"{str(self.path)!r} is damaged ({' '.join(str(error).split())}){kept}. Save what can be "
            f"read: attributionlab merge NEW {shlex.quote(str(self.folder))}"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others write."""
        self._database.close()
        if self._lock is not None:
            with suppress(OSError):
                self._holder.unlink()
            self._lock.close()
            self._lock = None

    def outcome(self, key: str, *, arrays: bool = True) -> Outcome | None:
        """What became of a cell; None where it is missing or damaged, or its arrays are.

        Without `arrays` those in a file are not read: only the file's size is looked at, and they are
        empty in the outcome's value.
        """
        with self._in_one_line():
            row = self._database.execute(f"{SELECT} WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        cell = dict(zip(COLUMNS, row, strict=True))
        data = _arrays_of(cell, self.folder / ARRAYS, read=arrays)
        if data is None or self._changed(key, cell["read"]):
            return None
        about = cell["seconds"], _read_of(cell["read"])
        if cell["error"]:
            return Outcome(None, cell["error"], bool(cell["refused"]), *about)
        kept = data if arrays or not cell["file"] else None
        return Outcome(Record(cell["result"], kept), "", False, *about)

    def _changed(self, key: str, read: str) -> list[str]:
        """Files that were read for a result and are otherwise now; results of this process stay."""
        return [] if key in self._own else changed_files(_read_of(read))

    def size(self) -> int:
        """Bytes of all files in the folder."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return sum(path.stat().st_size for path in files)

    def describe(self, name: str, value: Any) -> None:
        """Keep what the cells belong to, as JSON, under a name."""
        with self._in_one_line():
            row = (name, json.dumps(value))
            self._database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", row)

    def description(self, name: str) -> Any:
        """What `describe` kept; None without any.

        Raises AttributionLabError for what is no JSON.
        """
        with self._in_one_line():
            query = "SELECT value FROM about WHERE name = ?"
            row = self._database.execute(query, (name,)).fetchone()
            try:
                return None if row is None else json.loads(row[0])
            except (ValueError, TypeError, RecursionError) as error:
                raise sqlite3.DatabaseError(f"its {name} is no JSON") from error

    def holder(self) -> tuple[str, float] | None:
        """Who writes, and since how many minutes; None where nobody does."""
        import psutil

        try:
            who = json.loads(self._holder.read_text(encoding="utf-8"))
            # A process that was killed leaves the file behind.
            gone = who["host"] == socket.gethostname() and not psutil.pid_exists(who["process"])
            minutes = (time.time() - who["since"]) / 60
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return None if gone else (f"process {who['process']} on {who['host']}", minutes)

    def reference(self, key: str, *, travels: bool = False) -> Reference | None:
        """What leads to a result without reading its arrays; None where there is none."""
        query = "SELECT result, arrays, file, read FROM cells WHERE key = ? AND error = ''"
        with self._in_one_line():
            row = self._database.execute(query, (key,)).fetchone()
        if row is None or self._changed(key, row[3]):
            return None
        text, inline, file, read = row
        path = (self.folder / ARRAYS / file).resolve() if file else None
        return Reference(Record(text, inline or b""), path, travels, _read_of(read))

    def put(self, cell: Cell, outcome: Outcome) -> None:
        """Keep what became of a cell, in place of what was there."""
        text, data = outcome.record or ("", b"")
        data = data or b""
        file, inline = "", data
        if len(data) > INLINE_BYTES:  # named by what is in it, so that damage is seen
            file, inline = f"{hashlib.sha256(data).hexdigest()}.safetensors", b""
            write_atomically(self.folder / ARRAYS / file, data)
        error = outcome.error.encode("utf-8", "backslashreplace").decode()
        read = json.dumps(sorted(dict([*cell.read, *outcome.read]).items()))
        row = (
            *(cell.key, cell.kind, _json(cell.place), _json(cell.depends_on)),
            *(error, outcome.refused, outcome.seconds, time.time()),
            *(len(data), file, read, _checksum(error, file, read, text, inline), text, inline),
        )
        with self._in_one_line():
            self._database.execute(INSERT, row)
        self._own.add(cell.key)

    def keys(self) -> dict[str, bool]:
        """Every cell's key, and whether it failed; not those for which files were read that are
        otherwise now.
        """
        with self._in_one_line():
            return {
                key: bool(error)
                for key, error, read in self._database.execute("SELECT key, error, read FROM cells")
                if not self._changed(key, read)
            }

    def finished(self, key: str) -> str:
        """The day on which a cell was computed, in universal time."""
        with self._in_one_line():
            query = "SELECT finished FROM cells WHERE key = ?"
            [seconds] = self._database.execute(query, (key,)).fetchone()
        return time.strftime("%Y-%m-%d", time.gmtime(seconds))

    def rows(self, kind: str | None = None) -> Iterator[Row]:
        """All cells, or those of a kind, without their results, by place; not those that cannot be
        read, which are computed again.
        """
        query = (
            "SELECT key, kind, place, depends_on, error, seconds, bytes, finished FROM cells "
            "WHERE :kind IS NULL OR kind = :kind ORDER BY kind, place, key"
        )
        with self._in_one_line():
            for row in self._database.execute(query, {"kind": kind}):
                key, kind_, place, depends_on, *others = row
                with suppress(ValueError, TypeError, RecursionError):
                    found = json.loads(place), json.loads(depends_on)
                    if all(isinstance(each, dict) for each in found):
                        yield Row(key, kind_, *found, *others)

    def why_missing(self, cell: Cell) -> str:
        """Why a cell must be computed: "new", "damaged", or what has changed since its place was
        computed last.
        """
        query = (
            "SELECT depends_on, read FROM cells WHERE kind = ? AND place = ? "
            "ORDER BY key = ? DESC, finished DESC"
        )
        with self._in_one_line():
            place = _json(cell.place)
            last = self._database.execute(query, (cell.kind, place, cell.key)).fetchone()
        if last is None:
            return "new"
        try:
            before, now = json.loads(last[0]), cell.depends_on
        except ValueError:
            return "damaged"
        names = sorted({*before, *now})
        changed = [name for name in names if _json(before.get(name)) != _json(now.get(name))]
        changed = changed or changed_files(_read_of(last[1]))
        return f"changed: {', '.join(changed)}" if changed else "damaged"

    def take_over(self, others: Iterable["Store | str | Path"]) -> int:
        """Copy the cells of other stores that this one lacks or has as failed; how many.

        Of a damaged store all that can be read, and a warning says how much could not.
        """
        taken = 0
        for other in others:
            path = other.path if isinstance(other, Store) else Path(other) / NAME
            if not path.is_file():
                raise AttributionLabError(
                    f"{str(path.parent)!r} does not hold a store: name the folder of --out"
                )
            taken += self._take_over(path)
        return taken

    def _take_over(self, path: Path) -> int:
        known, taken, seen, lost = self.keys(), 0, 0, 0
        with readable(path) as (rows, whole):
            for row in rows:
                seen += 1
                cell = dict(zip(COLUMNS, row or (), strict=False))
                data = _arrays_of(cell, path.parent / ARRAYS) if _is_itself(cell) else None
                if data is None:
                    lost += 1
                    continue
                key, failed = cell["key"], bool(cell["error"])
                if key in known and (failed or not known[key]):
                    continue
                if cell["file"]:
                    write_atomically(self.folder / ARRAYS / cell["file"], data)
                with self._in_one_line():
                    self._database.execute(INSERT, row)
                known[key] = failed
                taken += 1
        if lost or not whole:
            of = "" if whole else "at least "
            text = (
                f"{str(path)!r} is damaged: {seen - lost} of {of}{seen} cells could be read, the "
            )
            text += "others were left out; they are computed again"
            warnings.warn(text, AttributionLabWarning, stacklevel=4)
        return taken


@contextmanager
def stored(folder: str | Path | None) -> Iterator[Store | None]:
    """The store of a folder, open; None without a folder."""
    if folder is None:
        yield None
        return
    with Store(folder) as store:
        yield store


def remove_without_results(folder: Path, above: Iterable[Path] = ()) -> None:
    """Remove a folder that was made for a store, if no cell in it was done, and those `above` it that
    were made for it, the nearest first.
    """
    with suppress(AttributionLabError, OSError):
        if (folder / NAME).is_file():
            with Store(folder, writable=False) as store:
                if not all(store.keys().values()):
                    return
            shutil.rmtree(folder)
        elif folder.is_dir():
            folder.rmdir()
        for each in above:
            each.rmdir()


def folder_problem(folder: object) -> list[str]:
    """What is wrong with the folder of a store, as `out` states it."""
    if isinstance(folder, str | os.PathLike):
        return []
    return [f"out is {folder!r}: name a folder, or leave it out"]


def _is_itself(cell: Mapping[str, Any]) -> bool:
    """Whether what a cell is and depends on is what its key was made of."""
    try:
        parts = [cell["kind"], json.loads(cell["place"]), json.loads(cell["depends_on"])]
        return bool(digest_of(parts) == cell["key"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _arrays_of(cell: Mapping[str, Any], arrays: Path, *, read: bool = True) -> bytes | None:
    """The arrays of a cell, none where it has none; None where they or the result are damaged.

    Arrays in a file are not read without `read`: its size must be right.
    """
    names = ("error", "file", "read", "result", "arrays")
    error, file, files, text, data = (cell[name] for name in names)
    texts = all(isinstance(each, str) for each in (error, file, files, text))
    if not (texts and isinstance(data, bytes)) or (
        _checksum(error, file, files, text, data) != cell["checksum"]
    ):
        return None
    if not file:
        return data
    if not NAME_OF_ARRAYS.fullmatch(file):  # a stranger's store: no path that leads elsewhere
        return None
    if read:
        return sound_arrays(arrays / file)
    try:
        return b"" if (arrays / file).stat().st_size == cell["bytes"] else None
    except OSError:
        return None


def _checksum(error: str, file: str, read: str, text: str, data: bytes) -> str:
    """Of what a row says about the result; the key is that of the rest."""
    head = json.dumps([error, file, read, text]).encode()
    return hashlib.sha256(head + data).hexdigest()


def _read_of(text: str) -> Read:
    """Files that were read, each with its hash; none where that is damaged, as the checksum says."""
    try:
        return tuple((str(name), str(digest)) for name, digest in json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return ()


def _json(value: Any) -> str:
    return json.dumps(
        dict(value) if isinstance(value, Mapping) else value, sort_keys=True, default=repr
    )
