"""Attributions of every quality where all information is known, and ratios estimated for them.

Algorithms 1 and 2 stand beside the true ratios, by condition. What a network says about images of which
some pixels are kept is computed once for all indicators, epsilons and metrics, and what is imputed once
for all networks.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from attributionlab.base import AttributionWarning
from attributionlab.metrics import (
    ROAD_FRACTIONS,
    Order,
    PerformanceOptions,
    alignment,
    completeness_curve,
    included_pixels,
    road,
    soundness_sweep,
    true_completeness,
    true_soundness,
)
from attributionlab.metrics.imputation import nearest_known_color, rounded, true_baseline
from attributionlab.metrics.ranking import CorrelationInterval, spearman_interval
from attributionlab.papers.soco.maps import (
    BLACK,
    SETTINGS,
    Remembered,
    ends_of,
    indicators_of,
    road_imputation,
    scaled,
    setup_of,
)
from attributionlab.papers.subjects.subjects import Subject, environment_subject
from attributionlab.verdicts import attribute, graded_attributions, pixel_kinds
from attributionlab.worlds import Environment, load

REAL = (
    *("saliency", "input-x-gradient", "guided-backprop", "integrated-gradients"),
    *("integrated-gradients-true-baseline", "deep-shap-true-baseline", "lrp", "gradcam"),
    *("sobel", "non-background", "random"),
)
"""Methods, and controls that see nothing of the network."""
DAMAGED = (
    *("exact", "missing pixels 0.2", "missing pixels 0.6", "missing pixels 0.95"),
    *("missing top 0.25", "missing top 0.75", "uneven 1", "uneven 4"),
    *("signs 0.1", "signs 0.3", "signs 0.6", "shift 0.0139", "shift 0.0556", "shift 0.125"),
    *("blur 0.01", "blur 0.03", "blur 0.08", "background 0.05", "background 0.5"),
    *("specks 0.005", "specks 0.05", "specks 0.2", "gaps 0.25", "gaps 1", "distractors 1"),
    *("noise 0.2", "noise 0.75", "noise 2"),
    "missing pixels 0.2 + background 0.05",
    "missing pixels 0.6 + noise 0.75",
)
"""Names of `graded_attributions`: each way of being wrong that touches what raises the output, at a
low, a middle and a high dose where it has them."""
QUICK_REAL = ("guided-backprop", "integrated-gradients-true-baseline", "gradcam", "random")
QUICK_DAMAGED = DAMAGED[::2]
TRUTHS = ("soundness", "completeness", "completeness of thresholds", "f1")
"""What attributions are ranked by: Definitions 4.8 and 4.9, the latter also at Algorithm 4's
thresholds, and the field's usual score."""
MAIN, DISTRACTORS, COUNT = "multi-color-sum", "multi-color-sum-distractors", "color-detector"
STRENGTHS = (0.0, 0.25, 1.0, 4.0)
"""Strengths of redundant channels, under noisy linear imputation; other imputations have none, and the
environment's 1."""
LINEAR = "noisy-linear"
SEEN, UNSEEN = ("true-baseline", "nearest-known-color"), ("rounded", "black")
"""Imputations whose colors every network has seen, and those that, like `LINEAR`, make up others."""
INDICATORS: Mapping[str, tuple[str, ...]] = {
    "classification": ("accuracy", "label probability", "label logit"),
    "regression": ("label logit",),
}
"""By task. The probability is at the environment's temperature, at which it does not saturate."""
LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Predictive levels, as shares of the way from the performance on nothing to that on the images."""
MIDDLE = 0.6
"""The level that stands for soundness where metrics are compared, chosen beforehand."""
THRESHOLDS = tuple(tenth / 10 for tenth in range(9, -1, -1))
"""Algorithm 4's, and 0, which is Definition 4.9's."""
PAPER_SCHEDULE = 1.0, 0.01
"""Step in percent of the area, and epsilon."""
FEW_REMOVED = (0.0, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
"""Fractions that tell apart what is removed first: content is about 4 % of the area, the label's 2 %.
`ROAD_FRACTIONS` begin at 10 %, where a good map has nothing left to remove."""
FEW_KEPT = tuple(1 - fraction for fraction in reversed(FEW_REMOVED))
OWN_FRACTIONS = "removal, ROAD's fractions"
REMOVALS: Mapping[str, tuple[Order, tuple[float, ...]]] = {
    "removal, most first": ("morf", FEW_REMOVED),
    "removal, least first": ("lerf", FEW_KEPT),
    OWN_FRACTIONS: ("morf", ROAD_FRACTIONS),
}
"""Metrics: order and fractions. With noisy linear imputation they are ROAD, with black Deletion."""
FINE, COARSE = 30.0, 5.0
"""Percent of the area up to which steps are those of the schedule, and steps beyond: by then most
attributions are past the levels."""
ROUNDING = 1e-12
"""By which a rise of float64 performances may be off."""

CONDITION = ["environment", "strength", "imputation", "indicator"]
RESAMPLES = 500
MOST_MISSING = 0.5
"""Share of the attributions without an estimate up to which there is a ranking."""
DIGITS = 9
"""To which scores are rounded before they are ranked: what differs by rounding is a tie."""

Rows = Mapping[str, list[dict[str, Any]]]
Maps = Float64[Tensor, "batch 1 height width"]


class Entry(NamedTuple):
    """One attribution of all images, and how good it is in truth."""

    name: str
    kind: str
    """"graded" or "real" """
    maps: Maps
    """what raises the output, each map divided by its maximum: in [0, 1]"""
    truths: dict[str, float]
    """by `TRUTHS`, means over images"""


class Condition(NamedTuple):
    """What is varied."""

    environment: str
    strength: float
    """of the channels that fire on unseen colors; 0: there are none"""
    imputation: str


REFERENCE = Condition(MAIN, 1.0, "true-baseline")
"""Where nothing is unseen and what removed pixels become says nothing: the best case."""


def conditions_of(quick: bool) -> list[Condition]:
    """All imputations, doses of unseen data, and other environments.

    The true baseline and colors that an image has are seen by every network: their answers do not
    depend on the strength, of which one is enough.
    """
    seen = [Condition(MAIN, 1.0, name) for name in SEEN]
    if quick:
        return [*seen, *(Condition(MAIN, strength, LINEAR) for strength in (0.0, 1.0))]
    unseen = [Condition(MAIN, strength, name) for name in UNSEEN for strength in (0.0, 1.0)]
    doses = [Condition(MAIN, strength, LINEAR) for strength in STRENGTHS]
    others = [
        Condition(name, strength, imputation)
        for name, strength in ((DISTRACTORS, 1.0), (COUNT, 0.0))
        for imputation in (*SEEN, LINEAR)
    ]
    return [*seen, *unseen, *doses, *others]


def of_condition(
    table: pd.DataFrame, condition: Condition, indicator: str | None = None
) -> pd.DataFrame:
    """The rows of a condition."""
    chosen = (table.environment == condition.environment) & (table.strength == condition.strength)
    chosen &= table.imputation == condition.imputation
    if indicator is not None:
        chosen &= table.indicator == indicator
    return table[chosen]


class Place:
    """A subject of an environment, its attributions, networks of several strengths, and imputations.

    The default output is explained; its truth must have positive values. Phi is constant on the pixels
    of the label, so that a mask of them gives an image the same soundness and completeness.
    `thresholds` are those of Algorithm 4, for the true completeness there; a quick place has fewer
    attributions.
    """

    def __init__(
        self, env: Environment, n: int, seed: int, thresholds: Sequence[float], quick: bool = False
    ) -> None:
        self.env, self.subject = env, environment_subject(env, n, seed)
        self.images, self.targets = self.subject.images, self.subject.targets
        assert self.subject.information is not None
        self.information: Float64[Tensor, "batch 1 height width"] = self.subject.information
        # Of all images: the share of all counted pixels is what the mean over images then is.
        self.counted = float((self.information > 0).sum((1, 2, 3)).double().mean())
        self.entries = [
            self._rated(*each, thresholds) for each in _attributions(env, self.subject, seed, quick)
        ]
        highest = self.subject.highest
        linear = Remembered(road_imputation(highest, seed))
        self.imputations = {
            "true-baseline": Remembered(partial(true_baseline, baseline=env.baseline)),
            "nearest-known-color": Remembered(partial(nearest_known_color, imputation=linear)),
            "rounded": Remembered(partial(rounded, low=0.0, high=highest, imputation=linear)),
            LINEAR: linear,
            "black": Remembered(BLACK),
        }
        self._networks: dict[float, Remembered] = {}

    def network(self, strength: float) -> Remembered:
        """The network of a strength, which sees the logits' images."""
        if strength not in self._networks:
            env = self.env
            if "redundant_channels" in env.spec.constants:
                channels = env.spec.constants["redundant_channels"] or 2
                overrides = {"redundant_channels": channels if strength else 0}
                if strength:
                    overrides["redundant_strength"] = strength
                env = load(env.reference, **(env.overrides | overrides))
            self._networks[strength] = Remembered(env.model).eval()
        return self._networks[strength]

    def forget(self) -> None:
        """Drop stored results, which another attribution does not need."""
        for each in (*self.imputations.values(), *self._networks.values()):
            each.known.clear()

    def _rated(self, kind: str, name: str, maps: Tensor, thresholds: Sequence[float]) -> Entry:
        maps, phi = scaled(maps), self.information
        complete, *of_thresholds = (
            float(true_completeness(maps, phi, threshold=t).mean()) for t in (0.0, *thresholds)
        )
        values = (
            _mean(true_soundness(maps, phi)),
            complete,
            sum(of_thresholds) / len(thresholds),
            float(alignment(maps, phi > 0).f1.mean()),
        )
        return Entry(name, kind, maps, dict(zip(TRUTHS, values, strict=True)))


