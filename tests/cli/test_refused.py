"""Commands that are refused leave everything as it was; files of others are never replaced."""

import io
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from attributionlab.base import is_made_here
from attributionlab.cli import app as cli
from unchanged import tree

SWEEP = """
environments = [{ name = "multi-color-sum", image_size = 12 }]
methods = ["random"]
n = 2
"""
THEIRS = {
    "mine.py": "import aid\ndef f(model, inputs, targets): return inputs\n",
    "aid.py": "K = 1\n",
    "notes.json": '{"schema": 1, "versions": {"numpy": "2"}, "command": "attributionlab test"}',
    "notes.html": "<!doctype html><title>AttributionLab</title>",
    "notes.md": "# AttributionLab\n| method | F1 |\n|---|---|\n",
    "notes.tex": "% AttributionLab\n\\begin{table}\\end{table}\n",
    "notes.csv": "method,environment,mine\n1,2,3\n",
    "notes.svg": "<svg><title>AttributionLab</title></svg>",
    "sub/answers.json": "{}",
    "sub.zip": "a submission",
    "lab.zip": "a laboratory",
    "key.zip": "a key",
    "site/index.html": "<h1>mine</h1>",
    "slides/a.png": "mine",
    "books/a.ipynb": '{"cells": []}',
    "good.toml": SWEEP,
    "bad.toml": SWEEP.replace("random", "nope"),
    "preset.toml": SWEEP + "preset = ['paper']\n",
}
FIGURE = ("notes.svg", "notes.png", "notes.pdf")
WRITERS = {
    "test random": {"json": ["notes.json"], "csv": ["notes.csv"], "html": ["notes.html"],
                    "parquet": ["notes.parquet"], "figure": FIGURE},
    "compare random": {"json": ["notes.json"], "csv": ["notes.csv"], "maps": FIGURE,
                       "parquet": ["notes.parquet"], "figure": FIGURE, "latex": ["notes.tex"],
                       "markdown": ["notes.md"]},
    "metric sparsity": {"json": ["notes.json"], "csv": ["notes.csv"], "html": ["notes.html"],
                        "figure": FIGURE},
    "leaderboard": {"json": ["notes.json"], "csv": ["notes.csv"], "figure": FIGURE,
                    "latex": ["notes.tex"], "markdown": ["notes.md"]},
    "metrics": {"json": ["notes.json"], "csv": ["notes.csv"], "figure": FIGURE,
                "latex": ["notes.tex"], "markdown": ["notes.md"]},
    "reproduce table-1": {"latex": ["notes.tex"], "markdown": ["notes.md"]},
    "show number-checker": {"draw": FIGURE},
    "verify number-checker": {"json": ["notes.json"]},
    "demo --no-open": {"html": ["notes.html"]},
    "live": {"out": ["notes.html"]},
    "score sub lab.zip": {"json": ["notes.json"]},
    "grade lab.zip key.zip sub": {"csv": ["notes.csv", "sub.zip", "sub/answers.json"],
                                  "html": ["site", "notes.html"]},
    "export multi-color-sum": {"out": ["site", "sub.zip"]},
    "seal --out new.zip": {"answers": ["key.zip"]},
}  # fmt: skip
OTHERS = [
    "test nope --out o",
    *("test nope", "test mine.py:g", "test random --env random:2 --n 0 --json x.json"),
    *("test nope --env random:2", "test mine.py:f --json aid.py", "test aid.py --json x.json"),
    *("test random --env random:0 --csv x.csv", "test random --json x.json --csv x.json"),
    *("compare nope --out o", "compare random --jobs 0 --out a/b/o", "compare random --n 0 --out o"),
    *("compare random random --out o", "compare random --env nope --out o --json x.json"),
    *("metric nope --out o", "metric sparsity --n 1 --out o", "metric insertion --jobs 0 --out o"),
    *("metric insertion --dose x=1 --out o", "metric nope --env random:2 --out o"),
    *("cards nope --out o", "cards --env nope --out o", "cards sparsity --n 1 --out o"),
    *("cards --out site", "cards insertion --jobs 0 --out o", "cards sparsity --dose x=1 --out o"),
    *("leaderboard nope random --out o", "leaderboard random --out o", "leaderboard --jobs 0 --out o"),
    *("metrics nope --out o", "leaderboard --env random:0 --out o", "metrics --env random:0 --out o"),
    *("reproduce nope --out o", "reproduce table-1 --set x --out o", "reproduce all nope --out o"),
    *("reproduce table-1 table-2 --jobs 0 --out o", "reproduce table-1 --n 0 --out o"),
    *("reproduce figure-2 --device nope --out o", "reproduce table-1 --set x=1 --out a/o"),
    *("sweep nope.toml --out o", "sweep bad.toml --out o", "sweep good.toml --jobs 0 --out o"),
    *("sweep good.toml --shard 5/4 --out o", "sweep preset.toml --out o", "sweep aid.py --out o"),
    *("sweep good.toml --scheduler tcp://127.0.0.1:9 --disk 1 --out o", "status sub", "status new"),
    *("sweep good.toml --dry-run --shard x --out o", "merge new sub", "merge new new", "merge new"),
    *("slides --out new --notebooks sub", "slides --out slides --notebooks books"),
    *("live --out new.html --env nope", "live --out new.html --n 0", "show nope --draw new.png"),
    *("export nope --out new", "export multi-color-sum --n 0 --out new", "export multi-color-sum"),
    *("seal --out new.zip --answers new.zip", "seal --out new.zip --answers k.zip --n 1"),
    *("score site lab.zip --json new.json", "score sub nope.npz", "check-submission lab.zip sub"),
    *("grade lab.zip key.zip sub --csv new.csv --html new", "verify nope --json new.json", "nope"),
]  # fmt: skip
LINES = OTHERS + [
    f"{command} --{option} {path}"
    for command, options in WRITERS.items()
    for option, paths in options.items()
    for path in paths
]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """A folder with files of the user's, some made with the libraries that we use, too."""
    folder = tmp_path_factory.mktemp("theirs")
    for name, text in THEIRS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    pd.DataFrame({"method": [1], "environment": [2]}).to_parquet(folder / "notes.parquet")
    figure = Figure()
    figure.suptitle("AttributionLab")
    for suffix in ("png", "pdf"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix)
        (folder / f"notes.{suffix}").write_bytes(buffer.getvalue())
    np.save(folder / "maps.npy", np.zeros((2, 4, 4)))
    return folder


