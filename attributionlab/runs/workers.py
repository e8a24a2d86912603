"""Who computes cells: processes of this machine, or the workers of a cluster.

This module imports nothing large: a new process watches its parent before it loads torch.
"""

import math
import os
import signal
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from attributionlab.base import AttributionLabError, keep_freed_memory, refuse_if

WATCH_SECONDS = 0.5
START_SECONDS = 300.0
"""How long processes wait for each other to start."""
STARTS = 3
"""How often they are started until all of them live."""
ANSWER_SECONDS = 10.0
"""After so long without an answer a scheduler counts as dead, and as one without workers."""
THREADS = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    "NUMBA_NUM_THREADS",
)
"""What libraries of numbers ask for their threads."""
FAULTS = "PYTHONFAULTHANDLER"
"""Without it loky lets a process that dies print a page about Python; how it ended is one line here."""


@dataclass(frozen=True)
class Workers:
    """Who computes.

    - `jobs`: processes; 1 is this one. None: this one for some seconds, then as many as there are cores
      if much is left.
    - `seconds`, `gib`: what a cell may take in a process of this machine: time, and memory in GiB (on
      Linux).
    - `devices`: one process for each, which computes there; none: where the cells say.
    - `scheduler`: address of a dask scheduler, as ``tcp://host:port``, whose workers compute instead.

    Raises AttributionLabError for limits or devices beside a scheduler, and values that no worker could
    have.
    """

    jobs: int | None = 1
    seconds: float | None = None
    gib: float | None = None
    devices: Sequence[str] = ()
    scheduler: str | None = None

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value!r}: give {what} above 0"
            for name, value, kind, what in (
                ("jobs", self.jobs, Integral, "an integer"),
                ("seconds", self.seconds, Real, "a number"),
                ("gib", self.gib, Real, "a number"),
            )
            if value is not None
            and not (
                isinstance(value, kind) and not isinstance(value, bool) and 0 < value < math.inf
            )
        ]
        if self.scheduler is not None and (self.limited or self.devices):
            problems.append(
                f"scheduler is {self.scheduler!r} with limits or devices: its workers have their own "
                "(dask worker --memory-limit), leave these out"
            )
        refuse_if(problems)

    @property
    def limited(self) -> bool:
        """Whether cells have limits, which only a process of their own can keep."""
        return self.seconds is not None or self.gib is not None

    @property
    def most(self) -> int:
        """How many cells are worked on at once."""
        return len(self.devices) or self.jobs or cores()


HERE = Workers()
"""This process."""


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def started(
    workers: Workers, load: Callable[[], None]
) -> Iterator[tuple[Executor, deque[str | None]]]:
    """Processes of this machine, or of a cluster, and a place for each cell that they work on at once;
    no process is left behind. They `load` what cells need before the first one comes.
    """
    if workers.scheduler is not None:
        with _cluster(workers.scheduler) as (executor, size):
            yield executor, deque([None] * (1 if workers.jobs == 1 else size))
        return
    executor = _processes(workers, load)
    try:
        devices: Sequence[str | None] = workers.devices or [None] * workers.most
        with warnings.catch_warnings():
            # Between two cells loky gives a process that has grown to a new one.
            warnings.filterwarnings("ignore", "A worker was restarted", UserWarning)
            yield executor, deque(devices)
    finally:
        executor.shutdown(wait=True, kill_workers=True)


def _processes(workers: Workers, load: Callable[[], None]) -> Any:
    """An executor of loky's whose processes have all started; tried again where one was killed."""
    from loky import ProcessPoolExecutor

    problem: BaseException | None = None
    for _ in range(STARTS):
        executor = ProcessPoolExecutor(
            max_workers=workers.most,
            initializer=_prepare_worker,
            initargs=(os.getpid(), workers.gib),
            env=dict.fromkeys(THREADS, "1") | {FAULTS: os.environ.get(FAULTS, "")},
        )
        try:
            problem = _problem_of_start(executor, workers.most, load)
        except BaseException:
            executor.shutdown(wait=True, kill_workers=True)
            raise
        if problem is None:
            return executor
        executor.shutdown(wait=True, kill_workers=True)
    raise AttributionLabError(
        f"no process could start ({type(problem).__name__}): allow more memory (gib, --cell-memory)"
    ) from problem


def _prepare_worker(parent: int, gib: float | None) -> None:
    """A worker ends with its parent, leaves Ctrl-C to it, and may be limited in memory."""
    keep_freed_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), name="watch", daemon=True).start()
    if gib is not None and os.name == "posix":
        import resource

        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        limit = int(gib * 2**30)
        limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, by SIGKILL for instance."""
    import psutil

    # On Windows a process keeps the number of a parent that has ended.
    while os.getppid() == parent and (os.name == "posix" or psutil.pid_exists(parent)):
        time.sleep(WATCH_SECONDS)
    os._exit(1)


def _problem_of_start(
    executor: Executor, count: int, load: Callable[[], None]
) -> BaseException | None:
    """Let all processes start before the first cell: what happens then is not the cells' doing."""
    with tempfile.TemporaryDirectory(
        prefix="attributionlab-", ignore_cleanup_errors=True
    ) as folder:
        try:
            arrivals = [executor.submit(_arrive, load, folder, count) for _ in range(count)]
        except BrokenProcessPool as error:
            return error
        wait(arrivals)
        return next(filter(None, (each.exception() for each in arrivals)), None)


def _arrive(load: Callable[[], None], folder: str, count: int) -> None:
    """Load what cells need, then wait for the others."""
    load()
    (Path(folder) / str(os.getpid())).touch()
    end = time.monotonic() + START_SECONDS
    while len(os.listdir(folder)) < count and time.monotonic() < end:
        time.sleep(0.02)


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
        client: Any = Client(scheduler, timeout=ANSWER_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as error:
        raise AttributionLabError(
            f"no dask scheduler answers at {scheduler!r} ({error}): start one with dask scheduler"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=ANSWER_SECONDS)
        except TimeoutError as error:
            raise AttributionLabError(
                f"the dask scheduler at {scheduler!r} has no workers: start some with dask worker "
                f"{scheduler}"
            ) from error
        # Twice as many as there are processes: the next cell is there when one is done.
        yield client.get_executor(pure=False, retries=0), 2 * len(client.nthreads())
