"""Scores against known values, and true soundness and completeness, are their definitions."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles_metrics
import oracles_soundness
from attributionlab import metrics
from soundness_cases import KINDS, case_of, floats, fraction, maps_of

SCORES = {
    metrics.rank_correlation: oracles_metrics.rank_correlation,
    metrics.cosine: oracles_metrics.cosine,
    metrics.sign_agreement: oracles_metrics.sign_agreement,
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
    assert float(metrics.rank_correlation(zero + 3, some)) == 0


def test_the_gap_is_what_the_sum_misses_of_the_change_as_a_share_of_it():
    maps = torch.stack([as_map([1.0, 2, 3, 0, 0, 0])[0], as_map([1.0, -1, 0, 0, 0, 0])[0]])
    assert metrics.efficiency_gap(maps, torch.tensor([4.0, -2.0])).tolist() == [0.5, 1.0]
    assert math.isnan(metrics.efficiency_gap(maps, torch.tensor([0.0, 1.0]))[0])


def test_a_sum_is_complete_within_a_share_of_the_change():
    maps = as_map([1.0, 2, 0.5, 0, 0, 0]).repeat(4, 1, 1, 1)
    changes = torch.tensor([4.0, 3.5, -3.5, 0.0])
    for tolerance, expected in ((0.125, [1, 1, 0]), (0.124, [0, 1, 0]), (2, [1, 1, 1])):
        found = metrics.efficiency_within(maps, changes, tolerance=tolerance).tolist()
        assert found[:3] == expected
        assert math.isnan(found[3])


def information_of(maps, seed):
    kind = KINDS[seed % len(KINDS)]
    return maps_of(kind, maps.shape, torch.Generator().manual_seed(seed + 1))


@settings(max_examples=25)
@given(st.integers(0, 2**31), st.sampled_from(KINDS), st.booleans())
def test_soundness_is_the_attributed_share_on_informative_pixels(seed, kind, restricted):
    maps = case_of(seed, kind).maps
    phi = information_of(maps, seed)
    inside = maps_of("ties", maps.shape, torch.Generator().manual_seed(seed + 2)) > 0
    found = metrics.true_soundness(maps, phi, included=inside if restricted else None)
    expected = [
        oracles_soundness.true_soundness(
            oracles_soundness.map_of(eta),
            oracles_soundness.map_of(truth),
            {(int(y), int(x)) for y, x in mask[0].nonzero()} if restricted else None,
        )
        for eta, truth, mask in zip(maps, phi, inside, strict=True)
    ]
    # Sums of at most 12 float64 numbers.
    assert found.tolist() == pytest.approx(floats(expected), abs=1e-14, nan_ok=True)


@settings(max_examples=25)
@given(
    st.integers(0, 2**31), st.sampled_from(KINDS), st.sampled_from([0, 0.125, 0.5, 0.75, 1, 2.0])
)
def test_completeness_is_the_informative_share_on_attributed_pixels(seed, kind, threshold):
    maps = case_of(seed, kind).maps
    phi = information_of(maps, seed)
    expected = [
        oracles_soundness.true_completeness(
            oracles_soundness.map_of(eta), oracles_soundness.map_of(truth), fraction(threshold)
        )
        for eta, truth in zip(maps, phi, strict=True)
    ]
    found = metrics.true_completeness(maps, phi, threshold=threshold)
    assert found.tolist() == pytest.approx(floats(expected), abs=1e-14, nan_ok=True)


def test_maps_without_attribution_have_no_soundness_and_images_without_information_nothing_else():
    zeros, ones = torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 2)
    assert metrics.true_soundness(zeros, ones).isnan()
    assert metrics.true_soundness(ones, ones, included=zeros.bool()).isnan()
    assert metrics.true_soundness(ones, zeros) == 0
    assert metrics.true_completeness(ones, zeros).isnan()
    assert metrics.true_completeness(zeros, ones) == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.6, 0.7, 0.9])
def test_a_value_at_the_threshold_is_not_above_it_in_any_precision(threshold, dtype):
    maps = torch.full((1, 1, 1, 2), threshold, dtype=dtype)
    assert metrics.true_completeness(maps, torch.ones(1, 1, 1, 2), threshold=threshold) == 0


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e300, 1.7e308])
def test_sums_of_the_largest_and_smallest_numbers_are_finite(scale):
    eta, phi = (
        torch.tensor([[[[1.0, 0.5, 0]]]]).double(),
        torch.tensor([[[[0.5, 0, 1.0]]]]).double(),
    )
    # Subnormal numbers have few digits: 1e-320 about 2000 steps.
    close = 1e-3 if scale < 1e-310 else 1e-15
    assert float(metrics.true_soundness(scale * eta, phi)) == pytest.approx(2 / 3, abs=close)
    assert float(metrics.true_completeness(eta, scale * phi)) == pytest.approx(1 / 3, abs=close)
