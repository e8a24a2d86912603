"""Scores of maps are those of the metrics: of environments, and of trained networks' versions."""

import numpy as np
import pytest
import torch
from scipy import stats

import attributionlab as al
from attributionlab.papers.idsds import protocol_scores as module
from attributionlab.papers.idsds.maps import ATTENDED, PANEL
from attributionlab.papers.idsds.training import Pair
from attributionlab.papers.subjects.networks import Design, network_of
from attributionlab.papers.subjects.subjects import of_images
from idsds_cases import made_up_network, made_up_task, sum_scores

SCALE = module.Scale(networks=2, training=8, images=2, epochs=1, fine_tuning=1, updated=2, steps=2)
CONVOLUTIONAL = set(PANEL) - set(ATTENDED)
"""Rows of networks without attention."""


@pytest.fixture(scope="module")
def found():
    return sum_scores()


@pytest.fixture(scope="module")
def scores(found):
    return found[0].set_index(["protocol", "method", "image"]).sort_index()


def test_the_exact_map_and_the_mask_are_right_by_every_truth(scores):
    for name in (module.EXACT, module.MASK):
        rows = scores.loc[[module.IDSDS, module.PARTS]].xs(name, level="method")
        assert rows.score.tolist() == rows.f1.tolist() == [1.0] * 4
        # Pearson's correlation of equal sums, by sums of squares of 16 numbers.
        assert np.allclose(rows.cells, 1, rtol=0, atol=1e-14)


def test_in_domain_nothing_fires_and_drops_are_counts(found):
    table = found[1].set_index("protocol")
    assert table.exact_drops[module.IDSDS].tolist() == [1.0, 1.0]
    assert table.exact_drops.drop(module.IDSDS).isna().all()
    assert table.unseen.loc[[module.IDSDS, module.PARTS, module.ALIGNED_IDS]].tolist() == [0.0] * 6
    assert table.unseen[module.SDS].mean() > 0
    assert table.unseen[module.IDS].mean() > 0


def test_equally_black_cells_leave_the_ranking_of_logits_alone(scores):
    """Redundant channels take the same from each drop; where they are half black they do not."""
    assert scores.score[module.IDSDS].equals(scores.score[module.SDS])
    assert not scores.score[module.IDSDS].equals(scores.score[module.dosed(module.STRENGTHS[-1])])


@pytest.mark.long
def test_scores_of_an_image_are_those_of_its_own_network(scores):
    sample = al.load("multi-color-sum", image_size=36).dataset(2, 0)[1]
    asked = sample.image[None], sample.label[None]
    setting = module.Setting("multi-color-sum", sample, 1, "logit", 0, True)
    maps = {name: each.double() for name, each in setting.candidates().items()}
    noise = next(name for name in maps if name.startswith("noise"))
    filling = setting.replacements
    for protocol, strength, replacement in (
        (module.IDSDS, 1.0, filling[module.IDSDS]),
        (module.RANDOM, 1.0, filling[module.RANDOM]),
        (module.dosed(1.0), 1.0, filling[module.SPECKLED]),
        (module.dosed(4.0), 4.0, filling[module.SPECKLED]),
    ):
        env = al.load("multi-color-sum", image_size=36, weight_seed=1, redundant_strength=strength)
        for name in (module.EXACT, noise):
            expected = al.metrics.sds(env.model, *asked, maps[name], replacement=replacement)
            assert scores.score[protocol, name, 1] == expected.item()
    parts = al.metrics.sds(
        *(setting.env.model, *asked, maps[noise]),
        patches=(sample.patches - 1)[None, None],
        replacement=setting.env.baseline,
    )
    assert scores.score[module.PARTS, noise, 1] == parts.item()
    black = al.metrics.ids(setting.env.softmax_model, *asked, maps[noise], replacement=0.0, steps=8)
    assert scores.score[module.IDS, noise, 1] == black.item()
    speckled = (filling[module.SPECKLED] == 0).double().mean()
    # 1,296 draws with probability 1/2: six standard deviations.
    assert abs(float(speckled) - 0.5) < 6 * 0.5 / 36


