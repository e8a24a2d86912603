"""How designs change IDSDS: networks and their scores, comparisons of setups, the trade-off, claims."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.metrics.ranking import spearman
from attributionlab.papers import reproduce
from attributionlab.papers.catalog import CLAIMS, Run
from attributionlab.papers.idsds import choices as module
from attributionlab.papers.idsds.choices import (
    ATTENTION,
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    FIGURE_9,
    SOFTMAX,
    STUDIES,
    Study,
    designs,
)
from attributionlab.papers.idsds.comparisons import (
    AFTER,
    Comparison,
    compared,
    method_differences,
    network_changes,
    outcome,
    summarized,
    tradeoff,
)
from attributionlab.papers.idsds.maps import LOGIT, OUTPUTS, PROBABILITY, TRUTH
from attributionlab.papers.idsds.training import Pair, Task
from attributionlab.papers.subjects.networks import Design
from own_network import own_network

SIDE = 8
METHODS = ("input-x-gradient", "saliency", "random")
SIZES = {"training": 4, "tested": 5, "epochs": 1, "fine_tuning": 1, "runs": 2}


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


# Networks


@pytest.fixture
def trainings(monkeypatch):
    """Linear networks instead of trained ones, and what they would have been trained with."""
    asked = []

    def trained(design, task, *, seed, **settings):
        asked.append((design.name, seed, task, settings))
        return Pair(linear(seed + 10), linear(seed))

    monkeypatch.setattr(module, "trained_pair", trained)
    monkeypatch.setattr(module, "TASKS", {"colors": drawn_task, "pictures": drawn_task})
    monkeypatch.setattr(module, "PANEL", METHODS)
    return asked


TWO = (Design("plain"), Design("plain", width=8))


def found(monkeypatch, study=None, n=3, seed=0, item=FIGURE_4, **how):
    """Tables of two designs, of which the second is explained after the softmax."""
    name = TWO[1].name
    softmax = Comparison(SOFTMAX, name, name + AFTER, "lower")
    study = study or Study(TWO, (Comparison("width", TWO[0].name, name, "lower"), softmax))
    monkeypatch.setitem(STUDIES, item, study)
    return designs(Run(item, n, seed=seed), **SIZES | how)


@pytest.mark.long
def test_networks_of_a_run_share_images_and_no_two_runs_do(trainings, monkeypatch):
    found(monkeypatch, seed=5)
    assert [(name, seed) for name, seed, *_ in trainings] == [
        (design.name, seed) for seed in (5, 7) for design in TWO
    ]
    first, second, third, _ = (task for _, _, task, _ in trainings)
    assert first is second
    assert not torch.equal(first.images, third.images)
    for _, _, task, settings in trainings:
        assert len(task.images) == SIZES["tested"]
        assert len(task.training_images) == SIZES["training"]
        assert settings["replacement"] is task.baseline
        assert (settings["epochs"], settings["fine_tuning"]) == (1, 1)


@pytest.mark.long
def test_scores_are_of_the_fine_tuned_network_and_the_first_images(trainings, monkeypatch):
    tables = found(monkeypatch).tables
    first, second = (design.name for design in TWO)
    assert list(dict.fromkeys(tables["scores"].setup)) == [first, second, second + AFTER]
    scores = tables["scores"].set_index(["setup", "run", "method", "against"])
    assert len(scores) == 3 * 2 * len(METHODS) * 3
    # input x gradient of a linear network is exact, saliency is not
    assert scores.score[first, 1, "input-x-gradient", LOGIT] == 1
    assert (scores.score[first, :, "saliency", LOGIT] < 0.9).all()
    assert (scores.images == 3).all()
    task = trainings[2][2]
    network = linear(2)
    facts = tables["runs"].set_index(["setup", "run"]).loc[first, 1]
    assert facts.accuracy == module.accuracy_of(network, task.images, task.labels)
    before = linear(12)
    assert facts.accuracy_before == module.accuracy_of(before, task.images, task.labels)
    drops = al.metrics.single_deletion(
        *(network, task.images[:3], task.labels[:3], task.truth[:3]), replacement=0.0
    )
    assert facts.network_truth == pytest.approx(float(drops.scores.mean()))
    assert facts.parameters == 3 * 3 * SIDE**2
    with torch.no_grad():
        every = network(task.images[:3]).softmax(1)[torch.arange(3), task.labels[:3]]
    assert facts.probability == pytest.approx(float(every.mean()), abs=1e-6)  # float32
    networks = tables["networks"].set_index("setup")
    own = tables["scores"][tables["scores"].setup == first]
    means = own[own.method != "random"].groupby("against").score.mean()
    assert networks.idsds[first] == pytest.approx(means[LOGIT])
    assert networks.map_truth[first] == pytest.approx(means[TRUTH])
    control = own[(own.method == "random") & (own.against == LOGIT)].score.mean()
    assert networks.control[first] == pytest.approx(control)
    assert networks.runs[first] == 2


@pytest.mark.long
def test_outputs_have_means_over_methods_that_differ_by_output(trainings, monkeypatch):
    tables = found(monkeypatch).tables
    second = TWO[1].name
    rows = tables["outputs"].set_index(["setup", "against"])
    assert set(rows.index) == {(s, a) for s in (second, second + AFTER) for a in (*OUTPUTS, TRUTH)}
    scores = tables["scores"]
    own = scores[(scores.setup == second) & (scores.against == LOGIT) & (scores.method != "random")]
    assert rows.score[second, LOGIT] == pytest.approx(own.score.mean())
    assert rows.maps[second, LOGIT] == 2 * 2 * 3  # runs, methods, images
    assert rows.constant_maps[second, LOGIT] == 0


@pytest.mark.long
@pytest.mark.usefixtures("trainings")
def test_without_a_truth_nothing_is_held_against_it(monkeypatch):
    monkeypatch.setattr(
        module, "TASKS", {"pictures": lambda *asked: drawn_task(*asked)._replace(truth=None)}
    )
    tables = found(monkeypatch, task="pictures").tables
    assert set(tables["scores"].against) == set(OUTPUTS)
    assert tables["runs"].network_truth.isna().all()


@pytest.mark.long
@pytest.mark.usefixtures("trainings")
def test_images_whose_drops_are_equal_are_counted_and_left_out(monkeypatch):
    def dark(*asked):
        task = drawn_task(*asked)
        task.images[0] = 0
        return task

    monkeypatch.setattr(module, "TASKS", {"colors": dark})
    scores = found(monkeypatch).tables["scores"]
    own = scores[(scores.against == LOGIT) & (scores.method == "input-x-gradient")]
    own = own[own.setup == TWO[0].name]
    assert (own.score == 1).all()
    assert (own.constant_drops == 1).all()
    assert (own.constant_maps == 0).all()
    assert (own.images == 2).all()


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


def test_methods_are_ranked_without_the_control():
    scores = scores_of(
        {
            "plain": {"saliency": [0.5, 0.6], "random": [0.9, 0.9]},
            "attention": {
                "saliency": [0.3, 0.5],
                "chefer-lrp": [0.6, 0.8],
                "attention-rollout": [0.1, 0.2],
                "random": [0.9, 0.9],
            },
        }
    )
    table = summarized(scores, 0).set_index(["setup", "method"])
    assert table["rank"]["attention"].tolist()[:3] == [2, 1, 3]
    assert table["rank"]["plain", "saliency"] == 1
    assert table["rank"].isna().sum() == 2


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
    tables = tradeoff(scores.assign(against=LOGIT), networks, 0)
    table = tables["tradeoff"].set_index("setup")
    assert table.best_method.tolist() == ["cam", "ig", "cam"]
    assert table.best.tolist() == pytest.approx([0.25, 0.35, 0.65])
    assert table.accuracy.tolist() == pytest.approx([0.8, 0.8, 0.55])
    assert table.runs.tolist() == [2, 2, 2]
    found = tables["correlation"]
    assert found.designs.tolist() == [3] * 3
    assert found.run.tolist() == ["means", "0", "1"]
    # of single runs the best scores are 0.4, 0.3, 0.7 and 0.3, 0.4, 0.6
    assert found.correlation.tolist() == [
        spearman(table.accuracy, table.best),
        spearman([0.9, 0.8, 0.5], [0.4, 0.3, 0.7]),
        spearman([0.7, 0.8, 0.6], [0.3, 0.4, 0.6]),
    ]


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
    networks = networks_of({"shallow": [0.9] * 6, "deep": [0.25] * 6})
    found = tradeoff(scores.assign(against=LOGIT), networks, 0)
    assert found["tradeoff"].setup.tolist() == ["shallow"]
    assert (found["correlation"].designs == 1).all()


# Claims


def claimed(tables, item):
    """Whether each claim holds, by what the paper says."""
    return {each.statement: each.holds(tables) for each in CLAIMS if item in each.items}


def comparisons(item, outcome, **columns):
    """Comparisons of an item's study, all with the same outcome."""
    rows = [each._asdict() for each in STUDIES[item].comparisons]
    table = pd.DataFrame(rows).assign(outcome=outcome, maps="all", against=LOGIT, **columns)
    others = table.assign(outcome="undecided")
    return pd.concat(
        [table, others.assign(maps="not absolute"), others.assign(against=PROBABILITY)]
    )


