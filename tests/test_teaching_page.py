"""The lecturer's guide: its table is that of the notebooks, its samples get the verdicts stated."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import attributionlab as al
from pages import expected_mistakes

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def rows_after(heading: str) -> list[list[str]]:
    """The cells of the first table behind a heading, without its first two lines."""
    table = re.search(r"^\|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE.partition(heading)[2], re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[1].splitlines()]


def test_a_hint_stands_beside_the_gate_that_was_asked_last():
    sources = [
        'prediction = None  # a number\ngate = al.course.predict("x.1", prediction)',
        'if gate:\n    gate.check(f(), hints={(1, 2): "Too " "few.", 2 / 3: "A share."})',
        "if gate.open:\n    other.check(3)",
    ]
    cells = [{"cell_type": "code", "source": each} for each in sources]
    cells.insert(1, {"cell_type": "markdown", "source": 'al.course.predict("y.1"'})
    assert expected_mistakes({"cells": cells}) == [
        ["x.1", "a number", "`1, 2`", "Too few."],
        ["x.1", "a number", "`2 / 3`", "A share."],
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_is_in_the_guide_and_has_a_slide(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    for heading in ("# Teaching", "## Seconds of computing"):
        assert any(row[0].startswith(path.stem[:2]) for row in rows_after(heading)), heading
    assert any(re.search(r"^ *slide\b.* = ", source, re.MULTILINE) for source in sources)


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")  # maps of zeros
@pytest.mark.long
def test_the_samples_of_the_second_assignment_get_their_verdicts():
    rows = rows_after("### 2. A rule")
    assert [row[1] for row in rows] == ["fail", "inconclusive", "pass"]
    for rule, verdict, f1, _ in rows:
        world = al.world(re.match("`(.*?)`", rule)[1], image_size=24)
        method = "feature-ablation-true-baseline"
        report = al.faithfulness_test(method, world, n=13, one_network=True)
        assert (report.verdict, f"{report.least.claim_f1:.2f}") == (verdict, f1), rule


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")  # maps of zeros
@pytest.mark.long
def test_the_samples_of_the_third_assignment_get_their_scores(tmp_path):
    env = al.load("multi-color-sum-in-distribution", image_size=24)
    al.export_environment(env, tmp_path / "assignment", n=16, seed=7)
    masks = np.load(tmp_path / "assignment" / "arrays.npz")["masks"].astype(np.float32)
    submitted = {
        "the exact signs": masks,
        "the same without signs": np.abs(masks),
        "random numbers": np.random.default_rng(0).standard_normal(masks.shape),
    }
    rows = rows_after("### 3. Maps")
    assert [row[0] for row in rows] == list(submitted)
    for sample, *stated in rows:
        np.savez(tmp_path / "maps.npz", submitted[sample])
        report = al.score_export(tmp_path / "assignment", tmp_path / "maps.npz")
        [scores] = report.to_dict()["environments"]
        f1 = [f"{scores[part]['f1']:.2f}" for part in ("overall", "positive", "negative")]
        assert [report.verdict, *f1] == stated, sample


def test_the_snippet_reads_what_the_gates_write(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    al.course.predict("09.2", [1, 1]).check([0, 1])
    al.course.predict("09.2", [0, 1]).check([0, 1])
    capsys.readouterr()
    [snippet] = re.findall(r"```python\n(import json.*?)```", PAGE, re.DOTALL)
    exec(snippet, {})
    assert capsys.readouterr().out == "09.2 ['1, 1', '0, 1']\n"
