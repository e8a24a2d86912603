"""A method that optimizes says so, and its runs differ."""

import ast
import importlib
import pkgutil
import sys

import pytest
import torch

import attributionlab as al
from attributionlab import methods
from attributionlab.methods import METHODS, as_method, extremal_perturbation


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
