r"""What a map can score that cannot see something: proven ceilings.

An image shows m *cells*: cell k is all its pixels of one color, s_k of them. A network counts K of the
colors, one for each class; who does not see the network does not know which (its *roles*), and who does
not see the target does not know which class a question is about. For a map that is the same for all
questions that are possible for its maker, the truth is random, and the mean F1 has a ceiling below 1.

Everything here is arithmetic on masses: a map in [-1, 1] puts the positive mass p_k and the negative
mass n_k on cell k. A cell need not be constant, so all that holds is p_k + n_k <= s_k. Half of a cell
+1 and the other half -1 is blind, too, and may score more than any map that is constant on cells.

*Sure or expected.* Where all possible questions about an image are asked (all classes, twins), a map
that is the same for all of them never scores more than the ceiling. Where one was drawn at random, the
ceiling holds for the expected score, and `tail_bound` says how far chance may carry it.

A question about a color that its image does not show has no positive truth; it is not asked, here and
in the recipes, which draw again.
"""

import hashlib
import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.truth import Output
from attributionlab.validation import integer_problem, number_problem

Numbers = NDArray[np.float64]

TOLERANCE = 1e-4
"""How far a ceiling may lie above what some map reaches for each image."""
MOST_QUESTIONS = 20_000
"""Possible questions about one image."""
ROUNDING = 1e-9
"""Scores of at most 1, from sums of fewer than 10^6 terms in float64: 10^6 * 2^-53 < 1e-9."""
LEAST_CELL = 1e-9
"""Of a cell that is not empty, as a share of all: below it 1 / size is no longer exact enough."""
LEAST_TOLERANCE = 1e-8
"""Ten times the rounding: intervals would be halved without end."""
SEARCHED = 48
"""Cells of all images together among which the weights of the parts are looked for: 8 images of 6."""
PARTS = "positive", "negative", "overall"
"""In the order of the kinds of `attributionlab.faithfulness.mass_boxes`."""
CLAIMED = {"signed": PARTS, "overall": ("overall",), "positive": ("positive",)}


Shares = NDArray[np.bool_] | Numbers


class Truths(NamedTuple):
    """Possible truths of one part, as sets of cells."""

    members: Numbers
    """(T, m): which cells belong to each, as far as they do; all different"""
    weights: Numbers
    """(T,): their probabilities, which sum to 1"""


@dataclass(frozen=True, eq=False)
class Possible:
    """Questions about one image that are possible for who knows only a part of what is asked.

    `positive`: the cells that raise the output: where colors count, that of the target. Of a cell that
    does so in part only, its share that does, of which a map that is the same all over it knows no
    more. `negative`: the cells that lower it: those of all other classes, none for logits, where only
    the target's cell matters. `weights`: probabilities, which sum to 1.
    """

    positive: Shares
    negative: Shares
    weights: Numbers

    @property
    def cells(self) -> int:
        """The number m of cells."""
        return int(self.positive.shape[1])

    @property
    def is_known(self) -> bool:
        """Whether there is one question only, of whole cells, so that a map can be its truth."""
        whole = all(np.isin(each, (0, 1)).all() for each in (self.positive, self.negative))
        return len(self.weights) == 1 and whole

    def asked(self, sizes: Numbers) -> Numbers:
        """Probabilities (Q,) given that the image shows a positive cell; all 0 if it shows none."""
        weights = self.weights * (self.positive @ sizes > 0)
        return weights / (weights.sum() or 1.0)

    def truths(self, sizes: Numbers) -> dict[str, Truths]:
        """Truths by part, without the parts that no question has on cells of these sizes (m,)."""
        asked, found = self.asked(sizes), {}
        for part, (members, which) in self._distinct.items():
            weights = np.bincount(which, asked, len(members)) * (members @ sizes > 0)
            if weights.any():
                found[part] = Truths(members[weights > 0], weights[weights > 0] / weights.sum())
        return found

    @cached_property
    def _distinct(self) -> dict[str, tuple[Numbers, NDArray[np.intp]]]:
        """By part the different sets of cells, and which of them each question has."""
        both = self.positive.astype(float) + self.negative
        found = {}
        for part, sets in zip(PARTS, (self.positive, self.negative, both), strict=True):
            members, which = np.unique(sets, axis=0, return_inverse=True)
            found[part] = members.astype(float), which.reshape(-1)
        return found


