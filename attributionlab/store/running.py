"""Cells of work, one after another, in several processes or on a cluster; kept as they are done."""

import os
import signal
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from attributionlab.errors import AttributionLabError, AttributionLabWarning
from attributionlab.progress import follow
from attributionlab.references import load_file, loaded_files
from attributionlab.store.cells import Cell
from attributionlab.store.records import record_of
from attributionlab.store.store import Outcome, Store

WORTH_SECONDS = 20.0
"""Work that is left, in seconds, for which further processes pay: each takes some seconds to start."""
TRIED_SECONDS = 5.0
"""After so long it is estimated what is left."""
DEATHS = 3
"""How often a cell's process may die, with nothing else in it, before the cell counts as failed."""
WATCH_SECONDS = 0.5
SHOWN = 3
"""How many of the cells that are worked on are named in the progress."""


@dataclass(frozen=True)
class Workers:
    """Who computes.

    Parameters
    ----------
    jobs : int or None
        Processes; 1 is this one. None: this one for some seconds, then as many as there are cores if
        much is left and can be sent to them.
    seconds, gib : float, optional
        What a cell may take: time, and memory of its process in GiB (on Linux).
    devices : sequence of str
        One process for each, which computes there; none: where the cells say.
    scheduler : str, optional
        Address of a dask scheduler, as ``tcp://host:port``, whose workers compute instead.
    """

    jobs: int | None = 1
    seconds: float | None = None
    gib: float | None = None
    devices: Sequence[str] = ()
    scheduler: str | None = None

    @property
    def most(self) -> int:
        """How many cells are worked on at once."""
        return len(self.devices) or self.jobs or cores()


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_cells(
    cells: Sequence[Cell],
    store: Store | None = None,
    workers: Workers = Workers(),
    *,
    retry_failed: bool = False,
    arrays: bool = True,
    what: str = "cells",
    show_progress: bool = False,
) -> Generator[tuple[Cell, Outcome], None, None]:
    """Yield what became of each cell: at first of those that the store has, then as they are done.

    Every cell is computed with one thread of torch, wherever it is, so that the results do not depend
    on how many processes or cores there are. Only this process writes into the store; a worker whose
    parent has died ends by itself, and what it was computing is lost.

    Parameters
    ----------
    cells : sequence of Cell
        The work. A cell that raises has an outcome with the error; the others go on.
    store : Store, optional
        Where outcomes are looked for and kept.
    workers : Workers
        Who computes.
    retry_failed : bool
        Whether cells that the store has as failed are computed again.
    arrays : bool
        Whether the arrays of known cells are read (`Store.outcome`).
    what : str
        What is done, for those who wait.
    show_progress : bool
        Whether to show progress on standard error.

    Raises
    ------
    AttributionLabError
        For a store that cannot be written and a scheduler that cannot be reached.
    """
    left = []
    with follow(what, len(cells), "cells", show=show_progress) as advance:
        for cell in cells:
            outcome = None if store is None else store.outcome(cell.key, arrays=arrays)
            if outcome is None or (outcome.error and retry_failed):
                left.append(cell)
            else:
                advance(1, None, bool(outcome.error))  # without a line: there may be many
                yield cell, outcome
        for cell, outcome in _computed(left, workers, advance):
            if store is not None:
                store.put(cell, outcome)
            title = f"{cell.title} (failed)" if outcome.error else cell.title
            advance(1, title, bool(outcome.error), outcome.seconds)
            yield cell, outcome


def _computed(
    cells: Sequence[Cell], workers: Workers, advance: Callable[..., None]
) -> Iterator[tuple[Cell, Outcome]]:
    """All cells, by whoever computes."""
    alone = workers.most == 1 and workers.seconds is None and workers.gib is None
    if workers.scheduler is None and (alone or workers.jobs is None):
        here = _here(cells, workers, advance)
        done = 0
        for pair in here:
            yield pair
            done += 1
        cells = cells[done:]
    if cells:
        yield from _elsewhere(cells, workers, advance)


