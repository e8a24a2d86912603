"""What `al` makes, and methods of what it makes, called with one argument that is odd: each returns, or
refuses it in one line. `test_odd_calls.py` does so for the functions of its modules.
"""

import numpy as np
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.base import segmentation
from attributionlab.worlds import images, nets
from odd_calls import NETWORKS, ODD, drawn, odd_calls, parameters, taken_or_refused

pytestmark = [
    pytest.mark.usefixtures("without_shape_checks"),
    pytest.mark.filterwarnings("ignore"),
]

FEW, CALLS = 4, 40
"""Of each function, drawn from all pairs of a parameter and an odd value: in the default tests, and in
the long ones.
"""
COSTLY = {
    ("environments", "nothing"),  # the default ones
    ("exhaustive", "true"),
}
"""Pairs that are no mistake, but more work than a test has time for."""
LEFT_OUT = {"command", "overrides"}
"""What the command line says of itself; what is called by the names of its keys."""
QUICK = {"load", "world", "custom_environment", "Environment", "CustomEnvironment", "Truth"}
QUICK |= {"color_sum", "scenes", "number_patches", "draw", "segment", "slic"}
SMALL = {"image_size": 12, "redundant_channels": 0}
OVERRIDES = {
    **SMALL,
    "accumulator": "uniform",
    "distractors": 0,
    "temperature": 1,
    "camouflage_seed": 0,
    "equivalent_form": "plateau",
    "patch_size": [0.2, 0.3],
    "background": [0, 0, 0],
    "shapes": ["bezier"],
}


def faces(folder):
    """Functions by name, with arguments in good order and little work."""
    env = al.load("multi-color-sum", **SMALL)
    images, labels = env.batch(2)
    truth = env.truth(images, labels)
    asked, one = {"images": images, "targets": labels}, {"image": images[0], "target": 0}
    own = nn.Sequential(nn.Conv2d(1, 1, 4), nn.Flatten()).eval()
    user = {"model": own, "images": drawn(2, 1, 4, 4), "truth": torch.ones(2, 4, 4)}
    custom = al.custom_environment(**user)
    return {
        "load": (al.load, {"name": "multi-color-sum", **OVERRIDES}),
        "world": (al.world, {"rule": "red > blue", "image_size": 12}),
        "random_worlds": (al.random_worlds, {"n": 1}),
        "custom_environment": (al.custom_environment, {**user, "interventions": 64, "baseline": 0}),
        "verify": (al.verify, {"env": env}),
        "attribute": (al.attribute, {"method": "saliency", "env": env, **asked}),
        "faithfulness_test": (
            al.faithfulness_test,
            {"method": "saliency", "environments": env, "n": 1, "also": None},
        ),
        "compare": (al.compare, {"methods": ["saliency"], "environments": env, "n": 1}),
        "export_environment": (al.export_environment, {"env": env, "out": folder / "out", "n": 1}),
        "Environment.to": (env.to, {"device": "cpu"}),
        "Environment.dataset": (env.dataset, {}),
        "Environment.loader": (env.loader, {"n": 1, "seed": 0}),
        "Environment.batch": (env.batch, {"n": 1}),
        "Environment.targets": (env.targets, {"labels": labels}),
        "Environment.camouflaged": (env.camouflaged, {"seed": 0}),
        "Environment.equivalent": (env.equivalent, {"form": "plateau"}),
        "Environment.explained_model": (env.explained_model, {"output": "logit"}),
        "Environment.truth": (env.truth, asked),
        "Environment.truths": (env.truths, asked),
        "Environment.shapley": (env.shapley, one),
        "sampled_shapley": (env.sampled_shapley, {**one, "precision": 1.0}),
        "CustomEnvironment.dataset": (custom.dataset, {"n": 1}),
        "CustomEnvironment.truth": (
            custom.truth,
            {"images": custom.images, "targets": custom.image_targets},
        ),
        "Truth": (al.Truth, {"signed": truth.signed}),
        "Truth.part": (truth.part, {"chosen": slice(1)}),
        "Truth.to": (truth.to, {"device": "cpu"}),
        "Truth.joined": (al.Truth.joined, {"truths": [truth]}),
    }


