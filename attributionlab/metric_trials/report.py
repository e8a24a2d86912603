"""What a test of a metric found."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attributionlab.errors import AttributionLabError, nearest
from attributionlab.files import write_atomically, write_csv
from attributionlab.metric_trials.agreement import RankedBy
from attributionlab.metric_trials.conditions import AXES
from attributionlab.ranking import CorrelationInterval
from attributionlab.versions import library_versions

if TYPE_CHECKING:
    import pandas as pd

FEW_IMAGES = 6
"""Below it, so many images of a symmetric score lie on one side of the mean more often than in 5 %."""


class DoseScore(NamedTuple):
    """A metric at one dose."""

    axis: str
    dose: float
    unseen: float
    """share of the replaced pixels that have a color unseen to the network, and set it off"""
    correlations: Mapping[RankedBy, CorrelationInterval]
    """of its ranking with the truth's, image by image; their mean with its interval"""
    oracle: float
    """mean score of the exact signed mask"""
    shapley: float
    """of the exact Shapley values, which know nothing of the replacement"""
    best: float
    """the mean score of `best_map`"""
    best_map: str
    """which attribution at hand has the best mean score; "exact" unless another one is better by more
    than 1 % of the reach of all scores"""

    @property
    def measures_the_truth(self) -> bool:
        """Whether no attribution at hand beats the exact signed mask."""
        return self.best_map == "exact"


class Break(NamedTuple):
    """From which dose on a metric no longer ranks as the truth does."""

    axis: str
    dose: float | None
    """None: no break is shown up to the largest dose; with few images that says little"""
    largest: float
    """the largest dose that was tried at which there is an interval; NaN if there is none at any"""
    undefined: tuple[float, ...] = ()
    """doses at which there is none, because there is no ranking: these neither break nor hold"""

    def __str__(self) -> str:
        if math.isnan(self.largest):
            return "undefined at every dose"
        if self.dose is None:
            said = f"no break is shown up to {self.largest:g}"
        else:
            said = "breaks without any dose" if self.dose == 0 else f"breaks at {self.dose:g}"
        without = ", ".join(f"{dose:g}" for dose in self.undefined)
        return f"{said}, undefined at {without}" if without else said


