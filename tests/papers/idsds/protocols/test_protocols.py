"""The run behind Figure 2: scores against the metrics, agreement with the truth, tables, findings."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch import nn

import attributionlab as al
from attributionlab.papers.idsds.data import Task
from attributionlab.papers.idsds.maps import ABSOLUTE, ATTENDED, PANEL
from attributionlab.papers.idsds.protocols import experiment as experiment_module
from attributionlab.papers.idsds.protocols import findings, properties
from attributionlab.papers.idsds.protocols import trained as trained_module
from attributionlab.papers.idsds.protocols.construction import dosed, judged
from attributionlab.papers.idsds.protocols.experiment import ITEMS, idsds_protocols
from attributionlab.papers.idsds.protocols.names import (
    ALIGNED_IDS,
    IDS,
    IDSDS,
    LEGEND,
    PAIRS,
    PAPER,
    PARTS,
    SDS,
    UPDATED,
    UPDATED_BY_CONSTRUCTION,
    UPDATED_IDS,
)
from attributionlab.papers.idsds.protocols.properties import (
    ROAR,
    Leak,
    leaks,
    modulo_scores,
    properties_table,
    recalibration,
)
from attributionlab.papers.idsds.protocols.scoring import Scored, by_method, fixed_ids, rank_scores
from attributionlab.papers.idsds.protocols.setting import EXACT, MASK, PATCHES, STRENGTHS, Setting
from attributionlab.papers.idsds.protocols.tables import (
    ALL,
    EXPLAINABLE,
    absolute_table,
    agreement_table,
    correlation_table,
    intrinsic_table,
    readable,
    score_table,
    side_by_side,
)
from attributionlab.papers.idsds.protocols.trained import (
    Explained,
    Scale,
    Trained,
    pair_scores,
    trained,
)
from attributionlab.papers.idsds.training import Pair
from attributionlab.papers.subjects.networks import Design, network_of
from attributionlab.papers.subjects.subjects import Subject
from attributionlab.stats.intervals import mean_interval

SCALE = Scale(
    networks=2, training=8, images=2, epochs=1, fine_tuning=1, updated=2, steps=2, quick=True
)
CONVOLUTIONAL = set(PANEL) - set(ATTENDED)
"""Rows of networks without attention."""


@pytest.fixture(scope="module")
def env():
    return al.load("multi-color-sum", image_size=12)


@pytest.fixture(scope="module")
def batch(env):
    images, labels = env.batch(3)
    maps = torch.randint(-3, 4, (3, 1, 12, 12), generator=torch.Generator().manual_seed(0)).double()
    maps[1] = 2.0
    return images, labels, maps


# Scoring


def test_scores_are_those_of_the_metric(env, batch):
    images, labels, maps = batch
    asked = {"patches": 9, "replacement": env.baseline}
    expected = al.metrics.single_deletion(env.model, images, labels, maps, **asked)
    scores, constant = rank_scores(expected.drops, expected.sums)
    assert constant.tolist() == expected.constant_maps.tolist() == [False, True, False]
    assert scores.tolist() == expected.scores.tolist()


def test_fixed_ids_are_those_of_the_metric(env, batch):
    images, labels, maps = batch
    asked = (env.softmax_model, images[:1], labels[:1])
    found = fixed_ids(*asked, maps, env.baseline, 4)
    for score, of_map in zip(found, maps, strict=True):
        expected = al.metrics.ids(*asked, of_map[None], replacement=env.baseline, steps=4)
        assert score == expected.item()


def test_columns_of_images_become_rows_of_methods():
    columns = [
        (np.array([0.5, 0.0]), np.array([False, True])),
        (np.array([0.25, 1.0]), np.array([False, False])),
    ]
    first, second = by_method("here", IDSDS, ["a", "b"], columns)
    assert (first.method, first.values.tolist(), first.constant_maps) == ("a", [0.5, 0.25], 0)
    assert (second.method, second.values.tolist(), second.constant_maps) == ("b", [0.0, 1.0], 1)


# By construction


@pytest.fixture(scope="module")
def logits():
    return judged("multi-color-sum", "logit", 2, 0, quick=True)


def values_of(found, protocol, method):
    [one] = [e for e in found.scored if (e.protocol, e.method) == (protocol, method)]
    return one


def test_the_exact_map_and_the_mask_are_right_by_every_truth(logits):
    for name in (EXACT, MASK):
        place = logits.names.index(name)
        assert logits.f1[place].tolist() == [1.0, 1.0]
        # Pearson's correlation of equal sums, by sums of squares of 16 numbers.
        assert np.allclose(logits.cells[place], 1, rtol=0, atol=1e-14)
        assert values_of(logits, IDSDS, name).values.tolist() == [1.0, 1.0]
        assert values_of(logits, PARTS, name).values.tolist() == [1.0, 1.0]


def test_in_domain_nothing_fires_and_drops_are_counts(logits):
    assert logits.exact == 1
    assert {x for each in (IDSDS, PARTS, ALIGNED_IDS) for x in logits.unseen[each]} == {0.0}
    assert logits.unseen[SDS].mean() > 0
    assert logits.unseen[IDS].mean() > 0


def test_networks_that_never_react_are_told_from_those_that_always_do(logits):
    shares = np.array([0.0, 1.0, 1.0, 0.5])
    [told] = findings._by_construction([replace(logits, unseen={**logits.unseen, SDS: shares})])
    assert "SDS 62% (1 of 4 networks react to none, 2 to all)" in told
    assert "IDSDS 0%, " in told


def test_equally_black_cells_leave_the_ranking_of_logits_alone(logits):
    """Redundant channels take the same from each drop; where they are half black they do not."""
    for name in logits.names:
        aligned, black = (values_of(logits, each, name).values for each in (IDSDS, SDS))
        assert aligned.tolist() == black.tolist()
    strong = dosed(STRENGTHS[-1])
    assert any(
        values_of(logits, strong, name).values.tolist()
        != values_of(logits, IDSDS, name).values.tolist()
        for name in logits.names
    )


def test_scores_of_an_image_are_those_of_its_own_network(logits):
    sample = al.load("multi-color-sum", image_size=36).dataset(2, 0)[1]
    asked = sample.image[None], sample.label[None]
    setting = Setting("multi-color-sum", sample, 1, "logit", 0, True)
    maps = {name: each.double() for name, each in setting.candidates().items()}
    noise = next(name for name in maps if name.startswith("noise"))
    filling = setting.replacements
    for protocol, strength, replacement in (
        (IDSDS, 1.0, filling[IDSDS]),
        (f"{SDS} random", 1.0, filling[f"{SDS} random"]),
        (dosed(1.0), 1.0, filling[f"{SDS} speckled"]),
        (dosed(4.0), 4.0, filling[f"{SDS} speckled"]),
    ):
        env = al.load("multi-color-sum", image_size=36, weight_seed=1, redundant_strength=strength)
        for name in (EXACT, noise):
            expected = al.metrics.sds(env.model, *asked, maps[name], replacement=replacement)
            assert values_of(logits, protocol, name).values[1] == expected.item()
    parts = al.metrics.sds(
        env.model,
        *asked,
        maps[noise],
        patches=(sample.patches - 1)[None, None],
        replacement=env.baseline,
    )
    assert values_of(logits, PARTS, noise).values[1] == parts.item()
    own = setting.env.softmax_model
    black = al.metrics.ids(own, *asked, maps[noise], replacement=0.0, steps=8)
    assert values_of(logits, IDS, noise).values[1] == black.item()
    speckled = (setting.replacements[f"{SDS} speckled"] == 0).double().mean()
    # 1,296 draws with probability 1/2: six standard deviations.
    assert abs(float(speckled) - 0.5) < 6 * 0.5 / 36


def test_every_map_has_a_score_by_every_protocol_but_updated_ids(logits):
    by_protocol = {each.protocol for each in logits.scored}
    assert by_protocol == {
        *(IDSDS, SDS, f"{SDS} random", f"{SDS} blurred", PARTS, IDS, ALIGNED_IDS, UPDATED_IDS),
        *(dosed(strength) for strength in STRENGTHS),
    }
    updated = {
        e.method
        for e in logits.scored
        if e.protocol == UPDATED_IDS and not np.isnan(e.values).any()
    }
    assert updated == {*UPDATED_BY_CONSTRUCTION, EXACT, MASK}
    assert set(logits.names) > CONVOLUTIONAL
    assert len(logits.names) == len(set(logits.names)) > len(CONVOLUTIONAL) + 12


def test_updating_the_truth_leaves_its_order_of_a_sum_alone(logits):
    """What pixels contribute to a logit does not depend on which others are there."""
    aligned, updated = (values_of(logits, each, MASK).values for each in (ALIGNED_IDS, UPDATED_IDS))
    # Probabilities in float32: a softmax of four is off by a few units of 2^-24.
    assert updated == pytest.approx(aligned, abs=2**-20)


def test_constant_maps_of_parts_and_cells_are_counted(logits):
    for name in logits.names:
        one = values_of(logits, IDSDS, name)
        assert 0 <= one.constant_maps <= 2
        assert (one.values == 0).sum() >= one.constant_maps
    assert values_of(logits, IDSDS, EXACT).constant_maps == 0


# Tables


def scored(protocol, method, *networks, place="here", constant=0):
    return [
        Scored(place, number, protocol, method, np.array(values), constant)
        for number, values in enumerate(networks)
    ]


def test_means_are_over_networks_where_there_are_several():
    [row] = score_table(
        scored(IDSDS, "integrated-gradients", [0.0, 1.0], [0.25, np.nan], constant=1), 0
    ).to_dict("records")
    assert row["method"] == "IG"
    assert row["mean"] == (0.5 + 0.25) / 2
    assert (row["units"], row["images"], row["constant_maps"]) == (2, 4, 2)
    assert row["paper"] == PAPER[IDSDS]["IG"]
    low, high = mean_interval(np.array([0.5, 0.25]), 0)
    assert (row["low"], row["high"]) == (low, high)


def test_means_are_over_images_where_there_is_one_network():
    [row] = score_table(scored(SDS, EXACT, [0.0, 0.5, 1.0]), 0).to_dict("records")
    assert (row["mean"], row["units"]) == (0.5, 3)
    assert np.isnan(row["paper"])


def test_raw_maps_are_held_against_absolute_ones_in_pairs():
    records = [
        *scored(IDSDS, "integrated-gradients", [0.5, 0.7, 0.9, 0.8, 0.5, 0.5]),
        *scored(IDSDS, f"integrated-gradients{ABSOLUTE}", [0.1, 0.2, 0.3, 0.4, 0.2, 0.1]),
        *scored(IDSDS, "saliency", [0.0] * 6),
    ]
    [row] = absolute_table(records, 0).to_dict("records")
    assert row["raw_minus_absolute"] == pytest.approx(2.6 / 6, abs=1e-15)
    assert (row["method"], row["better"]) == ("IG", "raw")
    assert (row["units"], row["over"]) == (6, "images")
    assert row["paper"] == PAPER[IDSDS]["IG"] - PAPER[IDSDS]["IG abs."]


def test_fewer_than_six_networks_tell_no_map_from_another():
    raw, absolute = "integrated-gradients", f"integrated-gradients{ABSOLUTE}"
    few = absolute_table(
        [*scored(IDSDS, raw, *[[0.5, 0.7]] * 5), *scored(IDSDS, absolute, *[[0.1, 0.2]] * 5)], 0
    )
    [row] = few.to_dict("records")
    assert (row["better"], row["units"], row["over"]) == ("", 5, "networks")
    [told] = findings._absolute(few)
    assert "here: means of raw maps higher for 1, of absolute ones for 0 of 1" in told
    assert "5 networks give no verdict" in told
    assert "told apart" not in told
    assert "1 of 1 differences of means have the paper's sign" in told
    enough = absolute_table(
        [*scored(IDSDS, raw, *[[0.1]] * 6), *scored(IDSDS, absolute, *[[0.5]] * 6)], 0
    )
    assert enough.better.tolist() == ["absolute"]
    [told] = findings._absolute(enough)
    assert "here: raw 0, absolute 1, not told apart 0 (6 networks)" in told
    assert "0 of 1 differences of means have the paper's sign" in told


def test_correlations_are_those_of_mean_scores_without_the_control():
    generator = np.random.default_rng(0)
    records = [
        each
        for name in PANEL
        for protocol in (IDSDS, SDS)
        for each in scored(protocol, name, generator.random(2))
    ]
    scores = score_table(records, 0)
    table = correlation_table(scores, 0).set_index(["place", "first", "second"])
    wide = scores.pivot(index="method", columns="protocol", values="mean").drop("random")
    assert table.correlation["here", IDSDS, SDS] == pytest.approx(
        stats.spearmanr(wide[IDSDS], wide[SDS]).statistic, abs=1e-12
    )
    paper = pd.DataFrame(PAPER).dropna()
    assert table.correlation["paper", IDSDS, SDS] == pytest.approx(
        stats.spearmanr(paper[IDSDS], paper[SDS]).statistic, abs=1e-12
    )


def test_agreement_is_spearmans_correlation_image_by_image(logits):
    table = agreement_table([logits], 0).set_index(["maps", "protocol"])
    # Scores that differ by rounding alone are ties.
    values = np.stack([e.values for e in logits.scored if e.protocol == IDS]).round(9)
    expected = [
        stats.spearmanr(values[:, image], logits.f1[:, image].round(9)).statistic
        for image in range(2)
    ]
    assert table.f1[ALL, IDS] == pytest.approx(np.mean(expected), abs=1e-12)
    assert (ALL, UPDATED_IDS) not in table.index
    few = [
        logits.names.index(name)
        for name in logits.names
        if name in (*UPDATED_BY_CONSTRUCTION, EXACT, MASK)
    ]
    expected = [
        stats.spearmanr(values[few, image], logits.cells[few, image].round(9)).statistic
        for image in range(2)
    ]
    assert table.cells[EXPLAINABLE, IDS] == pytest.approx(np.mean(expected), abs=1e-9)


def test_tables_to_read_have_a_column_for_each_place():
    records = [
        *scored(IDSDS, EXACT, [0.5, 0.7], place="one", constant=1),
        *scored(IDSDS, EXACT, [0.25], place="two"),
    ]
    [row] = readable(score_table(records, 0), IDSDS).to_dict("records")
    assert row["one"].startswith("0.60 (")
    assert row["two"] == "0.25"
    assert row["constant_maps"] == "1 of 2, 0 of 1"
    table = pd.DataFrame({"row": ["a"], "place": ["x"], "v": [np.nan], "l": [0.0], "h": [0.0]})
    assert side_by_side(table, ("row",), "place", ("v", "l", "h")).x.tolist() == [""]


# Trained networks


def made_up_task(n=4):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(n, 3, 8, 8, generator=generator)
    labels = torch.arange(n) % 2
    truth = torch.randn(n, 1, 8, 8, generator=generator)
    return Task("made up", images, labels, images, labels, 2, torch.full((3, 1, 1), 0.5), truth)


def made_up_network(seed):
    generator = torch.Generator().manual_seed(seed)
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 2)
    )
    for each in network.parameters():
        each.data = torch.randn(each.shape, generator=generator) / 4
    return network.eval()


def test_sds_is_of_the_original_network_and_idsds_of_the_fine_tuned_one():
    task, pair = made_up_task(), (made_up_network(0), made_up_network(1))
    explained = Explained(task.images, task.labels, task.baseline, ["1", "1"], task.truth)
    found = {
        (e.protocol, e.method): e.values
        for e in pair_scores("here", 0, pair, explained, SCALE, seed=3)
    }
    for protocol, network in ((SDS, pair[0]), (IDSDS, pair[1])):
        maps = al.methods.METHODS["input-x-gradient"](network, task.images, task.labels)
        expected = al.metrics.sds(
            network,
            task.images,
            task.labels,
            maps.double().sum(1, keepdim=True),
            replacement=task.baseline,
        )
        assert found[protocol, "input-x-gradient"].tolist() == expected.tolist()
    names = {protocol: {m for p, m in found if p == protocol} for protocol, _ in found}
    assert names[SDS] == names[IDSDS] == names[IDS] == CONVOLUTIONAL
    assert names[UPDATED_IDS] == set(UPDATED)
    assert len(found[IDS, "saliency"]) == SCALE.updated
    maps = al.methods.METHODS["input-x-gradient"](pair[1], task.images, task.labels)
    expected = [
        stats.spearmanr(*each).statistic
        for each in zip(
            al.metrics.patch_sums(maps.double().sum(1, keepdim=True)),
            al.metrics.patch_sums(task.truth),
            strict=True,
        )
    ]
    truth = found[trained_module.TRUTH, "input-x-gradient"]
    assert truth == pytest.approx(expected, abs=1e-12)


def test_without_a_fine_tuned_network_there_is_no_idsds():
    task = made_up_task()
    explained = Explained(task.images, task.labels, task.baseline, [None, None])
    found = list(pair_scores("here", 0, (made_up_network(0), None), explained, SCALE, seed=3))
    assert {each.protocol for each in found} == {SDS, IDS, UPDATED_IDS}
    assert "gradcam" not in {each.method for each in found}


def test_every_design_is_trained_on_every_task(monkeypatch):
    asked = []

    def pair_of(design, task, *, seed, **settings):
        assert "fine_tuning_rate" not in settings  # a family's own
        asked.append((design.family, seed, settings["replacement"]))
        networks = [network_of(design, 3, 2, 8, seed + k).eval() for k in (0, 1)]
        return trained_module.Pair(*networks)

    monkeypatch.setattr(trained_module, "TASKS", {"colors": lambda *_: made_up_task()})
    monkeypatch.setattr(trained_module, "trained_pair", pair_of)
    found = trained(replace(SCALE, steps=1, updated=1), 5)
    assert [each[:2] for each in asked] == [
        (family, seed) for seed in (5, 6) for family in ("plain", "b-cos", "bag")
    ]
    assert all(torch.equal(each[2], made_up_task().baseline) for each in asked)
    own = [e for e in found.scored if e.method in ("B-cos", "BagNet")]
    assert {(e.protocol, e.network) for e in own} == {(p, n) for p in (SDS, IDSDS) for n in (0, 1)}
    assert {e.method for e in found.scored if e.protocol == trained_module.TRUTH} == CONVOLUTIONAL
    row = found.accuracies[0]
    network = network_of(Design(), 3, 2, 8, 5).eval()
    task = made_up_task()
    labels = al.metrics.grid_patches(8, 8, 16)
    lacking = [
        float(
            (network(task.images.where(labels != c, task.baseline)).argmax(1) == task.labels)
            .double()
            .mean()
        )
        for c in range(16)
    ]
    assert row["original_lacking"] == pytest.approx(np.mean(lacking), abs=1e-12)


# Table 1


def test_another_temperature_changes_ids_and_no_rank_correlation():
    found = recalibration(made_up_task(), Pair(made_up_network(0), made_up_network(1)), 0)
    assert (found[SDS], found[IDSDS]) == (0.0, 0.0)
    assert found[IDS] > 0
    assert PARTS not in found  # it asks for parts, which the networks' images lack


def test_another_temperature_is_asked_of_the_network_that_a_protocol_judges(monkeypatch):
    judged = []

    def of_network(network, images, *_, **__):
        judged.append(network)
        return torch.zeros(len(images), dtype=torch.float64)

    monkeypatch.setattr(properties, "idsds", of_network)
    pair = Pair(made_up_network(0), made_up_network(1))
    recalibration(made_up_task(), pair, 0)
    assert judged[0] is pair.original
    assert judged[2] is pair.fine_tuned


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
    scores = modulo_scores(12, 0)
    assert scores.shape == (12,)
    assert np.nanmean(scores) < 0.9


def test_properties_are_ticked_by_what_was_measured(logits):
    found = {IDSDS: Leak("x", 0.5, 0.4, 0.6, 0.5), ROAR: Leak("y", 0.9, 0.8, 1.0, 0.5)}
    changes = {SDS: 0.0, IDSDS: 0.0, IDS: 0.1}
    unseen = {**logits.unseen, SDS: np.array([0.0, 1.0, 1.0])}
    # The outputs share networks, which count once.
    known = [replace(logits, unseen=unseen, output=each) for each in ("logit", "probability")]
    table = properties_table(known, found, changes).set_index(["protocol", "property"])
    assert table.ours[IDSDS].tolist() == ["yes", "yes", "yes", ""]
    assert table.ours[ROAR].tolist() == ["", "no", "", ""]
    assert table.ours[IDS].tolist() == ["no", "", "no", ""]
    assert table.ours[PARTS].tolist() == ["yes", "", "", ""]
    assert table.measured[SDS, "domain alignment"] == 2 / 3
    assert "1 of 3 networks react to none, 2 to all" in table.how[SDS, "domain alignment"]
    assert "not measured" in table.how[PARTS, "inter-model comparison"]
    [told] = findings._properties(table.reset_index())
    assert "9 of 9 ticks and crosses that were measured here come out as in the paper" in told
    assert "9 others were not measured" in told


# The run


@pytest.fixture(scope="module")
def run(logits):
    """All of it, with networks that were never trained."""
    probabilities = replace(logits, place="distractors", output="probability", exact=np.nan)
    task, pair = made_up_task(), trained_module.Pair(made_up_network(0), made_up_network(1))
    explained = Explained(task.images, task.labels, task.baseline, ["1", "1"], task.truth)
    networks = [
        each
        for number in (0, 1)
        for each in pair_scores("pictures", number, pair, explained, SCALE, seed=number)
    ]
    networks += scored(IDSDS, "BagNet", [1.0] * 4, [0.99] * 4, place="pictures")
    accuracies = [
        {"place": "pictures", "family": "plain", "network": number, "original": 0.5}
        | {"fine_tuned": 0.75, "original_lacking": 0.25, "fine_tuned_lacking": 0.5}
        for number in (0, 1)
    ]
    learned = Trained(networks, accuracies, (task, pair))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            experiment_module,
            "judged",
            lambda name, output, *_, **__: logits if output == "logit" else probabilities,
        )
        patch.setattr(experiment_module, "ENVIRONMENTS", {"multi-color-sum": "sum"})
        patch.setattr(experiment_module, "trained", lambda *_, **__: learned)
        leak = Leak("x", 0.5, 0.4, 0.6, 0.5)
        patch.setattr(experiment_module, "leaks", lambda *_: {IDSDS: leak, ROAR: leak})
        patch.setattr(experiment_module, "MODULO_IMAGES", 4)
        return idsds_protocols("idsds-table-1", n=None, quick=True)


def test_every_item_shows_tables_that_the_run_has(run):
    for _, shown, first in ITEMS.values():
        assert set(shown) <= set(run.tables)
        assert first in run.figures
    assert set(run.shown) == {"properties"}
    assert list(run.figures) == ["truth", "idsds", "updates", "protocols"]
    assert all(len(table) for table in run.tables.values())


def test_findings_say_what_was_measured(run):
    said = run.findings
    text = " ".join(said)
    for part in (
        "bit for bit: there SDS is IDSDS",
        "rank methods alike",
        "BagNet 0.99, whose mean is higher by",
        "Single-color-modulo is left out",
        "accuracy of original and fine-tuned networks (means over 2): plain 0.50 and 0.75",
        "ticks and crosses",
        "take the same from each drop",
        "methods whose mean score is above that of exact Shapley values: IDSDS 0 above 1.00",
        "so that there is nothing to update",
    ):
        assert part in text
    assert "nan" not in text
    assert len(set(said)) == len(said)


def self_explaining(*own):
    """Scores of BagNets beside those of plain networks, which are 0.4 with IG and 0.3 with IxG."""
    records = [
        *scored(IDSDS, "integrated-gradients", *[[0.3, 0.5]] * len(own)),
        *scored(IDSDS, "input-x-gradient", *[[0.3, 0.3]] * len(own)),
        *scored(IDSDS, "BagNet", *[[each, each] for each in own]),
    ]
    [sentence] = findings._intrinsic(intrinsic_table(records, 0))
    return sentence


def test_networks_that_explain_themselves_are_ahead_only_by_six_of_them():
    ahead = self_explaining(*[0.5, 0.6, 0.7, 0.5, 0.6, 0.7])
    assert "best map of plain networks, IG, has 0.40" in ahead
    assert "BagNet 0.60, which is ahead by +0.20 (+0.1" in ahead
    assert "which is behind by -0.2" in self_explaining(*[0.1, 0.2, 0.1, 0.2, 0.1, 0.2])
    assert "which is not told apart by" in self_explaining(*[0.1, 0.2, 0.5, 0.6, 0.7, 0.3])
    few = self_explaining(0.5, 0.6, 0.7)
    assert "BagNet 0.60, whose mean is higher by +0.20 (+0.10 to +0.30)" in few
    assert "3 networks give no verdict" in few
    assert "ahead by" not in few
    one = self_explaining(0.3)
    assert "whose mean is lower by -0.10; " in one
    assert "1 network gives no verdict" in one
    assert "nan" not in one


def test_findings_explain_equal_rankings_only_where_they_are_equal(run):
    table = run.tables["agreement"].copy()
    logits = (table.protocol == SDS) & (table.output == "logit") & (table.maps == ALL)
    assert "take the same from each drop" in " ".join(findings._agreement(table))
    table.loc[logits, "f1"] -= 0.1
    assert "take the same from each drop" not in " ".join(findings._agreement(table))


@pytest.fixture
def given(monkeypatch):
    """A user's network and images, and the same network fine-tuned."""
    task, asked = made_up_task(), []

    def chosen(images, model, n, seed, **settings):
        asked.append((images, model, n, settings["weights"]))
        network = made_up_network(1 if settings["weights"] == "tuned.pt" else 0)
        notes = (f"read {settings['weights']}",)
        return Subject(
            "mine", network, network, task.images, task.labels, 1.0, task.baseline, 1.0, notes=notes
        )

    monkeypatch.setattr(experiment_module, "chosen_subject", chosen)
    return asked


