"""Camouflage: weights counted by hand, how far maps drift, and claims that follow the tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab import verdicts
from attributionlab.papers import reproduce
from attributionlab.papers.attributionlab import camouflage as module
from attributionlab.papers.catalog import Run
from attributionlab.worlds.nets import MOVES
from claims_held import all_hold

DRIFT = "camouflage-drift"

WEIGHTS = "camouflage-weights"

SOME = ["number-checker", "multi-color-sum"]


@pytest.fixture(scope="module")
def weights():
    """The item on two small environments; the others differ in nothing that is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "counting_environments", lambda: SOME)
        patch.setattr(module, "environment_of", lambda name, _, **__: al.load(name, image_size=24))
        return module.camouflage_weights(Run(WEIGHTS, n=2, quick=True))


def test_statistics_are_those_of_a_list_of_numbers():
    layer = nn.Linear(3, 2)
    layer.weight.data = torch.tensor([[0.0, -0.5, 2.0], [0.5, 0.0, 0.0]])
    layer.bias.data = torch.tensor([0.25, -2.0])
    assert module.weight_statistics(nn.Sequential(layer, nn.ReLU())) == {
        "layers": 1,
        "parameters": 8,
        "distinct": 6,
        "zeros": 3 / 8,
        "negative": 2 / 5,
        "commonest": 2 / 5,
        "smallest": 0.25,
        "largest": 2.0,
    }


def test_every_environment_has_a_plain_and_a_camouflaged_row_of_equal_outputs(weights):
    table = weights.tables["weights"]
    assert table.environment.tolist() == [SOME[0], SOME[0], SOME[1], SOME[1]]
    assert table.network.tolist() == ["plain", "camouflaged"] * 2
    assert (table.equal == 1).all()
    assert (table[table.network == "plain"].times_slower == 1).all()
    assert (table.times_slower > 0).all()


def test_a_camouflage_has_more_layers_more_values_and_a_wider_range(weights):
    plain, other = (
        weights.tables["weights"].query(f"network == '{kind}'").reset_index()
        for kind in ("plain", "camouflaged")
    )
    for column in ("layers", "parameters", "distinct", "largest", "negative"):
        assert (other[column] > plain[column]).all(), column
    for column in ("smallest", "commonest"):
        assert (other[column] < plain[column]).all(), column


def test_networks_that_differ_are_counted():
    env = al.load("multi-color-sum", image_size=16)
    wrong = al.load("multi-color-sum", image_size=16)
    list(wrong.model.parameters())[-1].data[0] += 1  # one of four outputs
    images, _ = env.batch(3)
    compared = module._compared({"plain": env, "camouflaged": wrong}, images)
    assert compared["camouflaged"]["equal"] == 0
    assert compared["plain"] == {"equal": 1.0, "times_slower": 1.0}


def test_each_move_has_its_row_between_none_and_all(weights):
    moves = weights.tables["moves"].set_index("move")
    assert moves.index.tolist() == ["none", *MOVES, "all"]
    assert moves.loc["permutation"].equals(moves.loc["none"])  # weights change places, not values
    assert moves.loc["identity-layers", "layers"] > moves.loc["none", "layers"]


def test_weights_are_counted_by_octave_and_sign():
    table = module.octave_table(np.array([0.0, 1.0, 1.5, -1.0, 4.0]))
    counted = {(row.octave, row.sign): row.share for row in table.itertuples()}
    assert counted == {(0, "positive"): 0.5, (0, "negative"): 0.25, (2, "positive"): 0.25}


def test_drawn_environments_have_a_panel_in_which_shares_sum_to_one(weights):
    axes = weights.figures["histograms"].axes
    assert [axis.get_title() for axis in axes] == SOME
    for axis in axes:
        shares = [sum(line.get_ydata()) for line in axis.lines]
        assert sum(shares) == pytest.approx(2)  # of the plain and the camouflaged network


def test_claims_agree_and_follow_the_tables(weights):
    assert set(all_hold(weights.tables, WEIGHTS).values()) == {"agrees"}
    table, moves = weights.tables["weights"], weights.tables["moves"]
    changed = {
        "weights": table.assign(equal=0.5, distinct=3),
        "moves": moves.assign(distinct=3),
    }
    assert set(all_hold(changed, WEIGHTS).values()) == {"differs"}


