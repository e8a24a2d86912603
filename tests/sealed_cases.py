"""Sealed laboratories, and submissions for them."""

import io
import json
import zipfile
from types import SimpleNamespace

import numpy as np

from attributionlab.teaching import seal_laboratory

KEY, NONCE = b"tests, number 08", bytes(range(32))
SIDE, IMAGES = 24, 4


TEXTS = {
    "irrelevant": "Color a, anywhere: the output stayed 7.",
    "trust": "None.",
    "assumed": "That places are what lab.json says.",
}


def sealed(folder, key=KEY, nonce=NONCE, difficulty="easy"):
    """Paths of a laboratory and its key, and what is in the key."""
    lab, answers = folder / "lab.zip", folder / "key.zip"
    seal_laboratory(lab, answers, difficulty, SIDE, IMAGES, key=key, nonce=nonce)
    document = json.loads(zipfile.ZipFile(answers).read("answers.json"))
    right = {**document["answers"], "free": TEXTS}
    named = SimpleNamespace(lab=lab, key=answers, drawn_by=(key, difficulty))
    named.document, named.right = document, right
    return named


def npz(**arrays):
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return packed.getvalue()


def hand_in(folder, maps=None, answers=None):
    """A folder as a student hands it in: arrays or bytes, a document or bytes."""
    folder.mkdir(parents=True)
    if maps is not None:
        content = maps if isinstance(maps, bytes) else npz(maps=maps)
        (folder / "maps.npz").write_bytes(content)
    if answers is not None:
        content = answers if isinstance(answers, bytes) else json.dumps(answers).encode()
        (folder / "answers.json").write_bytes(content)
    return folder