def test_own_networks_get_all_that_needs_no_truth(given):
    files = {"images": "folder", "model": "net.py:net", "weights": "a.pt", "fine_tuned": "tuned.pt"}
    found = idsds_protocols("idsds-figure-2", n=None, quick=True, layer="1", size=8, **files)
    assert given == [("folder", "net.py:net", 1, name) for name in ("a.pt", "tuned.pt")]
    assert set(found.tables) == {
        *("idsds", "sds", "ids", "updated", "rankings", "pairs", "correlations", "absolute"),
        "scores",
    }
    assert set(found.shown) == {"rankings", "pairs"}
    assert list(found.figures) == ["idsds", "updates", "protocols"]
    assert found.findings[:2] == ["read a.pt", "read tuned.pt"]
    for name, told in zip(ATTENDED, found.findings[2:4], strict=True):
        assert told.startswith(f"{name} is left out: needs a network with attention")
    assert not any("nan" in sentence for sentence in found.findings)


def test_own_networks_that_are_not_fine_tuned_have_no_idsds(given):
    files = {"images": "folder", "model": "net.py:net"}
    found = idsds_protocols("idsds-table-6", n=2, quick=True, size=8, **files)
    assert given == [("folder", "net.py:net", 2, None)]
    assert "idsds" not in found.tables
    assert "fine_tuned is not given: there is no IDSDS." in found.findings