def _attributions(
    env: Environment, subject: Subject, seed: int, quick: bool
) -> Iterator[tuple[str, str, Maps]]:
    """Kind, name and maps: the truth, damaged in known ways, then methods and controls."""
    images, targets = subject.images, subject.targets
    dataset = env.dataset(len(images), seed)
    patches = torch.stack([dataset[index].patches for index in range(len(images))])
    kinds = pixel_kinds(images, patches, env.counting.classes_of(images), env.baseline)
    has_distractors = bool(env.spec.constants.get("distractors", 0))
    signed = env.truth(images, targets).signed
    for each in graded_attributions(signed, kinds, distractors=has_distractors, seed=seed):
        if each.name in (QUICK_DAMAGED if quick else DAMAGED):
            yield "graded", each.name, each.maps
    for name in QUICK_REAL if quick else REAL:
        with warnings.catch_warnings():  # what is unusual about a method, faithfulness_test tells
            warnings.simplefilter("ignore", AttributionWarning)
            maps = attribute(name, env, images, targets, settings=SETTINGS.get(name), seed=seed)
        yield "real", name, maps


class Case(NamedTuple):
    """A place under one condition, by one indicator."""

    place: Place
    condition: Condition
    indicator: str

    @property
    def keys(self) -> dict[str, Any]:
        """What all rows of a case begin with."""
        return {**self.condition._asdict(), "indicator": self.indicator}

    @property
    def given(self) -> tuple[nn.Module, Tensor, Tensor]:
        """Network, images and targets."""
        return self.place.network(self.condition.strength), self.place.images, self.place.targets

    @property
    def setup(self) -> PerformanceOptions:
        """The keywords of the metrics; a logit is in units of the label's mean count."""
        place = self.place

        def label_logit(
            outputs: Float[Tensor, "batch outputs"], targets: Int[Tensor, " batch"]
        ) -> Tensor:
            return outputs.double().gather(1, targets[:, None])[:, 0] / place.counted

        indicator = indicators_of(place.subject).get(self.indicator, label_logit)
        return setup_of(place.subject, place.imputations[self.condition.imputation], indicator)

    @property
    def information(self) -> Maps:
        """phi as shares of the whole data set's.

        Shapley values of the logit are one for every pixel of the label; those of the probability,
        which stand for accuracy, too, are equal within an image and differ between images.
        """
        phi = self.place.information
        if self.indicator == "label logit":
            phi = (phi > 0).double()
        return phi / phi.sum()

    @property
    def ends(self) -> tuple[float, float]:
        """Performance on images of which nothing, and of which all is kept."""
        return ends_of(*self.given, self.place.subject.empty, self.setup)


