"""Functions of worlds and of segmentation, each with arguments in good order and little work."""

import numpy as np
import torch
from torch import nn

from attributionlab.base import segmentation
from attributionlab.worlds import images, nets
from odd_calls import drawn


def builders():
    """Builders of networks, recipes of images and segmentations: function and arguments by name."""
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
