"""The item on functionally equal networks: its tables, figures and claims."""

import pandas as pd
import pytest

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.faithfulness.drift import camouflage_seeds
from attributionlab.nets import MOVES
from attributionlab.papers.attributionlab import camouflage_drift
from attributionlab.papers.catalog import CLAIMS, reproduce


@pytest.fixture(scope="module")
def outcome():
    """A few methods and moves on tiny images."""
    with pytest.MonkeyPatch.context() as patch:
        families = {"gradient": ("saliency", "guided-backprop"), "perturbation": ("occlusion",)}
        patch.setattr(camouflage_drift, "FAMILIES", families)
        patch.setattr(camouflage_drift, "CHOSEN", ("guided-backprop",))
        patch.setattr(camouflage_drift, "MOVES", ("permutation", "duplication"))
        patch.setattr(
            camouflage_drift, "environment_of", lambda name, _: al.load(name, image_size=16)
        )
        return reproduce("camouflage-drift", n=1, quick=True, settings={"networks": 2})


def test_there_is_a_row_for_each_method(outcome):
    table = outcome.tables["drift"].set_index("method")
    assert list(table.index) == ["saliency", "guided-backprop", "occlusion"]
    assert table.loc["occlusion", "reading"] == "integer images only: 0"
    assert table.loc["occlusion", ["median", "largest"]].tolist() == [0, 0]
    assert table.loc["saliency", "largest"] > 0
    assert table.loc["saliency", "reading"] == "within rounding"
    assert table.loc["guided-backprop", "reading"] == "drifts"
    assert table.loc["guided-backprop", "lowest_f1"] < table.loc["guided-backprop", "plain_f1"]
    assert outcome.tables["networks"].camouflage_seed.tolist() == camouflage_seeds(0, 2)


def test_each_move_is_looked_at_alone(outcome):
    moves = outcome.tables["moves"].set_index("move")
    assert list(moves.columns) == ["guided-backprop"]
    # A permutation changes the order of sums alone; copies with divided weights let signs differ.
    assert moves.loc["permutation", "guided-backprop"] < 1e-4
    assert moves.loc["duplication", "guided-backprop"] > 0.1
    assert set(MOVES) >= set(moves.index)


def test_figures_name_what_they_show_and_zero_has_a_place(outcome):
    [drifts] = outcome.figures["drift"].axes
    assert outcome.figures["drift"].get_suptitle().endswith("networks: 2, images: 1")
    assert [tick.get_text() for tick in drifts.get_yticklabels()] == [
        *("saliency", "guided-backprop", "occlusion")
    ]
    medians = drifts.collections[0].get_offsets()[:, 0]
    assert 0 < medians[2] < 0.1 * min(medians[:2])
    titles = [axis.get_title() for axis in outcome.figures["maps"].axes]
    assert titles[0] == "plain network"


def test_an_impossible_number_of_networks_is_refused():
    with pytest.raises(AttributionLabError, match="networks is 0: take an integer from 1 to 100"):
        reproduce("camouflage-drift", n=1, quick=True, settings={"networks": 0})


def holds(readings, largest, duplication):
    """Whether each claim holds, by the name of its function."""
    drift = pd.DataFrame({"method": [*readings], "reading": [*readings.values()]})
    drift["largest"] = drift.method.map(largest)
    moves = pd.DataFrame(
        {"move": ["permutation", "duplication"], "guided-backprop": [1e-7, duplication]}
    )
    tables = {"drift": drift, "moves": moves}
    return {
        each.check.__name__: each.holds(tables)
        for each in CLAIMS
        if camouflage_drift.ITEM in each.items
    }


GRADIENTS = ("saliency", "input-x-gradient", "integrated-gradients-exact", "gradcam")
SUMS = ("integrated-gradients", "integrated-gradients-true-baseline")


def test_claims_follow_the_readings():
    kept, large = dict.fromkeys([*GRADIENTS, *SUMS], "within rounding"), {"iba": 2, "lrp": 0}
    changed = {"deep-lift": "drifts", "lrp": "beyond rounding", "guided-backprop": "drifts"}
    own = {"iba": "drifts", "occlusion": camouflage_drift.INTEGER_IMAGES}
    found = holds(kept | changed | own, large | {"guided-backprop": 9}, 1.0)
    assert set(found.values()) == {"agrees"}
    kept, changed = dict.fromkeys([*GRADIENTS, *SUMS], "drifts"), dict.fromkeys(changed, "equal")
    own = {"iba": "equal", "occlusion": "differs, where it must not"}
    found = holds(kept | changed | own, large | {"guided-backprop": 0.1}, 1e-8)
    assert set(found.values()) == {"differs"}
    unknown = dict.fromkeys([*GRADIENTS, *SUMS, *changed], "not known")
    found = holds(unknown, {}, float("nan"))
    assert set(found.values()) == {"undecided"}
