"""The counterexample of appendix E, exactly, and shares of random classifiers that are one."""

import numpy as np
import pytest

import oracles_unified as oracles
from attributionlab import AttributionLabError
from attributionlab.papers.unified.linear import accuracy_indicator
from attributionlab.papers.unified.linear.accuracy_findings import (
    BOTH_SIGNS,
    COUNTS,
    OWN_CLASS,
    POSITIVE,
    findings_of,
)
from attributionlab.papers.unified.linear.accuracy_indicator import (
    INTEGERS,
    accuracy_counterexample,
)


@pytest.fixture(scope="module")
def outcome():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accuracy_indicator, "PIXELS", (2, 3))
        patch.setattr(accuracy_indicator, "CLASSES", (2, 3))
        return accuracy_counterexample(n=60, quick=True)


def test_the_paper_s_example_is_as_printed_by_squares(outcome):
    table = outcome.tables["example"].set_index("masked")
    assert table.loc["nothing", ["y1_squared", "y2_squared", "y3_squared"]].tolist() == [9, 6, 5]
    assert table.loc["x1", ["y1_squared", "y2_squared", "y3_squared"]].tolist() == [1, 0, 0]
    assert table.loc["x2", ["y1_squared", "y2_squared", "y3_squared"]].tolist() == [4, 6, 5]
    assert table.right.tolist() == [True, True, False, False]
    assert table.tied.tolist() == [False, False, False, True]
    assert table.lost.tolist() == [0, 2, 1, 3]


def test_the_package_s_metrics_rank_all_orders_as_trying_them_one_by_one(outcome):
    by_accuracy = oracles.heights(INTEGERS, (1, 1), lambda each: oracles.share_right(each, 0))
    by_score = oracles.heights(INTEGERS, (1, 1), lambda each: each[0])
    for row in outcome.tables["orders"].itertuples():
        order = tuple(int(name[1:]) - 1 for name in row.order.split(", "))
        # Means of three numbers in float64.
        assert row.mean_accuracy == pytest.approx(float(by_accuracy[order] / 3), rel=1e-12)
        assert row.pixel_flipping == pytest.approx(30 - float(by_score[order] / 3), rel=1e-12)
        assert row.by_contribution == (order == (0, 1))


def test_of_all_orders_of_a_classifier_none_is_better_by_score_and_some_by_accuracy(outcome):
    table = outcome.tables["exhausted"]
    assert len(table) == 24
    own = table[table.by_contribution]
    assert own.pixel_flipping.min() == table.pixel_flipping.max()
    assert own.mean_accuracy.min() > table.mean_accuracy.min()


@pytest.mark.parametrize("kind", [BOTH_SIGNS, POSITIVE, COUNTS, OWN_CLASS])
def test_judgments_are_those_of_trying_all_orders(kind):
    drawn = accuracy_indicator._right_alone(*accuracy_indicator._drawn(kind, 25, 4, 3, 1))
    judged = accuracy_indicator._judged(*drawn)
    for index, (weights, inputs, target) in enumerate(
        zip(*(each.tolist() for each in drawn), strict=True)
    ):
        unmasked = oracles.scores(weights, inputs, [])
        assert unmasked.count(max(unmasked)) == 1
        assert unmasked[target] == max(unmasked)
        by_accuracy = oracles.heights(
            weights, inputs, lambda each, label=target: 6 * oracles.share_right(each, label)
        )
        best = min(by_accuracy.values())
        added = [w * x for w, x in zip(weights[target], inputs, strict=True)]
        own = by_accuracy[oracles.by_falling(added)]
        assert judged["beaten"][index] == (own > best)
        assert judged["loss"][index] == own - best
        assert not judged["beaten_by_score"][index]
        second = max((y, -label) for label, y in enumerate(unmasked) if label != target)
        rival = weights[-second[1]]
        margins = [a - w * x for a, w, x in zip(added, rival, inputs, strict=True)]
        assert judged["by_margin"][index] == (by_accuracy[oracles.by_falling(margins)] > best)
        single = [
            oracles.share_right(oracles.scores(weights, inputs, [pixel]), target)
            for pixel in range(4)
        ]
        first = single[oracles.by_falling(added)[0]]
        assert judged["first_pixel"][index] == (first > min(single))


