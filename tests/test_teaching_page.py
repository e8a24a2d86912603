"""The lecturer's guide: its table is that of the notebooks, its samples get the verdicts stated."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import attributionlab as al
from pages import times

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def rows_after(heading: str) -> list[list[str]]:
    """The cells of the first table behind a heading, without its first two lines."""
    table = re.search(r"^\|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE.partition(heading)[2], re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[1].splitlines()]


def lesson(*cells: tuple[str, str]) -> dict:
    return {"cells": [{"cell_type": kind, "source": source} for kind, source in cells]}


def test_minutes_are_those_of_words_lines_questions_and_exercises():
    question = 'prediction = None  # a number\ngate = al.course.predict("x.1", prediction)'
    notebook = lesson(
        ("markdown", "word " * 240),  # 2 minutes
        ("code", question),  # 6
        ("code", "line = 1\n\n" * 15),  # 1
        ("code", "if gate:\n    gate.check(f())\n" * 40),  # closed
        ("markdown", "word " * 120 + "\n## Exercises\n" + "word " * 240),  # 1, and 2 at home
        ("code", question),  # 8
        ("code", question.replace("a number", '"ready" once it is written')),  # 15
    )
    assert times(notebook) == (1, 10, 2, 25)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_fits_into_a_session(path):
    """Of 75 minutes 50 are for work in pairs, as docs/teaching.md says; exercises are homework."""
    _, minutes, *_ = times(json.loads(path.read_text(encoding="utf-8")))
    assert minutes <= 50


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_is_in_the_guide_and_has_a_slide(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    for heading in ("# Teaching", "## Computing time"):
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
