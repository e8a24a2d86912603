"""GradientSHAP is the mean of its formula over the samples that are drawn, as Captum's is."""

import numpy as np
import pytest
import torch
from torch import nn

import oracles_paths
from attributionlab.methods import (
    collect_notices,
    gradient_shap,
    smoothgrad,
    summarized,
)
from random_chains import seeded, tanh_network

IMAGES = torch.linspace(0, 2, 60).reshape(3, 2, 2, 5).double()
TARGETS = torch.tensor([0, 1, 1])
STARTS = torch.linspace(2, 0, 80).reshape(4, 2, 2, 5).double() ** 2


def run(images=IMAGES, targets=TARGETS, model=None, **changes):
    settings = {"generator": seeded(), "highest": 2.0, "baselines": STARTS, "n_samples": 6}
    with collect_notices():
        return gradient_shap(model or tanh_network(20), images, targets, **settings | changes)


def draws(noise, generator, starts=STARTS):
    """What one image's samples are made of."""
    which = torch.randint(len(starts), (6,), generator=generator)
    moved = torch.zeros(6, 2, 2, 5)
    if noise:
        moved = noise * 2.0 * torch.randn(6, 2, 2, 5, generator=generator)
    return which, moved.double(), torch.rand(6, 1, 1, 1, generator=generator).double()


@pytest.mark.parametrize("noise", [0.0, 0.25])
@pytest.mark.parametrize("starts", [STARTS, STARTS[:1]])
def test_each_map_is_the_mean_of_the_formula_over_the_samples(noise, starts):
    generator = seeded()
    expected = [
        oracles_paths.gradient_shap(
            tanh_network(20), image, starts, int(target), *draws(noise, generator, starts)
        )
        for image, target in zip(IMAGES, TARGETS, strict=True)
    ]
    found = run(noise=noise, baselines=starts)
    # Sums of six values below 10 in another order.
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "baselines", [0.5, (0.5, 0.5), torch.full((2, 1, 1), 0.5), np.full((3, 2, 1, 1), 0.5)]
)
def test_a_baseline_in_any_form_holds_for_all_images(baselines):
    # Which of three equal baselines is drawn does not matter, but that it is.
    distribution = torch.full((len(baselines) if np.ndim(baselines) == 4 else 1, 2, 2, 5), 0.5)
    assert torch.equal(run(baselines=baselines), run(baselines=distribution))


def test_an_ensemble_hands_on_a_distribution_as_it_is():
    """As many baselines as images are no baseline for each of them."""
    ensemble, starts = smoothgrad(gradient_shap), STARTS[:3]
    settings = {"highest": 2.0, "noise": 0.1, "n_samples": 2}
    with collect_notices():
        found = ensemble(
            tanh_network(20), IMAGES, TARGETS, baselines=starts, generator=seeded(), **settings
        )
        generator, expected = seeded(), []
        for image, target in zip(IMAGES, TARGETS, strict=True):
            noisy = image + 0.2 * torch.randn(2, 2, 2, 5, generator=generator).double()
            maps = gradient_shap(
                tanh_network(20),
                *(noisy, target.expand(2)),
                baselines=starts,
                generator=generator,
                highest=2.0,
            )
            expected.append(maps.mean(0))
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-13)


# What is told


def test_a_sum_is_held_against_the_output_less_the_mean_over_the_baselines():
    with collect_notices() as findings:
        maps = gradient_shap(
            tanh_network(20), IMAGES, TARGETS, baselines=STARTS, generator=seeded(), highest=2.0
        )
    (gaps,) = [finding.gaps for finding in findings if len(finding.gaps)]
    with torch.no_grad():
        outputs = tanh_network(20)(IMAGES).gather(1, TARGETS[:, None])[:, 0]
        before = tanh_network(20)(STARTS).mean(0)[TARGETS]
    change = outputs - before
    expected = (maps.sum((1, 2, 3)) - change).abs() / change.abs()
    found = torch.tensor(list(gaps), dtype=torch.float64)
    # Sums of twenty values of float64.
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)


def test_steps_that_few_samples_meet_are_told_as_noise():
    class Step(nn.Module):
        """1 from a sum of 0.99 x 20 to 20, and 0 before: one sample of a hundred sees a slope."""

        def forward(self, inputs):
            return ((inputs.flatten(1).mean(1, keepdim=True) - 0.99) * 100).clamp(min=0)

    image, target = torch.ones(1, 1, 4, 5), torch.zeros(1, dtype=torch.int64)
    with collect_notices() as findings:
        maps = gradient_shap(Step(), image, target, generator=seeded(6), highest=1.0, n_samples=60)
    said = summarized(findings)
    # One sample saw it: its variance over 60 is then the square of the mean.
    assert maps.flatten().tolist() == pytest.approx([100 / 20 / 60] * 20)
    assert (
        "attributions of 1 image are mostly sampling noise, by the scatter of the samples "
        "(about 100% of a map's sum of squares): take a larger n_samples"
    ) in said
    assert [each for each in said if "do not sum" in each and "larger n_samples" in each]
    with collect_notices() as findings:
        gradient_shap(Step(), image, target, generator=seeded(6), highest=1.0, n_samples=2000)
    assert not [each for each in summarized(findings) if "mostly sampling noise" in each]
