"""Seal a laboratory: files for students, a key for the lecturer, a commitment between them."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.exams.worlds import worlds_problems
from attributionlab.files import check_writable, write_atomically
from attributionlab.sealed.archives import (
    array_of,
    file_bytes,
    json_bytes,
    json_document,
    npy_bytes,
    zip_bytes,
    zip_members,
)
from attributionlab.sealed.laboratory import (
    COMMITMENT,
    IMAGES,
    LAB,
    LARGEST_LAB,
    SCHEMA,
    drawn_world,
    lab_files,
    laboratory_files,
)
from attributionlab.sealed.rubric import Truths

ANSWERS, NONCE, TRUTH = "answers.json", "nonce.txt", "truth.npy"
KEY_FILES = (ANSWERS, NONCE, TRUTH)
KEY_BYTES, NONCE_BYTES = 16, 32
MOST_IMAGES = 64


def seal_laboratory(
    out: str | Path,
    answers: str | Path,
    difficulty: str = "medium",
    image_size: int = 48,
    n: int = 6,
    *,
    key: bytes | None = None,
    nonce: bytes | None = None,
) -> None:
    """Draw a world and write it as a laboratory for students and a key for whoever marks their answers.

    The world is a function of the key, of 128 bits, and of the other arguments: no smaller seed gives
    it. The laboratory holds SHA-256(nonce || answers) with a nonce of 256 bits, which is in the key:
    without it the few possible answers cannot be tried. docs/sealed-laboratories.md has the files.

    Parameters
    ----------
    out, answers : str or Path
        The zip files to write: the laboratory, and the key with the answers. Neither may exist.
    difficulty : {"easy", "medium", "hard"}
        As for `random_worlds`; no world has motifs.
    image_size : int
        Side of the images in pixels, 24 to 1024.
    n : int
        How many images, 2 to 64.
    key, nonce : bytes, optional
        16 and 32 bytes; random ones (`secrets`) by default. The same ones give the same files.

    Raises
    ------
    AttributionLabError
        For arguments outside these ranges, and files that exist or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import attributionlab as al
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lab, key = Path(folder) / "lab.zip", Path(folder) / "key.zip"
    ...     al.seal_laboratory(lab, key, "easy", image_size=24, n=2, key=bytes(16))
    ...     al.open_laboratory(lab).images.shape
    torch.Size([2, 3, 24, 24])
    """
    key = secrets.token_bytes(KEY_BYTES) if key is None else key
    nonce = secrets.token_bytes(NONCE_BYTES) if nonce is None else nonce
    problems = worlds_problems("n", n, 0, difficulty, image_size, least=2)
    if not problems and n > MOST_IMAGES:
        problems = [f"n is {n}: take at most {MOST_IMAGES}"]
    for name, given, length in (("key", key, KEY_BYTES), ("nonce", nonce, NONCE_BYTES)):
        if not isinstance(given, bytes) or len(given) != length:
            problems.append(f"{name} is no {length} bytes: leave it out, and it is drawn")
    places = check_writable(out), check_writable(answers)
    if places[0] == places[1]:
        problems.append(f"laboratory and key are both {str(out)!r}: give two paths")
    # A key that is overwritten is lost for good, and all answers to its laboratory with it.
    problems += [f"{str(place)!r} exists: name a new file" for place in places if place.exists()]
    refuse_if(problems)
    found = drawn_world(key, difficulty, int(image_size), int(n))
    files = laboratory_files(key, found, difficulty)
    truth = npy_bytes(found.signed)
    document = {
        "schema": SCHEMA,
        "key": key.hex(),
        "rule": found.env.rule,
        "answers": found.answers,
        "truth": _digest(truth),
        "lab": {name: _digest(content) for name, content in files.items()},
    }
    committed = json_bytes(document)
    files[COMMITMENT] = (commitment(nonce, committed) + "\n").encode()
    sealed = {ANSWERS: committed, NONCE: (nonce.hex() + "\n").encode(), TRUTH: truth}
    write_atomically(answers, zip_bytes(sealed))
    try:
        write_atomically(out, zip_bytes(files))
    except BaseException:
        places[1].unlink()
        raise


def commitment(nonce: bytes, answers: bytes) -> str:
    """SHA-256(nonce || answers) in hexadecimal digits."""
    return _digest(nonce + answers)


def open_sealed(lab: str | Path, key: str | Path) -> Truths:
    """The answers of a laboratory, if the two files are as they were sealed, and belong together.

    Raises
    ------
    AttributionLabError
        If a file of either is missing, or was changed.
    """
    files = lab_files(Path(lab))
    sealed = zip_members(file_bytes(Path(key), LARGEST_LAB), KEY_FILES, str(key), LARGEST_LAB)
    missing = [name for name in KEY_FILES if name not in sealed]
    if missing:
        raise AttributionLabError(
            f"{str(key)!r} lacks {', '.join(missing)}: pass the key of {str(lab)!r}"
        )
    try:
        nonce = bytes.fromhex(sealed[NONCE].decode("ascii").strip())
        stated = files[COMMITMENT].decode("ascii").strip()
    except ValueError as error:
        raise AttributionLabError(f"{COMMITMENT} or {NONCE} is no number: seal again") from error
    if len(nonce) != NONCE_BYTES or not hmac.compare_digest(
        commitment(nonce, sealed[ANSWERS]), stated
    ):
        raise AttributionLabError(
            f"{str(key)!r} does not open the commitment of {str(lab)!r}: one of them was changed, or "
            "belongs to another: use the two files as they were sealed"
        )
    # From here on the answers are those that were committed to.
    document = json_document(sealed[ANSWERS], ANSWERS)
    changed = [name for name, digest in document["lab"].items() if _digest(files[name]) != digest]
    changed += [TRUTH] if _digest(sealed[TRUTH]) != document["truth"] else []
    if changed:
        raise AttributionLabError(
            f"{', '.join(changed)} of {str(lab)!r} or {str(key)!r} changed after sealing: use the two "
            "files as they were sealed"
        )
    spec = json_document(files[LAB], LAB)
    images, signed = array_of(files[IMAGES], IMAGES), array_of(sealed[TRUTH], TRUTH)
    counted = {part.partition("@")[0] for part in document["answers"]["parts"]}

    def of(names: Iterable[str]) -> torch.Tensor:
        colors = [np.array(spec["colors"][name])[:, None, None] for name in names]
        equal = [(images == color).all(1, keepdims=True) for color in colors]
        return torch.from_numpy(np.any(equal, 0))

    return Truths(
        answers=document["answers"],
        signed=torch.from_numpy(signed.copy()),
        visible=of(spec["colors"]),
        of_colors=of(counted),
        spec=spec,
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
