"""What was held against which oracle, and whether it agreed."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Check:
    """One claim about a network, held against its oracle.

    - `name`: short name, unique within a certificate.
    - `claim`: what was held against which oracle, in one sentence.
    - `tested`, `mismatches`: how many comparisons, and how many of them disagreed.
    - `detail`: the first counterexample (the input, what came out, what should have), or how many
      agreed.
    """

    name: str
    claim: str
    tested: int
    mismatches: int
    detail: str

    @property
    def passed(self) -> bool:
        """Whether something was tested and nothing disagreed."""
        return self.tested > 0 and self.mismatches == 0


@dataclass(frozen=True)
class Precision:
    """What the network answers in numbers of fewer bits: a report, nothing that can fail.

    - `dtype`: "float16" or "bfloat16".
    - `images`, `equal`: how many images were shown, and for how many all logits equal those in float32.
    - `largest_difference`: largest difference of a logit; None where a logit is no finite number.
    - `proved`: whether the exactness budget proves that all logits are equal, for any image of the
      valid box.
    """

    dtype: str
    images: int
    equal: int
    largest_difference: float | None
    proved: bool


@dataclass(frozen=True)
class Certificate:
    """All checks of one environment.

    `environment`: its name. `checks`: in the order of the network: pixels, sums, head, the whole.
    `precisions`: one for each number type of half precision.
    """

    environment: str
    checks: list[Check]
    precisions: list[Precision] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """The content in JSON types."""
        return {
            "schema": 1,
            "environment": self.environment,
            "passed": self.passed,
            "checks": [asdict(check) | {"passed": check.passed} for check in self.checks],
            "precisions": [asdict(precision) for precision in self.precisions],
        }


class Tally:
    """A check while it runs: counts agreements and keeps the first counterexample."""

    def __init__(self, name: str, claim: str) -> None:
        self.name, self.claim = name, claim
        self.tested = self.mismatches = 0
        self.counterexample = ""

    def record(self, agrees: Bool[Tensor, " inputs"], describe: Callable[[int], str]) -> None:
        """Add one comparison per input; `describe` says what is wrong with input i."""
        wrong = (~agrees).nonzero()
        if len(wrong) and not self.mismatches:
            self.counterexample = describe(int(wrong[0]))
        self.tested += len(agrees)
        self.mismatches += len(wrong)

    def compare(
        self,
        got: Float[Tensor, "inputs outputs"],
        expected: Float[Tensor, "inputs outputs"],
        describe: Callable[[int], str] | str,
    ) -> None:
        """Add one comparison per input: all its outputs must be equal.

        `describe` names input i, or is a noun to which the number i is added.
        """

        def difference(i: int) -> str:
            # The unequal outputs alone: a detector has more of them than a reader takes in.
            outputs = (got[i] != expected[i]).nonzero()[:, 0].tolist()
            shown = outputs[:4]
            more = f" (and {len(outputs) - len(shown)} more)" if len(outputs) > len(shown) else ""
            values = ", ".join(
                f"output {k}: got {float(got[i, k]):g}, expected {float(expected[i, k]):g}"
                for k in shown
            )
            name = f"{describe} {i}" if isinstance(describe, str) else describe(i)
            return f"{name}: {values}{more}"

        # NaN equals nothing, so it is a mismatch.
        self.record((got == expected).all(1), difference)

    def check(self) -> Check:
        """The check as it stands."""
        if self.mismatches:
            detail = f"{self.mismatches:,} of {self.tested:,} disagree, first {self.counterexample}"
        else:
            detail = f"{self.tested:,} of {self.tested:,} agree"
        return Check(self.name, self.claim, self.tested, self.mismatches, detail)


def compared(
    name: str,
    claim: str,
    got: Float[Tensor, "inputs outputs"],
    expected: Float[Tensor, "inputs outputs"],
    describe: Callable[[int], str] | str,
) -> Check:
    """The check of one `Tally.compare`."""
    tally = Tally(name, claim)
    tally.compare(got, expected, describe)
    return tally.check()