@pytest.mark.parametrize("item", STUDIES)
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("agrees", "agrees"),
        ("disagrees", "differs"),
        ("agrees (not sure)", "undecided"),
        ("undecided", "undecided"),
    ],
)
def test_a_direction_of_the_paper_is_found_where_all_its_comparisons_agree(item, outcome, expected):
    table = comparisons(item, outcome, runs=1, rankings=0.9, low=-1.0, high=1.0)
    tables = {"comparisons": table, "runs": pd.DataFrame({"setup": ["a"]})}
    tables["methods"] = pd.DataFrame(columns=["setup", "against", "method", "runs"])
    tables["correlation"] = pd.DataFrame({"low": [-1.0], "high": [1.0]})
    found = claimed(tables, item)
    judged = [name for name in found if "methods score" in name]
    assert len(judged) == {FIGURE_3: 3, FIGURE_4: 2, FIGURE_5: 2, FIGURE_9: 1}.get(item, 3)
    assert {found[name] for name in judged} == {expected}
    assert {each for name, each in found.items() if name not in judged} <= {"undecided"}


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["agrees", "undecided"], None),
        (["agrees", "disagrees"], False),
        (["undecided", "agrees (not sure)"], None),
    ],
)
def test_steps_of_a_depth_agree_where_all_do(outcomes, expected):
    table = pd.DataFrame({"second": ["b", "c"], "outcome": outcomes})
    tables = {"comparisons": table.assign(part="(b) depth", maps="all", against=LOGIT)}
    assert module._direction("depth")(tables) is expected


