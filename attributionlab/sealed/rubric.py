"""Marks: how many points an answer gets, and which misconception it shows.

No sentence depends on what the right answer is: all of them are written here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.errors import AttributionLabError, cut
from attributionlab.metrics import parts_f1
from attributionlab.sealed.questions import CAUSES, DOSES, METHODS, NEVER, PASSES

POINTS = {"maps": 40, "parts": 20, "contexts": 10, "baselines": 10, "methods": 10, "doses": 10}
"""Points of each question."""
MOST_LISTED = 1000
"""Items of an answer."""
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
    "places": "Right colors, wrong places: a color may count in one quadrant and not in another.",
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
    "is not gone. Fill images with it, in each quadrant.",
    "shy baseline": "You left out a safe color. A color is safe if nothing counts it, whether images "
    "show it or not.",
    "cause": "You know that a method fails, and not why. Give it the background as its baseline first.",
    "trust": "You trust a method that fails here: score its maps against what you found.",
    "doses": "A metric that replaces pixels asks the network about the replacement, too. Follow the "
    "output along both curves, dose by dose.",
}
"""What wrong answers show, by name."""


@dataclass(frozen=True, eq=False)
class Truths:
    """What submissions are held against.

    Parameters
    ----------
    answers : dict
        The right ones, as in a student's answers.json; methods that are not asked are left out.
    signed : Tensor of int8, (n, 1, H, W)
        The truth of the maps.
    visible : Tensor of bool, (n, 1, H, W)
        All that is not background.
    of_colors : Tensor of bool, (n, 1, H, W)
        All pixels whose color counts somewhere.
    parts, baselines, colors : sequence of str
        Names that answers may use.
    """

    answers: Mapping[str, Any]
    signed: Tensor
    visible: Tensor
    of_colors: Tensor
    parts: Sequence[str]
    baselines: Sequence[str]
    colors: Sequence[str]


@dataclass(frozen=True)
class Marks:
    """What a submission gets.

    Parameters
    ----------
    points : dict of str to float
        By question; all of `POINTS`.
    misconceptions : list of str
        Names of `MISCONCEPTIONS`.
    problems : list of str
        What could not be read, and was given no points.
    """

    points: dict[str, float] = field(default_factory=lambda: dict.fromkeys(POINTS, 0.0))
    misconceptions: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Of 100."""
        return round(sum(self.points.values()), 1)


def marks_of(
    maps: NDArray[np.float64] | None, answers: Mapping[str, Any] | None, truths: Truths
) -> Marks:
    """Mark maps (n, 1, H, W) and answers; what is missing is None, and gets nothing."""
    marks = Marks()
    shares: dict[str, float] = {}
    if maps is not None:
        shares["maps"], found = _maps(torch.from_numpy(maps), truths)
        marks.misconceptions.extend(found)
    for question, (read, score) in QUESTIONS.items():
        if answers is None:
            break
        try:
            if question not in answers:
                raise AttributionLabError(f"{question} is missing: see questions.md")
            given = read(answers[question], truths)
        except AttributionLabError as error:
            marks.problems.append(str(error))
            continue
        shares[question], found = score(given, truths.answers[question], truths)
        marks.misconceptions.extend(found)
    for key in sorted(set(answers or ()) - set(QUESTIONS)):
        marks.problems.append(f"answers.json has {cut(repr(key), 60)}, which nobody asked")
    marks.points.update({name: round(POINTS[name] * share, 1) for name, share in shares.items()})
    return marks


def _maps(maps: Tensor, truths: Truths) -> tuple[float, list[str]]:
    """Half for the right pixels, half for the worse of the two signs."""
    if not bool(maps.any()):
        return 0.0, ["zero"]
    overall, signed = _agreement(maps, truths.signed)
    found = []
    if overall >= UNLIKE and signed < UNLIKE:
        if _agreement(-maps, truths.signed)[1] >= UNLIKE:
            found.append("signs")
        elif bool((maps >= 0).all()) or bool((maps <= 0).all()):
            found.append("one sign")
    elif overall < UNLIKE:
        found.append(_likeness(maps, truths))
    return (overall + signed) / 2, found


def _likeness(maps: Tensor, truths: Truths) -> str:
    """What maps that are not the truth look like."""
    n = len(maps)
    turned = [maps.flip(2), maps.flip(3), maps.flip(2, 3), maps.transpose(2, 3)]
    if max(_agreement(each, truths.signed)[0] for each in turned) >= LIKE:
        return "orientation"
    others = [_f1(maps, truths.signed.roll(shift, 0)) for shift in range(1, n)]
    if n > 1 and float(torch.stack(others).amax(0).mean()) >= LIKE:
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


# Each question: what an answer must be, and its share of the points.

Found = tuple[float, list[str]]


