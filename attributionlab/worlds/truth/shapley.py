r"""Exact Shapley values of counting networks, whose players are the pixels of an image.

What a coalition gives depends on the counts that it leaves, so pixels that do the same to the counts
are interchangeable: arriving ones, which count when present; leaving ones, which count when absent,
because the baseline does there; and constant ones, which count either way and are no players.
`enumerated_shapley` is the definition: every coalition of a few players.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from attributionlab.base import AttributionLabError, Numbers, Within, checked_arguments, refuse_if
from attributionlab.worlds.truth.arrivals import ClassCount, times
from attributionlab.worlds.truth.gumbel import COLDEST, WARMEST, SoftmaxGame

MOST_PLAYERS = 20
"""A million coalitions; each further player doubles them."""
AT_ONCE = 2**16


def few(name: str, value: int) -> list[str]:
    """What is wrong with a number of players of whom all coalitions are asked, for its annotation."""
    if 0 <= value <= MOST_PLAYERS:
        return []
    return [
        f"{name} is {value}, but all coalitions are evaluated: take 0 to {MOST_PLAYERS}, or the "
        "estimate env.sampled_shapley"
    ]


@checked_arguments
def enumerated_shapley(
    value: Callable[[Bool[Tensor, "coalitions players"]], Float64[Tensor, " coalitions"]],
    players: Annotated[int, few],
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

    >>> from attributionlab.worlds.truth import enumerated_shapley
    >>> enumerated_shapley(lambda s: (s[:, 0] & s[:, 1:].any(1)).double(), 3)
    tensor([0.6667, 0.1667, 0.1667], dtype=torch.float64)
    """
    # Player i takes part in coalition number c if bit i of c is set.
    bits = torch.arange(players, device="cpu")
    blocks = torch.split(torch.arange(2**players, device="cpu"), AT_ONCE)
    worth = torch.cat(
        [_coalition_values(value, (block[:, None] >> bits & 1).bool()) for block in blocks]
    ).numpy()
    weights = coalition_weights(players)
    shapley = [float((weights * changes(worth, player)).sum()) for player in range(players)]
    return torch.tensor(shapley, dtype=torch.float64)


