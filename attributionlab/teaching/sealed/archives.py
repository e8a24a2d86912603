"""Files written with the same bytes each time, and files of strangers, read without trust.

Nothing of an archive is extracted, executed or unpickled. Sizes are read from headers before what they
are sizes of, and are believed only as far as the bytes bear them out.
"""

import io
import json
import math
import os
import stat
import warnings
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import AttributionLabError, cut, format_error, in_one_line, printable

LARGEST_FILE = 16 * 2**20
"""Bytes of a submission's file or archive, and of what any member of it unfolds to."""
LARGEST_JSON = 64 * 2**10
MOST_ENTRIES = 100
"""Files in a folder or archive."""
DIRECTORY_ENTRY = b"PK\x01\x02"
"""Begins each entry of a zip's list of files."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Python limits what it unfolds at a time for these alone."""
BEGINNING_OF_ZIP = (1980, 1, 1, 0, 0, 0)
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
"""Readers of the headers of NumPy files, by version."""
LONGEST_HEADER = 4096
LARGEST_NUMBER = 8
"""Bytes; longer ones are other numbers on other machines."""
MOST_AXES = 8


def zip_bytes(files: Mapping[str, bytes]) -> bytes:
    """An archive with these files, sorted by name, without times, owners or rights of this machine."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, BEGINNING_OF_ZIP)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, files[name])
    return packed.getvalue()


def json_bytes(document: Any) -> bytes:
    """A document as JSON: the same bytes for equal documents."""
    return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def npy_bytes(array: NDArray[Any]) -> bytes:
    """An array as a NumPy file."""
    packed = io.BytesIO()
    np.lib.format.write_array(packed, np.ascontiguousarray(array), allow_pickle=False)
    return packed.getvalue()


def file_bytes(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """A file's bytes; links, pipes, devices and files that are too large are refused unread."""
    flags, found = os.O_RDONLY, b""
    for name in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK"):
        flags |= getattr(os, name, 0)
    try:
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_size <= largest:
            # It may be another file by now: a link is not followed, a pipe does not block.
            with os.fdopen(os.open(path, flags), "rb") as file:
                found = file.read(largest + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AttributionLabError(
            f"cannot read {str(path)!r} ({reason}): check the path"
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise AttributionLabError(f"{str(path)!r} is a link, pipe, device or folder: give a file")
    if (size := max(status.st_size, len(found))) > largest:
        raise AttributionLabError(
            f"{str(path)!r} has {size:,} bytes: send at most {largest:,} bytes"
        )
    return found


def zip_members(
    packed: bytes, wanted: Collection[str], what: str, largest: int = LARGEST_FILE
) -> tuple[dict[str, bytes], set[str]]:
    """Those of the wanted files that an archive holds, by name, and the names of all.

    They may all lie in one folder, as where a folder was packed. Other files stay unread. What is no
    zip, more than `MOST_ENTRIES` files, names that lead out, files that are there twice, links,
    encryption, and files of more than `largest` bytes or of others than are stated are refused.
    """
    what = printable(what)
    # Counted before anything is made of them: each entry begins with these bytes.
    if packed.count(DIRECTORY_ENTRY) > MOST_ENTRIES:
        raise AttributionLabError(f"{what} lists more than {MOST_ENTRIES} files: pack only yours")
    found, names = dict[str, bytes](), set[str]()
    # Archives that lie make zipfile raise whatever it likes.
    with (
        in_one_line(
            lambda error: f"{what} is not a plain zip ({format_error(error)}): pack it again"
        ),
        zipfile.ZipFile(io.BytesIO(packed)) as archive,
    ):
        for entry in archive.infolist():
            path = _checked_path(entry, what)
            if path[0] == "__MACOSX" or not path[-1]:  # of an archive of macOS, and of a folder
                continue
            names.add(path[-1])
            if path[-1] in found:
                raise AttributionLabError(f"{what} holds {path[-1]} twice: pack one")
            if path[-1] in wanted:
                found[path[-1]] = _member(archive, entry, f"{path[-1]} in {what}", largest)
    return found, names


def _checked_path(entry: zipfile.ZipInfo, what: str) -> list[str]:
    """The folders and the name of a file; some programs of Windows write backslashes between them."""
    name = entry.orig_filename  # zipfile cuts off what is behind a null byte
    path = name.replace("\\", "/").split("/")
    if ".." in path or not path[0] or name[1:2] == ":" or "\0" in name:
        raise AttributionLabError(
            f"{what} names {cut(name)!r}, which leads out of it: use plain names"
        )
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise AttributionLabError(f"{what} holds the link {cut(name)!r}: pack the file itself")
    return path


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, what: str, largest: int) -> bytes:
    if entry.compress_type not in METHODS:
        raise AttributionLabError(f"{what} uses an unsupported compression: use deflate or store")
    if entry.file_size > largest:
        raise AttributionLabError(
            f"{what} decompresses to more than {largest:,} bytes: make it smaller"
        )
    with archive.open(entry) as member:
        found = member.read(largest)  # no more than this is unfolded, whatever size is stated
    if len(found) != entry.file_size:
        raise AttributionLabError(f"{what} is not of the size in the archive: pack it again")
    return found


def array_of(packed: bytes, what: str) -> NDArray[Any]:
    """The array of real numbers in a NumPy file; its header is read before its values.

    Objects, texts, complex and structured values are refused, and headers that do not fit the bytes
    behind them.
    """
    remedy = "save real numbers by numpy.save or numpy.savez"
    stream = io.BytesIO(packed)
    problem = f"{what} is not a NumPy file with a plain header"
    with (
        in_one_line(lambda error: f"{problem} ({cut(format_error(error), 80)}): {remedy}"),
        warnings.catch_warnings(action="ignore"),  # that a header is as Python 2 wrote it
    ):
        reader = HEADERS[np.lib.format.read_magic(stream)]
        shape, order, dtype = reader(stream, max_header_size=LONGEST_HEADER)
    if dtype.kind not in "biuf" or dtype.itemsize > LARGEST_NUMBER:
        raise AttributionLabError(f"{what} holds {cut(dtype.str, 40)}: {remedy}")
    data = packed[stream.tell() :]
    fits = all(0 <= side <= len(packed) for side in shape) and len(shape) <= MOST_AXES
    if not fits or len(data) != math.prod(shape) * dtype.itemsize:
        raise AttributionLabError(
            f"{what} states the shape {cut(str(shape), 80)}, and {len(data):,} bytes follow: {remedy}"
        )
    return np.frombuffer(data, dtype).reshape(shape, order="F" if order else "C")


def json_document(packed: bytes, what: str) -> dict[str, Any]:
    """A JSON object; keys that stand twice, NaN and what is no UTF-8 are refused."""
    if len(packed) > LARGEST_JSON:
        raise AttributionLabError(f"{what} has {len(packed):,} bytes: at most {LARGEST_JSON:,}")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict[str, Any]()
        for key, value in pairs:
            if key in found:
                raise ValueError(f"the key {cut(key, 40)!r} occurs twice")
            found[key] = value
        return found

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not a JSON number")

    try:
        document = json.loads(
            packed.decode("utf-8-sig"), object_pairs_hook=unique, parse_constant=refuse
        )
    except UnicodeDecodeError as error:
        raise AttributionLabError(
            f"{what} is not JSON in UTF-8 (byte {error.start}): save it with the encoding UTF-8"
        ) from error
    except (ValueError, RecursionError) as error:
        raise AttributionLabError(f"{what} is not JSON ({error}): write it again") from error
    if not isinstance(document, dict):
        raise AttributionLabError(f"{what} is not a JSON object: begin with {{")
    return document
