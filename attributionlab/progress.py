"""Progress on standard error: a bar on a terminal, gone when the work is done, and lines elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO, TypeVar

from attributionlab.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

Item = TypeVar("Item")

PATIENCE = 9.0
"""Seconds after which a line is due where none has come, so that ten never pass in silence."""

ROOMY = 78
"""Columns that a bar needs beside what is done."""


@dataclass(eq=False)
class Task:
    """Some work, and how far it is."""

    what: str
    total: int | None
    unit: str
    start: float
    done: int = 0
    item: str = ""
    """what is being worked on, where that has a name"""
    failed: int = 0
    measured: int = 0
    """of how many that are done the CPU time is known"""
    seconds: float = 0.0
    """that CPU time"""

    def advance(self, count: int, item: str | None, failed: bool, seconds: float | None) -> None:
        """So many more are done (or failed), in so much CPU time; `item` is worked on from now on."""
        self.done += count
        self.failed += count * failed
        if item is not None:
            self.item = item
        if seconds is not None:
            self.measured += count
            self.seconds += seconds

    @property
    def title(self) -> str:
        """For a terminal: names of methods and environments may hold anything."""
        return printable(f"{self.what}, {self.item}" if self.item else self.what)

    def text(self, now: float) -> str:
        """As in "comparing, lime on number-checker: 3 of 8 runs, 30 s, about 50 s left"."""
        elapsed = now - self.start
        parts = [_duration(elapsed)]
        if self.total is not None:
            parts.insert(0, f"{self.done} of {self.total} {self.unit}".rstrip())
            if self.failed:
                parts.insert(1, f"{self.failed} failed")
            if 0 < self.done < self.total:
                parts.append(self.rest(elapsed))
        return f"{self.title}: {', '.join(filter(None, parts))}"

    def rest(self, elapsed: float) -> str:
        """What is left: CPU time and rate where those of single items are known, or else seconds."""
        left = (self.total or self.done) - self.done
        if not self.done or not left:
            return ""
        if not self.measured:
            return f"about {_duration(elapsed / self.done * left)} left"
        cpu = _duration(self.seconds / self.measured * left)
        return f"{self.measured / max(elapsed, 1e-9):.2g} a second, about {cpu} of CPU time left"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Display(Protocol):
    """Shows work inside other work; the innermost is what is shown."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def open(self, task: Task) -> None: ...
    def advance(
        self,
        task: Task,
        count: int,
        item: str | None,
        failed: bool = False,
        seconds: float | None = None,
    ) -> None: ...
    def close(self, task: Task) -> None: ...