def test_pixels_of_one_class_each_can_be_a_counterexample():
    weights, inputs = np.array([[[3, 0, 0], [0, 4, -2]]]), np.ones((1, 3), dtype=np.int64)
    assert accuracy_indicator._judged(weights, inputs, np.array([0]))["beaten"].tolist() == [True]


@pytest.mark.parametrize("kind", [COUNTS, OWN_CLASS])
def test_a_pixel_of_one_class_has_no_other_weight(kind):
    weights, inputs = accuracy_indicator._drawn(kind, 50, 3, 4, 0)
    assert ((weights != 0).sum(1) <= 1).all()
    if kind == COUNTS:
        assert (weights.sum(1) == 1).all()
        assert (inputs == 1).all()
    else:
        assert weights.min() < 0 < weights.max()
        assert inputs.max() > 1


def test_the_margin_is_the_best_order_for_two_classes_and_contribution_for_counts_alone(outcome):
    table = outcome.tables["shares"]
    assert (table[table.classes == 2].by_margin == 0).all()
    assert (table[table.kind == COUNTS].by_accuracy == 0).all()
    assert (table[table.kind != COUNTS].by_accuracy > 0).all()
    assert (table.by_score == 0).all()
    assert ((table.low <= table.by_accuracy) & (table.by_accuracy <= table.high)).all()
    cases = outcome.tables["cases"]
    assert table.classifiers.sum() == cases.classifiers.sum()
    assert set(outcome.shown) <= set(outcome.tables)


def test_the_figure_has_the_intervals_of_the_table(outcome):
    cases = outcome.tables["cases"]
    assert (cases[cases.kind == COUNTS].high > 0.01).all()  # none of at most 60 is not 0 %
    for axis, (_, of_kind) in zip(
        outcome.figures["shares"].axes, cases.groupby("kind", sort=False), strict=True
    ):
        drawn = [
            [low, high]
            for bars in axis.containers
            for (_, low), (_, high) in bars.lines[2][0].get_segments()
        ]
        # Ends are computed back from distances to the share.
        assert np.allclose(drawn, of_kind.sort_values("classes")[["low", "high"]], atol=1e-12)


@pytest.mark.parametrize("n", [0, -1, 1.5, "a", True])
def test_numbers_of_classifiers_that_are_none_are_refused(n):
    with pytest.raises(AttributionLabError, match=f"n is {n!r}: take an integer"):
        accuracy_counterexample(n=n, quick=True)


def test_classifiers_that_tie_are_left_out():
    weights, inputs = np.ones((1, 2, 2), dtype=np.int64), np.ones((1, 2), dtype=np.int64)
    assert len(accuracy_indicator._right_alone(weights, inputs)[0]) == 0


def test_findings_follow_the_tables(outcome):
    said = " ".join(findings_of(outcome.tables))
    assert "has 1 against 0 and 0, without x2 4 against 6 and 5: as printed" in said
    assert "score and accuracy disagree" in said
    assert "0 beat the order by contribution by score" in said
    assert "weights and inputs 1, as where our environments count colors" in said
    assert "for 0 of 1" in said
    assert "does not need pixels that several classes share" in said
    assert "first drawn counterexample" in said
    tables = {name: table.copy() for name, table in outcome.tables.items()}
    tables["example"].loc[2, "right"] = True
    tables["orders"]["mean_accuracy"] = tables["orders"]["mean_accuracy"].to_numpy()[::-1]
    tables["shares"].loc[tables["shares"].kind == OWN_CLASS, "by_accuracy"] = 0.0
    tables["shares"]["by_score"] = 0.25
    # An order that sums the same numbers in another sequence is no better one.
    tables["exhausted"]["mean_accuracy"] = 0.5
    tables["exhausted"].loc[~tables["exhausted"].by_contribution, "mean_accuracy"] -= 1e-16
    said = " ".join(findings_of(tables))
    assert "0 by accuracy" in said
    assert "unlike what is printed" in said
    assert "score and accuracy agree" in said
    assert "no counterexample without shared pixels was drawn" in said
    assert "by score for up to 25.0%" in said
