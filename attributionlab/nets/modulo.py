r"""The modulo MLP: the remainder of a count, in seven linear layers."""

from collections.abc import Sequence

import torch
from torch import nn

from attributionlab.errors import AttributionLabError
from attributionlab.nets.checker import number_checker
from attributionlab.nets.exactness import LayerBudget, Signal, stage_budget
from attributionlab.nets.stage import Stage, evaluate

MOST_BLOCKS = 2000
"""Some 100 million weights, 400 MB: enough for the white pixels of a 1024 x 1024 image mod 30."""


def modulo_mlp(modulus: int, max_count: int) -> list[Stage]:
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
    >>> from attributionlab.nets import evaluate, modulo_mlp
    >>> evaluate(modulo_mlp(5, max_count=10), torch.tensor([[8.0], [10.0]]))[-1].T
    tensor([[3., 0.]], dtype=torch.float64)
    """
    if modulus < 2 or max_count < 1:
        raise AttributionLabError(
            f"modulus is {modulus} and max_count {max_count}: take a modulus of at least 2 and a "
            "count of at least 1"
        )
    blocks = -(-max_count // modulus)
    if blocks > MOST_BLOCKS:
        raise AttributionLabError(
            f"max_count is {max_count:,} and modulus {modulus}, which takes {blocks:,} blocks of "
            f"neurons: take at most {MOST_BLOCKS:,}, a smaller count or a larger modulus"
        )
    each = torch.eye(blocks)
    thresholds = [-float(modulus * k) for k in range(blocks + 1)]
    difference = torch.eye(blocks, blocks + 1) - torch.eye(blocks + 1)[1:]
    stages = [
        Stage.of(torch.ones(blocks + 1, 1), thresholds),
        Stage.of(difference),
    ]
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


def modulo_bound(stages: Sequence[Stage]) -> int:
    """The largest count whose remainder is right: ceil(U / N) N."""
    return int(-stages[0].bias.min())


def modulo_budget(stages: Sequence[Stage], signal: Signal) -> tuple[Signal, list[LayerBudget]]:
    """Hold a modulo MLP against the exactness budget for every count up to the signal's bound.

    The MLP reads one number. Beyond its last threshold every neuron is linear in it, so the counts up
    to one modulus past that threshold, and the largest of all, give each neuron's exact range.
    """
    largest = float(signal.upper)
    bound = modulo_bound(stages)
    modulus = -int(stages[0].bias[1])
    counts = torch.arange(min(largest, bound + modulus + 2.0) + 1.0)
    counts = torch.cat([counts, torch.tensor([largest])])
    budgets = []
    for index, (stage, outputs) in enumerate(
        zip(stages, evaluate(stages, counts[:, None]), strict=True)
    ):
        signal, budget = stage_budget(f"modulo layer {index + 1}", stage, signal, outputs.amax(0))
        budgets.append(budget)
    return signal, budgets
