"""Exact arithmetic, by a budget.

Weights are dyadic rationals and inputs integers, so everything a neuron adds up is a multiple of one
power of two, its *grid step*. Builders hold the sum of absolute terms of each layer they make against
2^24 such steps (`attributionlab.base.dyadic`), for every input in the valid box, seen or unseen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.base import EXACT_STEPS, AttributionLabError, checked_arguments, grid_step
from attributionlab.worlds.nets.stage import Stage, evaluate


@dataclass(frozen=True)
class Signal:
    """What a layer can receive: channel c carries multiples of ``step[c]`` in ``[0, upper[c]]``.

    `upper` is one bound for each channel, wherever it is, or a map of bounds (channels, height, width):
    at the border of an image windows hold fewer pixels.
    """

    upper: Float[Tensor, "channels *map"]
    step: Float[Tensor, " channels"]


@dataclass(frozen=True)
class LayerBudget:
    """What one layer needs of the exactness budget.

    - `layer`: which layer.
    - `largest_sum`: largest sum of absolute terms of the layer's neurons over the valid box.
    - `steps`: largest quotient of such a sum and its neuron's grid step; at most 2^24.
    - `finest`: smallest grid step of a neuron's terms; infinity where all terms are 0.
    - `signal`: what leaves the layer, behind its ReLU, as tightly as its builder knows it.
    """

    layer: str
    largest_sum: float
    steps: float
    finest: float
    signal: Signal | None = field(default=None, repr=False, compare=False)


@checked_arguments
def check_budget(
    layer: str, sums: Float[Tensor, " neurons"], steps: Float[Tensor, " neurons"]
) -> LayerBudget:
    """Check a layer against the budget.

    Parameters
    ----------
    layer : str
        The layer's name, for the message.
    sums, steps : Tensor
        For each neuron, the sum of its absolute terms and its grid step.

    Raises
    ------
    AttributionLabError
        If a quotient exceeds 2^24.
    """
    needed = float((sums / steps).max())
    if not needed <= EXACT_STEPS:  # also where it is no number
        raise AttributionLabError(
            f"{layer} needs {needed:,.0f} grid steps, float32 is exact up to {EXACT_STEPS:,}: "
            "take a smaller image_size, fewer or weaker redundant channels, or the uniform "
            "accumulator"
        )
    return LayerBudget(layer, float(sums.max()), needed, float(steps.min()))


@checked_arguments
def stage_budget(
    layer: str, stage: Stage, signal: Signal, upper: Float[Tensor, " neurons"] | None = None
) -> tuple[Signal, LayerBudget]:
    """Pass a signal through a pointwise layer and its ReLU, within the budget.

    Parameters
    ----------
    layer : str
        The layer's name, for the message.
    stage : Stage
        Its weights.
    signal : Signal
        What it receives.
    upper : Tensor, optional
        The neurons' largest outputs where they are known better (by enumeration) than the
        interval bound ``max(0, sum of w+ upper + b)``.
    """
    weight, bias = stage.weight.double(), stage.bias.double()
    sums = weight.abs() @ signal.upper + bias.abs()
    steps = torch.minimum(
        (grid_step(weight) * signal.step).amin(1), grid_step(bias)
    )  # a product of grids is the grid of the products
    budget = check_budget(layer, sums, steps)
    if upper is None:
        upper = (weight.clamp(min=0) @ signal.upper + bias).clamp(min=0)
    output = Signal(upper, steps)
    return output, replace(budget, signal=output)


def stages_budget(
    layer: str, stages: Sequence[Stage], signal: Signal, values: Float[Tensor, "values inputs"]
) -> tuple[Signal, list[LayerBudget]]:
    """Pass a signal through pointwise layers, of which these values give each neuron's exact range."""
    budgets = []
    for index, (stage, outputs) in enumerate(zip(stages, evaluate(stages, values), strict=True)):
        signal, budget = stage_budget(f"{layer} {index + 1}", stage, signal, outputs.amax(0))
        budgets.append(budget)
    return signal, budgets
