"""What is said of metrics by hand is there for each, and the range that is stated holds."""

import math
import re

import numpy as np
import pytest
import torch

from attributionlab.metrics import known_facts
from attributionlab.verdicts import FUNCTIONS
from attributionlab.verdicts.metric_trials.asking import OFFSET, PIXELS, Examined, on_all
from attributionlab.verdicts.metric_trials.registry import METRICS

BY_IMAGE = [name for name in METRICS if name in FUNCTIONS and METRICS[name].function.per_sample]
ROUNDING = 4e-6
"""Of a score: 64 * 2^-24, what float32 leaves of a sum of 64 terms; most scores are float64."""


def test_every_metric_has_facts_and_nothing_else_has():
    assert sorted(known_facts()) == sorted(function.__name__ for function in FUNCTIONS.values())


@pytest.mark.parametrize("name", known_facts())
def test_all_facts_are_said_and_the_use_is_one_sentence(name):
    said = known_facts()[name]
    assert all(said)
    assert re.search(r"\d{4}|AttributionLab|as `", said.source)
    assert re.fullmatch(r"(To|Together with|As) [^.]+\.", said.use)


@pytest.mark.parametrize("name", known_facts())
def test_what_facts_refer_to_exists(name):
    references = re.findall(r"\bas `(\w+)`", " ".join(known_facts()[name]))
    assert set(references) <= set(known_facts()) - {name}


def bounds(text, values):
    """Least and largest score that a stated range allows; a linear f changes by each pixel's value."""
    low = OFFSET + float(values.clamp(max=0).sum())
    high = OFFSET + float(values.clamp(min=0).sum())
    known = {
        "0 to 1": (0, 1),
        "0 or 1": (0, 1),
        "-1 to 1": (-1, 1),
        "at least 0": (0, math.inf),
        "0 to ln P": (0, math.log(PIXELS)),
        "at most 1 where f >= 0": (-math.inf, 1 if low >= 0 else math.inf),
        "range of f": (low, high),
        "range of drops of f": (low - high, high - low),
    }
    return known[text]


@pytest.mark.parametrize("name", BY_IMAGE)
def test_scores_lie_in_the_stated_range(name):
    subject, stated = (
        Examined(METRICS[name], 0),
        known_facts()[METRICS[name].function.__name__].range,
    )
    for maps in (
        subject.exact,
        lambda lab: -subject.exact(lab),
        lambda lab: subject.noise(lab, 5),
        lambda lab: torch.ones_like(lab.values),
    ):
        scores = on_all(subject, maps) * subject.sign
        each = [values for lab in subject.labs for values in lab.values]
        for score, values in zip(scores, each, strict=True):
            low, high = bounds(stated, values)
            reach = ROUNDING * max(1, abs(score))
            assert np.isnan(score) or low - reach <= score <= high + reach
