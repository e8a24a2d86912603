"""What a score and the controls beside it say at a gamma, and at every gamma."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from attributionlab.digits import score_text
from attributionlab.faithfulness.knowledge import tail_bound
from attributionlab.methods.controls import BLIND, MUST_FAIL
from attributionlab.stats.intervals import Interval, verdict_of

Verdict = Literal["pass", "fail", "inconclusive", "invalid"]
LEAST_QUESTIONS = 6
"""Questions below which there is no verdict: a bootstrap over fewer covers less than it says."""
CHANCE = 0.001
"""What a blind control that passes must be less probable than, to be no chance (`tail_bound`)."""
ROUNDING = 1e-6
"""Rounding of an F1 from float32 maps."""


class ControlScore(NamedTuple):
    """What a control scored on the same images."""

    claim_f1: float | None
    """None where the claim has no truth"""
    passes: bool
    must: Literal["pass", "fail"] | None
    """What it has to do for the test to say something; None where it is free"""
    ceiling: float | None = None
    """The most that blind maps of its kind reach in expectation; None where that is not known"""


class Band(NamedTuple):
    """A range of gamma, from the end of the band before it, with one verdict."""

    up_to: float
    verdict: Verdict


def control_score(
    name: str,
    claim: str,
    claim_f1: float | None,
    gamma: float,
    ceilings: Mapping[str, float | None],
    questions: int,
) -> ControlScore:
    """A control's score with what it has to do.

    The oracle must pass; random, constant and inverted maps must fail, the last ones where the claim is
    about signs. Blind controls must fail where their ceiling lies below gamma, unless so few questions
    were asked that they may have been lucky.
    """
    must: Literal["pass", "fail"] | None = None
    most = ceilings.get(BLIND.get(name, ""))
    passes = claim_f1 is not None and claim_f1 >= gamma
    if name == "oracle":
        must = "pass"
    elif name in MUST_FAIL and not (name == "inverted-oracle" and claim == "overall"):
        must = "fail"
    elif most is not None and most < gamma:
        lucky = passes and claim_f1 is not None and tail_bound(claim_f1, most, questions) > CHANCE
        must = None if lucky else "fail"
    return ControlScore(claim_f1, passes, must, most)


@dataclass(frozen=True)
class ClaimScore:
    """A method's score in one environment beside what the controls scored there.

    - `mean`: the claim's mean F1.
    - `interval`: interval of that mean.
    - `controls`: on the same images.
    - `best`: mean F1 of the best possible map, from its definition: 1 for masks.
    - `questions`: number of questions; None where all images have one network.
    """

    mean: float
    interval: Interval | None
    controls: Mapping[str, ControlScore]
    best: float
    questions: int | None = None

    def reason(self, gamma: float) -> str:
        """Which control makes a test at this gamma invalid, in a sentence; empty if none does."""
        oracle = self.controls["oracle"].claim_f1
        if oracle is None or oracle < self.best - ROUNDING:
            return (
                f"the oracle scores {oracle or 0:.3f} where the best possible map scores "
                f"{self.best:.3f}: truth and scores contradict each other"
            )
        if oracle < gamma:
            return (
                f"even the best possible map scores {score_text(oracle, gamma)}, below gamma "
                f"{gamma:g}: choose a smaller gamma or another claim"
            )
        for name, control in self.controls.items():
            if (
                control.must == "fail"
                and control.claim_f1 is not None
                and control.claim_f1 >= gamma
                and not self._is_luck(control)
            ):
                return (
                    f"the control {name}, which must fail, scores "
                    f"{score_text(control.claim_f1, gamma)}: gamma {gamma:g} does not separate this "
                    "control from a method; choose a larger one, or larger images"
                )
        return ""

    def _is_luck(self, control: ControlScore) -> bool:
        """Whether chance explains what a blind control scores: it is bounded on average only."""
        if control.ceiling is None or control.claim_f1 is None:
            return False
        return tail_bound(control.claim_f1, control.ceiling, self.questions or 1) > CHANCE

    def verdict(self, gamma: float) -> Verdict:
        """The verdict at a gamma in (0, 1]."""
        if self.reason(gamma):
            return "invalid"
        if self.questions is not None and self.questions < LEAST_QUESTIONS:
            return "inconclusive"
        return verdict_of(self.interval, gamma, self.mean)

    def bands(self) -> list[Band]:
        """The verdict at every gamma in (0, 1]: it changes where a control or an interval ends."""
        scores = [control.claim_f1 for control in self.controls.values() if control.must]
        ends = {score for score in scores if score} | {1.0}
        if self.interval is not None:
            ends |= {end for end in self.interval if end > 0}
        bands: list[Band] = []
        for end in sorted(ends):
            verdict = self.verdict(end)
            if bands and bands[-1].verdict == verdict:
                bands.pop()
            bands.append(Band(end, verdict))
        return bands
