"""What one score of one map takes: forward passes, calls and maps, counted."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attributionlab.base import AttributionLabError
from attributionlab.methods import isolated
from attributionlab.verdicts.metric_trials.registry import Metric, raised

SIDES = 8, 16
"""Of the images for which costs are counted: whether a cost grows with the pixels is seen."""
SETTINGS: Mapping[str, Any] = {"radius": 0.1, "tolerance": 0.1, "closeness": 0.1, "level": 0.5}
"""Values of parameters without defaults, which change no count."""


class Cost(NamedTuple):
    """What one score of one map took, counted."""

    side: int
    """of the image, in pixels"""
    passes: int
    """images that the network was asked about"""
    calls: int
    """of the network, each with a batch of them"""
    maps: int
    """that the metric had the method make"""


def cost_of(metric: Metric, side: int) -> Cost:
    """Count what one score of one map takes, before a network that no shortcut serves.

    The network is linear, of one channel, and an output rises with every pixel. What a metric wants
    beside its parameters' defaults is given by name: `OFFERED`, `SETTINGS`, a method that is counted.

    Parameters
    ----------
    metric : Metric
        Any, also one that cannot be tried.
    side : int
        Side of the image, in pixels; at least 4, so that there are 16 patches.

    Raises
    ------
    AttributionLabError
        For what the metric raises, in one line.
    """
    model, made = _Watched(side), list[int]()
    pixels = side * side
    image = (torch.arange(1.0, pixels + 1) / pixels).view(1, 1, side, side)

    def attribute(model: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
        made.append(len(images))
        return images.clone()

    known = {
        **SETTINGS,
        "model": model,
        "images": image,
        "targets": torch.zeros(1, dtype=torch.int64),
        "attributions": image.clone(),
        "attribute": attribute,
        "others": image.clone(),
        "changes": torch.ones(1),
        "layer": model.layer,
        "replacement": torch.zeros(1, side, side),
        "truth": image > 0.5,
        "values": image.clone(),
        "information": image.clone(),
        "threshold": 0.5,
        "seed": 0,
    }
    with isolated(0), raised(metric.name), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric.call(known)
    return Cost(side, sum(model.batches), len(model.batches), sum(made))


def costs_of(metric: Metric) -> list[Cost]:
    """Count at all sizes; nothing is known of a metric that refuses one."""
    try:
        return [cost_of(metric, side) for side in SIDES]
    except AttributionLabError:  # a user's, made for images of one size
        return []


def format_cost(cost: Cost, *, in_full: bool) -> str:
    """Forward passes, and maps of the method where there are some."""
    calls = f" in {cost.calls} call{'s' * (cost.calls > 1)}" * bool(cost.calls)
    asked = f"{cost.passes:,}" + f" forward passes{calls}" * in_full
    asked = asked if cost.passes or not cost.maps else ""
    made = f"{cost.maps} maps of the method" if cost.maps else ""
    return ", ".join(filter(None, (asked, made)))


class _Watched(nn.Module):
    """Two weighted sums of an image's pixels, and how many images each call had."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.batches: list[int] = []
        self.layer = nn.Linear(side * side, 2, device="meta").to_empty(device="cpu")
        weights = torch.arange(1.0, 2 * side * side + 1).view(2, -1) / (side * side)
        with torch.no_grad():
            self.layer.weight.copy_(weights)
            self.layer.bias.zero_()
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        self.batches.append(len(images))
        outputs: Tensor = self.layer(images.flatten(1))
        return outputs
