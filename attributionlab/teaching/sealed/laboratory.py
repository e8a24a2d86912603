"""The files of a sealed laboratory: written for students and lecturer, opened by either."""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    check_writable,
    checked_arguments,
    cut,
    format_error,
    in_one_line,
    refuse_if,
    write_atomically,
)
from attributionlab.teaching.sealed import archives, questions
from attributionlab.teaching.sealed.world import World, candidates, drawn_world
from attributionlab.verdicts import listed_network
from attributionlab.worlds import worlds_problems

SCHEMA, SCHEMAS = 2, (1, 2)
"""Of what is written, and of what can be read: before 2 there were no places and no free questions."""
LAB, NETWORK, WEIGHTS = "lab.json", "network.json", "network.safetensors"
IMAGES, CHOSEN, QUESTIONS, COMMITMENT = "images.npy", "doses.npy", "questions.md", "commitment.txt"
LAB_FILES = (LAB, NETWORK, WEIGHTS, IMAGES, CHOSEN, QUESTIONS, COMMITMENT)
ANSWERS, NONCE, TRUTH = "answers.json", "nonce.txt", "truth.npy"
KEY_FILES = (ANSWERS, NONCE, TRUTH)
KEY_BYTES, NONCE_BYTES = 16, 32
MOST_IMAGES = 64
LARGEST_LAB = 2**28
KINDS: Mapping[str, Callable[..., nn.Module]] = {
    "conv2d": nn.Conv2d,
    "linear": nn.Linear,
    "relu": nn.ReLU,
    "flatten": nn.Flatten,
}


class Laboratory(NamedTuple):
    """A sealed laboratory as a student opens it."""

    spec: dict[str, Any]
    """What lab.json holds: colors, places, parts, baselines, methods, doses, points, free
    questions."""
    model: nn.Sequential
    """(n, 3, H, W) float32 -> (n, 1)."""
    images: Tensor
    """(n, 3, H, W), integers from 0 to 255 as float32."""
    doses: Tensor
    """(doses, H, W), bool: the pixels that get a color when they are replaced, at each dose."""


class Truths(NamedTuple):
    """What submissions are held against."""

    answers: Mapping[str, Any]
    """The right ones, as in a student's answers.json; methods that are not asked are left out."""
    signed: Tensor
    """The truth of the maps, (n, 1, H, W) int8."""
    visible: Tensor
    """All that is not background, (n, 1, H, W) bool."""
    of_colors: Tensor
    """All pixels whose color counts somewhere, (n, 1, H, W) bool."""
    spec: Mapping[str, Any]
    """What lab.json holds."""


@checked_arguments
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
    """Draw a world and write it as a laboratory for students, with a key to grade their answers.

    The world is a function of the 128-bit key and the other arguments: no smaller seed determines it.
    The laboratory holds SHA-256(nonce || answers) with a nonce of 256 bits, which is in the key:
    without it, the few possible answers cannot be tried out. docs/sealed-laboratories.md has the files.

    Parameters
    ----------
    out, answers : str or Path
        The zip files to write: the laboratory, and the key with the answers. Neither may exist.
    difficulty : {"easy", "medium", "hard"}
        As for `random_worlds`; no world has motifs. The regions of easy worlds are the quadrants; those
        of the others are drawn. In hard worlds two colors share each role, and the region boundaries
        are not given.
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
    ...     al.seal_laboratory(lab, key, "easy", image_size=24, n=2, key=bytes([2] * 16))
    ...     al.open_laboratory(lab).images.shape
    torch.Size([2, 3, 24, 24])
    """
    key = secrets.token_bytes(KEY_BYTES) if key is None else key
    nonce = secrets.token_bytes(NONCE_BYTES) if nonce is None else nonce
    problems = worlds_problems(n, 0, difficulty, image_size, least=2)
    if not problems and n > MOST_IMAGES:
        problems = [f"n is {n}: take at most {MOST_IMAGES}"]
    for name, given, length in (("key", key, KEY_BYTES), ("nonce", nonce, NONCE_BYTES)):
        if not isinstance(given, bytes) or len(given) != length:
            problems.append(f"{name} does not have {length} bytes: leave it out to draw it")
    places = check_writable(out), check_writable(answers)
    if places[0] == places[1]:
        problems.append(f"laboratory and key are both {str(out)!r}: give two paths")
    # A key that is overwritten is lost for good, and all answers to its laboratory with it.
    problems += [f"{str(place)!r} exists: name a new file" for place in places if place.exists()]
    refuse_if(problems)
    found = drawn_world(key, difficulty, int(image_size), int(n))
    files, truth = _public_files(found, difficulty), archives.npy_bytes(found.signed)
    committed = archives.json_bytes(
        {
            "schema": SCHEMA,
            "key": key.hex(),
            "rule": found.env.rule,
            "places": found.rule.places.regions,
            "answers": found.answers,
            "truth": _digest(truth),
            "lab": {name: _digest(content) for name, content in files.items()},
        }
    )
    files[COMMITMENT] = (commitment(nonce, committed) + "\n").encode()
    sealed = {ANSWERS: committed, NONCE: (nonce.hex() + "\n").encode(), TRUTH: truth}
    write_atomically(answers, archives.zip_bytes(sealed))
    try:
        write_atomically(out, archives.zip_bytes(files))
    except BaseException:
        places[1].unlink()
        raise


