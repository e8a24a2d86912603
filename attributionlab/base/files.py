"""Files that are there whole or not at all, and those of a report."""

import io
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attributionlab.base.errors import AttributionLabError

if TYPE_CHECKING:
    import pandas as pd


MADE_HERE = re.compile(
    rb'"versions": \{\s*"attributionlab": "'  # JSON
    rb'|<meta name="generator" content="AttributionLab">'
    rb"|Software\0AttributionLab|/Creator \(AttributionLab\)|<dc:title>AttributionLab</dc:title>"
    rb'|"written by": ?"AttributionLab"'  # Parquet, safetensors
    rb"|% written by AttributionLab\s*\Z|<!-- written by AttributionLab -->\s*\Z"
    rb"|\A(?:method,[^\n]*,verdict,seed\s|(?:method,environment,spec|method,place,score"
    rb"|metric,axis,dose|metric,tested,agreement|metric,better,range|name,rule,features"
    rb"|submission,status,total),)"  # CSV has its columns only
)
"""What a file that a command of this package wrote says of itself."""


def is_made_here(path: str | Path) -> bool:
    """Whether a command may replace a file: it is missing, empty, or says that one of ours wrote it."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return True
    return not content or MADE_HERE.search(content) is not None


def check_writable(path: str | Path) -> Path:
    """The file that a path leads to, refused before the work that would end there if it cannot be
    written: folders, devices, what is printed to, missing folders, missing permission.
    """
    try:
        target = Path(path).resolve()
        if (os.path.exists(path) and not target.exists()) or _of_system(path):  # a pipe
            raise AttributionLabError(f"{str(path)!r} is a device or pipe: give the path of a file")
        if target.is_file() and any(os.path.samestat(target.stat(), each) for each in _streams()):
            raise AttributionLabError(
                f"standard output or error goes to {str(path)!r}: give the path of another file"
            )
        folder = target.parent
        if target.is_symlink():  # Python 3.13 no longer raises
            raise RuntimeError("a loop of links")
        if target.exists() and not target.is_file():
            kind = "folder" if target.is_dir() else "device or pipe"
            raise AttributionLabError(f"{str(path)!r} is a {kind}: give the path of a file")
        if not folder.is_dir():
            raise AttributionLabError(
                f"cannot write {str(path)!r}: there is no folder {str(Path(path).parent)!r}"
            )
        allowed = os.access(folder, os.W_OK) and (not target.exists() or os.access(target, os.W_OK))
    except AttributionLabError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, a null byte
        raise AttributionLabError(f"cannot write {str(path)!r}: {error}") from error
    if not allowed:
        raise AttributionLabError(f"cannot write {str(path)!r}: no permission")
    return target


def _of_system(path: str | Path) -> bool:
    """Whether it is under /dev, where links lead to what is open, or /proc; /dev/shm has files."""
    parts = Path(os.path.abspath(path)).parts
    return parts[1:2] in (("dev",), ("proc",)) and os.name == "posix" and parts[2:3] != ("shm",)


def _streams() -> Iterator[os.stat_result]:
    """The files of standard output and error, which would be lost where another took their name."""
    for number in (1, 2):
        with suppress(OSError):  # closed
            yield os.fstat(number)


def make_folder(path: str | Path) -> Path:
    """The folder of that name, made with its parents where it is missing."""
    folder = Path(path)
    if _of_system(path):  # a link there may lead to a folder, and a folder take no files
        raise AttributionLabError(
            f"{str(path)!r} is a device or pipe, or a system folder: name another folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AttributionLabError(
            f"{str(path)!r} cannot be a folder ({reason}): name another"
        ) from error
    if not os.access(folder, os.W_OK):
        raise AttributionLabError(f"cannot write into {str(path)!r}: no permission")
    return folder


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write a file under another name beside it and put it in place when it is complete."""
    target = check_writable(path)
    # A path that is not UTF-8 text may stand in a command line that is written down.
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".attributionlab-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            _publish(temporary, 0o666)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:  # a full disk
        raise AttributionLabError(f"cannot write {str(path)!r}: {error}") from error


def _publish(temporary: str, mode: int) -> None:
    """Make a private file or folder as readable as any other that this user makes."""
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(temporary, mode & ~umask)


