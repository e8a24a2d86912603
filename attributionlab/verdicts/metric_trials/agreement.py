r"""How far a metric's ranking agrees with the truth's, and whether it follows the network.

**The swap contrast.** A question i has an image and a network A_i, and its twin has the same image
before a network B_i in which another kind of pixels is the target's. One panel of attributions is
scored before both: those made for A_i, those made for B_i, and lures. With s_A, s_B a metric's scores
before either network, r_A, r_B the scores of the same attributions against either truth, and rho
Spearman's correlation,

    contrast_i = ([rho(s_A, r_A) - rho(s_A, r_B)] + [rho(s_B, r_B) - rho(s_B, r_A)]) / 2.

**Theorem.** A metric that is a function of its arguments and never looks at the network has contrast_i
= 0, on any panel, in any resample of it, and in floating-point arithmetic. (One that remembers its
calls is no such function: it can count them, and so know which network is asked about.)
Proof: image, attributions and replacement are the same before both networks, so s_A = s_B = s. Then
contrast_i = ([a - b] + [b - a]) / 2 with a = rho(s, r_A), b = rho(s, r_B); floating-point subtraction
is antisymmetric, fl(a - b) = -fl(b - a), and x + (-x) is 0 without rounding.

A metric that looks at the target's number, too, but not at the network, has contrast 0 in expectation:
given the image and both target numbers, the kinds that are the targets' are exchangeable, since each
network's roles are a random permutation. (In a world from a rule with several classes that holds only
where the classes are alike; a regression has one target.) The truth itself, s = r, has
1 - rho(r_A, r_B), which is what `Contrast.possible` states: more than 1 where the two rankings are
opposed.

An alignment metric, which is given the truth, looks at the network by way of it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import Tensor

from attributionlab.base import (
    CONFIDENCE,
    FEWEST_FOR_ORDER,
    ROUNDING,
    Numbers,
    applicable,
    correlation_text,
    lowest_f1,
    mean_score,
)
from attributionlab.metrics import Part, parts_f1
from attributionlab.metrics.ranking import CorrelationInterval, Correlations, Resamples
from attributionlab.worlds.truth import Truth

RankedBy = Literal["overall", "positive", "signed"]
"""The truth's ranking: by F1 on the overall mask, on the positive one, or by the lowest of all."""

SAME = 1e-9
"""Scores that differ by less, as a share of the reach of all scores, are ties."""


def ranked_alike(scores: Numbers, truth: Numbers, resamples: Resamples) -> Correlations:
    """Correlation of a metric's ranking of attributions with the truth's, in each image.

    Attributions are ranked image by image, and correlations averaged over images. So more images make
    the mean surer and nothing else: ranking by scores that are averaged first would correlate higher
    and higher with their number, as what differs from image to image averages out, and a metric would
    break or not by how many there are. Each image has a network of its own.

    - `scores`, `truth` (candidates, images): the higher, the better. An image in which one of them is
      NaN, or all are equal, has no ranking.
    """
    return resamples.correlations(*(without_rounding(each.T) for each in (scores, truth)))


def truths_of(f1: Mapping[Any, Numbers]) -> dict[RankedBy, Numbers]:
    """By what the truth ranks: F1 by part as each of its rankings takes it."""
    return {"overall": f1["overall"], "positive": f1["positive"], "signed": lowest_f1(f1)}


def f1_of_maps(maps: Tensor, truth: Truth) -> dict[Part, Numbers]:
    """F1 of maps by part, of one image or each of its own; what the truth does not ask is dropped."""
    signed, mixed = (each.expand(len(maps), -1, -1, -1) for each in (truth.signed, truth.mixed))
    return {
        part: f1.cpu().numpy() for part, f1 in parts_f1(maps * truth.asked, signed, mixed).items()
    }


def mean_over_images(scores: Numbers) -> Numbers:
    """(candidates, images) -> (candidates,), NaN left out; NaN without any."""
    return np.array([mean_score(row) for row in scores])


def without_rounding(scores: Numbers) -> Numbers:
    """Scores (..., candidates) in steps so fine that only rounding disappears.

    Attributions that are equally right may differ by rounding; that is no order.
    """
    known = np.isfinite(scores).any(-1, keepdims=True)
    filled = np.where(known, scores, 0.0)
    reach = np.nanmax(filled, -1, keepdims=True) - np.nanmin(filled, -1, keepdims=True)
    rounded: Numbers = np.round(scores / np.where(reach > 0, reach, 1.0) / SAME)
    return rounded


Pair = Numbers
"""(2, candidates, images): before the question's own network, and before the twin's"""

Verdict = Literal["valid", "not valid", "blind", "reversed", "undecided", "faulty"]
STATUS = {"valid": 0, "not valid": 1, "blind": 1, "reversed": 1, "faulty": 1, "undecided": 3}
"""Exit status of `attributionlab metric`; "faulty" is said of code, all else of a trial. 2 is a
refusal."""


class Contrast(NamedTuple):
    """The swap contrast of a metric."""

    mean: CorrelationInterval
    each: Numbers
    """(questions,), NaN where a question has no ranking"""
    possible: float
    """mean contrast of the truth itself"""

    @property
    def is_blind(self) -> bool:
        """Whether it is zero to rounding on every question."""
        there = self.each[~np.isnan(self.each)]
        return bool(len(there) and np.abs(there).max() <= ROUNDING)


class Lead(NamedTuple):
    """By how much a metric agrees better with the truth than a control (`metric_trials.registry`).

    On the attributions made for either twin, and lures, before both networks.
    """

    control: str
    """the one of those with the highest mean agreement"""
    agreement: float
    """of the metric"""
    of_control: float
    """of the control"""
    mean: CorrelationInterval
    """the difference, paired within questions; the interval is over questions alone"""


