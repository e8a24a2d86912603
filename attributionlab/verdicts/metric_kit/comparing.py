"""Checks of metrics that compare the maps of two methods: what they make of pairs known by hand."""

import numpy as np
import torch

from attributionlab.verdicts.metric_kit.asking import (
    Check,
    Found,
    MapsOf,
    below_exact,
    check,
    declared,
    equal,
    half_right,
    invariance,
    none_above_exact,
    on_all,
    score_of_equal,
)
from attributionlab.verdicts.metric_kit.conduct import with_nan
from attributionlab.verdicts.metric_kit.preferences import with_noise
from attributionlab.verdicts.metric_kit.subject import Subject

COMPARING: dict[str, Check] = {}


@check(COMPARING, "the score that the metric declares for them")
def equal_maps(subject: Subject) -> Found:
    """Two equal maps: exact ones, random ones, and images."""
    pairs: tuple[MapsOf, ...] = (
        lambda lab: torch.cat([subject.exact(lab)] * 2, 1),
        lambda lab: torch.cat([subject.noise(lab, 0)] * 2, 1),
        lambda lab: torch.cat([lab.images] * 2, 1),
    )
    scores = np.concatenate([on_all(subject, each) for each in pairs])
    expected = score_of_equal(subject)
    right, _ = equal(scores, np.full(len(scores), expected))
    own = scores * subject.sign + 0.0  # no negative zeros
    shown = f"{own.min():.4g} to {own.max():.4g}"
    return right, f"{shown} for {expected * subject.sign:g}"


@check(COMPARING, "below equal maps")
def unrelated(subject: Subject) -> Found:
    """A random map beside the exact one."""
    return below_exact(subject, lambda lab: subject.noise(lab, 0))


@check(COMPARING, "below equal maps", 'invariances=("sign",)')
def opposite(subject: Subject) -> Found:
    """The negative of the exact map beside it."""
    declared("sign" in subject.invariances, "that it cannot see signs")
    return below_exact(subject, lambda lab: -subject.exact(lab))


@check(COMPARING, "no score above that of equal maps")
def closest(subject: Subject) -> Found:
    """Beside the exact map: the same with noise, noise alone, and four times the same."""
    return none_above_exact(subject, [*with_noise(subject), lambda lab: 4 * subject.exact(lab)])


@check(COMPARING, "equal scores of a metric that declares exchange as an invariance")
def exchange(subject: Subject) -> Found:
    """The two maps in each other's place."""
    lab, maps = half_right(subject)
    before, after = subject.scores(lab, maps), subject.scores(lab, maps.flip(1))
    return invariance(subject, "exchange", before, after)


@check(COMPARING, "a refusal, or NaN for this image and nothing else changed")
def nan_other(subject: Subject) -> Found:
    """A NaN in the second of two equal maps."""
    lab = subject.labs[-1]
    return with_nan(subject, lab, torch.cat([subject.exact(lab)] * 2, 1), 1)
