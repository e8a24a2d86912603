"""A process that watches over a command, so that no end of strangers' code counts as a verdict.

The command runs in a child process. Its last act, when all output and files are written, is to send
its exit status through a pipe, behind a secret that was drawn for it. Whatever else ends the child
(`os._exit` in a method, a segmentation fault, a kill for want of memory) is reported in one line, with
status 70.
"""

import ctypes
import hmac
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from attributionlab.base import (
    LESS,
    AttributionLabError,
    cut,
    end_with,
    how_ended,
    keep_freed_memory,
    printable,
    progress,
)

ENDED = 70
"""Exit status of a command that crashed, or ended in another way before it had finished."""
SILENCE = 15.0
"""Seconds without a line of progress until there is one, once there was one (`progress.FIRST_LINE` at
first). Work that holds Python's lock silences the threads of its own process."""
TICK = 0.5
"""Seconds between looks at clock and memory."""
LINGER = 30
"""Seconds that a command may take to leave after its last act, such as for threads of strangers."""
IN_ORDER = 5.0
"""Seconds that a command has to write what is done when its time is over."""
PATIENT = {getattr(signal, name, 0) for name in ("SIGINT", "SIGTERM", "SIGHUP")}
"""Signals that end a command in order; it answers them itself."""
WATCHED = PATIENT | {getattr(signal, name, 0) for name in ("SIGCHLD", "SIGALRM")}
"""What wakes the process that watches: those, the end of the child, and its clock."""


class Board(ctypes.Structure):
    """Memory that both processes see, and that outlives the child.

    - `began`: when the command did.
    - `seconds`, `gib`: its limits of time, and of memory of all its processes.
    - `told`: when it last told its progress; 0 if never, infinite while a terminal shows it.
    - `text`: what it works on, in UTF-8; empty where that is not known.
    """

    ROOM = 4000
    _fields_ = (
        *((name, ctypes.c_double) for name in ("began", "seconds", "gib", "told")),
        ("text", ctypes.c_char * ROOM),
    )
    began: float
    seconds: float
    gib: float
    told: float
    text: bytes

    @classmethod
    def shared(cls) -> "Board":
        """One that processes share which are forked from now on, without limits."""
        board = cls.from_buffer(mmap.mmap(-1, ctypes.sizeof(cls)))
        board.began, board.seconds, board.gib = time.monotonic(), float("inf"), float("inf")
        return board

    def tell(self, moment: float) -> None:
        """Note that progress was told at this moment of `time.monotonic`."""
        self.told = moment

    @property
    def doing(self) -> str:
        """`text`."""
        return self.text.decode("utf-8", "replace")

    @doing.setter
    def doing(self, text: str) -> None:
        self.text = cut(text).replace("\0", " ").encode("utf-8", "replace")[: self.ROOM - 1]


board: Board | None = None
"""Shared with the process that watches over this one, if one does."""


def limit(option: str, value: float | None, **limits: float) -> None:
    """Let the process that watches keep a limit that an option gives.

    Raises
    ------
    AttributionLabError
        If it is no number above 0, or nothing watches.
    """
    if value is None:
        return
    if not 0 < value < float("inf"):
        raise AttributionLabError(f"{option} is {value:g}: take a number above 0")
    if board is None:
        raise AttributionLabError(
            f"{option} is {value:g}, but no other process supervises this one: leave it out, or "
            "run the command attributionlab on Linux or macOS"
        )
    for name, each in limits.items():
        setattr(board, name, each)


