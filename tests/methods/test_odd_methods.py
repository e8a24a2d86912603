"""Every built-in method called with one argument that is odd: a map, or one line."""

import inspect

import pytest
import torch
from torch import nn

from attributionlab.methods import METHODS
from few_samples import OF_TRANSFORMERS, PatchTransformer, few
from odd_calls import NETWORKS, ODD, drawn, odd_calls, taken_or_refused

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("without_shape_checks")]

CALLS = 20
"""Of each method, drawn from all pairs of a parameter and an odd value."""
FOUND = {
    "extremal-perturbation": [
        ("step", "a small integer"),
        ("step", "beyond floats"),
        ("blur_sigma", "huge"),
        ("nudge", "beyond floats"),
    ],
    "integrated-gradients-blurred": [("sigma", "huge")],
    "integrated-gradients-random": [("reference_images", "with gradient")],
    "kernel-shap": [("n_samples", "beyond floats")],
}
"""Pairs of a method that once ended in an error of others: always asked."""


def network(name):
    if name in OF_TRANSFORMERS:
        return PatchTransformer(1, 2, 3).eval()
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)),
    ).eval()


def usual(name, takes):
    """Arguments in good order, and little work."""
    given = {
        "model": network(name),
        "inputs": drawn(2, 1, 4, 4),
        "targets": torch.tensor([0, 2]),
        "baseline": torch.zeros(1),
        "generator": torch.Generator(),
        "highest": 1.0,
        "reference_images": drawn(4, 1, 4, 4),
        "max_evaluations": 45,
        "cells": 2,
        "window": 3,
    }
    # Where there is no layer to name, as in a network without maps, none is.
    if name not in ("excitation-backprop", *OF_TRANSFORMERS):
        given["layer"] = "0"
    given |= few(name) | {"segmentation": "pixels"}
    return {key: value for key, value in given.items() if key in takes}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_an_odd_argument_is_taken_or_refused_in_one_line(name):
    takes = inspect.signature(METHODS[name]).parameters
    names = [key for key, each in takes.items() if each.kind is not each.VAR_KEYWORD]
    METHODS[name](**usual(name, takes))
    for key, odd in [*FOUND.get(name, ()), *odd_calls(name, names, CALLS)]:
        if (key, odd) == ("inputs", "a matrix"):  # features, which no convolution takes
            continue
        given = usual(name, takes) | {key: (ODD | NETWORKS)[odd]}
        taken_or_refused(METHODS[name], given, f"{key} is {odd}")
