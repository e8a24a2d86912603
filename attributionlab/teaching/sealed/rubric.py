"""Marks: how many points an answer gets, and which misconception it shows.

No sentence depends on what the right answer is: all of them are written here.
"""

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from attributionlab.metrics import parts_f1
from attributionlab.teaching.sealed.laboratory import Truths
from attributionlab.teaching.sealed.questions import CAUSES, DOSES, NEVER, PASSES, POINTS
from attributionlab.teaching.sealed.submission import Submission

LIKE, UNLIKE = 0.7, 0.5
"""F1 from which maps show what a misconception would show; that with the truth is below the latter."""

MISCONCEPTIONS: Mapping[str, str] = {
    "zero": "A map that is 0 everywhere says that nothing counts.",
    "signs": "Right pixels, wrong signs: you explained another output, or what a removal does to the "
    "output instead of what the pixel does.",
    "one sign": "Right pixels, but one sign only: absolute values or a clamp have hidden what lowers "
    "the output.",
    "visible": "You marked what is visible, not what is used. Replace one part after the other by the "
    "background, several together too, and look at the output.",
    "places": "Right colors, wrong places: a color may count in one place and not in another.",
    "other images": "Your maps fit other images of the laboratory better than their own: check the "
    "order.",
    "orientation": "Your maps fit better after a flip or a transposition: check rows and columns.",
    "diffuse": "Less than half of your maps lies where it should: they are blurred, or much of them is "
    "on pixels without any effect.",
    "all parts": "You named every part that images show. What is visible need not be used.",
    "colors only": "You found colors that count, and not where: one color is several parts.",
    "part signs": "Parts that count, with the wrong signs: a part is positive if the output falls "
    "without it.",
    "sums": "Which parts act together: replace two parts one by one and both. If the two effects do "
    "not add up, they are a context. Try it while others are gone, too.",
    "counted baseline": "You call a color safe that the network counts: in its place a removed pixel "
    "is not gone. Fill images with it, in each place.",
    "shy baseline": "You left out a safe color. A color is safe if nothing counts it, whether images "
    "show it or not.",
    "cause": "You know that a method fails, and not why. Give it the background as its baseline first.",
    "trust": "You trust a method that fails here: score its maps against what you found.",
    "doses": "A metric that replaces pixels asks the network about the replacement, too. Follow the "
    "output along both curves, dose by dose.",
}
"""What wrong answers show, by name."""


@dataclass(frozen=True)
class Marks:
    """What a submission gets."""

    points: dict[str, float] = field(default_factory=lambda: dict.fromkeys(POINTS, 0.0))
    """By question; all of `POINTS`."""
    misconceptions: list[str] = field(default_factory=list)
    """Names of `MISCONCEPTIONS`."""
    problems: list[str] = field(default_factory=list)
    """What could not be read, and was given no points."""

    @property
    def total(self) -> float:
        """Of 100."""
        return round(sum(self.points.values()), 1)


def marks_of(given: Submission, truths: Truths) -> Marks:
    """Mark maps and answers; what is missing gets nothing."""
    marks = Marks(problems=given.problems)
    answers = {} if given.maps is None else {"maps": torch.from_numpy(given.maps)}
    right = {"maps": truths.signed, **truths.answers}
    for question, answer in {**answers, **given.answers}.items():
        share, found = SCORES[question](answer, right[question], truths)
        marks.points[question] = round(POINTS[question] * share, 1)
        marks.misconceptions.extend(found)
    return marks


# Each question: from an answer and the right one its share of the points, and what is misunderstood.

Found = tuple[float, list[str]]


def _maps(maps: Tensor, right: Tensor, truths: Truths) -> Found:
    """Half for the right pixels, half for the worse of the two signs."""
    if not bool(maps.any()):
        return 0.0, ["zero"]
    overall, signed = _agreement(maps, right)
    found = []
    if overall < UNLIKE:
        found.append(_likeness(maps, truths))
    elif signed < UNLIKE:
        if _agreement(-maps, right)[1] >= UNLIKE:
            found.append("signs")
        elif bool((maps >= 0).all()) or bool((maps <= 0).all()):
            found.append("one sign")
    return (overall + signed) / 2, found


def _likeness(maps: Tensor, truths: Truths) -> str:
    """What maps that are not the truth look like."""
    turned = [maps.flip(2), maps.flip(3), maps.flip(2, 3), maps.transpose(2, 3)]
    if max(_agreement(each, truths.signed)[0] for each in turned) >= LIKE:
        return "orientation"
    others = [_f1(maps, truths.signed.roll(shift, 0)) for shift in range(1, len(maps))]
    if float(torch.stack(others).amax(0).mean()) >= LIKE:
        return "other images"
    masks = {"places": truths.of_colors, "visible": truths.visible}
    fits = {name: float(_f1(maps, mask.to(torch.int8)).mean()) for name, mask in masks.items()}
    best = max(fits, key=fits.__getitem__)
    return best if fits[best] >= LIKE else "diffuse"


