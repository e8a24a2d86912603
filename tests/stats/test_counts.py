"""Counts of solved questions: exact ends, exact chances, and how often a method passes."""

from fractions import Fraction
from functools import cache
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attributionlab import AttributionLabError, base
from attributionlab.base.stats.counts import MOST_QUESTIONS

NAN = np.nan


def tail(solved, asked, share):
    """P(X >= solved) of a binomial variable, term by term, as a fraction."""
    return sum(
        comb(asked, k) * share**k * (1 - share) ** (asked - k) for k in range(solved, asked + 1)
    )


@cache
def fewest_that_pass(asked):
    """How many of the questions a method has to solve to pass, by Clopper and Pearson's definition.

    The lower end is at least 3/4 where a share of 3/4 gives so many or more in at most 2.5 %.
    """
    rare = Fraction(25, 1000)
    return next(k for k in range(asked + 2) if tail(k, asked, Fraction(3, 4)) <= rare)


# Passing and failing


@pytest.mark.parametrize(
    ("asked", "fewest"), [(13, 13), (16, 16), (20, 19), (32, 30), (64, 56), (100, 84)]
)
def test_the_boundary_of_a_pass_is_that_of_the_binomial_tail(asked, fewest):
    assert fewest == fewest_that_pass(asked)
    assert base.Tally(fewest, asked).passes
    assert not base.Tally(fewest - 1, asked).passes


def test_below_the_fewest_questions_nothing_passes_and_from_there_on_a_flawless_method_does():
    for asked in range(1, 41):
        assert base.Tally(asked, asked).passes == (asked >= base.FEWEST_QUESTIONS), asked
    assert base.Tally(0, 0).interval is None
    assert not base.Tally(0, 0).passes


@pytest.mark.parametrize("environments", [1, 4, 7])
@pytest.mark.parametrize("asked", [5, 13, 32, 64])
def test_a_method_fails_where_three_quarters_make_so_few_rare_in_all_environments_together(
    asked, environments
):
    """The upper end is below 3/4 where a share of 3/4 gives so few or fewer in less than 2.5 % / E."""
    rare = Fraction(25, 1000) / environments
    for solved in range(asked + 1):
        so_few = 1 - tail(solved + 1, asked, Fraction(3, 4))
        fails = base.Tally(solved, asked).verdict(environments) == "fail"
        assert fails == (so_few < rare), solved


@given(st.integers(0, 80), st.integers(0, 80), st.integers(1, 20))
def test_a_count_has_one_verdict_and_more_environments_make_no_failure(one, other, environments):
    solved, asked = sorted((one, other))
    count = base.Tally(solved, asked)
    alone, together = count.verdict(), count.verdict(environments)
    assert (alone == "pass") == (together == "pass") == count.passes
    if together == "fail":
        assert alone == "fail"


def test_without_a_question_there_is_no_verdict():
    assert base.Tally(0, 0).verdict(4) == "inconclusive"
    assert base.Tally(0, 0).questions_to_decide() is None


# Chance


@pytest.mark.parametrize("alternatives", [2, 4, 6])
@pytest.mark.parametrize("asked", [1, 13, 32, 64])
def test_the_chance_is_the_sum_of_the_binomial_terms(asked, alternatives):
    for solved in range(asked + 1):
        expected = tail(solved, asked, Fraction(1, alternatives))
        # The incomplete beta function of doubles is good to about 1e-13 of its value.
        assert base.Tally(solved, asked).chance(alternatives) == pytest.approx(
            float(expected), rel=1e-12
        )


# How many questions would decide


@pytest.mark.parametrize("environments", [1, 4])
@pytest.mark.parametrize(
    ("solved", "asked"), [(27, 32), (29, 32), (25, 32), (19, 32), (9, 13), (12, 12), (17, 20)]
)
def test_so_many_questions_decide_and_a_fifth_less_do_not(solved, asked, environments):
    count = base.Tally(solved, asked)
    assert count.verdict(environments) == "inconclusive"
    needed = count.questions_to_decide(environments)

    def verdict(n):
        return base.Tally(round(solved / asked * n), n).verdict(environments)

    assert needed > asked
    assert verdict(needed) == ("pass" if solved / asked > base.LEAST_SHARE else "fail")
    # One fewer is one step below; whole numbers of solved questions may decide before, never far so.
    assert verdict(needed - 1) == "inconclusive"
    assert all(verdict(n) == "inconclusive" for n in range(asked, int(0.8 * needed)))


