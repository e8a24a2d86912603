"""Scores on exact and on trained networks: what is compared, and correlations by their definition."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.methods import METHODS
from attributionlab.papers import items, reproduce
from attributionlab.papers.attributionlab import trained_networks as module
from attributionlab.papers.catalog import Run
from attributionlab.verdicts import network_scores
from attributionlab.worlds import Lessons, TrainedNetwork, make_trained
from attributionlab.worlds.learned.examination import held_out
from attributionlab.worlds.learned.pictures import drawn_pictures
from attributionlab.worlds.learned.trained import rule_of
from claims_held import holds
from oracles_learned_rules import predicted

SIZES = {"worlds": 1, "unseen": 0, "architectures": 2, "networks": 1, "samples": 256, "some": True}
KINDS = ("trained cnn 0", "trained cnn 1", "trained vit 0")
EXACT = ("paper", "planes", "natural", "plateau")


def scores_of(by_world):
    """A row for each world, network and method; `by_world` has a list of scores for each network."""
    return pd.DataFrame(
        [
            {
                "world": world,
                "network": network,
                "method": f"method {i}",
                "f1": value,
                "solved": np.round(8 * value) / 8,
            }
            for world, networks in by_world.items()
            for network, values in networks.items()
            for i, value in enumerate(values)
        ]
    )


ASKED = module.Sizes(n=1, seed=0, samples=None, image_size=24, methods=())


def few_lessons(env):
    """Fewer images than are learned from."""
    return Lessons(drawn_pictures(env, 20, 1), held_out(env, 20, 2))


def random_scores(seed, worlds=3, methods=9, sisters=("w1",)):
    """Scores of eighths, so that some tie and some solve three quarters of the questions."""
    rng = np.random.default_rng(seed)
    soft = [name + module.SOFT for name in EXACT[:3]]
    return {
        f"w{w}": {
            name: rng.integers(0, 9, methods) / 8
            for name in (*EXACT, *KINDS, *(soft if f"w{w}" in sisters else ()))
        }
        for w in range(worlds)
    }


def table_of(by_world, groups=None):
    groups = {module.OVERALL: [*by_world]} if groups is None else groups
    return module.correlation_table(scores_of(by_world), groups, seed=0)


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Enough to see what an interval depends on."""
    monkeypatch.setattr(module, "RESAMPLES", 200)


def row(table, predictor, world):
    [found] = table[(table.predictor == predictor) & (table.world == world)].itertuples()
    return found


@pytest.mark.parametrize("seed", range(3))
def test_predictions_are_means_over_networks_pairs_and_worlds(seed):
    by_world = random_scores(seed)
    table = table_of(by_world)
    wanted = {world: predicted(networks) for world, networks in by_world.items()}
    assert {*table.predictor} == {name for each in wanted.values() for name in each}
    for name in wanted["w0"]:
        for world, each in wanted.items():
            found = row(table, name, world)
            assert [found.value, found.same_half, found.same_verdict] == pytest.approx(each[name])
        found = row(table, name, module.OVERALL)
        means = np.mean([each[name] for each in wanted.values()], axis=0)
        assert [found.value, found.same_half, found.same_verdict] == pytest.approx(means)
        assert found.low < found.value < found.high
        assert found.same_half_low < found.same_half < found.same_half_high


def width(values, methods=None):
    """Of the interval over worlds, each with the scores of its trained networks."""
    ranks = np.arange(8.0) if methods is None else methods
    by_world = {
        f"w{w}": {"paper": ranks} | {f"trained cnn {k}": order for k, order in enumerate(orders)}
        for w, orders in enumerate(values)
    }
    found = row(table_of(by_world), "paper", module.OVERALL)
    return found.high - found.low


