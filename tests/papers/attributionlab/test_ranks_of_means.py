"""Agreement is Spearman's correlation of means, and its intervals cover images and candidates."""

import math

import numpy as np
import pytest
from scipy import stats

from attributionlab.papers.attributionlab.perturbation_study import METRICS
from attributionlab.papers.attributionlab.perturbation_tables import TRUTHS, mean_agreement

RNG = np.random.default_rng(0)
QUALITY = np.linspace(0, 1, 60)


def noisy(spread, images=12):
    return QUALITY[:, None] + spread * RNG.normal(size=(len(QUALITY), images))


F1 = {"f1_overall": noisy(0.1), "f1_positive": noisy(0.1) - 0.3}


def agreement(scores, f1=QUALITY, seed=0):
    """Value and interval by overall F1, the same in every image unless it is given."""
    f1 = np.tile(f1[:, None], (1, scores.shape[1]))
    of = {"f1_overall": f1, "f1_positive": f1} | dict.fromkeys(METRICS, scores)
    return mean_agreement(of, seed)["overall", "insertion"]


def test_values_are_correlations_of_means_with_each_truths():
    scores = {metric: noisy(0.5) for metric in METRICS}
    scores["insertion"][::2, 0] = np.nan  # left out of means
    found = mean_agreement(F1 | scores, 0)
    assert found.keys() == {(truth, metric) for truth in TRUTHS for metric in METRICS}
    for (truth, metric), (value, low, high) in found.items():
        sign = -1 if metric == "deletion" else 1  # where lower is better the ranking turns round
        means = sign * np.nanmean(scores[metric], 1)
        expected = stats.spearmanr(means, F1[f"f1_{truth}"].mean(1)).statistic
        assert value == pytest.approx(expected, abs=1e-12)  # a dozen roundings of float64
        assert low < value < high


@pytest.mark.parametrize("same", [0.3, np.nan])
def test_a_metric_that_scores_all_alike_has_no_ranking(same):
    assert all(map(math.isnan, agreement(np.full((60, 12), same))))


def test_means_that_differ_by_rounding_are_ties():
    quality = np.repeat([0.0, 0.5, 1.0], 20)
    wiggled = quality[:, None] * (1 + 1e-14 * RNG.normal(size=(60, 4)))
    assert agreement(wiggled, quality)[0] == 1


def test_more_images_narrow_the_interval():
    def width(images):
        scores = QUALITY[:, None] + 2 * np.random.default_rng(1).normal(size=(60, images))
        _, low, high = agreement(scores)
        return high - low

    assert width(40) < width(4)


def test_candidates_are_drawn_again_even_where_all_images_agree():
    scores = np.tile(np.random.default_rng(2).random((60, 1)), (1, 5))
    _, low, high = agreement(scores)
    assert high - low > 0.3  # 60 unrelated ranks: a standard error of 0.13


def test_images_are_drawn_again_even_where_all_candidates_are_far_apart():
    # Six of ten images rank as the truth does, four the other way round.
    scores = np.tile(QUALITY[:, None], (1, 10))
    scores[:, 6:] = 1 - scores[:, 6:]
    assert agreement(scores)[1:] == pytest.approx((-1, 1), abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_the_interval_holds_the_measured_value_where_images_are_few_and_noisy(seed):
    scores = QUALITY[:, None] + 2 * np.random.default_rng(seed).normal(size=(60, 3))
    value, low, high = agreement(scores)
    assert low < value < high


def test_the_same_seed_gives_the_same_interval():
    scores = noisy(0.5)
    one, same, other = (agreement(scores, seed=seed) for seed in (0, 0, 1))
    assert one == same != other
