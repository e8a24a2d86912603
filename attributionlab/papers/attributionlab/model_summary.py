"""Table 1: the size of a hand-weighted network beside that of a small residual one."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.papers.catalog import Run, Tables, claim
from attributionlab.worlds import load

ITEM = "table-1"
CLASSES = 10
PUBLISHED = {"Ours": (17, 675_033), "ResNet-8": (10, 1_227_594)}
"""Layers and parameters as Table 1 has them."""


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions with batch normalization beside a shortcut; other widths halve the sides.

    Where the widths differ, the shortcut is a 1 x 1 convolution with batch normalization
    (`projection`), or every second pixel with channels of zeros beside them.
    """

    def __init__(self, inputs: int, outputs: int, projection: bool) -> None:
        super().__init__()
        self.stride = 1 if inputs == outputs else 2
        self.added = outputs - inputs
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, self.stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Sequential()
        if projection and self.added:
            self.shortcut.append(nn.Conv2d(inputs, outputs, 1, self.stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU()

    def forward(
        self, x: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch channels2 height2 width2"]:
        """Body plus shortcut."""
        beside: Tensor = self.shortcut(x)
        if self.added and not len(self.shortcut):
            beside = x[..., :: self.stride, :: self.stride]
            beside = nn.functional.pad(beside, (0, 0, 0, 0, 0, self.added))
        result: Tensor = self.relu(self.body(x) + beside)
        return result


def residual_network(
    widths: Sequence[int] = (64, 128, 256), *, channels: int = 3, projections: bool = True
) -> nn.Sequential:
    """Build a ResNet-8: a convolution, three residual blocks of two convolutions, a linear layer.

    (AttributionLab, appendix E, after He et al., 2016.) The text gives no widths of the blocks. The
    defaults are the standard choice that has Table 1's 1,227,594 parameters. `projections`: whether
    shortcuts of blocks that widen are 1 x 1 convolutions.
    """
    first = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
    pairs = zip((widths[0], *widths), widths, strict=False)
    blocks = [ResidualBlock(inputs, outputs, projections) for inputs, outputs in pairs]
    last = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], CLASSES))
    return nn.Sequential(first, nn.BatchNorm2d(widths[0]), nn.ReLU(), *blocks, *last)


def layer_table(model: nn.Module, image_shape: Sequence[int]) -> pd.DataFrame:
    """Each module with parameters of its own: kind, output, parameters, multiply-adds.

    Multiply-adds are those of one forward pass of one image (C, H, W): the size of the output times
    the inputs that each of its values reads; for batch normalization one a value. Biases, ReLUs,
    pooling and additions are not counted. The model keeps its mode.
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
    training = model.training
    try:
        with torch.no_grad():
            model.eval()(torch.zeros(1, *image_shape))
    finally:
        model.train(training)
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
        models = {"Ours": (env.model, shape), "ResNet-8": (residual_network(), (3, 32, 32))}
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


@claim(ITEM, place="Table 1")
def layers_and_parameters_are_those_of_the_paper(tables: Tables) -> bool:
    """The hand-weighted network has 17 layers and 675,033 parameters, ResNet-8 has 10 and
    1,227,594.
    """
    table = tables["summary"]
    pairs = [(table[each], table[f"published_{each}"]) for each in ("layers", "parameters")]
    return all(bool((ours == theirs).all()) for ours, theirs in pairs)


@claim(ITEM)
def one_choice_has_the_published_parameters(tables: Tables) -> bool:
    """Of twelve standard choices of a ResNet-8, one alone has the published parameters."""
    return int((tables["residual-networks"].from_published == 0).sum()) == 1


@claim(ITEM)
def parameters_say_little(tables: Tables) -> bool:
    """Parameters say little: nearly all of ours lie in linear layers behind a single number, and in
    multiply-adds ResNet-8 is more than ten times as large.
    """
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
    """ResNet-8 in the standard widths, with and without projections, for color and gray images."""
    rows = []
    standard = ((16, 32, 64), (32, 64, 128), (64, 128, 256))
    for widths, channels, projections in product(standard, (3, 1), (True, False)):
        model = residual_network(widths, channels=channels, projections=projections)
        parameters = sum(p.numel() for p in model.parameters())
        layers = sum(isinstance(m, nn.Conv2d | nn.Linear) for m in model.modules())
        more = parameters - PUBLISHED["ResNet-8"][1]
        rows.append(("-".join(map(str, widths)), channels, projections, layers, parameters, more))
    columns = ["widths", "channels", "projections", "layers", "parameters", "from_published"]
    return pd.DataFrame(rows, columns=columns)
