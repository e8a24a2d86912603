"""Scores on exact and on trained networks: what is compared, and correlations by their definition."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.methods import METHODS
from attributionlab.papers import items, reproduce
from attributionlab.papers.attributionlab import trained_networks as module
from attributionlab.papers.catalog import Run
from attributionlab.worlds import Lessons, TrainedNetwork, make_trained
from attributionlab.worlds.learned.examination import held_out
from attributionlab.worlds.learned.pictures import drawn_pictures
from claims_held import holds

SIZES = {"worlds": 1, "networks": 2, "samples": 256, "some": True}


def scores_of(by_world):
    """A row for each world, network and method; `by_world` has a list of scores for each network."""
    return pd.DataFrame(
        [
            {"world": world, "network": network, "method": f"method {i}", "f1": value}
            for world, networks in by_world.items()
            for network, values in networks.items()
            for i, value in enumerate(values)
        ]
    )


def few_lessons(env):
    """Fewer images than are learned from."""
    return Lessons(drawn_pictures(env, 20, 1), held_out(env, 20, 2))


def random_scores(seed, worlds=3, networks=4, methods=7):
    rng = np.random.default_rng(seed)
    names = [*module.EXACT, *(f"trained {k}" for k in range(networks))]
    return {f"w{w}": {name: rng.random(methods) for name in names} for w in range(worlds)}


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Enough to see what an interval depends on."""
    monkeypatch.setattr(module, "RESAMPLES", 200)


def row(table, compared, world):
    [found] = table[(table.compared == compared) & (table.world == world)].itertuples()
    return found


@pytest.mark.parametrize("seed", range(3))
def test_correlations_are_means_of_spearmans_over_networks_pairs_and_worlds(seed):
    by_world = random_scores(seed)
    table = module.correlation_table(scores_of(by_world), seed=0)
    means = {module.WITH_TRAINED: [], module.TWO_TRAINED: [], module.WITH_FORM: []}
    means |= {f"{name} and trained": [] for name in (*module.GRADED, module.RANKING)}
    for world, networks in by_world.items():
        learned = [values for name, values in networks.items() if name.startswith("trained")]
        one = [spearmanr(networks[module.HAND], values).statistic for values in learned]
        two = [spearmanr(*pair).statistic for pair in combinations(learned, 2)]
        form = [spearmanr(networks[module.HAND], networks["plateau"]).statistic]
        ranking = np.mean([networks[name] for name in module.GRADED], axis=0)
        graded = [
            [spearmanr(exact, values).statistic for values in learned]
            for exact in (*(networks[name] for name in module.GRADED), ranking)
        ]
        for compared, each in zip(means, (one, two, form, *graded), strict=True):
            means[compared].append(np.mean(each))
            assert row(table, compared, world).value == pytest.approx(np.mean(each))
    for compared, each in means.items():
        found = row(table, compared, module.OVERALL)
        assert found.value == pytest.approx(np.mean(each))
        assert found.low < found.value < found.high


@pytest.mark.long
def test_intervals_know_both_levels():
    """Worlds that differ, or networks that do: either widens the interval over all worlds."""
    ranks = np.arange(8.0)

    def width(values):
        by_world = {
            f"w{w}": {module.HAND: ranks}
            | {f"trained {k}": order for k, order in enumerate(orders)}
            for w, orders in enumerate(values)
        }
        found = row(
            module.correlation_table(scores_of(by_world), seed=0),
            module.WITH_TRAINED,
            module.OVERALL,
        )
        return found.high - found.low

    equal = width([[ranks, ranks]] * 4)
    assert equal == 0
    assert width([[ranks, ranks]] * 2 + [[-ranks, -ranks]] * 2) > 0.5  # worlds
    assert width([[ranks, -ranks]] * 4) > 0.5  # networks


def test_a_world_without_certified_networks_is_left_out():
    by_world = random_scores(0)
    by_world["w1"] = {name: by_world["w1"][name] for name in module.EXACT}
    table = module.correlation_table(scores_of(by_world), seed=0)
    assert {*table[table.compared == module.WITH_TRAINED].world} == {"w0", "w2", module.OVERALL}
    assert {*table[table.compared == module.WITH_FORM].world} == {"w0", "w1", "w2", module.OVERALL}
    assert row(table, module.WITH_TRAINED, module.OVERALL).networks == 8


def test_a_method_that_cannot_run_on_a_network_of_a_world_is_left_out_there():
    by_world = random_scores(0)
    by_world["w0"]["trained 1"][2] = np.nan
    kept = [i for i in range(7) if i != 2]
    table = module.correlation_table(scores_of(by_world), seed=0)
    values = [
        spearmanr(by_world["w0"][module.HAND][kept], by_world["w0"][f"trained {k}"][kept]).statistic
        for k in range(4)
    ]
    assert row(table, module.WITH_TRAINED, "w0").value == pytest.approx(np.mean(values))


