"""Maps as the paper's thresholds need them: positive, at most 1."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

__all__ = ["scaled"]


def scaled(maps: Float[Tensor, "batch 1 height width"]) -> Float64[Tensor, "batch 1 height width"]:
    """What of a map is positive, divided by each map's maximum."""
    positive = maps.double().clamp(min=0)
    most = positive.amax((1, 2, 3), keepdim=True)
    return positive / torch.where(most > 0, most, 1)