def test_no_number_decides_where_the_share_is_the_one_asked_for():
    assert base.Tally(24, 32).questions_to_decide() is None
    assert base.Tally(75_001, MOST_QUESTIONS).questions_to_decide() is None


def test_what_is_decided_needs_no_more_questions():
    assert base.Tally(32, 32).questions_to_decide() == 32
    assert base.Tally(0, 32).questions_to_decide(4) == 32


# How often methods pass


def passing(share, asked):
    """How probable a pass is for a method that solves this share: a sum over all counts that pass."""
    counts = [solved for solved in range(asked + 1) if base.Tally(solved, asked).passes]
    return float(stats.binom.pmf(counts, asked, share).sum())


@pytest.mark.parametrize("asked", [20, 32, 64])
@pytest.mark.parametrize("share", [0.5, 0.7, 0.75, 0.9, 0.98])
def test_methods_pass_as_often_as_the_binomial_distribution_says(share, asked):
    exact = float(tail(fewest_that_pass(asked), asked, Fraction(share)))
    assert passing(share, asked) == pytest.approx(exact, rel=1e-9)
    rng, tests = np.random.default_rng(asked), 2_000
    # Scores of questions, counted as a test counts them; two thirds exactly is not solved.
    right = rng.random((tests, asked)) < share
    passes = [base.Tally(solved, asked).passes for solved in range(asked + 1)]
    found = sum(passes[base.count_of(np.where(each, 0.9, 2 / 3)).solved] for each in right) / tests
    # 4 standard deviations of a binomial share, and one test of these where it is tiny.
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact / tests) + 1 / tests)


@pytest.mark.parametrize("asked", [1, 12, 13, 20, 32, 64, 100, 500])
def test_a_method_that_solves_less_than_three_quarters_passes_in_at_most_one_of_forty_tests(asked):
    rates = [passing(share, asked) for share in (0.5, 0.7, 0.74, base.LEAST_SHARE)]
    assert rates == sorted(rates)
    assert rates[-1] <= 0.025


def test_a_method_that_solves_nearly_all_passes_most_tests():
    # Of 20, 19 are asked, of 32, 30, of 64, 56.
    assert [round(passing(0.98, asked), 3) for asked in (20, 32, 64)] == [0.94, 0.974, 1.0]
    assert [round(passing(0.75, asked), 3) for asked in (20, 32, 64)] == [0.024, 0.007, 0.011]


# Solved questions


def test_a_question_has_its_lowest_part_and_one_without_any_is_left_out():
    parts = {
        "overall": np.array([0.9, 0.8, NAN, 0.9, 2 / 3]),
        "positive": np.array([0.9, 0.1, NAN, NAN, 0.9]),
    }
    lowest = base.lowest_f1(parts)
    assert np.array_equal(lowest, [0.9, 0.1, NAN, 0.9, 2 / 3], equal_nan=True)
    assert base.count_of(lowest) == (2, 4)


def test_two_thirds_and_what_rounding_adds_to_them_are_not_solved():
    values = np.array(
        [2 / 3, np.nextafter(2 / 3, 1), base.SOLVED_ABOVE, np.nextafter(base.SOLVED_ABOVE, 1)]
    )
    assert base.count_of(values) == (1, 4)


def test_of_a_smoothed_truth_two_thirds_of_what_the_best_map_reaches_are_asked():
    assert base.count_of(np.array([0.7, 0.61, 0.59, NAN]), np.array([1, 0.9, 0.9, 0.9])) == (2, 3)


@pytest.mark.parametrize(("solved", "asked"), [(3, 2), (-1, 4)])
def test_counts_that_cannot_be_have_no_interval(solved, asked):
    with pytest.raises(AttributionLabError, match=f"{solved} hits of {asked}"):
        _ = base.Tally(solved, asked).interval
