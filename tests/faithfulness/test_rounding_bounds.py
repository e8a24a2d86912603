"""Bounds on what rounding does to maps, by method."""

import pytest
import torch

import attributionlab as al
from attributionlab.exact import path_integral
from attributionlab.exact.rounding import gradient_rounding
from attributionlab.faithfulness.calls import always_offered, attribute_scene
from attributionlab.faithfulness.rounding_bounds import maps_with_bound
from attributionlab.faithfulness.setup import Trial
from attributionlab.methods import METHODS, as_method, collect_notices


@pytest.fixture(scope="module")
def trial():
    env = al.load("multi-color-sum", image_size=16)
    return Trial(env, "probability", "probability", "signed", 0.5, 2, 0)


def bound(name, trial, **settings):
    method = as_method(name, METHODS, settings)
    [scene] = trial.scenes("", False)
    always = always_offered(method, trial)
    with collect_notices():  # what guards say of the maps
        maps, found = maps_with_bound(method, trial, scene, always)
        own = attribute_scene(method, trial, scene, always).maps
    assert torch.equal(maps, own)
    return found, scene


def test_channels_of_a_bound_add_up_and_the_input_multiplies(trial):
    plain, scene = bound("saliency", trial)
    times_input, _ = bound("input-x-gradient", trial)
    each = gradient_rounding(trial.env.softmax_model, scene.images, scene.targets)
    assert torch.equal(plain, each.sum(1).flatten(1).norm(dim=1))
    weighted = (each * scene.images).sum(1).flatten(1).norm(dim=1)
    assert torch.equal(times_input, weighted)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("integrated-gradients-exact", {"baselines": 20.0}),
        ("integrated-gradients-exact", {"max_panels": 3}),
        ("integrated-gradients-exact", {}),
        ("integrated-gradients-exact-true-baseline", {}),
    ],
)
def test_an_exact_integral_has_the_error_that_it_states(trial, name, settings):
    found, scene = bound(name, trial, **settings)
    start = trial.env.baseline if name.endswith("true-baseline") else settings.get("baselines", 0.0)
    start = torch.as_tensor(start).reshape(-1, 1, 1)
    limits = {"max_panels": settings.get("max_panels", 10_000)}
    model = trial.env.softmax_model
    result = path_integral(model, scene.images, start, scene.targets, **limits)
    # Three channels add up; float32 rounds what is returned by 2^-24 of it.
    expected = (result.error + 2.0**-24 * result.attributions.flatten(1).norm(dim=1)) * 3**0.5
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ["guided-backprop", "integrated-gradients", "gradcam", "lime"])
def test_for_other_methods_there_is_none(trial, name):
    assert bound(name, trial)[0] is None