@dataclass(frozen=True, eq=False)
class MetricReport:
    """How a metric ranks attributions at rising doses of unseen data.

    Parameters
    ----------
    metric : str
        Its name.
    higher_is_better : bool
        Which attributions it prefers.
    environment, output : str
        Where, and which output was explained.
    n, seed : int
        How many images, and which.
    candidates : sequence of str
        Names of the attributions that were ranked.
    doses : sequence of DoseScore
        Axis by axis, by rising dose.
    threshold, confidence : float
        Of `breaks`, and of the intervals.
    command : str
        How to run it again.
    """

    metric: str
    higher_is_better: bool
    environment: str
    output: str
    n: int
    seed: int
    candidates: Sequence[str]
    doses: Sequence[DoseScore]
    threshold: float = 0.5
    confidence: float = 0.95
    command: str = field(default="", repr=False)

    def __repr__(self) -> str:
        return f"MetricReport({self.metric!r}, {self.environment!r}, {len(self.doses)} doses)"

    def __str__(self) -> str:
        return "\n".join([self.title, *self.findings()])

    @property
    def title(self) -> str:
        """What was tested, and where."""
        direction = "higher" if self.higher_is_better else "lower"
        return f"{self.metric} ({direction} is better) on the {self.output} of {self.environment}"

    def along(self, axis: str) -> list[DoseScore]:
        """The doses of one axis."""
        found = [each for each in self.doses if each.axis == axis]
        if not found:
            known = {each.axis for each in self.doses}
            raise AttributionLabError(f"no axis named {axis!r} here: {nearest(axis, known)}")
        return found

    def breaks(self, by: RankedBy = "signed") -> list[Break]:
        """For each axis the smallest dose from which on, up to the largest, the upper end of the
        correlation's interval lies below the threshold. Doses without an interval are left out and
        named.

        Parameters
        ----------
        by : {"signed", "overall", "positive"}
            Which of the truth's rankings.
        """
        result = []
        for axis in dict.fromkeys(each.axis for each in self.doses):
            highs = {each.dose: each.correlations[by].high for each in self.along(axis)}
            known = [dose for dose, high in highs.items() if not math.isnan(high)]
            found: float | None = None
            for dose in reversed(known):
                if highs[dose] >= self.threshold:
                    break
                found = dose
            largest = known[-1] if known else math.nan
            undefined = tuple(dose for dose in highs if dose not in known)
            result.append(Break(axis, found, largest, undefined))
        return result

    def to_frame(self) -> "pd.DataFrame":
        """A row for each dose and each ranking of the truth."""
        import pandas as pd

        return pd.DataFrame(
            {
                "metric": self.metric,
                "axis": each.axis,
                "dose": each.dose,
                "unseen": each.unseen,
                "ranked_by": by,
                "correlation": found.value,
                "low": found.low,
                "high": found.high,
                "oracle": each.oracle,
                "shapley": each.shapley,
                "best": each.best,
                "best_map": each.best_map,
            }
            for each in self.doses
            for by, found in each.correlations.items()
        )

    def findings(self) -> list[str]:
        """What it means, in sentences."""
        unseen = [each for each in self.doses if each.unseen > 0]
        clean = [each for each in self.doses if each.unseen == 0]
        sentences = []
        for which, doses in (("without unseen data", clean), ("with unseen data", unseen)):
            if doses:
                worst = _said(min(doses, key=_agreement))
                varies = len({_said(each) for each in doses}) > 1
                sentences.append(
                    f"{which}: Spearman correlation with the truth's ranking (lowest F1 of all masks) "
                    f"of {len(self.candidates)} attributions, mean over {self.n} images: {worst}"
                    f"{', at the worst dose' if varies else ''}."
                )
        sentences += [
            f"{broken.axis} ({AXES[broken.axis].meaning}): {broken}." for broken in self.breaks()
        ]
        if self.n < FEW_IMAGES:
            sentences.append(
                f"With {self.n} images intervals hold less often than {self.confidence:.0%}: take 8 or "
                "more before you say that a metric breaks."
            )
        return [*sentences, self._optimum()]

    def _optimum(self) -> str:
        """Where the exact mask is not the best map, and which one is."""
        unscored = [each for each in self.doses if math.isnan(each.oracle)]
        missing = f"At {len(unscored)} of {len(self.doses)} doses the exact mask's score is NaN."
        scored = [each for each in self.doses if not math.isnan(each.oracle)]
        beaten = [each for each in scored if not each.measures_the_truth]
        if not beaten and unscored:
            return missing
        if not beaten:
            return "No attribution at hand scores better than the exact signed mask, at any dose."
        worst = max(beaten, key=lambda each: abs(each.best - each.oracle))
        names = dict.fromkeys(each.best_map for each in beaten)
        return (
            f"{missing + ' ' if unscored else ''}At {len(beaten)} of {len(self.doses)} doses another "
            f"map scores better than the exact signed mask ({'; '.join(names)}): it measures another "
            f"truth there. The largest gap is {worst.oracle:.3g} against {worst.best:.3g}, at "
            f"{worst.axis} {worst.dose:g}."
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, NaN as None."""
        return {
            "schema": 1,
            **{
                name: getattr(self, name)
                for name in ("metric", "higher_is_better", "environment", "output", "n", "seed")
            },
            "candidates": list(self.candidates),
            "threshold": self.threshold,
            "confidence": self.confidence,
            "doses": [
                {
                    "axis": each.axis,
                    "dose": each.dose,
                    "unseen": each.unseen,
                    "correlations": {
                        by: {name: _or_none(value) for name, value in found._asdict().items()}
                        for by, found in each.correlations.items()
                    },
                    **{
                        name: _or_none(getattr(each, name))
                        for name in ("oracle", "shapley", "best")
                    },
                    "best_map": each.best_map,
                }
                for each in self.doses
            ],
            "breaks": {
                by: {each.axis: each.dose for each in self.breaks(by)}
                for by in (self.doses[0].correlations if self.doses else ())
            },
            "findings": self.findings(),
            "command": self.command,
            "versions": library_versions(),
        }

    def to_json(self, path: str | Path) -> None:
        """Write `to_dict` to a file."""
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)
        write_atomically(path, text + "\n")

    def to_csv(self, path: str | Path) -> None:
        """Write the table of `to_frame`."""
        write_csv(path, self.to_frame())


def _agreement(dose: DoseScore) -> float:
    """With the truth; none is the worst."""
    value = dose.correlations["signed"].value
    return -math.inf if math.isnan(value) else value


def _said(dose: DoseScore) -> str:
    interval = dose.correlations["signed"]
    if math.isnan(interval.value):
        return "undefined (in every image a score is NaN, or all are alike)"
    return f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