def _public_files(found: World, difficulty: str) -> dict[str, bytes]:
    """The files of a laboratory but for the commitment: nothing in them is derived from the answers."""
    from safetensors.numpy import save

    colors = found.rule.places.colors
    network = listed_network(found.env, numbered=True)
    document = {"schema": SCHEMA, **{key: network.document[key] for key in ("layers", "input")}}
    spec = {
        "schema": SCHEMA,
        "difficulty": difficulty,
        "images": list(found.images.shape),
        "box": [0, 255],
        "output": "logit",
        "reading_weights": "allowed",
        "colors": colors,
        "places": found.places,
        "parts": questions.parts(colors, found.places),
        "baselines": candidates(found.rule),
        "methods": questions.METHODS,
        "causes": questions.CAUSES,
        "doses": questions.DOSES,
        "steps": questions.STEPS,
        "points": questions.POINTS,
        "free": questions.FREE,
    }
    return {
        LAB: archives.json_bytes(spec),
        NETWORK: archives.json_bytes(document),
        WEIGHTS: save(network.tensors),
        IMAGES: archives.npy_bytes(found.images.byte().numpy()),
        CHOSEN: archives.npy_bytes(found.chosen),
        QUESTIONS: Path(__file__).with_name(QUESTIONS).read_text(encoding="utf-8").encode(),
    }


def commitment(nonce: bytes, answers: bytes) -> str:
    """SHA-256(nonce || answers) in hexadecimal digits."""
    return _digest(nonce + answers)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@checked_arguments
def open_laboratory(lab: str | Path) -> Laboratory:
    """Open a sealed laboratory as torch objects: its network, its images and its questions.

    Parameters
    ----------
    lab : str or Path
        A lab.zip that `seal_laboratory` wrote.

    Returns
    -------
    Laboratory

    Raises
    ------
    AttributionLabError
        If a file is missing or does not hold what it should.
    """
    from safetensors.torch import load

    files = files_in(Path(lab))
    with in_one_line(lambda error: f"{NETWORK} or {WEIGHTS} is damaged: {format_error(error)}"):
        tensors = load(files[WEIGHTS])
        layers = archives.json_document(files[NETWORK], NETWORK)["layers"]
        model = nn.Sequential(*(_module(layer, tensors) for layer in layers)).eval()
    return Laboratory(
        spec_in(files),
        model,
        torch.from_numpy(archives.array_of(files[IMAGES], IMAGES).astype(np.float32)),
        torch.from_numpy(archives.array_of(files[CHOSEN], CHOSEN).astype(bool)),
    )


def _module(layer: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> nn.Module:
    state = {name: tensors[layer[name]] for name in ("weight", "bias") if layer.get(name)}
    if not state:
        return KINDS[layer["kind"]]()
    outputs, inputs = state["weight"].shape[:2]
    sizes = [layer[each] for each in ("kernel", "stride", "padding") if each in layer]
    options = {"bias": "bias" in state, "device": "meta"}
    module = KINDS[layer["kind"]](inputs, outputs, *sizes, **options)
    module.load_state_dict(state, assign=True)
    return module


def files_in(path: Path, names: tuple[str, ...] = LAB_FILES) -> dict[str, bytes]:
    """The files of a laboratory, or key, by name; nothing is known yet about what they hold."""
    files, _ = archives.zip_members(
        archives.file_bytes(path, LARGEST_LAB), names, str(path), LARGEST_LAB
    )
    missing = [name for name in names if name not in files]
    if missing:
        what = "laboratory" if names == LAB_FILES else "key"
        raise AttributionLabError(
            f"{str(path)!r} lacks {', '.join(missing)}: pass a {what} that attributionlab seal wrote"
        )
    return files


def spec_in(files: Mapping[str, bytes]) -> dict[str, Any]:
    """What lab.json holds."""
    spec = archives.json_document(files[LAB], LAB)
    if (schema := spec.get("schema")) not in SCHEMAS:
        raise AttributionLabError(
            f"{LAB} has the schema {cut(repr(schema), 40)}, but this version reads "
            f"{' and '.join(map(str, SCHEMAS))}: install the version that sealed it"
        )
    return spec


def open_sealed(lab: str | Path, key: str | Path) -> Truths:
    """The answers of a laboratory, if no file of the two is missing or was changed, and they belong
    together.
    """
    files, sealed = files_in(Path(lab)), files_in(Path(key), KEY_FILES)
    try:
        nonce = bytes.fromhex(sealed[NONCE].decode("ascii").strip())
        stated = files[COMMITMENT].decode("ascii").strip()
    except ValueError as error:
        raise AttributionLabError(f"{COMMITMENT} or {NONCE} is not a number: seal again") from error
    if len(nonce) != NONCE_BYTES or not hmac.compare_digest(
        commitment(nonce, sealed[ANSWERS]), stated
    ):
        raise AttributionLabError(
            f"{str(key)!r} does not match the commitment of {str(lab)!r}: one of them was changed, or "
            "belongs to another: use the two files as they were sealed"
        )
    # From here on the answers are those that were committed to.
    document = archives.json_document(sealed[ANSWERS], ANSWERS)
    digests = {**document["lab"], TRUTH: document["truth"]}
    held = {**files, TRUTH: sealed[TRUTH]}
    changed = [name for name, digest in digests.items() if _digest(held[name]) != digest]
    if changed:
        raise AttributionLabError(
            f"{', '.join(changed)} of {str(lab)!r} or {str(key)!r} changed after sealing: use the two "
            "files as they were sealed"
        )
    spec, answers = spec_in(files), document["answers"]
    images = archives.array_of(files[IMAGES], IMAGES)

    def of(names: Iterable[str]) -> Tensor:
        colors = [np.array(spec["colors"][name])[:, None, None] for name in names]
        equal = [(images == color).all(1, keepdims=True) for color in colors]
        return torch.from_numpy(np.any(equal, 0))

    signed = torch.from_numpy(archives.array_of(sealed[TRUTH], TRUTH).copy())
    counted = {part.partition("@")[0] for part in answers["parts"]}
    return Truths(answers, signed, of(spec["colors"]), of(counted), spec)
