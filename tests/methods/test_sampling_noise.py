"""The share of a mean that is noise of the sampling is that of its squared standard errors."""

import itertools
import math
import statistics

import pytest
import torch

from attributionlab.methods.findings import collect_notices
from attributionlab.methods.sampling_noise import noise_share, share_of_errors, tell_of_noise


@pytest.mark.parametrize("samples", [2, 3, 10])
def test_it_is_the_squared_standard_errors_over_the_squared_means(samples):
    maps = torch.rand(samples, 7, generator=torch.Generator().manual_seed(0)).double()
    errors = [statistics.variance(values) / samples for values in maps.T.tolist()]
    means = [statistics.fmean(values) for values in maps.T.tolist()]
    expected = sum(errors) / sum(mean**2 for mean in means)
    found = noise_share(maps.sum(0), maps.square().sum(0), samples)
    assert found == pytest.approx(expected, rel=1e-12)


def test_equal_samples_and_none_but_zeros_have_no_noise():
    values = torch.tensor([1.0, -3.0]).double()
    assert noise_share(4 * values, 4 * values.square(), 4) == 0
    assert noise_share(0 * values, 0 * values, 3) == 0
    assert noise_share(0 * values, 0 * values, 1) == 0


def test_of_a_single_sample_the_noise_is_unknown_unless_there_is_no_other():
    values = torch.tensor([1.0, -3.0]).double()
    assert noise_share(values, values.square(), 1) == math.inf
    assert noise_share(values, values.square(), 1, population=2) == math.inf
    assert noise_share(values, values.square(), 1, population=1) == 0


@pytest.mark.parametrize("samples", [2, 3, 4, 5, 6, 7, 8, 9, 12])
def test_without_replacement_the_squared_error_is_expected_to_be_the_variance_of_means(samples):
    """All draws of a population of 4, whose rounds differ in the last one only."""
    population = [1.0, 5.0, 6.0, 13.0]
    last = samples % 4
    means, errors = [], []
    for rest in itertools.combinations(population, last):
        drawn = torch.tensor(population * (samples // 4) + list(rest)).double()
        means.append(float(drawn.mean()))
        share = noise_share(drawn.sum(), drawn.square().sum(), samples, population=4)
        errors.append(share * means[-1] ** 2)
    if last:
        assert statistics.fmean(errors) == pytest.approx(statistics.pvariance(means), rel=1e-12)
    else:
        assert errors == [0.0]


@pytest.mark.parametrize("scale", [1.0, 1e-30])  # squares leave float32
def test_the_share_of_given_errors_is_that_of_the_sum_of_squares(scale):
    estimate = torch.tensor([[[3.0, 4.0]]]) * scale
    assert share_of_errors(estimate, estimate * 0.5) == pytest.approx(0.25)
    assert share_of_errors(estimate, torch.tensor([[[0.0, 4.0]]]) * scale) == pytest.approx(16 / 25)
    assert share_of_errors(estimate, torch.tensor([[[0.0, math.inf]]])) == math.inf
    assert share_of_errors(estimate * 0, estimate) == 0


def test_noise_and_noise_of_unknown_size_are_told_apart():
    with collect_notices() as told:
        tell_of_noise([0.4, 0.6, math.inf, 7.0, math.inf, math.inf, 0.0], "take more")
    unknown, noisy = told
    assert (unknown.images, noisy.images) == (3, 2)
    assert unknown.text == (
        "have a sampling noise of unknown size, as so few samples do not show it: take more"
    )
    assert noisy.worst == 1.0
