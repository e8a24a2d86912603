"""Occlusion and feature ablation agree with loops over windows and superpixels, and with Captum."""

import pytest
import torch
from captum.attr import Occlusion
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles_masking
import oracles_methods as oracles
from attributionlab.methods import (
    ablation,
    collect_notices,
    feature_ablation,
    feature_ablation_true_baseline,
    occlusion,
    occlusion_true_baseline,
)
from masking_cases import BASELINES, IMAGES, LABELS, TARGETS, Curved, value_of


def network(seed, channels, height, width):
    torch.manual_seed(seed)
    layers = nn.Flatten(), nn.Linear(channels * height * width, 4), nn.Tanh(), nn.Linear(4, 2)
    return nn.Sequential(*layers).double().eval()


@pytest.mark.long
@settings(max_examples=25)
@given(
    st.integers(0, 2**31),
    st.integers(1, 3),
    st.integers(4, 9),
    st.integers(4, 9),
    st.integers(1, 4),
    st.data(),
)
def test_occlusion_is_the_mean_over_the_windows_that_cover_a_pixel(
    seed, channels, height, width, window, data
):
    stride = data.draw(st.integers(1, window))
    model = network(seed, channels, height, width)
    inputs = torch.randn(2, channels, height, width).double()
    baselines = torch.randn(2, channels, height, width).double()
    targets = torch.tensor([1, 0])
    got = occlusion(model, inputs, targets, baselines=baselines, window=window, stride=stride)
    assert got.shape == (2, 1, height, width)
    for i, target in enumerate(targets):
        expected = oracles.occlusion(model, inputs[i], baselines[i], target, window, stride)
        # The oracle's map is float32; values are of order 1.
        torch.testing.assert_close(got[i, 0].float(), expected, rtol=0, atol=1e-6)


def test_the_last_window_is_cut_off_at_the_border():
    # f is the sum of a row of 4; windows of 3 by 3 start at column 0 and 2, the latter covers 2 and 3.
    layer = nn.Linear(12, 1, bias=False)
    layer.weight.data = torch.ones(1, 12)
    image = torch.tensor([1.0, 2.0, 4.0, 8.0]).expand(1, 1, 3, 4)
    model = nn.Sequential(nn.Flatten(), layer)
    got = occlusion(model, image, torch.tensor([0]), window=3, stride=2)
    # The first hides 3 (1 + 2 + 4), the second 3 (4 + 8); column 2 sees their mean.
    assert got[0, 0, 0].tolist() == [21.0, 21.0, 28.5, 36.0]


