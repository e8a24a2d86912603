"""Experiments are found by name, run from the command line, and write what they found."""

import json

import pandas as pd
import pytest
from matplotlib.figure import Figure

from attributionlab import AttributionLabError
from attributionlab.cli import app as cli
from attributionlab.papers import registry
from attributionlab.papers.catalog import items
from attributionlab.papers.registry import EXPERIMENTS, experiment
from attributionlab.papers.reproduction import Reproduction


@pytest.fixture
def tiny(monkeypatch):
    """An experiment that takes no time."""

    def run(*, n, quick, seed=0, show_progress=False, weights=None):
        table = pd.DataFrame({"n": [n], "quick": [quick], "seed": [seed], "weights": [weights]})
        return Reproduction("tiny", "a title", {"table": table}, {"figure": Figure()}, ["it is so"])

    monkeypatch.setitem(registry.EXPERIMENTS, "tiny", run)


def test_an_unknown_item_is_refused_with_the_nearest():
    with pytest.raises(AttributionLabError, match="did you mean 'figure-17'"):
        experiment("figure-171", n=1)


def test_settings_reach_the_experiment_and_unknown_ones_are_refused(tiny):
    outcome = experiment("tiny", n=1, quick=True, settings={"weights": "file"})
    assert outcome.tables["table"].weights[0] == "file"
    assert outcome.run == {"n": 1, "quick": True, "seed": 0, "weights": "file"}
    with pytest.raises(AttributionLabError, match="tiny has no setting 'weight': did you mean"):
        experiment("tiny", settings={"weight": "file"})
    with pytest.raises(AttributionLabError, match="tiny has no setting 'seed'"):
        experiment("tiny", settings={"seed": 1})


@pytest.mark.parametrize("plan", ["figure-17", "figure-6", "deepshap-signs", "table-1"])
@pytest.mark.parametrize("n", [0, -1, 1.5, True])
def test_an_impossible_number_of_images_is_refused_alike(plan, n):
    with pytest.raises(AttributionLabError, match=f"n is {n!r}: take an integer"):
        experiment(plan, n=n)


def test_items_of_one_run_keep_their_own_names():
    shared = ("figure-16", "figure-17", "figure-2", "figure-19", "figure-23")
    assert len({EXPERIMENTS[item] for item in shared}) == 1
    assert [items()[item].name for item in shared] == [*shared]


def test_a_terminal_shows_what_it_has_room_for_and_names_the_rest(monkeypatch, capsys):
    place = {"environment": ["here"] * 2, "method": ["a", "b"]}
    tables = {
        "own": pd.DataFrame({**place, "rank": [1.5, 1.5]}),
        "places": pd.DataFrame({"environment": ["here", "there"], "rank": [1.0, 2.0]}),
        "more": pd.DataFrame({"x": [1.0]}),
        "long": pd.DataFrame({"x": range(1234)}),
    }
    shown = {"own": "1 is best", "places": "by environment", "long": "very"}
    sentence = "word " * 60
    outcome = Reproduction("tiny", "a title", tables, {}, [sentence, "short"], shown)
    monkeypatch.setitem(
        registry.EXPERIMENTS, "tiny", lambda *, n, quick, seed, show_progress: outcome
    )
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["reproduce", "tiny"]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert lines[2:4] == ["own, here", "(1 is best)"]
    assert lines[4].split() == ["method", "rank"]
    assert [line.split() for line in lines[9:11]] == [
        ["(by", "environment)"],
        ["environment", "rank"],
    ]
    assert "More tables with --out DIR: more (1 row), long (1,234 rows)." in lines
    assert max(map(len, lines)) <= 80
    assert "\n\n- word word" in printed
    assert "\n  word word" in printed
    assert printed.endswith("\n\n- short\n")
    assert list(tables["own"]) == ["environment", "method", "rank"]


def test_the_command_prints_and_writes_everything(tiny, tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    arguments = ["reproduce", "tiny", "--n", "3", "--quick", "--seed", "5", "--out", str(out)]
    assert cli.main([*arguments, "--set", "weights=w.pth"]) == 0
    printed = capsys.readouterr().out
    assert "tiny: a title" in printed
    assert "- it is so" in printed
    assert {path.name for path in out.iterdir()} == {
        *("tiny.json", "tiny-table.csv", "tiny-figure.png")
    }
    table = pd.read_csv(out / "tiny-table.csv")
    assert list(table.iloc[0]) == [3, True, 5, "w.pth"]
    summary = json.loads((out / "tiny.json").read_text(encoding="utf-8"))
    assert summary["findings"] == ["it is so"]
    assert summary["command"].startswith("attributionlab reproduce tiny --n 3")
    assert "torch" in summary["versions"]
    assert summary["run"] == {"n": 3, "quick": True, "seed": 5, "weights": "w.pth"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tinny"], "did you mean 'tiny'"),
        (["tiny", "--n", "0"], "n is 0"),
        (["tiny", "--set", "weights"], "write KEY=VALUE"),
    ],
)
def test_a_wrong_command_is_2_and_one_line(tiny, arguments, message, capsys):
    assert cli.main(["reproduce", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_folder_that_cannot_be_is_refused_before_the_run(tiny, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["reproduce", "tiny", "--out", str(tmp_path / "file")]) == 2
    captured = capsys.readouterr()
    assert "cannot be a folder" in captured.err
    assert captured.out == ""
