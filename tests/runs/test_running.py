"""Cells in this process, in others and on a cluster: order, failures, limits, deaths."""

import json
import os
import platform
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, nullcontext, suppress
from dataclasses import replace

import psutil
import pytest
import torch

import oracles_store
import store_cases
from attributionlab.base import CELLS, AttributionLabError
from attributionlab.base.progress import Task
from attributionlab.runs import Outcome, Store, Workers, outcomes_of, run_cells, running, values
from attributionlab.runs.records import record_of
from attributionlab.runs.running import outcome_of
from store_cases import (
    cell,
    die,
    die_once,
    fail,
    leave,
    number,
    numbers,
    occupy,
    process,
    refuse,
    slow,
)


def results_with_days(pairs):
    return {each.title: outcome for each, outcome in pairs}


def results(pairs):
    """Without when they were computed, which differs where they were known."""
    found = results_with_days(pairs)
    return {title: outcome._replace(known="") for title, outcome in found.items()}


# In this process


def test_what_was_known_is_told_with_its_day_and_old_failures_with_the_remedy(tmp_path, capsys):
    cells = [*numbers(7, 10), cell("bad", refuse, "take another")]
    day = time.strftime("%Y-%m-%d", time.gmtime())
    for known in (False, True):
        with Store(tmp_path) as store:
            found = results_with_days(run_cells(cells, store, what="work", show_progress=True))
        said = capsys.readouterr().err
        assert {outcome.known for outcome in found.values()} == {day if known else ""}
        assert (
            f"work: 7 known from {day}: 0000; 0001; 0002; 0003; 0004; 2 more\n" in said
        ) == known
        again = f"failed, known from {day}; --retry-failed (retry_failed=True) runs it again: bad\n"
        assert (again in said) == known
        with pytest.raises(AttributionLabError, match=r"^take another") as refused:
            _ = found["bad"].value
        assert ("--retry-failed" in str(refused.value)) == known
    with Store(tmp_path) as store:
        list(run_cells(cells, store, what="work"))
    assert capsys.readouterr().err == ""


def test_known_ones_come_first_then_the_rest_in_order(tmp_path):
    cells = numbers(6, 10)
    with Store(tmp_path) as store:
        for place in (4, 1):
            store.put(cells[place], Outcome(record_of("known")))
        pairs = list(run_cells(cells, store))
        assert [each.title for each, _ in pairs] == ["0001", "0004", "0000", "0002", "0003", "0005"]
        assert [outcome.value == "known" for _, outcome in pairs] == [True, True, *[False] * 4]


def test_failures_do_not_stop_the_others_and_are_tried_again_on_demand(tmp_path):
    works = [(refuse, "bad: take another"), (fail, "oops"), (leave,), (occupy, 1e6, False)]
    cells = [*(cell(work[0].__name__, *work) for work in works), cell("good", number, 1)]
    with Store(tmp_path) as store:
        found = results(run_cells(cells, store))
        assert found["refuse"][1:3] == ("bad: take another", True)
        assert found["fail"].error.endswith("KeyError: 'oops'\n")
        assert "SystemExit: 3" in found["leave"].error
        assert found["occupy"][1:3] == ("out of memory", True)
        assert found["good"].value["value"] == 1
        better = [
            type(each)(each.kind, each.place, each.inputs, lambda device: 2) for each in cells
        ]
        assert results(run_cells(better, store)) == found
        again = results(run_cells(better, store, retry_failed=True))
        assert [outcome.value for outcome in again.values() if outcome != found["good"]] == [2] * 4
        assert set(store.keys().values()) == {False}


def test_a_refusal_without_a_reason_is_a_failure():
    assert outcome_of(lambda device: refuse("", device)).error


def test_torch_without_memory_is_one_line():
    outcome = outcome_of(lambda device: torch.empty(2**50))
    assert outcome[1:3] == ("out of memory", True)


def test_one_thread_wherever_it_is():
    import threadpoolctl

    def threads(device):
        return [
            torch.get_num_threads(),
            *(each["num_threads"] for each in threadpoolctl.threadpool_info()),
        ]

    before = threads(None)
    assert set(outcome_of(threads).record.text.strip("[]").split(",")) == {"1"}
    assert threads(None) == before


