"""Sensitivity-N: the correlations of shared subsets, and their mean where they are defined."""

import math

import pytest
import torch
from torch import nn

from attributionlab import AttributionLabError
from attributionlab.metrics.sensitivity import sensitivity_n, sensitivity_n_curve, subset_effects

TARGETS = torch.tensor([0, 0])


def total_model(pixels: int) -> nn.Module:
    linear = nn.Linear(pixels, 1, bias=False)
    linear.weight.data.fill_(1)
    return nn.Sequential(nn.Flatten(), linear)


@pytest.fixture
def images(generator):
    return torch.randint(0, 9, (2, 1, 3, 4), generator=generator).float()


@pytest.mark.parametrize("measure", ["output", "changed-steps"])
def test_the_curve_is_the_correlations_of_the_shared_subsets(images, generator, measure):
    maps = torch.randn(images.shape, generator=generator)
    settings = {"replacement": 1, "sizes": [1, 3, 7, 12], "draws": 9, "seed": 5, "measure": measure}
    curves = sensitivity_n_curve(total_model(12), images, TARGETS, maps, **settings)
    shared = subset_effects(total_model(12), images, TARGETS, **settings)
    torch.testing.assert_close(curves, shared.correlations(maps), rtol=0, atol=0, equal_nan=True)
    assert curves.shape == (2, 4)
    scores = sensitivity_n(total_model(12), images, TARGETS, maps, **settings)
    assert curves[:, 3].isnan().all()
    # A mean of three float64 values.
    torch.testing.assert_close(scores, curves[:, :3].mean(1), rtol=0, atol=1e-15)


def test_an_exact_attribution_scores_1_and_one_with_the_wrong_sign_minus_1(images):
    settings = {"replacement": 0, "draws": 20}
    for sign in (1, -1):
        scores = sensitivity_n(total_model(12), images, TARGETS, sign * images, **settings)
        assert scores.tolist() == [sign, sign]  # sums of integers are exact


def test_an_image_that_no_subset_changes_is_not_applicable():
    images = torch.zeros(2, 1, 2, 2)
    images[1] = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    scores = sensitivity_n(total_model(4), images, TARGETS, images + 1, replacement=0, draws=5)
    assert scores.tolist() == pytest.approx([math.nan, 1], abs=1e-12, nan_ok=True)


def test_sensitivity_n_says_which_direction_is_better():
    assert sensitivity_n.higher_is_better
    assert sensitivity_n.per_sample


@pytest.mark.usefixtures("without_shape_checks")
def test_attributions_are_refused_before_the_model_is_asked(images):
    class Unasked(nn.Module):
        def forward(self, images):
            raise AssertionError

    with pytest.raises(AttributionLabError, match=r"attributions are torch.float32 of shape"):
        sensitivity_n(Unasked(), images, TARGETS, images[:1], replacement=0)
