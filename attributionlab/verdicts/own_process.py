"""Strangers' code, a method or a metric, in a process of its own: neither truth nor scores are there.

The process gets a network and what the code declares, and gives back raw numbers. It is a new one, no
copy of this one, and this one never runs what it is sent: what the code patches, prints or ends is its
own. `docs/what-a-pass-proves.md` says what that excludes.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import Any

import cloudpickle
import safetensors.torch
import torch
from torch import Tensor, nn

from attributionlab.base import (
    Answer,
    AttributionLabError,
    Ended,
    Process,
    chosen_elsewhere,
    format_error,
    heard,
    load_file,
    loaded_files,
    note_opened,
    one_thread,
    opened_files,
    place_of,
    users_choice,
)

REMEDY = "or let it run in this process, by isolated=False (--no-isolation)"
MOST_OPEN = 4
"""Processes that stay open beside each other, as where several methods take turns."""
SLACK = 2**20
"""Bytes that an answer may have beyond its arrays."""
Network = tuple[nn.Module, Mapping[str, nn.Module]]
"""A network, and its layers by name."""
SWITCHES = ("benchmark", "deterministic", "enabled")


def arrays_in(answer: Answer) -> dict[str, Tensor]:
    """The arrays that a process wrote, by name: it may have written anything."""
    try:
        return safetensors.torch.load(bytes(answer.body))
    except Exception as error:  # of each kind of damage another one
        raise Ended("its process wrote no arrays that can be read: return an array") from error


class _Alone:
    """The process of one piece of code, and the network that it has."""

    def __init__(self) -> None:
        self.process = Process(f"{__name__}:answer")
        self.network: tuple[nn.Module, ...] = ()

    def ask(self, once: Mapping[str, Any], request: Any, most: int) -> Answer:
        """What it answers; what it refuses is raised. `once`: what it is to keep."""
        found = self.process.ask(_packed((once, request)), most)
        with suppress(TypeError, ValueError, AttributeError):
            note_opened(found.head["opened"], found.head["written"])
        if "refused" in found.head:
            raise AttributionLabError(str(found.head["refused"]))
        return found


_open: ContextVar[dict[str | bytes, _Alone] | None] = ContextVar("_open", default=None)
_kept: dict[str | bytes, _Alone] = {}
"""Of a process that computes cells and ends with its parent: theirs end with it."""


@contextmanager
def processes_ended() -> Iterator[None]:
    """Code keeps its process inside, from one environment to the next, and all end with the outermost
    of such blocks.
    """
    if _open.get() is not None:
        yield
        return
    token = _open.set({})
    try:
        yield
    finally:
        _end_but(0)
        _open.reset(token)


def sent_as(function: Any, name: str) -> tuple[bytes, dict[str, str]]:
    """A function as bytes, with the files in which it may stand; refuses what cannot be sent."""
    try:
        sent: bytes = cloudpickle.dumps(function)
    except Exception as error:
        raise _unsent(name, error) from error
    return sent, {each: file for each, file in loaded_files().items() if each.encode() in sent}


@contextmanager
def asked(
    sent: str | bytes,
    files: Mapping[str, str],
    request: Any,
    most: int,
    who: str,
    network: Network | None = None,
) -> Iterator[Answer]:
    """Ask the process of some code, and read its answer inside.

    Where a process ends or answers nonsense, the next request has a new one, and the error says whose
    it was.

    Parameters
    ----------
    sent, files
        The code: its reference, or what `sent_as` makes of a function.
    request
        A named tuple whose ``answer()`` runs in that process and returns the head of the answer and
        arrays by name.
    most : int
        Bytes that the arrays of the answer may have.
    who : str
        Whose error it is.
    network : tuple, optional
        A network and its layers by name, which are sent only when they are others than before.
    """
    alone, once = _alone(sent, files)
    try:
        if network is not None:
            modules = (network[0], *network[1].values())
            if list(map(id, modules)) != list(map(id, alone.network)):
                once["network"] = network[0], dict(network[1])
        found = alone.ask(once, request, most)
        if network is not None:
            alone.network = modules
        yield found
    except BaseException as error:
        if not isinstance(error, AttributionLabError) or isinstance(error, Ended):
            there = _processes().pop(sent, None)
            if there is not None:
                there.process.end()
        if isinstance(error, Ended):
            raise AttributionLabError(f"{who}: {error}, {REMEDY}") from None
        raise


def torch_state() -> dict[str, Any]:
    """What of torch's state changes results, beside what every call sets."""
    return {
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn": [getattr(torch.backends.cudnn, name) for name in SWITCHES],
        "users": users_choice(),
    }