@pytest.mark.parametrize(
    "line",
    # A scheduler is waited for.
    [pytest.param(each, marks=[pytest.mark.long] * ("--scheduler" in each)) for each in LINES],
)
def test_what_is_refused_leaves_everything_as_it_was(theirs, monkeypatch, capsys, line):
    monkeypatch.chdir(theirs)
    before = tree(theirs)
    status = cli.main(line.split())
    after = tree(theirs)
    for name in after.keys() - before.keys():  # not to be met by other lines
        shutil.rmtree(theirs / name, ignore_errors=True)
    assert (status, after) == (2, before), capsys.readouterr().err


def test_a_refused_file_is_named_with_the_remedy(theirs, monkeypatch, capsys):
    monkeypatch.chdir(theirs)
    assert cli.main(["test", "random", "--json", "notes.json"]) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert "--json is " in said
    assert (
        "notes.json', a file that AttributionLab did not write: name another, or delete it" in said
    )
    assert cli.main(["grade", "lab.zip", "key.zip", "sub", "--csv", "sub/answers.json"]) == 2
    assert "which is read: write elsewhere" in capsys.readouterr().err


def test_none_of_the_users_files_is_taken_for_ours(theirs):
    taken = [path.name for path in theirs.rglob("*.*") if is_made_here(path)]
    assert taken == []


def test_a_date_that_is_no_number_is_refused_before_the_work(theirs, monkeypatch, capsys):
    monkeypatch.chdir(theirs)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "x")
    assert cli.main(["test", "random", "--figure", "new.pdf"]) == 2
    assert "SOURCE_DATE_EPOCH is 'x': make it whole seconds" in capsys.readouterr().err


def test_a_page_may_have_a_name_that_is_no_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"\xff.html")
    assert cli.main(["live", "--out", name, "--n", "1", "--image-size", "24"]) == 0
    assert is_made_here(name)


@pytest.mark.long
def test_what_a_command_wrote_it_may_write_again(theirs, tmp_path, monkeypatch, capsys):
    """Every writer's file is known as ours, those of an earlier run too."""
    monkeypatch.chdir(tmp_path)
    size = ("--image-size", "24", "--n", "2")
    suffixes = {"latex": ["tex"], "markdown": ["md"], "out": ["html"]}
    drawn = {name: ["png", "pdf", "svg"] for name in ("figure", "maps", "draw")}
    for command, writers in WRITERS.items():
        if command.split()[0] in (
            "grade",
            "seal",
            "export",
            "score",
            "leaderboard",
            "metrics",
            "demo",
        ):
            continue
        quick = size if command.split()[0] in ("test", "compare", "metric", "live") else ()
        if "verify" in command or "reproduce" in command:
            quick = ("--quick",) if "reproduce" in command else ()
        for turn in range(max(len((suffixes | drawn).get(name, [1])) for name in writers)):
            paths = []
            for name in writers:
                known = (suffixes | drawn).get(name, [name])
                paths += [f"--{name}", f"{name}.{known[turn % len(known)]}"]
            for _ in range(2):
                assert cli.main([*command.split(), *quick, *paths]) != 2, capsys.readouterr().err
            assert all(map(is_made_here, paths[1::2])), paths