def test_ctrl_c_keeps_what_is_done(tmp_path):
    def stop(device):
        raise KeyboardInterrupt

    cells = [*numbers(2, 10), cell("stop", stop), *numbers(4, 10)[2:]]
    done, stopped = outcomes_of(cells, "cells", {"out": tmp_path})
    assert isinstance(stopped, KeyboardInterrupt)
    assert list(done) == [each.key for each in cells[:2]]
    with Store(tmp_path) as store:
        assert set(store.keys()) == set(done)
    done, stopped = outcomes_of(cells[:2], "cells", {"out": tmp_path})
    assert (len(done), stopped) == (2, None)


def test_results_come_in_the_order_of_the_cells(tmp_path):
    """Those that are known come first, and those of other processes as they are done."""
    cells = numbers(4)
    outcomes_of(cells[2:], "cells", {"out": tmp_path})
    found, stopped = values(cells, "cells", {"out": tmp_path})
    assert [each for each, _ in found] == cells
    assert [value["seed"] for _, value in found] == [0, 1, 2, 3]
    assert stopped is None


def test_how_work_shall_be_run_is_looked_at_before_it(tmp_path):
    with pytest.raises(AttributionLabError) as refused:
        outcomes_of(numbers(1), "cells", {"out": 3, "jobs": 0, "retry_failed": "no"})
    for said in ("out is 3: name a folder", "jobs is 0: ", "retry_failed is 'no': "):
        assert said in str(refused.value)


@pytest.mark.long
def test_what_a_process_loads_before_its_first_cell_is_little():
    """Each of these takes half a second, in every process of a sweep or a comparison."""
    code = (
        "import sys, attributionlab.verdicts.faithfulness.test\n"
        "import attributionlab.verdicts.sweep.cells\n"
        "from attributionlab.runs.running import _load\n"
        "_load(b'no pickle')\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    loaded = set(done.stdout.split())
    assert "torch" in loaded
    assert not loaded & {"pandas", "scipy.stats", "matplotlib", "captum", "numba", "sklearn"}


class Elsewhere(Exception):
    """Raised where other processes would start."""


@pytest.fixture
def clock(monkeypatch):
    """A clock that cells move on, on a machine with two cores; other processes are not started."""
    now = [0.0]

    def refused(cells, *_):
        raise Elsewhere(len(cells))

    monkeypatch.setattr(running.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(running, "_elsewhere", refused)
    monkeypatch.setattr("attributionlab.runs.workers.cores", lambda: 2)
    return now


@pytest.mark.parametrize(
    ("seconds", "count", "left"),
    [
        (1.0, 25, None),  # after 6 s 19 s are left
        (1.0, 27, 21),  # after 6 s 21 s are left
        (0.1, 200, None),  # after 5.1 s 14.9 s are left
        (0.1, 300, 249),  # after 5.1 s 24.9 s are left
        (30.0, 1, None),
        (30.0, 2, 1),
    ],
)
def test_processes_start_where_they_pay(clock, seconds, count, left):
    def work(device):
        clock[0] += seconds

    done = []
    cells = [cell(str(place), work) for place in range(count)]
    elsewhere = 0
    try:
        for each, _ in run_cells(cells, None, Workers(None)):
            done.append(each.title)
    except Elsewhere as stop:
        [elsewhere] = stop.args
    assert elsewhere == (left or 0)
    assert len(done) == count - elsewhere


def test_the_time_left_counts_what_takes_no_cpu_time_here(clock, monkeypatch):
    """A user's code computes in a process of its own, or waits for another computer."""
    task = Task("testing", 4, CELLS, 0.0)
    monkeypatch.setattr(running, "follow", lambda *_, **__: nullcontext(task.advance))

    def work(device):
        clock[0] += 3

    pairs = run_cells([cell(str(place), work) for place in range(4)])
    next(pairs)
    next(pairs)  # the first is counted now
    assert task.text(3.0, 0.0) == "testing, 1: 1 of 4 cells, 3 s, 0.33 a second, about 9 s left"


def test_long_cells_at_the_front_are_left_to_several_processes(clock):
    """The longest stand in front: taken first, one would keep the other core waiting."""

    def cell_of(seconds):
        def work(device):
            clock[0] += seconds

        return cell(f"of {seconds} s", work)

    cells = [cell_of(seconds) for seconds in (*range(100, 20, -10), 4, 3)]
    pairs = run_cells(cells, None, Workers(None))
    assert [next(pairs)[0].title for _ in range(2)] == ["of 3 s", "of 4 s"]
    with pytest.raises(Elsewhere) as stop:
        next(pairs)
    assert stop.value.args == (8,)
    [(first, _), *_] = run_cells(cells, None, Workers(1))
    assert first.title == "of 100 s"


@pytest.mark.parametrize(
    ("seconds", "jobs", "here"),
    [
        ([15.0, 6.0], None, False),
        ([15.0, 5.0], None, True),
        ([100.0], None, True),  # a second process would have nothing to do
        ([15.0, 6.0], 1, True),
    ],
)
def test_processes_start_at_once_where_cells_say_that_they_take_long(clock, seconds, jobs, here):
    cells = [
        replace(cell(str(place), number, 1), least_seconds=each)
        for place, each in enumerate(seconds)
    ]
    pairs = run_cells(cells, None, Workers(jobs))
    if here:
        assert len(list(pairs)) == len(seconds)
    else:
        with pytest.raises(Elsewhere):
            next(pairs)


@pytest.mark.parametrize(
    ("workers", "here"),
    [
        (Workers(), True),
        (Workers(1), True),
        (Workers(devices=["cuda:0"]), True),
        (Workers(2), False),
        (Workers(1, seconds=5.0), False),
        (Workers(None, gib=1.0), False),
        (Workers(None, seconds=5.0), False),
        (Workers(devices=["cuda:0", "cuda:1"]), False),
        (Workers(scheduler="tcp://x"), False),
    ],
)
def test_who_computes(clock, workers, here):
    pairs = run_cells([cell("a", number, 1)], None, workers)
    if here:
        [(_, outcome)] = pairs
        assert outcome.value["device"] == (workers.devices[0] if workers.devices else None)
    else:
        with pytest.raises(Elsewhere):
            next(pairs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"jobs": 0}, "jobs is 0: give an integer above 0"),
        ({"jobs": "x", "gib": "y"}, "jobs is 'x': give an integer above 0; gib is 'y': give a"),
        ({"jobs": 1.5}, "jobs is 1.5"),
        ({"jobs": True}, "jobs is True"),
        ({"seconds": -1.0, "gib": 0.0}, "seconds is -1.0: give .* above 0; gib is 0.0: give"),
        ({"gib": float("nan")}, "gib is nan"),
        ({"gib": float("inf")}, "gib is inf: give a number above 0"),
        ({"scheduler": "tcp://x", "seconds": 3.0}, "scheduler is 'tcp://x' with limits"),
        ({"scheduler": "tcp://x", "devices": ["a"]}, "scheduler is 'tcp://x' with limits"),
    ],
)
def test_bad_workers(settings, message):
    with pytest.raises(AttributionLabError, match=message):
        Workers(**settings)


