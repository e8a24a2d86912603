"""Search for the key, and for the nonce, of a sealed laboratory, as a cheating student would.

- keys: small integers as keys, in both byte orders. The cheapest test that rules a key out draws no
  more of the colors in lab.json than shows that they are others: no rule, network or image is made.
- nonces: who knows the right answers to the last byte, and lacks the nonce alone, tries the dictionary
  of `nonces`: none, zeros, what can be made of the key and the answers, small integers in both orders.

Each search is also run on a laboratory whose key, or nonce, is one of those tried: it must be found.

    python benchmarks/sealed_search.py [--tries 1000000]
"""

import argparse
import hashlib
import json
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from operator import sub
from pathlib import Path
from typing import Any

import numpy as np

from attributionlab.teaching import seal_laboratory
from attributionlab.teaching.sealed.laboratory import (
    ANSWERS,
    COMMITMENT,
    KEY_BYTES,
    LAB,
    NONCE_BYTES,
    commitment,
)
from attributionlab.teaching.sealed.world import GRAYS, LEAST_DISTANCE, derived, drawn_colors


def integers(tries: int, length: int) -> Iterator[bytes]:
    """Small integers in so many bytes, in both orders."""
    for number in range(tries):
        yield number.to_bytes(length, "big")
        yield number.to_bytes(length, "little")


def nonces(tries: int, key: bytes, answers: bytes) -> Iterator[bytes]:
    """What a careless program might have taken for a nonce."""
    for known in (b"", key, answers):
        yield known
        yield hashlib.sha256(known).digest()
        yield hashlib.sha256(known + b"nonce").digest()
    yield key + key
    yield bytes([255]) * NONCE_BYTES
    yield from integers(tries, NONCE_BYTES)


def found_key(spec: dict[str, Any], keys: Iterable[bytes]) -> bytes | None:
    """The first key that names the colors of a laboratory."""
    colors = {name: tuple(color) for name, color in spec["colors"].items()}
    shown = {*colors.values(), *map(tuple, spec["baselines"].values())}
    tosses = [GRAYS[gray] in colors.values() for gray in ("black", "white")]
    for key in keys:
        rng = np.random.default_rng(derived(key, "colors"))
        if [rng.random() < 0.5, rng.random() < 0.5] != tosses:
            continue
        first = tuple(rng.integers(0, 256, 3).tolist())
        # One that is not shown may have been too close to a gray: then all are drawn.
        is_drawn = all(
            max(map(abs, map(sub, first, gray))) >= LEAST_DISTANCE for gray in GRAYS.values()
        )
        if (first in shown or not is_drawn) and drawn_colors(key)[0] == colors:
            return key
    return None


def found_nonce(stated: str, answers: bytes, tried: Iterable[bytes]) -> bytes | None:
    """The first nonce that opens a commitment to known answers."""
    return next((nonce for nonce in tried if commitment(nonce, answers) == stated), None)


def main() -> None:
    """Search, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10**6, help="integers, in both byte orders")
    tries = parser.parse_args().tries
    weak = tries - 1
    cases = {
        "random key and nonce": (None, None),
        f"key and nonce {weak}": (
            weak.to_bytes(KEY_BYTES, "big"),
            weak.to_bytes(NONCE_BYTES, "big"),
        ),
    }
    for name, (key, nonce) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            lab, sealed = Path(folder) / "lab.zip", Path(folder) / "key.zip"
            seal_laboratory(lab, sealed, "easy", 24, 2, key=key, nonce=nonce)
            with zipfile.ZipFile(lab) as archive:
                spec = json.loads(archive.read(LAB))
                stated = archive.read(COMMITMENT).decode().strip()
            with zipfile.ZipFile(sealed) as archive:
                answers = archive.read(ANSWERS)
        own = bytes.fromhex(json.loads(answers)["key"])
        start = time.perf_counter()
        by_keys = found_key(spec, integers(tries, KEY_BYTES))
        seconds = time.perf_counter() - start
        print(f"{name}: key {by_keys!r} after at most {2 * tries:,} keys, {seconds:.0f} s")
        start = time.perf_counter()
        by_nonces = found_nonce(stated, answers, nonces(tries, own, answers))
        seconds = time.perf_counter() - start
        print(f"{name}: nonce {by_nonces!r} after at most {2 * tries + 11:,}, {seconds:.0f} s")


if __name__ == "__main__":
    main()
