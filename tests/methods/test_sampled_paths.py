"""Integrated gradients over several starts are means of the formula, from the draws that are stated."""

import pytest
import torch
from torch import nn

import attributionlab as al
import oracles_paths
from attributionlab import methods
from attributionlab.methods import collect_notices, summarized
from random_chains import seeded, tanh_network

IMAGES = torch.linspace(0, 2, 60).reshape(3, 2, 2, 5).double()
TARGETS = torch.tensor([0, 1, 1])
OTHERS = torch.linspace(2, 0, 80).reshape(4, 2, 2, 5).double() ** 2
each = pytest.mark.parametrize("name", ["uniform", "random", "blurred"])


def given(name, generator=None, **changes):
    """The method and its settings."""
    settings = {
        "uniform": {"highest": 2.0, "generator": generator or seeded(), "n_baselines": 3},
        "random": {
            "reference_images": OTHERS,
            "generator": generator or seeded(),
            "n_baselines": 3,
        },
        "blurred": {"sigma": 0.7},
    }[name]
    return getattr(methods, f"integrated_gradients_{name}"), settings | {"n_steps": 4} | changes


def run(name, images=IMAGES, targets=TARGETS, model=None, **changes):
    method, settings = given(name, **changes)
    with collect_notices():
        return method(model or tanh_network(20), images, targets, **settings)


def starts(name):
    """What each image is compared with, drawn image after image."""
    generator = seeded()
    for image in IMAGES:
        if name == "uniform":
            yield 2.0 * torch.rand(3, 2, 2, 5, generator=generator).double()
        elif name == "random":
            yield OTHERS[torch.randperm(4, generator=generator)[:3]]
        else:
            yield oracles_paths.blurred(image, 0.7)[None]


@each
def test_each_map_is_the_mean_of_the_formula_over_the_starts(name):
    expected = [
        oracles_paths.averaged(tanh_network(20), image, drawn, int(target), 4)
        for image, drawn, target in zip(IMAGES, starts(name), TARGETS, strict=True)
    ]
    # Captum rounds the weights of its nodes to float32: 2^-24 of attributions below 4.
    torch.testing.assert_close(run(name), torch.stack(expected), rtol=0, atol=4 * 2.0**-24)


def test_uniform_baselines_fill_the_value_range():
    seen = []

    class Watching(nn.Module):
        def forward(self, inputs):
            seen.append(inputs.detach())
            return inputs.flatten(1)[:, :2]

    run("uniform", IMAGES[:1], TARGETS[:1], Watching(), highest=255.0, n_baselines=50)
    # A node's points, the images, then the starts.
    drawn = seen[-1]
    assert drawn.shape == (50, 2, 2, 5)
    # 1,000 uniform values: each bound is missed with a chance of 0.97^1000 or (1/2)^... below 1e-13.
    assert 0 <= drawn.min() < 0.03 * 255
    assert 0.97 * 255 < drawn.max() <= 255


@pytest.mark.parametrize(("n_baselines", "times"), [(4, {1}), (8, {2}), (10, {2, 3})])
def test_other_images_are_drawn_without_replacement_while_there_are_enough(n_baselines, times):
    # f = sum of x in one output, from 4 images of one value: an attribution is x less their mean.
    values = torch.tensor([1.0, 10.0, 100.0, 1000.0]).double()
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 1)).double()
    nn.init.ones_(model[1].weight)
    found = run(
        *("random", torch.zeros(1, 1, 1, 1).double(), torch.tensor([0]), model),
        reference_images=values.reshape(4, 1, 1, 1),
        n_baselines=n_baselines,
    )
    total = round(-float(found) * n_baselines)
    assert {int(digit) for digit in str(total).zfill(4)} == times
    assert sum(int(digit) for digit in str(total)) == n_baselines


def test_the_blur_scales_with_the_shorter_side():
    images = torch.rand(1, 1, 28, 40, generator=seeded()).double()
    model = nn.Sequential(nn.Flatten(), nn.Linear(28 * 40, 1)).double()
    found = run("blurred", images, torch.tensor([0]), model, sigma=None)
    named = run("blurred", images, torch.tensor([0]), model, sigma=20 * 28 / 224)
    assert torch.equal(found, named)
    assert not torch.equal(found, run("blurred", images, torch.tensor([0]), model, sigma=5.0))


# What is told


@each
def test_a_sum_is_held_against_the_mean_over_the_starts(name):
    method, settings = given(name)
    with collect_notices() as findings:
        maps = method(tanh_network(20), IMAGES, TARGETS, **settings)
    (gaps,) = [finding.gaps for finding in findings if len(finding.gaps)]
    model = tanh_network(20)
    for image, attributions, drawn, target, gap in zip(
        IMAGES, maps, starts(name), TARGETS, gaps, strict=True
    ):
        with torch.no_grad():
            change = model(image[None])[0, target] - model(drawn)[:, target].mean()
        change = float(change)
        # The change is larger than 0.01, of outputs below 4 with 2^-24 of rounding (weights of nodes).
        assert gap == pytest.approx(abs(float(attributions.sum()) - change) / abs(change), abs=1e-4)


@pytest.mark.parametrize("name", ["uniform", "random"])
def test_a_mean_that_is_mostly_noise_of_few_starts_is_told(name):
    torch.manual_seed(0)
    # x itself is in the middle of the range of starts: each alone says something, their mean little.
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 2)).double()
    images = torch.ones(2, 2, 2, 5).double()
    others = 2 * torch.rand(40, 2, 2, 5, generator=seeded(3)).double()
    extra = {"reference_images": others} if name == "random" else {}
    method, settings = given(name, n_baselines=5, **extra)
    with collect_notices() as findings:
        method(model, images, TARGETS[:2], **settings)
    (said,) = summarized(findings)
    assert said.startswith("attributions of 2 images are mostly sampling noise")
    assert said.endswith("of a map's sum of squares): take a larger n_baselines")
    with collect_notices() as findings:
        method(model, 40 + images, TARGETS[:2], **settings)
    assert not summarized(findings)
    with collect_notices() as findings:
        method(model, images, TARGETS[:2], **settings | {"n_baselines": 1})
    (said,) = summarized(findings)
    assert said.startswith("attributions of 2 images have a sampling noise of unknown size")


def test_a_mean_over_all_other_images_has_no_noise_and_one_over_half_of_them_has():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 2)).double()
    others = 2 * torch.rand(6, 2, 2, 5, generator=seeded(3)).double()
    image = others.mean(0, keepdim=True) + 0.02  # the mean map is small, that of each start is not

    def run_on(n_baselines, seed):
        settings = {"reference_images": others, "n_baselines": n_baselines}
        settings["generator"] = seeded(seed)
        with collect_notices() as findings:
            maps = methods.integrated_gradients_random(model, image, TARGETS[:1], **settings)
        return maps, [each for each in summarized(findings) if "noise" in each]

    (first, said), (second, _) = run_on(6, 0), run_on(6, 1)
    torch.testing.assert_close(first, second, rtol=0, atol=1e-14)
    assert not said
    assert not run_on(12, 0)[1]
    assert run_on(3, 0)[1]


def test_colors_that_exist_only_at_the_end_of_the_path_are_missed_and_told():
    env = al.load("multi-color-sum", image_size=16)
    images, labels = env.batch(1)
    with collect_notices() as findings:
        methods.integrated_gradients_uniform(
            env.softmax_model, images, labels, highest=255.0, generator=seeded(), n_baselines=1
        )
    assert any("do not sum" in said and "n_steps" in said for said in summarized(findings))


# What is refused
