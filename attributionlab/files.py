"""Files that are there whole or not at all."""

import os
import tempfile
from pathlib import Path

from attributionlab.errors import AttributionLabError

__all__ = ["check_writable", "write_atomically"]


def check_writable(path: str | Path) -> Path:
    """Refuse a path that cannot be written, before the work that would end there."""
    path = Path(path)
    folder = path.parent
    if path.is_dir():
        raise AttributionLabError(f"{str(path)!r} is a folder: give the path of a file")
    if not folder.is_dir():
        raise AttributionLabError(f"cannot write {str(path)!r}: there is no folder {str(folder)!r}")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise AttributionLabError(f"cannot write {str(path)!r}: no permission")
    return path


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write a file under another name beside it and put it in place when it is complete."""
    path = check_writable(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp makes private files; a result is as readable as any other file of this user.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
