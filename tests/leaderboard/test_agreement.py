"""Fused rankings beside the truth's."""

import math

import numpy as np
import pytest

import oracles_leaderboard as oracle
from attributionlab.metrics.ranking import meta_rank, meta_rank_fit
from attributionlab.verdicts import ranks_of
from attributionlab.verdicts.leaderboard.agreement import (
    ceiling,
    correlation_with_truth,
    draw_pairs,
    fused,
    placed,
    single_cases,
)

# Correlations are quotients of sums of multiples of 1/2.
ROUNDING = 1e-12


@pytest.fixture(scope="module")
def ranks():
    return np.random.default_rng(0).permuted(np.tile(np.arange(1.0, 6)[:, None], 8), axis=0)


@pytest.fixture(scope="module")
def truth():
    return np.random.default_rng(1).random((5, 8))


@pytest.fixture(scope="module")
def scores(ranks):
    """Rounded, as ties may differ in their last bit: two methods here do with numpy 1.26."""
    return meta_rank(ranks).round(9)


PAIRS = [0, 0, 1, 1, 2, 2, 3, 3]
ALL = [True] * 5


@pytest.mark.long
def test_the_scores_and_the_residual_are_those_of_meta_rank(ranks, scores, truth):
    found = fused(ranks, {"signed": truth}, PAIRS, ALL)
    assert found.scores.tolist() == scores.tolist()
    assert found.residual == meta_rank_fit(ranks).residual
    assert found.cases == 8
    assert (found.low <= found.high).all()


@pytest.mark.long
def test_correlations_are_with_the_mean_of_the_truth_over_cases(ranks, scores, truth):
    [found] = fused(ranks, {"signed": truth}, PAIRS, ALL).agreement.values()
    target = truth.mean(1).tolist()
    expected = oracle.spearman(scores.tolist(), target)
    single = oracle.single_cases(ranks.T.tolist(), target)
    assert found.correlation.value == pytest.approx(expected, abs=ROUNDING)
    assert found.single.value == pytest.approx(single, abs=ROUNDING)
    assert found.gain.value == pytest.approx(expected - single, abs=ROUNDING)
    assert found.for_other_methods.value == found.correlation.value


@pytest.mark.long
def test_controls_are_ranked_but_not_correlated(ranks, scores, truth):
    [found] = fused(
        ranks, {"signed": truth}, PAIRS, [True, True, True, True, False]
    ).agreement.values()
    expected = oracle.spearman(scores.tolist()[:4], truth.mean(1).tolist()[:4])
    assert found.correlation.value == pytest.approx(expected, abs=ROUNDING)


@pytest.mark.long
def test_f1_that_differs_by_rounding_alone_is_a_tie(ranks, scores):
    truth = np.repeat([[1.0], [1 - 6e-8], [0.5], [0.5], [0.5]], 8, axis=1)
    [found] = fused(ranks, {"signed": truth}, PAIRS, ALL).agreement.values()
    expected = oracle.spearman(scores.tolist(), [1, 1, 0.5, 0.5, 0.5])
    assert found.correlation.value == pytest.approx(expected, abs=ROUNDING)


@pytest.mark.long
def test_rankings_that_are_the_truth_s_agree_whatever_is_drawn():
    truth = np.repeat(np.arange(5.0)[:, None] / 5, 8, axis=1)
    found = fused(5 - 5 * truth, {"signed": truth}, PAIRS, ALL).agreement["signed"]
    assert tuple(found.correlation) == (1, 1, 1)
    assert tuple(found.gain) == (0, 0, 0)


@pytest.mark.long
def test_intervals_come_from_pairs_not_from_cases():
    """Three pairs of eight cases each, alike within a pair: no more certain than three cases."""
    few = np.array([[1.0, 2, 1], [2, 1, 3], [3, 3, 2]])
    truth = np.array([[0.9] * 3, [0.5] * 3, [0.1] * 3])
    many = fused(
        np.repeat(few, 8, axis=1),
        {"signed": np.repeat(truth, 8, axis=1)},
        [*np.repeat(range(3), 8)],
        ALL[:3],
    )
    as_cases = fused(
        np.repeat(few, 8, axis=1), {"signed": np.repeat(truth, 8, axis=1)}, range(24), ALL[:3]
    )
    assert (many.high - many.low > 1.5 * (as_cases.high - as_cases.low)).all()


@pytest.mark.long
def test_methods_that_tie_do_so_in_whatever_order_they_are_named():
    """Their scores are equal but for rounding, which differs with the order of methods."""
    areas = np.random.default_rng(0).integers(0, 2, (5, 6)).astype(float)
    ranks = ranks_of(np.concatenate([areas, areas[:2]]), [True] * 6)
    truth = np.repeat(np.linspace(0, 1, 7)[:, None], 6, axis=1)
    found = set()
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(7)
        fit = fused(ranks[order], {"signed": truth[order]}, range(6), [True] * 7)
        agreement = fit.agreement["signed"]
        for_methods = agreement._replace(for_other_methods=agreement.correlation)  # these are drawn
        found.add(tuple(np.round(for_methods, 9).flatten().tolist()))
        assert dict(zip(order, placed(fit.scores), strict=True)) == dict(
            enumerate(placed(meta_rank(ranks)))
        )
    assert len(found) == 1


