"""Naive twins of ceilings and of the role-swap test, written as the definitions read.

Nothing here imports the package. A question is (target, others): the cell of the target and the set of
the other classes' cells; a map is a list of pixels, or a list of masses for each cell.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations, product

Question = tuple[int, frozenset[int]]


def questions(cells: int, classes: int, output: str) -> dict[Question, Fraction]:
    """How likely each question is if all orders of the colors and all targets are equally likely."""
    found: Counter[Question] = Counter()
    for roles in permutations(range(cells), classes):
        for target in range(classes):
            found[question(roles, target, output)] += 1
    return {each: Fraction(count, found.total()) for each, count in found.items()}


def question(roles: Sequence[int], target: int, output: str) -> Question:
    """The target's cell, and for probabilities those of the other classes."""
    others = frozenset(roles) - {roles[target]} if output == "probability" else frozenset()
    return roles[target], others


def shown(possible: dict[Question, Fraction], sizes: Sequence[float]) -> dict[Question, Fraction]:
    """The same, given that the target's cell is not empty."""
    left = {each: share for each, share in possible.items() if sizes[each[0]] > 0}
    total = sum(left.values())
    return {each: share / total for each, share in left.items()}


def pixel_scores(
    values: Sequence[float], cell_of: Sequence[int], asked: Question
) -> dict[str, float | None]:
    """F1 of the three parts of one map, pixel by pixel; None where there is no such truth."""
    target, others = asked
    sides = {
        "positive": ([max(v, 0.0) for v in values], {target}),
        "negative": ([max(-v, 0.0) for v in values], set(others)),
        "overall": ([abs(v) for v in values], {target, *others}),
    }
    found: dict[str, float | None] = {}
    for part, (magnitudes, truth) in sides.items():
        size = sum(cell in truth for cell in cell_of)
        hits = sum(m for m, cell in zip(magnitudes, cell_of, strict=True) if cell in truth)
        found[part] = 2 * hits / (sum(magnitudes) + size) if size else None
    return found


def mass_scores(
    positive: Sequence[float], negative: Sequence[float], sizes: Sequence[float], asked: Question
) -> dict[str, float | None]:
    """The same from the masses of each cell, without any outside."""
    target, others = asked
    both = [p + n for p, n in zip(positive, negative, strict=True)]
    sides = {
        "positive": (positive, {target}),
        "negative": (negative, set(others)),
        "overall": (both, {target, *others}),
    }
    found: dict[str, float | None] = {}
    for part, (masses, truth) in sides.items():
        size = sum(sizes[cell] for cell in truth)
        hits = sum(masses[cell] for cell in truth)
        found[part] = 2 * hits / (sum(masses) + size) if size else None
    return found


def claim_score(scores: Sequence[dict[str, float | None]], claim: str) -> float:
    """The lowest mean over images of the parts that the claim has and some image has."""
    wanted = ("positive", "negative", "overall") if claim == "signed" else (claim,)
    means = []
    for part in wanted:
        known = [each[part] for each in scores if each[part] is not None]
        if known:
            means.append(sum(known) / len(known))
    return min(means)


def expected_scores(
    positive: Sequence[float],
    negative: Sequence[float],
    sizes: Sequence[float],
    possible: dict[Question, Fraction],
) -> dict[str, float | None]:
    """Mean F1 of the parts of one blind map over the questions that may be asked of its image."""
    scored = [
        (share, mass_scores(positive, negative, sizes, asked))
        for asked, share in shown(possible, sizes).items()
    ]
    found: dict[str, float | None] = {}
    for part in ("positive", "negative", "overall"):
        known = [(float(share), each[part]) for share, each in scored if each[part] is not None]
        total = sum(share for share, _ in known)
        found[part] = sum(s * f for s, f in known) / total if known else None
    return found


def role_swap_p(
    maps: Sequence[tuple[Sequence[float], Sequence[int]]],
    asked: Sequence[Question],
    possible: Sequence[dict[Question, Fraction]],
    claim: str,
) -> float:
    """How likely a score at least as large is, over all combinations of possible questions."""
    own = claim_score(
        [pixel_scores(*each, question) for each, question in zip(maps, asked, strict=True)], claim
    )
    likely = Fraction(0)
    for choice in product(*(each.items() for each in possible)):
        score = claim_score(
            [pixel_scores(*each, asked) for each, (asked, _) in zip(maps, choice, strict=True)],
            claim,
        )
        if score >= own - 1e-9:
            share = Fraction(1)
            for _, each in choice:
                share *= each
            likely += share
    return float(likely)
