"""Images with the classes that they belong to."""

from typing import NamedTuple

from jaxtyping import Float32, Int64
from torch import Tensor


class LabeledImages(NamedTuple):
    """Images in [0, 1], the class index of each (-1 where it is not known), and the classes' names."""

    images: Float32[Tensor, "batch 3 height width"]
    labels: Int64[Tensor, " batch"]
    classes: tuple[str, ...]
