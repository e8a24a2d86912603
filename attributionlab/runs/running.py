"""Cells of work, one after another, in several processes or on a cluster; kept as they are done."""

import re
import socket
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import cloudpickle
import torch

from attributionlab.base import (
    CELLS,
    AttributionLabError,
    AttributionLabWarning,
    CostWarning,
    boolean_problem,
    code_digest,
    files_read,
    follow,
    heard,
    how_ended,
    load_file,
    loaded_files,
    one_thread,
    printable,
    refuse_if,
    tell,
)
from attributionlab.runs.cells import Cell
from attributionlab.runs.records import Outcome, record_of
from attributionlab.runs.store import Store, folder_problem, stored
from attributionlab.runs.workers import HERE, started
from attributionlab.runs.workers import Workers as Workers

WORTH_SECONDS = 20.0
"""Work that is left, in seconds, for which further processes pay: each takes some seconds to start."""
TRIED_SECONDS = 5.0
"""After so long it is estimated what is left."""
DEATHS = 3
"""How often a cell's process may die, with nothing else in it, before the cell counts as failed."""
NO_MEMORY = "can't allocate memory"
"""What torch says on a processor, in an error of no kind of its own."""
NAMELESS = ("out of memory", "its process died")
"""How reasons begin that do not say what failed."""
IS_THIS_ONE = "without limits one process (jobs=1, --jobs 1) is this one"
NAMED = 5
"""How many cells of one day are named."""
ONE_CELL = threading.Lock()
"""Held while a worker computes a cell: threads of dask would compute several."""


class Running(TypedDict, total=False):
    """How work is run: keywords of everything that takes long.

    Parameters
    ----------
    out : str or Path, optional
        Folder of a store (`attributionlab.runs`): what it has already is not computed again.
    jobs : int or None
        Processes, 1 by default; None: as many as there are cores, where that pays. The results are the
        same.
    retry_failed : bool
        Compute again what the store has as failed.
    show_progress : bool
        Show progress on standard error.
    device : str or torch.device, optional
        Where to compute; by default where the environments are, at first the CPU.
    """

    out: str | Path | None
    jobs: int | None
    retry_failed: bool
    show_progress: bool
    device: str | torch.device | None


def running_problems(running: Running) -> list[str]:
    """What is wrong with how work shall be run, before any of it; not with the device."""
    out = running.get("out")
    found = [] if out is None else folder_problem(out)
    found += boolean_problem("retry_failed", running.get("retry_failed", False))
    try:
        Workers(running.get("jobs", 1))
    except AttributionLabError as error:
        found += error.problems
    return found


def outcomes_of(
    cells: Sequence[Cell], what: str, running: Running
) -> tuple[dict[str, Outcome], KeyboardInterrupt | None]:
    """What became of cells, by key, and the interruption that came before the last of them, if one did.

    `what` names the work for people who wait.
    """
    found: dict[str, Outcome] = {}
    try:
        with _run(cells, what, running) as pairs:
            for cell, outcome in pairs:
                found[cell.key] = outcome
    except KeyboardInterrupt as stop:
        return found, stop
    return found, None


def values(
    cells: Sequence[Cell], what: str, running: Running
) -> tuple[list[tuple[Cell, Any]], KeyboardInterrupt | None]:
    """As `outcomes_of`, with results in the order of the cells. The first failure ends the work, and is
    raised.
    """
    found: dict[str, Any] = {}
    stop = None
    try:
        with _run(cells, what, running) as pairs:
            for cell, outcome in pairs:
                if outcome.error.startswith(NAMELESS):
                    raise AttributionLabError(f"{cell.title}: {outcome.error}")
                found[cell.key] = outcome.value
    except KeyboardInterrupt as error:
        stop = error
    return [(cell, found[cell.key]) for cell in cells if cell.key in found], stop


@contextmanager
def _run(
    cells: Sequence[Cell], what: str, running: Running
) -> Iterator[Generator[tuple[Cell, Outcome], None, None]]:
    """Cells with what became of them, as they are done; all is closed behind them."""
    refuse_if(running_problems(running))
    with (
        stored(running.get("out")) as store,
        closing(
            run_cells(
                *(cells, store, Workers(running.get("jobs", 1))),
                retry_failed=running.get("retry_failed", False),
                what=what,
                show_progress=running.get("show_progress", False),
            )
        ) as pairs,
    ):
        yield pairs


