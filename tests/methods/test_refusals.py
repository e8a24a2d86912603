"""What built-in methods refuse of their settings: what is wrong, the value, the remedy."""

import inspect
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from attributionlab import methods
from attributionlab.methods import METHODS, as_baselines, maps_of_samples
from oracles_attention import Transformer
from refusals import refused

MASKS = torch.rand(1, 1, 6, 6, generator=torch.Generator().manual_seed(0))
TARGET = torch.tensor([0])
NET = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2)).eval()
AT_LEAST_1, SOME_ROUNDS = "an integer of at least 1", "an integer from 1 to 10000000"
POSITIVE, NOT_NEGATIVE = "a number above 0", "a number of at least 0"

WRONG = {
    "abs": (None, "True or False"),
    "alpha": (-1.0, NOT_NEGATIVE),
    "area": (1.5, "a number above 0 and of at most 1"),
    "area_weight": (-1.0, NOT_NEGATIVE),
    "attribution": ("masks", "'mask' or 'information'"),
    "batch": (1, "an integer of at least 2"),
    "beta": (-1.0, NOT_NEGATIVE),
    "blur_sigma": (0.0, POSITIVE),
    "cells": (1, "an integer of at least 2"),
    "clip": (0.0, POSITIVE),
    "contrastive": ("false", "True or False"),
    "copies": (0, AT_LEAST_1),
    "eps": (0.0, POSITIVE),
    "epochs": (0, SOME_ROUNDS),
    "epsilon": (0.0, POSITIVE),
    "feature_beta": (-1.0, NOT_NEGATIVE),
    "feature_steps": (0, SOME_ROUNDS),
    "gamma": (-0.1, NOT_NEGATIVE),
    "highest": (0, POSITIVE),
    "internal_batch_size": (0, AT_LEAST_1),
    "iterations": (0, SOME_ROUNDS),
    "kernel_width": (0, POSITIVE),
    "layout": ("last", "'channels-first' or 'channels-last'"),
    "learning_rate": (0, POSITIVE),
    "max_evaluations": (14, "an integer of at least 15"),
    "max_panels": (0, AT_LEAST_1),
    "method": ("gauss", "one of 'gausslegendre', 'riemann_left', 'riemann_right', "),
    "n_baselines": (0, AT_LEAST_1),
    "n_samples": (0, AT_LEAST_1),
    "n_steps": (0, SOME_ROUNDS),
    "noise": (-0.1, NOT_NEGATIVE),
    "normalized": (1, "True or False"),
    "nudge": (-1, "an integer from 0 to 4194304"),
    "output_weight": (-1.0, NOT_NEGATIVE),
    "perturbations_per_eval": (0, AT_LEAST_1),
    "prefix": (-1, "an integer of at least 0"),
    "probability": (1, "a number above 0 and below 1"),
    "regression": ("rigde", "'ridge' or 'lasso'"),
    "relu": ("no", "True or False"),
    "residual": (1.0, "a number of at least 0 and below 1"),
    "rule": ("zplus", "one of 'epsilon', 'gamma', 'alpha-beta'"),
    "samples": (1, "an integer of at least 2"),
    "sigma": (0.0, POSITIVE),
    "step": (0, "an integer from 1 to 8192"),
    "steps": (0, SOME_ROUNDS),
    "stride": (0, AT_LEAST_1),
    "window": (0, AT_LEAST_1),
}
"""A value of each setting that is out of range, and what to take."""
OTHERS = {("n_samples", name): (1, "an integer of at least 2") for name in ("rise", "rise-uniform")}
OTHERS |= {("n_samples", "kernel-shap"): (1, "an integer from 2 to 10000000")}
OTHERS |= {("n_samples", "shapley-value-sampling"): (0, SOME_ROUNDS)}
OTHERS |= {("sigma", name): (-1, NOT_NEGATIVE) for name in ("iba", "input-iba")}
OTHERS |= {("alpha", "lrp"): (0.5, "a number of at least 1")}
"""Where a method's range is another one."""
SAID_ELSEWHERE = {"layer", "layers", "baseline", "baselines", "segmentation", "patches"} | {
    *("segmentation_settings", "reference_images", "model", "inputs", "targets", "show_progress")
}