def supervised(command: Callable[[], int], arguments: Sequence[str]) -> int:
    """Run a command in a child process; its exit status if it finished, or else 70.

    Where there is no `os.fork`, as on Windows, and beside other threads, which a fork would lose, the
    command runs in this process.

    `command` returns its exit status. `arguments`: how it was called, for messages.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return command()
    shared, secret = Board.shared(), os.urandom(16)
    reading, writing = os.pipe()
    # A disposition of its own: where SIGCHLD is ignored, children leave no status.
    handler = signal.signal(signal.SIGCHLD, lambda *_: None)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    watcher = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.signal(signal.SIGCHLD, handler or signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return _finish(command, shared, watcher, writing, secret)
    os.close(writing)
    status, broken = _wait(child, shared, " ".join(arguments[:1]))
    os.set_blocking(reading, False)
    with suppress(BlockingIOError):
        message = os.read(reading, 2 * len(secret))
        if not broken and hmac.compare_digest(message[:-1], secret):
            return message[-1]
    number = -status if status < 0 else 0
    if number in PATIENT and not broken:  # it ended as it was asked to; so does this process
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(watcher, number)
    told = f"the command ended before it finished ({how_ended(status)}{_at(shared)}"
    _say(f"attributionlab: {broken or told}; nothing it printed is a verdict")
    return ENDED


def _finish(
    command: Callable[[], int], shared: Board, watcher: int, writing: int, secret: bytes
) -> int:
    """In the child: run the command, and send its status, last of all."""
    global board
    if not end_with(watcher):  # it was killed before
        os._exit(ENDED)
    board = shared
    progress.watch(shared)
    keep_freed_memory()
    own, pipe = os.getpid(), os.fstat(writing)
    status = command()
    shared.tell(float("inf"))  # what follows is no work
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if os.getpid() != own:  # a copy that strangers' code made of this process
        return ENDED
    with suppress(OSError):
        if not os.path.samestat(os.fstat(writing), pipe):
            return ENDED  # it was closed, and is a file of others now
        os.write(writing, secret + bytes([status & 0xFF]))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LINGER)
    return status


def _wait(child: int, shared: Board, name: str) -> tuple[int, str]:
    """Wait for the end of the child, pass signals on, tell its progress, keep its limits.

    Result: its exit status, or minus the number of the signal that ended it; and which limit it broke.
    """
    start, broken, deadline = shared.began, "", 0.0
    signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            signal.setitimer(signal.ITIMER_REAL, 0)
            return os.waitstatus_to_exitcode(status), broken
        number, from_terminal = _signal()
        now = time.monotonic()
        if number in PATIENT:
            if not from_terminal or os.getpgid(child) != os.getpgrp():
                os.kill(child, number)
        elif number != signal.SIGALRM:
            continue
        elif broken:
            if now > deadline:
                _end_all(child)
        elif now - start > shared.seconds:
            allowed = f"{shared.seconds:g} s of --time-limit"
            broken = f"stopped after {allowed}: raise the limit, or {LESS}{_at(shared)}"
            deadline = now + IN_ORDER
            os.kill(child, signal.SIGTERM)
        elif shared.gib < float("inf") and (used := _gib(child)) > shared.gib:
            broken = (
                f"its processes have {used:.2g} GiB, more than {shared.gib:g} of --memory-limit: raise "
                f"it, or {LESS} or fewer --jobs{_at(shared)}"
            )
            _end_all(child)
        elif now - max(shared.told, start) >= (SILENCE if shared.told else progress.FIRST_LINE):
            doing = shared.doing or ("at work" if shared.told else "starting")
            shared.tell(now)
            _say(f"{name}: {doing}, {now - start:.0f} s")


def _signal() -> tuple[int, bool]:
    """The next signal, and whether a terminal sent it, which sends it to the child as well."""
    if hasattr(signal, "sigwaitinfo"):
        received = signal.sigwaitinfo(WATCHED)
        return received.si_signo, received.si_code > 0
    number = signal.sigwait(WATCHED)  # of macOS, which does not say who sent it
    with suppress(OSError):
        return number, number != signal.SIGTERM and os.tcgetpgrp(2) == os.getpgrp()
    return number, False


def _family(child: int) -> list[Any]:
    """The child's process and all that come from it."""
    import psutil

    try:
        process = psutil.Process(child)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _gib(child: int) -> float:
    """Memory of the child and of all that come from it."""
    import psutil

    total = 0
    for process in _family(child):
        with suppress(psutil.Error):  # it has ended
            total += process.memory_info().rss
    return total / 2**30


def _end_all(child: int) -> None:
    import psutil

    for process in _family(child):
        with suppress(psutil.Error):
            process.kill()


def _at(shared: Board) -> str:
    return f"; it was at: {shared.doing}" if shared.doing else ""


def _say(line: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(printable(line) + "\n")
        sys.stderr.flush()
