"""The best of all orders, found set by set, is the best of all orders, tried one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles_unified as oracles
from attributionlab.papers.unified import masking_orders

SMALL = st.integers(-3, 3)
CASES = st.integers(1, 4).flatmap(
    lambda pixels: st.tuples(
        st.lists(st.lists(SMALL, min_size=pixels, max_size=pixels), min_size=3, max_size=3),
        st.lists(SMALL, min_size=pixels, max_size=pixels),
        st.integers(0, 2),
    )
)


def arrays(weights, inputs):
    return np.array([weights], dtype=np.int64), np.array([inputs], dtype=np.int64)


@given(CASES)
def test_each_set_has_the_scores_of_its_masked_input(case):
    weights, inputs, _ = case
    found = masking_orders.scores_of_sets(*arrays(weights, inputs))[0]
    for number, row in enumerate(found.tolist()):
        masked = [pixel for pixel in range(len(inputs)) if number >> pixel & 1]
        assert row == oracles.scores(weights, inputs, masked)


@given(CASES)
def test_by_accuracy_the_best_and_the_worst_order_and_the_own_are_those_tried_one_by_one(case):
    weights, inputs, target = case
    right = masking_orders.correct_shares(
        masking_orders.scores_of_sets(*arrays(weights, inputs)), np.array([target])
    )
    every = oracles.heights(
        weights, inputs, lambda outputs: 6 * oracles.share_right(outputs, target)
    )
    assert masking_orders.best_total(right).tolist() == [min(every.values())]
    assert masking_orders.worst_total(right).tolist() == [max(every.values())]
    added = [w * x for w, x in zip(weights[target], inputs, strict=True)]
    order = masking_orders.descending_order(np.array([added]))
    assert tuple(order[0].tolist()) == oracles.by_falling(added)
    assert masking_orders.along(right, order).sum() == every[tuple(order[0].tolist())]


@given(CASES)
def test_by_score_no_order_beats_the_one_by_contribution(case):
    weights, inputs, target = case
    every = oracles.heights(weights, inputs, lambda outputs: outputs[target])
    added = [w * x for w, x in zip(weights[target], inputs, strict=True)]
    assert every[oracles.by_falling(added)] == min(every.values())
    scores = masking_orders.scores_of_sets(*arrays(weights, inputs))[..., target]
    assert masking_orders.best_total(scores).tolist() == [min(every.values())]


def test_a_table_is_left_as_it_was():
    table = np.array([[3, 1, 2, 0]])
    assert masking_orders.best_total(table).tolist() == [4]
    assert masking_orders.worst_total(table).tolist() == [5]
    assert table.tolist() == [[3, 1, 2, 0]]


@pytest.mark.parametrize(("classes", "unit"), [(2, 2), (3, 6), (4, 12)])
def test_shares_of_ties_are_integers(classes, unit):
    ties = np.zeros((1, 1, classes), dtype=np.int64)
    assert masking_orders.correct_shares(ties, np.array([0])).tolist() == [[unit // classes]]
    ties[0, 0, 0] = 1
    assert masking_orders.correct_shares(ties, np.array([0])).tolist() == [[unit]]
    assert masking_orders.correct_shares(ties, np.array([1])).tolist() == [[0]]
