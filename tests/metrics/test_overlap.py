"""Soft precision, recall and F1 agree with their definitions, written as loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import oracles
from attributionlab import metrics
from attributionlab.metrics import alignment, magnitudes, normalize, parts_f1

PIXELS = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=5)
VALUES = st.sampled_from([-3.0, -1.0, -0.5, 0.0, 0.0, 0.25, 1.0, 2.0])


@st.composite
def maps_and_masks(draw):
    shape = draw(PIXELS)
    maps = draw(hnp.arrays(np.float32, shape, elements=VALUES))
    signed = draw(hnp.arrays(np.int8, shape, elements=st.sampled_from([-1, 0, 1])))
    return maps, signed


@given(maps_and_masks())
def test_normalization_is_equation_17(case):
    maps, _ = case
    got = metrics.normalize(torch.from_numpy(maps)[None, None]).flatten().numpy()
    expected = oracles.normalize(maps.flatten().tolist())
    # A float64 quotient of float32 numbers, rounded to float32, is their float32 quotient.
    np.testing.assert_array_equal(got, np.float32(expected))


@given(maps_and_masks(), st.sampled_from(["overall", "positive", "negative"]))
def test_scores_are_their_definitions(case, which):
    maps, signed = case
    normalized = metrics.normalize(torch.from_numpy(maps)[None, None])
    truth = torch.from_numpy(signed)[None, None]
    mask = {"overall": truth != 0, "positive": truth > 0, "negative": truth < 0}[which]
    got = metrics.alignment(metrics.magnitudes(normalized, which), mask)
    flat = oracles.part(normalized.flatten().tolist(), signed.flatten().tolist(), which)
    if oracles.f1(*flat) is None:
        assert all(math.isnan(float(score)) for score in got)
        return
    expected = [oracles.precision(*flat), oracles.recall(*flat), oracles.f1(*flat)]
    # At most 25 float64 terms of magnitude 1: rounding stays below 25 * 2^-52 < 1e-14.
    assert [float(score) for score in got] == pytest.approx(expected, abs=1e-13)


def test_metrics_say_which_direction_is_better_and_agree_with_alignment():
    maps = torch.tensor([[[[1.0, 0.5, 0.0]]]])
    mask = torch.tensor([[[[True, False, True]]]])
    for name in ("precision", "recall", "f1"):
        function = getattr(metrics, name)
        assert function.higher_is_better
        assert function.per_sample
        assert function(maps, mask) == getattr(metrics.alignment(maps, mask), name)


@given(hnp.arrays(np.float64, st.integers(1, 7), elements=st.floats(0, 1)), st.integers(0, 2**31))
def test_no_map_scores_more_than_the_best_one(values, seed):
    truth = torch.from_numpy(values)[None, None, None]
    best = metrics.best_map(truth)
    if not values.any():
        assert not best.any()
        return
    most = max(
        oracles.f1([float(bit) for bit in np.binary_repr(subset, len(values))], values)
        for subset in range(2 ** len(values))
    )
    score = float(metrics.alignment(best, truth).f1)
    # Sums of up to seven terms of at most 1 in float64.
    assert score == pytest.approx(most, abs=1e-12)
    other = torch.from_numpy(np.random.default_rng(seed).random(values.shape))[None, None, None]
    assert float(metrics.alignment(other, truth).f1) <= score + 1e-12


def test_the_best_map_for_a_mask_is_the_mask():
    mask = torch.tensor([[[[True, False]]], [[[False, False]]]])
    assert torch.equal(metrics.best_map(mask), mask.float())


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([-1, 0, 1]))
def test_all_parts_at_once_are_the_parts_one_by_one(seed, empty, least):
    generator = torch.Generator().manual_seed(seed)
    maps = 7 * torch.randn(3, 1, 6, 5, generator=generator)
    maps = torch.where(torch.rand(maps.shape, generator=generator) < empty, 0, maps).float()
    maps = maps.clamp(min=least * 100.0) if least >= 0 else maps
    signed = torch.randint(-1, 2, maps.shape, generator=generator).to(torch.int8)
    signed[0] = signed[0].abs()  # an image without negative truth
    at_once = parts_f1(maps, signed)
    masks = {"overall": signed != 0, "positive": signed > 0, "negative": signed < 0}
    for part, mask in masks.items():
        expected = alignment(magnitudes(normalize(maps.double()), part), mask).f1
        # Sums of 30 float64 values of one sign, once scaled after and once before summing.
        torch.testing.assert_close(at_once[part], expected, rtol=1e-12, atol=0, equal_nan=True)


# The floor


def both(maps, signed):
    """F1 of the parts, by normalized maps and by sums that are scaled."""
    whole = {
        part: float(alignment(magnitudes(normalize(maps), part), mask).f1)
        for part, mask in (
            *(("overall", signed != 0), ("positive", signed > 0), ("negative", signed < 0)),
        )
    }
    assert {part: float(f1) for part, f1 in parts_f1(maps, signed).items()} == pytest.approx(
        whole, nan_ok=True
    )
    return whole


SIGNED = torch.tensor([[[[1, 1, -1, -1, 0, 0]]]], dtype=torch.int8)


@pytest.mark.parametrize("scale", [1e-6 - 1e-9, 1e-20, 1e-30])
def test_values_below_a_millionth_of_the_largest_are_none(scale):
    right = SIGNED.double()
    scaled = torch.where(right < 0, right * scale, right)
    assert both(scaled, SIGNED)["negative"] == 0
    assert normalize(scaled).flatten().tolist() == [1, 1, 0, 0, 0, 0]
    assert both(-scaled, -SIGNED)["positive"] == 0  # whichever sign is the small one
    assert both(1e30 * scaled, SIGNED)["negative"] == 0  # whatever the scale of the map


def test_values_of_a_millionth_are_some():
    right = SIGNED.double()
    scaled = torch.where(right < 0, right * (1e-6 + 1e-9), right)
    assert both(scaled, SIGNED) == {"overall": 1, "positive": 1, "negative": 1}


def test_rounding_on_other_pixels_costs_nothing():
    """Of a truth without negative pixels noise of 1e-20 was scaled to -1."""
    positive = SIGNED.clamp(min=0)
    noise = torch.tensor([[[[0.0, 0, -1e-20, 1e-20, -3e-20, -1e-20]]]], dtype=torch.float64)
    found = both(positive.double() + noise, positive)
    assert (found["overall"], found["positive"]) == (1, 1)
    assert math.isnan(found["negative"])


@given(maps_and_masks(), st.floats(-1e-7, 1e-7))
def test_what_lies_below_the_floor_changes_no_score(case, small):
    maps, signed = (torch.from_numpy(each)[None, None] for each in case)
    maps = maps.double()
    if not maps.any():
        return
    noisy = torch.where(maps == 0, small * maps.abs().max(), maps)
    assert torch.equal(normalize(noisy), normalize(maps))
    for part, f1 in parts_f1(noisy, signed).items():
        assert torch.equal(f1.nan_to_num(-1), parts_f1(maps, signed)[part].nan_to_num(-1))
