"""Intervals are those of the definition, cover as often as stated, and decide what they ought to.

Resamples are draws with replacement, the same for all scores, in bounded memory.
"""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import oracles_leaderboard
from attributionlab import AttributionLabError, base
from attributionlab.base.stats import intervals
from attributionlab.base.stats.intervals import RESAMPLES, checked_scores


@given(st.lists(st.one_of(st.floats(0, 1), st.just(math.nan)), max_size=20))
def test_a_mean_is_that_of_the_applicable_images(values):
    there = [value for value in values if not math.isnan(value)]
    array = np.array(values, dtype=float)
    assert base.applicable(array) == len(there)
    if there:
        # Sums of 20 numbers of at most 1, a rounding of at most 20 x 2^-53 each.
        assert base.mean_score(array) == pytest.approx(
            math.fsum(there) / len(there), abs=20 * 2.0**-52
        )
    else:
        assert math.isnan(base.mean_score(array))


@given(st.floats(0, 1), st.integers(1, 50))
def test_the_mean_of_equal_scores_is_their_score(value, n):
    assert base.mean_score(np.full(n, value)) == value


def test_numbers_of_any_real_type_are_scores():
    for values in ([0, 1], (0.0, 1.0), np.array([False, True]), np.array([0, 1], dtype=np.float32)):
        scores = checked_scores(values, "values")
        assert scores.dtype == np.float64
        assert scores.tolist() == [0, 1]


NAN = float("nan")
# Sums and products of at most 40 numbers below 8, in another order: 2^-53 of 8 for each step.
ROUNDING = 3 * 40 * 8 * 2.0**-53

scores = st.lists(st.floats(0, 1), min_size=2, max_size=12).map(np.array)


# Naive twins


def drawn_images(n, seed):
    """The images in each resample, read off the means of n scores each of which marks one image."""
    return [
        [image for image, share in enumerate(row) for _ in range(round(share * n))]
        for row in base.resampled_means(np.eye(n), seed).tolist()
    ]


def naive_means(values, resamples):
    """The mean over the applicable images of each resample that has one."""
    means = []
    for images in resamples:
        there = [values[image] for image in images if not math.isnan(values[image])]
        if there:
            means.append(sum(there) / len(there))
    return means


def naive_quantile(means, probability):
    """Linear between the sorted means, the lowest at 0 and the highest at 1."""
    ranked = sorted(means)
    place = probability * (len(ranked) - 1)
    below = min(int(place), len(ranked) - 2)
    return ranked[below] + (place - below) * (ranked[below + 1] - ranked[below])


def expanded(tail, n):
    """Hesterberg's a', from the normal and t distributions of another module."""
    return stats.norm.cdf(math.sqrt(n / (n - 1)) * stats.t.ppf(tail, n - 1))


@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize(
    "values",
    [
        [0.1, 0.7, 0.4, 0.95, 0.3, 0.5, 0.2],
        [0.0, 1.0, 1.0, 1.0, 1.0],
        [0.1, NAN, 0.7, 0.4, 0.95, NAN, 0.3],
        [0.2, NAN, NAN, 0.9, NAN, NAN],  # 0.088 of the resamples have no applicable image
        [0.3, 0.8],
    ],
)
def test_an_interval_is_that_of_a_loop_over_the_resamples(values, confidence):
    low, high = base.mean_interval(np.array(values), 3, confidence)
    means = naive_means(values, drawn_images(len(values), 3))
    tail = expanded((1 - confidence) / 2, sum(not math.isnan(value) for value in values))
    assert low == pytest.approx(naive_quantile(means, tail), abs=ROUNDING)
    assert high == pytest.approx(naive_quantile(means, 1 - tail), abs=ROUNDING)


# How often an interval holds the true mean


def bell_shaped(rng, n):
    return rng.beta(6, 4, n)


def skewed(rng, n):
    return rng.beta(4, 0.5, n)


@pytest.mark.parametrize(
    ("draw", "true_mean", "n", "measured"),
    [
        # Of 2000 samples each. Skewed scores with most images near 1 need more than 8 of them.
        (bell_shaped, 0.6, 8, 0.940),
        (bell_shaped, 0.6, 32, 0.961),
        (skewed, 8 / 9, 8, 0.888),
        (skewed, 8 / 9, 32, 0.939),
    ],
)
def test_an_interval_covers_the_true_mean_as_often_as_measured(draw, true_mean, n, measured):
    rng, samples = np.random.default_rng(n + 1), 200
    intervals = [base.mean_interval(draw(rng, n), 0) for _ in range(samples)]
    covered = sum(low <= true_mean <= high for low, high in intervals)
    # 4 standard deviations of a binomial share, of this one and of the measured one.
    variance = measured * (1 - measured)
    allowed = 4 * math.sqrt(variance / samples + variance / 2000)
    assert covered / samples == pytest.approx(measured, abs=allowed)