def schedule(step: float = 1.0) -> list[float]:
    """Masked shares of the area, falling to 0 in steps of so many percent, larger at the end."""
    fine = [step * index for index in range(1, round(FINE / step) + 1)]
    left = round((100 - FINE) / COARSE)
    coarse = [FINE + COARSE * index for index in range(1, left + 1)]
    return [1 - percent / 100 for percent in (*fine, *coarse)]


def ratio_rows(case: Case, entry: Entry) -> Rows:
    """One attribution in one case: rows of "soundness", "completeness" and "scores".

    The scores are what methods are ranked by, all higher for better ones: soundness at the middle
    level, completeness as the mean over Algorithm 4's thresholds, and `REMOVALS`, the area over or
    under the curve of the performance.

    Completeness has Algorithm 2 at every threshold, in units of what there is to lose, beside the true
    share: the mean over images ("truth"; "truth_of_all" at the threshold 0, which is Definition 4.9)
    and, for Theorem 4.12, which is about a data set, that of all its information ("taken").
    """
    ends, given, setup = case.ends, (*case.given, entry.maps), case.setup
    keys = {**case.keys, "attribution": entry.name, "kind": entry.kind}
    sound = [keys | row for row in soundness_rows(case, entry, ends)]
    curve = completeness_curve(*given, thresholds=THRESHOLDS, **setup)
    complete = []
    for threshold, difference in zip(THRESHOLDS, curve.differences.tolist(), strict=True):
        true = true_completeness(entry.maps, case.place.information, threshold=threshold)
        row = {"threshold": threshold, "estimate": difference / (ends[1] - ends[0])}
        row |= {"truth": _mean(true), "truth_of_all": entry.truths["completeness"]}
        taken = float((case.information * (entry.maps > threshold)).sum())
        complete.append(keys | row | {"taken": taken})
    [middle] = [row["estimate"] for row in sound if row["share"] == MIDDLE]
    estimates = [row["estimate"] for row in complete if row["threshold"] > 0]
    scores = {"soundness": middle, "completeness": sum(estimates) / len(estimates)}
    for metric, (order, fractions) in REMOVALS.items():
        area = float(road(*given, order=order, fractions=fractions, **setup))
        scores[metric] = -area if order == "morf" else area
    ranked = [
        {**keys, "metric": metric, "score": score, **entry.truths}
        for metric, score in scores.items()
    ]
    return {"soundness": sound, "completeness": complete, "scores": ranked}