def _processes() -> dict[str | bytes, _Alone]:
    found = _open.get()
    return _kept if found is None else found


def _end_but(newest: int) -> None:
    there = _processes()
    for key in [*there][: max(0, len(there) - newest)]:
        there.pop(key).process.end()


def _alone(sent: str | bytes, files: Mapping[str, str]) -> tuple[_Alone, dict[str, Any]]:
    """The process of some code, and what is to be sent to it if it is new."""
    there = _processes()
    if sent in there:
        there[sent] = there.pop(sent)  # the last one used
        return there[sent], {}
    _end_but(MOST_OPEN - 1 if _open.get() is not None else 0)
    try:
        alone = _Alone()
    except OSError as error:
        raise AttributionLabError(
            f"no process could be started ({error}): allow more, {REMEDY}"
        ) from error
    there[sent] = alone
    return alone, {"sent": sent, "files": files}


def _packed(value: Any) -> bytes:
    """By value, with tensors on their devices."""
    file = io.BytesIO()
    try:
        torch.save(value, file, pickle_module=cloudpickle)
    except Exception as error:
        what = "the network, or a setting,"
        raise _unsent(what, error) from error
    return file.getvalue()


def _unsent(name: str, error: BaseException) -> AttributionLabError:
    return AttributionLabError(
        f"{name} cannot be sent to an isolated process ({format_error(error)}): define it in its own "
        f"file, without objects that cannot be pickled, {REMEDY}"
    )


# ---- In the process of the code -------------------------------------------------------------------


class _Here:
    """The code of this process, and its network."""

    def __init__(self) -> None:
        self.sent: str | bytes = b""
        self.files: Mapping[str, str] = {}
        self.network: Network = nn.Identity(), {}

    @cached_property
    def function(self) -> Any:
        """What was sent, loaded."""
        assert isinstance(self.sent, bytes)
        for name in self.files.keys() - loaded_files().keys():
            load_file(Path(self.files[name]))
        try:
            return cloudpickle.loads(self.sent)
        except BaseException as error:
            raise _unsent("the function", error) from error


here = _Here()


def answer(request: bytes) -> tuple[Mapping[str, Any], Sequence[Any]]:
    """In the process of the code: describe it, or call it."""
    head: Mapping[str, Any]
    body = b""
    try:
        # It comes from the process that started this one.
        once, asks = torch.load(io.BytesIO(request), weights_only=False)
        vars(here).update(once)
        head, arrays = heard(asks.answer)
        body = safetensors.torch.save({name: plain(each) for name, each in arrays.items()})
    except AttributionLabError as error:
        head = {"refused": str(error)}
    except BaseException as error:
        text = f"{type(error).__name__} was raised in its process"
        with suppress(BaseException):
            text = f"{format_error(error)}{place_of(error)} was raised in its process"
        head = {"refused": text}
    opened, written = opened_files()
    return {**head, "opened": opened, "written": written}, [body]


@contextmanager
def as_there(torch_state: Mapping[str, Any]) -> Iterator[None]:
    """Let torch compute as in the process that asks."""
    threads = torch_state["threads"]
    if torch.are_deterministic_algorithms_enabled() != torch_state["deterministic"]:
        torch.use_deterministic_algorithms(torch_state["deterministic"])
    for name, switch in zip(SWITCHES, torch_state["cudnn"], strict=True):
        setattr(torch.backends.cudnn, name, switch)
    torch.set_num_threads(threads)
    with chosen_elsewhere(torch_state["users"]), one_thread() if threads == 1 else nullcontext():
        yield


def plain(array: Tensor) -> Tensor:
    """Its numbers alone, in memory of their own."""
    with torch._C.DisableTorchFunctionSubclass():
        found: Tensor = array.detach().cpu().as_subclass(Tensor).resolve_neg()
        return found.contiguous().clone()