def test_a_claim_about_one_of_several_comparisons_is_decided_by_it_alone():
    table = comparisons(FIGURE_5, "agrees", runs=1)
    table["outcome"] = ["agrees", "disagrees"] * 3
    tables = {"comparisons": table, "correlation": pd.DataFrame({"low": [-1.0], "high": [1.0]})}
    assert list(claimed(tables, FIGURE_5).values()) == [
        "agrees",
        "differs",
        "undecided",
        "undecided",
    ]


@pytest.mark.parametrize(
    ("rankings", "runs", "expected"),
    [([0.9, 0.8], 6, "agrees"), ([0.9, 0.4], 6, "differs"), ([0.9, 0.9], 5, "undecided")],
)
def test_rankings_of_architectures_are_alike_where_both_are(rankings, runs, expected):
    table = comparisons(FIGURE_3, "agrees", runs=runs)
    table["rankings"] = [*rankings, *[0.0] * 10]
    tables = {"comparisons": table}
    assert module.architectures_keep_the_ranking(tables) == {
        "agrees": True, "differs": False, "undecided": None
    }[expected]  # fmt: skip


@pytest.mark.parametrize(
    ("chefer", "other", "runs", "expected"),
    [
        ((0.8, 0.9), (0.1, 0.2), 6, True),
        ((0.1, 0.2), (0.8, 0.9), 6, False),
        ((0.1, 0.85), (0.8, 0.9), 6, None),
        ((0.8, 0.9), (0.1, 0.2), 5, None),
    ],
)
def test_methods_for_attention_are_best_where_all_intervals_say_so(chefer, other, runs, expected):
    uniform = "integrated-gradients-uniform"
    rows = [("chefer-lrp", *chefer), (uniform, *chefer), ("saliency", *other), ("random", 2.0, 3.0)]
    table = pd.DataFrame(rows, columns=["method", "low", "high"])
    table = table.assign(setup=ATTENTION.name, against=LOGIT, runs=runs)
    more = table.assign(setup="plain", low=5.0, high=6.0)
    assert module.methods_for_attention_are_best({"methods": pd.concat([table, more])}) is expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(-0.9, -0.1, True), (0.1, 0.9, False), (-0.9, 0.1, None), (math.nan, math.nan, None)],
)
def test_the_trade_off_is_decided_by_the_interval_over_designs(low, high, expected):
    table = pd.DataFrame({"low": [low, math.nan], "high": [high, math.nan]})
    assert module.best_scores_fall_with_accuracy({"correlation": table}) is expected


@pytest.mark.parametrize(
    ("logit", "probability", "runs", "expected"),
    [
        (-0.1, 0.1, 6, True),
        (-0.1, -0.1, 6, False),
        (0.1, 0.1, 6, False),
        (-0.1, 0.0, 6, None),
        (-0.1, 0.1, 5, None),
        (-0.1, math.nan, 0, None),
    ],
)
def test_the_goal_is_the_reason_where_each_kind_of_map_is_ahead_by_its_own(
    logit, probability, runs, expected
):
    rows = [
        {"against": against, "low": value - 0.05, "high": value + 0.05, "runs": number}
        for against, value, number in ((LOGIT, logit, 6), (PROBABILITY, probability, runs))
    ]
    table = pd.DataFrame(rows).assign(part=SOFTMAX, maps="all")
    assert module.each_kind_of_map_is_ahead_by_its_own_drops({"comparisons": table}) is expected