def test_a_word_is_no_decision():
    with pytest.raises(AttributionLabError, match="retry_failed is 'no': take True or False"):
        list(run_cells([], retry_failed="no"))


# In other processes


def workers_alive():
    import psutil

    return [
        each for each in psutil.Process().children() if "LokyProcess" in " ".join(each.cmdline())
    ]


@pytest.mark.long
def test_two_processes_give_what_one_gives(tmp_path):
    """One start of two processes for several questions: starting them takes most of the time."""
    lock = threading.Lock()
    cells = [
        *(cell(f"sum {seed}", store_cases.sums, seed) for seed in range(3)),
        cell("refused", refuse, "bad: take another"),
        cell("failed", fail, "oops"),
        cell("left", leave),
        cell("unpicklable", lambda device: lock),
        *(cell(f"process {place}", process, 0.2) for place in range(4)),
        cell("page faults", store_cases.page_faults),
    ]
    with Store(tmp_path) as store:
        found = results(run_cells(cells, store, Workers(2)))
        assert set(store.keys()) == {each.key for each in cells}
    assert workers_alive() == []
    alone = results(run_cells(cells[:6]))
    for title, outcome in alone.items():
        assert found[title].record == outcome.record
        assert (found[title].error == "") == (outcome.error == "")
    assert found["refused"][1:3] == ("bad: take another", True)
    assert found["unpicklable"].refused
    assert "cannot be sent to another process" in found["unpicklable"].error
    pids = {found[f"process {place}"].value[0] for place in range(4)}
    assert len(pids) == 2
    assert os.getpid() not in pids
    if platform.libc_ver()[0] == "glibc":  # 64 MiB are 16,384 pages
        assert found["page faults"].value < 1000


def test_a_worker_says_at_once_what_will_take_long_and_nothing_else(capsys):
    """Other warnings are in reports."""
    pickled = running._pickled(cell("warned", store_cases.warn))
    assert running._work(pickled, None, running.code_digest(), {}, frozenset()).error == ""
    assert capsys.readouterr().err == "warning: it will take \\x1b long\n"