@pytest.mark.long
@given(st.integers(1, 4), st.integers(4, 9), st.integers(4, 9))
def test_windows_that_do_not_overlap_are_told_as_regions_and_others_are_not(window, height, width):
    model, inputs = network(0, 1, height, width), torch.randn(2, 1, height, width).double()
    for stride in range(1, window + 1):
        with collect_notices() as told:
            maps = occlusion(model, inputs, torch.tensor([1, 0]), window=window, stride=stride)
        if stride < window:
            assert not told
            continue
        [finding] = told
        assert (finding.images, finding.regions.shape) == (0, (2, height, width))
        expected = [[[j // window, k // window] for k in range(width)] for j in range(height)]
        places = torch.tensor(expected).reshape(-1, 2).unique(dim=0, return_inverse=True)[1]
        assert torch.equal(finding.regions[0].flatten(), places)
        for label in finding.regions.unique():
            for k in range(2):
                assert len(maps[k, 0][finding.regions[k] == label].unique()) == 1


@pytest.mark.parametrize("output", ["logit", "probability"])
def test_occlusion_equals_captums_at_the_papers_settings(output):
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(2)
    model = env.explained_model(output)
    got = occlusion(model, images, labels)
    expected = Occlusion(model).attribute(
        images, (3, 5, 5), strides=(3, 3, 3), baselines=0, target=labels, perturbations_per_eval=16
    )
    # Probabilities of batches of another size differ by a few units of 2^-24; logits are exact.
    torch.testing.assert_close(got.expand_as(expected), expected, rtol=0, atol=1e-6)
    if output == "logit":
        assert torch.equal(occlusion(model, images[:1], labels[:1]), got[:1])


def test_windows_that_change_nothing_are_not_evaluated():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(1)
    seen = []
    handle = env.model.register_forward_hook(lambda _, given, __: seen.append(len(given[0])))
    with collect_notices():  # and without what every direct call is told
        maps = occlusion_true_baseline(env.model, images, labels, baseline=env.baseline)
    handle.remove()
    filled = (images != env.baseline).any(1)[0]
    changing = sum(
        bool(filled[y : y + 5, x : x + 5].any()) for y in range(0, 22, 3) for x in range(0, 22, 3)
    )
    assert 0 < changing < 64
    assert sum(seen) == 1 + 1 + changing  # one to measure its memory, one for f(x)
    expected = oracles.occlusion(
        env.model, images[0], env.baseline.expand(3, 24, 24), int(labels[0]), 5, 3
    )
    assert torch.equal(maps[0, 0], expected.float())  # counts over up to 4 windows are exact


def run(model=None, method=feature_ablation, **settings):
    settings = {"segmentation": LABELS, "highest": 255, "baselines": 1.0} | settings
    return method(model or Curved(), IMAGES, TARGETS, **settings)


@pytest.mark.parametrize("segmentation", ["pixels", LABELS])
def test_it_is_the_definition_in_loops(segmentation):
    got = run(segmentation=segmentation)
    labels = (torch.arange(15).reshape(3, 5) if segmentation == "pixels" else LABELS).tolist()
    assert got.shape == (2, 1, 3, 5)
    for k in range(2):
        effects = oracles_masking.ablation_effects(
            value_of(TARGETS[k]), IMAGES[k].tolist(), BASELINES[k].tolist(), labels
        )
        assert got[k, 0].tolist() == torch.tensor(oracles_masking.spread(labels, effects)).tolist()


def test_pixels_of_the_laboratory_need_no_forward_passes_and_have_the_same_effects(monkeypatch):
    env = al.load("multi-color-sum", image_size=8)
    images, labels = env.batch(2)
    settings = {"baseline": env.baseline, "highest": env.max_value}
    followed = feature_ablation_true_baseline(env.softmax_model, images, labels, **settings)
    calls = []
    handle = env.softmax_model.register_forward_hook(lambda *given: calls.append(given))
    with collect_notices():  # no passes that show whether images change each other
        by_passes = feature_ablation_true_baseline(env.softmax_model, images, labels, **settings)
    handle.remove()
    assert torch.equal(followed, by_passes)  # a hook is enough to keep it from being followed
    assert len(calls) == 2  # one to measure the memory, one for all
    monkeypatch.setattr(ablation.coalitions, "coalition_outputs", None)
    again = feature_ablation_true_baseline(env.softmax_model, images, labels, **settings)
    assert torch.equal(again, followed)


def test_it_finds_the_ablation_truth():
    env = al.load("multi-color-sum", image_size=8)
    images, labels = env.batch(2)
    maps = feature_ablation_true_baseline(
        env.softmax_model, images, labels, baseline=env.baseline, highest=env.max_value
    )
    truth = env.truths(images, labels, "probability")["ablation"].values
    # Of the difference of two probabilities below 1 in float32, each off by some last places.
    torch.testing.assert_close(maps.double(), truth, rtol=0, atol=2.0**-21)


def test_superpixels_that_change_nothing_cost_no_pass_and_passes_are_full():
    model = Curved()
    with collect_notices():  # without the passes of the guards of a direct call
        run(model)
    assert model.seen[1:] == [(4 + 1) + (5 + 1)]  # behind the one that measures the memory
    model = Curved()
    with collect_notices():
        run(model, perturbations_per_eval=4)
    assert model.seen == [4, 4, 3]
