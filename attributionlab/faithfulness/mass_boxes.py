r"""The largest mix of F1 values over all maps of one image: branch and bound, compiled by numba.

A map has the positive values p_k >= 0 and the negative ones n_k >= 0 (as magnitudes) on cell k of size
s_k, with p_k + n_k <= s_k, because no magnitude exceeds 1. For total masses P and N the mix is linear,

.. math:: \sum_k \alpha_k(P, N) p_k + \beta_k(P, N) n_k,

where each possible truth T of weight w adds 2 w / (P + |T|) to the :math:`\alpha_k` of its cells if it
is positive, 2 w / (N + |T|) to their :math:`\beta_k` if it is negative, and 2 w / (P + N + |T|) to both
if it is both together. Let V(P, N; P', N') be the maximum with the coefficients of (P', N') over
:math:`\sum p \le P, \sum n \le N`. By duality it is the least value, over :math:`\mu, \nu \ge 0`, of

.. math:: P \mu + N \nu + \sum_k s_k \max(0, \alpha_k - \mu, \beta_k - \nu),

and every :math:`\mu, \nu` gives a bound. The least lies where two of the lines
:math:`\mu = 0, \nu = 0, \mu = \alpha_k, \nu = \beta_k, \mu - \nu = \alpha_k - \beta_k` cross.

*Bound of a box* of masses, [a, a + g] x [b, b + h]. Let :math:`D_c, \mu_c, \nu_c` be value and
multipliers at its corners c, 00 the lower one of both masses. At a fraction x of the way from a to
a + g and y from b to b + h:

- 1 / (P + |T|) is convex in each mass, so a coefficient is at most the mean of its values at the four
  corners with the weights (1 - x)(1 - y), x (1 - y), (1 - x) y, x y;
- the maximum is convex and positively homogeneous in the coefficients, so it is at most the same mean
  of the maxima for the corners' coefficients;
- each of these is at most :math:`D_c + \mu_c (P - P_c) + \nu_c (N - N_c)`, by duality.

The mean of the :math:`D_c` is at most their maximum. The terms of P sum to
:math:`x (1 - x) g` times a mean of :math:`\mu_{00} - \mu_{10}` and :math:`\mu_{01} - \mu_{11}`, and
:math:`x (1 - x) \le 1/4`; those of N likewise. So nothing in the box exceeds

.. math:: \max_c D_c + \tfrac g4 \max(0, \mu_{00} - \mu_{10}, \mu_{01} - \mu_{11})
          + \tfrac h4 \max(0, \nu_{00} - \nu_{01}, \nu_{10} - \nu_{11}),

nor, since coefficients fall and capacities rise, :math:`D_{00} + \mu_{00} g + \nu_{00} h`.
A corner's D itself is reached: the best p and n have masses of at most P and N, hence F1 values that
are no smaller than with these. A box is halved along the mass whose term is larger.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.compiling import compiled

Numbers = NDArray[np.floating[Any]]

POSITIVE, NEGATIVE = 0, 1  # any other number: both together
MOST_BOXES = 200_000
MOST_WAITING = 1_000  # halves that wait are fewer than halvings in a row


@compiled
def solve_corner(
    positive_mass: float,
    negative_mass: float,
    sizes: Numbers,
    members: Numbers,
    kinds: NDArray[np.int64],
    weights: Numbers,
    truth_sizes: Numbers,
    found: Numbers,
) -> None:
    """Fill `found` (3,) with the maximum at two masses and the multipliers of both."""
    cells = len(sizes)
    alpha, beta = np.zeros(cells), np.zeros(cells)
    for truth in range(len(kinds)):
        mass = 0.0
        if kinds[truth] != NEGATIVE:
            mass += positive_mass
        if kinds[truth] != POSITIVE:
            mass += negative_mass
        share = 2 * weights[truth] / (mass + truth_sizes[truth])
        for cell in range(cells):
            if members[truth, cell]:
                if kinds[truth] != NEGATIVE:
                    alpha[cell] += share * members[truth, cell]
                if kinds[truth] != POSITIVE:
                    beta[cell] += share * members[truth, cell]
    best = np.inf
    # Crossings of vertical with horizontal lines (last = 0), and of each with the diagonals.
    for first in range(cells + 1):
        for second in range(cells + 1):
            for last in range(3 if second < cells else 1):
                mu = alpha[first] if first < cells else 0.0
                nu = beta[first] if first < cells else 0.0
                if last == 0:
                    nu = beta[second] if second < cells else 0.0
                elif last == 1:
                    nu = mu - alpha[second] + beta[second]
                else:
                    mu = nu + alpha[second] - beta[second]
                if mu < 0 or nu < 0:
                    continue
                value = positive_mass * mu + negative_mass * nu
                for cell in range(cells):
                    if value >= best:
                        break
                    value += sizes[cell] * max(0.0, alpha[cell] - mu, beta[cell] - nu)
                if value < best:
                    best = value
                    found[0], found[1], found[2] = value, mu, nu


@compiled
def largest_mix(
    sizes: Numbers,
    members: Numbers,
    kinds: NDArray[np.int64],
    weights: Numbers,
    truth_sizes: Numbers,
    tolerance: float,
) -> tuple[float, float]:
    """A mix of F1 values that some map reaches, and one that no map exceeds.

    They differ by at most the tolerance, or by more if that takes more than `MOST_BOXES` boxes. Both
    are rounded: relative errors of less than 10^4 * 2^-53 for up to 10^4 truths.

    - `sizes`: of the cells, above 0.
    - `members`: in [0, 1], how far each cell belongs to each possible truth.
    - `kinds`: `POSITIVE`, `NEGATIVE`, or 2 for both together.
    - `weights`: of each truth's F1 in the mix.
    - `truth_sizes`: above 0.
    - `tolerance`: above 0.
    """
    whole = sizes.sum() * (1 + 1e-12)  # no less than the exact sum
    waiting = np.zeros((MOST_WAITING, 17))  # a, b, g, h, four corners 00 10 01 11, the bound
    corner = np.zeros(3)
    halves = np.zeros((2, 17))
    reached = bound = 0.0
    root = halves[0]
    root[2] = root[3] = whole
    for place in range(4):
        solve_corner(
            (place % 2) * whole,
            (place // 2) * whole,
            *(sizes, members, kinds, weights, truth_sizes, corner),
        )
        root[4 + 3 * place : 7 + 3 * place] = corner
        reached = max(reached, corner[0])
    root[16] = box_bound(root)
    waiting[0], count, boxes = root, 1, 0
    while count:
        count -= 1
        box = waiting[count].copy()
        boxes += 1
        if box[16] <= reached + tolerance or boxes > MOST_BOXES or count + 2 > MOST_WAITING:
            bound = max(bound, box[16])
            continue
        along = 0 if along_positive(box) >= along_negative(box) else 1
        halves[0], halves[1] = box, box
        half = box[2 + along] / 2
        halves[0, 2 + along] = halves[1, 2 + along] = half
        halves[1, along] += half
        for side in range(2):  # the two new corners end the first half and begin the second
            before = 4 + 3 * (side * (2 if along == 0 else 1))
            after = before + 3 * (1 if along == 0 else 2)
            solve_corner(
                halves[1, 0] if along == 0 else box[0] + side * box[2],
                halves[1, 1] if along == 1 else box[1] + side * box[3],
                *(sizes, members, kinds, weights, truth_sizes, corner),
            )
            halves[0, after : after + 3] = corner
            halves[1, before : before + 3] = corner
            reached = max(reached, corner[0])
        for side in range(2):
            halves[side, 16] = min(box[16], box_bound(halves[side]))
        promising = 0 if halves[0, 16] > halves[1, 16] else 1
        for side in (1 - promising, promising):
            if halves[side, 0] + halves[side, 1] <= whole:  # else the cells hold less
                waiting[count] = halves[side]
                count += 1
    return reached, max(bound, reached)


@compiled
def along_positive(box: Numbers) -> float:
    """What the bound of a box allows for the curve between its two positive masses."""
    return box[2] / 4 * max(0.0, box[5] - box[8], box[11] - box[14])  # type: ignore[no-any-return]


@compiled
def along_negative(box: Numbers) -> float:
    """What the bound of a box allows for the curve between its two negative masses."""
    return box[3] / 4 * max(0.0, box[6] - box[12], box[9] - box[15])  # type: ignore[no-any-return]


@compiled
def box_bound(box: Numbers) -> float:
    """What no map with masses in a box exceeds; the formulas are the module's."""
    highest = max(box[4], box[7], box[10], box[13])
    curved = highest + along_positive(box) + along_negative(box)
    return min(curved, box[4] + box[5] * box[2] + box[6] * box[3])  # type: ignore[no-any-return]