def _here(
    cells: Sequence[Cell], workers: Workers, advance: Callable[..., None]
) -> Iterator[tuple[Cell, Outcome]]:
    """In this process, until others would pay."""
    start = time.monotonic()
    device = workers.devices[0] if workers.devices else None
    for done, cell in enumerate(cells):
        spent = time.monotonic() - start
        left = spent / max(done, 1) * (len(cells) - done)
        if (workers.jobs, workers.most > 1) == (None, True) and (
            spent > TRIED_SECONDS and left > WORTH_SECONDS and _can_be_sent(cell)
        ):
            return
        advance(0, cell.title)
        yield cell, outcome_of(cell.compute, device)


def outcome_of(compute: Callable[[str | None], Any], device: str | None = None) -> Outcome:
    """Compute with one thread; an error becomes an outcome."""
    start = time.process_time()
    try:
        with one_thread():
            record = record_of(compute(device))
        return Outcome(record, seconds=time.process_time() - start)
    except AttributionLabError as error:
        return Outcome(None, str(error), True, time.process_time() - start)
    except MemoryError:
        return Outcome(None, "out of memory", True, time.process_time() - start)
    except Exception:
        return Outcome(None, traceback.format_exc(), False, time.process_time() - start)


def done_before_stop(
    pairs: Iterator[tuple[Cell, Outcome]],
) -> tuple[dict[str, Outcome], KeyboardInterrupt | None]:
    """Outcomes by key, and the interruption that came before the last of them, if one did."""
    found: dict[str, Outcome] = {}
    try:
        for cell, outcome in pairs:
            found[cell.key] = outcome
    except KeyboardInterrupt as stop:
        return found, stop
    return found, None


def values_before_stop(
    cells: Sequence[Cell], pairs: Generator[tuple[Cell, Outcome], None, None]
) -> tuple[list[tuple[Cell, Any]], KeyboardInterrupt | None]:
    """Results in the order of the cells, whatever the order in which they come, and the interruption
    that came before the last of them, if one did. The first failure ends the work, and is raised.
    """
    found: dict[str, Any] = {}
    stop = None
    with closing(pairs):
        try:
            for cell, outcome in pairs:
                found[cell.key] = outcome.value
        except KeyboardInterrupt as error:
            stop = error
    return [(cell, found[cell.key]) for cell in cells if cell.key in found], stop


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch add in the order of one thread, whatever the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _Running(NamedTuple):
    """A cell that a process works on."""

    cell: Cell
    device: str | None
    since: float


def _elsewhere(
    cells: Sequence[Cell], workers: Workers, advance: Callable[..., None]
) -> Iterator[tuple[Cell, Outcome]]:
    """In other processes; one that dies is replaced, and its cell tried again, alone."""
    waiting, suspects = deque(cells), deque[Cell]()
    one = replace(workers, jobs=1, devices=workers.devices[:1])
    deaths: dict[str, int] = {}
    while waiting or suspects:
        alone = bool(suspects)
        line, some = (suspects, one) if alone else (waiting, workers)
        with _executor(some) as (executor, slots):
            lost = yield from _until_one_dies(executor, slots, line, some, advance)
        for cell in lost:
            deaths[cell.key] = deaths.get(cell.key, 0) + alone
            if deaths[cell.key] == DEATHS:
                text = f"its process died {DEATHS} times: out of memory, or killed"
                yield cell, Outcome(None, text, True)
            else:
                suspects.append(cell)


def _until_one_dies(
    executor: Executor,
    slots: deque[str | None],
    waiting: deque[Cell],
    workers: Workers,
    advance: Callable[..., None],
) -> Generator[tuple[Cell, Outcome], None, list[Cell]]:
    """Cells as they are done; returns those whose process has died, none at the end of the work.

    A cell over its time kills all processes, since one alone cannot be: the others' cells come back
    to the front of the line.
    """
    running: dict[Future[Outcome], _Running] = {}
    while waiting or running:
        try:
            while waiting and slots:
                cell, device = waiting[0], slots[0]
                future = executor.submit(_work, _pickled(cell), device, loaded_files())
                running[future] = _Running(waiting.popleft(), slots.popleft(), time.monotonic())
        except BrokenProcessPool:
            return [each.cell for each in running.values()]
        advance(0, _titles([each.cell for each in running.values()]))
        done, _ = wait(running, _patience(running, workers), FIRST_COMPLETED)
        died = []
        for future in done:
            each = running.pop(future)
            slots.append(each.device)
            try:
                outcome = future.result()
            except BrokenProcessPool:
                died.append(each.cell)
            else:
                yield each.cell, outcome
        if died:
            return [*died, *(each.cell for each in running.values())]
        overdue = [each for each in running.values() if _left(each, workers) <= 0]
        if overdue:
            for each in overdue:
                text = f"it took longer than {workers.seconds:g} s"
                yield each.cell, Outcome(None, text, True, time.monotonic() - each.since)
            waiting.extendleft(each.cell for each in running.values() if each not in overdue)
            return []
    return []


