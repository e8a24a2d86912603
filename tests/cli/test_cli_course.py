"""The commands `course` and `class`: what students get, and what a lecturer sees of their tries."""

import csv
import json
import re
from pathlib import Path

import pytest

from attributionlab.cli import app as cli
from attributionlab.worlds import specs_folder

NOTEBOOKS = sorted(path.name for path in specs_folder("notebooks").glob("*.ipynb"))
TRIES = {
    "ada": {"01.1": [("0, 1", False), ("1, 1", True)], "01.E1": [("5", True)]},
    "bob": {"01.1": [("0, 1", False)], "10.2": [("skip", None)]},
    "eve": {"01.1": [("1, 1", True)], "02.1": [], "10.2": [("<b>Pass", False), ("skip", None)]},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, gates in TRIES.items():
        made = {
            gate: [{"prediction": text, "right": right} for text, right in tries]
            for gate, tries in gates.items()
        }
        Path(f"{name}.json").write_text(json.dumps({"schema": 1, "gates": made}), "utf-8")
    Path("ada").mkdir()
    Path("ada.json").rename("ada/predictions.json")
    return tmp_path


def test_students_get_the_notebooks_and_nothing_else(folder, capsys):
    assert NOTEBOOKS
    assert cli.main(["course", "--out", "mine"]) == 0
    assert sorted(path.name for path in Path("mine").iterdir()) == NOTEBOOKS
    said = capsys.readouterr().out
    assert "next: jupyter lab mine\n" in said
    assert said.endswith("to install it: pip install jupyterlab\n")
    for name in NOTEBOOKS:
        source = specs_folder("notebooks") / name
        assert Path("mine", name).read_bytes() == source.read_bytes()


def test_in_colab_the_first_cell_installs_what_the_lecturer_says(folder, capsys):
    assert cli.main(["course", "--out", "mine", "--install", "git+https://host/x y"]) == 0
    for name in NOTEBOOKS:
        notebook = json.loads(Path("mine", name).read_text("utf-8"))
        cell = notebook["cells"].pop(1)
        assert notebook == json.loads((specs_folder("notebooks") / name).read_text("utf-8"))
        source = "".join(cell["source"])
        assert "%pip install --quiet 'git+https://host/x y'" in source
        ran = []
        code = re.sub(r"%pip (.*)", lambda found: f"ran.append({found[1]!r})", source)
        exec(code, {"ran": ran})
        assert ran == []  # this is not Colab


def test_the_tries_of_a_class_become_a_row_for_each_gate(folder, capsys):
    assert cli.main(["class", "ada", "bob.json", "eve.json", "--csv", "table.csv"]) == 0
    with open("table.csv", encoding="utf-8", newline="") as file:
        rows = {row.pop("gate"): [*row.values()] for row in csv.DictReader(file)}
    assert list(rows) == ["01.1", "01.E1", "10.2"]
    assert rows["01.1"] == ["3", "1", "1", "0", "1", "1.33", "0, 1", "2"]
    assert rows["01.E1"] == ["1", "1", "0", "0", "0", "1.0", "", "0"]
    assert rows["10.2"] == ["2", "0", "0", "2", "0", "1.5", "<b>pass", "1"]
    assert "01.1" in capsys.readouterr().out


def test_the_page_of_a_class_has_a_bar_for_each_first_prediction_and_no_names(folder):
    assert cli.main(["class", "ada", "bob.json", "eve.json", "--html", "class.html"]) == 0
    page = Path("class.html").read_text("utf-8")
    bars = re.findall(r'<svg class="(\w+)".*?<rect width="([\d.]+)"', page)
    assert bars == [
        ("wrong", "160.0"),  # of 240: two of three students
        ("right", "80.0"),
        ("right", "240.0"),
        ("wrong", "120.0"),
        ("skipped", "120.0"),
    ]
    assert "&lt;b&gt;pass" in page
    assert not any(name in page for name in ("ada", "bob", "eve"))


def test_what_few_students_wrote_is_one_bar_of_each_kind(folder):
    for number in range(12):
        right = {10: True, 9: None}.get(number, False)
        tries = {"01.1": [{"prediction": str(number % 11), "right": right}]}
        Path(f"s{number}.json").write_text(json.dumps({"schema": 1, "gates": tries}), "utf-8")
    assert cli.main(["class", *(f"s{n}.json" for n in range(12)), "--html", "class.html"]) == 0
    page = Path("class.html").read_text("utf-8")
    bars = re.findall(r'<svg class="(\w+)".*?<rect width="([\d.]+)"', page)
    assert [float(width) for _, width in bars] == [40.0, *[20.0] * 7, 40.0, 20.0]
    assert [kind for kind, _ in bars[-2:]] == ["wrong", "skipped"]
    assert page.count("others") == 2
