"""How designs change IDSDS: scores by cell, comparisons of setups, the trade-off, and what is said."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.papers.idsds.choices import experiment as experiment_module
from attributionlab.papers.idsds.choices import findings, measurement
from attributionlab.papers.idsds.choices.cells import (
    AFTER,
    LOGIT,
    OUTPUTS,
    PROBABILITY,
    TRUTH,
    Explained,
    cell_scores,
    cell_sums,
)
from attributionlab.papers.idsds.choices.comparisons import (
    Comparison,
    compared,
    method_differences,
    network_changes,
    outcome,
    summarized,
)
from attributionlab.papers.idsds.choices.experiment import idsds_choices, idsds_softmax
from attributionlab.papers.idsds.choices.measurement import Scale, measured
from attributionlab.papers.idsds.choices.studies import STUDIES
from attributionlab.papers.idsds.choices.tradeoff import Tradeoff, best_scores, tradeoff_of
from attributionlab.papers.idsds.data import Task
from attributionlab.papers.idsds.training import Pair
from attributionlab.papers.subjects.networks import Design
from attributionlab.ranking import CorrelationInterval, spearman

SIDE = 8
METHODS = ("input-x-gradient", "saliency", "random")
SCALE = Scale(
    images=3, tested=5, training=4, epochs=1, fine_tuning=1, runs=2, methods=METHODS, quick=True
)


def linear(seed, classes=3):
    """Logits that are weighted sums of pixels."""
    layer = nn.Linear(3 * SIDE**2, classes, bias=False)
    draw = torch.randn(layer.weight.shape, generator=torch.Generator().manual_seed(seed))
    layer.weight = nn.Parameter(draw)
    return nn.Sequential(nn.ReLU(), nn.Flatten(), layer).eval()


def drawn_task(training, n, seed):
    """Random images against a black baseline."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(training + n, 3, SIDE, SIDE, generator=generator)
    labels = torch.randint(3, (training + n,), generator=generator)
    truth = torch.randint(-1, 2, (n, 1, SIDE, SIDE), generator=generator).float()
    return Task(
        "drawn",
        *(images[:training], labels[:training], images[training:], labels[training:]),
        *(3, torch.zeros(3, 1, 1), truth),
    )


def explained(seed=0, n=4):
    task = drawn_task(1, n, seed)
    return Explained(linear(seed), None, task.images, task.labels, task.baseline, task.truth)


# Cells


def test_cell_sums_are_those_of_sixteen_squares():
    maps = torch.randint(-9, 9, (2, 1, SIDE, SIDE), generator=torch.Generator().manual_seed(0))
    cells = cell_sums(maps.float())
    for image in range(2):
        for cell in range(16):
            top, left = cell // 4 * 2, cell % 4 * 2
            own = [int(maps[image, 0, top + y, left + x]) for y in range(2) for x in range(2)]
            assert cells[image, cell] == sum(own)


