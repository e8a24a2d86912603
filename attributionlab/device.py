"""Where computations run, and exact arithmetic there."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from attributionlab.errors import AttributionLabError

__all__ = ["as_device", "plain_torch", "without_tf32"]


def as_device(name: str | torch.device) -> torch.device:
    """The device of that name, if this machine has it."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise AttributionLabError(f"device is {name!r}: take 'cpu', 'cuda' or 'cuda:0'") from error
    if device.type not in ("cpu", "cuda"):
        raise AttributionLabError(f"device is {name!r}: take 'cpu', 'cuda' or 'cuda:0'")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise AttributionLabError(
            f"device is {str(device)!r}, but no such CUDA device is there: use 'cpu'"
        )
    return device


@contextmanager
def without_tf32() -> Iterator[None]:
    """Switch TF32 off, which keeps 10 bits of a product where exact counts need 24."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


@contextmanager
def plain_torch() -> Iterator[None]:
    """float32 on the CPU whatever the defaults are, and the global random state left alone.

    Layers draw initial weights as they are made, which ours then replace.
    """
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            yield
    finally:
        torch.set_default_dtype(dtype)
