"""Section 3.3: what three features and two maps of one order come to, by hand."""

import math

import pytest
import torch

from attributionlab.papers.catalog import Run
from attributionlab.papers.soco import order_example as example
from attributionlab.papers.soco.order_example import example_maps, maps_of_one_order
from claims_held import holds


def probability(logit):
    return 1 / (1 + math.exp(-logit))


@pytest.fixture(scope="module")
def outcome():
    return maps_of_one_order(Run("soco-section-3-3", n=1))


def test_both_maps_have_the_same_order():
    first, second = (maps.flatten().argsort().tolist() for maps in example_maps().values())
    assert first == second == [0, 1, 2]


def test_metrics_of_order_are_equal_bit_by_bit(outcome):
    values = outcome.tables["values"]
    by_order = values[values.metric.isin(example.BY_ORDER)]
    assert set(by_order.metric) == set(example.BY_ORDER)
    assert (by_order.A == by_order.B).all()
    assert by_order.groupby("metric").A.nunique().drop("pixel flipping").min() > 1


def test_soundness_and_completeness_are_what_they_are_by_hand(outcome):
    values = outcome.tables["values"].set_index(["metric", "at"])
    sound = values.loc["soundness"].iloc[0]
    # The second feature adds nothing: it alone is false.
    assert sound.tolist()[:2] == pytest.approx([4 / 6, 101 / 102.1], abs=1e-12)
    complete = values.loc["completeness"]
    for threshold, row in complete.iterrows():
        # x1 + 2 x3 with x = (1, 0.5, 1), of which the last or all three are removed
        left = {"A": 0 if threshold < 1 / 3 else 1, "B": 1}
        for name, logit in left.items():
            expected = probability(3) - probability(logit)
            assert row[name] == pytest.approx(expected, abs=1e-6)  # outputs are float32


def test_true_ratios_stand_beside(outcome):
    maps = outcome.tables["maps"].set_index("map")
    assert maps.true_soundness["A"] == pytest.approx(4 / 6, abs=1e-12)
    assert maps.true_soundness["B"] == pytest.approx(101 / 102.1, abs=1e-12)
    assert maps.true_completeness.tolist() == pytest.approx([2 / 3, 2 / 3], abs=1e-12)


def test_claims_follow_the_values(outcome):
    tables = {"values": outcome.tables["values"].copy()}
    values = tables["values"]
    assert holds(tables, "orders_are_equal") == "agrees"
    assert example.values_tell_apart(tables)
    assert example.preferences_differ(tables)
    assert values[~values.equal & (values.metric == "completeness")]["at"].tolist() == [
        0.3,
        0.2,
        0.1,
    ]
    values.loc[values.metric == "deletion", "equal"] = False
    assert holds(tables, "orders_are_equal") == "differs"
    values.loc[values.metric == "soundness", ["A", "B"]] = 0.5, 0.4
    assert example.values_tell_apart(tables)
    assert not example.preferences_differ(tables)
    values.loc[values.metric == "completeness", "equal"] = True
    assert not example.values_tell_apart(tables)
    assert not example.preferences_differ(tables)


def test_the_model_is_the_stated_sum():
    image = torch.tensor([[[[1.0, 0.5, 1.0]]]])
    assert example.example_model()(image).tolist() == [[3.0, 0.0]]
    assert set(maps_of_one_order(Run("soco-section-3-3", n=1, seed=1)).figures) == {"curves"}
