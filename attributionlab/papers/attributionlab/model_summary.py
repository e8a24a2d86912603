"""Table 1: the size of a hand-weighted network beside that of a small residual one."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from attributionlab.papers.catalog import Run, Tables
from attributionlab.papers.subjects.networks import residual_network
from attributionlab.worlds import load

CLASSES = 10
PUBLISHED = {"Ours": (17, 675_033), "ResNet-8": (10, 1_227_594)}
"""Layers and parameters as Table 1 has them."""


def resnet_8(width: int = 64, channels: int = 3) -> nn.Sequential:
    """A convolution, three residual blocks of 1, 2 and 4 times `width` kernels, a linear layer.

    (AttributionLab, appendix E, after He et al., 2016.) Shortcuts of blocks that widen are 1 x 1
    convolutions. The text gives no widths; 64 is the standard choice that has Table 1's 1,227,594
    parameters.
    """
    return residual_network(channels, CLASSES, depth=1, width=width, batch_norm=True, stride=1)


def layer_table(model: nn.Module, image_shape: Sequence[int]) -> pd.DataFrame:
    """Each module with parameters of its own: kind, output, parameters, multiply-adds.

    Multiply-adds are those of one forward pass of one image (C, H, W): the size of the output times
    the inputs that each of its values reads; for batch normalization one a value. Biases, ReLUs,
    pooling and additions are not counted. The model is in eval mode afterwards.
    """
    rows: list[dict[str, Any]] = []

    def record(name: str, module: nn.Module, _: Any, output: Tensor) -> None:
        reads = module.weight[0].numel() if isinstance(module, nn.Conv2d | nn.Linear) else 1
        row = {
            "layer": name,
            "kind": type(module).__name__,
            "output": " x ".join(map(str, output.shape[1:])),
            "parameters": sum(p.numel() for p in module.parameters()),
            "multiply_adds": output[0].numel() * reads,
        }
        rows.append(row)

    hooks = [
        module.register_forward_hook(partial(record, name))
        for name, module in model.named_modules()
        if next(module.parameters(recurse=False), None) is not None
    ]
    with torch.no_grad():
        model.eval()(torch.zeros(1, *image_shape))
    for hook in hooks:
        hook.remove()
    return pd.DataFrame(rows)


def table_1(_: Run) -> Tables:
    """Count layers and parameters of single-color-modulo and of a ResNet-8; nothing is sampled.

    "residual-networks" has ResNet-8 in the standard widths.
    """
    env = load("single-color-modulo")
    shape = (env.recipe.channels, env.recipe.image_size, env.recipe.image_size)
    # ResNets of this family are made for images of 32 x 32 pixels; 224 x 224 is like with like.
    with torch.random.fork_rng(devices=[]):
        models = {"Ours": (env.model, shape), "ResNet-8": (resnet_8(), (3, 32, 32))}
        variants = _variants()
        large = layer_table(models["ResNet-8"][0], (3, *shape[1:])).multiply_adds.sum()
    layers = {name: layer_table(*model) for name, model in models.items()}
    summary = pd.DataFrame([_row(name, layers[name], models[name][1]) for name in models])
    at_one_size = [summary.multiply_adds[0], int(large)]
    return {
        "summary": summary.assign(multiply_adds_at_224=at_one_size),
        "layers": pd.concat(
            [table.assign(model=name)[["model", *table]] for name, table in layers.items()],
            ignore_index=True,
        ),
        "residual-networks": variants,
    }


def one_choice_has_the_published_parameters(tables: Tables) -> bool:
    return int((tables["residual-networks"].from_published == 0).sum()) == 1


def parameters_say_little(tables: Tables) -> bool:
    ours, other = (row for _, row in tables["summary"].iterrows())
    linear = ours.linear_parameters / ours.parameters > 0.9
    return bool(linear and other.multiply_adds_at_224 > 10 * ours.multiply_adds_at_224)


def _row(name: str, layers: pd.DataFrame, shape: Sequence[int]) -> dict[str, Any]:
    weighted = layers[layers.kind.isin(["Conv2d", "Linear"])]
    published_layers, published_parameters = PUBLISHED[name]
    linear = layers[layers.kind == "Linear"]
    return {
        "model": name,
        "layers": len(weighted),
        "published_layers": published_layers,
        "parameters": int(layers.parameters.sum()),
        "published_parameters": published_parameters,
        "convolutions": int((layers.kind == "Conv2d").sum()),
        "linear": len(linear),
        "linear_parameters": int(linear.parameters.sum()),
        "image": " x ".join(map(str, shape)),
        "multiply_adds": int(layers.multiply_adds.sum()),
    }


def _variants() -> pd.DataFrame:
    """ResNet-8 in the standard widths, with and without projections, for color and gray images.

    Without projections a shortcut that widens takes every second pixel, and zeros beside it: it has no
    parameters.
    """
    rows = []
    for width, channels, projections in product((16, 32, 64), (3, 1), (True, False)):
        counted = [
            (sum(each.numel() for each in module.parameters(recurse=False)), module)
            for name, module in resnet_8(width, channels).named_modules()
            if projections or ".shortcut" not in name
        ]
        parameters = sum(number for number, _ in counted)
        layers = sum(isinstance(module, nn.Conv2d | nn.Linear) for _, module in counted)
        more = parameters - PUBLISHED["ResNet-8"][1]
        widths = "-".join(str(width * times) for times in (1, 2, 4))
        rows.append((widths, channels, projections, layers, parameters, more))
    columns = ["widths", "channels", "projections", "layers", "parameters", "from_published"]
    return pd.DataFrame(rows, columns=columns)
