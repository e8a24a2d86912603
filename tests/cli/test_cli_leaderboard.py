"""The commands that rank methods and metrics: what they print, write and refuse."""

import json

import pytest
import typer

from attributionlab import verdicts
from attributionlab.cli import main
from attributionlab.cli.app import INTERRUPTED
from attributionlab.cli.boards import rank_all_metrics, run_leaderboard
from attributionlab.verdicts import (
    DEFAULT_METHODS,
    DEFAULT_METRICS,
    PAIRS,
    rank_methods,
    rank_metrics,
)
from schemas import problems


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the command on two pairs and small images; keeps what it was asked."""
    asked = []

    def small(methods, n, seed, **options):
        asked.append((methods, n, seed, options))
        few = methods if methods and len(methods) < 5 else ["lrp", "deconvolution"]
        kept = {name: options[name] for name in ("out", "jobs", "retry_failed")}
        return rank_methods(few, 1, seed, pairs=PAIRS[:2], size=16, **kept)

    monkeypatch.setattr(verdicts, "rank_methods", small)
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(run_leaderboard)

    def run(*arguments):
        app(list(arguments), standalone_mode=False)
        return asked[-1], capsys.readouterr().out

    return run


@pytest.mark.long
def test_it_prints_the_leaderboard_and_what_it_means(run):
    _, shown = run("lrp", "saliency", "--seed", "2")
    assert shown.startswith("2 methods and a control ranked in 4 cases")
    assert "Spearman correlation of the fused ranking with the truth's" in shown
    assert "no unseen data" in shown
    assert "methods behind the control" in shown
    assert "positive" in shown


@pytest.mark.long
def test_options_reach_the_ranking(run):
    (methods, n, seed, options), _ = run(
        "lrp", "saliency", "--quick", "--n", "3", "--seed", "5", "--indicator", "label-probability"
    )
    assert (methods, n, seed) == (["lrp", "saliency"], 3, 5)
    assert options["quick"]
    assert options["indicator"] == "label-probability"


@pytest.mark.long
def test_without_methods_the_default_ones_are_ranked(run):
    (methods, n, _, options), _ = run()
    assert (methods, n, options["quick"]) == (None, None, False)


@pytest.mark.long
def test_all_adds_the_default_methods_once(run):
    (methods, *_), _ = run("--all", "lrp", "sobel")
    assert methods == [*DEFAULT_METHODS, "sobel"]


@pytest.mark.long
def test_it_writes_files(run, tmp_path):
    run("lrp", "saliency", "--json", "a.json", "--csv", "a.csv", "--figure", "a.png")
    document = json.loads((tmp_path / "a.json").read_text())
    assert problems(document, "leaderboard") == []
    assert len(document["leaderboard"]) == 3
    assert (tmp_path / "a.csv").read_text().startswith("method,place,score")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


METHOD = """
import os

def mine(model, inputs, targets):
    with open("calls.txt", "a+") as file:
        file.seek(0)
        if len(file.read()) == int(os.environ.get("STOP_AT", "-1")):
            raise KeyboardInterrupt
        file.write("x")
    return inputs
"""


@pytest.mark.long
def test_a_stopped_ranking_writes_its_files_and_the_same_command_goes_on(
    run, tmp_path, monkeypatch, capsys
):
    (tmp_path / "mine.py").write_text(METHOD)

    def calls():
        found = (tmp_path / "calls.txt").read_text()
        (tmp_path / "calls.txt").write_text("")
        return len(found)

    def written():
        document = json.loads((tmp_path / "a.json").read_text())
        return {key: each for key, each in document.items() if key != "command"}

    words = ["mine.py:mine", "lrp", "saliency", "--json", "a.json", "--jobs", "1"]
    run(*words)
    undisturbed = written()
    assert calls() == 2
    monkeypatch.setenv("STOP_AT", "1")
    assert main(["leaderboard", *words, "--out", "kept"]) == INTERRUPTED
    said = capsys.readouterr()
    assert "1 of 2 pairs were done\ninterrupted" in said.err
    assert "stopped after 1 of 2 pairs" in said.out
    assert calls() == 1
    assert len(written()["cases"]) == 2
    monkeypatch.delenv("STOP_AT")
    run(*words, "--out", "kept")
    assert calls() == 1
    assert written() == undisturbed
    options = run(*words, "--out", "kept", "--retry-failed")[0][3]
    assert calls() == 0
    assert options["retry_failed"]


@pytest.mark.long
def test_environments_are_further_pairs(run):
    options = run("lrp", "saliency", "--env", "quadrants", "--env", "random:2:easy")[0][3]
    assert options["pairs"][:-2] == [*PAIRS]
    assert [pair.environment for pair in options["pairs"][-2:]] == ["quadrants", "random:2:easy"]
    assert {pair.removed_to for pair in options["pairs"][-2:]} == {"true baseline"}


@pytest.fixture
def ranked(monkeypatch):
    """Runs the command that ranks metrics, in one small environment; returns what it was asked."""
    asked = []

    def small(metrics, environments, n, seed, **options):
        asked.append((metrics, environments, n, seed, options))
        kept = {name: options[name] for name in ("out", "jobs")}
        return rank_metrics(metrics and metrics[-1:], "all-four", image_size=24, n=2, **kept)

    monkeypatch.setattr(verdicts, "rank_metrics", small)
    app = typer.Typer()
    app.command()(rank_all_metrics)

    def run(*words):
        app([*words], standalone_mode=False)
        return asked[-1]

    return run


MEASURE = """
def mine(attributions, *, truth):
    return (attributions * truth).sum((1, 2, 3))

mine.higher_is_better = True
"""


@pytest.mark.long
def test_metrics_are_ranked_printed_and_written(ranked, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(MEASURE)
    files = ["--json", "b.json", "--csv", "b.csv", "--figure", "b.png"]
    words = ["f1", "own.py:mine", "--env", "random:3:easy:5", "--seed", "5", "--n", "4"]
    metrics, *others, options = ranked(*words, "--image-size", "30", "--quick", "--cite", *files)
    assert metrics[0] == "f1"
    assert metrics[1].__name__ == "mine"
    assert others == [["random:3:easy:5"], 4, 5]
    assert (options["image_size"], options["quick"]) == (30, True)
    shown = capsys.readouterr().out
    assert shown.startswith("1 metrics in 1 worlds")
    sentence, _, entries = shown.partition("\n1 metrics in 1 worlds")[2].partition("\n\n@software")
    assert ", 2 questions in each, were ranked by their agreement with the truth" in sentence
    assert sentence.endswith(" \\citep{attributionlab-software,attributionlab}.")
    assert "mine: " in sentence
    assert "author" in entries
    assert "mask" in shown.partition("estimates")[2].splitlines()[0]
    document = json.loads((tmp_path / "b.json").read_text())
    assert problems(document, "metrics") == []
    assert document["metrics"][0]["metric"] == "mine"
    assert (tmp_path / "b.csv").read_text().startswith("metric,tested,agreement")
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_what_is_not_given_is_left_to_the_ranking_of_metrics(ranked):
    metrics, *others, options = ranked("--all", "recall", "edge-share")
    assert metrics == [*DEFAULT_METRICS, "edge-share"]
    assert others == [None, 6, 0]
    assert options["image_size"] is None