@pytest.mark.parametrize(
    ("probability", "n", "least", "most"),
    [
        (0.5, 8, 0.99, 1),
        (0.5, 32, 0.96, 0.99),
        # All 8 images are right in 17 % of the samples, and the interval is then [1, 1].
        (0.8, 8, 0.82, 0.84),
        (0.8, 32, 0.94, 0.97),
        (0.95, 8, 0.30, 0.35),
        (0.95, 32, 0.80, 0.82),
    ],
)
def test_intervals_of_scores_of_zero_and_one_cover_too_little_near_the_ends(
    probability, n, least, most
):
    covered = 0.0
    for ones in range(n + 1):
        low, high = base.mean_interval(np.repeat([0.0, 1.0], [n - ones, ones]), 0)
        if low <= probability <= high:
            covered += stats.binom.pmf(ones, n, probability)
    assert least <= covered <= most


# What an interval does not depend on, and what it does


@given(scores, st.floats(0.1, 4), st.floats(-2, 2), st.sampled_from([0.5, 0.95]))
def test_an_interval_moves_and_stretches_with_its_scores(values, factor, shift, confidence):
    low, high = base.mean_interval(values, 1, confidence)
    moved = base.mean_interval(factor * values + shift, 1, confidence)
    assert moved == pytest.approx((factor * low + shift, factor * high + shift), abs=ROUNDING)
    mirrored = base.mean_interval(-values, 1, confidence)
    # An end between two resamples moves with the rounding of its place, 10^4 x 2^-53.
    assert mirrored == pytest.approx((-high, -low), abs=ROUNDING + RESAMPLES * 2.0**-53)


@given(st.floats(0, 1), st.integers(2, 40))
def test_equal_scores_have_an_interval_of_no_width_at_all(value, n):
    values = np.full(n, value)
    assert base.mean_interval(values, 0) == (value, value)


def test_the_seed_alone_decides_and_global_random_states_are_left_alone():
    values = np.random.default_rng(0).uniform(size=9)
    np.random.seed(5)
    before = np.random.get_state()[1].tolist()
    first = base.mean_interval(values, 0)
    base.mean_interval(values, 1)
    assert base.mean_interval(values, 0) == first
    assert base.mean_interval(values, np.int64(0)) == first
    assert base.mean_interval(values, 1) != first
    assert np.random.get_state()[1].tolist() == before


def test_fewer_than_two_images_have_no_interval():
    assert base.mean_interval(np.array([]), 0) is None
    assert base.mean_interval(np.array([0.5]), 0) is None
    assert base.mean_interval(np.array([NAN, 0.5, NAN]), 0) is None
    assert base.mean_interval(np.array([NAN, NAN]), 0) is None


# Two methods on the same images


def test_a_method_does_not_differ_from_itself():
    values = np.array([0.1, 0.7, 0.30000000000000004, NAN, 0.9])
    assert base.paired_difference(values, values.copy(), 0) == (0, 0, 0, 4, None)


def test_a_small_steady_difference_shows_although_the_intervals_overlap():
    rng = np.random.default_rng(0)
    first = rng.uniform(0.1, 0.9, 16)
    second = first - rng.uniform(0.01, 0.05, 16)
    assert base.mean_interval(second, 0).high > base.mean_interval(first, 0).low
    difference = base.paired_difference(first, second, 0)
    assert 0.01 < difference.low < difference.mean < difference.high < 0.05
    assert difference.better == "first"
    assert base.paired_difference(second, first, 0).better == "second"
    assert base.paired_difference(first, rng.permutation(first), 0).better is None


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=9))
def test_a_difference_is_that_of_the_resampled_means(pairs):
    first, second = np.array(pairs).T
    difference = base.paired_difference(first, second, 2)
    assert difference[1:3] == base.mean_interval(first - second, 2)
    means = base.resampled_means(np.stack([first, second], axis=1), 2)
    tail = expanded(0.025, len(pairs))
    ends = np.quantile(means[:, 0] - means[:, 1], [tail, 1 - tail])
    assert difference[1:3] == pytest.approx(ends, abs=ROUNDING)
    assert difference.mean == pytest.approx(first.mean() - second.mean(), abs=ROUNDING)
    low, high = difference[1:3]
    expected = "first" if low > 1e-12 else "second" if high < -1e-12 else None
    assert difference.better == (expected if len(pairs) >= 6 else None)


