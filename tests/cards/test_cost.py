"""What one score of one map takes is counted, and equals what the definitions say."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attributionlab import AttributionLabError
from attributionlab.verdicts import FUNCTIONS, any_metric
from attributionlab.verdicts.cards import SIDES, Cost, card_of, cost_of
from attributionlab.verdicts.metric_trials.registry import NAMED

# Of P pixels, in batches as each metric likes: 16 patches and the whole image; all subsets of a curve;
# 100 subsets and the image; draws of a method's map and the map itself.
KNOWN = {
    "f1": (lambda pixels: 0, 0),
    "deletion": (lambda pixels: pixels + 1, 0),
    "insertion": (lambda pixels: pixels + 1, 0),
    "monotonicity": (lambda pixels: pixels + 1, 0),
    "sds": (lambda pixels: 17, 0),
    "selectivity": (lambda pixels: 17, 0),
    "ids": (lambda pixels: 32, 0),
    "infidelity": (lambda pixels: 101, 0),
    "road": (lambda pixels: 7, 0),
    "max-sensitivity": (lambda pixels: 0, 11),
    "relative-output-stability": (lambda pixels: 11, 11),
    "top-rank-agreement": (lambda pixels: 0, 0),
    "efficiency-gap": (lambda pixels: 0, 0),
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", KNOWN)
def test_the_count_is_what_the_definition_says(name, side):
    found = cost_of(NAMED[name], side)
    passes, maps = KNOWN[name]
    assert (found.side, found.passes, found.maps) == (side, passes(side * side), maps)
    assert bool(found.calls) == bool(found.passes)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_metric_is_counted_and_leaves_global_random_states(name):
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert cost_of(NAMED[name], 8).calls <= 64
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert before == after


@given(st.lists(st.integers(1, 9), max_size=5))
def test_a_user_s_metric_with_names_of_its_own_is_counted(batches):
    def mine(model, x, y, a):
        for size in batches:
            model(x.repeat(size, 1, 1, 1))
        return a.sum((1, 2, 3))

    assert cost_of(any_metric(mine, True), 4) == Cost(4, sum(batches), len(batches), 0)


def test_what_a_user_s_metric_raises_is_refused_and_its_card_has_no_cost():
    def of_one_size(model, images, targets, attributions):
        return attributions.view(-1, 12, 12).sum((1, 2))

    with pytest.raises(
        AttributionLabError, match=r"of_one_size raised Runtime.*test_cost.py, line"
    ):
        cost_of(any_metric(of_one_size, True), 8)
    card = card_of(any_metric(of_one_size, True))
    assert card.costs == []
    assert dict(card.tables()["What it is"].to_numpy())["cost of one map"] == "not counted"