def test_scores_are_those_of_the_metric_where_maps_or_drops_are_constant_too():
    held = explained(n=4)
    held.images[3] = 0  # nothing to delete: all drops are 0
    maps = torch.rand(4, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    maps[1] = 0.25
    maps[3] = 0.25
    found = cell_scores(held.references()[LOGIT], cell_sums(maps))
    metric = al.metrics.single_deletion(
        held.network, held.images, held.labels, maps, patches=16, replacement=0.0
    )
    assert np.array_equal(found.scores, metric.scores.numpy(), equal_nan=True)
    assert found.scores[1] == 0
    assert np.isnan(found.scores[3])
    assert found.constant_maps.tolist() == [False, True, False, False]


def test_one_image_of_scores_is_that_image():
    found = cell_scores(explained().references()[LOGIT], cell_sums(explained().truth))
    assert found.of(2).scores.tolist() == [found.scores[2]]
    assert found.of(2).constant_maps.tolist() == [found.constant_maps[2]]


def test_maps_can_be_held_against_drops_of_either_output_and_the_truth():
    held = explained()
    references = held.references()
    assert list(references) == [*OUTPUTS, TRUTH]
    assert references[TRUTH].tolist() == cell_sums(held.truth).tolist()
    image, label = held.images[1], int(held.labels[1])
    for cell in (0, 7, 15):
        without = image.clone()
        top, left = cell // 4 * 2, cell % 4 * 2
        without[:, top : top + 2, left : left + 2] = 0
        with torch.no_grad():
            logits = held.network(torch.stack([image, without]))
        for name, outputs in zip(OUTPUTS, (logits, logits.softmax(1)), strict=True):
            drop = float(outputs[0, label] - outputs[1, label])
            # float32 in batches of other sizes: some 200 products of the order of 1
            assert float(references[name][1, cell]) == pytest.approx(drop, abs=1e-4)
    assert TRUTH not in replace(held, truth=None).references()


def test_maps_of_the_logit_of_a_linear_network_have_the_order_of_its_drops():
    held = explained()
    [(_, sums)] = held.sums(LOGIT, ("input-x-gradient",), 0, quick=True)
    assert cell_scores(held.references()[LOGIT], sums).scores.tolist() == [1] * 4
    [(_, other)] = held.sums(PROBABILITY, ("input-x-gradient",), 0, quick=True)
    assert (cell_scores(held.references()[LOGIT], other).scores < 1).all()


def test_probabilities_are_those_of_the_labels():
    held = explained()
    with torch.no_grad():
        every = held.network(held.images).softmax(1)
    expected = [float(every[i, label]) for i, label in enumerate(held.labels)]
    assert held.probabilities().tolist() == expected


# Networks


@pytest.fixture
def trainings(monkeypatch):
    """Linear networks instead of trained ones, and what they would have been trained with."""
    asked = []

    def trained(design, task, *, seed, **settings):
        asked.append((design.name, seed, task, settings))
        return Pair(linear(seed + 10), linear(seed))

    monkeypatch.setattr(measurement, "trained_pair", trained)
    monkeypatch.setattr(measurement, "TASKS", {"colors": drawn_task})
    return asked


DESIGNS = (Design("plain"), Design("plain", width=8))


def test_networks_of_a_run_share_images_and_no_two_runs_do(trainings):
    measured(DESIGNS, SCALE, task="colors", seed=5)
    assert [(name, seed) for name, seed, *_ in trainings] == [
        (design.name, seed) for seed in (5, 7) for design in DESIGNS
    ]
    first, second, third, _ = (task for _, _, task, _ in trainings)
    assert first is second
    assert not torch.equal(first.images, third.images)
    for _, _, task, settings in trainings:
        assert len(task.images) == SCALE.tested
        assert len(task.training_images) == SCALE.training
        assert settings["replacement"] is task.baseline
        assert (settings["epochs"], settings["fine_tuning_epochs"]) == (1, 1)


def test_scores_are_of_the_fine_tuned_network_and_the_first_images(trainings):
    found = measured(DESIGNS[:1], SCALE, task="colors", seed=0, after_softmax=["plain"])
    scores = found.scores.set_index(["setup", "run", "method", "against"])
    assert len(scores) == 2 * 2 * len(METHODS) * 3
    assert set(found.scores.setup) == {"plain", "plain" + AFTER}
    # input x gradient of a linear network is exact, saliency is not
    assert scores.score["plain", 1, "input-x-gradient", LOGIT] == 1
    assert (scores.score["plain", :, "saliency", LOGIT] < 0.9).all()
    assert (scores.images == 3).all()
    task = trainings[1][2]
    network = linear(2)
    facts = found.networks.iloc[1]
    assert facts.accuracy == measurement.accuracy_of(network, task.images, task.labels)
    drops = al.metrics.single_deletion(
        *(network, task.images[:3], task.labels[:3], task.truth[:3]), replacement=0.0
    )
    assert facts.network_truth == pytest.approx(float(drops.scores.mean()))
    assert facts.parameters == 3 * 3 * SIDE**2


def test_only_named_designs_are_explained_after_the_softmax(trainings):
    found = measured(DESIGNS, SCALE, task="colors", seed=0, after_softmax=[DESIGNS[1].name])
    assert list(dict.fromkeys(found.scores.setup)) == [
        DESIGNS[0].name,
        DESIGNS[1].name,
        DESIGNS[1].name + AFTER,
    ]


def test_without_a_truth_nothing_is_held_against_it(trainings, monkeypatch):
    monkeypatch.setattr(
        measurement, "TASKS", {"pictures": lambda *asked: drawn_task(*asked)._replace(truth=None)}
    )
    found = measured(DESIGNS[:1], SCALE, task="pictures", seed=0)
    assert set(found.scores.against) == set(OUTPUTS)
    assert found.networks.network_truth.isna().all()


def test_images_whose_drops_are_equal_are_counted_and_left_out():
    flat = torch.zeros(1, 16, dtype=torch.float64)
    some = torch.arange(16.0, dtype=torch.float64)[None]
    found = cell_scores(torch.cat([some, flat, some]), torch.cat([some, some, flat]))
    assert measurement.summary_of(found) == {
        "score": 0.5,
        "constant_maps": 1,
        "constant_drops": 1,
        "images": 2,
    }


# Comparisons


def scores_of(values):
    """A table of scores: setup -> method -> one for each run."""
    return pd.DataFrame(
        [
            (setup, run, method, score, 0, 0, 4)
            for setup, methods in values.items()
            for method, runs in methods.items()
            for run, score in enumerate(runs)
        ],
        columns=["setup", "run", "method", "score", "constant_maps", "constant_drops", "images"],
    )


LOWER = Comparison("(b) depth", "shallow", "deep", "lower")


def test_majority_and_mean_difference_are_of_methods_that_both_setups_have():
    scores = scores_of(
        {
            "shallow": {"a": [0.5] * 6, "b": [0.4] * 6, "c": [0.1] * 6, "random": [0.0] * 6},
            "deep": {
                "c": [0.2] * 6,
                "a": [0.1, 0.2, 0.1, 0.2, 0.1, 0.2],
                "b": [0.3] * 6,
                "random": [0.9] * 6,
                "d": [0.0] * 6,
            },
        }
    )
    row = compared(scores.sample(frac=1, random_state=0), LOWER, 0, against=LOGIT)
    assert (row["higher"], row["lower"], row["methods"], row["runs"]) == (1, 2, 3, 6)
    # runs differ by (-0.4 - 0.1 + 0.1) / 3 and (-0.3 - 0.1 + 0.1) / 3
    assert row["difference"] == pytest.approx(-0.35 / 3)
    assert -0.4 / 3 - 1e-12 <= row["low"] < row["high"] <= -0.1 + 1e-12
    assert (row["paper"], row["outcome"]) == ("lower", "agrees")
    # means of a, b, c: 0.5, 0.4, 0.1 and 0.15, 0.3, 0.2
    assert row["rankings"] == spearman([3, 2, 1], [1, 3, 2])
    table = method_differences(scores, LOWER, 0).set_index("method")
    assert sorted(table.index) == ["a", "b", "c"]
    assert table.difference["a"] == pytest.approx(-0.35)
    assert table.difference["c"] == pytest.approx(0.1)
    opposite = compared(scores, LOWER._replace(first="deep", second="shallow"), 0, against=LOGIT)
    assert opposite["difference"] == pytest.approx(-row["difference"])
    assert opposite["outcome"] == "disagrees"


def test_single_networks_never_decide():
    scores = scores_of({"shallow": {"a": [0.5], "b": [0.4]}, "deep": {"a": [0.1], "b": [0.1]}})
    row = compared(scores, LOWER, 0, against=LOGIT)
    assert row["outcome"] == "agrees (not sure)"
    assert np.isnan(row["low"])
    assert row["runs"] == 1


@pytest.mark.parametrize(
    ("higher", "lower", "sure", "expected"),
    [
        (7, 3, "higher", "disagrees"),
        (7, 3, None, "disagrees (not sure)"),
        (7, 3, "lower", "undecided"),
        (5, 5, "lower", "undecided"),
        (5, 5, None, "undecided"),
        (4, 5, None, "undecided"),  # one method stays as it is: no majority of ten
        (2, 8, "lower", "agrees"),
        (2, 8, None, "agrees (not sure)"),
    ],
)
def test_an_outcome_needs_a_majority_and_an_interval_on_one_side(higher, lower, sure, expected):
    assert outcome(higher, lower, 10, sure, "lower") == expected


def test_summaries_keep_setups_apart_and_count():
    scores = scores_of({"shallow": {"a": [0.5, 0.7]}, "deep": {"a": [0.1]}})
    table = summarized(scores, 0).set_index("setup")
    assert table.loc["shallow", ["mean", "runs", "images"]].tolist() == [0.6, 2, 8]
    assert table.low["shallow"] == 0.5
    assert np.isnan(table.low["deep"])


def test_methods_for_attention_alone_are_placed_among_all_but_the_control():
    scores = scores_of(
        {
            "plain": {"saliency": [0.5, 0.6]},
            "attention": {
                "saliency": [0.3, 0.5],
                "chefer-lrp": [0.6, 0.8],
                "attention-rollout": [0.1, 0.2],
                "random": [0.9, 0.9],
            },
        }
    )
    methods = summarized(scores, 0).assign(against=LOGIT)
    [told] = findings.attention_findings(methods)
    assert told.startswith(
        "attention: methods for attention alone score chefer-lrp +0.700 (+0.600 "
    )
    assert "rank 1 of 3; attention-rollout +0.150" in told
    assert "rank 3 of 3; chefer-lrp is best (+0.700). The paper has" in told
    assert not list(findings.attention_findings(methods.assign(against=PROBABILITY)))


def test_changes_of_networks_are_paired_by_run():
    networks = pd.DataFrame(
        {
            "setup": ["deep", "shallow"] * 2,
            "run": [0, 0, 1, 1],
            "accuracy": [0.5, 0.4, 0.9, 0.6],
            "network_truth": [np.nan] * 4,
        }
    )
    row = network_changes(networks, LOWER, 0)
    assert row["accuracy_difference"] == pytest.approx(0.2)
    assert (row["accuracy_low"], row["accuracy_high"]) == pytest.approx((0.1, 0.3))
    assert np.isnan(row["truth_difference"])


# Trade-off


def networks_of(accuracies):
    return pd.DataFrame(
        [(setup, run, a) for setup, runs in accuracies.items() for run, a in enumerate(runs)],
        columns=["setup", "run", "accuracy"],
    )


def test_the_trade_off_is_of_the_best_method_in_runs_that_all_designs_have():
    scores = scores_of(
        {
            "a": {"ig": [0.1, 0.3, 9.0], "cam": [0.4, 0.1, 0.0], "random": [5.0, 5.0, 5.0]},
            "b": {"ig": [0.3, 0.4], "cam": [0.0, 0.0]},
            "c": {"ig": [0.6, 0.5], "cam": [0.7, 0.6]},
        }
    )
    networks = networks_of({"a": [0.9, 0.7, 0.0], "b": [0.8, 0.8], "c": [0.5, 0.6]})
    table = best_scores(scores, networks, 0).set_index("setup")
    assert table.best_method.tolist() == ["cam", "ig", "cam"]
    assert table.best.tolist() == pytest.approx([0.25, 0.35, 0.65])
    assert table.accuracy.tolist() == pytest.approx([0.8, 0.8, 0.55])
    assert table.runs.tolist() == [2, 2, 2]
    found = tradeoff_of(scores, networks, 0)
    assert found.designs == 3
    assert found.over_designs.value == spearman(table.accuracy, table.best)
    # of single runs the best scores are 0.4, 0.3, 0.7 and 0.3, 0.4, 0.6
    assert found.by_run == (
        spearman([0.9, 0.8, 0.5], [0.4, 0.3, 0.7]),
        spearman([0.7, 0.8, 0.6], [0.3, 0.4, 0.6]),
    )


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((-0.5, -0.9, -0.1), "That agrees with the paper, which has them anticorrelated."),
        ((0.5, 0.1, 0.9), "That disagrees with the paper, which has them anticorrelated."),
        (
            (-0.5, -0.9, 0.1),
            "The sign is that of the paper, which has them anticorrelated, but the interval holds 0.",
        ),
        ((0.5, -0.1, 0.9), "The sign is not that of the paper, which has them anticorrelated, but"),
        ((math.nan,) * 3, "no correlation is defined"),
    ],
)
def test_the_trade_off_is_told_as_it_is(ends, said):
    told = findings.tradeoff_finding(Tradeoff(9, CorrelationInterval(*ends), (0.25, -0.5)))
    assert said in told
    if not math.isnan(ends[0]):
        assert f"of 9 designs have a rank correlation of {ends[0]:+.2f}" in told
        assert "in single runs +0.25, -0.50" in told


