"""What a test of a metric found."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from attributionlab.base import (
    CONFIDENCE,
    FEWEST_FOR_ORDER,
    AttributionLabError,
    Files,
    as_json,
    attributes,
    correlation_text,
    library_versions,
    nearest,
    printable,
    write_atomically,
    write_csv,
)
from attributionlab.metrics.ranking import CorrelationInterval
from attributionlab.show import dots, scatter, study_page
from attributionlab.verdicts.metric_trials.agreement import (
    Contrast,
    Lead,
    RankedBy,
    Verdict,
    said,
    verdict_of,
)
from attributionlab.verdicts.metric_trials.check import CheckReport
from attributionlab.verdicts.metric_trials.conditions import AXES
from attributionlab.verdicts.metric_trials.graded import in_words

NOTES = (
    "agreement, correlation: Spearman's, of the metric's ranking of the attributions with the truth's "
    "(the lowest F1 of all masks), within each image; the mean over images with its interval.",
    "swap contrast: agreement with the truth of the network that was shown, minus agreement with that "
    "of its counterpart, a network with other roles for the same image. 0 for a metric that never "
    "queries the network; agreement alone does not show this.",
    "lead over control: agreement on both networks, minus that of the best control, with an interval "
    "over questions. Controls see no network, or query it about one pixel: what they reach is no "
    "achievement.",
    "likeness: correlation of the scores with those of a metric that never sees the network. beats "
    "exact: in how many questions a wrong attribution scores at least as well as the exact mask.",
)
DOSE_NOTES = (
    "At dose 0 of every axis, the replacement shows the network nothing unseen. Colors that a metric "
    "imputes itself (ROAD) are unseen if the network has redundant channels.",
    "drop: by how much a dose of unseen data lowers the agreement. break: the smallest dose from which "
    "the interval lies below the threshold.",
    "undefined: in every image, a score is NaN or all scores are equal.",
    "exact mask beaten: another map scores better than the exact signed mask, by more than 1 % of the "
    "range of all scores. At these doses the metric measures another truth.",
)
"""What the columns of the tables mean, and those about unseen data."""


BOTH = (
    "both networks: agreement with the truth on the attributions made for the question's network and "
    "for its counterpart, and on lures, mean of both networks. A valid metric is above all controls "
    "here. own network: on the attributions made for the question's network alone, where a control "
    "gains by what these share."
)
"""What the columns of the deciding table mean."""
QUICK = (
    "Quick: {n} questions of {side} x {side} pixels, unseen data at few doses, only the checks that "
    "can find an error."
)
FIRST_LOOK = {
    "valid": " This is a first look.",
    "undecided": " This is a first look: many metrics are undecided.",
}
"""What follows `QUICK` after those verdicts that a longer test may change."""
CARD = "Does this metric ..."
"""Title of the card that a verdict stands on."""
LOOKS = "looks at the network"
MADE_FOR = (
    "For which network an attribution was made: the own one, its counterpart (twin), or none. All "
    "scores are on the own one."
)
"""What the colors of the figure of attributions say."""
STATES = {"valid": "pass", "undecided": "inconclusive"}
"""Verdicts whose color is that of a test's; all others fail."""


DECIDES = "Agreement with the truth, beside controls that see almost nothing of a network"
"""Title of the table that decides whether a metric is valid."""
SHORT_TABLES = CARD, DECIDES
"""Titles of the tables that a terminal shows unless it is asked for all."""


class Trial(NamedTuple):
    """What a metric does without unseen data."""

    agreement: CorrelationInterval
    """with the truth's ranking by the lowest F1"""
    contrast: Contrast | None
    lead: Lead | None
    """agreement above that of the best control"""
    attributions: pd.DataFrame
    """a row for each attribution of each question before each network: score and F1"""
    controls: pd.DataFrame
    """what controls reach on the same attributions"""
    lures: pd.DataFrame
    """how wrong attributions that a metric may fall for score beside the exact one"""
    ranked: int
    """questions with a ranking: their scores are neither NaN nor all alike"""
    sees_signs: bool = True
    """whether turned signs of the exact attribution change any score"""