@pytest.fixture(scope="module")
def drifts():
    """A few methods and moves on tiny images."""
    with pytest.MonkeyPatch.context() as patch:
        families = {"gradient": ("saliency", "guided-backprop"), "perturbation": ("occlusion",)}
        patch.setattr(module, "FAMILIES", families)
        patch.setattr(module, "CHOSEN", ("guided-backprop",))
        patch.setattr(module, "MOVES", ("permutation", "duplication"))
        patch.setattr(module, "environment_of", lambda name, _, **__: al.load(name, image_size=16))
        return reproduce("camouflage-drift", n=1, quick=True, settings={"networks": 2})


def test_there_is_a_row_for_each_method(drifts):
    table = drifts.tables["drift"].set_index("method")
    assert list(table.index) == ["saliency", "guided-backprop", "occlusion"]
    assert table.loc["occlusion", "reading"] == "integer images only: 0"
    assert table.loc["occlusion", ["median", "largest"]].tolist() == [0, 0]
    assert table.loc["saliency", "largest"] > 0
    assert table.loc["saliency", "reading"] == "within rounding"
    assert table.loc["guided-backprop", "reading"] == "drifts"
    assert table.loc["guided-backprop", "lowest_f1"] < table.loc["guided-backprop", "plain_f1"]
    assert drifts.tables["networks"].camouflage_seed.tolist() == verdicts.camouflage_seeds(0, 2)


def test_each_move_is_looked_at_alone(drifts):
    moves = drifts.tables["moves"].set_index("move")
    assert list(moves.columns) == ["guided-backprop"]
    # A permutation changes the order of sums alone; copies with divided weights let signs differ.
    assert moves.loc["permutation", "guided-backprop"] < 1e-4
    assert moves.loc["duplication", "guided-backprop"] > 0.1
    assert set(MOVES) >= set(moves.index)


def test_figures_name_what_they_show_and_zero_has_a_place(drifts):
    [axes] = drifts.figures["drift"].axes
    assert drifts.figures["drift"].get_suptitle().endswith("networks: 2, images: 1")
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [
        *("saliency", "guided-backprop", "occlusion")
    ]
    medians = axes.collections[0].get_offsets()[:, 0]
    assert 0 < medians[2] < 0.1 * min(medians[:2])
    titles = [axis.get_title() for axis in drifts.figures["maps"].axes]
    assert titles[0] == "plain network"


def drift_holds(readings, largest, duplication):
    """Whether each claim about drifts holds, by the name of its check."""
    drift = pd.DataFrame({"method": [*readings], "reading": [*readings.values()]})
    drift["largest"] = drift.method.map(largest)
    moves = pd.DataFrame(
        {"move": ["permutation", "duplication"], "guided-backprop": [1e-7, duplication]}
    )
    tables = {"drift": drift, "moves": moves}
    return all_hold(tables, DRIFT)


GRADIENTS = ("saliency", "input-x-gradient", "integrated-gradients-exact", "gradcam")
SUMS = ("integrated-gradients", "integrated-gradients-true-baseline")


def test_claims_follow_the_readings():
    kept, large = dict.fromkeys([*GRADIENTS, *SUMS], "within rounding"), {"iba": 2, "lrp": 0}
    changed = {"deep-lift": "drifts", "lrp": "beyond rounding", "guided-backprop": "drifts"}
    own = {"iba": "drifts", "occlusion": module.INTEGER_IMAGES}
    found = drift_holds(kept | changed | own, large | {"guided-backprop": 9}, 1.0)
    assert set(found.values()) == {"agrees"}
    kept, changed = dict.fromkeys([*GRADIENTS, *SUMS], "drifts"), dict.fromkeys(changed, "equal")
    own = {"iba": "equal", "occlusion": "differs, where it must not"}
    found = drift_holds(kept | changed | own, large | {"guided-backprop": 1}, 0.1)
    assert set(found.values()) == {"differs"}
    unknown = dict.fromkeys([*GRADIENTS, *SUMS, *changed], "not known")
    found = drift_holds(unknown, {}, float("nan"))
    assert set(found.values()) == {"undecided"}
