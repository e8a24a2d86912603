"""docs/sealed-laboratories.md: the student's script runs, and the table has the points."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import attributionlab as al
from attributionlab.teaching.sealed.questions import POINTS
from attributionlab.teaching.sealed.submission import read_submission
from sealed_cases import IMAGES, SIDE, sealed

PAGE = (Path(__file__).parents[1] / "docs" / "sealed-laboratories.md").read_text(encoding="utf-8")


def test_the_table_has_the_points_of_every_question():
    rows = re.findall(r"^\| [ABC] `(\w+)` \| (\d+) \|", PAGE, re.MULTILINE)
    assert {name: int(points) for name, points in rows} == POINTS


@pytest.mark.long
def test_the_students_script_opens_a_laboratory_and_saves_maps(tmp_path):
    sealed(tmp_path)
    [script] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.match(r"outputs: \[[\d., -]+\]\na: \d+ pixels, [+-]\d+\.\d\d\n", done.stdout)
    found = read_submission(tmp_path, al.open_laboratory(tmp_path / "lab.zip").spec)
    assert found.maps.shape == (IMAGES, 1, SIDE, SIDE)