# Findings


def table_row(outcome, runs=6, against=LOGIT, difference=-0.1, ends=(-0.2, -0.05), **more):
    return {
        "part": "(b) depth",
        "first": "shallow",
        "second": "deep",
        "higher": 2,
        "lower": 7,
        "methods": 10,
        "difference": difference,
        "low": ends[0],
        "high": ends[1],
        "runs": runs,
        "rankings": 0.75,
        "maps": "all",
        "against": against,
        "paper": "lower",
        "outcome": outcome,
        **more,
    }


def change(truth, ends, accuracy=(0.1, -0.05, 0.15)):
    row = {"part": "(b) depth", "first": "shallow", "second": "deep", "truth_difference": truth}
    return row | {
        "truth_low": ends[0],
        "truth_high": ends[1],
        "accuracy_difference": accuracy[0],
        "accuracy_low": accuracy[1],
        "accuracy_high": accuracy[2],
    }


def told_of(row, changes=(), unit="training run"):
    others = row | {"maps": "not absolute", "methods": 4, "outcome": "undecided"}
    rows, changes = pd.DataFrame([row, others]), pd.DataFrame(list(changes))
    return " ".join(findings.comparison_findings(rows, changes, unit))


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("agrees", "on average: agrees;"),
        ("agrees (not sure)", "the majority agrees, but the interval does not exclude 0"),
        ("disagrees", "on average: disagrees;"),
        ("disagrees (not sure)", "the majority disagrees, but"),
        ("undecided", "undecided, since"),
    ],
)
def test_a_comparison_is_told_with_its_numbers_and_outcome(outcome, said):
    told = told_of(table_row(outcome))
    assert "the paper has most methods lower on deep than on shallow" in told
    assert "Here 2 of 10 methods score higher and 7 lower, by -0.100 (-0.200 to -0.050)" in told
    assert said in told
    assert "the rankings of methods correlate by 0.75" in told
    assert "Without absolute values and squares, 2 of 4 methods score higher" in told