def unknown_roles(cells: int, classes: int, output: Output) -> Possible:
    """Questions that are possible for a map made without the network, with the target or without.

    Every choice of a cell for the target and of cells for the other classes is equally likely. The
    number of the class tells nothing of its color, so that knowing the target does not help.

    `cells`: m, the colors of the palette from which roles are drawn, those that the network ignores
    included. `classes`: K, how many the network counts; 1 for a regression. `output`: what is
    explained. For a probability, the other classes' cells are its negative truth.

    Raises AttributionLabError for more classes than cells, or more than 20,000 possible questions.
    """
    problems = integer_problem("cells", cells, 1) or integer_problem("classes", classes, 1, cells)
    refuse_if(problems)
    against = classes - 1 if output == "probability" else 0
    count = cells * math.comb(cells - 1, against)
    if count > MOST_QUESTIONS:
        raise AttributionLabError(
            f"{cells} cells and {classes} classes make {count} possible questions: take fewer, at most "
            f"{MOST_QUESTIONS}"
        )
    targets = np.repeat(np.arange(cells), count // cells)
    others = np.zeros((count, cells), dtype=bool)
    question = 0
    for target in range(cells):
        rest = [cell for cell in range(cells) if cell != target]
        for chosen in combinations(rest, against):
            others[question, list(chosen)] = True
            question += 1
    return Possible(targets[:, None] == np.arange(cells), others, np.full(count, 1 / count))


def unknown_target(roles: Sequence[int], cells: int, output: Output) -> Possible:
    """Questions that are possible for a map made with the network and without the target.

    Each class is the target equally often; parameters and errors of `known_questions`.
    """
    return known_questions([(roles, target) for target in range(len(roles))], cells, output)


def known_questions(
    questions: Sequence[tuple[Sequence[int], int]], cells: int, output: Output
) -> Possible:
    """Questions that are all asked about one image, of maps that must be the same for all of them.

    `questions`: roles (the cell of each class) and target (a class) of each, such as twins' and all
    classes'. `cells`: m, the colors of the palette. `output`: what is explained.

    Raises AttributionLabError for no question, and for roles or targets that contradict each other or
    the cells.
    """
    problems = [] if len(questions) else ["there is no question: pass at least one"]
    for roles, target in questions:
        if len(set(roles)) < len(roles) or not set(roles) <= set(range(cells)):
            problems.append(
                f"roles are {tuple(roles)}: take a cell from 0 to {cells - 1} for each class, each "
                "another one"
            )
        problems += integer_problem("target", target, 0, len(roles) - 1)
    refuse_if(problems)
    others = np.zeros((len(questions), cells), dtype=bool)
    for row, (roles, target) in zip(others, questions, strict=True):
        if output == "probability":
            row[list(roles)] = True
            row[roles[target]] = False
    targets = np.array([roles[target] for roles, target in questions], dtype=np.intp)
    positive = targets[:, None] == np.arange(cells)
    return Possible(positive, others, np.full(len(targets), 1 / len(targets)))


def ceiling(
    images: Sequence[tuple[Possible, Any]], claim: str = "signed", tolerance: float = TOLERANCE
) -> float:
    r"""An upper bound of a claim's score for maps that are the same for all possible questions.

    *One part.* For a map a on the cells, 0 <= a_k <= s_k, possible truths T of weights w_T, and the
    total mass A of the map, the mean F1 is :math:`\sum_T 2 w_T a(T) / (A + |T|)`: linear in a for a
    given A. So its maximum for a given A fills cells in the order of what they gain, and A alone is
    searched, by branch and bound (`smooth_ceiling` states the bound). For the overall part a = p + n,
    for the positive part a = p.

    *A corollary* for m positive truths that do not overlap, of any sizes and equally likely: the mean
    positive F1 is at most 2 / (m + 1). Let y_T = a(T) / A; these sum to at most 1. Because :math:`|T|
    \ge a(T)`, each F1 is at most 2 y_T / (1 + y_T), which is concave, so that the mean of m is at most
    its value at y = 1 / m. Equality needs equal sizes. What follows a target of which nothing is
    known, among m = K + D counted and ignored colors, therefore never reaches gamma = 0.5 from m = 4
    on.

    *"signed"*, the lowest of three means over n images. For any weights :math:`\lambda` of the parts
    that are not negative and sum to 1,

    .. math:: \min_c \frac1n \sum_i F_{ci} \le \sum_c \lambda_c \frac1n \sum_i F_{ci}
              \le \frac1n \sum_i \max_{p, n} \sum_c \lambda_c F_{ci}(p, n),

    with the *same* weights for all images: the mean of each image's own best minimum is no bound, since
    one image may serve one part and the next another. Every choice is valid. A good one is looked for
    on a few of the images, and then all are bounded with it (`attributionlab.faithfulness.mass_boxes`
    proves how). A part that some images do not have has its mean over those that do.

    `images`: possible questions, and sizes of the cells in pixels (m,), 0 where an image does not show
    one. `claim`: for "positive-smoothed" see `smooth_ceiling`; "agreed" leaves out pixels of every
    color and has no ceiling yet. `tolerance`: how far the bound may lie above what maps reach for the
    weights it uses, at least 1e-8; it is included.

    Result: in (0, 1]. Raises AttributionLabError for another claim, no images, sizes that do not fit,
    an image that shows the target of no possible question, and one for which some questions have a
    negative truth and others do not.

    Source: Jensen, "Sur les fonctions convexes et les inégalités entre les valeurs moyennes", Acta
    Mathematica, 1906. Land and Doig, "An Automatic Method of Solving Discrete Programming Problems",
    Econometrica, 1960 (branch and bound).
    """
    refuse_if(
        [*claim_problem(claim), *number_problem("tolerance", tolerance, least=LEAST_TOLERANCE)]
    )
    known = checked_sizes(images)
    if all(possible.is_known for possible, _ in known):
        return 1.0  # the truth itself is such a map
    return _ceiling(_Images(known), claim, tolerance)


class _Images:
    """Possible questions about images and the sizes of their cells; equal where all numbers are."""

    def __init__(self, known: Sequence[tuple[Possible, Numbers]]) -> None:
        self.known = known
        content = hashlib.sha256()
        for possible, sizes in known:
            for each in (possible.positive, possible.negative, possible.weights, sizes):
                content.update(str((each.dtype, each.shape)).encode() + each.tobytes())
        self._content = content.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Images) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)