def test_items_that_need_the_truth_refuse_own_networks(given):
    files = {"images": "folder", "model": "net.py:net"}
    for item in ("idsds-table-1", "idsds-table-7"):
        with pytest.raises(al.AttributionLabError, match="needs networks whose truth is known"):
            idsds_protocols(item, n=None, quick=True, **files)


def test_weights_of_a_fine_tuned_network_need_images_and_a_model():
    with pytest.raises(al.AttributionLabError, match=r"fine_tuned is 'file\.pt' without images"):
        idsds_protocols("idsds-figure-2", n=None, quick=True, fine_tuned="file.pt")


def test_noise_in_place_of_the_baseline_is_held_against_the_baseline_and_the_paper():
    means = {"IG": 0.5, "IG-U": 0.25, "RISE": 0.1}
    table = pd.DataFrame(
        [("here", IDSDS, name, mean) for name, mean in means.items()],
        columns=["place", "protocol", "method", "mean"],
    )
    [told] = findings._noise_for_black(table)
    assert told == (
        "IDSDS, what noise in place of the baseline changes in the mean of IG (paper +0.06): "
        "here -0.25."
    )
    assert not list(findings._noise_for_black(table.assign(protocol=SDS)))


def test_the_paper_and_the_legend_name_the_same_methods():
    attention = {LEGEND[name] for name in ATTENDED}  # ResNet-50 has none
    names = set(LEGEND.values()) - {"random"} - attention
    for protocol, published in PAPER.items():
        assert names <= set(published), protocol
        assert set(published) - names == ({"B-cos", "BagNet"} if protocol == IDSDS else set())
    assert len(PAIRS) == 5


def test_modules_share_one_number_of_cells():
    assert PATCHES == trained_module.PATCHES == properties.PATCHES == 16


def test_updated_maps_that_tie_are_all_named():
    names = ["IxG", "IG", "IG-U", "Saliency", "random"]
    updated = [1.0, 1.0 - 1e-8, 1.0, 1.0 - 2e-8, 0.4]
    rows = [
        {"place": "photos", "method": name, "protocol": protocol, "mean": value}
        for protocol, values in ((IDS, [0.5] * 5), (UPDATED_IDS, updated))
        for name, value in zip(names, values, strict=True)
    ]
    [said] = findings._updates(pd.DataFrame(rows))
    _, _, ahead = said.partition("updated, ")
    assert set(ahead.removesuffix(" are ahead.").split(", ")) == set(names) - {"random"}
