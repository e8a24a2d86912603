"""Shapley values by their definition: every coalition of a few players."""

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.validation import integer_problem

MOST_PLAYERS = 20
"""A million coalitions; each further player doubles them."""
AT_ONCE = 2**16


def enumerated_shapley(
    value: Callable[[Bool[Tensor, "coalitions players"]], Float64[Tensor, " coalitions"]],
    players: int,
) -> Float64[Tensor, " players"]:
    r"""Shapley values of any game of at most 20 players, from all 2^n coalitions (Shapley, 1953).

    .. math::
        \phi_i = \sum_{S \not\ni i} \frac{|S|! \, (n - |S| - 1)!}{n!} \, [v(S \cup i) - v(S)]

    Parameters
    ----------
    value : callable
        v: from coalitions, one a row that is true where a player takes part, to one number each. It is
        called with at most 65,536 rows at a time, each coalition once.
    players : int
        n, 0 to 20.

    Returns
    -------
    Tensor of float64, (n,)
        Rounded by less than 2^-48 of the largest difference: sums are pairwise, their weights sum to 1.

    Raises
    ------
    AttributionLabError
        For more players: an estimate (`env.sampled_shapley`) serves them. For anything that `value`
        returns but one float64 number a coalition.

    Examples
    --------
    Two of three players are needed, and one of them must be the first:

    >>> from attributionlab.truth import enumerated_shapley
    >>> enumerated_shapley(lambda s: (s[:, 0] & s[:, 1:].any(1)).double(), 3)
    tensor([0.6667, 0.1667, 0.1667], dtype=torch.float64)
    """
    problems = integer_problem("players", players, 0, MOST_PLAYERS)
    if problems and isinstance(players, int) and players > MOST_PLAYERS:
        problems = [
            f"players is {players}: all 2^{players} coalitions are too many, take at most "
            f"{MOST_PLAYERS} or the estimate env.sampled_shapley"
        ]
    refuse_if(problems, "enumerated_shapley")
    # Player i takes part in coalition number c if bit i of c is set.
    bits = torch.arange(players, device="cpu")
    blocks = torch.split(torch.arange(2**players, device="cpu"), AT_ONCE)
    worth = torch.cat(
        [_worth(value, (block[:, None] >> bits & 1).bool()) for block in blocks]
    ).numpy()
    sizes = np.zeros(1, dtype=np.int64)
    for _ in range(
        players
    ):  # with a further player every coalition is there twice, once one larger
        sizes = np.concatenate([sizes, sizes + 1])
    weights = np.array([1 / (players * math.comb(players - 1, size)) for size in range(players)])
    shapley = np.zeros(players)
    for player in range(players):
        # (bits above, without or with the player, bits below)
        pairs = worth.reshape(-1, 2, 2**player)
        without = sizes.reshape(-1, 2, 2**player)[:, 0]
        shapley[player] = (weights[without] * (pairs[:, 1] - pairs[:, 0])).sum()
    return torch.from_numpy(shapley)


def _worth(
    value: Callable[[Bool[Tensor, "coalitions players"]], Float64[Tensor, " coalitions"]],
    coalitions: Bool[Tensor, "coalitions players"],
) -> Float64[Tensor, " coalitions"]:
    """What `value` gives, on the CPU."""
    given: object = value(coalitions)
    wanted = f"return a float64 tensor of shape ({len(coalitions)},), one number a coalition"
    if not isinstance(given, Tensor):
        raise AttributionLabError(
            f"enumerated_shapley: value returned {type(given).__name__}: {wanted}"
        )
    if given.dtype != torch.float64 or given.shape != (len(coalitions),):
        raise AttributionLabError(
            f"enumerated_shapley: value returned {given.dtype} of shape {tuple(given.shape)}: {wanted}"
        )
    return given.detach().cpu()