def test_work_that_cannot_be_made_again_elsewhere_is_one_line():
    pickled = running._pickled(cell("a", number, store_cases.Unloadable()))
    outcome = running._work(pickled, None, running.code_digest(), {}, frozenset())
    assert outcome.refused
    assert "(ValueError: needs a licence here): set jobs (--jobs) to 1" in outcome.error


def test_processes_are_no_more_than_cells(monkeypatch):
    asked = []

    def started(workers, load):
        asked.append((workers.most, workers.devices))
        raise Elsewhere(0)

    monkeypatch.setattr(running, "started", started)
    cells = [cell(str(place), number, 1) for place in range(3)]
    for workers in (Workers(8), Workers(2), Workers(devices=[*"abcde"])):
        with pytest.raises(Elsewhere):
            list(run_cells(cells, None, workers))
    assert asked == [(3, ()), (2, ()), (3, ["a", "b", "c"])]


def test_a_reason_that_names_nothing_is_told_with_the_cell():
    def starved(device):
        raise MemoryError

    cells = [cell("one", number, 1), cell("two", starved)]
    with pytest.raises(AttributionLabError, match=r"^two: out of memory$"):
        values(cells, "cells", {})


def test_what_cannot_be_sent_is_computed_here_where_nobody_asked_for_processes(monkeypatch):
    lock = threading.Lock()
    cells = [cell("here", lambda device: lock.locked())]
    found = dict(running._elsewhere(cells, Workers(None), lambda *_: None))
    assert found[cells[0]].value is False


@pytest.mark.slow
def test_each_device_has_a_process(tmp_path):
    cells = [cell(str(place), process, 0.3) for place in range(6)]
    found = results(run_cells(cells, None, Workers(devices=["stand-in:0", "stand-in:1"])))
    pairs = [outcome.value for outcome in found.values()]
    assert {device for _, device in pairs} == {"stand-in:0", "stand-in:1"}
    assert len({pid for pid, _ in pairs}) == 2


@pytest.mark.slow
def test_a_process_that_dies_is_replaced_and_its_cell_tried_again(tmp_path):
    flag = str(tmp_path / "flag")
    cells = [
        *numbers(4, 10),
        cell("once", die_once, flag, 7),
        cell("always", die),
        *numbers(8, 10)[4:],
    ]
    with Store(tmp_path / "s") as store:
        found = results(run_cells(cells, store, Workers(2)))
        assert set(store.keys()) == {each.key for each in cells}
    died, refused = found.pop("always")[1:3]
    assert refused
    assert died.startswith("its process died 3 times (signal SIGKILL): killed, perhaps because ")
    assert "--jobs 1" in died
    assert found.pop("once").value == 7
    assert not any(outcome.error for outcome in found.values())
    assert workers_alive() == []


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks there")
def test_work_that_forks_and_waits_is_ended_by_the_limit_with_its_child(tmp_path):
    child = tmp_path / "child"
    cells = [cell("forks", store_cases.fork, str(child)), cell("after", number, 1)]
    found = results(run_cells(cells, None, Workers(1, seconds=5.0)))
    assert found["forks"][1:3] == ("it took longer than 5 s", True)
    assert found["after"].value["value"] == 1
    ended = time.monotonic() + 10  # what is killed leaves the list of processes when it is reaped
    while psutil.pid_exists(int(child.read_text())):
        assert time.monotonic() < ended
        time.sleep(0.05)


@pytest.mark.slow
def test_limits_of_time_and_memory(tmp_path):
    cells = [
        cell("quick", slow, 0.1, 1),
        cell("endless", slow, 1000, 2),
        cell("large", occupy, 6, False),
        cell("large for torch", occupy, 6, True),
        cell("after", slow, 0.1, 3),
    ]
    start = time.monotonic()
    found = results(run_cells(cells, None, Workers(2, seconds=5.0, gib=4.0)))
    assert time.monotonic() - start < 100
    assert found["endless"][1:3] == ("it took longer than 5 s", True)
    assert found["endless"].seconds >= 5
    assert [found[name].value for name in ("quick", "after")] == [1, 3]
    for name in ("large", "large for torch"):
        assert found[name].refused
        assert found[name].error == "out of memory"