def test_maps_that_are_no_absolute_values_are_compared_by_themselves():
    methods = ("ig", "ig-absolute", "saliency", "ig-smoothgrad-squared", "gradcam", "random")
    scores = scores_of(
        {
            "shallow": {name: [0.5] * 6 for name in methods},
            "deep": {name: [0.5 - 0.1 * i] * 6 for i, name in enumerate(methods)},
        }
    )
    row = compared(scores, LOWER, 0, against=LOGIT, maps="not absolute")
    assert (row["methods"], row["higher"], row["lower"]) == (2, 0, 1)
    assert row["maps"] == "not absolute"
    assert row["difference"] == pytest.approx(-0.2)
    assert compared(scores, LOWER, 0, against=LOGIT)["methods"] == 5


def test_rollout_is_the_same_before_and_after_the_softmax_and_not_compared():
    methods = {"ig": [0.5] * 6, "chefer-lrp": [0.4] * 6, "attention-rollout": [0.25] * 6}
    after = {"ig": [0.4] * 6, "chefer-lrp": [0.3] * 6, "attention-rollout": [0.25] * 6}
    scores = scores_of({"net": methods, f"net{AFTER}": after, "other": after})
    softmax = Comparison("softmax", "net", f"net{AFTER}", "lower")
    row = compared(scores, softmax, 0, against=LOGIT)
    assert (row["methods"], row["lower"]) == (2, 2)
    assert row["difference"] == pytest.approx(-0.1)
    assert "attention-rollout" not in set(method_differences(scores, softmax, 0).method)
    networks = Comparison("architecture", "net", "other", "lower")
    assert compared(scores, networks, 0, against=LOGIT)["methods"] == 3
    facts = pd.DataFrame(
        {"setup": ["net"], "drops_agree": 0.5, "probability": 0.75, "saturated": 0.0}
    )
    scores = pd.concat([scores.assign(against=each) for each in OUTPUTS])
    rows = [compared(scores[scores.against == each], softmax, 0, against=each) for each in OUTPUTS]
    told = list(findings.softmax_findings(scores, facts, pd.DataFrame(rows)))
    assert told[0] == (
        "attention-rollout is not compared: its maps are the same before and after the softmax."
    )
    assert "mean over methods, held against drops of the logit 0.450" in told[1]