def swap_contrast(scores: Pair, truths: Pair, resamples: Resamples) -> Correlations:
    """The contrast of each question, as defined above, of scores, the higher the better, with the
    truth's of the same candidates. `resamples` know the families of these.
    """
    (own, crossed), (others, back) = (
        [ranked_alike(each, truths[place], resamples) for place in (index, 1 - index)]
        for index, each in enumerate(scores)
    )
    first, second = own.less(crossed), others.less(back)
    drawn = None
    if first.drawn is not None and second.drawn is not None:
        drawn = (first.drawn + second.drawn) / 2
    return Correlations((first.each + second.each) / 2, drawn)


def contrast_of(scores: Pair, truths: Pair, resamples: Resamples) -> Contrast:
    """The swap contrast with its interval, and that of the truth itself."""
    found = swap_contrast(scores, truths, resamples)
    best = swap_contrast(truths, truths, Resamples(None, CONFIDENCE, 0))
    return Contrast(resamples.interval(found), found.each, mean_score(best.each))


def lead_over(own: Pair, controls: Mapping[str, Pair], truths: Pair, resamples: Resamples) -> Lead:
    """How far a metric's agreement lies above that of the best control.

    Agreement here is that on all attributions, made for either twin or lures, mean of both networks.
    On those of one network alone a blind metric gains by what all of them share: the exact one lies on
    patches, and much that is wrong does not.

    `own`, `controls`: scores of the metric and of each control, as for `swap_contrast`. `resamples`:
    without families.
    """
    found = {name: on_both(each, truths, resamples) for name, each in controls.items()}
    means = {name: mean_score(each) for name, each in found.items()}
    best = max(means, key=lambda name: -np.inf if np.isnan(means[name]) else means[name])
    each = on_both(own, truths, resamples)
    lead = resamples.interval(Correlations(each - found[best]))
    return Lead(best, mean_score(each), means[best], lead)


def on_both(scores: Pair, truths: Pair, resamples: Resamples) -> Numbers:
    """Agreement with the truth of the network that is shown, mean of both."""
    each = [ranked_alike(*pair, resamples).each for pair in zip(scores, truths, strict=True)]
    return np.asarray((each[0] + each[1]) / 2)


def verdict_of(
    agreement: CorrelationInterval,
    contrast: Contrast | None,
    lead: Lead | None,
    questions: int,
    *,
    sees_signs: bool = True,
    reason: str = "",
) -> tuple[Verdict, str]:
    """What a metric's answers without unseen data say about it, and why.

    - `contrast`, `lead`: None where questions have no twins: then nothing can be decided.
    - `sees_signs`: whether changed signs of an attribution change a score anywhere.

    Result: *blind*: the contrast is zero to rounding on every question. *not valid*: the metric does
    not see signs, or its agreement lies below that of a control by the interval of the lead.
    *reversed*: agreement or contrast lies below zero by its interval. *valid*: agreement, contrast and
    lead lie above it. *undecided*: an interval contains zero, or says too little, with fewer than six
    questions that have a ranking.
    """
    if contrast is None or lead is None:
        return "undecided", f"not decisive: {reason}"
    ranked = applicable(contrast.each)
    if not ranked:
        return "undecided", "no question has a ranking: scores are NaN, or all equal"
    if contrast.is_blind:
        return "blind", (
            f"the swap contrast is 0 on each of {ranked} questions: the scores agree equally with the "
            "truths of two networks with different roles; let the metric query the model"
        )
    if not sees_signs:
        return "not valid", (
            "it ignores signs: on every question, the exact attribution has the same score with any of "
            "its signs flipped; let the metric use signed attributions"
        )
    if ranked < FEWEST_FOR_ORDER:
        return "undecided", (
            f"{ranked} of {questions} questions have a ranking, and intervals need "
            f"{FEWEST_FOR_ORDER}: take a larger n"
        )
    both = {"agreement": agreement, "swap contrast": contrast.mean}
    below = [name for name, found in both.items() if found.high < 0]
    if below:
        text = " and ".join(said(name, both[name]) for name in below)
        return "reversed", f"{text}: below zero, so right attributions get worse scores"
    over = f"lead over {lead.control}"
    if lead.mean.high <= 0:
        return "not valid", (
            f"{said(over, lead.mean)}: for both networks it agrees no better with the truth "
            f"({lead.agreement:.2f}) than this control ({lead.of_control:.2f}), which sees almost "
            "nothing of a network"
        )
    every = {**both, over: lead.mean}
    open_ = [name for name, found in every.items() if not found.low > 0]
    if open_:
        text = " and ".join(said(name, every[name]) for name in open_)
        return (
            "undecided",
            f"{text}: the interval contains zero; take more than {questions} questions",
        )
    text = ", ".join(said(name, found) for name, found in every.items())
    return "valid", (
        f"{text}: all above zero. On both networks, its agreement with the truth is "
        f"{lead.agreement:.2f}, and that of the best control {lead.of_control:.2f}"
    )


def unmoved_axes(asked: Iterable[tuple[str, object, Numbers]]) -> set[str]:
    """Axes along which conditions change and no score does: the metric never sees them.

    `asked`: axis, key and scores of each condition; equal keys have equal scores.
    """
    along: dict[str, dict[object, Numbers]] = {}
    for axis, key, scores in asked:
        along.setdefault(axis, {})[key] = scores
    return {
        axis
        for axis, (first, *others) in ((axis, each.values()) for axis, each in along.items())
        if others and all(np.array_equal(first, each, equal_nan=True) for each in others)
    }


def said(name: str, found: CorrelationInterval) -> str:
    """A name and its number with the interval."""
    return f"{name} {correlation_text(*found) or 'not defined'}"
