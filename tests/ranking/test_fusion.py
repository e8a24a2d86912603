"""Meta-Rank agrees with its equations, with and without missing cells."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracles_ranking as oracles
from attributionlab.metrics import resampled_meta_rank
from attributionlab.metrics.ranking import meta_rank, meta_rank_fit

NAN = math.nan


@st.composite
def tables(draw, missing):
    methods, cases = draw(st.integers(2, 6)), draw(st.integers(2, 6))
    rank = st.integers(1, 4).map(float)
    cell = st.one_of(rank, st.just(NAN)) if missing else rank
    return np.array([[draw(cell) for _ in range(cases)] for _ in range(methods)])


def connected(ranks):
    """Whether every method can be reached from the first over common cases."""
    seen, known = {0}, ~np.isnan(ranks)
    for _ in ranks:
        seen |= {q for p in seen for q in range(len(ranks)) if (known[p] & known[q]).any()}
    return len(seen) == len(ranks) and bool(known.any(1).all())


# Sums of at most 36 log odds of at most log 13, and a system of six equations: 1e-9 is generous.
@pytest.mark.long
@given(tables(missing=False))
def test_scores_and_residual_are_those_of_least_squares(ranks):
    scores, residual = oracles.meta_rank(ranks)
    fit = meta_rank_fit(ranks, resamples=100)
    assert meta_rank(ranks) == pytest.approx(scores, abs=1e-9)
    assert fit.scores == pytest.approx(scores, abs=1e-9)
    assert fit.residual == pytest.approx(residual, abs=1e-9)
    assert fit.scores.sum() == pytest.approx(0, abs=1e-9)


@given(tables(missing=False))
def test_of_whole_tables_a_score_is_the_mean_of_log_odds(ranks):
    means = []
    for one in ranks:
        chances = [float(oracles.probability(one, other)[0]) for other in ranks]
        means.append(sum(math.log(each / (1 - each)) for each in chances) / len(ranks))
    assert meta_rank(ranks) == pytest.approx(means, abs=1e-9)


@pytest.mark.long
@given(tables(missing=True))
def test_missing_cells_leave_out_their_pairs(ranks):
    assume(connected(ranks))
    scores, residual = oracles.meta_rank(ranks)
    fit = meta_rank_fit(ranks, resamples=100)
    assert fit.scores == pytest.approx(scores, abs=1e-9)
    assert fit.residual == pytest.approx(residual, abs=1e-9)
    for p, one in enumerate(ranks):
        for q, other in enumerate(ranks):
            chance, cases = oracles.probability(one, other)
            assert fit.cases[p, q] == cases
            if p != q and cases:
                assert fit.probabilities[p, q] == pytest.approx(float(chance), abs=1e-12)
            else:
                assert math.isnan(fit.probabilities[p, q])


@given(tables(missing=True), st.permutations(range(6)))
def test_only_the_order_within_cases_matters_and_methods_may_come_in_any(ranks, order):
    assume(connected(ranks))
    stretched = ranks**3 + 7 * np.arange(ranks.shape[1])
    assert meta_rank(stretched) == pytest.approx(meta_rank(ranks), abs=1e-9)
    order = [each for each in order if each < len(ranks)]
    assert meta_rank(ranks[order]) == pytest.approx(meta_rank(ranks)[order], abs=1e-9)
    assert meta_rank(-ranks) == pytest.approx(-meta_rank(ranks), abs=1e-9)


def test_a_method_that_wins_everywhere_has_a_finite_lead():
    scores = meta_rank([[1.0] * 26, [2.0] * 26])
    assert scores[0] == pytest.approx(math.log(26.5 / 0.5) / 2, abs=1e-12)


def test_intervals_hold_the_scores_and_narrow_with_the_cases():
    draw = np.random.default_rng(0)
    quality = np.array([0.0, 1.0, 2.0])[:, None]
    widths = []
    for cases in (20, 320):
        ranks = (quality + draw.normal(size=(3, cases)) * 2).argsort(0).argsort(0) + 1.0
        fit = meta_rank_fit(ranks, resamples=300)
        assert ((fit.low <= fit.scores) & (fit.scores <= fit.high)).all()
        assert fit.resamples == 300
        widths.append((fit.high - fit.low).mean())
    # Sixteen times as many cases: about a quarter of the width.
    assert 2.5 < widths[0] / widths[1] < 6


def test_intervals_follow_the_seed_and_the_confidence_and_leave_the_global_generator_alone():
    ranks = np.random.default_rng(1).random((4, 12)).argsort(0) + 1.0
    before = np.random.get_state()[1].tolist()
    first, again, other = (meta_rank_fit(ranks, resamples=100, seed=seed) for seed in (3, 3, 4))
    assert np.random.get_state()[1].tolist() == before
    assert (first.low == again.low).all()
    assert (first.low != other.low).any()
    narrow = meta_rank_fit(ranks, resamples=100, seed=3, confidence=0.5)
    assert ((first.high - first.low) > (narrow.high - narrow.low)).all()


def test_resamples_that_lose_a_method_are_left_out_and_counted():
    ranks = np.array([[1, 1, 2, 1.0], [2, 2, 1, NAN], [NAN, NAN, NAN, 2]])
    fit = meta_rank_fit(ranks, resamples=200)
    assert 0 < fit.resamples < 200
    assert np.isfinite(fit.low).all()


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_every_resample_is_fused_as_its_cases_written_out(missing):
    draw = np.random.default_rng(3)
    ranks = draw.integers(1, 5, size=(5, 8)).astype(float)
    ranks[:, 1:][draw.random((5, 7)) < missing] = NAN
    times = draw.multinomial(8, [1 / 8] * 8, size=40)
    found = resampled_meta_rank(ranks, times)
    for row, drawn in zip(found, times, strict=True):
        cases = np.repeat(ranks, drawn, axis=1)
        assert np.isnan(row).any() == np.isnan(row).all() == (not connected(cases))
        if connected(cases):
            # A system of five equations with numbers up to 10.
            assert row == pytest.approx(oracles.meta_rank(cases.tolist())[0], abs=1e-11)
    assert (~np.isnan(found[:, 0])).sum() > 30


def test_a_resample_without_a_method_or_a_link_has_no_scores():
    ranks = np.array([[1, NAN, 1], [2, NAN, 2], [NAN, 1, 3], [NAN, 2, 4]])
    found = resampled_meta_rank(ranks, np.array([[1, 1, 0], [2, 0, 0], [1, 1, 1]]))
    assert np.isnan(found).any(1).tolist() == [True, True, False]


def test_chains_of_common_cases_connect_methods():
    ranks = np.full((6, 5), NAN)
    for case in range(5):  # each case ranks two neighbors
        ranks[[case, case + 1], case] = 1, 2
    steps = np.diff(meta_rank(ranks))
    assert steps == pytest.approx([-math.log(3)] * 5, abs=1e-11)  # P = (1 + 1/2) / 2