def test_too_few_runs_are_no_finding():
    told = told_of(table_row("agrees (not sure)", runs=1, ends=(np.nan, np.nan)))
    assert "the majority agrees, too few to tell" in told
    assert "by -0.100 on average" in told
    assert "Differences are of 1 training run, fewer than 6" in told
    assert "fewer than 6" not in told_of(table_row("agrees"))
    assert "set n" in told_of(table_row("agrees (not sure)", runs=2), unit="image")


def test_networks_whose_drops_are_all_equal_are_not_compared():
    scores = scores_of(
        {
            "shallow": {"a": [0.5] * 6, "b": [0.4] * 6},
            "deep": {"a": [np.nan] * 6, "b": [np.nan] * 6},
        }
    )
    row = compared(scores, LOWER, 0, against=LOGIT)
    assert (row["runs"], row["outcome"]) == (0, "undecided")
    assert np.isnan(row["rankings"])
    told = told_of(row)
    assert "shallow and deep cannot be compared, since in each training run all drops" in told
    assert "fewer than" not in told
    networks = networks_of({"shallow": [0.9] * 6, "deep": [0.25] * 6})
    assert best_scores(scores, networks, 0).setup.tolist() == ["shallow"]
    assert tradeoff_of(scores, networks, 0).designs == 1


