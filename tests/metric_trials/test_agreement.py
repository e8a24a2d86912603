"""Agreement is the mean over images of Spearman's correlation within each image."""

import math

import numpy as np
import pytest
from scipy import stats

from attributionlab.verdicts import lowest_part
from attributionlab.verdicts.metric_trials.agreement import Agreement, mean_over_images

RNG = np.random.default_rng(0)
QUALITY = np.linspace(0, 1, 60)


def noisy(spread, images=12, quality=QUALITY):
    return quality[:, None] + spread * RNG.normal(size=(len(quality), images))


F1 = {"overall": noisy(0.1), "positive": noisy(0.1), "negative": noisy(0.1) - 0.3}


def of(scores, higher_is_better=True, f1=F1, confidence=0.95, seed=0):
    """Means with their intervals, by what the truth ranks by."""
    agreement = Agreement(f1, confidence, seed)
    found = agreement.of(scores, higher_is_better)
    return {by: agreement.resamples.interval(each) for by, each in found.items()}


def expected(scores, truth):
    """Image by image, by scipy."""
    return np.mean(
        [stats.spearmanr(*pair).statistic for pair in zip(scores.T, truth.T, strict=True)]
    )


def test_values_are_mean_correlations_with_each_ranking_of_the_truth():
    scores = noisy(0.5)
    found = of(scores)
    truths = {
        "overall": F1["overall"],
        "positive": F1["positive"],
        "signed": np.minimum.reduce(list(F1.values())),
    }
    assert found.keys() == truths.keys()
    for name, truth in truths.items():
        # scipy's ranks have other means: a dozen roundings of float64.
        assert found[name].value == pytest.approx(expected(scores, truth), abs=1e-14)
        assert found[name].low < found[name].value < found[name].high


def test_where_lower_is_better_the_ranking_turns_round():
    scores = noisy(0.5)
    up, down = (of(scores, better) for better in (True, False))
    assert up["overall"].value == pytest.approx(-down["overall"].value, abs=1e-15)


def test_more_images_change_how_sure_the_value_is_and_not_the_value():
    def found(images, seed):
        rng = np.random.default_rng(seed)
        scores = QUALITY[:, None] + 2 * rng.normal(size=(60, images))
        f1 = dict.fromkeys(F1, np.tile(QUALITY[:, None], (1, images)))
        return of(scores, f1=f1)["overall"]

    few, many = (np.mean([found(n, seed).value for seed in range(20)]) for n in (2, 64))
    # 60 ranks: a standard error of 0.13 for an image, 0.02 for 40 of them; three of these.
    assert few == pytest.approx(many, abs=0.06)
    widths = [np.mean([np.subtract(*found(n, s)[:0:-1]) for s in range(5)]) for n in (6, 64)]
    assert widths[1] < widths[0] / 2


def test_an_image_with_nan_is_left_out_and_so_is_one_whose_scores_are_all_equal():
    scores = noisy(0.2)
    kept = expected(scores[:, 2:], F1["overall"][:, 2:])
    scores[7, 0], scores[:, 1] = np.nan, 0.25
    found = of(scores)["overall"]
    assert found.value == pytest.approx(kept, abs=1e-14)


def test_a_part_that_an_image_lacks_does_not_count_for_the_lowest():
    f1 = {part: np.array([[0.5, 0.4]]) for part in ("overall", "positive")}
    f1["negative"] = np.array([[np.nan, 0.1]])
    assert lowest_part(f1).tolist() == [[0.5, 0.1]]


def test_a_metric_that_scores_all_alike_has_no_ranking():
    for same in (np.full((60, 12), 0.3), np.full((60, 12), np.nan)):
        found = of(same)["overall"]
        assert all(math.isnan(each) for each in found)


def test_scores_that_differ_by_rounding_are_ties():
    quality = np.repeat([0.0, 0.5, 1.0], 20)
    scores = np.tile(quality[:, None], (1, 4))
    wiggled = scores * (1 + 1e-14 * RNG.normal(size=scores.shape))
    assert of(wiggled, f1=dict.fromkeys(F1, scores))["overall"].value == 1


def test_one_image_has_a_value_without_an_interval():
    one = {part: values[:, :1] for part, values in F1.items()}
    value, low, high = of(noisy(0.1, 1), f1=one)["overall"]
    assert value > 0.9
    assert math.isnan(low)
    assert math.isnan(high)


def test_the_interval_is_one_over_images():
    # Six of ten images rank as the truth does, four the other way round: a mean of 0.2.
    scores = np.tile(QUALITY[:, None], (1, 10))
    scores[:, 6:] = 1 - scores[:, 6:]
    f1 = dict.fromkeys(F1, np.tile(QUALITY[:, None], (1, 10)))
    value, low, high = of(scores, f1=f1)["overall"]
    assert value == pytest.approx(0.2, abs=1e-15)
    # A coin that shows 1 or -1: a standard error of 0.31, and t with 9 degrees of freedom.
    assert low == pytest.approx(0.2 - 2.26 * 0.31, abs=0.2)
    assert high == pytest.approx(0.2 + 2.26 * 0.31, abs=0.2)
    narrow = of(scores, f1=f1, confidence=0.5)["overall"]
    assert low < narrow.low < narrow.high < high


def test_the_same_seed_gives_the_same_interval():
    scores = noisy(0.5)
    one, same, other = (of(scores, seed=seed) for seed in (0, 0, 1))
    assert one == same != other


def test_means_over_images_leave_nan_out():
    scores = np.array([[1.0, np.nan, 3.0], [np.nan] * 3])
    np.testing.assert_array_equal(mean_over_images(scores), [2.0, np.nan])
