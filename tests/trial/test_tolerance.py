"""Bounds on what rounding does to maps, by method."""

import pytest
import torch

import attributionlab as al
from attributionlab.exact import path_integral
from attributionlab.exact.rounding import gradient_rounding
from attributionlab.methods import METHODS, as_method
from attributionlab.trial import Trial
from attributionlab.trial.tolerance import rounding_of


@pytest.fixture(scope="module")
def trial():
    env = al.load("multi-color-sum", image_size=16)
    return Trial(env, "probability", "probability", "signed", 0.5, 2, 0)


def bound(name, trial, **settings):
    [scene] = trial.scenes("", False)
    return rounding_of(as_method(name, METHODS, settings), trial, scene), scene


def test_channels_of_a_bound_add_up_and_the_input_multiplies(trial):
    plain, scene = bound("saliency", trial)
    times_input, _ = bound("input-x-gradient", trial)
    each = gradient_rounding(trial.env.softmax_model, scene.images, scene.targets)
    assert torch.equal(plain, each.sum(1).flatten(1).norm(dim=1))
    weighted = (each * scene.images).sum(1).flatten(1).norm(dim=1)
    assert torch.equal(times_input, weighted)


def test_an_exact_integral_has_the_error_that_it_states(trial):
    found, scene = bound("integrated-gradients-exact", trial, baselines=20.0)
    start = torch.full((1, 1, 1), 20.0)
    result = path_integral(trial.env.softmax_model, scene.images, start, scene.targets)
    # Three channels add up; float32 rounds what is returned by 2^-24 of it.
    expected = (result.error + 2.0**-24 * result.attributions.flatten(1).norm(dim=1)) * 3**0.5
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ["guided-backprop", "integrated-gradients", "gradcam", "lime"])
def test_for_other_methods_there_is_none(trial, name):
    assert bound(name, trial)[0] is None
