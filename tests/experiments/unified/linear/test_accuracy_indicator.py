"""The counterexample of appendix E, exactly, and shares of random classifiers that are one."""

import numpy as np
import pytest

import oracles_unified as oracles
from attributionlab.experiments.unified.linear import accuracy_indicator
from attributionlab.experiments.unified.linear.accuracy_findings import (
    BOTH_SIGNS,
    ONE_CLASS,
    POSITIVE,
    findings_of,
)
from attributionlab.experiments.unified.linear.accuracy_indicator import (
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


@pytest.mark.parametrize("kind", [BOTH_SIGNS, POSITIVE, ONE_CLASS])
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


def test_the_margin_is_the_best_order_for_two_classes_and_shared_pixels_are_needed(outcome):
    table = outcome.tables["shares"]
    assert (table[table.classes == 2].by_margin == 0).all()
    assert (table[table.kind == ONE_CLASS].by_accuracy == 0).all()
    assert (table[table.kind != ONE_CLASS].by_accuracy > 0).all()
    assert (table.by_score == 0).all()
    assert ((table.low <= table.by_accuracy) & (table.by_accuracy <= table.high)).all()
    cases = outcome.tables["cases"]
    assert table.classifiers.sum() == cases.classifiers.sum()
    assert set(outcome.shown) <= set(outcome.tables)


def test_classifiers_that_tie_are_left_out():
    weights, inputs = np.ones((1, 2, 2), dtype=np.int64), np.ones((1, 2), dtype=np.int64)
    assert len(accuracy_indicator._right_alone(weights, inputs)[0]) == 0


def test_findings_follow_the_tables(outcome):
    said = " ".join(findings_of(outcome.tables))
    assert "has 1 against 0 and 0, without x2 4 against 6 and 5: as printed" in said
    assert "score and accuracy disagree" in said
    assert "0 beat the order by contribution by score" in said
    assert "contribution is the best order by both" in said
    tables = {name: table.copy() for name, table in outcome.tables.items()}
    tables["example"].loc[2, "right"] = True
    tables["orders"]["mean_accuracy"] = tables["orders"]["mean_accuracy"].to_numpy()[::-1]
    tables["shares"].loc[tables["shares"].kind == ONE_CLASS, "by_accuracy"] = 0.5
    tables["shares"]["by_score"] = 0.25
    said = " ".join(findings_of(tables))
    assert "unlike what is printed" in said
    assert "score and accuracy agree" in said
    assert "another order can be better" in said
    assert "by score for up to 25.0%" in said
