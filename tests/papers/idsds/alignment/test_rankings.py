"""Rankings of methods under several conditions."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr

import attributionlab as al
from attributionlab.papers.idsds.alignment import rankings as module
from attributionlab.papers.idsds.alignment.conditions import agreement, judged
from attributionlab.papers.idsds.alignment.fillings import (
    blurred,
    fillings,
    for_images,
    uniform_noise,
)
from attributionlab.papers.idsds.alignment.ranking_findings import ranking_findings
from attributionlab.papers.idsds.alignment.rankings import ITEMS, idsds_rankings
from attributionlab.papers.idsds.data import colors_task, pictures_task
from attributionlab.papers.idsds.maps import panel_maps
from attributionlab.papers.idsds.training import Pair
from attributionlab.papers.subjects.networks import Design, gradcam_layer, network_of

METHODS = ("input-x-gradient", "saliency", "gradcam", "random")


def test_the_blur_is_the_papers_kernel_at_the_images_scale():
    """A twin pixel by pixel: 51 of 224 pixels are 7 of 32, and sigma 41 is 5.86."""
    image = torch.rand(1, 2, 32, 32, generator=torch.Generator().manual_seed(0))
    found = blurred(image)
    sigma = 41 * 32 / 224
    weights = [math.exp(-((distance / (2 * sigma)) ** 2)) for distance in range(-3, 4)]
    mirrored = np.pad(image[0].numpy(), ((0, 0), (3, 3), (3, 3)), mode="reflect")
    for channel, row, column in ((0, 0, 0), (1, 16, 9), (0, 31, 5)):
        total = sum(
            weights[a] * weights[b] * mirrored[channel, row + a, column + b]
            for a in range(7)
            for b in range(7)
        )
        expected = total / sum(weights) ** 2
        # 49 summands below 1 in float32.
        assert float(found[0, channel, row, column]) == pytest.approx(expected, abs=1e-5)


def test_fillings_are_black_noise_blur_and_the_tasks_baseline():
    task = colors_task(training=1, n=2, seed=0)
    found = fillings(task)
    assert list(found) == ["zero", "random", "blurred", "true"]
    values = {name: for_images(filling, task.images, 0) for name, filling in found.items()}
    assert values["zero"] == 0
    assert torch.equal(values["true"], task.baseline)
    assert torch.equal(values["blurred"], blurred(task.images))
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(values["random"], uniform_noise(task.images, generator))
    assert values["random"].shape == task.images.shape
    assert 0 <= float(values["random"].min()) < 0.01 < 0.99 < float(values["random"].max()) < 1


def test_maps_are_judged_by_the_networks_drops_and_by_the_data():
    task = colors_task(training=1, n=3, seed=0)
    network = network_of(Design(width=2), 3, 4, 32, seed=0).eval()
    settings = {"seed": 0, "quick": True}
    found = judged(network, task, METHODS, patches=16, replacement=0.0, **settings)
    assert list(found.methods) == list(METHODS)
    asked = (network, task.images, task.labels)
    maps = panel_maps(*asked, METHODS, layer=gradcam_layer(network), **settings)
    for index, name in enumerate(METHODS):
        scores = al.metrics.idsds(*asked, maps[name], patches=16, replacement=0.0)
        assert found.idsds[index].tolist() == scores.tolist()

    def cells(values):
        return values[:, 0].double().reshape(3, 4, 8, 4, 8).sum((2, 4)).flatten(1)

    truth = cells(task.truth)
    held = maps["input-x-gradient"]
    drops = al.metrics.deletion_drops(*asked, patches=16, replacement=0.0)
    for image in range(3):
        expected = spearmanr(cells(held)[image], truth[image]).statistic
        assert found.truth[0, image] == pytest.approx(expected)
        assert found.network[image] == pytest.approx(spearmanr(drops[image], truth[image])[0])
    unknown = judged(
        network, task._replace(truth=None), METHODS[:1], patches=4, replacement=0.0, **settings
    )
    assert unknown.truth is None
    assert unknown.network is None


def test_agreement_is_of_means_over_images_with_both_resampled_together():
    generator = np.random.default_rng(0)
    first = generator.random((12, 30))  # whose ranking depends on which images are drawn
    second = first + 0.3 * generator.random((12, 30))
    second[2, 4] = np.nan
    found = agreement(first, second, seed=3)
    expected = spearmanr(first.mean(1), np.nanmean(second, axis=1)).statistic
    assert found.correlation == pytest.approx(expected)
    drawn = np.random.default_rng(3).integers(0, 30, (2000, 30))[1:]
    resampled = [
        spearmanr(first[:, rows].mean(1), np.nanmean(second[:, rows], axis=1)).statistic
        for rows in drawn
    ]
    assert [found.low, found.high] == pytest.approx(np.quantile(resampled, [0.025, 0.975]))
    assert agreement(first, first, seed=0) == (1, 1, 1)
    assert agreement(first, -first, seed=0) == (-1, -1, -1)


def test_fewer_than_six_images_allow_no_interval_of_an_agreement():
    first, second = np.random.default_rng(0).random((2, 13, 6))
    found = agreement(first, second, seed=0)
    assert found.low < found.high
    for few in (1, 5):
        found = agreement(first[:, :few], second[:, :few], seed=0)
        expected = spearmanr(first[:, :few].mean(1), second[:, :few].mean(1)).statistic
        assert found.correlation == pytest.approx(expected)
        assert math.isnan(found.low)
        assert math.isnan(found.high)
    second[:, 0] = np.nan  # an image to which one condition does not apply
    assert math.isnan(agreement(first, second, seed=0).low)


@pytest.fixture
def untrained(monkeypatch):
    """Networks that are not trained, and what they would be trained on."""
    asked = []

    def pair(design, task, *, seed, patches, replacement, **_):
        asked.append(("trained", seed, patches, replacement))
        networks = [network_of(Design(width=2), 3, task.classes, 32, seed + k) for k in (0, 50)]
        return Pair(*(network.eval() for network in networks))

    def tuned(original, images, labels, *, seed, patches, replacement, **_):
        asked.append(("tuned", seed, patches, replacement))
        return network_of(Design(width=2), 3, int(labels.max()) + 1, 32, seed + 70).eval()

    monkeypatch.setattr(module, "trained_pair", pair)
    monkeypatch.setattr(module, "fine_tuned", tuned)
    scale = module.Scale(40, 3, 1, 1, 2, 3, METHODS)
    monkeypatch.setattr(module, "FULL", scale)
    return asked


def test_figure_6_fine_tunes_a_network_for_every_condition(untrained):
    outcome = idsds_rankings("idsds-figure-6", n=None, quick=False)
    conditions = outcome.tables["conditions"]
    assert list(zip(conditions.part, conditions.name, strict=True)) == [
        *(("number of patches", name) for name in ("4", "16", "64")),
        *(("what deleted pixels become", name) for name in ("zero", "random", "blurred", "true")),
    ]
    assert (conditions.runs == 2).all()
    first_run = untrained[:6]
    assert [each[:3] for each in first_run] == [
        ("trained", 0, 4),
        ("tuned", 0, 16),
        ("tuned", 0, 64),
        *[("tuned", 0, 16)] * 3,
    ]
    assert [each[3] for each in first_run[:5]] == [0, 0, 0, uniform_noise, blurred]
    assert {each[1] for each in untrained[6:]} == {1}
    usual, zero = (conditions[conditions.name == name].iloc[0] for name in ("16", "zero"))
    assert usual.idsds == zero.idsds
    assert len(outcome.tables["agreement"]) == 3 + 6
    assert set(outcome.shown) <= set(outcome.tables)
    said = " ".join(outcome.findings)  # of three images
    assert "with 3 methods two neighbors that change places cost 0.5000" in said  # no control
    assert "nan" not in said
    assert "95 % interval" not in said
    assert "Fewer than 6 images allow no intervals." in said
    for name in ("agreement", "conditions", "scores"):
        assert outcome.tables[name][["low", "high"]].isna().all(axis=None)


def test_figure_7_has_seeds_of_fine_tuning_and_seeds_of_all(untrained):
    outcome = idsds_rankings("idsds-figure-7", n=2, quick=False, seed=4)
    assert [each[:2] for each in untrained] == [
        ("trained", 4),
        ("tuned", 5),
        ("trained", 5),
        ("tuned", 6),
        ("trained", 6),
    ]
    conditions = outcome.tables["conditions"]
    assert conditions.name.tolist() == ["4", "5", "6"] * 2
    assert conditions.part.nunique() == 2
    assert len(outcome.tables["agreement"]) == 2 * 3
    scores = outcome.tables["scores"]
    for row in conditions.itertuples():
        here = scores[(scores.part == row.part) & (scores.name == row.name)]
        assert set(here.method) == set(METHODS)
        own = here[here.method != "random"].idsds.mean()
        assert row.idsds == pytest.approx(own)  # the control is left out
    assert ITEMS["idsds-figure-7"] == outcome.title


def test_without_truth_the_ranking_by_it_is_left_out(untrained, monkeypatch):
    task = pictures_task(40, 2, 0)._replace(truth=None)
    monkeypatch.setattr(module, "task_named", lambda name: lambda *_: task)
    outcome = idsds_rankings("idsds-figure-7", n=2, quick=False)
    assert "truth" not in outcome.tables["conditions"]
    assert "data say" not in " ".join(outcome.findings)


def test_findings_say_the_papers_numbers_and_do_not_test_against_them():
    rows = [
        ("number of patches", "4", "16", 0.9, 0.8, 0.95),
        ("number of patches", "16", "64", 0.5, 0.3, 0.7),
        ("number of patches", "4", "64", 0.6, 0.4, 0.8),
        ("what deleted pixels become", "zero", "random", 1.0, 0.995, 1.0),
    ]
    names = ["part", "first", "second", "correlation", "low", "high"]
    conditions = pd.DataFrame(
        {"part": ["number of patches"] * 2, "name": ["4", "16"], "idsds": [0.5, 0.25]}
    )
    tables = {"agreement": pd.DataFrame(rows, columns=names), "conditions": conditions}
    said = " ".join(ranking_findings("idsds-figure-6", tables, images=9, methods=13))
    assert "0.900 (95 % interval 0.800 to 0.950); in the paper 0.93." in said
    assert "0.700); in the paper 0.9." in said
    assert "1.000); in the paper 0.99." in said
    for verdict in ("below", "above", "lies within"):
        assert verdict not in said
    swapped = [2, 1, *range(3, 14)]
    cost = 1 - spearmanr(range(1, 14), swapped).statistic
    assert "over 9 images (the paper's over 50,000)" in said
    assert f"with 13 methods two neighbors that change places cost {cost:.4f}" in said
    assert "Fewer than 6" not in said
    assert "Pairs without a number in the paper: 4 and 64 0.600" in said
    assert "Mean IDSDS of methods by number of patches: 4 0.50, 16 0.25." in said


def test_noise_of_images_alone_is_not_told_from_the_papers_agreement_of_seeds():
    """Two conditions whose true rankings are the same."""
    generator = np.random.default_rng(0)
    true = np.linspace(0, 0.6, 13)[:, None]
    alike = agreement(*(true + 0.3 * generator.normal(size=(2, 13, 64))), seed=0)
    assert alike.high < 0.996
    row = {"part": "seed of fine-tuning", "first": "0", "second": "1"} | alike._asdict()
    conditions = pd.DataFrame({"part": ["seed of fine-tuning"], "name": ["0"], "idsds": [0.3]})
    tables = {"agreement": pd.DataFrame([row]), "conditions": conditions}
    said = " ".join(ranking_findings("idsds-figure-7", tables, images=64, methods=13))
    assert "rankings by IDSDS correlate by at least 0.996." in said
    assert f"The least is of 0 and 1, {alike.correlation:.3f} (95 % interval" in said
    assert "below" not in said
    assert "images explain" not in said
    assert "cannot be held against the paper's" in said
