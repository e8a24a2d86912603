"""Where computations run, and exact arithmetic there."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from attributionlab.errors import AttributionLabError

__all__ = ["as_device", "without_tf32"]


def as_device(name: str | torch.device) -> torch.device:
    """The device of that name, if this machine has it."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise AttributionLabError(f"device is {name!r}: take 'cpu', 'cuda' or 'cuda:0'") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise AttributionLabError(
            f"device is {str(device)!r}, but no CUDA device is there: use 'cpu'"
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