def builders():
    """Builders of networks, recipes of images and segmentations, as `faces`."""
    color, gray = (255, 0, 0), (20, 20, 20)
    side, one = {"image_size": 9}, {"image_size": 9, "channels": 1}
    generator = {"generator": torch.Generator()}
    net = nets.color_sum(**side, colors=[color], background=gray)
    stages = {"stages": nets.number_checker([5])}
    signal = nets.Signal(torch.tensor([9.0]).double(), torch.ones(1).double())
    sums = {"sums": torch.ones(1).double(), "steps": torch.ones(1).double()}
    level = nets.uniform_accumulator(9, 1).levels
    recipe = images.binary_patches(image_size=24)
    shape = {"rng": np.random.default_rng(0), "diameter": 5}
    image = {"image": drawn(3, 8, 8), "highest": 1.0}
    masks = Masks()
    return {
        "kernel_chain": (nets.kernel_chain, side),
        "redundant_weights": (
            nets.redundant_weights,
            {"channels": 1, "redundant_channels": 1, "strength": 1.0, **generator},
        ),
        "uniform_accumulator": (nets.uniform_accumulator, {**one, "redundant": None}),
        "nonuniform_accumulator": (nets.nonuniform_accumulator, {**one, **generator}),
        "layer_at": (nets.layer_at, {"levels": level, "depth": 1}),
        "greater_than": (nets.greater_than, {"thresholds": [4]}),
        "number_checker": (nets.number_checker, {"numbers": [5]}),
        "color_detector": (nets.color_detector, {"colors": [color], "background": gray}),
        "detector_budget": (
            nets.detector_budget,
            {"stages": nets.color_detector([color], gray)},
        ),
        "check_budget": (nets.check_budget, {"layer": "a layer", **sums}),
        "stage_budget": (
            nets.stage_budget,
            {"layer": "a layer", "stage": stages["stages"][0], "signal": signal},
        ),
        "default_temperature": (nets.default_temperature, {"largest_gap": 9}),
        "identity_head": (nets.identity_head, {"classes": 2}),
        "modulo_mlp": (nets.modulo_mlp, {"modulus": 5, "max_count": 9}),
        "modulo_bound": (nets.modulo_bound, {"stages": nets.modulo_mlp(5, 9)}),
        "modulo_budget": (
            nets.modulo_budget,
            {"stages": nets.modulo_mlp(5, 9), "signal": signal},
        ),
        "with_softmax": (
            nets.with_softmax,
            {"model": nn.Identity(), "classes": 2, "temperature": 1.0},
        ),
        "evaluate": (nets.evaluate, {**stages, "values": torch.ones(2, 1)}),
        "to_convolutions": (nets.to_convolutions, stages),
        "to_linears": (nets.to_linears, stages),
        "number_sum": (nets.number_sum, {**side, "number": 5}),
        "white_sum": (nets.white_sum, side),
        "color_sum": (nets.color_sum, {**side, "colors": [color], "background": gray}),
        "modulo_sum": (nets.modulo_sum, {**side, "modulus": 5, "max_count": 81}),
        "forms_of": (nets.forms_of, {"network": net}),
        "camouflaged": (nets.camouflaged, {"network": net, "seed": 0}),
        "equivalent": (nets.equivalent, {"network": net, "form": "plateau"}),
        "color_patches": (
            images.color_patches,
            {"image_size": 24, "colors": (color,), "background": gray},
        ),
        "binary_patches": (images.binary_patches, {"image_size": 24}),
        "number_patches": (images.number_patches, {"image_size": 24, "values": (40, 90)}),
        "scenes": (
            images.GENERATORS["scenes"],
            {"image_size": 24, "colors": (color,), "background": gray}
            | {"color_names": ("red",), "items": ("each",), "area": (0.02, 0.02)},
        ),
        "draw": (images.draw, {"recipe": recipe, "seed": 0, "index": 0}),
        "BernoulliInk": (images.BernoulliInk, {"colors": (color,), "fill": 0.5}),
        "Recipe": (images.Recipe, dict(vars(recipe))),
        **{name: (shaped, shape) for name, shaped in images.SHAPES.items()},
        "segment": (
            segmentation.segment,
            {"images": drawn(2, 3, 8, 8), "segmentation": "grid", "highest": 1.0}
            | {"settings": {"cells": 2}},
        ),
        **{
            name: (segmentation.SEGMENTATIONS[name], image)
            for name in ("felzenszwalb", "quickshift", "slic", "pixels")
        },
        "grid": (segmentation.grid, {**image, "cells": 2}),
        "partition": (segmentation.partition, {"masks": masks, **image}),
    }


class Masks:
    """A generator of masks that finds one."""

    def generate(self, image):
        return [{"segmentation": image[..., 0] > 0}]


def call_oddly(called, names, calls):
    for face, (function, good) in called.items():
        if names and face.split(".")[0] not in names:
            continue
        function(**good)  # what is imported at the first call sets what it sets
        known = [*dict.fromkeys([*parameters(function)[0], *good])]
        for name, odd in odd_calls(face, known, calls):
            if (name, odd) not in COSTLY and name not in LEFT_OUT:
                given = {**good, name: ODD[odd] if name != "model" else (ODD | NETWORKS)[odd]}
                taken_or_refused(function, given, f"{face}: {name} is {odd}")


def test_odd_arguments_are_taken_or_refused_in_one_line(tmp_path):
    call_oddly(faces(tmp_path) | builders(), QUICK, FEW)


@pytest.mark.long
def test_many_odd_arguments_are_taken_or_refused_in_one_line(tmp_path):
    call_oddly(faces(tmp_path), (), CALLS)


@pytest.mark.long
def test_many_odd_arguments_of_builders_are_taken_or_refused_in_one_line():
    call_oddly(builders(), (), CALLS)


@pytest.mark.parametrize("output", ["logits", "Probability", ""])
def test_a_word_that_is_none_of_the_literals_is_refused(output):
    """Each of these passed for another word once."""
    env = al.load("multi-color-sum", **SMALL)
    images, labels = env.batch(1)
    counted = torch.zeros(1, 1, 2, 2, dtype=torch.int64)
    calls = [
        lambda: env.explained_model(output),
        lambda: env.truth(images, labels, output),
        lambda: al.truth.mask(counted, labels, output),
        lambda: al.verify(env, exhaustive=output),
        lambda: al.faithfulness_test("saliency", env, n=1, one_network=output),
    ]
    for call in calls:
        with pytest.raises(al.AttributionLabError, match=r"is '.*': take "):
            call()


def test_masks_of_a_truth_are_masks_of_one_shape():
    signed = torch.zeros(2, 1, 3, 3, dtype=torch.int8)
    wrong = [
        {"signed": signed.float()},
        {"signed": signed[0]},
        {"signed": None},
        {"signed": signed, "asked": signed},
        {"signed": signed, "relevant": signed[:1] > 0},
    ]
    for masks in wrong:
        with pytest.raises(al.AttributionLabError, match="pass"):
            al.Truth(**masks)
