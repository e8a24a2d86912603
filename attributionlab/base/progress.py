"""Progress on standard error: a bar and a table on a terminal, gone when the work is done, and lines
elsewhere.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO, TypeVar

from attributionlab.base.errors import printable

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.progress import TaskID

Item = TypeVar("Item")

FIRST_LINE = 1.5
"""Seconds after which the first line is due, so that nobody wonders whether anything has begun. With
the start of Python and half a second between looks at the clock, 2.5 have passed."""

PATIENCE = 9.0
"""Seconds after which another line is due where none has come, so that ten never pass in silence."""

BRIEF = 1.0
"""Seconds within which a line about items is enough: quick ones would flood a file."""

ROOMY = 78
"""Columns that a bar needs beside what is done."""

CELLS = "cells"
"""The unit of work that has a table on a terminal: several at once, which may take long, and fail."""

SHOWN = 3
"""How many of those that are worked on at once are named."""


class Watcher(Protocol):
    """Who follows the progress from another process."""

    began: float
    """the moment of `time.monotonic` from which all times are told"""
    doing: str
    """the innermost work"""

    def tell(self, moment: float) -> None:
        """Progress was told at this moment of `time.monotonic`; infinity: it is shown all the time."""


_watcher: Watcher | None = None


def watch(watcher: Watcher | None) -> None:
    """Let all work that is shown be known to `watcher`."""
    global _watcher
    _watcher = watcher


@dataclass(eq=False)
class Task:
    """Some work, and how far it is."""

    what: str
    total: int | None
    unit: str
    start: float
    done: int = 0
    items: Sequence[str] = ()
    """what is being worked on, where that has names"""
    failed: int = 0
    measured: int = 0
    """how many of those that are done were not known before"""
    display: "Lines | Bars | None" = None
    """what shows it"""

    def advance(
        self,
        count: int = 1,
        item: str | Sequence[str] | None = None,
        failed: bool = False,
        measured: bool = False,
    ) -> None:
        """So many more are done (or failed), just now if they are `measured`; on `item`, which may be
        several, is worked from now on.
        """
        self.done += count
        self.failed += count * failed
        if item is not None:
            self.items = [item] if isinstance(item, str) else item
        self.measured += count * measured
        if self.display is not None:
            self.display.advanced(self, count)
            if _watcher and item is not None:
                _watcher.doing = self.title

    @property
    def title(self) -> str:
        """For a terminal: names of methods and environments may hold anything."""
        return printable(", ".join(filter(None, [self.what, " | ".join(self.now())])))

    def now(self) -> list[str]:
        """What is worked on, as far as there is room."""
        more = [f"{len(self.items) - SHOWN} more"] if len(self.items) > SHOWN else []
        return [*self.items[:SHOWN], *more]

    def text(self, now: float, since: float) -> str:
        """As in "comparing, lime on number-checker: 3 of 8 runs, 30 s, about 50 s left"; 30 s are those
        `since` the work began of which this is a part.
        """
        parts = [_duration(now - since)]
        if self.unit or self.total is not None:
            parts.insert(0, f"{self.counted} {self.unit}".rstrip())
        if self.total is not None:
            if self.failed:
                parts.insert(1, f"{self.failed} failed")
            if 0 < self.done < self.total:
                parts += self.rest(now)
        return f"{self.title}: {', '.join(parts)}"

    @property
    def counted(self) -> str:
        """As in "3 of 8"; "3" where nobody knows how many there are."""
        return f"{self.done:,}" if self.total is None else f"{self.done} of {self.total}"

    def rest(self, now: float) -> list[str]:
        """What is left, at the rate so far; that is told of cells."""
        told = [f"{self.rate(now)} a second"] if self.measured else []
        return [*told, f"about {self.time_left(now)} left"]

    @property
    def left(self) -> int:
        """How many are to be done."""
        return (self.total or self.done) - self.done

    def rate(self, now: float) -> str:
        """How many are done in a second, of those that were not known before."""
        return f"{self.measured / max(now - self.start, 1e-9):.2g}"

    def time_left(self, now: float) -> str:
        """What those to be done take at the rate so far.

        Time on the clock, which runs while other processes compute, too: a user's code has one of its
        own.
        """
        return _duration((now - self.start) / (self.measured or self.done) * self.left)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Lines:
    """For a pipe or a file: a line for named items of the innermost work, at most one in `BRIEF`
    seconds, one at the end of the work, and one whenever none has come for `PATIENCE` seconds (at first
    `FIRST_LINE`), which a thread writes while the work goes on.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.clock = stream, clock
        self.tasks: list[Task] = []
        self.last = clock()
        # A process that watches over a command writes the first line of it.
        self.patience = PATIENCE if _watcher else FIRST_LINE
        self.named = self.last - BRIEF
        """when the last line about an item came"""
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

    def advanced(self, task: Task, count: int) -> None:
        with self.lock:
            due = task.items and self.clock() - self.named >= BRIEF
            if count and (due or task.done == task.total):
                self.named = self.clock()
                self._say(task)

    def close(self, task: Task) -> None:
        with self.lock:
            self.tasks.remove(task)

    def tell(self, line: str) -> None:
        with self.lock:
            self._write(line)

    def beat(self) -> float:
        """Write a line if one is due.

        Result: seconds until the next one may be.
        """
        with self.lock:
            if self.tasks and self.clock() - self.last >= self.patience:
                self._say(self.tasks[-1])
            return max(0.0, self.last + self.patience - self.clock())

    def _watch(self) -> None:
        wait = self.patience
        while not self.stopped.wait(wait):
            wait = self.beat()

    def _say(self, task: Task) -> None:
        self.last, self.patience = self.clock(), PATIENCE
        since = _watcher.began if _watcher else self.tasks[0].start  # one clock for all lines
        self._write(task.text(self.last, since))

    def _write(self, line: str) -> None:
        if _watcher:
            _watcher.tell(time.monotonic())
        with suppress(OSError, ValueError):  # nobody reads it; the work goes on
            self.stream.write(line + "\n")
            self.stream.flush()


