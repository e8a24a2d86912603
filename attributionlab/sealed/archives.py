"""Zip archives: written with the same bytes each time, and read from strangers without trust.

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
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.errors import AttributionLabError, cut

LARGEST_FILE = 16 * 2**20
"""Bytes of a submission's file or archive, and of what any member of it unfolds to."""
LARGEST_JSON = 64 * 2**10
MOST_ENTRIES = 100
"""Files in a folder or archive."""
DIRECTORY_ENTRY = b"PK\x01\x02"
"""Begins each entry of a zip's list of files."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Python limits what it unfolds at a time for these alone."""
ENCRYPTED = 0x1
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
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=True)
    return (text + "\n").encode()


def npy_bytes(array: NDArray[Any]) -> bytes:
    """An array as a NumPy file."""
    packed = io.BytesIO()
    np.lib.format.write_array(packed, np.ascontiguousarray(array), allow_pickle=False)
    return packed.getvalue()


def file_bytes(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """A file's bytes; links, pipes, devices and files that are too large are refused unread."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise AttributionLabError(
                f"{str(path)!r} is a link, pipe, device or folder: give a file"
            )
        # The file may be another one by now: a link is not followed, a pipe does not block.
        flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with os.fdopen(
            os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | flags), "rb"
        ) as file:
            size = os.fstat(file.fileno()).st_size
            found = b"" if size > largest else file.read(largest + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, AttributionLabError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise AttributionLabError(
            f"cannot read {str(path)!r} ({reason}): check the path"
        ) from error
    if max(size, len(found)) > largest:
        raise AttributionLabError(
            f"{str(path)!r} has {size:,} bytes: send at most {largest:,} bytes"
        )
    return found


def zip_members(
    packed: bytes, wanted: Iterable[str], what: str, largest: int = LARGEST_FILE
) -> dict[str, bytes]:
    """Those of the wanted files that an archive holds, by name.

    They may all lie in one folder, as where a folder was packed. Other files stay unread.

    Raises
    ------
    AttributionLabError
        If it is no zip; for more than `MOST_ENTRIES` files, names that lead out of the archive, files
        that are there twice, links, encryption, and files that unfold to more than `largest` bytes or
        to other bytes than the archive states.
    """
    # Counted before anything is made of them: each entry begins with these bytes.
    if packed.count(DIRECTORY_ENTRY) > MOST_ENTRIES:
        raise AttributionLabError(f"{what} lists more than {MOST_ENTRIES} files: pack only yours")
    found = dict[str, bytes]()
    names = set(wanted)
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            for entry in archive.infolist():
                _check_name(entry, what)
                name = entry.filename.rpartition("/")[2]
                if name not in names or entry.filename.startswith("__MACOSX/"):
                    continue
                if name in found:
                    raise AttributionLabError(f"{what} holds {name} twice: pack one")
                found[name] = _member(archive, entry, f"{name} in {what}", largest)
    except AttributionLabError:
        raise
    # What zipfile raises for archives that lie: also these two, and Python's own limits.
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, EOFError) as error:
        raise AttributionLabError(f"{what} is no readable zip ({error}): pack it again") from error
    except (NotImplementedError, RuntimeError, OverflowError, IndexError) as error:
        raise AttributionLabError(f"{what} is no plain zip ({error}): pack it again") from error
    return found


def _check_name(entry: zipfile.ZipInfo, what: str) -> None:
    name = entry.filename
    parts = name.replace("\\", "/").split("/")
    # `orig_filename` has what zipfile cuts off behind a null byte.
    leads_out = ".." in parts or not parts[0] or ":" in name or "\\" in entry.orig_filename
    if leads_out or "\0" in entry.orig_filename:
        raise AttributionLabError(
            f"{what} names {cut(entry.orig_filename)!r}, which leads out of it: use plain names"
        )
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise AttributionLabError(f"{what} holds the link {cut(name)!r}: pack the file itself")


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, what: str, largest: int) -> bytes:
    if entry.flag_bits & ENCRYPTED or entry.compress_type not in METHODS:
        raise AttributionLabError(f"{what} is encrypted or packed unusually: use deflate or store")
    with archive.open(entry) as member:
        # No more than this is unfolded, whatever size the archive states.
        found = b"" if entry.file_size > largest else member.read(largest + 1)
    if max(entry.file_size, len(found)) > largest:
        raise AttributionLabError(f"{what} unfolds to more than {largest:,} bytes: make it smaller")
    if len(found) != entry.file_size:
        raise AttributionLabError(f"{what} has another size than the archive states: pack it again")
    return found


def array_of(packed: bytes, what: str) -> NDArray[Any]:
    """The array of real numbers in a NumPy file; its header is read before its values.

    Raises
    ------
    AttributionLabError
        For what is no such file, for objects, texts, complex and structured values, and if the header
        does not fit the bytes behind it.
    """
    remedy = "save real numbers by numpy.save or numpy.savez"
    stream = io.BytesIO(packed)
    try:
        with warnings.catch_warnings(action="ignore"):  # that a header is as Python 2 wrote it
            header = HEADERS[np.lib.format.read_magic(stream)](
                stream, max_header_size=LONGEST_HEADER
            )
    except Exception as error:  # tokenizer, parser and dtype each raise what they like
        text = " ".join(str(error).split())
        raise AttributionLabError(
            f"{what} is no NumPy file with a plain header ({cut(text, 80)}): {remedy}"
        ) from error
    shape, order, dtype = header
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
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(key for key, _ in pairs if sum(key == each for each, _ in pairs) > 1)
            raise ValueError(f"the key {cut(twice, 40)!r} stands twice")
        return found

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no number of JSON")

    try:
        text = packed.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AttributionLabError(
            f"{what} is no JSON in UTF-8 (byte {error.start}): save it with the encoding UTF-8"
        ) from error
    try:
        document = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise AttributionLabError(f"{what} is no JSON ({error}): write it anew") from error
    if not isinstance(document, dict):
        raise AttributionLabError(f"{what} is no JSON object: begin with {{")
    return document
