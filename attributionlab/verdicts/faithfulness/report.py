"""What a faithfulness test found, as an object, a table and a file."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import (
    Files,
    Interval,
    attributes,
    over_runs,
    write_atomically,
)
from attributionlab.methods import figure_label
from attributionlab.verdicts.diagnosis.evidence import Evidence, Hint
from attributionlab.verdicts.diagnosis.hints import Diagnosis, across, diagnose
from attributionlab.verdicts.faithfulness import verdicts
from attributionlab.verdicts.faithfulness.equal_networks import Drift, Robustness
from attributionlab.verdicts.faithfulness.protocol import protocol_entry
from attributionlab.worlds import asked_by

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = 100
"""Width of the short table, which has a column for each implementation."""
SCORES = ("precision", "recall", "f1")
ImageScores = dict[str, dict[str, NDArray[np.float64]]]
"""Part -> precision, recall, F1 -> (n,), NaN where not applicable."""


class Example(NamedTuple):
    """One image of a test, for looking at."""

    sample: int
    rank: str
    """"worst", "lower quartile", "median", "upper quartile" or "best" by the claim's F1"""
    f1: float
    image: NDArray[np.float32]
    """(C, H, W), integers from 0 to `highest`."""
    highest: int
    truth: NDArray[np.int8]
    """(H, W), -1, 0, +1"""
    attribution: NDArray[np.float32]
    """(H, W), normalized to [-1, 1]"""
    signless: Mapping[str, NDArray[np.bool_]]
    """(H, W) by "mixed" and "not asked", where there are such pixels"""
    faint: bool = False
    """whether the map's largest magnitude is less than 1e-6 of the output's change"""


class TruthScore(NamedTuple):
    """Attributions against one definition of the truth: means over the studied images."""

    definition: str
    meaning: str
    source: str
    rank_correlation: float | None
    """None, here and below, where it is defined for no image"""
    cosine: float | None
    sign_agreement: float | None
    sum_gap: float | None
    """what the attributions' sum misses of the definition's, as a share; None for masks"""


