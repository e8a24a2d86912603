"""A board of metrics: what it concludes of rows by world, and what it shows and writes."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import oracles_leaderboard as oracles
from attributionlab.base import mean_interval, share_interval
from attributionlab.metrics.ranking import CorrelationInterval
from attributionlab.verdicts import MetricBoard
from attributionlab.verdicts.leaderboard.metric_board import NONE, MetricInWorld, nearest_definition
from attributionlab.verdicts.metric_trials.graded import DEFINITIONS
from attributionlab.worlds import FEATURES
from pages import explained_columns


def number(value):
    return math.nan if value is None else value


def mean_of(values):
    return CorrelationInterval(*[number(values)] * 3)


def row(metric="a", world="w", features=(), verdict="valid", **numbers):
    """A row by world; correlations and differences default to none."""
    given = {
        key: mean_of(numbers[key]) for key in ("agreement", "contrast", "drop") if key in numbers
    }
    given |= {"seconds": numbers["seconds"]} if "seconds" in numbers else {}
    for key in ("correlations", "differences"):
        if key in numbers:
            given[key] = np.array(numbers[key], float)
    return MetricInWorld(metric, world, "rule", features, verdict, "", **given)


def board(rows, wanted=None):
    names = dict.fromkeys([each.metric for each in rows], True)
    return MetricBoard(
        metrics=names,
        results=rows,
        environments=["random:2:medium:0"],
        seed=0,
        image_size=24,
        n=6,
        command="again",
        wanted=wanted or len(rows),
    )


def test_the_columns_of_the_file_are_explained():
    assert [*board([row()]).to_frame()] == explained_columns("attributionlab metrics --csv")


def near(value):
    # Means of at most ten numbers up to 2: rounding of 10 x 2 x 2^-53 and some.
    return pytest.approx(value, abs=1e-13, nan_ok=True)


maybe = st.one_of(st.none(), st.floats(-1, 1))


@given(
    st.lists(
        st.tuples(maybe, maybe, st.sampled_from(["valid", "undecided", "refused"])), max_size=9
    )
)
@settings(max_examples=40, deadline=None)
def test_means_shares_and_intervals_are_over_worlds(worlds):
    rows = [
        row(agreement=agreement, contrast=contrast, verdict=verdict)
        for agreement, contrast, verdict in worlds
    ] or [row(verdict="refused")]
    shown = board(rows).to_frame().iloc[0]
    verdicts = [each.verdict for each in rows]
    assert shown["tested"] == len(verdicts) - verdicts.count("refused")
    assert shown["valid"] == verdicts.count("valid") / len(verdicts)
    assert (shown["valid_low"], shown["valid_high"]) == share_interval(
        verdicts.count("valid"), len(verdicts)
    )
    for place, name in enumerate(("agreement", "contrast")):
        values = [each[place] for each in worlds]
        assert shown[name] == near(number(oracles.mean(values)))
        expected = mean_interval(np.array(values, float), 0) or (math.nan, math.nan)
        assert (shown[f"{name}_low"], shown[f"{name}_high"]) == near(tuple(expected))


def test_metrics_stand_by_agreement_with_seconds_and_the_drop_where_something_is_unseen():
    drop = CorrelationInterval(0.3, 0.1, 0.5)
    rows = [
        row("a", "v", agreement=0.25, seconds=1.0),
        row("a", "w", agreement=0.75, seconds=9.0)._replace(drop=drop),
        row("a", "x", seconds=2.0),
        row("b", "v", agreement=0.75, seconds=1.0),
        row("c", "v", verdict="refused"),
    ]
    table = board(rows).to_frame()
    assert table["metric"].tolist() == ["b", "a", "c"]
    first = table.set_index("metric").loc["a"]
    assert first["seconds"] == 2.0
    assert tuple(first[["drop", "drop_low", "drop_high"]]) == drop
    assert (
        table.set_index("metric")
        .loc["c"]
        .drop(["tested", "valid", "valid_low", "valid_high", "estimates"])
        .isna()
        .all()
    )


table = st.lists(
    st.tuples(maybe, st.tuples(*[maybe] * 4), st.lists(maybe, min_size=16, max_size=16)),
    min_size=5,
    max_size=10,
)
clear = st.floats(0.3, 1)


def interval_of(values):
    return mean_interval(np.array(values, float), 0)


@pytest.mark.long
@given(
    st.one_of(
        table,
        st.lists(
            st.tuples(clear, st.tuples(*[clear] * 4), st.lists(clear, min_size=16, max_size=16)),
            min_size=6,
            max_size=8,
        ),
    )
)
@settings(max_examples=60, deadline=None)
def test_what_a_metric_estimates_is_as_defined(worlds):
    rows = [
        row(contrast=contrast, correlations=each, differences=np.reshape(between, (4, 4)))
        for contrast, each, between in worlds
    ]
    assert nearest_definition(rows) == oracles.estimated(
        DEFINITIONS,
        [each[0] for each in worlds],
        [each[1] for each in worlds],
        [np.reshape(each[2], (4, 4)).tolist() for each in worlds],
        interval_of,
    )


def decided(worlds=6, contrast=1.0, correlations=(0.1, 0.9, 0.5, 0.4), differences=0.4, **changes):
    between = np.full((4, 4), float(differences))
    for place, value in changes.get("between", {}).items():
        between[place] = value
    rows = [
        row(contrast=contrast, correlations=correlations, differences=between)
        for _ in range(worlds)
    ]
    return nearest_definition(rows)


def test_a_definition_is_named_where_it_is_nearer_than_each_other_one():
    assert decided() == "shapley"
    assert decided(correlations=(0.1, 0.2, 0.5, 0.4)) == "ablation"
    for other in (0, 2, 3):
        assert decided(between={(1, other): 0.0}) == "not told apart"
        assert decided(between={(1, other): math.nan}) == "not told apart"
        assert decided(between={(other, 1): -5.0}) == "shapley"  # the other way round is not asked
    assert decided(worlds=5) == "not told apart"


def in_worlds(contrasts, correlations, differences):
    """A number for each world: all four definitions but the second correlate a little less."""
    rows = [
        row(
            contrast=contrast,
            correlations=np.full(4, each) - [0.1, 0, 0.1, 0.1],
            differences=np.full((4, 4), between),
        )
        for contrast, each, between in zip(contrasts, correlations, differences, strict=True)
    ]
    return nearest_definition(rows)


def test_intervals_that_contain_zero_or_are_of_five_worlds_are_a_lack_of_evidence():
    clear_ones = [1.0] * 8, [0.9] * 8, [0.4] * 8
    assert in_worlds(*clear_ones) == "shapley"
    for place in range(3):
        for unsure in ([2.0, -1.0] * 4, [1.0] * 5 + [math.nan] * 3, [0.0] * 5 + [math.nan] * 3):
            given_ = list(clear_ones)
            given_[place] = unsure
            assert in_worlds(*given_) == "not told apart"
    assert in_worlds([1.0] * 8, [math.nan] * 8, [math.nan] * 8) == "not told apart"


def test_a_metric_without_the_network_or_with_reversed_scores_estimates_none():
    assert decided(contrast=0.0) == "none"
    assert decided(contrast=-0.5) == "none"
    assert decided(contrast=0.0, correlations=[math.nan] * 4) == "none"
    assert decided(correlations=(-0.1, -0.2, -0.5, -0.4)) == "none"
    assert decided(correlations=(-0.1, 0.0, -0.5, -0.4)) == "none"
    assert decided(contrast=0.0, worlds=5) == "not told apart"


def test_features_are_compared_in_random_worlds_alone():
    rows = [
        row(world="default", features=None, agreement=-1.0),
        *(row(world=f"p{n}", features=("place",), agreement=n / 10) for n in range(3)),
        *(row(world=f"q{n}", features=("xor", "place"), agreement=0.5) for n in range(2)),
        *(row(world=f"r{n}", features=(), agreement=0.9) for n in range(2)),
    ]
    found = board(rows).by_feature().set_index("feature")
    assert list(found.index) == list(FEATURES)
    place = found.loc["place"]
    assert (place["worlds_with"], place["worlds_without"]) == (5, 2)
    assert place["with"] == near(1.3 / 5)
    assert place["difference"] == near(1.3 / 5 - 0.9)
    expected = oracles.welch([0, 0.1, 0.2, 0.5, 0.5], [0.9, 0.9], lambda f: stats.t.ppf(0.975, f))
    assert tuple(place[["difference", "low", "high"]]) == pytest.approx(expected)
    assert found.loc["xor", "worlds_with"] == 2
    assert not len(board(rows[:1]).by_feature())


def test_definitions_show_by_how_much_the_nearest_one_is_nearer():
    between = np.zeros((4, 4))
    between[1] = [0.3, 0, 0.2, math.nan]
    rows = [row(contrast=1, correlations=(0.1, 0.6, 0.4, math.nan), differences=between)] * 6
    found = board(rows).definitions().set_index("definition")
    assert found["correlation"].tolist() == near([0.1, 0.6, 0.4, math.nan])
    assert found["worlds"].tolist() == [6, 6, 6, 0]
    assert found["less"].tolist() == near([0.3, 0, 0.2, math.nan])
    assert found["less_worlds"].tolist() == [6, 6, 6, 0]


def test_it_is_written_without_nan_and_drawn(tmp_path):
    rows = [
        row("a", f"w{n}", agreement=0.5 + n / 10, contrast=1, correlations=[0.5] * 4)
        for n in range(3)
    ] + [row("b", "w0", verdict="refused")._replace(reason="too small")]
    whole = board(rows, wanted=6)
    whole.to_json(tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["incomplete"]
    assert [each["metric"] for each in document["metrics"]] == ["a", "b"]
    assert document["metrics"][1]["agreement"] is None
    assert document["by_world"][3]["reason"] == "too small"
    assert whole.title.endswith("; 4 of 6 rows done")
    assert whole.refused().values.tolist() == [["b", "too small", 1]]
    whole.to_csv(tmp_path / "a.csv")
    assert pd.read_csv(tmp_path / "a.csv")["metric"].tolist() == ["a", "b"]
    left, right = whole.figure().axes
    assert [each.get_text() for each in left.get_yticklabels()] == ["a"]
    drawn = right.collections[-1].get_offsets()
    assert drawn[0][0] == 0.5
    assert MetricInWorld("a", "w", "", None, "refused", "").agreement == NONE
