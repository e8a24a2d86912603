"""An isolated process for a user's code: requests are bytes, answers are JSON and bytes.

Answers are never unpickled, and an error says how the process ended if it ends early. This module
imports nothing large, because the new process imports it too.
"""

import ctypes
import json
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO, NamedTuple

from attributionlab.base.errors import AttributionLabError

LESS = "take fewer or smaller images"
CAUSES = {
    "SIGKILL": f"killed, perhaps because memory ran out: {LESS} or fewer --jobs",
    "SIGSEGV": "a segmentation fault in compiled code: run it under python -X faulthandler",
    "SIGABRT": "compiled code aborted: run it under python -X faulthandler",
}
BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from attributionlab.base.processes import serve; serve(sys.argv[2], int(sys.argv[3]))"
)
"""What the new process runs. It finds modules in the same places; `__main__` is not run again."""
SIZES = struct.Struct("<QQQ")
"""Begins an answer: the number of its request, and the sizes of its head and its body in bytes."""
LONGEST_HEAD = 2**20
"""Bytes."""
TICK = 0.1
"""Seconds between checks whether the process is still running."""
LINGER = 1.0
"""Seconds that a process may take to end after its input is closed."""
PR_SET_PDEATHSIG = 1
MALLOPT = {-1: 2**29, -3: 2**28}
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc, in bytes."""


class Answer(NamedTuple):
    """What a process answered. A user's code may have forged it, so the reader checks it."""

    head: Mapping[str, Any]
    body: bytearray


class Ended(AttributionLabError):
    """A process ended, or broke its pipe, before it had answered."""