class DoseScore(NamedTuple):
    """A metric at one dose."""

    axis: str
    dose: float
    unseen: float
    """share of the replaced pixels that have a color unseen to the network, and set it off"""
    correlations: Mapping[RankedBy, CorrelationInterval]
    """correlation of its ranking with the truth's in each image: the mean with its interval"""
    oracle: float
    """mean score of the exact signed mask"""
    shapley: float
    """mean score of the exact Shapley values, which know nothing of the replacement"""
    best: float
    """the mean score of `best_map`"""
    best_map: str
    """which attribution at hand has the best mean score; "exact" unless another one is better by more
    than 1 % of the reach of all scores"""
    drop: CorrelationInterval | None = None
    """by how much it lowers the agreement, paired within questions; None where nothing is unseen, and
    without counterparts"""

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
            place = f"no break is shown up to {self.largest:g}"
        else:
            place = "broken even at dose 0" if self.dose == 0 else f"breaks at {self.dose:g}"
        without = ", ".join(f"{dose:g}" for dose in self.undefined)
        return f"{place}, undefined at {without}" if without else place


@dataclass(frozen=True, eq=False)
class MetricReport(Files):
    """Whether a metric ranks attributions as the truth does, and at which doses of unseen data.

    - `metric`: its name.
    - `higher_is_better`: which attributions it prefers.
    - `environment`, `output`: where it was tested, and the output explained.
    - `n`, `seed`: how many questions, and which.
    - `candidates`: names of the attributions that were ranked.
    - `doses`: by axis, in increasing order.
    - `trial`: agreement, swap contrast and whatever else the verdict depends on.
    - `not_decisive`: why nothing can be decided; "" if it can.
    - `has_unseen_data`: whether the environment can have unseen data; if not, no doses were tried.
    - `threshold`, `confidence`: for `breaks`, and for the intervals.
    - `command`: how to run it again.
    - `wanted`: planned number of questions; larger than `n` if the test was stopped.
    - `takes`: what the metric receives, "logits" or "probabilities"; None: the explained output.
    - `unmoved`: axes along which no score changes; they are reported no further.
    - `checks`: what the check of the metric's code found; None for a trial alone.
    - `image_size`: side of the images, in pixels.
    - `quick`: whether only the checks that can find an error ran, with few doses.
    """

    metric: str
    higher_is_better: bool
    environment: str
    output: str
    n: int
    seed: int
    candidates: Sequence[str]
    doses: Sequence[DoseScore]
    trial: Trial | None = None
    not_decisive: str = ""
    has_unseen_data: bool = True
    threshold: float = 0.5
    confidence: float = CONFIDENCE
    command: str = field(default="", repr=False)
    wanted: int | None = None
    takes: str | None = None
    unmoved: Sequence[str] = ()
    checks: CheckReport | None = None
    image_size: int | None = None
    quick: bool = False

    def __repr__(self) -> str:
        return f"MetricReport({self.metric!r}, {self.environment!r}, {len(self.doses)} doses)"

    def __str__(self) -> str:
        tables = [self.headline(), self.summary()]
        shown = [table.to_string(index=False) for table in tables if len(table)]
        checked = [] if self.checks is None else [self.checks.text()]
        return "\n".join([*checked, self.title, self.sentence, *shown])

    @property
    def title(self) -> str:
        """What was tested, and where."""
        about = (
            f"{self.metric} ({self._better} is better) on the {self.output} of {self.environment}"
        )
        about += f", handed {self.takes}" if self.takes else ""
        return (
            f"{about}, stopped after {self.n} of {self.wanted} questions" if self.stopped else about
        )

    @property
    def stopped(self) -> bool:
        """Whether the test was stopped before all questions were done."""
        return self.wanted is not None and self.n < self.wanted

    @property
    def verdict(self) -> Verdict:
        """ "valid", "not valid", "blind", "reversed", "undecided" (`metric_trials.agreement`) or
        "faulty" where the checks found an error of the code, so that there was no trial.
        """
        return self._decided[0]

    @property
    def sentence(self) -> str:
        """The verdict and why."""
        verdict, reason = self._decided
        if verdict == "reversed":
            reason += (
                f"; {self._better} counts as better here: pass "
                f"higher_is_better={not self.higher_is_better} (command: "
                f"{'with' if self.higher_is_better else 'without'} --lower-is-better) if that is the "
                "wrong direction"
            )
        return f"{verdict}: {reason}{f'. {self._no_drops}' if self._no_drops else ''}"

    @property
    def _better(self) -> str:
        return "higher" if self.higher_is_better else "lower"

    @property
    def _no_drops(self) -> str:
        """Why there are no drops; "" where there are."""
        if self.has_unseen_data:
            return ""
        return f"{self.environment} has no unseen data, so no drop was measured."

    @property
    def _decided(self) -> tuple[Verdict, str]:
        if self.checks is not None and self.checks.faults:
            wrong = "; ".join(f"{row.id}: {row.found}" for row in self.checks.faults)
            return "faulty", f"its code has an error, so there was no trial: {wrong}"
        if self.trial is None:
            return "undecided", "not decisive: there was no question"
        return verdict_of(
            *(self.trial.agreement, self.trial.contrast, self.trial.lead, self.n),
            sees_signs=self.trial.sees_signs,
            reason=self.not_decisive,
        )

    def headline(self) -> pd.DataFrame:
        """Agreement and swap contrast without unseen data, and how much doses lower the agreement."""
        if self.trial is None:
            return pd.DataFrame()
        rows = [("agreement", "", 0.0, self.trial.agreement)]
        if self.trial.contrast is not None:
            rows.append(("swap contrast", "", 0.0, self.trial.contrast.mean))
        if self.trial.lead is not None:
            rows.append(("lead over control", "", 0.0, self.trial.lead.mean))
        rows += [("drop", each.axis, each.dose, each.drop) for each in self.doses if each.drop]
        return pd.DataFrame(
            {"what": what, "axis": axis, "dose": dose, **found._asdict()}
            for what, axis, dose, found in rows
        )

    def card(self) -> pd.DataFrame:
        """What the verdict depends on, as questions: asked, answer ("yes", "no" or "undecided", by the
        intervals), measured.
        """
        trial = self.trial
        if trial is None:
            return pd.DataFrame()
        asked = {"prefers the truth without unseen data": ("agreement", trial.agreement)}
        if trial.contrast is not None:
            asked = {LOOKS: ("swap contrast", trial.contrast.mean)} | asked
        if trial.lead is not None:
            better = f"is better than the control {trial.lead.control}"
            asked[better] = ("lead", trial.lead.mean)
        rows = [
            (question, _answer(found, looks=question == LOOKS), said(name, found))
            for question, (name, found) in asked.items()
        ]
        if with_unseen := [each for each in self.doses if each.dose > 0]:
            beaten = [each for each in with_unseen if not each.measures_the_truth]
            worst = max(beaten, key=lambda each: abs(each.best - each.oracle), default=None)
            rows.append(
                (
                    "prefers the truth with unseen data",
                    f"no, {in_words(worst.best_map)} scores better" if worst else "yes",
                    f"at {worst.axis} {worst.dose:g}: {worst.best:.3g}, the truth {worst.oracle:.3g}"
                    if worst
                    else f"at {len(with_unseen)} dose{'s' * (len(with_unseen) > 1)}",
                )
            )
        return pd.DataFrame(rows, columns=["asked", "answer", "measured"])

    def _beside_controls(self) -> pd.DataFrame:
        """The metric, then the controls: what decides first, agreement on both networks."""
        trial = self.trial
        if trial is None or trial.lead is None or trial.contrast is None:
            return pd.DataFrame()
        own = {
            "metric": self.metric,
            "agreement_on_both": trial.lead.agreement,
            "agreement": trial.agreement.value,
            "contrast": trial.contrast.mean.value,
            "likeness": math.nan,
        }
        names = {
            "agreement_on_both": "both networks",
            "agreement": "own network",
            "contrast": "swap contrast",
        }
        return pd.DataFrame([own, *trial.controls.to_dict("records")]).rename(columns=names)

    def to_frame(self) -> pd.DataFrame:
        """A row for each attribution of each question on each of the two networks.

        Columns: metric, question, network ("own" or "twin"), name, family, made_for ("own", "twin" or
        "none"), score, and F1 against the truth of that network: f1_overall, f1_positive, f1_negative,
        f1_lowest; `attrs["sentence"]` has the verdict and why. Without unseen data; in a test without
        counterparts, at the dose that shows least of it.
        """
        table = pd.DataFrame() if self.trial is None else self.trial.attributions.copy()
        table.insert(0, "metric", self.metric)
        table.attrs["sentence"] = self.sentence
        return table

    def figure(self) -> Figure:
        """Agreement, swap contrast, lead and the drop at the largest dose of each axis with their
        intervals, beside the controls'. Raises AttributionLabError without a trial.
        """
        if self.trial is None:
            raise AttributionLabError(
                f"{self.metric} has no trial, so there is no figure or page: to_json writes its checks"
            )
        table = self.headline().drop_duplicates(["what", "axis"], keep="last", ignore_index=True)
        table["line"] = [
            f"{row.what} at {row.axis} {row.dose:g}" if row.axis else row.what
            for row in table.itertuples()
        ]
        table["of"] = self.metric
        blind = [
            {"line": line, **dict.fromkeys(("value", "low", "high"), value), "of": row.metric}
            for row in self.trial.controls.itertuples()
            for line, value in (("agreement", row.agreement), ("swap contrast", row.contrast))
        ]
        return dots(
            pd.concat([table, pd.DataFrame(blind)], ignore_index=True),
            *("value", "line"),
            color="of",
            title=f"{self.title}: {self.verdict}, {self.n} questions; lines: "
            f"{self.confidence:.0%} intervals\n{self._no_drops}".strip(),
            xlabel="Spearman correlation\n(agreement, contrast: higher is better; drop: lower)",
            reference=0,
        )

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of page and terminal, by title; without empty ones."""
        found = {CARD: self.card(), DECIDES: self._beside_controls(), "Headline": self.headline()}
        if self.trial is not None:
            doses = self.dose_frame().query("ranked_by == 'signed'")
            counted = f"{len(self.candidates)} attributions, mean over {self.n} questions"
            found |= {
                "Wrong attributions that may deceive a metric": self.trial.lures,
                "By dose": doses.drop(columns=["metric", "ranked_by"]),
                f"By axis; {counted}; threshold {self.threshold:g}": self.summary(),
            }
        return {name: table for name, table in found.items() if len(table)}

    def to_html(self, path: str | Path) -> None:
        """Write a self-contained page: verdict, figures, tables, command."""
        figures, tables = {"Headline": self.figure()}, self.tables()
        card = {name: tables.pop(name) for name in (CARD,) if name in tables}
        if self.checks is not None and self.checks.findings:
            found = pd.DataFrame(self.checks.findings).drop(columns="snippet").map(printable)
            tables["Checks of its code: faults and notes"] = found
        if self.trial is not None and len(self.trial.controls):
            own = self.to_frame().query("network == 'own'")
            means = own.groupby(["name", "made_for"], sort=False)[["f1_lowest", "score"]].mean()
            figures["Each attribution"] = scatter(
                means.reset_index(),
                *("f1_lowest", "score"),
                color="made_for",
                title=f"{self.metric} by F1, a dot for each attribution, mean over questions",
                xlabel="lowest F1 against the truth of the network shown (higher is better)",
                ylabel=f"score ({self._better} is better)",
            )
        page = study_page(
            self.title,
            [self.sentence.removeprefix(f"{self.verdict}: ")],
            figures,
            tables,
            self.command,
            first=card,
            notes=[*self.notes, *[MADE_FOR] * ("Each attribution" in figures)],
            verdict=self.verdict,
            state=STATES.get(self.verdict, "fail"),
        )
        write_atomically(path, page)

    def along(self, axis: str) -> list[DoseScore]:
        """The doses of one axis."""
        found = [each for each in self.doses if each.axis == axis]
        if not found:
            known = {each.axis for each in self.doses}
            raise AttributionLabError(f"no axis named {axis!r} here: {nearest(axis, known)}")
        return found

    def breaks(self, by: RankedBy = "signed") -> list[Break]:
        """For each axis, the smallest dose from which the upper end of the correlation's interval stays
        below the threshold. Doses without an interval are left out and named. `by`: which of the
        truth's rankings.
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

    def dose_frame(self) -> pd.DataFrame:
        """A row for each dose and each ranking of the truth."""
        columns = ["metric", "axis", "dose", "unseen", "ranked_by", "correlation", "low", "high"]
        others = ["oracle", "shapley", "best", "best_map"]
        rows = (
            {
                "metric": self.metric,
                "ranked_by": by,
                "correlation": found.value,
                "low": found.low,
                "high": found.high,
                **each._asdict(),
            }
            for each in self.doses
            for by, found in each.correlations.items()
        )
        return pd.DataFrame(rows, columns=[*columns, *others])

    def summary(self) -> pd.DataFrame:
        """A row for each axis: where the metric breaks, its lowest correlation with the truth's ranking
        by the lowest F1 of all masks, and which maps beat the exact signed mask at how many doses.
        """
        rows = []
        for broken in self.breaks():
            along = self.along(broken.axis)
            worst = min(along, key=_agreement)
            beaten = [each for each in along if not each.measures_the_truth]
            unscored = [each for each in along if math.isnan(each.oracle)]
            most = max(beaten, key=lambda each: abs(each.best - each.oracle), default=None)
            rows.append(
                {
                    "axis": broken.axis,
                    "what_varies": AXES[broken.axis].meaning,
                    "break": str(broken),
                    "lowest_correlation": correlation_text(*worst.correlations["signed"])
                    or "undefined",
                    "at": worst.dose,
                    "exact_mask_beaten": f"at {len(beaten)} of {len(along)} doses",
                    "by": "; ".join(dict.fromkeys(each.best_map for each in beaten)),
                    "largest_gap": f"{most.oracle:.3g} to {most.best:.3g}" if most else "",
                    "without_score": len(unscored),
                }
            )
        return pd.DataFrame(rows)

    @property
    def caveats(self) -> list[str]:
        """What a reader must know of the verdict: a stop, a quick test, few questions."""
        found = []
        if self.stopped:
            found.append(
                f"Stopped after {self.n} of {self.wanted} questions: the report covers these only. To "
                "continue, repeat the command with the same --out."
            )
        if self.trial is not None and self.quick:
            about = QUICK + FIRST_LOOK.get(self.verdict, "")
            found.append(about.format(n=self.n, side=self.image_size))
        ranked = self.n if self.trial is None else self.trial.ranked
        if ranked < FEWEST_FOR_ORDER:
            counted = f", of which {ranked} have a ranking" * (ranked < self.n)
            found.append(
                f"n = {self.n}{counted}: intervals of fewer than {FEWEST_FOR_ORDER} questions cover "
                f"less often than {self.confidence:.0%}. Take 8 or more before you say that a metric "
                "breaks."
            )
        return found

    @property
    def notes(self) -> list[str]:
        """The caveats, and the meaning of the tables' columns."""
        contrast = None if self.trial is None else self.trial.contrast
        notes = [*self.caveats, BOTH, *NOTES]
        if contrast is not None and not math.isnan(contrast.possible):
            reach = f"has a swap contrast of {contrast.possible:.2f} on these questions."
            notes.append(f"The truth itself {reach}")
        notes += DOSE_NOTES if self.has_unseen_data else ()
        return notes + [
            f"Doses of {axis} ({AXES[axis].meaning}) change no score: the metric ignores them."
            for axis in self.unmoved
        ]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, NaN as None."""
        fields = ("metric", "higher_is_better", "environment", "output", "n", "seed")
        trial = self.trial
        tried = trial and {
            "headline": self.headline(),
            "contrasts": trial.contrast and trial.contrast.each,
            "possible_contrast": trial.contrast and trial.contrast.possible,
            "lead": trial.lead and trial.lead._asdict(),
            "sees_signs": trial.sees_signs,
            "controls": trial.controls,
            "lures": trial.lures,
            "attributions": trial.attributions,
        }
        found: dict[str, Any] = as_json(
            {
                "schema": 4,
                "verdict": self.verdict,
                "quick": self.quick,
                "sentence": self.sentence,
                **attributes(self, *fields, "has_unseen_data"),
                **(tried or {}),
                **attributes(self, "candidates", "threshold", "confidence"),
                "doses": [
                    {key: value for key, value in each._asdict().items() if key != "drop"}
                    for each in self.doses
                ],
                "unmoved_axes": self.unmoved,
                "takes": self.takes,
                "breaks": {
                    by: {each.axis: each.dose for each in self.breaks(by)}
                    for by in (self.doses[0].correlations if self.doses else ())
                },
                "summary": self.summary(),
                "notes": self.notes,
                "checks": self.checks and self.checks.to_dict(),
                "command": self.command,
                "versions": library_versions(),
            }
        )
        return found

    def to_csv(self, path: str | Path) -> None:
        """Write the table of `dose_frame`."""
        write_csv(path, self.dose_frame())


def _answer(found: CorrelationInterval, *, looks: bool) -> str:
    """Whether a number is above zero, by its interval; below, a metric that `looks` is reversed."""
    if math.isnan(found.low):
        return "undecided"
    if looks and found.high < 0:
        return "yes, reversed"
    return "yes" if found.low > 0 else "no" if found.high <= 0 else "undecided"


def _agreement(dose: DoseScore) -> float:
    """With the truth; none is the worst."""
    value = dose.correlations["signed"].value
    return -math.inf if math.isnan(value) else value