@pytest.mark.parametrize("name", METHODS)
def test_each_setting_has_a_range_and_all_that_is_wrong_is_said_at_once(name):
    method = METHODS[name]
    base = name.removesuffix("-true-baseline").removesuffix("-absolute")
    taken = inspect.signature(method).parameters.keys() - SAID_ELSEWHERE
    wrong = {key: OTHERS.get((key, base), WRONG.get(key)) for key in taken}
    said = {key: f"{key} is {each[0]!r}: take {each[1]}" for key, each in wrong.items() if each}
    values = {key: each[0] for key, each in wrong.items() if each}
    if "generator" in wrong:
        said["generator"] = "generator is of type int: pass a torch.Generator"
    if "grid" in wrong:
        said["grid"] = "grid[0] is 0: take an integer of at least 1"
    assert said.keys() == taken
    values |= {"generator": 0, "grid": (0, 2)} if "grid" in wrong else {"generator": 0}
    values = {key: values[key] for key in taken} | {"show_progress": 1}
    offered = {"baseline": torch.zeros(1), "reference_images": MASKS} if taken else {}
    values |= {key: offered[key] for key in offered if key in inspect.signature(method).parameters}
    for part in (f"{base}: ", *said.values(), "show_progress is 1: take True or False"):
        refused(partial(method, NET, MASKS, TARGET), {}, values, part)


