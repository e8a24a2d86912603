"""Public functions of many parts, each with arguments in good order and little work."""

import inspect

import numpy as np
import torch
from torch import nn

import attributionlab as al
from attributionlab.base import segmentation
from attributionlab.worlds import images, nets
from odd_calls import COSTLY, Net, drawn


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
        "shade_detector": (nets.shade_detector, {"colors": [[color, (200, 0, 0)]]}),
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
        "equivalents_of": (nets.equivalents_of, {"network": net}),
        "camouflaged": (nets.camouflaged, {"network": net, "seed": 0}),
        "equivalent": (nets.equivalent, {"network": net, "name": "plateau"}),
        "implementations_of": (nets.implementations_of, {"network": net}),
        "implemented": (nets.implemented, {"network": net, "name": "plateau"}),
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


def twice(model, images, targets):
    return 2 * images


def usual():
    """Arguments in good order, by the names of parameters."""
    net, maps = Net().eval(), drawn(2, 1, 4, 4)
    orders = torch.stack([torch.arange(16), torch.arange(16).flip(0)])
    return (
        {"model": net, "layer": net.hidden, "attribute": twice, "images": maps, "inputs": maps}
        | {"image": maps[0], "targets": torch.tensor([0, 2]), "target": 0, "replacement": 0.0}
        | {"replacements": 0.0, "baselines": torch.zeros(1), "baseline": torch.zeros(1)}
        | {"attributions": maps / 2, "others": maps.flip(0), "information": maps, "values": maps}
        | {"truth": maps > 0.5, "masks": maps > 0.5, "keep": maps > 0.5, "positive": maps > 0.5}
        | {"signed": (maps > 0.5).to(torch.int8), "changes": torch.tensor([1.0, 2.0])}
        | {"which": "positive", "order": "morf", "orders": orders, "counts": [0, 4, 16]}
        | {"radius": 0.1, "threshold": 0.1, "level": 0.3, "ratio": 0.5, "closeness": 0.5}
        | {"tolerance": 0.1, "precision": 0.5, "sigma": 1.0, "value": 0.0, "low": 0.0, "high": 1.0}
        | {"steps": 4, "draws": 3, "most": 8, "bins": 4, "max_evaluations": 15, "resamples": 100}
        | {"pixels": 16, "height": 4, "width": 4, "patches": 4, "size": (4, 4), "noise": 0.0}
        | {"n": 2, "reference": 3, "generator": torch.Generator(), "first": torch.tensor([1, 2])}
        | {"second": torch.tensor([2, 3]), "curves": drawn(2, 5), "fractions": (0.2, 0.5)}
        | {"sums": drawn(2, 4).double(), "drops": drawn(2, 4).double(), "nothing_kept": 0.0}
        | {"outputs": drawn(2, 3), "features": drawn(2, 5), "temperature": 1.0, "confidence": 0.9}
        | {"correlation": 0.5, "items": 8, "ranks": [[1, 2, 3], [2, 1, 3]], "players": 3}
        | {"empty": 0.0, "full": 2.0, "classes": torch.zeros(2, 1, 4, 4).int(), "output": "logit"}
        | {"readout": lambda outputs: outputs.double()[..., 0]}
    )


ROWS = np.array([[-1.0, 0.0, 1.0]])
OWN = {
    "exact.trajectory": {"order": torch.arange(16)},
    "exact.trajectories": {"orders": torch.arange(16).expand(2, 1, 16)},
    "imputation.nearest_known_color": {"imputation": al.imputation.mean},
    "imputation.rounded": {"imputation": al.imputation.mean},
    "imputation.noisy_linear_1d": {"keep": torch.ones(2, 5) > 0},
    "metrics.outputs_along": {"orders": torch.arange(16).expand(2, 1, 16)},
    "metrics.area_under_curve": {"fractions": torch.linspace(0, 1, 5)},
    "metrics.parameter_randomization": {"order": "top-down"},
    "metrics.parameter_randomization_curve": {"order": "top-down"},
    "ranking.centered_ranks": {"values": ROWS},
    "ranking.hausdorff": {"first": ROWS, "second": ROWS},
    "ranking.middle": {"values": ROWS[0]},
    "ranking.resampled_correlations": {
        "first": ROWS[0],
        "second": ROWS[0],
        "times": np.ones((2, 3), int),
    },
    "ranking.row_correlations": {"first": ROWS, "second": ROWS},
    "ranking.spearman": {"first": [1, 2, 3], "second": [1, 3, 2]},
    "ranking.spearman_interval": {"first": [1, 2, 3], "second": [1, 3, 2]},
    "truth.enumerated_shapley": {"value": lambda coalitions: coalitions.double().sum(1)},
    "truth.marginal_contributions": {
        "outputs": drawn(2, 4).double(),
        "orders": torch.tensor([[0, 1, 2], [2, 1, 0]]),
    },
    "truth.softmax_shapley": {"counts": torch.tensor([2, 1])},
}

FACES = {
    f"{module.__name__.split('.')[-1]}.{name}": getattr(module, name)
    for module in (al.metrics, al.exact, al.imputation, al.ranking, al.truth)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name)) and name != "metric"
}


def arguments(face, names, needed):
    """Good arguments: what must be given, and what makes the call cheap."""
    good = usual() | OWN.get(face, {})
    cheap = [*COSTLY, "steps", "nothing_kept", "noise", "generator", *OWN.get(face, {})]
    return {
        name: good[name] for name in names if name in needed or (name in cheap and name in good)
    }
