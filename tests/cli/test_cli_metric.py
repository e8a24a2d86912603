"""The command that tests a metric: what it prints, writes and refuses."""

import json
import shutil
from types import SimpleNamespace

import pytest
import typer

from attributionlab.cli import main, options
from attributionlab.cli.app import INTERRUPTED
from attributionlab.cli.studies import _next, run_metric_test
from attributionlab.runs import Store, run_cells
from cli.command_line import FILES
from schemas import problems
from store_cases import numbers

METRICS = """
import attributionlab as al

def size(attributions, truth):
    return al.metrics.parts_f1(attributions, truth.char())["positive"]

def misfit(attributions, truth):
    return -size(attributions, truth)

def foreground(model, images, targets, attributions, *, replacement):
    return (attributions * (images != replacement).any(1, keepdim=True)).sum((1, 2, 3))

drawn = __import__("numpy").random.default_rng(0)

def draws(attributions):
    return drawn.normal(size=len(attributions))
"""


STOPPING = """
import os

def seen(model, images, targets, attributions, *, truth, seed):
    with open("asked.txt", "a+") as file:
        file.seek(0)
        asked = file.read().split()
        if str(seed) not in asked:
            if len(asked) == int(os.environ.get("STOP_AT", "-1")):
                raise KeyboardInterrupt
            file.write(f"{seed} ")
    return (attributions * truth).sum((1, 2, 3)) FACTOR
"""


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """The command in a folder with a small environment and metrics of a user."""
    (tmp_path / "mine.py").write_text(METRICS)
    small = FILES["four.toml"].replace("24", "12").replace(", [120, 220, 20], [20, 220, 120]", "")
    (tmp_path / "small.toml").write_text(FILES["colors.toml"])
    (tmp_path / "four.toml").write_text(small)
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(run_metric_test)
    return app


@pytest.fixture
def run(trial, unchecked, capsys):
    """Runs the trial of a metric whose code has no fault."""

    def run(*arguments, status=3):
        words = ["--env", "small.toml", "--n", "2", *arguments]
        assert trial(words, standalone_mode=False) == status
        return capsys.readouterr().out

    return run


@pytest.mark.long
def test_it_prints_the_verdict_every_dose_and_what_they_mean(run):
    doses = ["--dose", "share=0,1", "--dose", "strength=2"]
    shown = run("insertion", "--method", "saliency", *doses, "--verbose")
    title = "insertion (higher is better) on the probability of small (small.toml, "
    assert shown.startswith(f"checked: no fault ()\n{title}")
    assert "swap contrast" in shown
    assert "sparsity (blind)" in shown
    assert "exact for the counterpart" in shown
    assert "120 attributions, mean over 2 questions; threshold 0.5" in shown
    assert "what varies" in shown
    assert "n = 2: intervals" in shown
    assert "distance" not in shown.partition("\nBy dose")[2].partition("\n-")[0]


def test_without_verbose_it_prints_what_decides_and_what_to_do(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    lines = run("mine.py:size", "--dose", "share=0,1", "--n", "6", status=0).splitlines()
    assert len(lines) <= 35
    assert max(map(len, lines)) <= 100
    words = " ".join(lines)
    assert "6 questions of 12 x 12 pixels, seed 0 valid: agreement " in words
    for column in ("both networks", "own network", "swap contrast", "likeness"):
        assert f"{column}: " in words
    head = lines.index(
        "Agreement with the truth, beside controls that see almost nothing of a network"
    )
    assert lines[head + 2].split()[:3] == ["metric", "networks", "network"]
    rows = [line.split()[0] for line in lines[head + 3 : head + 8]]
    assert rows == ["size", "foreground-share", "edge-share", "sparsity", "one-pixel"]
    assert "Next: other environments (--env quadrants)" in lines[-2]
    assert lines[-1].startswith("More: --verbose")
    assert lines[-1].endswith(", --html PATH, --json PATH.")
    page = ["--html", "page.html", "--dose", "share=0,1", "--n", "6", "--quick"]
    shown = run("mine.py:size", *page, status=0)
    assert shown.rstrip().endswith("columns), --json PATH.")
    # Beside the verdict, which rests on it.
    assert shown.index("This is a first look") < shown.index("Does this metric")
    assert not [line for line in lines if line.startswith("By dose")]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("of_all", "found: more.py:of_all returned the shape () for 4 attributions: return one"),
        (
            "renamed",
            "more.py:renamed takes (attributions, *, baseline) ... rename baseline to",
        ),
    ],
)
def test_a_metric_is_called_by_its_file_and_name(trial, tmp_path, capsys, name, said):
    (tmp_path / "more.py").write_text(
        "def of_all(attributions): return attributions.sum()\n"
        "def renamed(attributions, *, baseline): return attributions.sum((1, 2, 3))\n"
    )
    words = ["metric", f"more.py:{name}", "--env", "small.toml", "--quick"]
    assert main(words) == (1 if name == "of_all" else 2)
    shown = capsys.readouterr()
    told = " ".join((shown.out + shown.err).split())
    assert not [part for part in said.split(" ... ") if part not in told], told


