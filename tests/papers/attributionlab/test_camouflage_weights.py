"""Weights before and after camouflage: counted by hand, and the same function."""

import numpy as np
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.nets import MOVES
from attributionlab.papers.attributionlab import camouflage_weights as module
from attributionlab.papers.attributionlab.camouflage_weights import (
    ITEM,
    camouflage_weights,
    octave_table,
    weight_statistics,
)
from attributionlab.papers.catalog import CLAIMS, Run

SOME = ["number-checker", "multi-color-sum"]


@pytest.fixture(scope="module")
def outcome():
    """The experiment on two small environments; the others differ in nothing that is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "environments", lambda: SOME)
        patch.setattr(module, "environment_of", lambda name, _: al.load(name, image_size=24))
        return camouflage_weights(Run(ITEM, n=2, quick=True))


def test_statistics_are_those_of_a_list_of_numbers():
    layer = nn.Linear(3, 2)
    layer.weight.data = torch.tensor([[0.0, -0.5, 2.0], [0.5, 0.0, 0.0]])
    layer.bias.data = torch.tensor([0.25, -2.0])
    assert weight_statistics(nn.Sequential(layer, nn.ReLU())) == {
        "layers": 1,
        "parameters": 8,
        "distinct": 6,
        "zeros": 3 / 8,
        "negative": 2 / 5,
        "commonest": 2 / 5,
        "smallest": 0.25,
        "largest": 2.0,
    }


def test_every_environment_has_a_plain_and_a_camouflaged_row_of_equal_outputs(outcome):
    table = outcome.tables["weights"]
    assert table.environment.tolist() == [SOME[0], SOME[0], SOME[1], SOME[1]]
    assert table.network.tolist() == ["plain", "camouflaged"] * 2
    assert (table.equal == 1).all()
    assert (table[table.network == "plain"].times_slower == 1).all()
    assert (table.times_slower > 0).all()


def test_a_camouflage_has_more_layers_more_values_and_a_wider_range(outcome):
    plain, other = (
        outcome.tables["weights"].query(f"network == '{kind}'").reset_index()
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


def test_each_move_has_its_row_between_none_and_all(outcome):
    moves = outcome.tables["moves"].set_index("move")
    assert moves.index.tolist() == ["none", *MOVES, "all"]
    assert moves.loc["permutation"].equals(moves.loc["none"])  # weights change places, not values
    assert moves.loc["identity-layers", "layers"] > moves.loc["none", "layers"]


def test_weights_are_counted_by_octave_and_sign():
    table = octave_table(np.array([0.0, 1.0, 1.5, -1.0, 4.0]))
    counted = {(row.octave, row.sign): row.share for row in table.itertuples()}
    assert counted == {(0, "positive"): 0.5, (0, "negative"): 0.25, (2, "positive"): 0.25}


def test_drawn_environments_have_a_panel_in_which_shares_sum_to_one(outcome):
    axes = outcome.figures["histograms"].axes
    assert [axis.get_title() for axis in axes] == SOME
    for axis in axes:
        shares = [sum(line.get_ydata()) for line in axis.lines]
        assert sum(shares) == pytest.approx(2)  # of the plain and the camouflaged network


def holds(tables):
    """Whether each claim holds, by the name of its function."""
    return {each.check.__name__: each.holds(tables) for each in CLAIMS if ITEM in each.items}


def test_claims_agree_and_follow_the_tables(outcome):
    assert set(holds(outcome.tables).values()) == {"agrees"}
    weights, moves = outcome.tables["weights"], outcome.tables["moves"]
    changed = {
        "weights": weights.assign(equal=0.5, distinct=3),
        "moves": moves.assign(distinct=3),
    }
    assert set(holds(changed).values()) == {"differs"}