def check_new_folder(path: str | Path) -> Path:
    """The folder that is to be made there, refused before the work that would end in it if it cannot
    be; one that exists is for the caller to judge, unless it is the current one.
    """
    try:
        target = Path(path).resolve()
        if _of_system(path) or (target.exists() and not target.is_dir()):
            raise AttributionLabError(f"{str(path)!r} is not a folder: name a new one")
        if target.is_dir() and target.samefile(Path.cwd()):
            raise AttributionLabError(
                f"{str(path)!r} is the current folder, which cannot be replaced: name a new one"
            )
        if not target.parent.is_dir():
            raise AttributionLabError(
                f"cannot make {str(path)!r}: there is no folder {str(Path(path).parent)!r}"
            )
        allowed = os.access(target.parent, os.W_OK | os.X_OK)
    except AttributionLabError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, a null byte
        raise AttributionLabError(f"cannot make {str(path)!r}: {error}") from error
    if not allowed:
        raise AttributionLabError(f"cannot make {str(path)!r}: no permission")
    return target


@contextmanager
def folder_made_whole(path: str | Path) -> Iterator[Path]:
    """A new folder beside a path, put in its place at the end of the block.

    If the block raises, nothing is left. In place of a folder that is not empty nothing is put.
    """
    target = check_new_folder(path)
    try:
        temporary = tempfile.mkdtemp(dir=target.parent, prefix=".attributionlab-")
        try:
            yield Path(temporary)
            _publish(temporary, 0o777)
            if target.is_dir():
                target.rmdir()
            os.rename(temporary, target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:  # a full disk, or somebody else's files there
        raise AttributionLabError(f"cannot write {str(path)!r}: {error}") from error


def as_json(value: Any) -> Any:
    """A value that JSON can hold: NaN becomes None, a table a list of rows, an array a list, a
    named tuple a dict.
    """
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if hasattr(value, "columns"):
        return as_json(value.to_dict("records"))
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {key: as_json(each) for key, each in value.items()}
    return [as_json(each) for each in value] if isinstance(value, list | tuple) else value


def attributes(owner: object, *names: str) -> dict[str, Any]:
    """Some attributes by their names, as a document has them."""
    return {name: getattr(owner, name) for name in names}


def write_json(path: str | Path, document: Any) -> None:
    """Write plain values as JSON; NaN is refused."""
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(path, text + "\n")


FORMULA = re.compile(r"(^|;)(?=\s*[=+@\uff0b\uff1d\uff20\uff0d-])")
"""Where spreadsheets begin to run what a cell holds; in some countries semicolons part cells."""


def write_csv(path: str | Path, table: "pd.DataFrame") -> None:
    """A table as comma-separated text, without its index; no text in it is a spreadsheet's formula."""
    texts = table.select_dtypes(include=["object", "string", "category"]).columns
    safe = table.assign(**{name: table[name].map(_no_formula) for name in texts})
    write_atomically(path, safe.to_csv(index=False))


def _no_formula(value: Any) -> Any:
    return FORMULA.sub(r"\1'", value) if isinstance(value, str) else value


def write_parquet(path: str | Path, table: "pd.DataFrame") -> None:
    """A table as a Parquet file, without its index."""
    buffer = io.BytesIO()
    marked = table.copy(deep=False)
    marked.attrs = {**table.attrs, "written by": "AttributionLab"}
    marked.to_parquet(buffer, index=False)
    write_atomically(path, buffer.getvalue())


class Files:
    """Files of a report that has a document and a table."""

    def to_dict(self) -> dict[str, Any]:
        """Document that `to_json` writes."""
        raise NotImplementedError

    def to_frame(self) -> "pd.DataFrame":
        """Table that `to_csv` and `to_parquet` write."""
        raise NotImplementedError

    def to_json(self, path: str | Path) -> None:
        """Write the document, which has everything to run it again; whole or not at all."""
        write_json(path, self.to_dict())

    def to_csv(self, path: str | Path) -> None:
        """Write the table of `to_frame`."""
        write_csv(path, self.to_frame())

    def to_parquet(self, path: str | Path) -> None:
        """Write the table of `to_frame`."""
        write_parquet(path, self.to_frame())