IBA = {"reference_images": torch.rand(9, 1, 6, 6), "generator": torch.Generator(), "layer": "0"}
RANDOM = {"generator": torch.Generator()}
GOOD = {
    "occlusion": {},
    "rise": {**RANDOM, "cells": 2},
    "lime": {**RANDOM, "highest": 1.0, "segmentation": "grid", "n_samples": 4, "cells": 2},
    "kernel-shap": {**RANDOM, "highest": 1.0, "segmentation": "grid", "cells": 2},
    "feature-ablation": {"highest": 1.0},
    "shapley-value-sampling": {**RANDOM, "highest": 1.0},
    "gradient-shap": {**RANDOM, "highest": 2.0},
    "saliency-smoothgrad": {**RANDOM, "highest": 2.0},
    "integrated-gradients": {},
    "integrated-gradients-random": {**RANDOM, "reference_images": IBA["reference_images"]},
    "integrated-gradients-uniform": {**RANDOM, "highest": 1.0},
    "smooth-gradcam-plus-plus": {**RANDOM, "highest": 1.0, "layer": "0"},
    "deep-shap": {},
    "extremal-perturbation": {},
    "iba": IBA,
    "input-iba": {**IBA, "samples": 20},
}
ROWS = [
    ("extremal-perturbation", {"sigma": 0.5, "step": 3}, "step is 3 and sigma 0.5: some pixels"),
    ("occlusion", {"window": 7}, "window is 7: take at most 6, the side of the image"),
    ("occlusion", {"window": 2, "stride": 3}, "stride is 3: take at most 2"),
    ("occlusion", {"baselines": (1.0, 2.0)}, "baselines have shape (2,)"),
    ("occlusion", {"window": math.nan}, "occlusion: window is nan: take an integer of at least 1"),
    ("rise", {"cells": 7}, "rise: cells is 7: take an integer from 2 to 6"),
    ("rise", {"probability": 0}, "probability is 0: take a number above 0 and below 1"),
    ("feature-ablation", {"segmentation": "pixel"}, "did you mean 'pixels'?"),
    (
        "feature-ablation",
        {"segmentation": "grid", "baseline": 3},
        "'baseline': did you mean 'baselines'?",
    ),
    ("feature-ablation", {"cells": 3}, "'pixels' has no setting 'cells'"),
    ("kernel-shap", {"segmentation": "quickshif"}, "did you mean 'quickshift'?"),
    (
        "shapley-value-sampling",
        {"segmentation": "grid", "sample": 3},
        "'sample': did you mean 'n_samples'?",
    ),
    ("lime", {"n_samples": 10**12}, f"n_samples is {10**12}: what is drawn for one image does not"),
    *(
        (
            name,
            {setting: 10**15},
            f"{name}: {setting} is {10**15}: what is drawn for one image does",
        )
        for setting, names in (
            ("n_samples", ("gradient-shap", "rise", "smooth-gradcam-plus-plus")),
            ("n_baselines", ("integrated-gradients-random", "integrated-gradients-uniform")),
        )
        for name in names
    ),
    ("lime", {"cell": 3}, "no setting 'cell': did you mean 'cells'?"),
    ("lime", {"n_sample": 3}, "'n_sample': did you mean 'n_samples'?"),
    *(
        (
            name,
            {"noise": 1e38 * times},
            f"times the value range of 2 it is beyond {kind}; take less",
        )
        for name in ("gradient-shap", "saliency-smoothgrad")
        for times, kind in ((4.0, "float32"),)
    ),
    ("gradient-shap", {"baselines": torch.zeros(0, 1, 6, 6)}, "baselines are empty: pass at least"),
    ("deep-shap", {"baselines": torch.zeros(0, 1, 6, 6)}, "baselines are empty: pass at least one"),
    ("gradient-shap", {"baselines": "black"}, "baselines are 'black'"),
    (
        "integrated-gradients",
        {"n_steps": 1, "method": "riemann_left"},
        "integrated-gradients: n_steps is 1: take an integer of at least 2",
    ),
    ("integrated-gradients-random", {"reference_images": MASKS[:0]}, "n at least 1"),
    *(
        (name, {"reference_images": wrong}, said)
        for name in ("iba", "input-iba")
        for wrong, said in (
            (None, "no value for 'reference_images'"),
            (np.zeros((9, 1, 6, 6)), "reference_images are of type ndarray: pass"),
            (torch.zeros(9, 1, 6, 6).byte(), "are torch.uint8 of ... floating-point"),
            (torch.zeros(9, 3, 6, 6), "of shape (n, 1, 6, 6), n at least 2"),
            (MASKS, "n at least 2"),
            (torch.zeros(()), "of shape (): pass"),
            (torch.full((9, 1, 6, 6), math.nan), "hold NaN or infinity: pass finite ones"),
        )
    ),
    ("iba", {"sigma": 3}, "maps are 4 x 4, too small for sigma 3"),
    (
        "input-iba",
        {"sigma": 2},
        "the layer's maps are 4 x 4, too small for sigma 2: take a smaller",
    ),
    ("input-iba", {"sigma": 3}, "images are 6 x 6, too small for sigma 3: take a smaller sigma"),
    ("input-iba", {"batch": 21}, "batch is 21: take an integer from 2 to 20"),
    ("input-iba", {"reference_images": torch.ones(3, 1, 6, 6)}, "one color ... pass images that"),
]


@pytest.mark.parametrize(("name", "wrong", "said"), ROWS)
@pytest.mark.usefixtures("without_shape_checks")
def test_what_does_not_go_together_is_refused(name, wrong, said):
    refused(partial(METHODS[name], NET, MASKS, TARGET), GOOD[name], wrong, said)


POOLED = nn.Sequential(*NET[:2], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 2)).eval()
LAYERED = {
    name: method
    for name, method in METHODS.items()
    if "layer" in inspect.signature(method).parameters
    and not name.endswith(("-true-baseline", "-absolute"))
}


@pytest.mark.parametrize("name", LAYERED)
@pytest.mark.usefixtures("without_shape_checks")
def test_a_layer_without_places_is_refused(name):
    takes = inspect.signature(LAYERED[name]).parameters
    good = {"highest": 1.0, "sigma": 0, **IBA}
    good = {key: value for key, value in good.items() if key in takes}
    rows = [
        ({"layer": "9"}, "layer is '9', which does not name a module"),
        ({"layer": "3"}, "the layer returns shape (1, 2): name one that returns maps"),
        ({"layer": "2"}, f"{WHO.get(name, name)}: the layer's maps ... a single cell, ... name a"),
    ]
    if "layers" in takes and name != "excitation-backprop":
        rows.append(({"layer": None, "layers": {}}, "the model has no layer "))
    for wrong, said in rows:
        refused(partial(LAYERED[name], POOLED, MASKS, TARGET), good, wrong, said)


