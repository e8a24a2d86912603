"""What the network used, from numbers and tensors alone."""

from attributionlab.truth.counting import Counting
from attributionlab.truth.masks import Output, Truth, mask, smoothed
from attributionlab.truth.shapley import ShapleyValues, softmax_shapley, symmetric_shapley

__all__ = [
    "Counting",
    "Output",
    "ShapleyValues",
    "Truth",
    "mask",
    "smoothed",
    "softmax_shapley",
    "symmetric_shapley",
]