@lru_cache(maxsize=32)  # who compares methods asks about the same images again and again
def _ceiling(images: _Images, claim: str, tolerance: float) -> float:
    """`ceiling` of what has been checked."""
    known = images.known
    truths = [possible.truths(sizes) for possible, sizes in known]
    if claim == "signed" and any("negative" in each for each in truths):
        return _signed_ceiling([sizes for _, sizes in known], truths, tolerance)
    part = "overall" if claim == "overall" else "positive"  # without negatives they have one truth
    bounds = [
        _largest_f1(each[part].members, each[part].weights, sizes, tolerance)
        for each, (_, sizes) in zip(truths, known, strict=True)
    ]
    return min(1.0, float(np.mean(bounds)) + ROUNDING)


def smooth_ceiling(truths: Any, tolerance: float = 1e-3) -> float:
    r"""An upper bound of the mean F1 of one map in [0, 1] against several smooth truths.

    That is of :math:`\frac1Q \sum_q 2 \sum_j a_j g_{qj} / (A + G_q)` with :math:`A = \sum_j a_j` and
    :math:`G_q = \sum_j g_{qj}`, as of the claim "positive-smoothed" for who does not know which of the
    questions is asked. For a given A the gain of pixel j is :math:`c_j(A) = \frac1Q \sum_q 2 g_{qj} /
    (A + G_q)`, and pixels of the largest gains are filled. Let V(A, A') be the maximum for the gains of
    A' over maps of mass <= A; by duality it is at most

    .. math:: D(A') + \mu (A - A'), \quad D(A') = A' \mu + \sum_j \max(0, c_j(A') - \mu)

    for any :math:`\mu \ge 0`, with equality at A = A' for the gain :math:`\mu` of the first pixel that
    is not filled. *Bound of an interval* [a, b]: gains are convex in A, and V is convex and positively
    homogeneous in gains, so a fraction x of the way from a to b the maximum is at most (1 - x) V(A, a)
    + x V(A, b). Inserting the line above gives a mean of D(a) and D(b) plus :math:`x (1 - x) (b - a)
    (\mu_a - \mu_b)`, hence at most

    .. math:: \max(D(a), D(b)) + \tfrac{b - a}4 \max(0, \mu_a - \mu_b).

    The interval with the largest bound is halved until it is at most the tolerance above the largest D
    found, which some map reaches.

    `truths` (Q, P): in [0, 1], the truth of each equally likely question on P pixels, none of them 0
    everywhere. `tolerance`: how far the bound may lie above what a map reaches, at least 1e-8; it is
    included.

    Result: in (0, 1]. Raises AttributionLabError for truths that are no such array.
    """
    refuse_if(number_problem("tolerance", tolerance, least=LEAST_TOLERANCE))
    values = np.asarray(truths, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise AttributionLabError(
            f"truths have shape {values.shape}: pass (Q, P), a row of pixels for each question"
        )
    if not ((values >= 0) & (values <= 1)).all() or not values.any(1).all():
        raise AttributionLabError(
            f"truths lie in [{values.min():g}, {values.max():g}], {int((~values.any(1)).sum())} of "
            "them 0 everywhere: pass values in [0, 1], without questions that have no truth"
        )
    weights = np.full(len(values), 1 / len(values))
    bound = _largest_f1(values, weights, np.ones(values.shape[1]), tolerance)
    return min(1.0, bound + ROUNDING)


def tail_bound(score: float, ceiling: float, n: int) -> float:
    r"""The most probable that a score above its ceiling is by chance: exp(-n KL(score || ceiling)).

    KL is the divergence of two coins, :math:`x \ln(x / c) + (1 - x) \ln((1 - x) / (1 - c))`. The
    claim's score of n questions that were drawn independently is at most the mean of :math:`Z_i =
    \sum_c \lambda_c F_{ci}` (see `ceiling`); the Z_i are independent, lie in [0, 1] where every
    question has every part of the claim, and have a mean expectation of at most the ceiling. So
    Hoeffding's Theorem 1, inequality 2.1, applies; its bound grows with that expectation up to the
    score.

    `score`, `ceiling`: in [0, 1]. `n`: questions.

    Result: in [0, 1]; 1 for a score that does not exceed the ceiling. Raises AttributionLabError for
    numbers outside these ranges.

    Source: Hoeffding, "Probability Inequalities for Sums of Bounded Random Variables", Journal of the
    American Statistical Association, 1963.
    """
    refuse_if(
        [
            *number_problem("score", score, least=0, most=1),
            *number_problem("ceiling", ceiling, least=0, most=1),
            *integer_problem("n", n, 1),
        ]
    )
    if score <= ceiling:
        return 1.0
    if ceiling == 0:
        return 0.0
    divergence = score * math.log(score / ceiling)
    if score < 1:
        divergence += (1 - score) * math.log((1 - score) / (1 - ceiling))
    return math.exp(-n * divergence)


def claim_problem(claim: str) -> list[str]:
    """What is wrong with a claim for which nothing is proved here."""
    if claim in CLAIMED:
        return []
    return [f"claim is {claim!r}, which has no ceiling on cells: take one of {', '.join(CLAIMED)}"]


def checked_sizes(images: Sequence[tuple[Possible, Any]]) -> list[tuple[Possible, Numbers]]:
    """Possible questions and sizes as arrays, if they fit each other."""
    known = [(possible, np.asarray(sizes, dtype=np.float64)) for possible, sizes in images]
    problems = [] if known else ["there is no image: pass at least one"]
    for place, (possible, sizes) in enumerate(known):
        if sizes.shape != (possible.cells,) or not np.isfinite(sizes).all() or (sizes < 0).any():
            problems.append(
                f"sizes of image {place} are {sizes.tolist()}: pass {possible.cells} numbers of "
                "pixels, 0 for a cell that it does not show"
            )
        elif (sizes[sizes > 0] < LEAST_CELL * sizes.sum()).any():
            problems.append(
                f"sizes of image {place} are {sizes.tolist()}: pass no cell below {LEAST_CELL:g} of all"
            )
        elif not (asked := possible.asked(sizes) > 0).any():
            problems.append(
                f"image {place} shows the target of no possible question: leave it out or draw it again"
            )
        elif len(set((possible.negative[asked] @ sizes > 0).tolist())) > 1:
            problems.append(
                f"image {place} has sizes {sizes.tolist()}, with which some possible questions have a "
                "negative truth and others none: draw an image that shows more of the colors"
            )
    refuse_if(problems)
    return known


def _signed_ceiling(
    sizes: Sequence[Numbers], truths: Sequence[dict[str, Truths]], tolerance: float
) -> float:
    """The bound of the lowest of three means, with weights that a few of the images suggest."""
    share = {part: len(truths) / max(1, sum(part in each for each in truths)) for part in PARTS}

    def mean(weights: tuple[float, ...], places: NDArray[np.intp]) -> float:
        scaled = {part: each * share[part] for part, each in zip(PARTS, weights, strict=True)}
        bounds = [_largest_mix(sizes[i], truths[i], scaled, tolerance) for i in places]
        return float(np.mean(bounds))

    images = max(1, SEARCHED // max(map(len, sizes)))
    few = np.unique(np.linspace(0, len(sizes) - 1, images).astype(np.intp))
    best: tuple[float, ...] = (0.5, 0.25, 0.25)
    step = 0.125
    lowest = mean(best, few)
    moves = [(1, -1, 0), (-1, 1, 0), (1, 0, -1), (-1, 0, 1), (0, 1, -1), (0, -1, 1)]
    while step > 2**-8:
        around = [tuple(w + step * m for w, m in zip(best, move, strict=True)) for move in moves]
        tried = {each: mean(each, few) for each in around if min(each) >= 0}
        nearest = min(tried, key=tried.__getitem__)
        if tried[nearest] < lowest:
            best, lowest = nearest, tried[nearest]
        else:
            step /= 2
    return min(1.0, mean(best, np.arange(len(sizes))) + ROUNDING)


def _largest_mix(
    sizes: Numbers, truths: dict[str, Truths], weights: dict[str, float], tolerance: float
) -> float:
    """A bound of one image's mix of F1 values, parts weighted."""
    from attributionlab.faithfulness.mass_boxes import largest_mix  # numba takes a second to import

    shown = sizes > 0
    members = np.concatenate([each.members for each in truths.values()])
    kinds = np.repeat(
        [PARTS.index(part) for part in truths], [len(each.weights) for each in truths.values()]
    )
    shares = np.concatenate([weights[part] * each.weights for part, each in truths.items()])
    _, bound = largest_mix(
        sizes[shown], members[:, shown], kinds, shares, members @ sizes, tolerance
    )
    return bound


def _largest_f1(truths: Numbers, weights: Numbers, capacities: Numbers, tolerance: float) -> float:
    """A bound of the mean F1 of a map, 0 <= a <= capacities, with truths (Q, P) of these weights."""
    totals = truths @ capacities

    def at(mass: float) -> tuple[float, float]:
        """D and the multiplier of a mass (see `smooth_ceiling`)."""
        gains = (2 * weights / (mass + totals)) @ truths
        order = np.argsort(-gains, kind="stable")
        place = np.searchsorted(np.cumsum(capacities[order]), mass, side="right")
        multiplier = float(gains[order[place]]) if place < len(order) else 0.0
        return mass * multiplier + float(capacities @ np.maximum(0, gains - multiplier)), multiplier

    def bound(left: float, right: float) -> float:
        (low, before), (high, after) = found[left], found[right]
        return max(low, high) + (right - left) / 4 * max(0.0, before - after)

    whole = float(capacities.sum()) * (1 + ROUNDING)  # no less than the exact sum
    found = {mass: at(mass) for mass in (0.0, whole)}
    reached = max(value for value, _ in found.values())
    waiting = [(-bound(0.0, whole), 0.0, whole)]
    while -waiting[0][0] > reached + tolerance:
        _, left, right = heapq.heappop(waiting)
        middle = (left + right) / 2
        found[middle] = at(middle)
        reached = max(reached, found[middle][0])
        for ends in pairwise((left, middle, right)):
            heapq.heappush(waiting, (-bound(*ends), *ends))
    return -waiting[0][0]
