"""The role-swap test: would the same maps score as well if other questions had been asked?"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attributionlab.errors import refuse_if
from attributionlab.faithfulness.knowledge import (
    CLAIMED,
    PARTS,
    ROUNDING,
    Numbers,
    Possible,
    checked_sizes,
    claim_problem,
)
from attributionlab.validation import integer_problem

DRAWS = 19_999
"""Random assignments: the least p-value is 1 in 20,000."""
FLOAT32_SUMS = 1e-5
"""Relative error that a sum of magnitudes may have; in float32, in pairs, it is 20 * 2^-24 for 10^6."""


class CellMasses(NamedTuple):
    """What a map in [-1, 1] puts where, and what was asked of it."""

    positive: Any
    """(m,): the sum of its positive values on each cell"""
    negative: Any
    """(m,): the sum of its negative values' magnitudes on each cell"""
    outside: tuple[float, float]
    """both sums over the pixels of no cell, which belong to no truth"""
    sizes: Any
    """(m,): pixels of each cell"""
    question: Possible
    """the one that was asked (`known_questions`)"""
    possible: Possible
    """those that were as likely for all that the map's maker saw"""


class RoleSwap(NamedTuple):
    """What a role-swap test finds."""

    p_value: float
    """of "the map does not depend on what `possible` leaves open", in (0, 1]"""
    score: float
    """the claim's score for the questions that were asked"""
    draws: int
    """how many random assignments it was compared with"""


def role_swap_test(
    maps: Sequence[CellMasses], claim: str = "signed", *, draws: int = DRAWS, seed: int = 0
) -> RoleSwap:
    r"""Test whether maps depend on roles (or on the target) by scoring them for other questions.

    With `unknown_roles` as what is possible: does the map depend on the network? With
    `unknown_target`: does it depend on the target? The maps are not made again. Their claim's score T
    (for "signed" the lowest of the parts' means) is compared with scores T* for questions that are
    drawn independently for each image from the possible ones:

    .. math:: p = \frac{1 + \#\{T^* \ge T\}}{1 + \text{draws}}.

    *Proof of validity.* Let each question have been drawn from its possible ones, independently of the
    others given the images, and let the maps see none of what was drawn. Given the maps, the questions
    that were asked then have the very distribution from which the others are drawn, so T and the T* are
    exchangeable. Hence the rank of T among the 1 + draws scores, ties counted against it, is at most r
    with a probability of at most r / (1 + draws), and P(p <= alpha) <= alpha for every alpha, however
    many draws there are (Dwass, 1957; Phipson and Smyth, 2010). Scores that differ by rounding count as
    ties, which can only raise p.

    Two questions about one image that were drawn together, such as all its classes, are not
    independent: pass one of them, or tests of each.

    - `maps`: one for each question.
    - `claim`: whose score is compared.
    - `draws`: random assignments.

    Raises AttributionLabError for another claim, no maps, masses that no map in [-1, 1] has, and a
    question that was not possible; sizes as for `ceiling`.

    Source: Dwass, "Modified Randomization Tests for Nonparametric Hypotheses", The Annals of
    Mathematical Statistics, 1957. Phipson and Smyth, "Permutation P-values Should Never Be Zero",
    Statistical Applications in Genetics and Molecular Biology, 2010.
    """
    refuse_if(
        [
            *claim_problem(claim),
            *integer_problem("draws", draws, 1),
            *integer_problem("seed", seed, 0),
        ]
    )
    known = checked_sizes([(each.possible, each.sizes) for each in maps])
    refuse_if(
        [
            f"map {place} {problem}"
            for place, (each, (_, sizes)) in enumerate(zip(maps, known, strict=True))
            for problem in _mass_problems(each, sizes)
        ]
    )
    rng = np.random.default_rng(seed)
    sums, counts = np.zeros((len(PARTS), 1 + draws)), np.zeros(len(PARTS))
    for each, (possible, sizes) in zip(maps, known, strict=True):
        drawn = rng.choice(len(possible.weights), draws, p=possible.asked(sizes))
        scores = np.concatenate(
            [_scores(each, each.question, sizes), _scores(each, possible, sizes)[:, drawn]], axis=1
        )
        has = ~np.isnan(scores[:, 0])
        sums[has] += scores[has]
        counts += has
    claimed = [PARTS.index(part) for part in CLAIMED[claim] if counts[PARTS.index(part)]]
    score, *others = (sums[claimed] / counts[claimed, None]).min(0)
    reached = int((np.array(others) >= score - ROUNDING).sum())
    return RoleSwap((1 + reached) / (1 + draws), float(score), draws)


def _mass_problems(masses: CellMasses, sizes: Numbers) -> list[str]:
    """What is wrong with the masses of one map, as the rest of a sentence about it."""
    positive, negative = (np.asarray(each, float) for each in (masses.positive, masses.negative))
    everything = np.concatenate([positive.ravel(), negative.ravel(), masses.outside])
    if positive.shape != sizes.shape or negative.shape != sizes.shape:
        return [f"has masses of shapes {positive.shape} and {negative.shape}: pass {sizes.shape}"]
    if not (everything >= 0).all() or (positive + negative > sizes * (1 + FLOAT32_SUMS)).any():
        return [
            f"has the masses {positive.tolist()} and {negative.tolist()} on cells of sizes "
            f"{sizes.tolist()}: pass sums of magnitudes of at most 1"
        ]
    asked, possible = masses.question, masses.possible
    if len(asked.weights) != 1 or asked.cells != possible.cells:
        return [
            f"was asked {len(asked.weights)} questions of {asked.cells} cells: pass one of each"
        ]
    pairs = (possible.positive, asked.positive), (possible.negative, asked.negative)
    same = np.logical_and(*((each == one).all(1) for each, one in pairs))
    if not (same & (possible.asked(sizes) > 0)).any():
        return ["was asked what is not among the possible questions: pass the one that was drawn"]
    return []


def _scores(masses: CellMasses, questions: Possible, sizes: Numbers) -> Numbers:
    """F1 (3, Q) of the parts for each question: 2 hits / (mass + truth), NaN without any truth."""
    positive, negative = (np.asarray(each, float) for each in (masses.positive, masses.negative))
    raising, lowering = questions.positive, questions.negative
    mass = positive.sum() + masses.outside[0], negative.sum() + masses.outside[1]
    both = positive + negative
    hits = raising @ positive, lowering @ negative, raising @ both + lowering @ both
    truths = raising @ sizes, lowering @ sizes, raising @ sizes + lowering @ sizes
    return np.stack(
        [
            2 * hit / np.where(truth > 0, total + truth, np.nan)
            for hit, total, truth in zip(hits, (*mass, sum(mass)), truths, strict=True)
        ]
    )