def test_places_do_not_follow_rounding():
    assert placed(np.array([0.3, 0.1 + 0.2, 0.0])) == placed(np.array([1, 1, 0.5])) == [1, 1, 3]


@pytest.mark.long
def test_where_a_method_is_missing_the_truth_is_compared_within_cases():
    """The first is right in the hard case alone, and better there than those who know the easy one."""
    ranks = np.array([[np.nan, np.nan, 1, 1], [1, 1, 2, 2], [2, 2, 3, 3]])
    truth = np.array([[np.nan, np.nan, 0.3, 0.3], [0.9, 0.9, 0.2, 0.2], [0.8, 0.8, 0.1, 0.1]])
    [found] = fused(ranks, {"signed": truth}, range(4), ALL[:3]).agreement.values()
    assert found.correlation.value == 1


@pytest.mark.long
def test_the_ceiling_is_that_of_a_ranking_without_ties():
    tied = [0.9, 0.5, 0.0, 0.0, 0.0]
    assert ceiling(np.array(tied)) == pytest.approx(oracle.spearman([5, 4, 3, 2, 1], tied))
    assert ceiling(np.array([3.0, 1.0, 2.0])) == 1
    ranks = np.tile([[1.0], [2], [3], [4], [5]], 8)
    fit = fused(ranks, {"signed": np.tile(np.array(tied)[:, None], 8)}, PAIRS, ALL)
    assert fit.agreement["signed"].correlation.value == pytest.approx(fit.ceiling["signed"])


@pytest.mark.long
def test_a_correlation_alone_is_that_of_the_fusion(ranks, truth):
    fit = fused(ranks, {"signed": truth}, PAIRS, ALL)
    alone = correlation_with_truth(ranks, truth, ALL)
    assert alone == pytest.approx(fit.agreement["signed"].correlation.value, abs=ROUNDING)
    missing = np.where(np.arange(5)[:, None] == 0, np.nan, ranks)
    assert math.isnan(correlation_with_truth(missing, truth, ALL))


@pytest.mark.parametrize("pairs", [[0, 0], [0, 1]])
def test_one_or_two_pairs_have_no_intervals(ranks, truth, pairs):
    found = fused(ranks[:, :2], {"signed": truth[:, :2]}, pairs, ALL)
    assert np.isnan(found.low).all()
    assert math.isnan(found.agreement["signed"].correlation.low)
    assert not math.isnan(found.agreement["signed"].correlation.value)


@pytest.mark.long
def test_the_same_seed_gives_the_same_intervals(ranks, truth):
    first, again, other = (
        fused(ranks, {"signed": truth}, PAIRS, ALL, seed=seed) for seed in (0, 0, 1)
    )
    assert first.low.tolist() == again.low.tolist()
    assert first.low.tolist() != other.low.tolist()


@pytest.mark.long
def test_a_higher_confidence_widens_intervals(ranks, truth):
    narrow, wide = (
        fused(ranks, {"signed": truth}, PAIRS, ALL, confidence=each) for each in (0.5, 0.99)
    )
    assert (wide.high - wide.low > narrow.high - narrow.low).all()


def test_ranks_follow_the_protocol_and_ignore_rounding():
    areas = np.array([[0.5, 0.5], [0.5 + 1e-12, 0.7], [0.2, np.nan], [np.nan, 0.1]])
    found = ranks_of(areas, [True, False])
    assert found[:, 0].tolist()[:3] == [2.5, 2.5, 1]
    assert found[[0, 1, 3], 1].tolist() == [2, 1, 3]
    assert np.isnan(found[3, 0])
    assert np.isnan(found[2, 1])


def test_ranks_are_those_of_the_definition():
    areas = np.random.default_rng(5).integers(0, 4, size=(6, 10)) / 4
    lower = [bool(case % 2) for case in range(10)]
    found = ranks_of(areas, lower)
    for case in range(10):
        assert found[:, case].tolist() == oracle.ranks(areas[:, case].tolist(), lower[case])


def test_pairs_are_drawn_whole_and_as_many_as_there_are():
    pairs = np.array([0, 0, 1, 1, 1, 2])
    first, again, other = (
        draw_pairs(pairs, np.array([4, 7]), 200, seed=seed) for seed in (1, 1, 2)
    )
    assert (first.cases[:, 0] == first.cases[:, 1]).all()
    assert (first.cases[:, 2] == first.cases[:, 4]).all()
    assert (first.cases[:, [0, 2, 5]].sum(1) == 3).all()
    assert set(first.methods.flatten().tolist()) == {4, 7}
    assert first.methods.shape == (200, 2)
    assert (again.cases == first.cases).all()
    assert (other.cases != first.cases).any()


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_single_cases_are_correlated_one_by_one(missing):
    drawing = np.random.default_rng(3)
    ranks = drawing.integers(1, 5, size=(5, 8)).astype(float)
    ranks[:, 1:][drawing.random((5, 7)) < missing] = np.nan
    times = draw_pairs(np.arange(8), np.arange(5), 20, seed=0).cases
    targets = np.random.default_rng(1).random((20, 5))
    found = single_cases(ranks, targets, times)
    for value, drawn, target in zip(found, times, targets, strict=True):
        cases = np.repeat(ranks, drawn, axis=1).T
        written = [[None if math.isnan(each) else each for each in case] for case in cases]
        expected = oracle.single_cases(written, target.tolist())
        assert value == pytest.approx(expected, abs=ROUNDING)
