r"""Questions are solved or not, and a verdict counts them: exactly, for any number of questions.

A question is solved if the lowest F1 of what is claimed lies above two thirds. At that height no map
solves two questions whose truths are disjoint (`attributionlab.worlds.environment.hidden`).
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from attributionlab.base.stats.intervals import CONFIDENCE, Interval, share_interval
from attributionlab.base.stats.thresholds import LEAST_SHARE, SOLVED_ABOVE

MOST_QUESTIONS = 100_000
"""The largest number of questions that is named as enough for a verdict."""


class Tally(NamedTuple):
    """How many questions were solved, of how many to which the claim applies."""

    solved: int
    asked: int

    @property
    def interval(self) -> Interval | None:
        """The exact 95 % interval (Clopper and Pearson) of the share; None without a question."""
        return share_interval(self.solved, self.asked) if self.asked else None

    @property
    def passes(self) -> bool:
        """Whether the lower end of `interval` is at least `LEAST_SHARE`."""
        return self.interval is not None and self.interval.low >= LEAST_SHARE

    def verdict(self, environments: int = 1) -> Literal["pass", "fail", "inconclusive"]:
        """What the questions say, in one of so many environments that are asked together.

        A pass needs all of them to pass, so its error is at most that of one. A failure needs one of
        them to fail: its tail of 2.5 % is divided by their number.
        """
        if self.passes:
            return "pass"
        return "fail" if self._highest(environments) < LEAST_SHARE else "inconclusive"

    def chance(self, alternatives: int) -> float:
        r"""How probable so many solved questions, or more, are where each is solved by chance.

        .. math:: P(X \ge k), \quad X \sim Bin(n, 1 / m)

        `alternatives`: m, of which whoever does not see a hidden thing solves one at most.
        """
        if not self.solved:
            return 1.0
        return float(special.betainc(self.solved, self.asked - self.solved + 1, 1 / alternatives))

    def questions_to_decide(self, environments: int = 1) -> int | None:
        """How many questions would give a verdict if the share solved stayed as it is.

        None where `MOST_QUESTIONS` would not: the share is `LEAST_SHARE`, or nothing was asked.
        """
        if not self.asked:
            return None
        share = self.solved / self.asked

        def decides(n: int) -> bool:
            return Tally(round(share * n), n).verdict(environments) != "inconclusive"

        fewest, enough = self.asked, MOST_QUESTIONS
        if not decides(enough):
            return None
        while fewest < enough:
            middle = (fewest + enough) // 2
            fewest, enough = (fewest, middle) if decides(middle) else (middle + 1, enough)
        return enough

    def _highest(self, environments: int) -> float:
        """The upper end whose tail, half of what an interval leaves out, several environments share."""
        if self.solved >= self.asked:
            return 1.0
        ends = self.solved + 1, self.asked - self.solved
        tail = (1 - CONFIDENCE) / 2
        return float(special.betaincinv(*ends, 1 - tail / environments))


def lowest_f1(parts: Mapping[Any, NDArray[np.float64]]) -> NDArray[np.float64]:
    """The lowest F1 of each question over the parts of a claim; NaN where none applies."""
    return np.asarray(np.fmin.reduce([*parts.values()]))


def solved(f1: NDArray[np.float64], best: NDArray[np.float64] | float = 1.0) -> NDArray[np.bool_]:
    """Which questions are solved.

    `f1`: the lowest F1 of each question, (n,), NaN where the claim does not apply. `best`: the F1 of
    the best possible map, of which a solved question has two thirds; 1 for masks.
    """
    return f1 > SOLVED_ABOVE * best


def count_of(f1: NDArray[np.float64], best: NDArray[np.float64] | float = 1.0) -> Tally:
    """Tally the questions that are `solved`, of those to which the claim applies."""
    return Tally(int(solved(f1, best).sum()), int((~np.isnan(f1)).sum()))