def test_whether_a_design_changes_the_network_itself_is_said():
    changed = told_of(table_row("agrees"), [change(-0.2, (-0.3, -0.1))])
    assert "Accuracy changes by +0.100 (-0.050 to +0.150)" in changed
    assert "by -0.200 (-0.300 to -0.100): the networks themselves differ" in changed
    same = told_of(table_row("agrees"), [change(-0.2, (-0.3, 0.1))])
    assert "no difference of the networks themselves" in same
    better = told_of(table_row("agrees"), [change(-0.2, (-0.3, 0.1), accuracy=(0.1, 0.05, 0.2))])
    assert "the networks themselves differ" in better
    unknown = told_of(table_row("agrees"), [change(np.nan, (np.nan, np.nan))])
    assert "network's own drops" not in unknown
    few = told_of(table_row("agrees", runs=5), [change(-0.2, (-0.3, -0.1))])
    assert "themselves" not in few


@pytest.mark.parametrize(
    ("logit", "probability", "said"),
    [
        (-0.1, 0.1, "each kind of map is ahead by the drops of the output that it explains"),
        (-0.1, -0.1, "maps of the logit are ahead by either drop"),
        (0.1, 0.1, "maps of the probability are ahead by either drop"),
        (0.1, -0.1, "each kind of map is ahead by the drops of the other output"),
        (0.0, 0.0, "the means are equal by drops of the logit and probability"),
        (0.1, 0.0, "the means are equal by drops of the probability"),
    ],
)
def test_what_the_goal_has_to_do_with_the_softmax_is_computed(logit, probability, said):
    after = f"net{AFTER}"
    rows = [
        table_row(
            "agrees",
            against=against,
            difference=value,
            ends=(value - 0.05, value + 0.05),
            first="net",
            second=after,
        )
        for against, value in zip(OUTPUTS, (logit, probability), strict=True)
    ]
    scores = pd.concat(
        [
            scores_of({"net": {"a": [0.5, 0.7]}, after: {"a": [0.2, 0.4]}}).assign(against=each)
            for each in (*OUTPUTS, TRUTH)
        ]
    )
    scores.loc[(scores.setup == after) & (scores.run == 1), "constant_maps"] = 3
    facts = pd.DataFrame(
        {"setup": "net", "drops_agree": [0.5, 0.7], "probability": 0.75, "saturated": [0.5, 0.0]}
    )
    told = " ".join(findings.softmax_findings(scores, facts, pd.DataFrame(rows)))
    assert said in told
    if probability == 0:
        assert "is ahead" not in told
        return
    assert "though the intervals do not" not in told
    assert "maps of the logit, mean over methods, held against drops of the logit 0.600" in told
    assert "the data's truth 0.300" in told
    assert "correlate by 0.60" in told
    assert "0.75 on average and rounds to 1 in 25.0% of the images" in told
    assert "0 of 8 maps of the logit and 3 of 8 of the probability are constant" in told
    unsure = pd.DataFrame([{**row, "low": -1.0, "high": 1.0} for row in rows])
    told = " ".join(findings.softmax_findings(scores, facts, unsure))
    assert "though the intervals do not" in told
    few = pd.DataFrame([{**row, "runs": 2} for row in rows])
    assert "though the intervals do not" in " ".join(findings.softmax_findings(scores, facts, few))


