"""The commands `sweep`, `status` and `merge`: what they print, how they end, and real signals."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pandas as pd
import psutil
import pytest

from attributionlab.cli import app as cli
from attributionlab.runs import Store
from attributionlab.verdicts import dry_run, run_sweep, status_of

SPEC = """
n = 2
metrics = ["sparsity"]
[[environments]]
name = "multi-color-sum"
image_size = 12
[[methods]]
name = "gradcam"
[[methods]]
name = "mine.py:slow"
"""
SLOW = """
import time
from contextlib import closing
from pathlib import Path

def slow(model, inputs, targets):
    Path("begun").touch()
    while not Path("released").exists():
        time.sleep(0.01)
    return inputs

def wrong(model, inputs, targets):
    raise ValueError("out of order")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a sweep and a method that waits until it is released."""
    (tmp_path / "sweep.toml").write_text(SPEC)
    (tmp_path / "mine.py").write_text(SLOW)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    return cli.main([*arguments])


def small(folder, methods='[[methods]]\nname = "gradcam"'):
    (folder / "small.toml").write_text(SPEC.partition("[[methods]]")[0] + methods)
    return folder / "small.toml"


@pytest.mark.long
def test_sigterm_leaves_results_status_sees_the_work_and_the_same_command_goes_on(folder, capsys):
    command = [sys.executable, "-m", "attributionlab", "sweep", "sweep.toml", "--out", "out"]
    with subprocess.Popen([*command, "--jobs", "1"], stderr=subprocess.PIPE, text=True) as process:
        try:
            while not (folder / "begun").exists():
                assert process.poll() is None
                time.sleep(0.05)
            assert run("status", "out") == 0
            shown = capsys.readouterr().out
            assert re.search(r"maps +1 +0 +1 ", shown)
            assert re.search(r"metric +0 +0 +2 ", shown)
            [worker] = psutil.Process(process.pid).children()  # the command runs in a child
            assert f"process {worker.pid} on" in shown
            assert run("sweep", "sweep.toml", "--out", "out") == 2
            assert f"is in use by process {worker.pid}" in capsys.readouterr().err
            process.send_signal(signal.SIGTERM)
            said = process.communicate()[1]
        finally:
            process.kill()  # a failed assertion waits for nobody
    assert process.returncode == 143
    assert "maps: 2 cells: 0 known, 2 new" in said
    assert "jobs: 1" in said
    assert "1 of 2 maps cells are done" in said
    assert said.rstrip().endswith("terminated")
    assert set(pd.read_csv("out/results.csv").method) == {"gradcam"}
    (folder / "released").touch()
    assert run("sweep", "sweep.toml", "--out", "out", "--jobs", "1") == 0
    captured = capsys.readouterr()
    assert "maps: 2 cells: 1 known, 1 new" in captured.err
    assert "maps: 2 of 2 cells done, 0 failed" in captured.out
    resumed = pd.read_csv("out/results.csv").drop(columns="cpu_seconds")
    whole = run_sweep("sweep.toml", "undisturbed").to_frame()
    whole.to_csv("whole.csv", index=False)
    whole = pd.read_csv("whole.csv").drop(columns="cpu_seconds")
    pd.testing.assert_frame_equal(resumed, whole)


def test_a_failing_cell_makes_the_status_1_and_is_told(folder, capsys):
    spec = small(folder, '[[methods]]\nname = "mine.py:wrong"\n[[methods]]\nname = "gradcam"')
    assert run("sweep", str(spec), "--out", "out", "--jobs", "1") == 1
    shown = capsys.readouterr().out
    assert re.search(r"failed: 1 cells: wrong raised ValueError: out of order", shown)
    assert "maps: 1 of 2 cells done, 1 failed" in shown
    assert run("status", "out") == 0
    shown = capsys.readouterr().out
    assert re.search(r"maps +1 +1 +0 ", shown)
    assert "nobody works on it" in shown
    assert re.search(r"failed: .*mine\.py:wrong.*out of order", shown)


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(folder, capsys):
    spec = small(folder)
    assert run("sweep", str(spec), "--out", "out", "--dry-run", "--jobs", "2") == 0
    shown = capsys.readouterr().out.splitlines()
    assert not (folder / "out").exists()
    assert shown[:4] == [
        "maps: 1 cells: 0 known, 1 new",
        "metric: 1 cells: 0 known, 1 new",
        "maps: unknown for 1: there are none like them in the store",
        "metric: unknown for 1: there are none like them in the store",
    ]
    assert shown[4] == f"disk: {2 * 12 * 12 * 4 / 2**20:.3g} MiB of maps"
    assert shown[-1] == "jobs: 2"


def test_costs_are_estimated_from_cells_that_are_like_those_to_come(folder):
    spec = {
        "environments": [{"name": "multi-color-sum", "image_size": 12}],
        "methods": ["gradcam"],
        "n": 2,
    }
    run_sweep(spec, "out")
    before = (folder / "out" / "store.sqlite").read_bytes()
    with Store("out", writable=False) as store:
        [row] = store.rows()
    lines = dry_run(spec | {"n": 10, "methods": ["gradcam", "saliency"], "seeds": [0, 1]}, "out")
    assert lines[0] == "maps: 4 cells: 0 known, 1 changed: n, 3 new"
    # Two cells of gradcam with five times as many images as the one that was measured.
    assert lines[1] == (
        f"maps: about {10 * row.seconds:.3g} s of CPU time for 2 cells, unknown for 2: there "
        "are none like them in the store"
    )
    assert lines[2] == f"disk: {4 * 10 * 144 * 4 / 2**20:.3g} MiB of maps"
    assert dry_run(spec, "out")[:2] == ["maps: 1 cells: 1 known", "disk: 0 MiB of maps"]
    assert (folder / "out" / "store.sqlite").read_bytes() == before


def test_a_sweep_of_objects_has_a_status_without_what_is_missing(folder):
    def ones(model, inputs, targets):
        return inputs * 0 + 1

    spec = {
        "environments": [{"name": "multi-color-sum", "image_size": 12}],
        "methods": [ones],
        "n": 1,
    }
    run_sweep(spec, "out")
    status = status_of("out")
    assert status.kinds[["done", "missing"]].to_numpy().tolist() == [[1, "?"]]
    assert "objects of Python" in status.note


@pytest.mark.long
def test_shards_are_merged_by_a_command(folder, capsys):
    spec = small(folder, '[[methods]]\nname = "gradcam"\n[[methods]]\nname = "saliency"')
    for shard in ("1/2", "2/2"):
        out = f"part{shard[0]}"
        assert run("sweep", str(spec), "--out", out, "--jobs", "1", "--shard", shard) == 0
    capsys.readouterr()
    assert run("merge", "all", "part1", "part2") == 0
    shown = capsys.readouterr().out
    assert "4 cells copied to all" in shown
    assert "maps: 2 of 2 cells done, 0 failed" in shown
    assert (folder / "all" / "results.parquet").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--shard", "1"), "--shard is '1': write I/N"),
        (("--shard", "3/2"), "integers with I from 1 to N"),
        (("--jobs", "0"), "--jobs is 0: take a number above 0"),
        (("--disk", "nan"), "--disk is nan: take a number above 0"),
        (("--scheduler", "tcp://127.0.0.1:1"), "no dask scheduler answers at 'tcp://127.0.0.1:1'"),
    ],
)
def test_impossible_options_are_refused(folder, capsys, given, message, monkeypatch):
    monkeypatch.setattr("attributionlab.runs.workers.ANSWER_SECONDS", 0.5)
    if given[0] == "--scheduler":
        pytest.importorskip("distributed")
    assert run("sweep", str(small(folder)), "--out", "out", *given) == 2
    assert message in capsys.readouterr().err


def test_folders_that_hold_no_store_are_refused(folder, capsys):
    assert run("status", "nowhere") == 2
    assert "'nowhere' does not hold a store" in capsys.readouterr().err
    assert run("merge", "new", "nowhere") == 2
    assert "'nowhere' does not hold a store" in capsys.readouterr().err
    os.mkdir("full")
    (folder / "full" / "letter.txt").write_text("dear")
    assert run("sweep", str(small(folder)), "--out", "full") == 2
    assert "holds 'letter.txt' but no store" in capsys.readouterr().err


@pytest.mark.filterwarnings(
    "ignore:the cells are merged:attributionlab.base.errors.AttributionLabWarning"
)
@pytest.mark.parametrize(
    "about",
    ["{", "[1, 2]", "{}", '"x"', '{"spec": [1], "shard": 3}', '{"spec": {}, "shard": [1]}', "\x00"],
)
def test_what_a_store_says_of_its_sweep_may_be_damaged(folder, capsys, about):
    """One line each, and the cells are of use as before."""
    spec = small(folder)
    run_sweep(spec, "out")
    with closing(sqlite3.connect("out/store.sqlite")) as database:
        database.execute("UPDATE about SET value = ? WHERE name = 'sweep'", (about,))
        database.commit()
    capsys.readouterr()
    status = run("status", "out")
    shown = capsys.readouterr()
    if status == 0:
        assert "what is missing is not known" in shown.out
    else:
        assert status == 2
        assert "is damaged (its sweep is no JSON)" in shown.err
        assert len(shown.err.splitlines()) == 1
    assert run("merge", "new", "out") == 0
    assert "2 cells copied to new" in capsys.readouterr().out
    assert run("sweep", str(spec), "--out", "out") == 0
    assert "maps: 1 cells: 1 known" in capsys.readouterr().err
    assert run("status", "out") == 0