def test_a_quick_trial_is_smaller_unless_it_is_told(tmp_path):
    def tried(**given):
        unset = dict.fromkeys(("n", "image_size", "dose"))
        asked = {"env": "multi-color-sum", "seed": 0, "isolated": True, **unset, **given}
        found = options._tried(asked)
        return found.get("n"), found["env"].image_shape[-1], found["doses"]

    assert tried(quick=False) == (None, 72, None)
    assert tried(quick=True) == (6, 32, {"strength": (0, 1)})
    told = tried(quick=True, n=8, image_size=16, dose=["share=1"])
    assert told == (8, 16, {"share": [1]})
    assert tried(quick=True, env="quadrants")[2] is None


@pytest.mark.parametrize(
    ("verdict", "quick", "where", "said"),
    [
        ("valid", False, "quadrants", "--env multi-color-sum"),
        (
            "valid",
            True,
            "quadrants",
            "5 times as long as this run (10 s):\n  metric f --n 6 --seed 2",
        ),
        (
            "undecided",
            True,
            "a",
            "2 times as long as this run (10 s):\n  metric f --seed 2 --quick --n 16",
        ),
        ("undecided", False, "a", ""),
        ("blind", True, "a", ""),
        ("reversed", True, "a", ""),
    ],
)
def test_what_comes_next_may_change_the_verdict(verdict, quick, where, said):
    command = "metric f --n 6 --seed 2" + " --quick" * quick
    report = SimpleNamespace(
        verdict=verdict, quick=quick, environment=where, command=command, n=6, stopped=False
    )
    report.trial = SimpleNamespace(lead=True, ranked=6)
    assert said in "\n".join(_next(report, 10.0))
    assert bool(said) == bool(_next(report, 10.0))
    assert not [line for line in _next(report, 10.0) if "\n" in line]  # as these are made printable


def test_a_metric_without_a_direction_is_not_taken_for_a_method(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.py").write_text("def mine(model, images, targets, attributions): return 1\n")
    assert main(["unseen", "more.py:mine"]) == 2
    told = capsys.readouterr().err
    assert "more.py:mine takes attributions, so it is a metric" in told
    assert "@metric(higher_is_better=True)" in told


def test_what_was_interrupted_before_anything_was_done_leaves_no_folder(capsys):
    def work(done):
        with options.kept_in(None) as folder, Store(folder) as store:
            folders.append(folder)
            list(run_cells(numbers(done), store))
            raise KeyboardInterrupt

    folders = []
    for done in (0, 1):
        with pytest.raises(KeyboardInterrupt):
            work(done)
    assert [each.exists() for each in folders] == [False, True]
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("nothing was finished")
    assert said[1].endswith(f"--out {folders[1]}")
    shutil.rmtree(folders[1])


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["mine.py:foreground", "--n", "2"], 1, "blind: the swap contrast is 0"),
        (["mine.py:foreground", "--lower-is-better"], 1, "blind: "),
        (["sparsity", "--image-size", "16"], 1, "questions of 16 x 16 pixels, seed"),
        (["mine.py:size", "--n", "6"], 0, "valid: agreement 0."),
        (["mine.py:misfit", "--n", "6"], 1, "pass higher_is_better=False"),
        (["mine.py:misfit", "--n", "6", "--lower-is-better"], 0, "valid: agreement 0."),
    ],
)
def test_the_exit_status_is_the_verdict(run, arguments, status, said):
    assert said in " ".join(run(*arguments, "--dose", "share=0", status=status).split())