def test_means_weigh_worlds_equally():
    by_world = {
        "w0": {module.HAND: [1.0, 0.0], "trained 0": [0.0, 0.2]},
        "w1": {module.HAND: [0.5, 0.0], "trained 0": [0.4, 0.0], "trained 1": [0.8, 0.0]},
        "none certified": {module.HAND: [0.0, 1.0]},
    }
    table = module.mean_scores(scores_of(by_world)).set_index("method")
    assert table[module.HAND].tolist() == pytest.approx([0.75, 0])
    assert table["trained"].tolist() == pytest.approx([0.3, 0.1])


def test_every_built_in_method_runs_or_has_a_reason():
    assert module.LEFT_OUT.keys() <= METHODS.keys()
    assert {*module.QUICK_METHODS} <= METHODS.keys() - module.LEFT_OUT.keys()
    assert not {*module.BLIND} & METHODS.keys()


@pytest.mark.long
def test_scores_are_those_of_the_faithfulness_test():
    env = al.load("quadrants", image_size=24)
    names = ("gradcam", "occlusion-true-baseline", "random")
    found = module.method_scores(env, names, n=4, seed=3)
    for name in names:
        report = al.faithfulness_test(name, env, n=4, seed=3, one_network=True, also=None)
        assert found[name] == pytest.approx(report.environments[0].claim_f1)


def test_another_network_has_the_same_images_and_the_same_truth():
    env = al.load("no-orange", image_size=24)
    trained = make_trained(env, "cnn", samples=128, lessons=few_lessons(env))
    other = module.with_network(env, trained)
    images, labels = env.batch(3)
    assert isinstance(trained, TrainedNetwork)
    assert other.model is trained.network
    targets = env.targets(labels)
    assert (other.truth(images, targets).signed == env.truth(images, targets).signed).all()
    assert (other.batch(3)[0] == images).all()
    names = ("saliency", "non-background", "oracle", "attention-rollout")
    exact, found = (module.method_scores(each, names, n=3, seed=0) for each in (env, other))
    assert exact["saliency"] != found["saliency"]
    assert exact["non-background"] == found["non-background"]
    assert exact["oracle"] == found["oracle"] == 1
    assert np.isnan(found["attention-rollout"])


@pytest.mark.long
def test_an_item_resumes_from_its_store_and_keeps_no_scores_of_rejected_networks(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "lessons_of", few_lessons)
    monkeypatch.setattr(module, "QUICK_METHODS", ("saliency", "gradcam", "lrp"))
    whole = module.trained_networks(Run(module.ITEM, n=2, running={"out": tmp_path}), **SIZES)
    certificates, scores = whole.tables["certificates"], whole.tables["scores"]
    assert len(certificates) == 2
    assert not certificates.certified.any()  # 256 samples are far too few
    assert not scores.network.str.startswith("trained").any()
    assert whole.tables["networks"].certified.tolist() == [0]
    assert {*whole.tables["correlations"].compared} == {module.WITH_FORM}
    assert {*whole.tables["correlations"].over} == {module.REAL, module.ALL}
    monkeypatch.setattr(module, "make_trained", None)  # would fail if it were called again
    again = module.trained_networks(Run(module.ITEM, n=2, running={"out": tmp_path}), **SIZES)
    for name, table in whole.tables.items():
        pd.testing.assert_frame_equal(table, again.tables[name])


def test_claims_read_the_rows_over_all_worlds():
    def tables(one, two, passes):
        rows = [(module.WITH_TRAINED, one), (module.TWO_TRAINED, two), ("natural and trained", two)]
        correlations = pd.DataFrame(
            [
                {
                    "compared": compared,
                    "world": module.OVERALL,
                    "over": module.REAL,
                    "low": low,
                    "high": high,
                }
                for compared, (low, high) in rows
            ]
        )
        counted = pd.DataFrame(
            [
                [name, True, *each]
                for name in (module.HAND, "natural")  # of which the first counts
                for each in ([True, passes * (name == module.HAND)], [False, 10])
            ],
            columns=["network", "exact", "trained", "pairs"],
        )
        return {"correlations": correlations, "passes": counted}

    def held(one, two, passes):
        found = tables(one, two, passes)
        names = (
            *("scores_carry_over", "trained_ones_are_more_alike", "passing_does_not_carry_over"),
            "natural_ones_are_nearer",
        )
        return [holds(found, name) for name in names]

    assert held((0.2, 0.4), (0.5, 0.9), 3) == ["agrees"] * 4
    open_ = ["undecided", "undecided", "differs", "undecided"]
    assert held((-0.2, 0.4), (0.3, 0.9), 30) == open_
    assert held((-0.4, -0.2), (-0.9, -0.5), 3) == ["differs", "differs", "agrees", "differs"]
    unknown = held((np.nan, np.nan), (0.3, 0.9), 3)
    assert [*unknown[:2], unknown[3]] == ["undecided"] * 3


def test_wrong_sizes_are_refused_in_one_line():
    with pytest.raises(AttributionLabError, match=r"worlds is 9.*networks is 0"):
        reproduce(module.ITEM, settings={"worlds": 9, "networks": 0})


def test_all_worlds_have_images_at_the_items_size():
    assert items()[module.ITEM].sizes["worlds"] == len(module.WORLDS)
    for name in module.WORLDS:
        module._world(name).batch(1)
