"""Agreement is Spearman's correlation of means, and its intervals cover images and candidates."""

import math

import numpy as np
import pytest
from scipy import stats

from attributionlab.papers.attributionlab.perturbation_tables import AgreementOfMeans

RNG = np.random.default_rng(0)
QUALITY = np.linspace(0, 1, 60)


def noisy(spread, images=12, quality=QUALITY):
    return quality[:, None] + spread * RNG.normal(size=(len(quality), images))


F1 = {"overall": noisy(0.1), "positive": noisy(0.1), "negative": noisy(0.1) - 0.3}


def expected(scores, truth):
    return stats.spearmanr(np.nanmean(scores, 1), truth).statistic


def test_values_are_correlations_of_means_with_each_ranking_of_the_truth():
    scores = noisy(0.5)
    found = AgreementOfMeans(F1, 0.95, 0).of(scores, True)
    means = {part: values.mean(1) for part, values in F1.items()}
    truths = {
        "overall": means["overall"],
        "positive": means["positive"],
        "signed": np.minimum.reduce(list(means.values())),
    }
    assert found.keys() == truths.keys()
    for name, truth in truths.items():
        # A dozen roundings of float64.
        assert found[name].value == pytest.approx(expected(scores, truth), abs=1e-12)
        assert found[name].low < found[name].value < found[name].high


def test_where_lower_is_better_the_ranking_turns_round():
    scores = noisy(0.5)
    up, down = (AgreementOfMeans(F1, 0.95, 0).of(scores, better) for better in (True, False))
    assert up["overall"].value == -down["overall"].value


def test_nan_is_left_out_of_means_and_a_part_that_no_image_has_out_of_the_lowest():
    scores = noisy(0.2)
    scores[::2, 0] = np.nan
    f1 = F1 | {"negative": np.full_like(scores, np.nan)}
    found = AgreementOfMeans(f1, 0.95, 0).of(scores, True)["signed"].value
    lowest = np.minimum(f1["overall"].mean(1), f1["positive"].mean(1))
    assert found == pytest.approx(expected(scores, lowest), abs=1e-12)


def test_a_metric_that_scores_all_alike_has_no_ranking():
    for same in (np.full((60, 12), 0.3), np.full((60, 12), np.nan)):
        found = AgreementOfMeans(F1, 0.95, 0).of(same, True)["overall"]
        assert all(math.isnan(each) for each in found)


def test_means_that_differ_by_rounding_are_ties():
    quality = np.repeat([0.0, 0.5, 1.0], 20)
    scores = np.tile(quality[:, None], (1, 4))
    wiggled = scores * (1 + 1e-14 * RNG.normal(size=scores.shape))
    f1 = dict.fromkeys(F1, scores)
    assert AgreementOfMeans(f1, 0.95, 0).of(wiggled, True)["overall"].value == 1


def test_more_images_and_more_confidence_change_the_interval_as_they_should():
    def width(images, confidence):
        rng = np.random.default_rng(1)
        scores = QUALITY[:, None] + 2 * rng.normal(size=(60, images))
        f1 = dict.fromkeys(F1, np.tile(QUALITY[:, None], (1, images)))
        _, low, high = AgreementOfMeans(f1, confidence, 0).of(scores, True)["overall"]
        return high - low

    assert width(40, 0.95) < width(4, 0.95)
    assert width(4, 0.5) < width(4, 0.95)


def test_candidates_are_drawn_again_even_where_all_images_agree():
    scores = np.tile(np.random.default_rng(2).random((60, 1)), (1, 5))
    found = AgreementOfMeans(dict.fromkeys(F1, np.tile(QUALITY[:, None], (1, 5))), 0.95, 0)
    _, low, high = found.of(scores, True)["overall"]
    assert high - low > 0.3  # 60 unrelated ranks: a standard error of 0.13


def test_the_interval_holds_the_measured_value_where_images_are_few_and_noisy():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        scores = QUALITY[:, None] + 2 * rng.normal(size=(60, 3))
        f1 = dict.fromkeys(F1, np.tile(QUALITY[:, None], (1, 3)))
        value, low, high = AgreementOfMeans(f1, 0.95, 0).of(scores, True)["overall"]
        assert low < value < high


def test_images_are_drawn_again_even_where_all_candidates_are_far_apart():
    # Six of ten images rank as the truth does, four the other way round.
    scores = np.tile(QUALITY[:, None], (1, 10))
    scores[:, 6:] = 1 - scores[:, 6:]
    f1 = dict.fromkeys(F1, np.tile(QUALITY[:, None], (1, 10)))
    _, low, high = AgreementOfMeans(f1, 0.95, 0).of(scores, True)["overall"]
    assert (low, high) == pytest.approx((-1, 1), abs=1e-9)


def test_the_same_seed_gives_the_same_interval():
    scores = noisy(0.5)
    one, same, other = (AgreementOfMeans(F1, 0.95, seed).of(scores, True) for seed in (0, 0, 1))
    assert one == same != other
