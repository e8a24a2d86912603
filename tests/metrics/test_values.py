"""Attributions against known values: order, direction, signs, sum."""

import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles_metrics as oracles
from attributionlab import AttributionLabError
from attributionlab.metrics import cosine, efficiency_gap, rank_correlation, sign_agreement

SCORES = {
    rank_correlation: oracles.rank_correlation,
    cosine: oracles.cosine,
    sign_agreement: oracles.sign_agreement,
}

few = st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0]), min_size=6, max_size=6)


def as_map(values):
    return torch.tensor(values, dtype=torch.float64).reshape(1, 1, 2, -1)


def same(first, second):
    # A dozen operations on numbers up to 30.
    return first == pytest.approx(second, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)
@given(attributions=few, values=few)
def test_each_score_is_its_definition(score, attributions, values):
    found = score(as_map(attributions), as_map(values))
    assert found.dtype == torch.float64
    assert same(float(found), SCORES[score](attributions, values))


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)
@given(first=few, second=few)
def test_images_of_a_batch_are_scored_each_by_itself(score, first, second):
    maps, values = torch.cat([as_map(first), as_map(second)]), as_map(second).repeat(2, 1, 1, 1)
    alone = torch.cat([score(maps[i : i + 1], values[i : i + 1]) for i in range(2)])
    # A dozen operations, which a batch may round otherwise.
    torch.testing.assert_close(score(maps, values), alone, rtol=0, atol=1e-12, equal_nan=True)


@given(values=few, factor=st.sampled_from([2.0**-600, 0.25, 2.0**600]))
def test_no_score_but_the_gap_depends_on_the_scale(values, factor):
    maps, truth = as_map([1.0, -2.0, 3.0, 0.0, 0.5, -0.5]), as_map(values)
    for score in SCORES:
        assert same(float(score(maps * factor, truth)), float(score(maps, truth)))


def test_values_that_say_nothing_are_not_applicable_and_maps_that_say_nothing_score_nothing():
    zero, some = as_map([0.0] * 6), as_map([1.0, 0, -1, 0, 2, 0])
    for score in SCORES:
        assert math.isnan(float(score(some, zero)))
        assert float(score(zero, some)) == 0
    assert float(rank_correlation(zero + 3, some)) == 0


def test_the_gap_is_what_the_sum_misses_of_the_change_as_a_share_of_it():
    maps = torch.stack([as_map([1.0, 2, 3, 0, 0, 0])[0], as_map([1.0, -1, 0, 0, 0, 0])[0]])
    assert efficiency_gap(maps, torch.tensor([4.0, -2.0])).tolist() == [0.5, 1.0]
    assert math.isnan(efficiency_gap(maps, torch.tensor([0.0, 1.0]))[0])


def test_each_score_says_which_way_is_better():
    assert all(score.higher_is_better and score.per_sample for score in SCORES)
    assert not efficiency_gap.higher_is_better
    assert efficiency_gap.per_sample


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)
def test_values_of_another_shape_or_not_finite_are_refused_in_one_line(score):
    maps = torch.zeros(2, 1, 3, 3)
    for wrong in (torch.zeros(1, 1, 3, 3), maps * math.nan):
        with pytest.raises(AttributionLabError, match=r"^the values are .*\(2, 1, 3, 3\)$"):
            score(maps, wrong)
    with pytest.raises(AttributionLabError, match="value nan"):
        score(maps * math.nan, maps)


def test_changes_must_be_one_number_for_each_image():
    expected = (
        "changes are torch.float32 of shape (3,): pass a tensor of one number for each of the 2"
    )
    with pytest.raises(AttributionLabError, match=re.escape(expected)):
        efficiency_gap(torch.zeros(2, 1, 3, 3), torch.zeros(3))
