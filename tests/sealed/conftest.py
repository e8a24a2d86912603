"""A sealed laboratory that tests share, and submissions for it."""

import io
import json
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from attributionlab.sealed.seal import open_sealed, seal_laboratory

KEY, NONCE = bytes(range(16)), bytes(range(32))
SIDE, IMAGES = 24, 4


def sealed(folder, key=KEY, nonce=NONCE):
    """Paths of a laboratory and its key, and what is in the key."""
    lab, answers = folder / "lab.zip", folder / "key.zip"
    seal_laboratory(lab, answers, "easy", SIDE, IMAGES, key=key, nonce=nonce)
    document = json.loads(zipfile.ZipFile(answers).read("answers.json"))
    return SimpleNamespace(lab=lab, key=answers, document=document, right=document["answers"])


@pytest.fixture(scope="package")
def laboratory(tmp_path_factory):
    made = sealed(tmp_path_factory.mktemp("sealed"))
    made.truths = open_sealed(made.lab, made.key).truths
    made.signed = made.truths.signed.numpy().astype(np.float64)
    return made


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
