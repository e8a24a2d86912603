"""The command that tests a metric: what it prints, writes and refuses."""

import json

import pytest
import typer

from attributionlab import AttributionLabError
from attributionlab.cli.studies import run_metric_test

METRICS = """
import attributionlab as al

def size(attributions, truth):
    return al.metrics.parts_f1(attributions, truth.char())["positive"]

def misfit(attributions, truth):
    return -size(attributions, truth)

class Scorer:
    def __call__(self, attributions):
        return attributions.sum((1, 2, 3))

    @property
    def higher_is_better(self):
        raise RuntimeError("boom")

scorer = Scorer()
def foreground(model, images, targets, attributions, *, replacement):
    return (attributions * (images != replacement).any(1, keepdim=True)).sum((1, 2, 3))
"""
DESIGN = """
claim = "c"
formula = "f"
source = "s"
builder = "color-sum"
dataset = "images.toml"
"""
IMAGES = """
generator = "color-patches"
size = 4
seed = 0
[constants]
image_size = 12
colors = [[220, 120, 20], [220, 20, 120]]
background = [20, 20, 20]
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the command in a folder with a small environment and two metrics."""
    (tmp_path / "mine.py").write_text(METRICS)
    (tmp_path / "small.toml").write_text(DESIGN)
    (tmp_path / "images.toml").write_text(IMAGES)
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(run_metric_test)

    def run(*arguments, status=3):
        words = ["--env", "small.toml", "--n", "2", *arguments]
        assert app(words, standalone_mode=False) == status
        return capsys.readouterr().out

    return run


def test_it_prints_the_verdict_every_dose_and_what_they_mean(run):
    shown = run("insertion", "--method", "saliency", "--dose", "share=0,1", "--dose", "strength=2")
    title = "insertion (higher is better) on the probability of small, 12 x 12 pixels\nundecided: "
    assert shown.startswith(title)
    assert "swap contrast" in shown
    assert "sparsity (blind)" in shown
    assert "exact for the twin" in shown
    assert "120 attributions, mean over 2 images; threshold 0.5" in shown
    assert "what varies" in shown
    assert "n = 2: intervals" in shown
    assert "distance" not in shown.partition("\nby dose")[2].partition("\n-")[0]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["mine.py:foreground", "--n", "2"], 1, "blind: the swap contrast is 0"),
        (["mine.py:foreground", "--lower-is-better"], 1, "blind: "),
        (["sparsity"], 1, "blind: "),
        (["mine.py:size", "--n", "6"], 0, "valid: agreement 0."),
        (["mine.py:misfit", "--n", "6"], 1, "pass higher_is_better=False"),
        (["mine.py:misfit", "--n", "6", "--lower-is-better"], 0, "valid: agreement 0."),
    ],
)
def test_the_exit_status_is_the_verdict(run, arguments, status, said):
    assert said in run(*arguments, "--dose", "share=0", status=status)


def test_files_hold_the_report_and_the_table(run, tmp_path):
    files = ["--json", "report.json", "--csv", "table.csv", "--html", "page.html"]
    run("mine.py:size", *files, "--figure", "figure.png", "--threshold", "0.9")
    document = json.loads((tmp_path / "report.json").read_text())
    assert (document["metric"], document["threshold"]) == ("size", 0.9)
    assert document["breaks"] == {}  # nothing is said of axes that it never sees
    assert document["verdict"] == "undecided"
    assert (tmp_path / "table.csv").read_text() == (
        "metric,axis,dose,unseen,ranked_by,correlation,low,high,oracle,shapley,best,best_map\n"
    )
    assert "size (higher is better)" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_size_of_images_is_chosen(run):
    shown = run("mine.py:foreground", "--image-size", "16", "--dose", "share=0", status=1)
    assert "16 x 16 pixels" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["insertions"], "no metric named 'insertions': did you mean 'insertion'?"),
        (
            ["max-sensitivity"],
            "max-sensitivity cannot be tested: .*metrics.max_sensitivity instead",
        ),
        (["insertion", "--lower-is-better"], "insertion says itself which is better"),
        (["insertion", "--json", "small.toml"], "--json is 'small.toml', which is read"),
        (["mine.py:nothing"], "nothing"),
        (["insertion", "--output", "class"], "output is 'class'"),
        (["mine.py:scorer"], r"'higher_is_better' of Scorer .*boom \(mine.py, line \d+\): let"),
        (["insertion", "--quick", "--image-size", "24"], "--quick means 72, give one of them"),
        (["insertion", "--dose", "share"], "--dose is 'share': write AXIS=NUMBER"),
        (["insertion", "--dose", "share=0;1"], "--dose is 'share=0;1': write AXIS=NUMBER"),
        (["insertion", "--dose", "sharing=1"], "no axis named 'sharing': did you mean 'share'?"),
        (["insertion", "--figure", "a.svg"], "--figure is 'a.svg': figures are PNG files"),
    ],
)
def test_what_cannot_be_done_is_refused(run, arguments, message):
    with pytest.raises(AttributionLabError, match=message):
        run(*arguments)