def run_cells(
    cells: Sequence[Cell],
    store: Store | None = None,
    workers: Workers = HERE,
    *,
    retry_failed: bool = False,
    arrays: bool = True,
    what: str = "cells",
    show_progress: bool = False,
) -> Generator[tuple[Cell, Outcome], None, None]:
    """What became of each cell: at first of those that the store has, then as they are done.

    Every cell is computed with one thread of torch, wherever it is, so that the results do not depend
    on how many processes or cores there are. Only this process writes into the store; a worker whose
    parent has died ends by itself, and what it was computing is lost.

    - `cells`: the work. A cell that raises has an outcome with the error; the others go on.
    - `arrays`: whether the arrays of known cells are read (`Store.outcome`).

    Raises AttributionLabError for a store that cannot be written and a scheduler that cannot be
    reached.
    """
    refuse_if(boolean_problem("retry_failed", retry_failed))
    left, known = [], []
    with follow(what, len(cells), CELLS, show=show_progress) as advance:
        for cell in cells:
            outcome = None if store is None else store.outcome(cell.key, arrays=arrays)
            if outcome is None or (outcome.error and retry_failed):
                left.append(cell)
                if store is not None and outcome is None and store.why_missing(cell) == "damaged":
                    text = f"the stored result of {cell.title} is damaged: it is computed again"
                    warnings.warn(text, AttributionLabWarning, stacklevel=2)
            else:
                assert store is not None
                outcome = outcome._replace(known=store.finished(cell.key))
                known.append((cell.title, outcome))
                yield cell, outcome
                advance(1, None, bool(outcome.error))  # without a line: there may be many
        if show_progress:
            for line in _known_lines(what, known):
                tell(line)
        # Closed whatever happens, a full disk for instance: no worker goes on for nobody.
        with closing(_computed(left, workers, advance)) as computed:
            for cell, outcome in computed:
                if store is not None:
                    store.put(cell, outcome)
                yield cell, outcome
                # Counted after the caller took it, so that a stop loses no result that was shown.
                title = f"{cell.title} (failed)" if outcome.error else cell.title
                advance(1, title, bool(outcome.error), measured=True)


def _known_lines(what: str, known: Sequence[tuple[str, Outcome]]) -> Iterator[str]:
    """What was known before and of when it is; failures apart, since these can be tried again."""
    for failed, kind in ((False, ""), (True, "failed, ")):
        days: dict[str, list[str]] = {}
        for title, outcome in known:
            if bool(outcome.error) == failed:
                days.setdefault(outcome.known_text, []).append(title)
        for day, titles in sorted(days.items()):
            more = f"; {len(titles) - NAMED} more" if len(titles) > NAMED else ""
            yield f"{what}: {len(titles)} {kind}{day}: {'; '.join(titles[:NAMED])}{more}"


def _computed(
    cells: Sequence[Cell], workers: Workers, advance: Callable[..., None]
) -> Generator[tuple[Cell, Outcome], None, None]:
    """All cells, by whoever computes."""
    alone = workers.most == 1 or workers.jobs is None
    at_once = workers.limited or pays([each.least_seconds for each in cells], workers)
    if workers.scheduler is None and alone and not at_once:
        # Trials are taken from the end of the line: of the longest, which stand in front, none would
        # keep the other cores waiting.
        may_grow = _may_grow(workers)
        line = cells[::-1] if may_grow else cells
        start, device = time.monotonic(), workers.devices[0] if workers.devices else None
        done = 0
        for done, cell in enumerate(line):  # in this process, until others would pay
            spent = time.monotonic() - start
            left = spent / max(done, 1) * (len(line) - done)
            if may_grow and spent > TRIED_SECONDS and left > WORTH_SECONDS:
                break
            advance(0, cell.title)
            yield cell, outcome_of(cell.compute, device, cell.files)
        else:
            return
        cells = cells[: len(cells) - done]
    if cells:
        yield from _elsewhere(cells, workers, advance)