def _checked(fits: bool, question: str, given: Any, remedy: str) -> None:
    if not fits:
        raise AttributionLabError(f"{question} is {cut(repr(given), 80)}: {remedy}")


def _read_table(question: str, names: Sequence[str], values: Sequence[Any]) -> Callable[..., Any]:
    """Reads answers by name; True is no 1 here."""

    def read(given: Any, truths: Truths) -> dict[str, Any]:
        known = names or getattr(truths, {"doses": "colors"}.get(question, question))
        wrong = given
        if isinstance(given, dict):
            wrong = {
                name: each
                for name, each in given.items()
                if name not in known or type(each) not in (int, float, str) or each not in values
            }
        shown = ", ".join(map(str, values))
        remedy = f"write an object with known names and values of {shown}"
        _checked(isinstance(given, dict) and not wrong, question, wrong, remedy)
        return dict(given)

    return read


def _read_pairs(given: Any, truths: Truths) -> set[tuple[str, ...]]:
    fits = isinstance(given, list) and len(given) <= MOST_LISTED
    fits = fits and all(
        isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(each, str) and each in truths.parts for each in pair)
        and pair[0] != pair[1]
        for pair in given
    )
    _checked(fits, "contexts", given, "write a list of pairs of two parts each")
    return {tuple(sorted(pair)) for pair in given}


def _read_baselines(given: Any, truths: Truths) -> set[str]:
    fits, wrong = isinstance(given, list) and len(given) <= MOST_LISTED, given
    if fits:
        wrong = [
            each for each in given if not isinstance(each, str) or each not in truths.baselines
        ]
    _checked(fits and not wrong, "baselines", wrong, "write a list of names of candidates")
    return set(given)


def _set_f1(given: set[Any], right: set[Any]) -> float:
    """F1 of a set; two empty ones are equal."""
    return 2 * len(given & right) / (len(given) + len(right)) if given or right else 1.0


def _parts(given: Mapping[str, int], right: Mapping[str, int], truths: Truths) -> Found:
    """Half for which parts count, half for those with the right sign."""
    named = {part: int(sign) for part, sign in given.items() if sign}
    which = _set_f1(set(named), set(right))
    signed = _set_f1(set(named.items()), set(right.items()))
    flipped = _set_f1({(part, -sign) for part, sign in named.items()}, set(right.items()))
    found = []
    if len(named) == len(truths.parts):
        found.append("all parts")
    elif which < UNLIKE and {_color(each) for each in named} == {_color(each) for each in right}:
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
    """Share of the safe ones found less share of the others named: guessing all, or none, gets 0."""
    safe, unsafe = set(right), set(truths.baselines) - set(right)
    share = len(given & safe) / len(safe) - (len(given & unsafe) / len(unsafe) if unsafe else 0)
    found = ["counted baseline"] * bool(given & unsafe) + ["shy baseline"] * bool(safe - given)
    return max(0.0, share), found


def _methods(given: Mapping[str, str], right: Mapping[str, str], truths: Truths) -> Found:
    """Half for knowing that a method fails, half for why."""
    shares, found = [], []
    for method, cause in right.items():
        said = given.get(method)
        if said == cause:
            shares.append(1.0)
        elif said is None or PASSES in (said, cause):
            shares.append(0.0)
            found += ["trust"] if said == PASSES else []
        else:
            shares.append(0.5)
            found.append("cause")
    return (sum(shares) / len(shares) if shares else 1.0), list(dict.fromkeys(found))


def _doses(given: Mapping[str, Any], right: Mapping[str, Any], truths: Truths) -> Found:
    """1 for a dose, 1/2 for one beside it; the mean of what breaks and that of what never does, both
    together less 1, as always saying "never" is no answer.
    """
    shares: dict[bool, list[float]] = {}
    for color, dose in right.items():
        said = given.get(color)
        beside = NEVER not in (said, dose) and said is not None
        beside = beside and abs(DOSES.index(said) - DOSES.index(dose)) == 1
        share = 1.0 if said == dose else 0.5 * beside
        shares.setdefault(dose == NEVER, []).append(share)
    means = [sum(each) / len(each) for each in shares.values()]
    share = max(0.0, sum(means) - len(means) + 1)
    return share, ["doses"] if share < 1 else []


QUESTIONS: Mapping[str, tuple[Callable[..., Any], Callable[..., Found]]] = {
    "parts": (_read_table("parts", (), (-1, 0, 1)), _parts),
    "contexts": (_read_pairs, _contexts),
    "baselines": (_read_baselines, _baselines),
    "methods": (_read_table("methods", METHODS, tuple(CAUSES)), _methods),
    "doses": (_read_table("doses", (), (*DOSES, NEVER)), _doses),
}
"""Keys of answers.json."""
