"""What the network used, from numbers and tensors alone."""

from attributionlab.truth.counting import Counting
from attributionlab.truth.masks import Output, Truth, mask, smoothed

__all__ = ["Counting", "Output", "Truth", "mask", "smoothed"]