@pytest.mark.long
def test_files_hold_the_report_and_the_table(run, tmp_path):
    files = ["--json", "report.json", "--csv", "table.csv", "--html", "page.html"]
    run("mine.py:size", *files, "--figure", "figure.png", "--threshold", "0.9")
    document = json.loads((tmp_path / "report.json").read_text())
    assert problems(document, "metric") == problems(document["checks"], "metric", "check") == []
    assert (document["metric"], document["threshold"]) == ("size", 0.9)
    assert document["checks"]["passed"] is True
    assert document["breaks"] == {}  # nothing is said of axes that it never sees
    assert document["verdict"] == "undecided"
    assert (tmp_path / "table.csv").read_text() == (
        "metric,axis,dose,unseen,ranked_by,correlation,low,high,oracle,shapley,best,best_map\n"
    )
    assert "size (higher is better)" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_a_stopped_test_writes_its_files_and_the_same_command_goes_on(
    run, tmp_path, monkeypatch, capsys
):
    def write(factor):
        (tmp_path / "mine.py").write_text(STOPPING.replace("FACTOR", factor))

    def asked():
        path = tmp_path / "asked.txt"
        words = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return len(words)

    def written():
        document = json.loads((tmp_path / "a.json").read_text())
        return {key: each for key, each in document.items() if key != "command"}

    words = ["mine.py:seen", "--n", "3", "--dose", "share=0", "--json", "a.json", "--jobs", "1"]
    write("")
    run(*words)
    assert asked() == 3
    undisturbed = written()
    monkeypatch.setenv("STOP_AT", "2")
    assert main(["metric", "--env", "small.toml", *words, "--out", "kept"]) == INTERRUPTED
    said = capsys.readouterr()
    assert "2 of 3 questions were done: seen undecided\ninterrupted" in said.err
    assert "stopped after 2 of 3 questions" in " ".join(said.out.split())
    assert written()["n"] == asked() == 2
    assert written()["notes"][0].startswith("Stopped after 2 of 3 questions")
    monkeypatch.delenv("STOP_AT")
    run(*words, "--out", "kept")
    assert asked() == 1
    assert written() == undisturbed
    run(*words, "--out", "kept")
    assert asked() == 0
    write("* 2")  # another metric under the same name
    run(*words, "--out", "kept")
    assert asked() == 3
    assert written() != undisturbed


@pytest.mark.long
def test_without_a_folder_what_is_done_stays_where_it_is_said(run, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(STOPPING.replace("FACTOR", ""))
    monkeypatch.setenv("STOP_AT", "1")
    words = ["mine.py:seen", "--n", "3", "--dose", "share=0", "--json", "a.json"]
    assert main(["metric", "--env", "small.toml", *words]) == INTERRUPTED
    assert not (tmp_path / "a.json").exists()
    said = capsys.readouterr().err
    assert "code checked, 1 of 3 questions were done" in said
    monkeypatch.delenv("STOP_AT")
    folder = said.partition("--out ")[2].split()[0]
    run(*words, "--out", folder)
    assert len((tmp_path / "asked.txt").read_text().split()) == 3
    shutil.rmtree(folder)


@pytest.mark.long
def test_a_metric_with_an_error_is_faulty_and_not_tried(trial, tmp_path, capsys):
    words = ["mine.py:draws", "--json", "a.json", "--env", "small.toml"]
    words += ["--lower-is-better", "--csv", "a.csv"]
    assert trial(words, standalone_mode=False) == 1
    shown = capsys.readouterr().out
    assert "not written, as there was no trial of the metric: a.csv" in shown
    assert shown.startswith("draws: faulty (")
    assert "\nfault: repeatable: The same call twice under one global seed\n  expected: " in shown
    assert "\nNext: correct this, then repeat the command" in shown
    assert "swap contrast" not in shown
    document = json.loads((tmp_path / "a.json").read_text())
    assert problems(document, "metric") == []
    assert document["verdict"] == "faulty"
    assert document["sentence"].startswith("faulty: its code has an error")
    assert document["checks"]["passed"] is False
