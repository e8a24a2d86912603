r"""Heads behind an accumulator: the identity MLP, the modulo MLP (the remainder of a count, in seven
linear layers), and a softmax with an explicit temperature.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated

import torch
from torch import nn

from attributionlab.base import (
    EXACT_STEPS,
    AttributionLabError,
    Within,
    checked_arguments,
    not_empty,
)
from attributionlab.worlds.nets.accumulator import MOST_CHANNELS, Channels
from attributionlab.worlds.nets.detector import number_checker
from attributionlab.worlds.nets.exactness import LayerBudget, Signal, stages_budget
from attributionlab.worlds.nets.stage import Stage, linear, to_linears

Modulus = Annotated[int, Within(least=2, most=EXACT_STEPS)]
Stages = Annotated[Sequence[Stage], not_empty]
Largest = Annotated[int, Within(least=1, most=EXACT_STEPS)]
"""The largest count that must be right."""


def power_of_two(name: str, value: float) -> list[str]:
    """What is wrong with a temperature: a power of two divides exactly, anything else does not.

    Beyond 2^-20 and 2^30 quotients of counts would leave the range of float32.
    """
    if 2.0**-20 <= value <= 2.0**30 and math.frexp(value)[0] == 0.5:
        return []
    return [f"{name} is {value}: take a power of two, such as 1 or 256"]


Temperature = Annotated[float, power_of_two]
MOST_BLOCKS = 2000
"""Some 100 million weights, 400 MB: enough for the white pixels of a 1024 x 1024 image mod 30."""


@checked_arguments
def modulo_mlp(modulus: Modulus, max_count: Largest) -> list[Stage]:
    r"""f_modulo: x mod N for integers 0 <= x <= ceil(U / N) N.

    .. math::
        f_1(x) &= ReLU(x, x - N, x - 2N, \dots, x - \lceil U/N \rceil N) \\
        f_2(x) &= ReLU(x_0 - x_1, x_1 - x_2, \dots) \\
        f_3(x) &= ReLU(x_0, I_N(x_0), x_1, I_N(x_1), \dots) \\
        f_4(x) &= ReLU(x_0 - N x_1, x_2 - N x_3, \dots) \\
        f_5(x) &= ReLU(\textstyle\sum_i x_i)

    (AttributionLab, eqs. 8 to 13.) f_2 gives (N, ..., N, x mod N, 0, ...), f_3 marks each N, f_4
    removes it. f_3 is three layers here, those of the number checker, beside which x_i is handed on.

    Parameters
    ----------
    modulus : int
        N, at least 2.
    max_count : int
        U, the largest count that must be right. (The text says "not larger than N" where it means U.)

    Returns
    -------
    list of Stage
        1 -> q + 1 -> q -> 4q -> 3q -> 2q -> q -> 1 with q = ceil(U / N); the paper's setting (N = 30,
        U = 4899) has 674,863 parameters.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.worlds.nets import evaluate, modulo_mlp
    >>> evaluate(modulo_mlp(5, max_count=10), torch.tensor([[8.0], [10.0]]))[-1].T
    tensor([[3., 0.]], dtype=torch.float64)
    """
    blocks = -(-max_count // modulus)
    if blocks > MOST_BLOCKS:
        raise AttributionLabError(
            f"max_count is {max_count:,} and modulus {modulus}, which takes {blocks:,} blocks of "
            f"neurons: take at most {MOST_BLOCKS:,}, a smaller count or a larger modulus"
        )
    each = torch.eye(blocks)
    thresholds = [-float(modulus * k) for k in range(blocks + 1)]
    difference = torch.eye(blocks, blocks + 1) - torch.eye(blocks + 1)[1:]
    stages = [Stage.of(torch.ones(blocks + 1, 1), thresholds), Stage.of(difference)]
    for weight, bias in number_checker([modulus]):
        # (x_i, checker's inputs) -> (x_i, checker's outputs); at first x_i is the checker's input
        if weight.shape[1] == 1:
            beside = torch.cat([torch.ones(1, 1), weight])
        else:
            beside = nn.functional.pad(weight, (1, 0, 1, 0))
            beside[0, 0] = 1.0
        offsets = torch.cat([torch.zeros(1), bias]).repeat(blocks)
        stages.append(Stage(torch.kron(each, beside), offsets))
    stages += [
        Stage.of(torch.kron(each, torch.tensor([[1.0, -float(modulus)]]))),
        Stage.of(torch.ones(1, blocks)),
    ]
    return stages


@checked_arguments
def modulo_bound(stages: Stages) -> int:
    """The largest count whose remainder is right: ceil(U / N) N."""
    return int(-stages[0].bias.min())


@checked_arguments
def modulo_budget(stages: Stages, signal: Signal) -> tuple[Signal, list[LayerBudget]]:
    """Check a modulo MLP against the exactness budget for every count up to the signal's bound.

    The MLP reads one number. Beyond its last threshold every neuron is linear in it, so the counts up
    to one modulus past that threshold, and the largest of all, give each neuron's exact range.
    """
    largest = float(signal.upper)
    bound = modulo_bound(stages)
    modulus = -int(stages[0].bias[1])
    counts = torch.arange(min(largest, bound + modulus + 2.0) + 1.0)
    counts = torch.cat([counts, torch.tensor([largest])])
    return stages_budget("modulo layer", stages, signal, counts[:, None])


@checked_arguments
def identity_head(
    classes: Channels, dropped: Annotated[int, Within(least=0, most=MOST_CHANNELS)] = 0
) -> list[nn.Module]:
    """Two linear layers that hand on the counts of the classes and drop what follows them.

    The sums are the logits already; the head is there because image classifiers have one
    (AttributionLab, section 3.1).

    Parameters
    ----------
    classes : int
        How many channels are handed on.
    dropped : int
        How many channels behind them (the distractors' counts) are ignored.
    """
    select = Stage.of(torch.eye(classes, classes + dropped))
    *layers, _ = to_linears([select, Stage.of(torch.eye(classes))])
    return layers  # logits: no ReLU at the end


@checked_arguments
def with_softmax(model: nn.Module, classes: Channels, temperature: Temperature) -> nn.Sequential:
    """The same network, sharing its modules, with the probabilities softmax(logits / temperature).

    Logits are counts, hundreds apart. At temperature 1 a softmax is 0 or 1 to the last bit of float32,
    and no gradient remains.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, classes).
    classes : int
        Number of logits.
    temperature : float
        A power of two, so that dividing by it is exact.
    """
    scale = linear(torch.eye(classes) / temperature)
    parts = OrderedDict(model=model, temperature=scale, softmax=nn.Softmax(dim=1))
    return nn.Sequential(parts).eval()


@checked_arguments
def default_temperature(largest_gap: Largest) -> float:
    """The smallest power of two for which no gradient behind the softmax vanishes in float32.

    A gradient vanishes first where the winner's probability rounds to 1: a softmax adds exp(-gap / T)
    to 1, which float32 notices above 2^-24, that is for gap / T < 24 ln 2 = 16.6. All others underflow
    much later.

    Parameters
    ----------
    largest_gap : int
        Largest difference between two logits.

    Examples
    --------
    >>> from attributionlab.worlds.nets import default_temperature
    >>> default_temperature(2500)
    256.0
    """
    return 2.0 ** max(0, math.ceil(math.log2(largest_gap / (24 * math.log(2)))))
