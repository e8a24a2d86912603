"""Table 1: what leaks, what another calibration changes, and which ticks follow."""

import numpy as np
import pandas as pd
import torch
from torch import nn

from attributionlab.papers.idsds import properties
from attributionlab.papers.idsds.data import Task
from attributionlab.papers.idsds.environment_scores import IDS, IDSDS, PARTS, SDS
from attributionlab.papers.idsds.properties import (
    ROAR,
    Leak,
    domain_table,
    leaks,
    modulo_table,
    properties_table,
    recalibration,
)
from attributionlab.papers.idsds.training import Pair
from idsds_cases import made_up_network, made_up_task


def test_another_temperature_changes_ids_and_no_rank_correlation():
    found = recalibration(made_up_task(), Pair(made_up_network(0), made_up_network(1)), 0)
    assert (found[SDS], found[IDSDS]) == (0.0, 0.0)
    assert found[IDS] > 0
    assert PARTS not in found  # it needs parts, which the networks' images lack


def test_another_temperature_is_tried_on_the_network_that_a_protocol_judges(monkeypatch):
    judged, explained = [], []

    def of_network(network, images, _, maps, **__):
        judged.append(network)
        explained.append(maps)
        return torch.zeros(len(images), dtype=torch.float64)

    monkeypatch.setattr(properties, "idsds", of_network)
    pair = Pair(made_up_network(0), made_up_network(1))
    recalibration(made_up_task(), pair, 0)
    assert judged[0] is pair.original
    assert judged[2] is pair.fine_tuned
    assert torch.equal(explained[0], explained[1])
    assert not torch.equal(explained[1], explained[2])


def test_masks_that_follow_the_class_leak_it_and_random_cells_do_not(monkeypatch):
    n = 64
    labels = torch.arange(n) % 2
    images = torch.full((n, 3, 8, 8), 0.1)
    images[labels == 0, :, :, :4] = 1.0
    images[labels == 1, :, :, 4:] = 1.0
    task = Task("made up", images, labels, images, labels, 2, torch.zeros(3, 1, 1), None)
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 2, bias=False)).eval()
    nn.init.ones_(network[1].weight)
    monkeypatch.setattr(properties, "EPOCHS", 20)
    found = leaks(task, network, n, 0)
    assert found[ROAR].accuracy == 1
    assert found[ROAR].low > found[ROAR].chance
    assert found[IDSDS].low <= found[IDSDS].chance
    assert set(found) == {ROAR, IDSDS, PARTS}


def test_roar_deletes_what_has_the_highest_attributions(monkeypatch):
    seen = {}
    monkeypatch.setattr(
        properties, "_leak", lambda what, masks, *_: seen.update({what: masks}) or what
    )
    task = made_up_task()
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 2, bias=False)).eval()
    network[1].weight.data = torch.linspace(-1, 1, 384).view(2, 192)
    leaks(task, network, 4, 0)
    maps = (task.images * network[1].weight[task.labels].view(4, 3, 8, 8)).sum(1).flatten(1)
    masks = seen["the top 30% by IG"].flatten(1)
    for mask, values in zip(masks.bool(), maps, strict=True):
        assert int(mask.sum()) == round(0.3 * 64)
        assert values[mask].min() > values[~mask].max()
    assert seen["a random cell"].sum((1, 2, 3)).tolist() == [4.0] * 4


def test_exact_shapley_values_fail_single_deletion_of_remainders():
    [row] = modulo_table(12, 0).to_dict("records")
    assert row["images"] == 12
    assert row["low"] < row["score"] < row["high"] < 0.9


UNSEEN = pd.DataFrame(
    [(IDSDS, 0.0), (PARTS, 0.0), (IDS, 0.5), (SDS, 0.0), (SDS, 1.0), (SDS, 1.0)],
    columns=["protocol", "unseen"],
).assign(place="here", exact_drops=np.nan)


def test_networks_that_never_react_are_told_from_those_that_always_do():
    table = domain_table(UNSEEN).set_index("protocol")
    assert table.unseen[SDS] == 2 / 3
    assert table.loc[SDS, ["networks", "none", "all"]].tolist() == [3, 1, 2]
    assert table.loc[IDS, ["networks", "none", "all"]].tolist() == [1, 0, 0]


def test_properties_are_ticked_by_what_was_measured():
    found = {IDSDS: Leak("x", 0.5, 0.4, 0.6, 0.5), ROAR: Leak("y", 0.9, 0.8, 1.0, 0.5)}
    changes = {SDS: 0.0, IDSDS: 0.0, IDS: 0.1}
    table = properties_table(UNSEEN, found, changes).set_index(["protocol", "property"])
    assert table.ours[IDSDS].tolist() == ["yes", "yes", "yes", ""]
    assert table.ours[ROAR].tolist() == ["", "no", "", ""]
    assert table.ours[IDS].tolist() == ["no", "", "no", ""]
    assert table.ours[PARTS].tolist() == ["yes", "", "", ""]
    assert table.measured[SDS, "domain alignment"] == 2 / 3
    assert "1 of 3 networks react to none, 2 to all" in table.how[SDS, "domain alignment"]
    assert "not measured" in table.how[PARTS, "inter-model comparison"]