def pays(least_seconds: Sequence[float], workers: Workers) -> bool:
    """Whether cells say that they take so long that further processes start at once."""
    return _may_grow(workers) and len(least_seconds) > 1 and sum(least_seconds) > WORTH_SECONDS


def _may_grow(workers: Workers) -> bool:
    """Whether further processes start where they pay."""
    return workers.jobs is None and workers.most > 1


def outcome_of(
    compute: Callable[[str | None], Any],
    device: str | None = None,
    files: frozenset[str] = frozenset(),
) -> Outcome:
    """Compute with one thread; an error becomes an outcome. `files`: of the user's code in it."""
    start = time.process_time()
    try:
        with one_thread():
            record = record_of(heard(partial(compute, device)))
        found = Outcome(record)
    except (Exception, SystemExit) as error:  # of a method that ends the program, too
        found = Outcome(None, *_reason(error))
    seconds = time.process_time() - start
    return found._replace(seconds=seconds, read=files_read(files) if files else ())


def _reason(error: BaseException) -> tuple[str, bool]:
    """Why a cell failed: a line for what was to be expected, a traceback for the rest."""
    if isinstance(error.__cause__ or error, MemoryError | torch.OutOfMemoryError) or (
        NO_MEMORY in str(error)
    ):
        return NAMELESS[0], True
    if isinstance(error, AttributionLabError):
        return str(error) or "refused without a reason", True
    return "".join(traceback.format_exception(error)), False


class _Task(NamedTuple):
    """A cell as it goes to other processes."""

    cell: Cell
    pickled: bytes


class _Running(NamedTuple):
    """A cell that a process works on."""

    task: _Task
    device: str | None
    since: float


def _elsewhere(
    cells: Sequence[Cell], workers: Workers, advance: Callable[..., None]
) -> Iterator[tuple[Cell, Outcome]]:
    """In other processes; one that dies is replaced, and its cell tried again, alone."""
    waiting, suspects = deque[_Task](), deque[_Task]()
    for cell in cells:
        try:
            waiting.append(_Task(cell, _pickled(cell)))
        except AttributionLabError as error:
            # Nobody asked for processes where jobs is None.
            here = workers.jobs is None and workers.scheduler is None and not workers.limited
            refused = Outcome(None, str(error), True)
            yield cell, outcome_of(cell.compute, None, cell.files) if here else refused
    if workers.scheduler is None:  # none that has nothing to do
        most = max(1, min(workers.most, len(waiting)))
        workers = replace(workers, jobs=most, devices=workers.devices[:most])
    one = replace(workers, jobs=1, devices=workers.devices[:1])
    deaths: dict[str, int] = {}
    while waiting or suspects:
        alone = bool(suspects)
        line, some = (suspects, one) if alone else (waiting, workers)
        with started(some, partial(_load, line[0].pickled)) as (executor, slots):
            lost, how = yield from _until_one_dies(executor, slots, line, some, advance)
        for task in lost:
            key = task.cell.key
            deaths[key] = deaths.get(key, 0) + alone
            if deaths[key] == DEATHS:
                text = f"{NAMELESS[1]} {DEATHS} times{how}; {IS_THIS_ONE}"
                yield task.cell, Outcome(None, text, True)
            else:
                suspects.append(task)


def _death(error: BrokenProcessPool) -> str:
    """How the first of loky's processes that died has ended, where that is known."""
    status = re.search(r"\((-?\d+)\)", str(error))
    unknown = ": out of memory, killed, or ended by what it ran"
    return unknown if status is None else f" ({how_ended(int(status[1]))}"


