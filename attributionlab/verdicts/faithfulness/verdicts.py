"""What a count of solved questions says, beside the controls on the same questions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import GAMMA, Interval, Tally, mean_score
from attributionlab.verdicts.controls import BLIND, MUST_FAIL
from attributionlab.worlds import FEATURES

Verdict = Literal["pass", "fail", "inconclusive", "invalid"]


@dataclass(frozen=True)
class ControlScore:
    """What a control scored on the same questions.

    - `claim_f1`: mean of the lowest part; None where the claim has no truth.
    - `count`: how many questions it solves.
    - `must`: what it has to do for the test to say something; None where it is free.
    """

    claim_f1: float | None
    count: Tally
    must: Literal["pass", "fail"] | None

    @property
    def passes(self) -> bool:
        """Whether it passes, as a method does; of the oracle, whether it solves all, however few."""
        if self.must == "pass":
            return self.count.solved == self.count.asked
        return self.count.passes

    @property
    def is_wrong(self) -> bool:
        """Whether it does not do what it must; `show.violates` says the same of the JSON file."""
        return self.must not in (None, "pass" if self.passes else "fail")

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
    name: str, claim: str, claim_f1: float | None, count: Tally, hidden: Mapping[str, int]
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


@dataclass(frozen=True, eq=False, kw_only=True)
class ClaimScore:
    """A method's score in one environment beside what the controls scored there.

    - `count`: how many questions are solved, of how many to which the claim applies.
    - `claim_f1`, `claim_interval`: the mean F1 of the claim's lowest part, and its 95 % interval (None
      where a part applies to fewer than two images); they describe and decide nothing.
    - `controls`: what each control scored on the same questions.
    - `environments`: how many are asked together.
    """

    count: Tally
    claim_f1: float
    claim_interval: Interval | None
    controls: Mapping[str, ControlScore] = field(repr=False)
    environments: int = field(default=1, repr=False)

    @property
    def reaches_gamma(self) -> bool:
        """The paper's own criterion (AttributionLab, eq. 2): a mean F1 of at least 0.5."""
        return self.claim_f1 >= GAMMA

    @property
    def reason(self) -> str:
        """Which control makes the test invalid, in a sentence; empty if none does."""
        wrong = [name for name, each in self.controls.items() if each.is_wrong]
        if not wrong:
            return ""
        name = "oracle" if "oracle" in wrong else wrong[0]
        solved, asked = self.controls[name].count
        if name == "oracle":
            return (
                f"the oracle solves only {solved} of {asked} questions: truth and scores contradict "
                "each other"
            )
        return (
            f"the control {name}, which must fail, solves {solved} of {asked} questions: this "
            "environment does not separate this control from a method; take larger images or another "
            "claim"
        )

    @property
    def verdict(self) -> Verdict:
        """What the count of solved questions says; "invalid" if a control has the wrong result."""
        return "invalid" if self.reason else self.count.verdict(self.environments)


class WorldCount(NamedTuple):
    """How many questions were solved in one of the random worlds that an environment consists of."""

    name: str
    rule: str
    call: str
    """how Python makes the world"""
    features: Sequence[str]
    """what it asks, of `attributionlab.worlds.environment.random_rules.FEATURES`"""
    solved: int
    asked: int

    def to_dict(self) -> dict[str, Any]:
        """Entry in the JSON file."""
        return {**self._asdict(), "features": list(self.features)}


def by_feature(worlds: Sequence[WorldCount]) -> dict[str, dict[str, Tally]]:
    """What is solved in the worlds "with" each feature, and in those "without" it."""
    found = {}
    for feature in FEATURES if worlds else ():
        sides: dict[str, list[WorldCount]] = {"with": [], "without": []}
        for world in worlds:
            sides["with" if feature in world.features else "without"].append(world)
        found[feature] = {
            side: Tally(sum(each.solved for each in some), sum(each.asked for each in some))
            for side, some in sides.items()
        }
    return found


def mean_of(values: NDArray[np.float64]) -> float | None:
    """Mean over the images to which a score applies, None without any."""
    mean = mean_score(values)
    return None if math.isnan(mean) else mean


def lowest_mean(f1: Mapping[str, NDArray[np.float64]]) -> tuple[str, float] | tuple[None, None]:
    """The part with the lowest mean F1, and that mean; None where there is no truth at all."""
    means = {part: mean_of(values) for part, values in f1.items()}
    there = [(part, mean) for part, mean in means.items() if mean is not None]
    return min(there, key=itemgetter(1), default=(None, None))