def soundness_rows(
    case: Case,
    entry: Entry,
    ends: tuple[float, float],
    step: float = PAPER_SCHEDULE[0],
    epsilon: float = PAPER_SCHEDULE[1],
) -> Iterator[dict[str, Any]]:
    """Algorithm 1 at every level, and the true soundness of the same pixels and of all attributed.

    Algorithm 1 holds its first step against a performance of 0. "estimate_from_nothing" is what comes
    out if that step is compared with the performance on nothing. `ends` are those of the case.
    """
    maps, ratios, (nothing, everything) = entry.maps, schedule(step), ends
    sweep = soundness_sweep(
        *case.given, maps, ratios=ratios, epsilon=epsilon, expansion="attributed", **case.setup
    )
    first = included_pixels(maps, ratios[0], expansion="attributed")
    informs = float(sweep.performance[0]) - nothing >= epsilon - ROUNDING
    turned = int(informs) - int(not sweep.false[0])  # -1: sound only because it is compared with 0
    for share in LEVELS:
        found = sweep.at(nothing + share * (everything - nothing))
        truth = from_nothing = torch.nan
        if found.reached:
            included = included_pixels(maps, found.ratio, expansion="attributed")
            truth = _mean(true_soundness(maps, case.place.information, included=included))
            of_first = (maps * first).sum((1, 2, 3)) / (maps * included).sum((1, 2, 3))
            from_nothing = _mean(found.per_sample + turned * of_first)
        yield {
            "share": share,
            "level": found.level,
            "reached": found.reached,
            "jumped": found.jumped,
            "ratio": found.ratio,
            "estimate": found.soundness,
            "estimate_from_nothing": from_nothing,
            "truth": truth,
            "truth_of_all": entry.truths["soundness"],
        }


def _mean(values: Tensor) -> float:
    """Mean over those images for which there is a value."""
    return float(values.nanmean())


def rank_agreement(estimate: Sequence[float], truth: Sequence[float]) -> CorrelationInterval:
    """Spearman's correlation over attributions, with its interval from attributions drawn again.

    Attributions without an estimate are left out. NaN where those are more than half of all: the order
    of the others says nothing about them.
    """
    first, second = (np.round(np.asarray(each, dtype=float), DIGITS) for each in (estimate, truth))
    if np.isnan(first + second).mean() > MOST_MISSING:
        return CorrelationInterval(np.nan, np.nan, np.nan)
    return spearman_interval(first, second, missing="omit", resamples=RESAMPLES)


