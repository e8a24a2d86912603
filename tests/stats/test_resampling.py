"""Resamples are draws with replacement, the same for all scores, in bounded memory."""

import tracemalloc

import numpy as np
import pytest

from attributionlab.base import resampled_means, weighted_means
from attributionlab.base.stats import intervals
from attributionlab.base.stats.intervals import RESAMPLES


@pytest.mark.parametrize("n", [2, 7, 300])
def test_each_resample_has_as_many_images_as_there_are(n):
    counts = resampled_means(np.eye(n), 0) * n
    assert counts.shape == (RESAMPLES, n)
    # A count is divided by n and multiplied by it again: a rounding each, of at most 16.
    np.testing.assert_allclose(counts, counts.round(), rtol=0, atol=2 * 16 * 2.0**-53)
    assert (counts.round().sum(1) == n).all()


@pytest.mark.parametrize("n", [2, 7, 300])
def test_every_image_is_drawn_as_often_as_any_other(n):
    counts = (resampled_means(np.eye(n), 0) * n).round()
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
    together = resampled_means(columns, 5)
    for index in range(3):
        # Products of the same counts and scores; libraries may sum the nine in another order.
        alone = resampled_means(columns[:, [index]], 5)[:, 0]
        np.testing.assert_allclose(together[:, index], alone, rtol=0, atol=9 * 2.0**-52)
    assert (resampled_means(columns, 6) != together).any()


def test_a_resample_without_any_applicable_image_has_no_mean():
    column = np.array([0.5, np.nan, np.nan, np.nan])
    drawn = resampled_means(np.eye(4), 0)[:, 0] > 0
    means = resampled_means(column[:, None], 0)[:, 0]
    assert (means[drawn] == 0.5).all()
    assert np.isnan(means[~drawn]).all()
    assert (~drawn).any()


def test_means_weigh_what_was_drawn_and_leave_out_what_is_missing():
    columns = np.array([[1.0, np.nan, np.nan], [2.0, np.nan, np.nan], [np.nan, 5.0, np.nan]])
    found = weighted_means(columns, [np.array([[1, 3, 1]]), np.array([[2, 0, 0]])])
    np.testing.assert_array_equal(found, [[7 / 4, 5, np.nan], [1, np.nan, np.nan]])


def test_the_draws_do_not_depend_on_how_many_are_made_at_a_time(monkeypatch):
    column = np.random.default_rng(0).uniform(size=(11, 1))
    expected = resampled_means(column, 8)
    monkeypatch.setattr(intervals, "AT_ONCE", 999)
    # Products of other shapes may sum their eleven terms in another order.
    allowed = {"rtol": 0, "atol": 11 * 2.0**-52}
    np.testing.assert_allclose(resampled_means(column, 8), expected, **allowed)
    monkeypatch.setattr(intervals, "KEPT", 0)
    np.testing.assert_allclose(resampled_means(column, 8), expected, **allowed)
    monkeypatch.setattr(intervals, "AT_ONCE", 5)  # fewer than images: one resample at a time
    np.testing.assert_allclose(resampled_means(column, 8), expected, **allowed)


@pytest.mark.long
def test_many_images_are_resampled_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 200)
    column = np.random.default_rng(0).uniform(size=(200_000, 1))
    tracemalloc.start()
    means = resampled_means(column, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # All draws at once would take 200 x 200,000 x 8 bytes = 305 MiB, the scores take 5 MiB.
    assert peak < 64 * 2**20
    # 5 standard deviations of the deviation of a resampled mean from the mean.
    assert np.abs(means - column.mean()).max() < 5 * column.std() / np.sqrt(200_000)


def test_what_is_kept_cannot_be_written_to():
    assert not intervals._kept(5, 0).flags.writeable