class Bars:
    """For a terminal: a bar of the innermost work, and a table of the cells that it is part of."""

    def __init__(self, console: "Console", clock: Callable[[], float] = time.monotonic) -> None:
        from rich.live import Live
        from rich.progress import Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        self.clock = clock
        self.bars: dict[Task, TaskID] = {}
        if console.width >= ROOMY:
            self.progress = Progress(
                *Progress.get_default_columns(), TimeElapsedColumn(), console=console
            )
        else:  # times stay whole
            work = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True))
            self.progress = Progress(work, TimeElapsedColumn(), console=console, expand=True)
        self.live = Live(console=console, transient=True, get_renderable=self.shown)

    def start(self) -> None:
        if _watcher:
            _watcher.tell(float("inf"))
        self.live.start(refresh=True)

    def stop(self) -> None:
        self.live.stop()
        if _watcher:
            _watcher.tell(time.monotonic())

    def open(self, task: Task) -> None:
        self._show_innermost(False)
        self.bars[task] = self.progress.add_task(_name(task), total=task.total)

    def advanced(self, task: Task, count: int) -> None:
        self.progress.update(self.bars[task], advance=count, description=_name(task))

    def close(self, task: Task) -> None:
        self.progress.remove_task(self.bars.pop(task))
        self._show_innermost(True)

    def tell(self, line: str) -> None:
        self.live.console.print(line, markup=False, highlight=False)

    def shown(self) -> "Group":
        """All that stands on the terminal now; a thread of rich asks for it several times a second."""
        from rich.console import Group

        of_cells = [task for task in list(self.bars) if task.unit == CELLS]
        return Group(*(self._table(task) for task in of_cells[-1:]), self.progress)

    def _table(self, task: Task) -> "Group":
        """How many cells are done, how fast, what is left, and which are worked on."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        known = {"failed": str(task.failed)}
        if task.measured:
            now = self.clock()
            known |= {"a second": task.rate(now), "time left": f"about {task.time_left(now)}"}
        row = {_name(task): f"{task.counted} done", **known}
        for name in row:
            table.add_column(name, no_wrap=True)
        table.add_row(*row.values())
        working = (
            Text(f"> {printable(name)}", no_wrap=True, overflow="ellipsis") for name in task.now()
        )
        return Group(table, *working)

    def _show_innermost(self, visible: bool) -> None:
        for number in list(self.bars.values())[-1:]:
            self.progress.update(number, visible=visible)


def _name(task: Task) -> str:
    """What a bar is called, in rich's markup; what cells are worked on says the table."""
    from rich.markup import escape

    if task.unit == CELLS:
        return escape(printable(task.what))
    counted = f": {task.counted} {task.unit}" if task.unit and task.total is None else ""
    return escape(task.title + counted)


_display: Lines | Bars | None = None
"""Shared by all work inside other work; there is none, and no thread, where nothing is shown."""


@contextmanager
def follow(
    what: str, total: int | None = None, unit: str = "", *, show: bool = True
) -> Iterator[Callable[..., None]]:
    """Show for how long some work has been going on, and how much of it is done.

    - `what`: what is done.
    - `total`: how many items there are, if that is known.
    - `unit`: what they are, in the plural.

    Yields: `Task.advance`.
    """
    global _display
    task = Task(what, total, unit, time.monotonic())
    if not show or sys.stderr is None:
        yield task.advance
        return
    outermost = _display is None
    display = task.display = _display = _display or _new_display()
    if outermost:
        display.start()
    display.open(task)
    around = _watcher.doing if _watcher else ""
    if _watcher:
        _watcher.doing = task.title
    try:
        yield task.advance
    finally:
        if _watcher:
            _watcher.doing = around
        display.close(task)
        if outermost:
            display.stop()
            _display = None


def tell(line: str) -> None:
    """Write a line that stays, where progress is shown; it may hold anything."""
    if _display is not None:
        _display.tell(printable(line))


def _new_display() -> Lines | Bars:
    import attributionlab.base.rich_import  # noqa: F401, I001 (before rich)
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

    - `items`: what to pass on.
    - `what`: what is done with them.
    - `unit`: what the items are, in the plural.
    - `name`: what an item is called; each then has a line of its own where there is no terminal.
    """
    with follow(what, total, unit, show=show) as advance:
        for item in items:
            if name:
                advance(0, name(item))
            yield item
            advance()
