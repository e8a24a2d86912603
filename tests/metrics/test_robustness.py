"""Infidelity and Max-Sensitivity agree with their definitions, written as loops over the same draws."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import oracles_metrics as oracles
from attributionlab.metrics import infidelity, max_sensitivity, robustness
from small_networks import gradient, smooth

TARGETS = torch.tensor([1, 0])


def smooth_model(seed, channels, pixels):
    layers = nn.Conv2d(channels, 2, 3, padding=1), nn.Tanh(), nn.Flatten()
    return smooth(seed, [*layers, nn.Linear(2 * pixels, 2)])


def drawn_subsets(images, draws, pixels, seed):
    generator = torch.Generator().manual_seed(seed)
    subsets = []
    for _ in range(images * draws):
        size = int(torch.randint(1, pixels + 1, (), generator=generator))
        subsets.append(torch.randperm(pixels, generator=generator).tolist()[:size])
    return [subsets[image * draws : (image + 1) * draws] for image in range(images)]


@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 5), st.booleans())
def test_infidelity_is_the_mean_squared_gap_over_random_subsets(seed, channels, draws, normalize):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(2, channels, 2, 3, generator=generator, dtype=torch.float64)
    ends = torch.rand(channels, 1, 1, generator=generator, dtype=torch.float64)
    maps = torch.randn(2, 1, 2, 3, generator=generator)
    model = smooth_model(seed, channels, 6)
    settings = {"replacement": ends, "draws": draws, "seed": seed, "normalize": normalize}
    got = infidelity(model, images, TARGETS, maps, **settings)
    subsets = drawn_subsets(2, draws, 6, seed)
    expected = [
        oracles.infidelity(
            model,
            images[i],
            ends.expand(images[i].shape),
            maps[i].flatten().tolist(),
            int(TARGETS[i]),
            subsets[i],
            normalize,
        )
        for i in range(2)
    ]
    # Squares of numbers below 50 in float64; Captum expands the normalized one into such squares.
    assert got.tolist() == pytest.approx(expected, abs=1e-10)


@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 5))
def test_max_sensitivity_is_the_largest_relative_change_over_the_noise(seed, channels, draws):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(2, channels, 2, 3, generator=generator, dtype=torch.float64)
    model = smooth_model(seed, channels, 6)
    got = max_sensitivity(gradient, model, images, TARGETS, radius=0.25, draws=draws, seed=seed)
    noise = torch.Generator().manual_seed(seed)
    drawn = [torch.rand(draws, *images.shape[1:], generator=noise) * 2 - 1 for _ in range(2)]
    expected = [
        oracles.max_sensitivity(
            lambda image, i=i: gradient(model, image[None], TARGETS[i : i + 1]).sum(1),
            images[i],
            [0.25 * each.double() for each in drawn[i]],
        )
        for i in range(2)
    ]
    # Gradients of 12 tanh units in float64, alone and in batches; ratios of their norms.
    assert got.tolist() == pytest.approx(expected, rel=1e-9)


def test_a_map_that_never_changes_scores_0_and_a_map_of_zeros_is_divided_by_1():
    images = torch.zeros(1, 3, 2, 2)
    settings = {"model": nn.Identity(), "images": images, "targets": TARGETS[:1], "radius": 2.0}
    assert max_sensitivity(lambda *call: torch.ones_like(call[1]), **settings) == 0
    # Three channels of 1 wherever there is noise: four pixels of 3, and their norm is 6.
    assert max_sensitivity(lambda *call: (call[1] != 0).float(), **settings) == 6


def test_neither_fewer_copies_at_a_time_nor_other_images_change_the_scores(monkeypatch):
    images = torch.rand(2, 1, 2, 3, generator=torch.Generator().manual_seed(0)).double()
    model = smooth_model(0, 1, 6)
    state = torch.random.get_rng_state()

    def scores(n):
        return (
            infidelity(model, images[:n], TARGETS[:n], images[:n], replacement=0, draws=7),
            max_sensitivity(gradient, model, images[:n], TARGETS[:n], radius=0.1, draws=7),
        )

    together = scores(2)
    assert torch.equal(torch.random.get_rng_state(), state)
    monkeypatch.setattr(robustness, "PIXELS_AT_ONCE", 12)
    for few, all_, alone in zip(scores(2), together, scores(1), strict=True):
        # The same float64 sums in batches of other sizes.
        torch.testing.assert_close(few, all_, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(alone, few[:1], rtol=1e-9, atol=1e-12)


def test_copies_of_an_image_come_a_few_at_a_time(monkeypatch):
    seen = []
    monkeypatch.setattr(robustness, "PIXELS_AT_ONCE", 12)

    def attribute(model, images, targets):
        seen.append(len(images))
        assert targets.tolist() == [1] * len(images)
        return images

    max_sensitivity(
        attribute, nn.Identity(), torch.ones(1, 3, 2, 2), TARGETS[:1], radius=1, draws=7
    )
    assert seen == [1, 3, 3, 1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int32])
def test_images_are_converted_to_the_type_of_the_model(dtype):
    images = torch.tensor([[[[1.0, 0.0, 2.0], [3.0, 1.0, 0.0]]]])
    for model in (smooth_model(0, 1, 6).float(), smooth_model(0, 1, 6)):
        settings = {"replacement": 1, "draws": 3}
        expected = infidelity(model, images, TARGETS[:1], images, **settings)
        got = infidelity(model, images.to(dtype), TARGETS[:1], images, **settings)
        assert torch.equal(got, expected)
        noisy = {"radius": 0.5, "draws": 3}
        expected = max_sensitivity(gradient, model, images, TARGETS[:1], **noisy)
        got = max_sensitivity(gradient, model, images.to(dtype), TARGETS[:1], **noisy)
        assert torch.equal(got, expected)
