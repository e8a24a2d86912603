"""Kills at random moments: nothing is lost, nothing is doubled, nobody works on."""

import json
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress

import psutil
import pytest

import oracles_store
import store_cases
from attributionlab.runs import Store, run_cells

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
