r"""The number checker, 1 for one integer and 0 for every other; and the color detector: one channel per
color, and channels for colors that it was not made for.
"""

from collections.abc import Sequence
from typing import Annotated

import torch

from attributionlab.base import (
    EXACT_STEPS,
    AttributionLabError,
    Byte,
    Within,
    checked_arguments,
    not_empty,
)
from attributionlab.worlds.nets.exactness import LayerBudget, Signal, stage_budget, stages_budget
from attributionlab.worlds.nets.stage import Stage

Numbers = Annotated[
    Sequence[Annotated[int, Within(least=-EXACT_STEPS, most=EXACT_STEPS)]], not_empty
]


@checked_arguments
def greater_than(thresholds: Numbers) -> list[Stage]:
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
    >>> from attributionlab.worlds.nets import evaluate, greater_than
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


@checked_arguments
def number_checker(numbers: Numbers) -> list[Stage]:
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
    >>> from attributionlab.worlds.nets import evaluate, number_checker
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


Color = tuple[Byte, Byte, Byte]
"""Red, green and blue, integers in [0, 255]."""
MOST_REDUNDANT = 256
"""Far above any use, far below what exhausts memory before the exactness budget can refuse it."""
Redundant = Annotated[int, Within(least=0, most=MOST_REDUNDANT)]


@checked_arguments
def color_detector(
    colors: Sequence[Color], background: Color, redundant_channels: Redundant = 0
) -> list[Stage]:
    r"""C and R: which color is a pixel, and is it one that the detector does not know?

    .. math::
        C(r, g, b) &= ReLU(I_R(r) + I_G(g) + I_B(b) - 2) \\
        R(r, g, b) &= ReLU(1 - \sum_i C_i(r, g, b))

    C is 1 for its color (R, G, B) and 0 for every other (AttributionLab, eqs. 4 and 14). R is 1 where
    none of the C fires, the background's included, and 0 elsewhere (eqs. 5 and 15): the Unseen Data
    Effect. The last layer drops the background's channel.

    Parameters
    ----------
    colors : sequence of Color
        The colors to detect, one channel each, in this order.
    background : Color
        Known, so no redundant channel fires on it, but without a channel of its own.
    redundant_channels : int
        N_R, how many copies of R follow the colors' channels.

    Returns
    -------
    list of Stage
        3 -> 9K -> 6K -> 3K -> K -> len(colors) + N_R, where K = len(colors) + 1. Number checkers come
        color by color, the background last, each color's red, green and blue in turn.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.worlds.nets import color_detector, evaluate
    >>> stages = color_detector([(255, 127, 0)], background=(20, 20, 20), redundant_channels=2)
    >>> pixels = torch.tensor([[255.0, 127, 0], [20, 20, 20], [0, 0, 0]])
    >>> evaluate(stages, pixels)[-1]
    tensor([[1., 0., 0.],
            [0., 0., 0.],
            [0., 1., 1.]], dtype=torch.float64)
    """
    known = [*colors, background]
    count = len(known)
    thresholds, between, equal = number_checker([value for color in known for value in color])
    # The number checkers read one input; here each reads the channel of its number.
    channel_of_checker = torch.eye(3).repeat(count, 1)  # (3K, 3)
    every_color = torch.eye(len(colors), count)  # drops the background, which is last
    unknown = -torch.ones(redundant_channels, count)
    return [
        Stage(channel_of_checker.repeat_interleave(3, dim=0), thresholds.bias),
        between,
        equal,
        Stage.of(torch.kron(torch.eye(count), torch.ones(1, 3)), -2.0),
        Stage.of(
            torch.cat([every_color, unknown]), [0.0] * len(colors) + [1.0] * redundant_channels
        ),
    ]


@checked_arguments
def shade_detector(
    colors: Annotated[Sequence[Annotated[Sequence[Color], not_empty]], not_empty],
) -> list[Stage]:
    r"""C for colors of several values: is a pixel any of the shades of a color?

    .. math::
        C_s(r, g, b) &= ReLU(I_R(r) + I_G(g) + I_B(b) - 2) \\
        C(r, g, b) &= ReLU(\textstyle\sum_s C_s(r, g, b))

    over the shades s = (R, G, B) of the color. A number that several shades have in one channel is
    checked once.

    Parameters
    ----------
    colors : sequence of sequence of Color
        For each color its shades; no value belongs to two colors, none is there twice.

    Returns
    -------
    list of Stage
        3 -> 3V -> 2V -> V -> S -> len(colors) for V numbers in the three channels and S shades. Number
        checkers come channel by channel, the numbers of each in rising order.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.worlds.nets import evaluate, shade_detector
    >>> stages = shade_detector([[(200, 100, 20), (210, 110, 30)], [(20, 20, 200)]])
    >>> pixels = torch.tensor([[200.0, 100, 20], [210, 110, 30], [200, 110, 20], [20, 20, 200]])
    >>> evaluate(stages, pixels)[-1]
    tensor([[1., 0.],
            [1., 0.],
            [0., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    shades = [tuple(shade) for color in colors for shade in color]
    if len(set(shades)) < len(shades):
        twice = next(shade for shade in shades if shades.count(shade) > 1)
        raise AttributionLabError(
            f"colors have the value {twice} twice: give each value to one color"
        )
    checked = sorted({(k, shade[k]) for shade in shades for k in range(3)})
    thresholds, between, equal = number_checker([number for _, number in checked])
    channels = torch.eye(3)[[channel for channel, _ in checked]]  # (V, 3)
    has_number = [[float(shade[k] == number) for k, number in checked] for shade in shades]
    of_color = [[float(shade in map(tuple, color)) for shade in shades] for color in colors]
    return [
        Stage(channels.repeat_interleave(3, dim=0), thresholds.bias),
        between,
        equal,
        Stage.of(torch.tensor(has_number), -2.0),
        Stage.of(torch.tensor(of_color)),
    ]


@checked_arguments
def detector_budget(
    stages: Annotated[Sequence[Stage], not_empty],
) -> tuple[Signal, list[LayerBudget]]:
    """Check a color detector against the exactness budget, over all 2^24 colors.

    A number checker depends on one channel only, so 256 values give its exact range in every layer.
    Behind the checkers each answer is 0 or 1, since no color is two of the known ones.
    """
    values = torch.arange(256.0).expand(3, -1).T  # (256, 3): every value in every channel
    signal = Signal(torch.full((3,), 255.0).double(), torch.ones(3).double())
    signal, budgets = stages_budget("detector layer", stages[:3], signal, values)
    for index, stage in enumerate(stages[3:], start=4):
        known = torch.ones(len(stage.bias)).double()
        signal, budget = stage_budget(f"detector layer {index}", stage, signal, known)
        budgets.append(budget)
    return signal, budgets
