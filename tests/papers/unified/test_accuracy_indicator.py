"""The counterexample of appendix E, exactly, and shares of random classifiers that are one."""

import numpy as np
import pytest
import torch

import oracles_unified as oracles
from attributionlab.papers.catalog import Run
from attributionlab.papers.unified import accuracy_indicator
from attributionlab.papers.unified.accuracy_indicator import (
    BOTH_SIGNS,
    COUNTS,
    INTEGERS,
    MORE,
    OWN_CLASS,
    POSITIVE,
    TWO,
    accuracy_counterexample,
)
from claims_held import cases, follows

ITEM = "unified-appendix-e"


@pytest.fixture(scope="module")
def outcome():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accuracy_indicator, "PIXELS", (2, 3))
        patch.setattr(accuracy_indicator, "CLASSES", (2, 3))
        return accuracy_counterexample(Run(ITEM, n=60))


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
    assert not table.better_by_score.any()
    assert not own.better_by_accuracy.any()
    ahead = table[table.better_by_accuracy]
    assert 0 < len(ahead) == (table.mean_accuracy < own.mean_accuracy.min() - 1e-9).sum()


@pytest.mark.parametrize("kind", [BOTH_SIGNS, POSITIVE, COUNTS, OWN_CLASS])
def test_comparisons_are_those_of_trying_all_orders(kind):
    drawn = accuracy_indicator._right_alone(*accuracy_indicator._drawn(kind, 25, 4, 3, 1))
    compared = accuracy_indicator._compared(*drawn)
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
        assert compared["beaten"][index] == (own > best)
        assert compared["loss"][index] == own - best
        assert not compared["beaten_by_score"][index]
        second = max((y, -label) for label, y in enumerate(unmasked) if label != target)
        rival = weights[-second[1]]
        margins = [a - w * x for a, w, x in zip(added, rival, inputs, strict=True)]
        assert compared["by_margin"][index] == (by_accuracy[oracles.by_falling(margins)] > best)
        single = [
            oracles.share_right(oracles.scores(weights, inputs, [pixel]), target)
            for pixel in range(4)
        ]
        first = single[oracles.by_falling(added)[0]]
        assert compared["first_pixel"][index] == (first > min(single))


def test_pixels_of_one_class_each_can_be_a_counterexample():
    weights, inputs = np.array([[[3, 0, 0], [0, 4, -2]]]), np.ones((1, 3), dtype=np.int64)
    assert accuracy_indicator._compared(weights, inputs, np.array([0]))["beaten"].tolist() == [True]


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


def test_totals_are_sums_over_cases(outcome):
    cases = outcome.tables["cases"]
    totals = outcome.tables["totals"].set_index("classifiers_of")
    assert totals.classifiers["all"] == cases.classifiers.sum()
    assert totals.by_accuracy["all"] == cases.beaten.sum()
    assert totals.by_accuracy[OWN_CLASS] == cases[cases.kind == OWN_CLASS].beaten.sum()
    more = cases[(cases.kind != COUNTS) & (cases.classes == 3)]
    assert totals.classifiers[MORE] == more.classifiers.sum()
    assert totals.by_margin[MORE] == pytest.approx((more.by_margin * more.classifiers).sum())
    assert totals.loc[[TWO, MORE, COUNTS]].classifiers.sum() == totals.classifiers["all"]


def test_the_figure_has_the_shares_of_the_table(outcome):
    cases = outcome.tables["cases"]
    for axis, (_, of_kind) in zip(
        outcome.figures["shares"].axes, cases.groupby("kind", sort=False), strict=True
    ):
        drawn = [y for line in axis.lines for y in line.get_ydata()]
        ordered = of_kind.sort_values(["classes", "pixels"])
        assert drawn == (ordered.beaten / ordered.classifiers).tolist()


def test_classifiers_that_tie_are_left_out():
    weights, inputs = np.ones((1, 2, 2), dtype=np.int64), np.ones((1, 2), dtype=np.int64)
    assert len(accuracy_indicator._right_alone(weights, inputs)[0]) == 0


@cases(
    """
    example_is_as_printed | example | masked == "nothing" | right=True | agrees
    | example | masked == "x2" | right=True | differs
    score_and_accuracy_disagree | orders | by_contribution | pixel_flipping=99 | agrees
    | orders | by_contribution | mean_accuracy=0.0 | differs
    score_never_prefers_another_order | totals | classifiers_of == "all" | by_score=0 | agrees
    | totals | classifiers_of == @OWN_CLASS | by_accuracy=0 | undecided
    | totals | classifiers_of == @COUNTS | by_accuracy=1 | differs
    | totals | classifiers_of == "all" | by_score=1 | differs
    margin_decides_for_two_classes | totals | classifiers_of == @TWO | by_margin=0 | agrees
    | totals | classifiers_of == @TWO | by_margin=1 | differs
    | totals | classifiers_of == @MORE | by_margin=0 | undecided
    """,
    accuracy_indicator,
)
def test_claims_follow_the_tables(outcome, name, table, where, values, answer):
    follows(outcome.tables, name, table, where, values, answer)


def test_an_order_that_sums_the_same_numbers_in_another_sequence_is_no_better(monkeypatch):
    accuracies = iter([0.5, 0.5 - 1e-16])
    monkeypatch.setattr(
        accuracy_indicator,
        "removal_curve",
        lambda *_, **__: torch.tensor([[each] for each in accuracies], dtype=torch.float64),
    )
    table = accuracy_indicator._order_table(np.array(INTEGERS), np.ones(2, dtype=np.int64))
    assert not table.better_by_accuracy.any()