def _titles(cells: Sequence[Cell]) -> str:
    """What is worked on, as far as there is room."""
    more = [f"{len(cells) - SHOWN} more"] if len(cells) > SHOWN else []
    return " | ".join([*(cell.title for cell in cells[:SHOWN]), *more])


def _left(running: _Running, workers: Workers) -> float:
    """Seconds that a cell may still take."""
    if workers.seconds is None:
        return float("inf")
    return running.since + workers.seconds - time.monotonic()


def _patience(running: dict[Future[Outcome], _Running], workers: Workers) -> float | None:
    if workers.seconds is None:
        return None
    return max(0.0, min(_left(each, workers) for each in running.values()))


def _pickled(cell: Cell) -> bytes:
    """The work by value, so that what a notebook defines can go elsewhere."""
    import cloudpickle

    try:
        found: bytes = cloudpickle.dumps(cell.compute)
    except Exception as error:
        raise AttributionLabError(
            f"{cell.title} cannot be sent to another process ({type(error).__name__}: {error}): "
            "set jobs (--jobs) to 1"
        ) from error
    return found


def _can_be_sent(cell: Cell) -> bool:
    try:
        return bool(_pickled(cell))
    except AttributionLabError:
        return False


def _work(pickled: bytes, device: str | None, files: Mapping[str, str]) -> Outcome:
    """What a worker does with a cell, with the user's files in which its functions stand."""
    import cloudpickle

    def compute(device: str | None) -> Any:
        for name in files.keys() - loaded_files().keys():
            load_file(Path(files[name]))
        return cloudpickle.loads(pickled)(device)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionLabWarning)  # kept in reports
        return outcome_of(compute, device)


@contextmanager
def _executor(workers: Workers) -> Iterator[tuple[Executor, deque[str | None]]]:
    """Processes of this machine, or of a cluster, and a place for each cell that they work on at once;
    no process is left behind.
    """
    if workers.scheduler is not None:
        with _cluster(workers.scheduler) as (executor, size):
            yield executor, deque([None] * (1 if workers.jobs == 1 else size))
        return
    from loky import ProcessPoolExecutor

    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    executor = ProcessPoolExecutor(
        max_workers=workers.most,
        initializer=_prepare_worker,
        initargs=(os.getpid(), workers.gib),
        env=threads,
    )
    try:
        devices: Sequence[str | None] = workers.devices or [None] * workers.most
        yield executor, deque(devices)
    finally:
        executor.shutdown(wait=True, kill_workers=True)


def _prepare_worker(parent: int, gib: float | None) -> None:
    """A worker ends with its parent, leaves Ctrl-C to it, and may be limited in memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), name="watch", daemon=True).start()
    if gib is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (int(gib * 2**30),) * 2)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, by SIGKILL for instance."""
    import psutil

    while True:
        with suppress(psutil.Error):
            if os.getppid() == parent or psutil.Process().ppid() == parent:
                time.sleep(WATCH_SECONDS)
                continue
        os._exit(1)


@contextmanager
def _cluster(scheduler: str) -> Iterator[tuple[Executor, int]]:
    """The workers of a dask scheduler, and how many cells keep them busy."""
    try:
        from distributed import Client
    except ImportError as error:
        raise AttributionLabError(
            f"scheduler is {scheduler!r}, and dask is not installed: pip install "
            "'attributionlab[cluster]'"
        ) from error
    try:
        client: Any = Client(scheduler, timeout="10s", set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as error:
        raise AttributionLabError(
            f"no dask scheduler answers at {scheduler!r} ({error}): start one with dask scheduler"
        ) from error
    with client:
        # Twice as many as there are threads: the next cell is there when one is done.
        yield client.get_executor(pure=False, retries=0), 2 * sum(client.nthreads().values()) or 1
