"""The share of a mean that is noise of the sampling is that of its squared standard errors."""

import statistics

import pytest
import torch

from attributionlab.methods.sampling_noise import noise_share


@pytest.mark.parametrize("samples", [2, 3, 10])
def test_it_is_the_squared_standard_errors_over_the_squared_means(samples):
    maps = torch.rand(samples, 7, generator=torch.Generator().manual_seed(0)).double()
    errors = [statistics.variance(values) / samples for values in maps.T.tolist()]
    means = [statistics.fmean(values) for values in maps.T.tolist()]
    expected = sum(errors) / sum(mean**2 for mean in means)
    found = noise_share(maps.sum(0), maps.square().sum(0), samples)
    assert found == pytest.approx(expected, rel=1e-12)


def test_equal_samples_a_single_one_and_none_but_zeros_have_no_noise():
    values = torch.tensor([1.0, -3.0]).double()
    assert noise_share(4 * values, 4 * values.square(), 4) == 0
    assert noise_share(values, values.square(), 1) == 0
    assert noise_share(0 * values, 0 * values, 3) == 0
