"""The command `slides`: a deck, with one figure of each notebook, whose questions are skipped."""

import json
from pathlib import Path

import matplotlib.image
import pytest

from attributionlab.cli import app as cli

ASK = """%matplotlib inline
import attributionlab as al
prediction = None  # a number
gate = al.course.predict("x.1", prediction)"""
DRAW = """if gate:
    gate.check(2)
    print("the answer is 2")
if gate.open:
    from matplotlib.figure import Figure
    slide = Figure(figsize=(2, 1))
    slide.subplots().plot([0, 2])
    display(slide)
"""


OWN = ("--notebooks", "notebooks")
"""Notebooks of one's own, in place of the course."""


def write(path: Path, *sources: str) -> None:
    remember = "## What to remember\n\n- Not --> this\n\n## Exercises\nmore"
    cells = [
        {"cell_type": "markdown", "id": "title", "source": "# A lesson\n1 / 0\n**Time.** 3"},
        {"cell_type": "markdown", "id": "remember", "source": remember},
    ]
    cells += [
        {"cell_type": "code", "id": f"cell-{k}", "source": source.splitlines(keepends=True)}
        for k, source in enumerate(sources)
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a course of two notebooks."""
    monkeypatch.chdir(tmp_path)
    for name in ("01_one", "02_two"):
        write(tmp_path / "notebooks" / f"{name}.ipynb", ASK, DRAW, "1 / 0  # behind the slide")
    return tmp_path


def test_each_notebook_is_run_up_to_its_slide(folder, capsys):
    assert cli.main(["slides", "--out", "figures", *OWN]) == 0
    names = ["01_one.png", "02_two.png", "deck.md"]
    assert capsys.readouterr().out.split() == [str(Path("figures", name)) for name in names]
    assert sorted(path.name for path in (folder / "figures").iterdir()) == names
    height, width, _ = matplotlib.image.imread(folder / "figures" / names[0]).shape
    assert (width, height) == (1919, 1080)  # 16:9, as the deck
    head, first, figure, *_ = (
        (folder / "figures" / "deck.md").read_text("utf-8").split("\n\n---\n\n")
    )
    assert "marp: true" in head
    assert "size: 16:9" in head
    assert head.endswith("# A lesson\n1 / 0\n\n<!--\nAsk for a vote before the next slide.\n-->")
    assert first == "![bg fit](01_one.png)\n\n<!--\n- Not -> this\n-->"
    assert figure.startswith("# A lesson")


def test_tries_of_the_lecturer_are_not_counted(folder):
    assert cli.main(["slides", "--out", "figures", *OWN]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["figures", "notebooks"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param("half = 1 / 0", ("cell-1", "ZeroDivisionError", "fresh copy"), id="raises"),
        pytest.param("def", ("cell-1", "SyntaxError", "fresh copy"), id="no-python"),
        pytest.param("figure = 3", ("no slide", "'slide'"), id="no-slide"),
        pytest.param("slide = 'a title'", ("no slide", "'slide'"), id="slide-is-no-figure"),
    ],
)
def test_a_notebook_that_draws_no_slide_is_refused_by_name(folder, capsys, source, words):
    before = b"Software\0AttributionLab: of before"  # another one would not be replaced
    (folder / "figures").mkdir()
    (folder / "figures" / "02_two.png").write_bytes(before)
    write(folder / "notebooks" / "02_two.ipynb", ASK, source)
    assert cli.main(["slides", "--out", "figures", *OWN]) == 2
    (line,) = [
        each for each in capsys.readouterr().err.splitlines() if each.startswith("attributionlab:")
    ]
    assert all(word in line for word in ("02_two", *words))
    assert (folder / "figures" / "02_two.png").read_bytes() == before
    assert Path.cwd() == folder


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"cells": 3}', '{"cells": [{"cell_type": "code"}]}', "\udcff", "[" * 100_000],
    ids=["empty", "list", "number", "no-source", "no-utf-8", "deep"],
)
def test_what_is_no_notebook_is_refused_before_any_runs(folder, capsys, text):
    broken = folder / "notebooks" / "03_three.ipynb"
    broken.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert cli.main(["slides", "--out", "figures", *OWN]) == 2
    error = capsys.readouterr().err
    assert "03_three.ipynb" in error
    assert "fresh copy" in error
    assert not (folder / "figures").exists()
