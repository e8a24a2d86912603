"""What the network used, from numbers and tensors alone."""

from attributionlab.truth.counting import Counting
from attributionlab.truth.definitions import (
    Agreement,
    Definition,
    DefinitionName,
    Source,
    Truths,
)
from attributionlab.truth.enumeration import enumerated_shapley
from attributionlab.truth.games import CountingGame, Solution
from attributionlab.truth.masks import Output, Truth, mask, smoothed
from attributionlab.truth.sampling import (
    SampledShapley,
    marginal_contributions,
    sampled_shapley,
)
from attributionlab.truth.shapley import ShapleyValues, softmax_shapley, symmetric_shapley

__all__ = [
    "Agreement",
    "Counting",
    "CountingGame",
    "Definition",
    "DefinitionName",
    "Output",
    "SampledShapley",
    "ShapleyValues",
    "Solution",
    "Source",
    "Truth",
    "Truths",
    "enumerated_shapley",
    "marginal_contributions",
    "mask",
    "sampled_shapley",
    "smoothed",
    "softmax_shapley",
    "symmetric_shapley",
]