@lru_cache(maxsize=4)
def coalition_weights(players: int) -> Numbers:
    """Shapley's weights of the coalitions of all players but one, numbered by their bits."""
    sizes = np.zeros(2**players // 2, dtype=np.int64)
    for bit in range(players - 1):
        sizes += np.arange(len(sizes)) >> bit & 1
    weights = [1 / (players * math.comb(players - 1, size)) for size in range(players)]
    return np.array(weights)[sizes]


def changes(worth: Numbers, player: int) -> Numbers:
    """What a player adds to each coalition of the others, in order, from the worth of every one."""
    pairs = worth.reshape(-1, 2, 2**player)  # (bits above, without or with the player, bits below)
    return (pairs[:, 1] - pairs[:, 0]).reshape(-1)


def _coalition_values(
    value: Callable[[Bool[Tensor, "coalitions players"]], Float64[Tensor, " coalitions"]],
    coalitions: Bool[Tensor, "coalitions players"],
) -> Float64[Tensor, " coalitions"]:
    """What `value` gives, on the CPU."""
    given: object = value(coalitions)
    wanted = f"return a float64 tensor of shape ({len(coalitions)},), one number per coalition"
    if not isinstance(given, Tensor):
        raise AttributionLabError(
            f"enumerated_shapley: value returned {type(given).__name__}: {wanted}"
        )
    if given.dtype != torch.float64 or given.shape != (len(coalitions),):
        raise AttributionLabError(
            f"enumerated_shapley: value returned {given.dtype} of shape {tuple(given.shape)}: {wanted}"
        )
    return given.detach().cpu()


class ShapleyValues(NamedTuple):
    """Values of one pixel of each class, and how far off they may be.

    - `values`: value of a pixel that counts when present; 0 for a class without any: there is no such
      player.
    - `error`: bound of the sum over all pixels of |value - exact value|, in units of the output.
    - `leaving`: the same for a pixel that counts when absent.
    - `relative`, `absolute`: each value is off by no more than `relative` times its size, plus
      `absolute`.
    """

    values: Float64[Tensor, " classes"]
    error: float
    leaving: Float64[Tensor, " classes"]
    relative: float
    absolute: float


@checked_arguments
def symmetric_shapley(
    empty: float, full: float, players: Annotated[int, Within(least=0, most=2**53)]
) -> float:
    """Value of each of n interchangeable players: (v(n) - v(0)) / n, by symmetry and efficiency.

    Parameters
    ----------
    empty, full : float
        What the game gives to nobody and to all players.
    players : int
        n; without any the value is 0.

    Examples
    --------
    >>> from attributionlab.worlds.truth import symmetric_shapley
    >>> symmetric_shapley(0, 65 % 30, 65) * 65  # 65 white pixels, counted modulo 30
    5.0
    """
    return (full - empty) / players if players else 0.0


def remainder_shapley(pixels: ClassCount, modulus: int) -> tuple[float, float, float]:
    r"""Shapley values of k mod N where some pixels arrive and others leave.

    One more pixel adds 1, or takes N - 1 away where the count reaches a multiple of N:

    .. math::
        \phi = \pm \Big(1 - N \int_0^1 P(k \equiv -1 \pmod N) \, du\Big),

    + for a pixel that arrives, - for one that leaves, and k the count of all other pixels at time u.

    `pixels`: pixels of the class counted. `modulus`: N, at least 2.

    Result: `arriving, leaving, error`: the two values, 0 where there is no such pixel, and a bound of
    the error of each.
    """
    players = pixels.arriving + pixels.leaving
    if not players:
        return 0.0, 0.0, 0.0
    nodes = times(players)
    wraps = np.zeros((2, len(nodes.u)))
    for node, (u, v) in enumerate(zip(nodes.u, nodes.v, strict=True)):
        low, _, *without = pixels.at(u, v)
        wraps[:, node] = [p[(-1 - low) % modulus :: modulus].sum() for p in without]
    arriving, leaving = (1 - modulus * (nodes.weights * wraps).sum(-1)) * [1, -1]
    # Probabilities are products of up to a window's length of ratios, each rounded three times.
    low, high = pixels.bounds(0.5, 0.5)
    error = modulus * (nodes.error + (200 + 3 * (high - low)) * 2.0**-53)
    return (
        float(arriving) if pixels.arriving else 0.0,
        float(leaving) if pixels.leaving else 0.0,
        error,
    )


@checked_arguments
def softmax_shapley(
    counts: Int[Tensor, " classes"],
    target: int,
    temperature: Annotated[float, Within(above=0, most=WARMEST)],
    *,
    leaving: Int[Tensor, " classes"] | None = None,
    constant: Int[Tensor, " classes"] | None = None,
) -> ShapleyValues:
    r"""Shapley values of p_t = softmax(k / T)_t, for one pixel of each class.

    A player comes at a random time; those before it at time u are each there with probability u:

    .. math::
        \phi_c = \int_0^1 E[v(k + e_c) - v(k)] \, du, \qquad
        k_j = o_j + Bin(n_j, u) + Bin(m_j, 1 - u),

    k without the player itself, n_j pixels arriving, m_j leaving and o_j constant. Leaving pixels have
    the value that an arriving one would have, negated. With Gumbel's cumulative :math:`h(d) =
    exp(-e^d)` and density :math:`g(d) = exp(d - e^d)` the softmax is an integral of a product (see
    `attributionlab.truth.gumbel`) and so is its expectation, because the k_j are independent. For c
    other than t

    .. math::
        \phi_c = \int_0^1 \int E[g_t] \, E[h_c(k_c + 1) - h_c(k_c)]
            \prod_{j \ne t, c} E[h_j] \, ds \, du

    and phi_t is minus the sum of the values that a pixel of t has for the other outputs, since all
    outputs sum to 1. No term of these sums has the other sign: nothing cancels.

    The error is bounded, not estimated. Of the integral over u, by the size of the Chebyshev
    coefficients of any game with so many players (`attributionlab.truth.arrivals.times`). Of the
    integral over s, a trapezoidal sum over the whole line, by the strip in which its integrand is
    analytic; sums over wide binomials skip counts by the same argument. Of rounding, by the number of
    roundings in a row, which sums of terms of one sign do not amplify. Some 0.2 s for an image of 224 x
    224 pixels of which a seventh count, 0.5 s if all do; 2 s at temperatures below 1 / 8.

    Parameters
    ----------
    counts : Tensor of int, (K,)
        n, how many pixels count for each class when present and for none when absent; K at least 1.
    target : int
        t.
    temperature : float
        T > 0.
    leaving, constant : Tensor of int, (K,), optional
        m and o; 0 by default.

    Returns
    -------
    ShapleyValues
        Arriving pixels: positive for the target, negative for the others (0 where K = 1).

    Raises
    ------
    AttributionLabError
        For negative counts, a target out of range, or a temperature that is not positive and finite.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.worlds.truth import softmax_shapley
    >>> values = softmax_shapley(torch.tensor([3, 1]), target=0, temperature=2.0).values
    >>> round(3 * float(values[0]) + float(values[1]), 9)  # sigmoid(1) - 1/2
    0.231058579
    """
    parts = [part for part in (counts, leaving, constant) if part is not None]
    pixels = [part.tolist() for part in parts]
    problems = [f"a count is {n}: take at least 0" for part in pixels for n in part if n < 0][:1]
    if not 0 <= target < len(counts):
        problems.append(f"target is {target}: take 0 to {len(counts) - 1}")
    refuse_if(problems, "softmax_shapley")
    none = [0] * len(counts)
    others = [none if part is None else part.tolist() for part in (leaving, constant)]
    classes = tuple(map(ClassCount, counts.tolist(), *others))
    return _of_classes(classes, target, temperature)


def _of_classes(classes: tuple[ClassCount, ...], target: int, temperature: float) -> ShapleyValues:
    others = [*classes[:target], *classes[target + 1 :]]
    distinct = sorted(set(others))
    copies = np.array([others.count(each) for each in distinct], dtype=np.int64)
    game = SoftmaxGame(distinct, copies, classes[target], max(temperature, COLDEST))
    values, relative, absolute = game.shapley()
    if temperature < COLDEST:
        absolute += 4 * len(others) * math.exp(-1 / COLDEST)
    places = [distinct.index(each) for each in others]
    places.insert(target, len(distinct))
    arriving, leaving = values[:, places]
    movers = np.array([[each.arriving, each.leaving] for each in classes]).T
    error = float((movers * (relative * abs(values[:, places]) + absolute)).sum())
    return ShapleyValues(
        torch.from_numpy(arriving), error, torch.from_numpy(leaving), relative, absolute
    )


cached_softmax_shapley = lru_cache(maxsize=4096)(_of_classes)
"""For the same images again and again; callers share its tensors, and must not change them."""
