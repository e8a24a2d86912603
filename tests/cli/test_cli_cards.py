"""The command that writes the cards of metrics: its folder, its table, what it refuses."""

import pandas as pd
import pytest

from attributionlab.cli import main
from attributionlab.cli.app import REFUSED
from attributionlab.verdicts import CheckReport
from attributionlab.verdicts import cards as card

WORDS = ["cards", "--image-size", "12", "--n", "2", "--dose", "share=0,1", "--jobs", "1"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder to write in, and checks that find nothing."""
    monkeypatch.chdir(tmp_path)
    passed = CheckReport("checked", True, (), 0, None)
    monkeypatch.setattr(
        "attributionlab.verdicts.metric_trials.test.checked", lambda *given, **options: passed
    )


@pytest.mark.long
def test_it_writes_the_page_the_table_and_the_cards_and_prints_the_table(tmp_path, capsys):
    assert main([*WORDS, "precision", "max-sensitivity", "--out", "new"]) == 0
    said = capsys.readouterr()
    assert "written: new/index.html" in said.err.replace("\\", "/")
    assert "11 maps" in " ".join(said.out.split())  # the column may be narrow
    names = {path.name for path in (tmp_path / "new").glob("*.*ml")}
    assert names == {"index.html", "precision.html", "max-sensitivity.html"}
    page = (tmp_path / "new" / "index.html").read_text(encoding="utf-8")
    assert '<a href="precision.html">precision</a>' in page
    assert "attributionlab cards --image-size 12 --n 2 --dose share=0,1 --jobs 1" in page
    table = pd.read_csv(tmp_path / "new" / "table.csv").set_index("metric")
    assert table.loc["precision", "verdict"] == "undecided"
    assert "explain changed images" in table.loc["max-sensitivity", "not_examined"]
    card = (tmp_path / "new" / "precision.html").read_text(encoding="utf-8")
    assert "sum |a g| / sum |a|" in card
    assert "n = 2 questions" in card


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "a", "insertions"], "no metric named 'insertions': did you mean 'insertion'?"),
        (["--out", "a", "--quick"], "--image-size is 12, --quick takes 72: leave one of them out"),
        (["--out", "a", "--dose", "share"], "--dose is 'share': write AXIS=NUMBER"),
        (["--out", "table.txt"], "'table.txt' cannot be a folder"),
        (["insertion"], "--out"),
    ],
    ids=["name", "size", "dose", "folder", "no-folder"],
)
def test_what_cannot_be_done_is_refused(words, message, tmp_path, capsys):
    (tmp_path / "table.txt").write_text("mine")
    assert main([*WORDS, *words]) == REFUSED
    assert message in capsys.readouterr().err
    assert (tmp_path / "table.txt").read_text() == "mine"


def test_a_folder_in_the_way_of_a_file_is_said_before_the_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(card, "metric_cards", None)
    for name in ("index.html", "table.csv", "precision.html"):
        (tmp_path / name / "out" / name).mkdir(parents=True)
        assert main([*WORDS, "precision", "--out", str(tmp_path / name / "out")]) == REFUSED
        assert f"{name}' is a folder: give the path of a file" in capsys.readouterr().err
