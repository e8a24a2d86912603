"""What intervals answer: yes, no, or nothing where they hold the border or are of too few values."""

import math

import numpy as np
import pandas as pd
import pytest

from attributionlab.base import mean_interval
from attributionlab.metrics.ranking import fisher_interval
from attributionlab.papers import answers as module
from attributionlab.papers import items

NONE = math.nan


@pytest.mark.parametrize(
    ("holds", "fails", "answer"), [(True, False, True), (False, True, False), (False, False, None)]
)
def test_what_neither_holds_nor_fails_is_not_decided(holds, fails, answer):
    assert module.decided(holds, fails) is answer
    assert module.decided(np.bool_(holds), np.bool_(fails)) is answer


@pytest.mark.parametrize(
    ("low", "high", "border", "answer"),
    [
        *((0.1, 0.2, 0, True), (-0.2, -0.1, 0, False), (-0.1, 0.1, 0, None), (0, 0.1, 0, None)),
        *((-0.1, 0, 0, None), (0.1, 0.2, 0.15, None), (NONE, NONE, 0, None)),
    ],
)
def test_an_interval_lies_above_a_border_below_it_or_holds_it(low, high, border, answer):
    assert module.above(low, high, border) is answer


def test_of_several_intervals_all_must_lie_above_and_one_below_denies_it():
    table = pd.DataFrame({"low": [0.1, 0.2], "high": [0.3, 0.4], "units": [6, 6]})
    assert module.above(table.low, table.high) is True
    assert module.above(table.low, table.high, pd.Series([0.0, 0.3])) is None
    assert module.above(table.low - [0, 1], table.high - [0, 1]) is False
    assert module.all_above(table) is True
    assert module.all_above(table.assign(units=[6, 5])) is None
    below = table.assign(low=[0.1, -0.2], high=[0.3, -0.1])
    assert module.all_above(below) is False
    assert module.all_above(below.assign(units=[6, 5])) is None
    assert module.all_above(table[:0]) is None


@pytest.mark.parametrize(
    ("answers", "answer"),
    [
        *(
            ((True, True), True),
            ((True, None), None),
            ((None, False), False),
            ((False, True), False),
        ),
    ],
)
def test_every_answer_must_be_yes(answers, answer):
    assert module.every(*answers) is answer


def test_ends_are_those_of_the_interval_where_enough_values_apply():
    values = [0.0, 1.0, 2.0, math.nan]
    expected = mean_interval(np.array(values), 3)
    assert (
        module.mean_ends(values, 3) == module.mean_ends(pd.Series(values), 3, 3) == tuple(expected)
    )
    assert all(map(math.isnan, module.mean_ends(values, 3, 4)))
    assert all(map(math.isnan, module.mean_ends([1.0], 3)))


def test_shares_change_at_the_stated_thresholds():
    found = module.shares(pd.Series([0.7, 0.699, 0.4, 0.399, -1, math.nan]))
    assert found == {
        "share_strong": 0.2,
        "share_moderate": 0.4,
        "share_weak": 0.4,
        "defined": 5,
        "undefined": 1,
    }
    assert math.isnan(module.shares(pd.Series([math.nan]))["share_strong"])


def test_fewer_than_six_draws_have_no_interval():
    table = pd.DataFrame({"case": "a", "value": [0.1, 0.9, 0.2, 0.8, 0.3, 0.7, math.nan]})
    for few in (table[:5], table[1:]):
        assert module.over_draws(few, ["case"], "value", 0)[["low", "high"]].isna().all(axis=None)
    [row] = module.over_draws(table, ["case"], "value", 0).itertuples()
    assert row.low < row.value < row.high
    assert row.value == pytest.approx(0.5)
    [empty] = module.over_draws(table[-1:], ["case"], "value", 0).itertuples()
    assert math.isnan(empty.value)


def test_the_notes_state_the_interval_of_a_strong_correlation_of_eight_methods():
    _, low, high = fisher_interval(module.STRONG, 8)
    said = f"of {module.STRONG} has a 95 % interval of {low:.2f} to {high:.2f}"
    for item in ("metarank-table-2", "metarank-table-3", "metarank-figure-3"):
        assert said in items()[item].notes[-1]
