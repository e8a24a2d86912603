"""Cells for tests of the store: work at module level, which workers import."""

import os
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attributionlab.base import AttributionLabError, AttributionWarning, CostWarning
from attributionlab.runs import Cell

TESTS = Path(__file__).parent


def cell(name: str, work: Any, *arguments: Any, **inputs: Any) -> Cell:
    return Cell("test", {"name": name}, inputs, partial(work, *arguments))


def number(value: float, device: str | None) -> dict[str, Any]:
    return {"value": value, "device": device}


def numbers(count: int, bytes_each: int = 4096) -> list[Cell]:
    return [cell(f"{place:04}", filled, place, bytes_each) for place in range(count)]


def filled(seed: int, size: int, device: str | None) -> dict[str, Any]:
    """A record of about so many bytes."""
    return {"seed": seed, "map": np.random.default_rng(seed).integers(0, 256, size, np.uint8)}


def slow(seconds: float, value: Any, device: str | None) -> Any:
    time.sleep(seconds)
    return value


def refuse(text: str, device: str | None) -> None:
    raise AttributionLabError(text)


class Unloadable:
    """What can be sent to another process, and not be received there."""

    def __setstate__(self, state: object) -> None:
        raise ValueError("needs a licence\nhere")

    def __getstate__(self) -> dict[str, int]:
        return {"a": 1}


def warn(device: str | None) -> None:
    warnings.warn("it will take \x1b long", CostWarning, stacklevel=2)
    warnings.warn("it was repaired", AttributionWarning, stacklevel=2)


def fail(text: str, device: str | None) -> None:
    raise KeyError(text)


def leave(device: str | None) -> None:
    sys.exit(3)


def die(device: str | None) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fork(path: str, device: str | None) -> None:
    """A child that never ends, as after a fork beside threads that hold locks; its number is kept."""
    child = os.fork()
    if not child:
        time.sleep(1000)
    Path(path).write_text(str(child))
    os.waitpid(child, 0)


def die_once(flag: str, value: Any, device: str | None) -> Any:
    """The first process dies, the next does not."""
    if not os.path.exists(flag):
        Path(flag).touch()
        die(device)
    return value


def occupy(gib: float, by_torch: bool, device: str | None) -> int:
    size = int(gib * 2**30)
    return len(torch.ones(size, dtype=torch.uint8) if by_torch else np.ones(size, np.uint8))


def process(seconds: float, device: str | None) -> tuple[int, str | None]:
    time.sleep(seconds)
    return os.getpid(), device


def sums(seed: int, device: str | None) -> dict[str, Any]:
    """Sums that several threads would add in another order: torch's, BLAS'."""
    generator = torch.Generator().manual_seed(seed)
    large = torch.rand(600, 700, generator=generator)
    array = large.double().numpy()
    return {"torch": large.sum(), "product": large @ large.T, "blas": array @ array.T}


def page_faults(device: str | None) -> int:
    """How many pages come from the system when 64 MiB are written for the second time.

    Bytes, no tensor: those are aligned, and glibc does not always put one where an equal one was.
    """
    import resource

    faults = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        b"x" * 2**26
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return faults[1]


def run_python(
    code: str, *arguments: str, env: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """A process of its own, with the tests' modules."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        text=True, capture_output=True, timeout=120, env=env or environment(), **options,
    )  # fmt: skip


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **more}


def measured(seed: int, device: str | None) -> dict[str, Any]:
    """A short cell whose arrays lie in the database for even seeds, beside it for odd ones."""
    time.sleep(0.1)
    return filled(seed, 500 if seed % 2 == 0 else 40_000, device)


def all_measured(count: int) -> list[Cell]:
    return [cell(f"{place:03}", measured, place) for place in range(count)]