def _until_one_dies(
    executor: Executor,
    slots: deque[str | None],
    waiting: deque[_Task],
    workers: Workers,
    advance: Callable[..., None],
) -> Generator[tuple[Cell, Outcome], None, tuple[list[_Task], str]]:
    """Cells as they are done; returns those whose process has died, and how; none at the end.

    A cell over its time kills all processes, since one alone cannot be: the others' cells come back
    to the front of the line.
    """
    running: dict[Future[Outcome], _Running] = {}
    while waiting or running:
        try:
            while waiting and slots:
                task, device = waiting[0], slots[0]
                about = code_digest(), loaded_files(), task.cell.files
                future = executor.submit(_work, task.pickled, device, *about)
                running[future] = _Running(waiting.popleft(), slots.popleft(), time.monotonic())
        except BrokenProcessPool as error:
            return [each.task for each in running.values()], _death(error)
        advance(0, [each.task.cell.title for each in running.values()])
        done, _ = wait(running, _patience(running, workers), FIRST_COMPLETED)
        died, how = [], ""
        for future in done:
            each = running.pop(future)
            slots.append(each.device)
            outcome = _result_of(future, workers)
            if isinstance(outcome, str):
                died.append(each.task)
                how = outcome
            else:
                yield each.task.cell, outcome
        if died:
            return [*died, *(each.task for each in running.values())], how
        overdue = [each for each in running.values() if _left(each, workers) <= 0]
        if overdue:
            for each in overdue:
                text = f"it took longer than {workers.seconds:g} s"
                yield each.task.cell, Outcome(None, text, True, time.monotonic() - each.since)
            waiting.extendleft(each.task for each in running.values() if each not in overdue)
            return [], ""
    return [], ""


def _result_of(future: Future[Outcome], workers: Workers) -> Outcome | str:
    """What a worker returned; where it died, how."""
    try:
        return future.result()
    except BrokenProcessPool as error:
        return _death(error)
    except (Exception, CancelledError) as error:
        if type(error).__name__ == "KilledWorker":  # dask has tried it several times
            return Outcome(None, f"{NAMELESS[1]} again and again: out of memory, or killed", True)
        who = f"scheduler {workers.scheduler!r}" if workers.scheduler else "a worker"
        raise AttributionLabError(
            f"{who} did not respond ({type(error).__name__}: {error}); finished results are "
            f"kept: check it, and run again"
        ) from error


def _left(running: _Running, workers: Workers) -> float:
    """Seconds that a cell may still take."""
    if workers.seconds is None:
        return float("inf")
    return running.since + workers.seconds - time.monotonic()


def _patience(running: dict[Future[Outcome], _Running], workers: Workers) -> float | None:
    if workers.seconds is None:
        return None
    return float(max(0.0, min(_left(each, workers) for each in running.values())))


def _pickled(cell: Cell) -> bytes:
    """The work by value, so that what a notebook defines can go elsewhere."""
    try:
        found: bytes = cloudpickle.dumps(cell.compute)
    except Exception as error:
        raise AttributionLabError(
            f"{cell.title} cannot be sent to another process ({type(error).__name__}: {error}): "
            "set jobs (--jobs) to 1"
        ) from error
    return found


def _load(pickled: bytes) -> None:
    """Load what a cell needs of this package: its seconds are counted from when it is sent."""
    code_digest()
    with (
        one_thread(),
        suppress(Exception),
    ):  # it may stand in a user's file: the cell says what is wrong
        cloudpickle.loads(pickled)


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {printable(str(message))}", file=sys.stderr, flush=True)


def _work(
    pickled: bytes,
    device: str | None,
    code: str,
    files: Mapping[str, str],
    own: frozenset[str],
) -> Outcome:
    """What a worker does with a cell, with the user's files in which its functions stand, and those
    that its code is made of.
    """
    if code != code_digest():
        text = (
            f"a worker on {socket.gethostname()} has other code of this package: install the same"
        )
        raise AttributionLabError(text)

    def compute(device: str | None) -> Any:
        for name in files.keys() - loaded_files().keys():
            load_file(Path(files[name]))
        try:
            work = cloudpickle.loads(pickled)
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise AttributionLabError(
                f"the work cannot be made again in another process ({why}): set jobs (--jobs) to 1"
            ) from error
        return work(device)

    with ONE_CELL, warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionLabWarning)  # kept in reports
        warnings.simplefilter("always", CostWarning)  # of use only while there is time to stop
        warnings.showwarning = _say_warning
        return outcome_of(compute, device, own)