@pytest.mark.slow
def test_processes_that_cannot_start_are_one_line():
    with pytest.raises(AttributionLabError, match=r"no process could start \(.*allow more memory"):
        list(run_cells(numbers(1), None, Workers(1, gib=0.01)))


STOPPED = """
import sys, store_cases
from attributionlab.runs import running
from attributionlab.runs.store import Store
cells = [store_cases.cell(str(i), store_cases.slow, 0.3, i) for i in range(200)]
plain = running.run_cells
def told(*given, **named):
    for pair in plain(*given, **named):
        print("done", flush=True)
        yield pair
running.run_cells = told
done, stop = running.outcomes_of(cells, "cells", {"out": sys.argv[1], "jobs": 2})
with Store(sys.argv[1]) as store:
    print(len(done), len(store.keys()), type(stop).__name__)
import psutil
children = psutil.Process().children()
print([each.pid for each in children if "LokyProcess" in " ".join(each.cmdline())])
"""


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_and_keeps_what_is_done(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", STOPPED, str(tmp_path)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=store_cases.environment(),
        start_new_session=True,
    ) as run:  # fmt: skip
        assert run.stdout.readline() == "done\n"
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does it: workers get it, too
        out, error = run.communicate(timeout=60)
    *_, counts, left = out.splitlines()
    done, stored, stop = counts.split()
    assert 1 <= int(done) <= int(stored) < 200
    assert stop == "KeyboardInterrupt"
    assert left == "[]"
    assert error == ""


# On a cluster


class Cluster:
    """A dask scheduler and its workers, processes on the loopback device."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        file = folder / "scheduler.json"
        self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        while not (file.exists() and file.read_text().endswith("}")):
            time.sleep(0.1)
        self.address = json.loads(file.read_text())["address"]

    def start(self, what, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *options]
        self.processes.append(
            subprocess.Popen(
                command, cwd=self.folder, env=store_cases.environment(OMP_NUM_THREADS="2"),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip

    def start_worker(self):
        """Two threads, in which two cells at once would disturb each other."""
        folder = str(self.folder)
        self.start(
            "worker", self.address, "--nthreads", "2", "--no-nanny", "--local-directory", folder
        )

    def end(self):
        for each in self.processes:
            each.kill()
            each.wait()


@pytest.fixture
def cluster(tmp_path):
    pytest.importorskip("distributed")
    made = Cluster(tmp_path)
    yield made
    made.end()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_gives_what_one_process_gives(tmp_path, cluster):
    for _ in range(2):
        cluster.start_worker()
    cells = [
        *(cell(f"sum {seed}", store_cases.sums, seed) for seed in range(4)),
        cell("refused", refuse, "bad: take another"),
        cell("failed", fail, "oops"),
        *(cell(f"process {place}", process, 0.3) for place in range(12)),
    ]
    with Store(tmp_path / "s") as store:
        start = time.monotonic()
        found = results(run_cells(cells, store, Workers(scheduler=cluster.address)))
        assert set(store.keys()) == {each.key for each in cells}
        assert time.monotonic() - start < 60
    pids = {found[f"process {place}"].value[0] for place in range(12)}
    assert pids <= {each.pid for each in cluster.processes[1:]}
    assert len(pids) == 2
    alone = results(run_cells(cells[:6]))
    for title, outcome in alone.items():
        assert found[title].record == outcome.record
        assert (found[title].error == "") == (outcome.error == "")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_scheduler_that_is_not_there_has_no_workers_or_dies(tmp_path, cluster):
    with pytest.raises(
        AttributionLabError, match=r"no dask scheduler answers at 'tcp://127.0.0.1:9'"
    ):
        list(run_cells(numbers(2), None, Workers(scheduler="tcp://127.0.0.1:9")))
    with pytest.raises(AttributionLabError, match="has no workers: start some with dask worker"):
        list(run_cells(numbers(2), None, Workers(scheduler=cluster.address)))
    for _ in range(2):
        cluster.start_worker()
    cells = [cell(str(place), slow, 0.2, place) for place in range(200)]
    done = 0
    with Store(tmp_path / "s") as store:
        pairs = run_cells(cells, store, Workers(scheduler=cluster.address))
        for _ in range(5):
            next(pairs)
        cluster.processes[0].kill()
        start = time.monotonic()
        with pytest.raises(
            AttributionLabError, match=r"scheduler 'tcp.* did not respond .* are kept"
        ):
            list(pairs)
        assert time.monotonic() - start < 60
        done = len(store.keys())
        assert 5 <= done < 200
        assert not any(store.keys().values())
        left = results(run_cells(cells, store))
    assert [left[str(place)].value for place in range(200)] == list(range(200))


SCRIPT = """
import sys, time
import store_cases
from attributionlab.runs.running import Workers, run_cells
from attributionlab.runs.store import Store
cells = store_cases.all_measured(int(sys.argv[2]))
with Store(sys.argv[1]) as store:
    for _ in run_cells(cells, store, Workers(int(sys.argv[3]))):
        print("done", flush=True)
