"""Hand-weighted networks: number checkers, color detectors, accumulators, modulo, heads."""

from attributionlab.nets.accumulator import (
    Accumulator,
    Level,
    kernel_chain,
    layer_at,
    nonuniform_accumulator,
    redundant_weights,
    uniform_accumulator,
)
from attributionlab.nets.camouflage import MOVES, camouflaged
from attributionlab.nets.checker import greater_than, number_checker
from attributionlab.nets.detector import Color, color_detector, detector_budget
from attributionlab.nets.exactness import (
    LayerBudget,
    Signal,
    check_budget,
    stage_budget,
)
from attributionlab.nets.head import (
    default_temperature,
    identity_head,
    temperature_problems,
    with_softmax,
)
from attributionlab.nets.modulo import modulo_bound, modulo_budget, modulo_mlp
from attributionlab.nets.networks import (
    BUILDERS,
    Network,
    color_sum,
    modulo_sum,
    number_sum,
    white_sum,
)
from attributionlab.nets.stage import Stage, evaluate, to_convolutions, to_linears

__all__ = [
    "BUILDERS",
    "MOVES",
    "Accumulator",
    "Color",
    "LayerBudget",
    "Level",
    "Network",
    "Signal",
    "Stage",
    "camouflaged",
    "check_budget",
    "color_detector",
    "color_sum",
    "default_temperature",
    "detector_budget",
    "evaluate",
    "greater_than",
    "identity_head",
    "kernel_chain",
    "layer_at",
    "modulo_bound",
    "modulo_budget",
    "modulo_mlp",
    "modulo_sum",
    "nonuniform_accumulator",
    "number_checker",
    "number_sum",
    "redundant_weights",
    "stage_budget",
    "temperature_problems",
    "to_convolutions",
    "to_linears",
    "uniform_accumulator",
    "white_sum",
    "with_softmax",
]