WHO = {"guided-gradcam": "gradcam"}
"""Who speaks for a method that is made of another one."""
TOKENS = ("blocks.1.first", "embedding")


@pytest.mark.parametrize(
    ("layer", "wrong", "said"),
    [
        (TOKENS[0], {"grid": (3, 3)}, "grid is (3, 3)"),
        (TOKENS[0], {"grid": "2x3"}, "grid is '2x3'"),
        (TOKENS[0], {"prefix": -1}, "prefix is -1"),
        (TOKENS[0], {"layout": "tokens"}, "layout is 'tokens'"),
        (TOKENS[0], {"layout": "channels-last"}, "shape (1, 7, 6)"),
        (TOKENS[0], {"layout": lambda seen: seen.sum(2)}, "turns shape (2, 7, 6) into (2, 7)"),
        (TOKENS[1], {"grid": (2, 3)}, "grid is (2, 3), but the layer returns maps ... leave it"),
        (TOKENS[1], {"prefix": 0}, "prefix is 0, but the layer returns maps"),
    ],
)
def test_tokens_that_do_not_fit_are_refused(layer, wrong, said):
    images = torch.rand(2, 3, 4, 6).double()
    call = partial(methods.gradcam, Transformer(), images, torch.tensor([2, 0]), layer=layer)
    refused(call, {}, wrong, said)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: methods.absolute(5), "whose parameters are not known"),
        (lambda: methods.smoothgrad(5), "the method is of type int, whose parameters"),
        *(
            (
                partial(methods.absolute(lambda *_, maps=maps: maps), NET, MASKS, TARGET),
                "absolute values of ... : maps are ",
            )
            for maps in (torch.zeros(1, 6, 6), None, torch.zeros(0, 1, 6, 6))
        ),
        (
            partial(methods.lrp, nn.Sequential(NET, nn.Softmax(1)).eval(), MASKS, TARGET),
            "softmax: pass explain='logit'",
        ),
        (partial(methods.lrp, nn.Sequential(NET, nn.Tanh()), MASKS, TARGET), "no rule for Tanh"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_what_no_method_can_be_made_of_or_explain_is_refused(call, said):
    refused(call, {}, {}, said)


@pytest.mark.parametrize(
    ("baselines", "said"),
    [
        ((1, 2), "shape (2,): pass a number, 3 numbers"),
        (torch.zeros(3, 5, 4), "shape (3, 5, 4)"),
        (torch.zeros(1, 2, 3, 4, 5), "shape (1, 2, 3, 4, 5)"),
        (torch.zeros(3, 3, 4, 5), "shape (3, 3, 4, 5)"),
        ((), "shape (0,)"),
        ("black", "'black': pass a number"),
        (None, "None: pass a number"),
        (math.nan, "NaN or infinity"),
        ((0, 0, math.inf), "NaN or infinity"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_what_is_no_baseline_is_refused(baselines, said):
    refused(
        partial(as_baselines, inputs=torch.zeros(2, 3, 4, 5)), {"baselines": baselines}, {}, said
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"generator": None}, "generator is of type NoneType: pass a torch.Generator"),
        ({"inputs": MASKS.int()}, "inputs are torch.int32: pass floating-point numbers"),
        ({"n_samples": 0}, "n_samples is 0: take an integer of at least 1"),
        ({"noise": 4e38}, "times the value range of 2 it is beyond float32; take less"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_an_ensemble_refuses_at_once_before_a_map_is_taken(wrong, said):
    def of_samples(inputs, targets, **settings):
        return maps_of_samples(methods.saliency, NET, inputs, targets, **settings)

    good = {"inputs": MASKS, "targets": TARGET, "highest": 2.0, "generator": torch.Generator()}
    refused(of_samples, good, wrong, said)