class Lines:
    """For a pipe or a file: a line for each named item, one at the end of the work, and one whenever
    none has come for `PATIENCE` seconds, which a thread writes while the work goes on.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.clock = stream, clock
        self.tasks: list[Task] = []
        self.last = clock()
        self.lock = threading.Lock()  # one line at a time
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join()

    def open(self, task: Task) -> None:
        with self.lock:
            self.tasks.append(task)

    def advance(
        self,
        task: Task,
        count: int,
        item: str | None,
        failed: bool = False,
        seconds: float | None = None,
    ) -> None:
        with self.lock:
            task.advance(count, item, failed, seconds)
            if count and (task.item or task.done == task.total):
                self._say(task)

    def close(self, task: Task) -> None:
        with self.lock:
            self.tasks.remove(task)

    def beat(self) -> float:
        """Write a line if one is due.

        Returns
        -------
        float
            Seconds until the next one may be.
        """
        with self.lock:
            if self.tasks and self.clock() - self.last >= PATIENCE:
                self._say(self.tasks[-1])
            return max(0.0, self.last + PATIENCE - self.clock())

    def _watch(self) -> None:
        wait = PATIENCE
        while not self.stopped.wait(wait):
            wait = self.beat()

    def _say(self, task: Task) -> None:
        self.last = self.clock()
        with suppress(OSError, ValueError):  # nobody reads it; the work goes on
            self.stream.write(task.text(self.last) + "\n")
            self.stream.flush()


class Bars:
    """For a terminal."""

    def __init__(self, console: "Console") -> None:
        from rich.progress import Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        if console.width >= ROOMY:
            self.progress = Progress(
                *Progress.get_default_columns(),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
        else:  # times stay whole
            work = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True))
            self.progress = Progress(
                work, TimeElapsedColumn(), console=console, transient=True, expand=True
            )
        self.shown: dict[Task, TaskID] = {}

    def start(self) -> None:
        self.progress.start()

    def stop(self) -> None:
        self.progress.stop()

    def open(self, task: Task) -> None:
        self._show_innermost(False)
        self.shown[task] = self.progress.add_task(_in_markup(task.title), total=task.total)

    def advance(
        self,
        task: Task,
        count: int,
        item: str | None,
        failed: bool = False,
        seconds: float | None = None,
    ) -> None:
        task.advance(count, item, failed, seconds)
        title = task.title
        if task.measured:
            # Rich's own estimate takes what was known already for done as fast.
            told = [f"{task.failed} failed"] if task.failed else []
            told += [f"{task.done} of {task.total}", task.rest(time.monotonic() - task.start)]
            title = f"{title} ({', '.join(filter(None, told))})"
        self.progress.update(self.shown[task], advance=count, description=_in_markup(title))

    def close(self, task: Task) -> None:
        self.progress.remove_task(self.shown.pop(task))
        self._show_innermost(True)

    def _show_innermost(self, visible: bool) -> None:
        for number in list(self.shown.values())[-1:]:
            self.progress.update(number, visible=visible)


def _in_markup(text: str) -> str:
    from rich.markup import escape

    return escape(text)


_display: Display | None = None
"""Shared by all work inside other work; there is none, and no thread, where nothing is shown."""


@contextmanager
def follow(
    what: str, total: int | None = None, unit: str = "", *, show: bool = True
) -> Iterator[Callable[..., None]]:
    """Show for how long some work has been going on, and how much of it is done.

    Parameters
    ----------
    what : str
        What is done.
    total : int, optional
        How many items there are, if that is known.
    unit : str
        What they are, in the plural.
    show : bool
        Whether to show anything at all.

    Yields
    ------
    callable
        ``advance(count=1, item=None, failed=False, seconds=None)``: so many more are done, or failed,
        in so much CPU time; `item` is what is worked on from now on.
    """
    global _display
    if not show or sys.stderr is None:
        yield lambda count=1, item=None, failed=False, seconds=None: None
        return
    outermost = _display is None
    display = _display = _display or _new_display()
    task = Task(what, total, unit, time.monotonic())
    if outermost:
        display.start()
    display.open(task)
    try:
        yield lambda count=1, item=None, failed=False, seconds=None: display.advance(
            task, count, item, failed, seconds
        )
    finally:
        display.close(task)
        if outermost:
            display.stop()
            _display = None


def _new_display() -> Display:
    from rich.console import Console

    console = Console(stderr=True)
    return Bars(console) if console.is_terminal else Lines(sys.stderr)


def track(
    items: Iterable[Item],
    total: int,
    what: str,
    show: bool,
    unit: str = "",
    name: Callable[[Item], str] | None = None,
) -> Iterator[Item]:
    """Pass items on and show how many of how many have come, with an estimate of the rest.

    Parameters
    ----------
    items : iterable
        What to pass on.
    total : int
        How many there are.
    what : str
        What is done with them.
    show : bool
        Whether to show anything at all.
    unit : str
        What the items are, in the plural.
    name : callable, optional
        What an item is called; each then has a line of its own where there is no terminal.
    """
    with follow(what, total, unit, show=show) as advance:
        for item in items:
            if name:
                advance(0, name(item))
            yield item
            advance()