def ordered_share(lost: Sequence[float], taken: Sequence[float]) -> float:
    """Theorem 4.12, counted: of two attributions, does what lowers performance more take more away?

    Of the pairs that differ in the performance that is lost, the share in which the one that loses more
    takes more information; NaN if there is no such pair.
    """
    more, richer = (
        np.sign(np.round(values[:, None] - values, DIGITS))
        for values in (np.asarray(each, dtype=float) for each in (lost, taken))
    )
    pairs = np.triu(more != 0)
    return float((more == richer)[pairs].mean()) if pairs.any() else float("nan")


def error_table(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """How far estimates of `ratio_rows` are from the truth, by these keys.

    An attribution has one row for each group, so that attributions are what is drawn again. Columns are
    those of the tables "soundness" and "completeness" in items.toml.
    """
    found = []
    for values, group in rows.groupby(list(keys), sort=False):
        row: dict[str, Any] = dict(zip(keys, values, strict=True))
        gap = group.estimate - group.truth
        row["attributions"] = group.attribution.nunique()
        if "reached" in group:
            row["reached"] = group.reached.mean()
            row["jumped"] = group.jumped.sum() / max(1, group.reached.sum())
        row |= {"bias": gap.mean(), "error": gap.abs().mean(), "largest": group.estimate.max()}
        if "estimate_from_nothing" in group:
            row["bias_from_nothing"] = (group.estimate_from_nothing - group.truth).mean()
            whole = group.truth[group.estimate == 1]
            row |= {"rated_1": len(whole), "least_of_1": whole.min()}
        row |= _named(rank_agreement(group.estimate, group.truth), "rank")
        row["rank_of_all"] = rank_agreement(group.estimate, group.truth_of_all).value
        if "taken" in group:
            row["ordered"] = ordered_share(group.estimate, group.taken)
        found.append(row)
    return pd.DataFrame(found)


def held_out_table(rows: pd.DataFrame, paper: tuple[float, float]) -> pd.DataFrame:
    """Step and epsilon chosen on half of the attributions, and judged on the other half, both ways.

    `rows` are of one level, with "indicator", "step", "epsilon" and what `error_table` needs; `paper`
    is the step and epsilon that stand beside ("chosen" is False). Chosen is what has the least error on
    the half that is not judged; halves are every other attribution. "settings" names both halves' step
    and epsilon where they differ; other columns are those of `error_table`, of all attributions.
    """
    halves = {name: i % 2 for i, name in enumerate(rows.attribution.unique())}
    found = []
    for _, group in rows.groupby("indicator", sort=False):
        half = group.attribution.map(halves)
        errors = (group.estimate - group.truth).abs()
        keys = [group.step, group.epsilon]
        best = [errors[half != judged].groupby(keys).mean().idxmin() for judged in (0, 1)]
        for chosen, settings in ((False, [paper, paper]), (True, best)):
            judged = pd.concat(
                group[(half == i) & (group.step == step) & (group.epsilon == epsilon)]
                for i, (step, epsilon) in enumerate(settings)
            )
            [row] = error_table(judged, ["indicator"]).to_dict("records")
            words = dict.fromkeys(f"steps of {s:g} % and epsilon {e:g}" for s, e in settings)
            found.append({"chosen": chosen, "settings": " or ".join(words), **row})
    return pd.DataFrame(found)


def agreement_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Whether every metric's scores and every true quality rank attributions alike.

    "ranked" attributions have a score, of which "distinct" ones differ.
    """
    found = []
    for values, group in scores.groupby([*CONDITION, "metric"], sort=False):
        keys = dict(zip([*CONDITION, "metric"], values, strict=True))
        there = group.score.dropna()
        keys |= {"ranked": len(there), "distinct": there.round(DIGITS).nunique()}
        for truth in TRUTHS:
            agreement = rank_agreement(group.score, group[truth])
            found.append({**keys, "truth": truth, **_named(agreement, "rank")})
    return pd.DataFrame(found)


def _named(agreement: CorrelationInterval, name: str) -> dict[str, float]:
    return {name: agreement.value, "low": agreement.low, "high": agreement.high}