def test_drops_that_are_all_equal_say_nothing_of_the_softmax():
    after = f"net{AFTER}"
    rows = [
        table_row("undecided", against=LOGIT, first="net", second=after),
        table_row(
            "undecided",
            runs=0,
            against=PROBABILITY,
            difference=np.nan,
            ends=(np.nan, np.nan),
            first="net",
            second=after,
        ),
    ]
    scores = pd.concat(
        [
            scores_of({name: {"a": [value]} for name in ("net", after)}).assign(against=each)
            for each, value in ((LOGIT, 0.5), (PROBABILITY, np.nan))
        ]
    )
    facts = pd.DataFrame(
        {"setup": ["net"], "drops_agree": np.nan, "probability": 1.0, "saturated": 1.0}
    )
    [told] = findings.softmax_findings(scores, facts, pd.DataFrame(rows))
    assert "all drops of the probability are equal in each image" in told
    assert "rounds to 1 in 100.0% of the images" in told
    assert "nan" not in told


# Items


def test_items_compare_what_they_train():
    for item, study in STUDIES.items():
        names = {design.name for design in (*study.designs, *study.others)}
        assert len(names) == len(study.designs) + len(study.others), item
        for each in study.comparisons:
            assert {each.first, each.second.removesuffix(AFTER)} <= names, item
    assert len(STUDIES["idsds-figure-5"].others) >= 5


