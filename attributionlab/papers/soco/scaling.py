"""Maps as the paper's thresholds need them: positive, at most 1."""

from jaxtyping import Float, Float64
from torch import Tensor

from attributionlab.metrics import magnitudes, normalize


def scaled(maps: Float[Tensor, "batch 1 height width"]) -> Float64[Tensor, "batch 1 height width"]:
    """What of a map is positive, divided by each map's maximum."""
    return normalize(magnitudes(maps.double(), "positive"))