def test_with_fewer_than_six_images_none_is_better():
    """Five differences about 0 all have one sign in 6 % of the cases."""
    better = np.array([0.9, 0.8, 0.9, 0.8, 0.9, NAN])
    assert base.paired_difference(better, better - 0.5, 0).better is None
    assert base.paired_difference(better - 0.5, better, 0).better is None
    better[5] = 0.7
    assert base.paired_difference(better, better - 0.5, 0).better == "first"
    assert base.paired_difference(better - 0.5, better, 0).better == "second"


def test_a_difference_counts_the_images_to_which_both_apply():
    first = np.array([0.5, NAN, 0.7, 0.9, NAN])
    second = np.array([0.4, 0.2, NAN, 0.5, NAN])
    difference = base.paired_difference(first, second, 0)
    assert difference.images == 2
    assert difference.mean == pytest.approx(0.25, abs=ROUNDING)
    alone = base.paired_difference(first[:3], second[:3], 0)
    assert (alone.images, alone.better) == (1, None)
    assert alone.mean == pytest.approx(0.1, abs=ROUNDING)
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)
    nowhere = base.paired_difference(first[1:3], second[1:3], 0)
    assert (nowhere.images, nowhere.better) == (0, None)
    assert math.isnan(nowhere.mean)


# What is refused

GOOD = np.array([0.2, 0.4])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: base.mean_interval(np.ones((2, 3)), 0),
            r"values has the shape \(2, 3\): take one number",
        ),
        (lambda: base.mean_interval(np.float64(1), 0), r"values has the shape \(\): take"),
        (
            lambda: base.mean_interval(np.array([0.1, -np.inf]), 0),
            "values holds -inf: take finite numbers",
        ),
        (lambda: base.mean_interval(["a", "b"], 0), r"values is \['a', 'b'\]: take an array"),
        (lambda: base.mean_interval(GOOD, -1), "seed is -1: take an integer"),
        (
            lambda: base.mean_interval(GOOD, 0, 95),
            r"confidence is 95: take a number above 0 and below 1",
        ),
        (lambda: base.mean_interval(GOOD, -1, 2), "seed is -1.*; confidence is 2"),
        (
            lambda: base.paired_difference(GOOD, np.ones(3), 0),
            r"images differ \(first 2, second 3\)",
        ),
        (lambda: base.paired_difference(GOOD, GOOD, "0"), "seed is '0'"),
    ],
)
def test_bad_input_is_refused_with_the_value_and_the_remedy(call, message):
    with pytest.raises(AttributionLabError, match=message):
        call()


unequal = st.lists(st.floats(-1, 1), min_size=2, max_size=6).filter(
    lambda each: np.ptp(each) > 1e-3
)


@given(unequal, unequal)
@settings(max_examples=40, deadline=None)
def test_the_difference_of_different_images_has_welchs_interval(first, second):
    mean, interval = base.independent_difference(np.array([*first, math.nan]), np.array(second))
    expected = oracles_leaderboard.welch(first, second, lambda freedom: stats.t.ppf(0.975, freedom))
    # Both square differences of about 1e-3 and more; t reaches 13 at one degree of freedom.
    assert (mean, *interval) == pytest.approx(expected, abs=1e-9)


def test_a_difference_without_spread_is_exact_and_one_image_has_no_interval():
    assert base.independent_difference(np.ones(3), np.zeros(2)) == (1, (1, 1))
    assert base.independent_difference(np.ones(1), np.zeros(2)) == (1, None)
    assert math.isnan(base.independent_difference(np.array([]), np.zeros(2))[0])


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (3, 10), (10, 10), (25, 50)])
def test_the_interval_of_a_share_is_that_of_the_binomial(hits, n):
    """Its ends are where so many hits, or so few, have a probability of 2.5 %."""
    low, high = base.share_interval(hits, n)

    def at_least(k, p):
        return sum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1))

    # The quantile is exact to float64; the sum has at most 51 terms below 1.
    assert low == 0 if hits == 0 else at_least(hits, low) == pytest.approx(0.025, abs=1e-9)
    assert (
        high == 1 if hits == n else 1 - at_least(hits + 1, high) == pytest.approx(0.025, abs=1e-9)
    )