def _f1(maps: Tensor, signed: Tensor) -> Tensor:
    """Without signs, of each image."""
    return parts_f1(maps, signed)["overall"].nan_to_num(0.0)


def _agreement(maps: Tensor, signed: Tensor) -> tuple[float, float]:
    """Mean F1 without signs, and the lower of those of both signs."""
    scores = {part: each.nanmean() for part, each in parts_f1(maps, signed).items()}
    signs = [float(each) for part, each in scores.items() if part != "overall" and each == each]
    return float(scores["overall"]), min(signs, default=float(scores["overall"]))


def _set_f1(given: set[Any], right: set[Any]) -> float:
    """F1 of a set; two empty ones are equal."""
    return 2 * len(given & right) / (len(given) + len(right)) if given or right else 1.0


def _parts(given: Mapping[str, int], right: Mapping[str, int], truths: Truths) -> Found:
    """Half for which parts count, half for those with the right sign."""
    which = _set_f1(set(given), set(right))
    signed = _set_f1(set(given.items()), set(right.items()))
    flipped = _set_f1({(part, -sign) for part, sign in given.items()}, set(right.items()))
    found = []
    if len(given) == len(truths.spec["parts"]):
        found.append("all parts")
    elif which < UNLIKE and {_color(each) for each in given} == {_color(each) for each in right}:
        found.append("colors only")
    if flipped > signed:
        found.append("part signs")
    return (which + signed) / 2, found


def _color(part: str) -> str:
    return part.partition("@")[0]


def _contexts(given: set[Any], right: Sequence[Sequence[str]], truths: Truths) -> Found:
    share = _set_f1(given, {tuple(pair) for pair in right})
    return share, ["sums"] if share < 1 else []


def _baselines(given: set[str], right: Sequence[str], truths: Truths) -> Found:
    safe = {name: name in right for name in truths.spec["baselines"]}
    said = {name: name in given for name in truths.spec["baselines"]}
    share = _beyond_one_answer(said, safe, (True, False), operator.eq)
    found = ["counted baseline"] * any(said[name] and not safe[name] for name in safe)
    return share, found + ["shy baseline"] * any(safe[name] and not said[name] for name in safe)


def _methods(given: Mapping[str, str], right: Mapping[str, str], truths: Truths) -> Found:
    """Half for knowing that a method fails, half for why."""

    def agreement(said: str | None, cause: str) -> float:
        return 1.0 if said == cause else 0.5 * (said is not None and PASSES not in (said, cause))

    wrong = {given[name] for name, cause in right.items() if given.get(name, cause) != cause}
    found = ["trust"] * (PASSES in wrong)
    half = any(agreement(given.get(name), cause) == 0.5 for name, cause in right.items())
    return _beyond_one_answer(given, right, CAUSES, agreement), found + ["cause"] * half


def _doses(given: Mapping[str, Any], right: Mapping[str, Any], truths: Truths) -> Found:
    """1 for a dose, 1/2 for one beside it."""

    def agreement(said: Any, dose: Any) -> float:
        if said == dose or said is None or NEVER in (said, dose):
            return float(said == dose)
        return 0.5 * (abs(DOSES.index(said) - DOSES.index(dose)) == 1)

    share = _beyond_one_answer(given, right, (*DOSES, NEVER), agreement)
    return share, ["doses"] if share < 1 else []


def _beyond_one_answer(
    given: Mapping[str, Any],
    right: Mapping[str, Any],
    values: Iterable[Any],
    agreement: Callable[[Any, Any], float],
) -> float:
    """How far answers are above the best that one and the same answer to everything gets: 1 for the
    right ones. Whatever is right somewhere has the same weight, however often it is.
    """

    def mean(said: Callable[[str], Any]) -> float:
        shares = defaultdict[Any, list[float]](list)
        for name, answer in right.items():
            shares[answer].append(agreement(said(name), answer))
        return fmean(map(fmean, shares.values()))

    least = max(mean(lambda _, value=value: value) for value in values)  # type: ignore[misc]
    return max(0.0, (mean(given.get) - least) / (1 - least))


SCORES: Mapping[str, Callable[..., Found]] = {
    "maps": _maps,
    "parts": _parts,
    "contexts": _contexts,
    "baselines": _baselines,
    "methods": _methods,
    "doses": _doses,
}
