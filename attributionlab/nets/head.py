r"""Heads: the identity MLP behind an accumulator, and a softmax with an explicit temperature."""

import math
from collections import OrderedDict

import torch
from torch import nn

from attributionlab.errors import refuse_if
from attributionlab.nets.stage import Stage, to_linears


def identity_head(classes: int, dropped: int = 0) -> list[nn.Module]:
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


def with_softmax(model: nn.Module, classes: int, temperature: float) -> nn.Sequential:
    """The same network, sharing its modules, with the probabilities softmax(logits / temperature).

    Logits are counts, hundreds apart. At temperature 1 a softmax is 0 or 1 to the last bit of float32
    and no gradient is left behind it.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, classes).
    classes : int
        Number of logits.
    temperature : float
        A power of two, so that dividing by it is exact.
    """
    refuse_if(temperature_problems(temperature))
    scale = nn.Linear(classes, classes, bias=False)
    scale.weight = nn.Parameter(torch.eye(classes) / temperature)
    parts = OrderedDict(model=model, temperature=scale, softmax=nn.Softmax(dim=1))
    return nn.Sequential(parts).eval()


def temperature_problems(temperature: float) -> list[str]:
    """What is wrong with a temperature: a power of two divides exactly, anything else does not.

    Beyond 2^-20 and 2^30 quotients of counts would leave the range of float32.
    """
    if 2.0**-20 <= temperature <= 2.0**30 and math.frexp(temperature)[0] == 0.5:
        return []
    return [f"temperature is {temperature}: take a power of two, such as 1 or 256"]


def default_temperature(largest_gap: int) -> float:
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
    >>> from attributionlab.nets import default_temperature
    >>> default_temperature(2500)
    256.0
    """
    return 2.0 ** max(0, math.ceil(math.log2(largest_gap / (24 * math.log(2)))))
