"""What a diagnosis rests on, and what it says."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from attributionlab.assess.likeness import MARGIN, Likeness, LookAlike

__all__ = ["Evidence", "Hint"]

LIKE_ENOUGH = 0.5
"""Similarity with a predicted map from which the prediction may be named."""

WORTH_SAYING = 0.05
"""F1 that a cause must explain to be named."""

EQUALLY_GOOD = 0.02
"""Difference in F1 explained up to which two failures cannot be told apart."""


class Hint(NamedTuple):
    """A likely cause, in the words of a report."""

    cause: str
    """short kebab-case name"""
    says: str
    """what was measured, in one sentence"""
    confirm: str
    """the experiment that would confirm it"""
    explains: float
    """F1 that it accounts for, at most what is missing"""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known about a method in one environment.

    Parameters
    ----------
    environment, method, claim, part : str
        Names; `part` is the part of the truth that decides over the claim.
    gamma, missing : float
        The F1 that must be reached, and 1 - F1 of that part (mean over images).
    shares : mapping of str to float
        `attributionlab.assess.shares.missing_shares`, means over images.
    likeness : Likeness
        Of a few of the images.
    guards : sequence of str
        Sentences that the guards said in this environment.
    completeness_gap : float, optional
        Of the median image; None where nobody looked.
    settings : mapping
        Of the method.
    asks_for_baseline : bool
        Whether the method is given the true baseline.
    regression : bool
        Whether the environment has one output.
    unseen_colors_disturb : bool
        Whether colors that the network has never seen change its output.
    temperature : float, optional
        Of the softmax, where there is one.
    all_zero : float
        Share of maps that are zero everywhere.
    own_resolution, own_ceiling : str and float, optional
        On what the method's maps are constant, and the best claim F1 attainable so.
    positive_only : bool
        Whether no map has a negative value.
    stochastic : bool
        Whether the method gives other maps with another seed.
    preferred : str, optional
        The failure to name among those that this environment cannot tell apart.
    """

    environment: str
    method: str
    claim: str
    part: str
    gamma: float
    missing: float
    shares: Mapping[str, float]
    likeness: Likeness
    guards: Sequence[str] = ()
    completeness_gap: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    asks_for_baseline: bool = False
    regression: bool = False
    unseen_colors_disturb: bool = False
    temperature: float | None = None
    all_zero: float = 0.0
    own_resolution: str | None = None
    own_ceiling: float | None = None
    positive_only: bool = False
    stochastic: bool = False
    preferred: str | None = None

    def share(self, *names: str) -> float:
        """The sum of some shares."""
        return sum(self.shares.get(name, 0.0) for name in names)

    def told(self, phrase: str) -> bool:
        """Whether a guard said so."""
        return any(phrase in sentence for sentence in self.guards)

    def test(self, options: str = "", method: str = "", environment: str = "") -> str:
        """The command of a test that differs from this one as stated."""
        command = (
            f"attributionlab test {method or self.method} --env {environment or self.environment}"
        )
        return f"{command} {options}".strip()

    def look_alikes(self) -> Iterator[LookAlike]:
        """Failures that the maps are like, and more so than like the truth."""
        for each in self.likeness.ranked:
            # Undoing a failure leaves a map that is at least as like the truth.
            margin = MARGIN if each.f1 is None else -EQUALLY_GOOD
            enough = max(LIKE_ENOUGH, self.likeness.truth + margin)
            if each.similarity >= enough and each.explains >= WORTH_SAYING:
                yield each

    def indistinct(self) -> list[LookAlike]:
        """The failures that explain most, as far as this environment can tell them apart."""
        like = list(self.look_alikes())
        most = max((each.explains for each in like), default=0.0)
        return [each for each in like if each.explains >= most - EQUALLY_GOOD]

    def best(self) -> LookAlike | None:
        """The failure that the maps look like, if any."""
        equal = self.indistinct()
        preferred = [each for each in equal if each.cause == self.preferred]
        return next(iter([*preferred, *equal]), None)