class Process:
    """A new process, which answers requests one after the other.

    It is started anew, not forked, so it has nothing of the memory of this process. What it prints goes
    to standard error. It has its own session, so that Ctrl-C and signals to one group of processes do
    not reach the other. It ends when this process ends.

    `answer`: ``module:function`` of this package: (request as bytes) -> (head, parts of the body).
    """

    def __init__(self, answer: str) -> None:
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        self._child = subprocess.Popen(
            [
                *(sys.executable, *flags, "-P", "-c", BEGIN),
                *(json.dumps(sys.path), answer, str(os.getpid())),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._answers: queue.Queue[tuple[int, bytearray, bytearray] | None] = queue.Queue(1)
        self._number, self._most, self._over = 0, 0, False
        self._reader = threading.Thread(target=self._read, name="answers", daemon=True)
        self._reader.start()

    def ask(self, request: bytes, most: int, seconds: float | None = None) -> Answer:
        """The answer to a request.

        `request`: what `answer` is called with. `most`: bytes that the answer's body may have.
        `seconds`: how long it may take; without it, for ever.

        Raises `Ended` if the process has ended, answers what cannot be read, or takes longer; then it
        is ended.
        """
        self._number += 1
        self._most = most
        try:
            with suppress(BrokenPipeError):  # what ended it is seen below
                _write(self._stdin, struct.pack("<Q", len(request)), request)
            return self._answer(float("inf") if seconds is None else time.monotonic() + seconds)
        except BaseException:  # Ctrl-C too: it would answer what nobody waits for
            self.end()
            raise

    def _answer(self, deadline: float) -> Answer:
        looks = 0
        while True:
            try:
                found = self._answers.get(timeout=TICK)
                break
            except queue.Empty:
                # A process that it has started may hold its pipe open.
                looks += self._child.poll() is not None
                if looks > 1:
                    found = None
                    break
                if time.monotonic() > deadline:
                    raise Ended("its process did not answer in time") from None
        if found is None:
            raise Ended(self._how_it_ended())
        number, head, body = found
        try:
            told = json.loads(head)
        except (ValueError, RecursionError):
            told = None
        if number != self._number or not isinstance(told, dict):
            raise Ended(
                "its process wrote into the result pipe: let the code use only files that it opened"
            )
        return Answer(told, body)

    def _how_it_ended(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            return f"its process ended before it answered ({how_ended(self._child.wait(LINGER))}"
        return "its process closed the result pipe: let the code close only files that it opened"

    @property
    def _stdin(self) -> BinaryIO:
        assert self._child.stdin is not None
        return self._child.stdin  # type: ignore[return-value]

    def _read(self) -> None:
        """In a thread: what the process writes, until it ends."""
        stream: Any = self._child.stdout
        try:
            while not self._over:
                number, head, body = SIZES.unpack(_exactly(stream, SIZES.size))
                if head > LONGEST_HEAD or body > self._most:
                    break
                self._answers.put((number, _exactly(stream, head), _exactly(stream, body)))
        except (EOFError, OSError, ValueError):
            pass
        self._answers.put(None)

    def end(self) -> None:
        """End the process, and what it has started; it may run what it has for its end."""
        self._over = True
        with suppress(OSError):
            self._stdin.close()
        until = time.monotonic() + LINGER
        while self._reader.is_alive() and time.monotonic() < until:
            with suppress(queue.Empty):  # room for what the thread still has
                self._answers.get(timeout=TICK / 10)
            self._reader.join(TICK / 10)
        if self._reader.is_alive() or self._child.returncode is None:
            with suppress(OSError):
                if hasattr(os, "killpg"):
                    os.killpg(self._child.pid, signal.SIGKILL)
                else:
                    self._child.kill()
        self._child.wait()
        while self._reader.is_alive():
            with suppress(queue.Empty):
                self._answers.get(timeout=TICK / 10)
            self._reader.join(TICK / 10)
        assert self._child.stdout is not None
        self._child.stdout.close()


def how_ended(status: int) -> str:
    """The rest of a message "... (": how a process ended too early, ")", and the remedy.

    `status`: its exit status; if negative, minus the number of the signal that ended it.
    """
    if status >= 0:
        return (
            f"exit status {status}): let the code return or raise, without os._exit or similar, and "
            "close only files that it opened"
        )
    try:
        name = signal.Signals(-status).name
    except ValueError:  # such as a real-time signal
        name = str(-status)
    return f"signal {name}): {CAUSES.get(name, 'find out what sent it')}"


def end_with(parent: int) -> bool:
    """On Linux, let the kernel end this process with its parent. Returns whether the parent lives."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.name != "posix" or os.getppid() == parent


def keep_freed_memory() -> None:
    """Have glibc keep up to 512 MiB of what this process frees.

    By default, each large tensor comes from the system, zeroed page by page: a third of the processor
    time of a test.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for option, most in MALLOPT.items():
            mallopt(option, most)


def serve(answer: str, parent: int) -> None:
    """In the new process: answer requests until there are no more, or the parent is gone."""
    if not end_with(parent):
        os._exit(1)
    keep_freed_memory()
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)  # what the user's code prints is no answer
    module, _, name = answer.partition(":")
    called: Callable[[bytes], tuple[Mapping[str, Any], Sequence[Any]]]
    called = getattr(import_module(module), name)
    own, number = os.getpid(), 0
    while True:
        try:
            (size,) = struct.unpack("<Q", _exactly(requests, 8))
        except EOFError:
            return
        number += 1
        told, parts = called(bytes(_exactly(requests, size)))
        if os.getpid() != own:  # a copy that the user's code forked
            os._exit(1)
        head = json.dumps(told).encode()
        body = sum(memoryview(part).nbytes for part in parts)
        _write(answers, SIZES.pack(number, len(head), body), head, *parts)


def _exactly(stream: Any, size: int) -> bytearray:
    """So many bytes of a stream; `EOFError` if it ends before."""
    found = bytearray(size)
    view = memoryview(found)
    while view:
        count = stream.readinto(view)
        if not count:
            raise EOFError
        view = view[count:]
    return found


def _write(stream: BinaryIO, *parts: Any) -> None:
    for part in parts:
        stream.write(part)
    stream.flush()
