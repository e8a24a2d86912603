"""The command that writes the cards of metrics: its folder, its table, what it refuses."""

import pandas as pd
import pytest

from attributionlab.cli import main
from attributionlab.verdicts import CheckReport

WORDS = ["cards", "--image-size", "12", "--n", "2", "--dose", "share=0,1", "--jobs", "1"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder to write in, and checks that find nothing."""
    monkeypatch.chdir(tmp_path)
    passed = CheckReport("checked", True, (), 0, None)
    monkeypatch.setattr(
        "attributionlab.verdicts.metric_trials.check.checked", lambda *given, **options: passed
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
