"""Agreements between methods are their definitions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles_metrics_patches as oracles
from attributionlab import metrics

SCORES = {
    metrics.top_feature_agreement: {"ranks": False, "signs": False},
    metrics.top_rank_agreement: {"ranks": True, "signs": False},
    metrics.top_sign_agreement: {"ranks": False, "signs": True},
    metrics.top_signed_rank_agreement: {"ranks": True, "signs": True},
}

few = st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0]), min_size=8, max_size=8)


def as_map(values):
    return torch.tensor(values).reshape(1, 1, 2, -1)


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)
@given(first=few, second=few, k=st.integers(1, 8), magnitude=st.booleans())
def test_each_agreement_is_its_definition_and_the_same_both_ways(
    score, first, second, k, magnitude
):
    expected = oracles.agreement(first, second, k, magnitude=magnitude, **SCORES[score])
    one, two = as_map(first), as_map(second)
    settings = {"share": k / 8, "magnitude": magnitude}
    batch = score(torch.cat([one, two]), torch.cat([two, one]), **settings)
    # Quotients of the same integers.
    assert [repr(each) for each in batch.tolist()] == [repr(expected)] * 2


def test_a_map_agrees_with_itself_and_the_defaults_are_a_tenth_of_the_pixels_by_magnitude():
    maps = torch.randn(3, 1, 5, 6, generator=torch.Generator().manual_seed(0))
    for score, conditions in SCORES.items():
        assert score(maps, 2 * maps).tolist() == [1, 1, 1]
        assert score(maps, -maps).tolist() == [0 if conditions["signs"] else 1] * 3
        other = maps.flip(3)
        assert torch.equal(score(maps, other), score(maps, other, share=3 / 30, magnitude=True))


def test_maps_without_first_pixels_are_not_applicable():
    maps = torch.randn(1, 1, 2, 4, generator=torch.Generator().manual_seed(0))
    for score in SCORES:
        assert math.isnan(score(maps, maps * 0 + 3))
        assert math.isnan(score(maps.sign(), maps))  # all of one magnitude
        assert not math.isnan(score(maps.sign(), maps, magnitude=False))
