"""How a check asks a metric a question, and what several checks do with its scores."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from attributionlab.base import AttributionLabError
from attributionlab.verdicts.metric_trials.examined import Examined, Explain, Scores, follow
from attributionlab.verdicts.metric_trials.laboratories import Laboratory, Linear
from attributionlab.verdicts.metric_trials.registry import Handed

Status = Literal["pass", "fault", "note", "by declaration", "not applicable"]
"""A fault is an error of the code, which is not tried then. A note is advice: the trial decides."""
Found = tuple[bool, str]
"""Whether the answer is right, and what it is."""
Answer = Callable[[Examined], Found]
MapsOf = Callable[[Laboratory], Tensor | Explain]

ROUNDING = 1e-4
"""Largest difference of equal scores, as a share of the larger. In float32 a sum of 64 terms is off by
64 * 2^-24 = 4e-6 of its largest partial sum; the rest is left to what a metric computes with sums."""
NOTHING = 1e-9
"""What float64 leaves of a score that is 0, in units of the outputs, which are about 100 here."""
UNIT = "its unit"


class Result(NamedTuple):
    """How a check ended."""

    status: Status
    found: str


class Check(NamedTuple):
    """A question with a known answer."""

    asks: str
    expected: str
    declared: str
    """what a metric may declare that answers it; "" for nothing"""
    blocks: bool
    """whether another answer is a fault of the code"""
    of: tuple[Handed, ...]
    """which metrics are asked, by what they are handed"""
    ask: Callable[[Examined], Result]

    @property
    def wrong(self) -> Status:
        """How it ends with another answer."""
        return "fault" if self.blocks else "note"


class Excused(Exception):
    """The check is not asked of this metric."""

    def __init__(self, status: Status, why: str) -> None:
        super().__init__(why)
        self.result = Result(status, why)


def check(
    checks: dict[str, Check],
    expected: str,
    declared: str = "",
    *,
    blocks: bool = False,
    of: tuple[Handed, ...] = get_args(Handed),
) -> Callable[[Answer], Answer]:
    """Add a check under its function's name; the docstring says what it asks.

    Parameters
    ----------
    checks : dict
        Checks by id, to be added to.
    expected : str
        The right answer.
    declared : str
        What a metric may declare that answers it.
    blocks : bool
        Whether another answer is a fault, and the metric is not tried.
    of : tuple of str
        Which metrics are asked, of those that the checks are for.
    """

    def register(answer: Answer) -> Answer:
        def ask(subject: Examined) -> Result:
            try:
                right, found = answer(subject)
            except Excused as excuse:
                return excuse.result
            except AttributionLabError as error:
                return Result(made.wrong, str(error))
            if right:
                return Result("pass", found)
            meant = ALIKE in found if "invariances" in declared else declared != UNIT
            hint = declared if meant or (declared == UNIT and subject.unit is None) else ""
            return Result(made.wrong, found + f" (if that is meant: declare {hint})" * bool(hint))

        made = Check(str(answer.__doc__).rstrip("."), expected, declared, blocks, of, ask)
        checks[answer.__name__.replace("_", "-")] = made
        return answer

    return register


def declared(answers: bool, words: str) -> None:
    """End the check where a declaration answers it."""
    if answers:
        raise Excused("by declaration", f"the metric declares {words}")


def needs_exact(subject: Examined) -> None:
    """End the check of a metric without an exact map."""
    declared(subject.neighbors == "imputation", "that it imputes: no exact map is known")


def on_all(subject: Examined, maps: MapsOf) -> Scores:
    """Scores on all linear laboratories."""
    return np.concatenate([subject.scores(lab, maps(lab)) for lab in subject.labs])


def exact_scores(subject: Examined) -> Scores:
    needs_exact(subject)
    return on_all(subject, subject.exact)


def half_right(subject: Examined) -> tuple[Linear, Any]:
    """A laboratory with maps that are half right: exact ones hide what a metric does with pixels.

    For a metric that judges methods, with a method that follows what varies; for one that compares
    maps, with two of them, neither of which has equal values.
    """
    lab = subject.labs[-1]
    if not subject.scores_maps:
        return lab, follow
    numbers = (99, 98) if subject.handed == "others" else (99,)
    return lab, torch.cat([subject.exact(lab) + subject.noise(lab, each) for each in numbers], 1)


def score_of_equal(subject: Examined) -> float:
    """The declared score of maps that stay the same, the higher the better."""
    if subject.unchanged is None:
        found = "the metric does not declare the score of equal maps: declare unchanged="
        raise Excused("not applicable", found)
    return subject.sign * float(subject.unchanged)


def invariance(subject: Examined, name: str, before: Scores, after: Scores) -> Found:
    """Equal scores, for a metric that declares so."""
    right, found = equal(before, after)
    of_order = subject.unit == "order" and name in ("scale", "shift")
    if name not in subject.invariances and not of_order:
        raise Excused(
            "not applicable", f"the metric does not declare this invariance; scores {found}"
        )
    return right, found


ALIKE = "better on 0, worse on 0"
"""Found where two kinds of maps score alike: the metric may mean not to see what differs."""


def above(subject: Examined, better: Scores, worse: Scores) -> Found:
    """Whether scores are higher in the mean, and lower on no image."""
    tolerance = 1e-6 * np.maximum(np.abs(better), np.abs(worse)) + NOTHING
    higher, lower = better > worse + tolerance, worse > better + tolerance
    right = bool(higher.any() and not lower.any() and np.isfinite([better, worse]).all())
    means = " against ".join(mean_text(subject, each) for each in (better, worse))
    counts = f"better on {higher.sum()}, worse on {lower.sum()} of {len(better)} images"
    return right, f"{means}; {counts}"


def below_exact(subject: Examined, maps: MapsOf) -> Found:
    return above(subject, exact_scores(subject), on_all(subject, maps))


def mean_text(subject: Examined, scores: Scores) -> str:
    """The mean score in the metric's own direction, without a sign of 0."""
    return f"{scores.mean() * subject.sign + 0.0:.4g}" if len(scores) else "none"


def none_above_exact(subject: Examined, others: Iterable[MapsOf]) -> Found:
    exact = exact_scores(subject)
    tolerance = ROUNDING * np.abs(exact) + NOTHING
    excess = np.stack([on_all(subject, maps) for maps in others]) - exact
    beaten = excess > tolerance
    found = f"{beaten.sum()} of {beaten.size} above it"
    return not beaten.any(), found + f", by up to {excess.max():.3g}" * bool(beaten.any())


def equal(first: Scores, second: Scores) -> Found:
    """Whether scores are equal up to rounding."""
    absent = np.isnan(first)
    if not (absent == np.isnan(second)).all():
        return False, "NaN in other places"
    size = np.maximum(np.abs(first), np.abs(second))
    off = np.abs(first - second)[~absent]
    right = bool((off <= ROUNDING * size[~absent] + NOTHING).all())
    most = off.max(initial=0.0)
    return right, f"differ by up to {most:.3g}" if most else "equal"
