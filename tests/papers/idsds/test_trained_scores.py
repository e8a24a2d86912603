"""Scores of trained networks: which version is judged by what, and what each family gets."""

import numpy as np
import pytest
import torch
from scipy import stats

import attributionlab as al
from attributionlab.papers.idsds import trained_scores as module
from attributionlab.papers.idsds.environment_scores import IDS, IDSDS, SDS, UPDATED_IDS
from attributionlab.papers.idsds.maps import ATTENDED, PANEL
from attributionlab.papers.idsds.trained_scores import TRUTH, UPDATED, Explained, Scale, pair_scores
from attributionlab.papers.idsds.training import Pair
from attributionlab.papers.subjects.networks import Design, network_of
from idsds_cases import made_up_network, made_up_task

SCALE = Scale(networks=2, training=8, images=2, epochs=1, fine_tuning=1, updated=2, steps=2)
CONVOLUTIONAL = set(PANEL) - set(ATTENDED)
"""Rows of networks without attention."""


def test_sds_is_of_the_original_network_and_idsds_of_the_fine_tuned_one():
    task, pair = made_up_task(), (made_up_network(0), made_up_network(1))
    explained = Explained(task.images, task.labels, task.baseline, ["1", "1"], task.truth)
    table = pair_scores(pair, explained, SCALE, 3, quick=True)
    scores = table.set_index(["protocol", "method"]).score.sort_index(kind="stable")
    for protocol, network in ((SDS, pair[0]), (IDSDS, pair[1])):
        maps = al.methods.METHODS["input-x-gradient"](network, task.images, task.labels)
        expected = al.metrics.sds(
            *(network, task.images, task.labels, maps.double().sum(1, keepdim=True)),
            replacement=task.baseline,
        )
        assert scores[protocol, "input-x-gradient"].tolist() == expected.tolist()
    names = table.groupby("protocol").method.agg(set)
    assert names[SDS] == names[IDSDS] == names[IDS] == CONVOLUTIONAL
    assert names[UPDATED_IDS] == set(UPDATED)
    assert len(scores[IDS, "saliency"]) == SCALE.updated
    maps = al.methods.METHODS["input-x-gradient"](pair[1], task.images, task.labels)
    sums = al.metrics.patch_sums(maps.double().sum(1, keepdim=True))
    known = al.metrics.patch_sums(task.truth)
    expected = [stats.spearmanr(*each).statistic for each in zip(sums, known, strict=True)]
    assert scores[TRUTH, "input-x-gradient"].tolist() == pytest.approx(expected, abs=1e-12)


def test_without_a_fine_tuned_network_there_is_no_idsds():
    task = made_up_task()
    explained = Explained(task.images, task.labels, task.baseline, [None, None])
    found = pair_scores((made_up_network(0), None), explained, SCALE, 3, quick=True)
    assert set(found.protocol) == {SDS, IDS, UPDATED_IDS}
    assert "gradcam" not in set(found.method)


def test_every_design_is_trained_on_every_task(monkeypatch):
    asked, seeds = [], []

    def pair_of(design, task, *, seed, **settings):
        assert "fine_tuning_rate" not in settings  # a family's own
        asked.append((design.family, seed, settings["replacement"]))
        return Pair(*[network_of(design, 3, 2, 8, seed + k).eval() for k in (0, 1)])

    monkeypatch.setattr(
        module, "TASKS", {"colors": lambda *each: seeds.append(each[2]) or made_up_task()}
    )
    monkeypatch.setattr(module, "trained_pair", pair_of)
    scale = SCALE._replace(steps=1, updated=1)
    found, accuracies, (_, pair) = module.trained_scores(scale, 5, quick=True)
    assert [each[:2] for each in asked] == [
        (family, seed) for seed in (5, 6) for family in ("plain", "b-cos", "bag")
    ]
    assert all(torch.equal(each[2], made_up_task().baseline) for each in asked)
    own = found[found.method.isin(("B-cos", "BagNet"))]
    assert {*zip(own.protocol, own.network, strict=True)} == {
        (protocol, number) for protocol in (SDS, IDSDS) for number in (0, 1)
    }
    assert set(found[found.protocol == TRUTH].method) == CONVOLUTIONAL
    network, task = network_of(Design(), 3, 2, 8, 5).eval(), made_up_task()
    labels = al.metrics.grid_patches(8, 8, 16)
    lacking = [
        (network(task.images.where(labels != cell, task.baseline)).argmax(1) == task.labels)
        .double()
        .mean()
        for cell in range(16)
    ]
    assert accuracies.original_lacking[0] == pytest.approx(np.mean(lacking), abs=1e-12)
    assert seeds == [5, 7]  # a task has two: what is learned, what is explained
    assert accuracies.family.tolist() == ["plain", "b-cos", "bag"] * 2
    last = network_of(Design(), 3, 2, 8, 6).eval()
    assert torch.equal(pair.original(task.images), last(task.images))
