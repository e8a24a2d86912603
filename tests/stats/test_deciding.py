"""The number of images named decides as often as said, for one mean and for the lowest of several."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attributionlab import AttributionLabError
from attributionlab.stats.intervals import (
    images_to_decide,
    least_mean_interval,
    mean_interval,
    mean_score,
    verdict_of,
)

NAN = math.nan
# Products of two numbers below 8 in another order: a few times 2^-53 of 64.
ROUNDING = 64 * 8 * 2.0**-53

scores = st.lists(st.floats(0, 1), min_size=2, max_size=12).map(np.array)


@given(scores, st.floats(0, 1), st.sampled_from([0.6, 0.95]))
def test_the_number_that_decides_is_the_first_whose_t_interval_does(values, gamma, confidence):
    most = 60
    mean, spread = values.mean(), values.std(ddof=1)
    margins = [
        stats.t.ppf((1 + confidence) / 2, n - 1) * spread / math.sqrt(n) - abs(mean - gamma)
        for n in range(2, most + 1)
    ]
    if min(map(abs, margins)) < ROUNDING:
        return  # undecided between two numbers by rounding alone
    expected = next((n for n, margin in enumerate(margins, 2) if margin <= 0), None)
    assert images_to_decide({"overall": values}, gamma, confidence, most) == expected


@pytest.mark.long
def test_about_half_of_new_tests_with_that_number_decide_and_nearly_all_with_four_times_as_many():
    pilot = np.tile([0.35, 0.45, 0.55, 0.65, 0.75], 4)  # mean 0.55, spread 0.145
    rng, samples = np.random.default_rng(0), 150
    needed = images_to_decide({"overall": pilot}, 0.5)

    def deciding(n):
        drawn = rng.choice(pilot, (samples, n))
        intervals = [(mean_interval(values, 0), values.mean()) for values in drawn]
        return sum(verdict_of(each, 0.5, mean) != "inconclusive" for each, mean in intervals)

    # 4 standard deviations of a binomial share of a half. With 4 n images the mean lies 4 standard
    # errors above gamma and the lower end 2: 0.97 of the tests decide.
    assert deciding(needed) / samples == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(samples))
    assert deciding(4 * needed) / samples > 0.97 - 4 * math.sqrt(0.97 * 0.03 / samples)


def alone(values, gamma, **limits):
    return images_to_decide({"overall": np.array(values)}, gamma, **limits)


def test_images_to_which_a_score_does_not_apply_are_drawn_too():
    values = [0.3, 0.4, 0.5, 0.6, 0.7, 0.9]
    needed = alone(values, 0.5)
    assert alone([*values, *[NAN] * 6], 0.5) == 2 * needed
    assert alone([*values, *[NAN] * 3], 0.5) == math.ceil(1.5 * needed)
    assert alone([*values, *[NAN] * 6], 0.5, most=2 * needed - 1) is None
    assert alone([*values, *[NAN] * 6], 0.5, most=2 * needed) == 2 * needed


def test_no_number_decides_where_the_mean_is_gamma_or_there_is_no_spread_to_go_by():
    assert alone([0.25, 0.75], 0.5) is None
    assert alone([0.5], 0.4) is None
    assert alone([NAN, NAN], 0.4) is None
    assert images_to_decide({}, 0.4) is None
    assert alone([0.3, 0.7], 0.5 - 1e-6) is None  # beyond any number worth naming
    assert alone([0.3, 0.7], 0.4, most=1) is None


@given(st.floats(0, 1), st.integers(2, 40))
def test_two_images_decide_where_all_are_equal(value, n):
    assert alone(np.full(n, value), value) == 2
    assert alone(np.full(n, value), 0.5) == 2


def around(mean, spread, n=24):
    """Scores of this mean and standard deviation, half of them on either side."""
    return mean + spread * math.sqrt((n - 1) / n) * np.tile([-1.0, 1.0], n // 2)


def test_to_pass_every_part_must_lie_above_and_the_slowest_of_them_decides():
    tight, wide = around(0.597, 0.05), np.repeat(around(0.61, 0.5, 12), 2)
    slow = alone(wide, 0.5)
    assert slow > 10 * alone(tight, 0.5)
    assert images_to_decide({"overall": tight, "positive": wide}, 0.5) == slow
    assert images_to_decide({"positive": wide, "overall": tight}, 0.5) == slow
    never = around(0.5, 0.1)
    assert images_to_decide({"overall": tight, "positive": never}, 0.5) is None
    # Parts that apply nowhere do not count; of one that applies once nothing is known.
    nowhere, once = np.full(24, NAN), np.array([0.9, *[NAN] * 23])
    assert images_to_decide({"overall": tight, "negative": nowhere}, 0.5) == alone(tight, 0.5)
    assert images_to_decide({"overall": tight, "negative": once}, 0.5) is None


def test_to_fail_one_part_below_is_enough_and_the_fastest_decides():
    fast, slow, above = around(0.3, 0.3), np.repeat(around(0.45, 0.3, 12), 2), around(0.9, 0.01)
    parts = {"overall": slow, "positive": fast, "negative": above}
    needed = images_to_decide(parts, 0.5)
    # At most what K chances to fall too low cost: the tail of each is a / 3 at least.
    assert alone(fast, 0.5) <= needed <= alone(fast, 0.5, confidence=1 - 0.05 / 3)
    assert needed < alone(slow, 0.5)
    # Equal parts rise and fall together and are one.
    assert images_to_decide({"overall": fast, "positive": fast}, 0.5) == pytest.approx(
        alone(fast, 0.5),
        abs=1,  # the quantile of a resampled tail is a discrete one
    )
    never = around(0.5 - 1e-9, 0.1)
    assert images_to_decide({"overall": never, "positive": fast}, 0.5) is not None


@pytest.mark.long
@pytest.mark.parametrize(
    ("parts", "undecided"),
    [
        # Of the slow ones the one part that is far away leaves what the test of a single mean shows.
        pytest.param(
            {"overall": (0.597, 0.05), "positive": (0.61, 0.55)}, "pass", marks=pytest.mark.slow
        ),
        pytest.param(
            {"overall": (0.44, 0.3), "positive": (0.9, 0.05)}, "fail", marks=pytest.mark.slow
        ),
        ({"overall": (0.44, 0.3), "positive": (0.46, 0.3)}, "fail"),
    ],
)
def test_new_tests_of_several_parts_decide_as_often_as_said(parts, undecided):
    """Half of them at the number named, nearly all at four times as many, few at a quarter."""
    pilot = {name: np.repeat(around(*known, 12), 2) for name, known in parts.items()}
    pilot["positive"] = np.roll(pilot["positive"], 1)  # apart from the others
    rng, samples = np.random.default_rng(0), 100
    needed = images_to_decide(pilot, 0.5)

    def deciding(n):
        found = []
        for _ in range(samples):
            drawn = rng.integers(0, 24, n)
            values = {name: scores[drawn] for name, scores in pilot.items()}
            lowest = min(mean_score(each) for each in values.values())
            found.append(verdict_of(least_mean_interval(values, 0), 0.5, lowest))
        return found.count(undecided) / samples

    # Four standard deviations of a share of a half are 0.2. A quarter of the images has the mean one
    # standard error from gamma: Phi(-0.96) = 0.17 of the tests decide; several parts below, more.
    assert deciding(needed) > 0.3
    assert deciding(4 * needed) > 0.97 - 4 * math.sqrt(0.97 * 0.03 / samples)
    assert deciding(needed // 4) < 0.5


@pytest.mark.parametrize(
    ("values", "confidence", "message"),
    [(np.ones(2), 1.5, "confidence is 1.5"), (np.ones((1, 2)), 0.95, "a has the shape")],
)
def test_bad_input_is_refused_with_the_value_and_the_remedy(values, confidence, message):
    with pytest.raises(AttributionLabError, match=message):
        images_to_decide({"a": values}, 0.5, confidence)