@pytest.fixture
def small(trainings, monkeypatch):
    """Items whose networks are linear and whose images are few."""
    for name in ("FULL", "QUICK"):
        monkeypatch.setattr(experiment_module, name, SCALE)
    return trainings


def test_the_trade_off_has_all_designs_and_the_others_half_of_the_runs(small):
    found = idsds_choices("idsds-figure-5", n=None, quick=True, runs=3)
    trained = pd.Series([name for name, *_ in small]).value_counts()
    study = STUDIES["idsds-figure-5"]
    assert {trained[design.name] for design in study.designs} == {3}
    assert {trained[design.name] for design in study.others} == {2}
    assert set(found.tables["tradeoff"].setup) == set(trained.index)
    assert set(found.figures) == {"setups", "tradeoff"}
    assert set(found.shown) == {"comparisons", "changes", "networks", "tradeoff"}
    assert "have a rank correlation" in found.findings[-1] or "no correlation" in found.findings[-1]
    assert list(found.tables["networks"].parameters) == [3 * 3 * SIDE**2] * 9


def test_a_comparison_of_outputs_is_held_against_drops_of_both(small):
    found = idsds_softmax("idsds-figure-4", n=2, quick=True)
    table = found.tables["comparisons"]
    assert table.maps.tolist() == ["all", "not absolute"] * 3
    table = table[table.maps == "all"]
    assert table.part.tolist() == ["(a) width", "(b) softmax", "(b) softmax"]
    assert table.against.tolist() == [LOGIT, LOGIT, PROBABILITY]
    assert set(found.tables["scores"].images) == {2}
    assert len(found.tables["changes"]) == 1  # the softmax changes no network
    assert len(found.figures["setups"].axes) == 3
    said = " ".join(found.findings)
    assert "Held against drops of the probability" in said
    assert "The control, maps of random numbers" in said


def test_what_attention_is_explained_by_is_said(small):
    found = idsds_choices("idsds-figure-3", n=None, quick=True, runs=1)
    assert any("Rollout and CheferLRP" in each for each in found.findings)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"task": "colours"}, "task is 'colours'"),
        ({"runs": 0}, "runs is 0: take an integer"),
        ({"n": 0}, "is 0: take an integer"),
        ({"images": "there"}, "pass both, or neither"),
    ],
)
def test_impossible_settings_are_refused(settings, problem):
    with pytest.raises(al.AttributionLabError, match=problem):
        idsds_softmax("idsds-figure-9", **({"n": None, "quick": True} | settings))


def test_a_network_of_ones_own_is_explained_before_and_after_its_softmax(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    for name in ("dark", "light"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    model = tmp_path / "net.py"
    model.write_text(
        "import torch\nfrom torch import nn\n\n\ndef net():\n"
        "    with torch.random.fork_rng():\n        torch.manual_seed(0)\n"
        "        return nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2))\n"
    )
    found = idsds_softmax(
        "idsds-figure-9",
        n=3,
        quick=True,
        images=str(tmp_path / "images"),
        model=f"{model}:net",
        layer="0",
        size=SIDE,
    )
    table = found.tables["comparisons"]
    assert table.against.tolist() == [LOGIT, LOGIT, PROBABILITY, PROBABILITY]
    assert set(table.runs) == {6}  # images
    assert set(found.tables["scores"].setup) == {"images", f"images{AFTER}"}
    assert "gradcam" in set(found.tables["scores"].method)
    assert set(found.tables["runs"].accuracy) <= {0.0, 1.0}
    assert any("images, at 8 x 8" in each for each in found.findings)
    assert "changes" not in found.tables  # of one network there are none
    assert any("These are its SDS" in each for each in found.findings)
    assert any("chefer-lrp is left out: needs" in each for each in found.findings)
    assert [each.get_xlabel() for each in found.figures["setups"].axes] == [
        "SDS (higher is better)",
        "as SDS, drops of the probability (higher is better)",
    ]