@pytest.mark.parametrize(
    ("truth", "accuracy", "runs", "expected"),
    [
        ((-0.3, -0.1), (-0.1, 0.1), 6, True),
        ((-0.3, 0.1), (0.1, 0.2), 6, True),
        ((-0.3, 0.1), (-0.1, 0.1), 6, False),
        ((math.nan, math.nan), (-0.1, 0.1), 6, False),
        ((-0.3, -0.1), (0.1, 0.2), 5, None),
    ],
)
def test_designs_change_networks_where_an_interval_excludes_0(truth, accuracy, runs, expected):
    columns = ["truth_low", "truth_high", "accuracy_low", "accuracy_high"]
    rows = [(*truth, *accuracy), (0.1, 0.2, 0.1, 0.2)]
    tables = {"changes": pd.DataFrame(rows, columns=columns)}
    tables["runs"] = pd.DataFrame({"setup": ["a"] * runs})
    assert module.designs_change_networks(tables) is expected


# Items


def test_items_compare_what_they_train():
    for item, study in STUDIES.items():
        names = {design.name for design in (*study.designs, *study.others)}
        assert len(names) == len(study.designs) + len(study.others), item
        for each in study.comparisons:
            assert {each.first, each.second.removesuffix(AFTER)} <= names, item
    assert len(STUDIES["idsds-figure-5"].others) >= 5


@pytest.mark.long
def test_the_trade_off_has_all_designs_and_the_others_half_of_the_runs(trainings):
    outcome = designs(Run(FIGURE_5, 3), **SIZES | {"runs": 3})
    trained = pd.Series([name for name, *_ in trainings]).value_counts()
    study = STUDIES[FIGURE_5]
    assert {trained[design.name] for design in study.designs} == {3}
    assert {trained[design.name] for design in study.others} == {2}
    assert set(outcome.tables["tradeoff"].setup) == set(trained.index)
    assert set(outcome.figures) == {"setups", "tradeoff"}
    assert list(outcome.tables["networks"].parameters) == [3 * 3 * SIDE**2] * 9
    labels = [each.get_text() for each in outcome.figures["tradeoff"].axes[0].texts]
    assert labels == [str(number) for number in range(1, 10)]


@pytest.mark.long
@pytest.mark.usefixtures("trainings")
def test_a_comparison_of_outputs_is_held_against_drops_of_both():
    outcome = reproduce(FIGURE_4, n=2, settings=SIZES)
    table = outcome.tables["comparisons"]
    assert table.maps.tolist() == ["all", "not absolute"] * 3
    table = table[table.maps == "all"]
    assert table.part.tolist() == ["(a) width", "(b) softmax", "(b) softmax"]
    assert table.against.tolist() == [LOGIT, LOGIT, PROBABILITY]
    assert set(outcome.tables["scores"].images) == {2}
    assert len(outcome.tables["changes"]) == 1  # the softmax changes no network
    assert len(outcome.figures["setups"].axes) == 3
    assert {each["here"] for each in outcome.claims} == {"undecided"}  # of two runs


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"task": "colours"}, "task is 'colours'"),
        ({"runs": 0}, "runs is 0: take an integer"),
        ({"epochs": 1.5}, "epochs is 1.5: take an integer"),
        ({"images": "there"}, "pass both, or neither"),
    ],
)
def test_impossible_settings_are_refused(settings, problem):
    with pytest.raises(al.AttributionLabError, match=problem):
        reproduce(FIGURE_9, settings=settings)


@pytest.mark.long
def test_a_network_of_ones_own_is_explained_before_and_after_its_softmax(tmp_path):
    own = own_network(tmp_path, number=3) | {"layer": "0"}
    found = reproduce(FIGURE_9, n=3, quick=True, settings=own)
    table = found.tables["comparisons"]
    assert table.against.tolist() == [LOGIT, LOGIT, PROBABILITY, PROBABILITY]
    assert set(table.runs) == {6}  # images
    assert set(found.tables["scores"].setup) == {"images", f"images{AFTER}"}
    assert "gradcam" in set(found.tables["scores"].method)
    assert set(found.tables["runs"].accuracy) <= {0.0, 1.0}
    assert any("images, at 8 x 8" in each for each in found.notes)
    assert "changes" not in found.tables  # of one network there are none
    assert any("These are its SDS" in each for each in found.notes)
    assert any("chefer-lrp is left out: needs" in each for each in found.notes)
    assert {each["here"] for each in found.claims} <= {"agrees", "differs", "undecided"}
    left, right = found.figures["setups"].axes
    assert left.get_xlabel() == "SDS (higher is better)"
    assert right.get_title() == "softmax, drops of the probability"
    single = reproduce(FIGURE_9, quick=True, settings=own)
    assert set(single.tables["comparisons"].runs) == {2}  # one image of each class
