"""The experiment on functionally equal networks: its tables, figures and sentences."""

import pytest

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.nets import MOVES
from attributionlab.papers.attributionlab import camouflage_drift
from attributionlab.papers.registry import experiment
from attributionlab.report.invariance import MEANINGS


@pytest.fixture(scope="module")
def outcome():
    """A few methods and moves on tiny images."""
    with pytest.MonkeyPatch.context() as patch:
        families = {"gradient": ("saliency", "guided-backprop"), "perturbation": ("occlusion",)}
        patch.setattr(camouflage_drift, "FAMILIES", families)
        patch.setattr(camouflage_drift, "MOVED", ("guided-backprop",))
        patch.setattr(camouflage_drift, "SHOWN", ("guided-backprop",))
        patch.setattr(camouflage_drift, "MOVES", ("permutation", "duplication"))
        patch.setattr(
            camouflage_drift, "environment_of", lambda name, _: al.load(name, image_size=16)
        )
        return experiment("camouflage-drift", n=1, quick=True, settings={"networks": 2})


def test_there_is_a_row_for_each_method(outcome):
    table = outcome.tables["drift"].set_index("method")
    assert list(table.index) == ["saliency", "guided-backprop", "occlusion"]
    assert table.loc["occlusion", "reading"] == "integer images only: 0"
    assert table.loc["occlusion", ["median", "largest"]].tolist() == [0, 0]
    assert table.loc["saliency", "largest"] > 0
    assert table.loc["saliency", "reading"] == "within rounding"
    assert table.loc["guided-backprop", "reading"] == "drifts"
    assert table.loc["guided-backprop", "lowest_f1"] < table.loc["guided-backprop", "plain_f1"]


def test_each_move_is_looked_at_alone(outcome):
    moves = outcome.tables["moves"].set_index("move")
    assert list(moves.columns) == ["guided-backprop"]
    # A permutation changes the order of sums alone; copies with divided weights let signs differ.
    assert moves.loc["permutation", "guided-backprop"] < 1e-4
    assert moves.loc["duplication", "guided-backprop"] > 0.1
    assert set(MOVES) >= set(moves.index)


def test_figures_and_findings_name_what_they_show(outcome):
    text = "\n".join(outcome.findings)
    assert f"occlusion: {MEANINGS['equal, as it must be']}." in text
    assert f"guided-backprop: {MEANINGS['drifts']}." in text
    assert "guided-backprop, each move alone: most by duplication" in text
    drifts, _ = outcome.figures["drift"].axes
    assert outcome.figures["drift"].get_suptitle().endswith("networks: 2, images: 1")
    assert [tick.get_text() for tick in drifts.get_yticklabels()] == [
        *("saliency", "guided-backprop", "occlusion")
    ]
    titles = [axis.get_title() for axis in outcome.figures["maps"].axes]
    assert titles[:3] == ["image", "ground truth", "plain network"]


def test_an_impossible_number_of_networks_is_refused():
    with pytest.raises(AttributionLabError, match="networks is 0: take an integer from 1 to 100"):
        experiment("camouflage-drift", n=1, quick=True, settings={"networks": 0})