def test_intervals_know_worlds_networks_and_methods():
    """What differs widens the interval, whatever it is."""
    ranks = np.arange(8.0)
    assert width([[ranks, ranks]] * 4) == 0
    assert width([[ranks, ranks]] * 2 + [[-ranks, -ranks]] * 2) > 0.5  # worlds
    assert width([[ranks, -ranks]] * 4) > 0.5  # networks
    one_off = ranks.copy()
    one_off[0] = 8  # one method that is last on one network and first on the other
    assert width([[one_off, one_off]] * 4) > 0.5  # methods


def test_a_world_without_certified_networks_is_left_out():
    by_world = random_scores(0)
    by_world["w1"] = {name: by_world["w1"][name] for name in EXACT}
    table = table_of(by_world)
    assert {*table.world} == {"w0", "w2", module.OVERALL}
    assert row(table, "paper", module.OVERALL).networks == 6


def test_groups_of_worlds_are_told_apart():
    by_world = random_scores(0)
    table = table_of(by_world, {module.OVERALL: ["w0", "w1"], module.UNSEEN: ["w2"]})
    both = [row(table, "natural", world).value for world in ("w0", "w1")]
    assert row(table, "natural", module.OVERALL).value == pytest.approx(np.mean(both))
    unseen = row(table, "natural", module.UNSEEN)
    assert unseen.value == row(table, "natural", "w2").value


def test_a_method_that_cannot_run_on_a_network_of_a_world_is_left_out_there():
    by_world = random_scores(0)
    by_world["w0"]["trained cnn 1"][2] = np.nan
    kept = {name: np.delete(each, 2) for name, each in by_world["w0"].items()}
    table = table_of(by_world)
    for name, each in predicted(kept).items():
        assert row(table, name, "w0").value == pytest.approx(each[0])


def test_means_weigh_worlds_equally():
    by_world = {
        "w0": {"paper": [1.0, 0.0], "trained cnn 0": [0.0, 0.2]},
        "w1": {"paper": [0.5, 0.0], "trained cnn 0": [0.4, 0.0], "trained vit 0": [0.8, 0.0]},
        "none certified": {"paper": [0.0, 1.0]},
    }
    graded = {"planes": [0.5, 0.25], "natural": [0.5, 0.25]}
    sister = {"planes (soft sister)": [1.0, 0.25], "natural (soft sister)": [0.5, 0.25]}
    by_world = {world: each | graded for world, each in by_world.items()}
    by_world["w1"] |= sister
    table = module.mean_scores(scores_of(by_world)).set_index("method")
    assert table["paper"].tolist() == pytest.approx([0.75, 0])
    assert table["natural"].tolist() == pytest.approx([0.5, 0.25])
    assert table[module.RANKING].tolist() == pytest.approx([(0.5 + 0.75) / 2, 0.25])
    assert table["trained"].tolist() == pytest.approx([0.3, 0.1])


def test_every_built_in_method_runs_or_has_a_reason():
    assert module.LEFT_OUT.keys() <= METHODS.keys()
    assert {*module.QUICK_METHODS} <= METHODS.keys() - module.LEFT_OUT.keys()
    assert not {*module.BLIND} & METHODS.keys()


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
    exact, found = (
        network_scores(each, names, n=3, seed=0).set_index("method").f1 for each in (env, other)
    )
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
    assert whole.tables["correlations"].empty
    soft = {f"{name} (soft sister)" for name in ("paper", "planes", "natural")}
    assert {*EXACT} | soft <= {*scores.network}
    monkeypatch.setattr(module, "make_trained", None)  # would fail if it were called again
    again = module.trained_networks(Run(module.ITEM, n=2, running={"out": tmp_path}), **SIZES)
    for name, table in whole.tables.items():
        pd.testing.assert_frame_equal(table, again.tables[name])


