"""What a count of solved questions says, beside the controls on the same questions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from attributionlab.base import GAMMA, Interval
from attributionlab.base.stats.counts import Count
from attributionlab.methods import BLIND, MUST_FAIL

Verdict = Literal["pass", "fail", "inconclusive", "invalid"]


@dataclass(frozen=True)
class ControlScore:
    """What a control scored on the same questions.

    - `claim_f1`: mean of the lowest part; None where the claim has no truth.
    - `count`: how many questions it solves.
    - `must`: what it has to do for the test to say something; None where it is free.
    """

    claim_f1: float | None
    count: Count
    must: Literal["pass", "fail"] | None

    @property
    def passes(self) -> bool:
        """Whether it passes, as a method does; of the oracle, whether it solves all, however few."""
        if self.must == "pass":
            return self.count.solved == self.count.asked
        return self.count.passes

    def to_dict(self) -> dict[str, object]:
        """Entry in the JSON file."""
        return {
            "claim_f1": self.claim_f1,
            "solved": self.count.solved,
            "asked": self.count.asked,
            "passes": self.passes,
            "must": self.must,
        }


def control_score(
    name: str, claim: str, claim_f1: float | None, count: Count, hidden: Mapping[str, int]
) -> ControlScore:
    """A control's score with what it has to do.

    The oracle must solve all. Random, constant and inverted maps must not pass, the last ones where the
    claim is about signs; blind controls must not pass where the environment hides what they do not see.
    """
    must: Literal["pass", "fail"] | None = None
    if name == "oracle":
        must = "pass"
    elif name in MUST_FAIL:
        must = None if (name, claim) == ("inverted-oracle", "overall") else "fail"
    elif name in BLIND and BLIND[name] in hidden:
        must = "fail"
    return ControlScore(claim_f1, count, must)


@dataclass(frozen=True)
class ClaimScore:
    """A method's score in one environment beside what the controls scored there.

    - `count`: how many questions it solves.
    - `mean`, `interval`: the mean F1 of the claim's lowest part, and the interval of that mean; they
      describe and decide nothing.
    - `controls`: on the same questions.
    - `environments`: how many are asked together.
    """

    count: Count
    mean: float
    interval: Interval | None
    controls: Mapping[str, ControlScore]
    environments: int = 1

    @property
    def reaches_gamma(self) -> bool:
        """The paper's own criterion (AttributionLab, eq. 2): a mean F1 of at least 0.5."""
        return self.mean >= GAMMA

    @property
    def reason(self) -> str:
        """Which control makes the test invalid, in a sentence; empty if none does."""
        oracle = self.controls["oracle"].count
        if oracle.solved < oracle.asked:
            return (
                f"the oracle solves {oracle.solved} of {oracle.asked} questions and must solve all: "
                "truth and scores contradict each other"
            )
        for name, control in self.controls.items():
            if control.must == "fail" and control.passes:
                return (
                    f"the control {name}, which must fail, solves {control.count.solved} of "
                    f"{control.count.asked} questions: this environment does not separate this control "
                    "from a method; take larger images or another claim"
                )
        return ""

    @property
    def verdict(self) -> Verdict:
        """What the questions say, if the controls do what they must."""
        return "invalid" if self.reason else self.count.verdict(self.environments)