def test_every_map_has_a_score_by_every_protocol_but_updated_ids(found):
    table = found[0].groupby("protocol").score.apply(lambda each: each.notna().all())
    assert set(table.index[table]) == {
        *(
            module.IDSDS,
            module.SDS,
            module.RANDOM,
            module.BLURRED,
            module.PARTS,
            module.IDS,
            module.ALIGNED_IDS,
        ),
        *(module.dosed(strength) for strength in module.STRENGTHS),
    }
    updated = found[0][found[0].protocol == module.UPDATED_IDS].dropna(subset="score")
    assert set(updated.method) == set(module.UPDATED)
    names = set(found[0].method)
    assert names > CONVOLUTIONAL
    assert len(names) > len(CONVOLUTIONAL) + 12


def test_updating_the_truth_leaves_its_order_of_a_sum_alone(scores):
    """What pixels contribute to a logit does not depend on which others are there."""
    aligned, updated = (
        scores.score[each, module.MASK] for each in (module.ALIGNED_IDS, module.UPDATED_IDS)
    )
    # Probabilities in float32: a softmax of four is off by a few units of 2^-24.
    assert updated.tolist() == pytest.approx(aligned.tolist(), abs=2**-20)


def test_constant_maps_score_nothing(found):
    table = found[0]
    assert table[table.constant.astype(bool)].score.eq(0).all()
    assert table.constant.any()
    assert not table[table.method == module.EXACT].constant.any()


@pytest.mark.parametrize("unit", [2.0**-60, 1.0, 2.0**60])
def test_the_unit_of_maps_leaves_their_correlation_with_the_exact_sums_alone(unit):
    sums = torch.rand(3, 16, generator=torch.Generator().manual_seed(0)).double()
    sums[2] = torch.tensor([0.3, 0.1 + 0.2]).double().repeat(8)  # differ by rounding
    found = module._pearson(unit * sums, sums[0])
    expected = stats.pearsonr(sums[0], sums[1]).statistic
    assert found.tolist() == pytest.approx([1, expected, 0], abs=1e-14)


@pytest.mark.long
def test_sds_is_of_the_original_network_and_idsds_of_the_fine_tuned_one():
    task, pair = made_up_task(), (made_up_network(0), made_up_network(1))
    subject = of_images("made up", pair[0], task.images, task.labels, task.baseline)
    table = module.pair_scores(subject, pair[1], ["1", "1"], SCALE, 3, truth=task.truth, quick=True)
    scores = table.set_index(["protocol", "method"]).score.sort_index(kind="stable")
    for protocol, network in ((module.SDS, pair[0]), (module.IDSDS, pair[1])):
        maps = al.methods.METHODS["input-x-gradient"](network, task.images, task.labels)
        expected = al.metrics.sds(
            *(network, task.images, task.labels, maps.double().sum(1, keepdim=True)),
            replacement=task.baseline,
        )
        assert scores[protocol, "input-x-gradient"].tolist() == expected.tolist()
    names = table.groupby("protocol").method.agg(set)
    assert names[module.SDS] == names[module.IDSDS] == names[module.IDS] == CONVOLUTIONAL
    assert names[module.UPDATED_IDS] == set(module.TRAINED_UPDATED)
    assert len(scores[module.IDS, "saliency"]) == SCALE.updated
    maps = al.methods.METHODS["input-x-gradient"](pair[1], task.images, task.labels)
    sums = al.metrics.patch_sums(maps.double().sum(1, keepdim=True))
    known = al.metrics.patch_sums(task.truth)
    expected = [stats.spearmanr(*each).statistic for each in zip(sums, known, strict=True)]
    assert scores[module.TRUTH, "input-x-gradient"].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.long
def test_without_a_fine_tuned_network_there_is_no_idsds():
    task = made_up_task()
    network = made_up_network(0)
    subject = of_images("made up", network, task.images, task.labels, task.baseline)
    found = module.pair_scores(subject, None, [None, None], SCALE, 3, quick=True)
    assert set(found.protocol) == {module.SDS, module.IDS, module.UPDATED_IDS}
    assert "gradcam" not in set(found.method)


@pytest.mark.long
def test_every_design_is_trained_on_every_task(monkeypatch):
    asked, seeds = [], []

    def pair_of(design, task, *, seed, **settings):
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
        (protocol, number) for protocol in (module.SDS, module.IDSDS) for number in (0, 1)
    }
    assert set(found[found.protocol == module.TRUTH].method) == CONVOLUTIONAL
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
