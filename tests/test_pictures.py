"""The README's pictures show what today's code says."""

import importlib.util
import json
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
    assert pictures.COMMANDS[name] in readme


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")  # of a convention
def test_three_networks_of_one_rule_are_drawn_with_todays_scores(tmp_path):
    picture = REPOSITORY / "docs" / "images" / pictures.HERO
    assert f"docs/images/{pictures.HERO})" in (REPOSITORY / "README.md").read_text("utf-8")
    drawn = json.loads(Image.open(picture).text["Result"])
    found = pictures.three_networks(tmp_path / "drawn.png")
    assert found.keys() == drawn.keys()
    for network, scores in drawn.items():
        assert found[network] == pytest.approx(scores, abs=0.02)  # of rounding on other processors
    right = {
        network: [name for name, f1 in scores.items() if f1 > pictures.SOLVED]
        for network, scores in drawn.items()
    }
    paper, natural, trained = right.values()  # as the caption says
    assert "saliency" in paper
    assert "saliency" not in natural + trained
    assert natural == trained != paper
    assert all("feature-ablation-true-baseline" in each for each in right.values())


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")  # of nodes and of zeros
def test_two_retrieves_are_drawn_with_todays_maps(tmp_path):
    picture = REPOSITORY / "docs" / "images" / pictures.RETRIEVES
    assert f"images/{pictures.RETRIEVES})" in (REPOSITORY / "docs" / "transformers.md").read_text(
        "utf-8"
    )
    drawn = json.loads(Image.open(picture).text["Result"])
    found = pictures.two_retrieves(tmp_path / "drawn.png")
    for place in ("scores", "values"):
        assert found[place].keys() == drawn[place].keys()
        for name, values in drawn[place].items():
            assert found[place][name] == pytest.approx(values, abs=0.002)
    gradients = [drawn[place]["input-x-gradient"][-3:] for place in ("scores", "values")]
    assert gradients == [[0, 1, 0], [1, 1, 1]]  # of key, word and query, as the page says


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")  # of the nodes
def test_the_verdicts_and_scores_that_are_drawn_are_those_of_the_code(tmp_path):
    [name] = pictures.COMMANDS
    drawn = json.loads(Image.open(REPOSITORY / "docs" / "images" / name).text["Result"])
    found, _ = pictures.run(f"attributionlab test {pictures.METHOD} --csv scores.csv", tmp_path)
    assert pictures.said(found) == drawn
