"""Feature ablation is its definition, with and without forward passes, and Captum's shared out."""

import inspect

import pytest
import torch
from torch import nn

import attributionlab as al
import oracles_masking as oracles
from attributionlab import AttributionLabError, GuardWarning
from attributionlab.methods import ablation, coalitions, findings
from attributionlab.methods.ablation import feature_ablation, feature_ablation_true_baseline
from masking_cases import BASELINES, IMAGES, LABELS, TARGETS, Constant, Curved, value_of


def run(model=None, method=feature_ablation, **settings):
    settings = {"segmentation": LABELS, "highest": 255, "baselines": 1.0} | settings
    return method(model or Curved(), IMAGES, TARGETS, **settings)


@pytest.mark.parametrize("segmentation", ["pixels", LABELS])
def test_it_is_the_definition_in_loops(segmentation):
    got = run(segmentation=segmentation)
    labels = (torch.arange(15).reshape(3, 5) if segmentation == "pixels" else LABELS).tolist()
    assert got.shape == (2, 1, 3, 5)
    for k in range(2):
        effects = oracles.ablation_effects(
            value_of(TARGETS[k]), IMAGES[k].tolist(), BASELINES[k].tolist(), labels
        )
        assert got[k, 0].tolist() == torch.tensor(oracles.spread(labels, effects)).tolist()


def test_captum_gives_every_pixel_the_whole_effect():
    from captum.attr import FeatureAblation

    theirs = FeatureAblation(Curved()).attribute(
        IMAGES, BASELINES, target=TARGETS, feature_mask=LABELS.expand(1, 3, 3, 5)
    )
    sizes = LABELS.unique(return_counts=True)[1][LABELS]
    # A share of an integer, times the size: rounded once.
    torch.testing.assert_close(run() * sizes, theirs[:, :1], rtol=2**-22, atol=0)


def test_pixels_of_the_laboratory_need_no_forward_passes_and_have_the_same_effects(monkeypatch):
    env = al.load("multi-color-sum", image_size=8)
    images, labels = env.batch(2)
    settings = {"baseline": env.baseline, "highest": env.max_value}
    followed = feature_ablation_true_baseline(env.softmax_model, images, labels, **settings)
    calls = []
    handle = env.softmax_model.register_forward_hook(lambda *given: calls.append(given))
    by_passes = feature_ablation_true_baseline(env.softmax_model, images, labels, **settings)
    handle.remove()
    assert torch.equal(followed, by_passes)  # a hook is enough to keep it from being followed
    assert len(calls) == 2  # one to measure the memory, one for all
    monkeypatch.setattr(ablation, "coalition_outputs", None)
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
    run(model)
    assert model.seen[1:] == [(4 + 1) + (5 + 1)]  # behind the one that measures the memory
    model = Curved()
    run(model, perturbations_per_eval=4)
    assert model.seen == [4, 4, 3]


def test_the_true_baseline_stands_for_what_is_removed():
    pixel = torch.tensor([1.0, 2.0, 3.0]).reshape(3, 1, 1)
    got = feature_ablation_true_baseline(
        Curved(), IMAGES, TARGETS, baseline=pixel, highest=255, segmentation=LABELS
    )
    assert torch.equal(got, run(baselines=(1, 2, 3)))
    assert not torch.equal(got, run())


def test_float64_stays_and_no_gradient_is_recorded():
    network = nn.Sequential(nn.Flatten(), nn.Linear(45, 2)).double()
    got = feature_ablation(network, IMAGES.double(), TARGETS, highest=255)
    assert got.dtype == torch.float64
    assert not got.requires_grad


def test_settings_to_suggest_are_those_of_its_signature():
    parameters = inspect.signature(feature_ablation).parameters.values()
    own = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert {*coalitions.MASKING_SETTINGS, "highest", "patches"} == own


@pytest.mark.parametrize("wobble", [0, 1])
def test_it_says_when_nothing_moves_the_output(wobble):
    with pytest.warns(GuardWarning, match="of 2 images are zero because no perturbation changes"):
        got = run(Constant(0.1, wobble))
    assert not got.any()


def test_an_image_that_is_its_baseline_has_a_map_of_zeros():
    with pytest.warns(GuardWarning, match="of 2 images are zero because no perturbation"):
        assert not run(baselines=IMAGES).any()


def test_it_tells_its_superpixels_and_no_pixels():
    with findings.collect_notices() as told:
        run()
        run(segmentation="pixels")
    assert [finding.images for finding in told] == [0] * 4
    assert [finding.kind for finding in told] == ["segments", "zeros"] * 2
    assert torch.equal(told[0].regions, LABELS.expand(2, 3, 5))
    assert told[2].regions is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"highest": 0}, "feature-ablation: highest is 0: take a number above 0"),
        ({"perturbations_per_eval": 0}, "perturbations_per_eval is 0: take an integer of at least"),
        ({"segmentation": "pixel"}, "did you mean 'pixels'?"),
        ({"segmentation": "grid", "baseline": 3}, "'baseline': did you mean 'baselines'?"),
        ({"cells": 3}, "segmentation takes none"),
        ({"baselines": (1, 2)}, "baselines have shape"),
    ],
)
def test_bad_settings_are_refused(settings, message, without_shape_checks):
    with pytest.raises(AttributionLabError, match=message):
        run(**settings)
