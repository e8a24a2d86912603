"""The README's pictures show what today's code says."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
from PIL import Image

REPOSITORY = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("pictures", REPOSITORY / "docs" / "pictures.py")
pictures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pictures)


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
    names = re.findall(r"--env (\S+)", pictures.METHOD)
    assert list(drawn) == [each for name in names for each in (name, f"{name} (natural)")]
    found, _ = pictures.run(f"attributionlab test {pictures.METHOD} --csv scores.csv", tmp_path)
    assert pictures.said(found) == results[0]
