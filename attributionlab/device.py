"""Where computations run, and exact arithmetic there."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch

from attributionlab.errors import AttributionLabError

_user_chose: ContextVar[bool] = ContextVar("_user_chose", default=False)
"""Whether the caller of the laboratory has set a default device."""
_users_dtype: ContextVar[torch.dtype | None] = ContextVar("_users_dtype", default=None)
"""The default type that the caller of the laboratory has set; None outside of its calls."""


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
def exact_arithmetic() -> Iterator[None]:
    """Let float32 products keep all their bits inside, also where torch was allowed to round them.

    TF32 keeps 10 bits of a factor where exact counts need 24, and cuDNN may use it by default: counts
    are then off by up to 2. All calls of the laboratory are in this context; a forward pass of your own
    on CUDA needs it to be exact. What was set before is restored.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> images, labels = env.batch(2)
    >>> with al.exact_arithmetic():
    ...     logits = env.model(images.to(env.device))
    """
    kinds, precisions = _kinds(), [kind.fp32_precision for kind in _kinds()]
    older = _older_names()
    if older is None:
        for kind in kinds:
            kind.fp32_precision = "ieee"
    else:
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        if older is not None:
            torch.set_float32_matmul_precision(older[0])
            torch.backends.cudnn.allow_tf32 = older[1]
        for kind, precision in zip(kinds, precisions, strict=True):
            kind.fp32_precision = precision


def rounds_products() -> bool:
    """Whether torch may round the factors of float32 products on CUDA."""
    older = _older_names()
    if older is None:
        return any(kind.fp32_precision == "tf32" for kind in _kinds())
    return older != ("highest", False)


def _older_names() -> tuple[str, bool] | None:
    """What is set for products and for cuDNN; None where the names of torch 2.9 set it, after which
    torch refuses to read the older ones.
    """
    try:
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return None


def _kinds() -> list[Any]:
    """What has a precision of its own, from torch 2.9 on."""
    backends: Any = torch.backends
    if not hasattr(backends.cuda.matmul, "fp32_precision"):
        return []
    libraries = backends.cudnn, backends.mkldnn
    return [
        backends.cuda.matmul,
        *(each for of in libraries for each in (of.conv, of.rnn)),
        backends.mkldnn.matmul,
    ]


@contextmanager
def own_arithmetic() -> Iterator[None]:
    """Compute exactly, in float32 on the CPU where nothing else is named, whatever the defaults are."""
    with exact_arithmetic(), _default_dtype(torch.float32):
        # A default device costs time with every call of torch: none is set without need.
        if torch.empty(0).device.type == "cpu":
            yield
            return
        token = _user_chose.set(True)
        try:
            with torch.device("cpu"):
                yield
        finally:
            _user_chose.reset(token)


@contextmanager
def users_default(device: torch.device) -> Iterator[None]:
    """Inside `own_arithmetic`: give a user's code its default type again, and make the device of the
    inputs the default one, if the user has set a default device.
    """
    with _default_dtype(_users_dtype.get() or torch.get_default_dtype()):
        if not _user_chose.get():
            yield
            return
        with torch.device(device):
            yield


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Set another default type inside, and remember the one before as the user's."""
    before = torch.get_default_dtype()
    token = _users_dtype.set(before)
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
        _users_dtype.reset(token)


@contextmanager
def plain_torch() -> Iterator[None]:
    """float32 on the CPU whatever the defaults are, and the global random state left alone.

    Layers draw initial weights as they are made, which ours then replace.
    """
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    # As in `own_arithmetic`: no default device is set without need.
    cpu = nullcontext() if torch.empty(0).device.type == "cpu" else torch.device("cpu")
    try:
        with torch.random.fork_rng(devices=[]), cpu:
            yield
    finally:
        torch.set_default_dtype(dtype)