def test_claims_read_the_rows_over_all_worlds():
    def tables(one, two, passes):
        higher = (module.OTHER, "natural", module.RANKING)
        rows = [("paper", one), *((name, two) for name in higher)]
        correlations = pd.DataFrame(
            [
                {
                    "predictor": predictor,
                    "world": module.OVERALL,
                    "over": module.REAL,
                    "low": low,
                    "high": high,
                }
                for predictor, (low, high) in rows
            ]
        )
        counted = pd.DataFrame(
            [
                [name, True, *each]
                for name in (module.PAPER, "natural")  # of which the first counts
                for each in ([True, passes * (name == module.PAPER)], [False, 10])
            ],
            columns=["network", "exact", "trained", "pairs"],
        )
        return {"correlations": correlations, "passes": counted}

    def held(one, two, passes):
        found = tables(one, two, passes)
        names = (
            *("scores_carry_over", "trained_ones_are_more_alike", "passing_does_not_carry_over"),
            "natural_ones_are_nearer",
            "the_ranking_score_is_nearer",
        )
        return [holds(found, name) for name in names]

    assert held((0.2, 0.4), (0.5, 0.9), 3) == ["agrees"] * 5
    open_ = ["undecided", "undecided", "differs", "undecided", "undecided"]
    assert held((-0.2, 0.4), (0.3, 0.9), 30) == open_
    assert held((-0.4, -0.2), (-0.9, -0.5), 3) == [
        "differs",
        "differs",
        "agrees",
        "differs",
        "differs",
    ]
    unknown = held((np.nan, np.nan), (0.3, 0.9), 3)
    assert [*unknown[:2], *unknown[3:]] == ["undecided"] * 4


@pytest.mark.long
def test_included_networks_stand_for_training(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "make_trained", None)  # would fail if it were called
    sizes = SIZES | {"samples": None}
    found = module.trained_networks(Run(module.ITEM, n=1, running={"out": tmp_path}), **sizes)
    tables = found.tables
    assert tables["certificates"].network.tolist() == ["trained patch-cnn 0", "trained cnn 0"]
    assert tables["certificates"].certified.all()
    for network, own in tables["scores"].groupby("network"):
        assert len(own) == len(module.QUICK_METHODS) + len(module.BLIND), network


@pytest.mark.parametrize("name", al.trained_networks())
def test_included_networks_know_the_rule_of_the_world_that_they_are_scored_in(name):
    world, architecture, seed = name.split(".")
    trained = module.included_network(world, architecture, int(seed), ASKED)
    assert trained.rule == rule_of(module.world_of(world))
    assert trained.certificate.passed


def test_what_is_not_included_is_trained():
    assert module.included_network("no-orange", "cnn", 99, ASKED) is None
    assert module.included_network("random-world-41-1-easy", "cnn", 0, ASKED) is None
    for other in ({"image_size": 48}, {"samples": 64}):
        assert module.included_network("no-orange", "cnn", 0, replace(ASKED, **other)) is None


def test_networks_and_worlds_have_the_size_that_is_asked_for():
    larger = replace(ASKED, image_size=48)
    assert module.world_of("no-orange", 48).batch(1)[0].shape[-1] == 48
    own, other = (
        [cell.inputs for cell in module._cells("no-orange", ["cnn"], 1, sizes)]
        for sizes in (ASKED, larger)
    )
    assert len(own) == len(other)
    for one, another in zip(own, other, strict=True):
        assert one["spec"] != another["spec"]
        assert one["image_size"] != another["image_size"]


def test_unseen_worlds_have_more_than_one_output():
    for env in module._unseen():
        assert env.batch(64)[1].unique().numel() > 1, env.name


def test_wrong_sizes_are_refused_in_one_line():
    with pytest.raises(AttributionLabError, match=r"worlds is 11.*networks is 0"):
        reproduce(module.ITEM, settings={"worlds": 11, "networks": 0})


def test_all_worlds_have_images_at_the_items_size():
    assert items()[module.ITEM].sizes["worlds"] == len(module.WORLDS)
    for name in module.WORLDS:
        module.world_of(name).batch(1)
