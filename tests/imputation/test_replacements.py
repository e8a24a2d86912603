"""Replacements of removed pixels: each by its definition, and kept pixels untouched by all."""

import pytest
import torch
from scipy.ndimage import gaussian_filter

import oracles_imputation
from attributionlab.metrics.imputation import (
    blur,
    constant,
    mean,
    nearest_known_color,
    noisy_linear,
    rounded,
    true_baseline,
)


@pytest.fixture
def images(generator):
    return 300 * torch.rand(2, 3, 7, 6, generator=generator) - 20


@pytest.fixture
def keep(generator):
    return torch.rand(2, 1, 7, 6, generator=generator) < 0.6


EVERY = [
    (noisy_linear, {"noise": 0}),
    (constant, {"value": 4}),
    (mean, {}),
    (mean, {"of": "image"}),
    (blur, {"sigma": 2}),
    (true_baseline, {"baseline": torch.tensor([1.0, 2.0, 3.0])[:, None, None]}),
    (rounded, {"low": 0, "high": 255, "noise": 0}),
    (nearest_known_color, {"imputation": mean}),
]


@pytest.mark.parametrize(("imputation", "settings"), EVERY)
def test_kept_pixels_are_untouched_and_images_and_masks_repeat(imputation, settings, images, keep):
    before = images.clone()
    got = imputation(images, keep, **settings)
    assert torch.equal(torch.where(keep, got, 0), torch.where(keep, images, 0))
    assert torch.equal(images, before)
    assert got.dtype == images.dtype
    assert not torch.equal(got, images)
    assert torch.equal(
        imputation(images[:1], keep, **settings)[1:],
        imputation(images[:1], keep[1:], **settings),
    )
    whole = imputation(images, torch.ones(1, 1, 7, 6, dtype=torch.bool), **settings)
    assert torch.equal(whole, images)
    differentiable = imputation(images.clone().requires_grad_(), keep, **settings)
    assert not differentiable.requires_grad
    assert torch.equal(differentiable, got)


def removed(images, keep):
    """(pixels, C) of the first image."""
    return images[0][:, ~keep[0, 0]].T


def test_values_are_those_of_the_definitions(images, keep):
    shown = removed(constant(images, keep, value=4), keep)
    assert (shown == 4).all()
    baseline = torch.tensor([1.0, 2.0, 3.0])
    of_baseline = true_baseline(images, keep, baseline=baseline[:, None, None])
    assert (removed(of_baseline, keep) == baseline).all()
    kept_mean = images[0][:, keep[0, 0]].double().mean(1).float()
    assert torch.allclose(removed(mean(images, keep), keep)[0], kept_mean, rtol=2.0**-23, atol=0)
    whole_mean = images[0].flatten(1).double().mean(1).float()
    assert torch.allclose(
        removed(mean(images, keep, of="image"), keep)[0], whole_mean, rtol=2.0**-23, atol=0
    )
    channel = gaussian_filter(images[0, 1].double().numpy(), 2, mode="reflect")
    blurred = torch.from_numpy(channel).float()[~keep[0, 0]]
    assert torch.equal(removed(blur(images, keep, sigma=2), keep)[:, 1], blurred)


def test_rounded_pixels_are_integers_in_the_box(images, keep):
    settings = {"noise": 0.1, "value_range": 255}
    plain = noisy_linear(images, keep, generator=torch.Generator().manual_seed(0), **settings)
    generator = torch.Generator().manual_seed(0)
    got = rounded(images, keep, low=0, high=200, generator=generator, **settings)
    assert torch.equal(removed(got, keep), removed(plain, keep).round().clamp(0, 200))


@pytest.mark.parametrize("given", [True, False])
def test_known_colors_are_the_nearest_of_those_given_or_kept(images, keep, given):
    plain = removed(noisy_linear(images, keep, noise=0), keep).tolist()
    colors = images[1].flatten(1).T if given else None
    known = (colors if given else images[0][:, keep[0, 0]].T).tolist()
    got = nearest_known_color(images, keep, colors=colors, noise=0)
    assert removed(got, keep).tolist() == [oracles_imputation.nearest(p, known) for p in plain]
