"""Papers' settings of methods, and how often methods are run."""

import ast
import importlib
import inspect
import pkgutil
import sys

import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError, methods
from attributionlab.methods import (
    METHODS,
    PRESETS,
    Preset,
    as_method,
    extremal_perturbation,
    preset_of,
)

ENTRIES = [
    (task, method, preset)
    for task, methods in PRESETS["paper"].items()
    for method, preset in methods.items()
]


@pytest.mark.parametrize(("task", "method", "preset"), ENTRIES)
def test_every_preset_is_of_a_method_that_takes_it(task, method, preset):
    parameters = inspect.signature(METHODS[method]).parameters
    assert set(preset.settings) <= set(parameters)


def test_what_f2_and_g2_state():
    paper = PRESETS["paper"]
    for task in ("regression", "classification"):
        assert paper[task]["iba"].settings["beta"] == 20
        assert paper[task]["extremal-perturbation"].settings["area"] == 0.1
        assert paper[task]["occlusion"].settings["window"] == 5
        assert paper[task]["occlusion"].settings["stride"] == 3
        assert paper[task]["deep-shap"].settings["baselines"] == 0
    assert paper["classification"]["occlusion"].output == "logit"
    assert paper["classification"]["lime"].settings["segmentation"] == "quickshift"
    assert "lime" not in paper["regression"]


def test_what_is_made_of_a_method_is_set_up_like_it():
    def stated(method, task="classification"):
        return preset_of("paper", task, method)

    assert stated("occlusion-absolute") == stated("occlusion")
    assert stated("iba-absolute-vargrad") == stated("iba")
    samples = {"baselines": 0.0, "n_samples": 20, "noise": 0.124}
    assert stated("integrated-gradients-smoothgrad-absolute").settings == samples
    assert stated("integrated-gradients-absolute").settings == {"baselines": 0.0}
    assert stated("saliency-smoothgrad") == Preset()
    # What an ensemble, or the true baseline, calls by the same name is another setting.
    assert stated("integrated-gradients-smoothgrad-vargrad").settings == {"baselines": 0.0}
    smooth = stated("integrated-gradients-smoothgrad-true-baseline").settings
    assert smooth == {"n_samples": 20, "noise": 0.124}
    occluded = stated("occlusion-true-baseline-absolute", "regression").settings
    assert occluded == {"window": 5, "stride": 3}


def test_without_a_preset_and_where_it_is_silent_nothing_is_set():
    assert preset_of(None, "regression", "iba") == Preset()
    assert preset_of("paper", "regression", "saliency") == Preset()


def test_an_unknown_preset_is_refused_with_the_known_ones():
    with pytest.raises(AttributionLabError, match="preset is 'papr': did you mean 'paper'"):
        preset_of("papr", "regression", "iba")


def imported_by(module):
    """Names of all modules that a module imports from."""
    tree = ast.parse(importlib.import_module(module).__loader__.get_source(module))
    return {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_every_method_that_optimizes_is_run_more_than_once():
    names = [
        each.name for each in pkgutil.iter_modules(methods.__path__, "attributionlab.methods.")
    ]
    optimizers = {name for name in names if uses_torch_optim(name)}
    assert optimizers  # or this test would say nothing
    for name, method in METHODS.items():
        home = sys.modules[method.__module__].__name__
        optimizes = home in optimizers or bool(imported_by(home) & optimizers)
        assert (as_method(name, METHODS).runs > 1) == optimizes, name


def uses_torch_optim(module):
    return "torch.optim." in importlib.import_module(module).__loader__.get_source(module)


@pytest.mark.parametrize(
    "suffix", ["absolute", "smoothgrad", "vargrad", "absolute-smoothgrad-squared"]
)
def test_what_suffixes_make_of_it_is_run_as_often(suffix):
    assert as_method(f"iba-{suffix}", METHODS).runs == as_method("iba", METHODS).runs
    assert as_method(f"saliency-{suffix}", METHODS).runs == 1


@pytest.mark.long
def test_runs_of_extremal_perturbation_differ_in_rounding_alone():
    env = al.load("single-color-modulo", image_size=24)
    images, targets = env.batch(1, 0)
    zeros = torch.zeros_like(targets)

    def mask(**settings):
        return extremal_perturbation(env.model, images, zeros, iterations=5, **settings)

    rate = 0.01 * (1 + 3 * 2.0**-22)
    assert torch.equal(mask(nudge=0), mask())
    assert torch.equal(mask(nudge=3), mask(learning_rate=rate))
    assert not torch.equal(mask(nudge=3), mask())
    with pytest.raises(al.AttributionLabError, match="nudge is -1"):
        mask(nudge=-1)
