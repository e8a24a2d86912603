"""The README's pictures show what today's code says."""

import importlib.util
import json
from pathlib import Path

import pytest
from PIL import Image

from attributionlab.verdicts import DEFAULT_ENVIRONMENTS

REPOSITORY = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("pictures", REPOSITORY / "docs" / "pictures.py")
pictures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pictures)
RECOMPUTED = "multi-color-sum-distractors"


@pytest.mark.parametrize("name", pictures.COMMANDS)
def test_each_picture_names_its_command_and_stands_in_the_readme(name):
    texts = Image.open(REPOSITORY / "docs" / "images" / name).text
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert texts["Command"] == pictures.COMMANDS[name]
    assert f"docs/images/{name})" in readme
    assert pictures.METHOD in readme


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")  # of the nodes
def test_the_verdicts_and_scores_that_are_drawn_are_those_of_the_code(tmp_path):
    results = [
        json.loads(Image.open(REPOSITORY / "docs" / "images" / name).text["Result"])
        for name in pictures.COMMANDS
    ]
    assert results[0] == results[1]
    drawn = results[0]["environments"]
    assert list(drawn) == list(DEFAULT_ENVIRONMENTS)
    # One of the four, since each takes long.
    command = f"attributionlab test {pictures.METHOD} --env {RECOMPUTED} --csv scores.csv"
    found, _ = pictures.run(command, tmp_path)
    again = pictures.said(found)["environments"][RECOMPUTED]
    assert again == drawn[RECOMPUTED]