@pytest.mark.parametrize("n", [2, 7, 300])
def test_each_resample_has_as_many_images_as_there_are(n):
    counts = base.resampled_means(np.eye(n), 0) * n
    assert counts.shape == (RESAMPLES, n)
    # A count is divided by n and multiplied by it again: a rounding each, of at most 16.
    np.testing.assert_allclose(counts, counts.round(), rtol=0, atol=2 * 16 * 2.0**-53)
    assert (counts.round().sum(1) == n).all()


@pytest.mark.parametrize("n", [2, 7, 300])
def test_every_image_is_drawn_as_often_as_any_other(n):
    counts = (base.resampled_means(np.eye(n), 0) * n).round()
    # Binomial, RESAMPLES n draws with probability 1 / n: 5 standard deviations.
    spread = np.sqrt(RESAMPLES * (1 - 1 / n))
    assert np.abs(counts.sum(0) - RESAMPLES).max() < 5 * spread
    # Within one resample a count is binomial too; its variance is 1 - 1/n, estimated within
    # 5 sqrt(2 / RESAMPLES) of that for counts no heavier in the tails than Poisson ones (kurtosis 4).
    assert counts.var(0) == pytest.approx(1 - 1 / n, abs=5 * np.sqrt(3 / RESAMPLES))
    assert (counts[0] != counts[1]).any() or n == 2


def test_scores_of_the_same_images_are_resampled_together():
    columns = np.random.default_rng(0).uniform(size=(9, 3))
    columns[2, 1] = np.nan
    together = base.resampled_means(columns, 5)
    for index in range(3):
        # Products of the same counts and scores; libraries may sum the nine in another order.
        alone = base.resampled_means(columns[:, [index]], 5)[:, 0]
        np.testing.assert_allclose(together[:, index], alone, rtol=0, atol=9 * 2.0**-52)
    assert (base.resampled_means(columns, 6) != together).any()


def test_a_resample_without_any_applicable_image_has_no_mean():
    column = np.array([0.5, np.nan, np.nan, np.nan])
    drawn = base.resampled_means(np.eye(4), 0)[:, 0] > 0
    means = base.resampled_means(column[:, None], 0)[:, 0]
    assert (means[drawn] == 0.5).all()
    assert np.isnan(means[~drawn]).all()
    assert (~drawn).any()


def test_means_weigh_what_was_drawn_and_leave_out_what_is_missing():
    columns = np.array([[1.0, np.nan, np.nan], [2.0, np.nan, np.nan], [np.nan, 5.0, np.nan]])
    found = base.weighted_means(columns, [np.array([[1, 3, 1]]), np.array([[2, 0, 0]])])
    np.testing.assert_array_equal(found, [[7 / 4, 5, np.nan], [1, np.nan, np.nan]])


def test_the_draws_do_not_depend_on_how_many_are_made_at_a_time(monkeypatch):
    column = np.random.default_rng(0).uniform(size=(11, 1))
    expected = base.resampled_means(column, 8)
    monkeypatch.setattr(intervals, "AT_ONCE", 999)
    # Products of other shapes may sum their eleven terms in another order.
    allowed = {"rtol": 0, "atol": 11 * 2.0**-52}
    np.testing.assert_allclose(base.resampled_means(column, 8), expected, **allowed)
    monkeypatch.setattr(intervals, "KEPT", 0)
    np.testing.assert_allclose(base.resampled_means(column, 8), expected, **allowed)
    monkeypatch.setattr(intervals, "AT_ONCE", 5)  # fewer than images: one resample at a time
    np.testing.assert_allclose(base.resampled_means(column, 8), expected, **allowed)


@pytest.mark.long
def test_many_images_are_resampled_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 200)
    column = np.random.default_rng(0).uniform(size=(200_000, 1))
    tracemalloc.start()
    means = base.resampled_means(column, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # All draws at once would take 200 x 200,000 x 8 bytes = 305 MiB, the scores take 5 MiB.
    assert peak < 64 * 2**20
    # 5 standard deviations of the deviation of a resampled mean from the mean.
    assert np.abs(means - column.mean()).max() < 5 * column.std() / np.sqrt(200_000)


def test_what_is_kept_cannot_be_written_to():
    assert not intervals._kept(5, 0).flags.writeable
