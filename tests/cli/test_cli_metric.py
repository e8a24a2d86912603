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

    def run(*arguments):
        app(["--env", "small.toml", "--n", "2", *arguments], standalone_mode=False)
        return capsys.readouterr().out

    return run


def test_it_prints_every_dose_and_what_they_mean(run):
    shown = run("pointing-game", "--method", "saliency")
    assert shown.startswith("pointing-game (higher is better) on the probability of small\n\n")
    assert "strength" in shown
    assert "120 attributions, mean over 2 images; threshold 0.5" in shown
    assert "what varies" in shown
    assert "n = 2: intervals" in shown


def test_files_hold_the_report_and_the_table(run, tmp_path):
    run("mine.py:size", "--json", "report.json", "--csv", "table.csv", "--threshold", "0.9")
    document = json.loads((tmp_path / "report.json").read_text())
    assert (document["metric"], document["threshold"]) == ("size", 0.9)
    assert document["breaks"]["positive"] == dict.fromkeys(document["breaks"]["positive"])
    assert (tmp_path / "table.csv").read_text().startswith("metric,axis,dose")


def test_a_metric_whose_lower_scores_are_better_is_told_so(run, tmp_path):
    run("mine.py:misfit", "--lower-is-better", "--json", "report.json")
    document = json.loads((tmp_path / "report.json").read_text())
    assert not document["higher_is_better"]
    found = document["doses"][0]["correlations"]["positive"]["value"]
    assert found == pytest.approx(1, abs=1e-12)


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
    ],
)
def test_what_cannot_be_done_is_refused(run, arguments, message):
    with pytest.raises(AttributionLabError, match=message):
        run(*arguments)
