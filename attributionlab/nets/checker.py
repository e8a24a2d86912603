r"""The number checker: a network that answers 1 for one integer and 0 for every other."""

from collections.abc import Sequence

import torch

from attributionlab.nets.stage import Stage


def greater_than(thresholds: Sequence[int]) -> list[Stage]:
    r"""I_{>i}: is an integer greater than i?

    .. math:: I_{>i}(x) = ReLU(ReLU(x - i) - ReLU(x - i - 1))

    1 for integers x > i, 0 for integers x <= i (AttributionLab, eqs. 3 and 6).

    Parameters
    ----------
    thresholds : sequence of int
        The i, one output each.

    Returns
    -------
    list of Stage
        1 -> 2M -> M for M thresholds.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.nets import evaluate, greater_than
    >>> x = torch.tensor([[4.0], [5.0], [6.0]])
    >>> evaluate(greater_than([4]), x)[-1].T
    tensor([[0., 1., 1.]], dtype=torch.float64)
    """
    count = len(thresholds)
    steps = [float(-i - offset) for i in thresholds for offset in (0, 1)]
    return [
        Stage.of(torch.ones(2 * count, 1), steps),
        Stage.of(torch.kron(torch.eye(count), torch.tensor([[1.0, -1.0]]))),
    ]


def number_checker(numbers: Sequence[int]) -> list[Stage]:
    r"""I_N: is an integer equal to N?

    .. math:: I_N(x) = ReLU(I_{>N-1}(x) - I_{>N}(x))

    1 for x = N, 0 for every other integer (AttributionLab, eqs. 3 and 7). I_{>N-1} and I_{>N} share
    the threshold N, so a number takes three: N - 1, N, N + 1.

    Parameters
    ----------
    numbers : sequence of int
        The N, one output each.

    Returns
    -------
    list of Stage
        1 -> 3M -> 2M -> M for M numbers.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.nets import evaluate, number_checker
    >>> x = torch.tensor([[4.0], [5.0], [6.0]])
    >>> evaluate(number_checker([5]), x)[-1].T
    tensor([[0., 1., 0.]], dtype=torch.float64)
    """
    count = len(numbers)
    each = torch.eye(count)
    thresholds = [float(-(number + offset)) for number in numbers for offset in (-1, 0, 1)]
    return [
        Stage.of(torch.ones(3 * count, 1), thresholds),
        # (I_{>N-1}, I_{>N}) from (ReLU(x - N + 1), ReLU(x - N), ReLU(x - N - 1))
        Stage.of(torch.kron(each, torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]))),
        Stage.of(torch.kron(each, torch.tensor([[1.0, -1.0]]))),
    ]