@dataclass(frozen=True, eq=False, kw_only=True)
class EnvironmentResult(verdicts.ClaimScore):
    """What a method scored in one environment, beside `ClaimScore`.

    - `name`, `implementation`: the environment, and how its networks are written.
    - `output`, `truth_output`: which of its outputs was explained, and which one the truth is about.
    - `settings`: settings of the method here, a preset's included.
    - `claim_part`: for the claim "signed" the part with the lowest mean F1.
    - `scores`: for each part ("overall", "positive", "negative" and, if claimed, "positive-smoothed")
      precision, recall and F1 of each image, NaN where not applicable.
    - `lowest`: (n,), the lowest F1 of each question over the claim's parts; it solves the question if
      it lies above two thirds of `best`.
    - `intervals`: intervals of the means of these, with a confidence of 95 %.
    - `bar`: controls that see the input only and pass: the bar that this environment sets.
    - `hidden`: what the environment draws anew for each question, with the number of alternatives
      (`attributionlab.worlds.environment.hidden`); empty where all images have one network.
    - `best`: (n,), the F1 of the best possible map for the claim; 1 for masks.
    - `studied_images`: on how many of the first images likenesses, resolution and the runner-up rest.
    - `resolution`, `resolution_f1`: what limits the method's maps, such as a grid of cells, and the
      claim's best F1 under this limit; None where nothing does.
    - `strict`: in worlds from rules, for each part the mean F1 of the studied images where every pixel
      but null players is relevant and signs are those that nothing contradicts (`rules.game.strict`);
      empty elsewhere.
    - `runner_up`: for each part the mean F1 where the class of the second-most pixels is explained.
    - `evidence`: what is known about why F1 is missing.
    - `stochastic`: whether the method draws random numbers.
    - `seeds`: how often it was run on each image.
    - `seed_sd`: standard deviation of an image's F1 from seed to seed.
    - `compared_runs`: for a method that optimizes, `scores` of each of several runs: of the first
      images, or of all images under several seeds; empty for others.
    - `digest`: hash of the environment's specification.
    - `computes`: what its network does, in a sentence.
    - `constants`: its constants, overrides included.
    - `seconds`: that the method took for an image.
    - `completeness_gap`: for methods whose attributions claim to sum to an output change: per image,
      the share of that change which they miss.
    - `drift`: how far the method's maps lie apart on functionally equal networks; None without
      camouflage.
    - `attributions`: (k, H, W), normalized to [-1, 1]; of the first k images, whose maps take no more
      than 16 MiB: all of up to 83 images at 224 pixels.
    - `faint`: (k,) of bool: whether the largest magnitude of the map was less than 1e-6 of how far the
      output changes from the true baseline to the image, so that figures show no attribution.
    - `images`, `truth`: (k, C, H, W) of integers, and (k, H, W) of -1, 0 and +1: what was explained,
      and its truth.
    - `signless`: (k, H, W) of bool by "mixed" (relevant, its sign is not asked) and "not asked"; what
      is nowhere is left out.
    - `examples`: from the worst to the best of these images.
    - `robustness`: scores on equivalent networks; None where they were not asked for.
    - `truth_scores`: scores against every definition of the truth, on the studied images; empty without
      `truths`.
    - `worlds`: of random worlds, what is solved in each; empty elsewhere.
    """

    name: str
    implementation: str
    output: str
    truth_output: str
    settings: Mapping[str, Any]
    claim_part: str
    scores: ImageScores = field(repr=False)
    lowest: NDArray[np.float64] = field(repr=False)
    intervals: Mapping[str, Mapping[str, Interval | None]] = field(repr=False)
    bar: Sequence[str]
    hidden: Mapping[str, int]
    best: NDArray[np.float64] = field(repr=False)
    studied_images: int
    resolution: str | None = None
    resolution_f1: float | None = None
    strict: Mapping[str, float | None]
    runner_up: Mapping[str, float | None] | None
    evidence: Evidence | None = field(default=None, repr=False)
    stochastic: bool
    seeds: int
    seed_sd: float | None
    compared_runs: Sequence[ImageScores] = field(repr=False)
    temperature: float | None
    digest: str
    computes: str
    constants: Mapping[str, Any] = field(repr=False)
    seconds: float
    completeness_gap: NDArray[np.float64] | None = field(repr=False)
    drift: Drift | None = field(repr=False)
    attributions: NDArray[np.float32] = field(repr=False)
    faint: NDArray[np.bool_] = field(repr=False)
    images: NDArray[np.uint8] = field(repr=False)
    truth: NDArray[np.int8] = field(repr=False)
    signless: Mapping[str, NDArray[np.bool_]] = field(repr=False)
    examples: Sequence[Example] = field(repr=False)
    robustness: Robustness | None = None
    truth_scores: Sequence[TruthScore] = ()
    worlds: Sequence[verdicts.WorldCount] = field(default=(), repr=False)

    def mean(self, part: str, score: str) -> float | None:
        """Mean over the images to which it applies, None without any."""
        return verdicts.mean_of(self.scores[part][score])

    @property
    def questions_to_decide(self) -> int | None:
        """For "inconclusive": how many questions would decide if the share solved stayed as it is."""
        if self.verdict != "inconclusive":
            return None
        return self.count.questions_to_decide(self.environments)

    @property
    def ceiling(self) -> float | None:
        """For the claim "positive-smoothed", the mean F1 of the best possible map."""
        return verdicts.mean_of(self.best) if "positive-smoothed" in self.scores else None

    @property
    def diagnosis(self) -> Diagnosis | None:
        """What is missing, and likely causes; None if only the verdict counts."""
        return None if self.evidence is None else diagnose(self.evidence)

    @property
    def example(self) -> Example:
        """The image with the median F1."""
        return next(each for each in self.examples if each.rank == "median")

    @property
    def median_gap(self) -> float | None:
        """The completeness gap of the median image (`median_gap`)."""
        return median_gap(self.completeness_gap)

    def spread(self) -> list[dict[str, Any]]:
        """For a method that optimizes, the lowest and the highest mean of each score over several runs;
        empty for others.

        Each has under "of" which one it is and under "images" of how many, and for each part its
        scores, None where the part does not apply.
        """
        runs = self.compared_runs
        rows = []
        for name, end in over_runs(len(runs)).items():
            images = len(runs[0]["overall"]["f1"])
            few = "" if images == len(self.scores["overall"]["f1"]) else f", first {images} images"
            row: dict[str, Any] = {"of": f"{name}{few}", "images": images}
            for part in runs[0]:
                ends = {
                    score: end([verdicts.mean_of(run[part][score]) for run in runs])
                    for score in SCORES
                }
                row[part] = None if ends["f1"] is None else ends
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON file: numbers, None for what does not apply."""
        document: dict[str, Any] = {
            **attributes(self, "name", "implementation", "computes", "output", "truth_output"),
            "settings": {key: plain(value) for key, value in self.settings.items()},
            **attributes(self, "verdict", "reason"),
            **attributes(self.count, "solved", "asked"),
            "solved_ci": ends(self.count.interval),
            "questions_to_decide": self.questions_to_decide,
            "hidden": dict(self.hidden),
            "claim_f1": self.claim_f1,
            "claim_ci": ends(self.claim_interval),
            **attributes(self, "claim_part", "reaches_gamma", "studied_images"),
            "bar": list(self.bar),
            **attributes(self, "resolution", "resolution_f1"),
            "truths": [score._asdict() for score in self.truth_scores],
            "runner_up": self.runner_up and {"images": self.studied_images, **self.runner_up},
            "diagnosis": _diagnosis(self.diagnosis),
            "drift": None if self.drift is None else self.drift.to_dict(),
            "equivalent": None if self.robustness is None else self.robustness.to_dict(),
            **attributes(self, "stochastic", "seeds", "seed_sd"),
            "spread": self.spread(),
            "seconds_per_image": self.seconds,
            "temperature": self.temperature,
            "spec": self.digest,
            "constants": json.loads(json.dumps(dict(self.constants))),  # lists, as in the file
        }
        for part in self.scores:
            means = {score: self.mean(part, score) for score in SCORES}
            spans = {f"{score}_ci": ends(self.intervals[part][score]) for score in SCORES}
            document[part] = None if means["f1"] is None else means | spans
        if self.strict:
            document["strict"] = dict(self.strict)
        if self.ceiling is not None:
            document["ceiling_f1"] = self.ceiling
        if self.median_gap is not None:
            document["completeness_gap"] = self.median_gap
        if self.worlds:
            document["worlds"] = [each.to_dict() for each in self.worlds]
            document["by_feature"] = {
                feature: {side: count._asdict() for side, count in sides.items()}
                for feature, sides in verdicts.by_feature(self.worlds).items()
            }
        return document


def excludes(results: Sequence[EnvironmentResult], claim: str) -> dict[str, dict[str, Any]]:
    """What the claim asks and some environment hides: the most that a map made without it solves.

    For each thing the environment that says most: its number of alternatives m, and how probable so
    many solved questions are where each is solved with probability 1/m (`Tally.chance`).
    """
    found = {}
    for thing in asked_by(claim):
        chances = [
            (each.count.chance(each.hidden[thing]), each.hidden[thing], each.name)
            for each in results
            if thing in each.hidden
        ]
        if chances:
            chance, alternatives, name = min(chances)
            found[thing] = {"alternatives": alternatives, "chance": chance, "environment": name}
    return found


def not_excluded(results: Sequence[EnvironmentResult], claim: str) -> list[str]:
    """What the claim asks and none of the environments hides, so that a pass does not need it."""
    return [thing for thing in asked_by(claim) if not any(thing in each.hidden for each in results)]


def median_gap(gaps: NDArray[np.float64] | None) -> float | None:
    """The completeness gap of the median image, None where it is unknown or not finite."""
    median = math.nan if gaps is None else float(np.median(gaps))
    return median if math.isfinite(median) else None


def plain(value: Any) -> Any:
    """A setting as it is written into a file."""
    if isinstance(value, bool | str | None):
        return value
    if isinstance(value, int | float) and abs(value) < 2**63:  # neither infinite nor NaN
        return value
    return _written(value)


def format_settings(settings: Mapping[str, Any]) -> str:
    """Settings as Python would write them, as far as they can be written."""
    written = (f"{key!r}: {_written(value)}" for key, value in settings.items())
    return f"{{{', '.join(written)}}}"


def _written(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # somebody's own __repr__ fails, or an integer has too many digits
        return f"<{type(value).__name__}>"


def ends(interval: Interval | None) -> list[float] | None:
    """An interval as it is written into a file."""
    return None if interval is None else [interval.low, interval.high]


def hint_document(hint: Hint) -> dict[str, str]:
    """A hint as it is written into a file."""
    return {"cause": hint.cause, "says": hint.says, "confirm": hint.confirm}


def _diagnosis(diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    if diagnosis is None:
        return None
    return {
        "missing": diagnosis.missing,
        "shares": dict(diagnosis.shares),
        "hints": [hint_document(hint) for hint in diagnosis.hints],
    }


GRAVEST_FIRST: tuple[verdicts.Verdict, ...] = ("invalid", "fail", "inconclusive")
"""A control with the wrong result comes first: then the test itself is wrong."""


def gravest(found: Collection[str]) -> verdicts.Verdict:
    """The verdict of several environments together."""
    return next((verdict for verdict in GRAVEST_FIRST if verdict in found), "pass")


@dataclass(frozen=True, eq=False)
class FaithfulnessReport(Files):
    """The outcome of a faithfulness test. Passing is necessary for faithfulness, never sufficient.

    - `claim`: what was tested: "signed", "overall", "positive", "positive-smoothed" or "agreed".
    - `method`: the method's name.
    - `settings`: what the user set.
    - `preset`: whose settings apply otherwise.
    - `seed`, `n`: which images, and how many of each environment.
    - `one_network`: whether all images of an environment share one network.
    - `seed_drawn`, `seed_bound`: whether the seed was drawn for this test ("fresh"), or follows from
      the protocol and the method's code ("bound"), and was not given.
    - `changed`: what differs from the protocol (`attributionlab.verdicts.faithfulness.protocol`).
    - `source`: the file of the method, with its SHA-256.
    - `given`: arguments that give the method more than the image, such as "baseline".
    - `environments`: one per environment.
    - `warnings`: what was accepted although it is unusual.
    - `command`: how to run it again.
    - `versions`: versions of the libraries, with the number of threads.
    """

    claim: str
    method: str
    settings: Mapping[str, Any]
    preset: str | None
    seed: int
    n: int
    environments: list[EnvironmentResult]
    warnings: list[str]
    command: str
    versions: Mapping[str, str]
    one_network: bool = False
    seed_drawn: bool = False
    seed_bound: bool = False
    changed: Sequence[str] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    given: Sequence[str] = ()

    def __repr__(self) -> str:
        from attributionlab.show import as_text, verdict_table

        return as_text(verdict_table(self.to_dict()), COLUMNS)

    def text(self) -> str:
        """All scores and notes, as ``attributionlab test --verbose`` prints them."""
        from attributionlab.show import as_text, report_table

        return as_text(report_table(self.to_dict()))

    def _repr_html_(self) -> str:
        from attributionlab.show import report_fragment

        return report_fragment(self.to_dict())

    @property
    def verdict(self) -> verdicts.Verdict:
        """A pass if every environment passes and nothing is in `not_excluded`; otherwise the gravest of
        "invalid", "fail" and "inconclusive".
        """
        found = gravest({result.verdict for result in self.environments})
        return "inconclusive" if found == "pass" and self.not_excluded else found

    @property
    def not_excluded(self) -> list[str]:
        """What the claim requires but no environment hides; empty with `one_network`, because the user
        then asked for a verdict without this.
        """
        return [] if self.one_network else not_excluded(self.environments, self.claim)

    @property
    def least(self) -> EnvironmentResult:
        """The environment with the smallest share of questions solved; of equal ones, the lowest F1."""
        return min(
            self.environments,
            key=lambda result: (result.count.solved / max(1, result.count.asked), result.claim_f1),
        )

    @property
    def hints(self) -> list[Hint]:
        """Likely causes of failure over all environments, the most important first."""
        found = [result.evidence for result in self.environments if result.evidence is not None]
        return list(across(found))

    @property
    def label(self) -> str:
        """The method with what the user set."""
        return labelled(self.method, self.settings)

    @property
    def display_name(self) -> str:
        """`label` as figures have it."""
        return figure_label(self.label)

    def to_frame(self) -> "pd.DataFrame":
        """One row per environment, image and part: precision, recall and F1 (NaN: not applicable).

        `spec` distinguishes environments of the same name with different constants.
        """
        import pandas as pd

        rows = [
            pd.DataFrame(
                {
                    "method": self.method,
                    "environment": result.name,
                    "spec": result.digest[:8],
                    "output": result.output,
                    "part": part,
                    "sample": np.arange(self.n),
                    **{score: values[score] for score in SCORES},
                }
            )
            for result in self.environments
            for part, values in result.scores.items()
        ]
        return pd.concat(rows, ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        """The document that `to_json` writes."""
        return {
            "schema": 3,
            "verdict": self.verdict,
            "excludes": excludes(self.environments, self.claim),
            **attributes(self, "not_excluded", "one_network", "seed_drawn", "seed_bound"),
            "protocol": protocol_entry(self.changed),
            "source": dict(self.source),
            "given": list(self.given),
            **attributes(self, "claim", "seed", "n", "method"),
            "settings": {key: plain(value) for key, value in self.settings.items()},
            "preset": self.preset,
            "versions": dict(self.versions),
            "command": self.command,
            "warnings": list(self.warnings),
            "least": {
                "environment": self.least.name,
                "solved": self.least.count.solved,
                "asked": self.least.count.asked,
                "claim_f1": self.least.claim_f1,
            },
            "hints": [hint_document(hint) for hint in self.hints],
            "controls": {
                name: [
                    {"environment": result.name, **result.controls[name].to_dict()}
                    for result in self.environments
                ]
                for name in self.environments[0].controls
            },
            "environments": [result.to_dict() for result in self.environments],
        }

    def to_html(self, path: str | Path) -> None:
        """Write one self-contained page: the verdict, how the method fails, sample images."""
        from attributionlab.show import Panel, faithfulness_page

        panels = [
            Panel(result.examples, result.lowest / result.best) for result in self.environments
        ]
        write_atomically(path, faithfulness_page(self.to_dict(), panels))


def labelled(method: str, settings: Mapping[str, Any]) -> str:
    """A method's name with its settings."""
    listed = ", ".join(f"{key}={plain(value)}" for key, value in settings.items())
    return f"{method} ({listed})" if listed else method