"""
MOMENTS = random.Random(20)
LINGER_SECONDS = 20.0
"""Workers look for their parent twice a second, if the machine lets them."""


def start(folder, count, jobs):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(count), str(jobs)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=store_cases.environment(OMP_NUM_THREADS="1"),
    )  # fmt: skip


def check(folder):
    """How many cells are there, all of them whole; the database is sound as SQLite recovers it."""
    if not (folder / "store.sqlite").exists():
        return 0
    with closing(sqlite3.connect(folder / "store.sqlite")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return len(oracles_store.cells_in(folder))


def descendants(process):
    with suppress(psutil.Error):
        return psutil.Process(process.pid).children(recursive=True)
    return []


def alive(processes):
    return [
        each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE
    ]


def kill_parent(folder, count, jobs, patience, lines):
    """Kill the run while it starts, or after some cells; whether it was done before."""
    run = start(folder, count, jobs)
    with run:
        if lines < 0:  # while it starts
            time.sleep(MOMENTS.uniform(0, patience))
        else:
            for _ in range(check(folder) + lines):  # known ones are told, too
                if not run.stdout.readline():
                    break
            time.sleep(MOMENTS.uniform(0, 0.05))
        workers = descendants(run)
        ended = run.poll() is not None
        run.kill()
        run.wait()
    end = time.monotonic() + LINGER_SECONDS
    while alive(workers) and time.monotonic() < end:
        time.sleep(0.05)
    assert alive(workers) == []
    return ended and run.returncode == 0


def finish(folder, count, jobs):
    with start(folder, count, jobs) as run:
        assert run.stdout.read().count("done") == count
        assert run.wait() == 0


def undisturbed(tmp_path, count):
    with Store(tmp_path / "whole") as store:
        assert len(list(run_cells(store_cases.all_measured(count), store))) == count
    return records(tmp_path / "whole")


def records(folder):
    """Place, JSON and arrays of each cell, byte for byte."""
    found = oracles_store.cells_in(folder)
    return {key: (json.dumps(place), text, data) for key, (place, text, data) in found.items()}


def survive(tmp_path, count, jobs, patience, moments):
    """A run that is killed again and again ends as one that nobody disturbed."""
    folder, log = tmp_path / "killed", []
    for lines in moments:
        if kill_parent(folder, count, jobs, patience, lines):
            break
        log.append(check(folder))
    finish(folder, count, jobs)
    assert records(folder) == undisturbed(tmp_path, count)
    assert log == sorted(log)  # nothing that was done is lost
    print(f"\n{len(log)} kills of the parent ({jobs} jobs), cells done at each: {log} of {count}")
    return log


@pytest.mark.long
def test_a_killed_run_ends_as_an_undisturbed_one(tmp_path):
    assert 3 <= survive(tmp_path, 12, 1, 1.0, [3])[0] < 12


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_fifty_kills_of_the_parent(tmp_path, jobs):
    log = survive(tmp_path, 250, jobs, 6.0, [MOMENTS.randrange(-1, 4) for _ in range(50)])
    assert len(log) >= 25
    assert log[-1] > 10


@pytest.mark.slow
def test_kills_of_random_workers(tmp_path):
    folder, count, kills = tmp_path / "killed", 250, []
    with start(folder, count, 2) as run:
        while run.poll() is None and len(kills) < 10:
            before = check(folder)  # some cells come between kills, as processes take long to start
            while run.poll() is None and check(folder) == before:
                time.sleep(0.05)
            time.sleep(MOMENTS.uniform(0, 2))
            workers = [
                each for each in descendants(run) if "LokyProcess" in " ".join(each.cmdline())
            ]
            if workers:
                MOMENTS.choice(workers).kill()
                kills.append(check(folder))
        assert run.stdout.read().count("done") == count
        assert run.wait() == 0
    assert records(folder) == undisturbed(tmp_path, count)
    assert kills == sorted(kills)
    print(f"\n{len(kills)} kills of a worker, cells done at each: {kills} of {count}")
