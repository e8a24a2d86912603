"""What counts as strong, and what an interval over draws decides."""

import math

import pandas as pd
import pytest

from attributionlab.papers import items
from attributionlab.papers.answers import over_draws
from attributionlab.papers.metarank.correlation_strength import (
    STRONG,
    is_strong,
    shares,
    with_fisher_interval,
)


def test_shares_change_at_the_stated_thresholds():
    found = shares(pd.Series([0.7, 0.699, 0.4, 0.399, -1, math.nan]))
    assert found == {
        "share_strong": 0.2,
        "share_moderate": 0.4,
        "share_weak": 0.4,
        "defined": 5,
        "undefined": 1,
    }
    assert math.isnan(shares(pd.Series([math.nan]))["share_strong"])


def test_fewer_than_six_draws_have_no_interval():
    table = pd.DataFrame({"case": "a", "value": [0.1, 0.9, 0.2, 0.8, 0.3, 0.7, math.nan]})
    for few in (table[:5], table[1:]):
        assert over_draws(few, ["case"], "value", 0)[["low", "high"]].isna().all(axis=None)
    [row] = over_draws(table, ["case"], "value", 0).itertuples()
    assert row.low < row.value < row.high
    assert row.value == pytest.approx(0.5)
    [empty] = over_draws(table[-1:], ["case"], "value", 0).itertuples()
    assert math.isnan(empty.value)


@pytest.mark.parametrize(
    ("low", "high", "strong"),
    [
        *((0.8, 0.9, True), (0.5, 0.6, False), (0.6, 0.8, None), (math.nan, math.nan, None)),
        *((STRONG, 0.8, None), (0.6, STRONG, None)),
    ],
)
def test_an_interval_that_holds_the_border_decides_nothing(low, high, strong):
    assert is_strong(low, high) is strong


def test_the_notes_state_the_interval_of_a_strong_correlation_of_eight_methods():
    found = with_fisher_interval(STRONG, 8)
    said = f"of {STRONG} has a 95 % interval of {found['low']:.2f} to {found['high']:.2f}"
    for item in ("metarank-table-2", "metarank-table-3", "metarank-figure-3"):
        assert said in items()[item].notes[-1]
    assert all(map(math.isnan, with_fisher_interval(math.nan, 8).values()))
