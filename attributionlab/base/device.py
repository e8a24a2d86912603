"""Where computations run, and exact arithmetic there."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from importlib import import_module
from typing import Any

import threadpoolctl
import torch

from attributionlab.base.errors import AttributionLabError

_user_chose: ContextVar[bool] = ContextVar("_user_chose", default=False)
"""Whether the caller of the laboratory has set a default device."""
_users_dtype: ContextVar[torch.dtype | None] = ContextVar("_users_dtype", default=None)
"""The default type that the caller of the laboratory has set; None outside of its calls."""


def as_device(name: str | torch.device) -> torch.device:
    """The device of that name, if this machine has it."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError, ValueError) as error:
        raise AttributionLabError(f"device is {name!r}: take 'cpu', 'cuda' or 'cuda:0'") from error
    if device.type not in ("cpu", "cuda"):
        raise AttributionLabError(f"device is {name!r}: take 'cpu', 'cuda' or 'cuda:0'")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise AttributionLabError(
            f"device is {str(device)!r}, but there is no such CUDA device: use 'cpu'"
        )
    return device


@contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Compute float32 products exactly inside the block, even on devices where torch may round them.

    TF32 keeps 10 bits of a factor, but exact counts need 24. cuDNN may use it by default, and counts
    are then off by up to 2. All calls of the laboratory use this context; your own forward passes on
    CUDA need it to be exact. Previous settings are restored.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> images, labels = env.batch(2)
    >>> with al.exact_arithmetic():
    ...     logits = env.model(images.to(env.device))
    """
    with _precision.changed(_no_rounding):
        yield


class _OfProcess:
    """A setting of the whole process, which overlapping calls of several threads change: the first to
    begin notes what was set, and the last to end puts that back. No call waits for another.
    """

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
        self.read, self.write = read, write
        self.calls, self.before = 0, None
        self.lock = threading.Lock()

    @contextmanager
    def changed(self, change: Callable[[], None]) -> Iterator[Any]:
        """Change it inside; yields what was set before."""
        with self.lock:
            if not self.calls:
                self.before = self.read()
            self.calls += 1
            change()
        try:
            yield self.before
        finally:
            with self.lock:
                self.calls -= 1
                if not self.calls:
                    self.write(self.before)


def _precisions() -> tuple[list[str], tuple[str, bool] | None]:
    return [kind.fp32_precision for kind in _kinds()], _older_names()


def _set_precisions(told: tuple[list[str], tuple[str, bool] | None]) -> None:
    precisions, older = told
    if older is not None:
        torch.set_float32_matmul_precision(older[0])
        torch.backends.cudnn.allow_tf32 = older[1]
    for kind, precision in zip(_kinds(), precisions, strict=True):
        kind.fp32_precision = precision


def _no_rounding() -> None:
    if _older_names() is None:
        for kind in _kinds():
            kind.fp32_precision = "ieee"
    else:
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False


_precision = _OfProcess(_precisions, _set_precisions)
_dtype = _OfProcess(torch.get_default_dtype, torch.set_default_dtype)


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
    with exact_arithmetic(), _float32():
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


def users_choice() -> tuple[torch.dtype | None, bool]:
    """Inside `own_arithmetic`: the default type of the caller, and whether a default device is set."""
    return _users_dtype.get(), _user_chose.get()


@contextmanager
def chosen_elsewhere(choice: tuple[torch.dtype | None, bool]) -> Iterator[None]:
    """`own_arithmetic` as in the process whose `users_choice` that is."""
    dtype, chose = choice
    of_dtype, of_device = _users_dtype.set(dtype), _user_chose.set(chose)
    try:
        with (
            exact_arithmetic(),
            _default_dtype(torch.float32),
            torch.device("cpu") if chose else nullcontext(),
        ):
            yield
    finally:
        _users_dtype.reset(of_dtype)
        _user_chose.reset(of_device)


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
def _float32() -> Iterator[None]:
    """The default type inside, whatever the user's is, which the first call of a thread remembers."""
    if _users_dtype.get() is not None:
        with _default_dtype(torch.float32):
            yield
        return
    with _dtype.changed(lambda: torch.set_default_dtype(torch.float32)) as users:
        token = _users_dtype.set(users)
        try:
            yield
        finally:
            _users_dtype.reset(token)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Set another default type inside."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def plain_torch() -> Iterator[None]:
    """float32 on the CPU whatever the defaults are, and the global random state left alone.

    Layers draw initial weights as they are made, which ours then replace.
    """
    # As in `own_arithmetic`: no default device is set without need.
    cpu = nullcontext() if torch.empty(0).device.type == "cpu" else torch.device("cpu")
    with _float32(), torch.random.fork_rng(devices=[]), cpu:
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch and NumPy add in the order of one thread, whatever the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _pools(len(sys.modules)).limit(limits=1):
            yield
    finally:
        torch.set_num_threads(threads)


@lru_cache(maxsize=1)
def _pools(modules: int) -> threadpoolctl.ThreadpoolController:
    """The libraries with threads of their own; looked for anew when more modules are there.

    A library that a cell loads is limited from the next cell on: SciPy's, the one that methods use, is
    loaded first.
    """
    import_module("scipy.linalg")
    return threadpoolctl.ThreadpoolController()
