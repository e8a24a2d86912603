"""Pixels are put back from the most attributed on, equal ones in reading order."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles_soundness as oracles
from attributionlab import AttributionLabError
from attributionlab.metrics import included_pixels
from soundness_cases import KINDS, case_of


def pixels_of(mask):
    """A mask (1, H, W) as a set."""
    return {(int(y), int(x)) for y, x in mask[0].nonzero()}


@settings(max_examples=30)
@given(
    st.integers(0, 2**31),
    st.sampled_from(KINDS),
    st.one_of(st.floats(0, 1), st.sampled_from([0, 0.5, 0.99, 1])),
    st.booleans(),
)
def test_included_pixels_are_the_highest_that_a_ratio_leaves(seed, kind, ratio, attributed):
    maps = case_of(seed, kind).maps
    found = included_pixels(maps, ratio, expansion="attributed" if attributed else "area")
    assert found.shape == maps.shape
    for mask, values in zip(found, maps, strict=True):
        expected = oracles.kept_pixels(oracles.map_of(values), ratio, attributed)
        assert pixels_of(mask) == expected


def test_half_a_pixel_is_rounded_to_even():
    maps = torch.tensor([[[[3.0, 2.0, 1.0]]]])
    assert included_pixels(maps, 0.5).sum() == 1  # 1.5 of 3 are masked: 2
    assert included_pixels(maps[..., :1], 0.5).sum() == 1  # 0.5 of 1: none


def test_maps_may_need_gradients_and_are_left_alone():
    maps = torch.rand(2, 1, 3, 3, requires_grad=True)
    before = maps.detach().clone()
    assert not included_pixels(maps, 0.5).requires_grad
    assert torch.equal(maps.detach(), before)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("maps", "ratio", "expansion", "message"),
    [
        (torch.ones(1, 3, 2, 2), 0.5, "area", r"pass a tensor of shape \(B, 1, H, W\)"),
        (None, 0.5, "area", "attributions are of type NoneType"),
        (-torch.ones(1, 1, 2, 2), 0.5, "area", "attributions have the value -1 in image 0"),
        (torch.ones(1, 1, 2, 2), 1.5, "area", "one of ratios is 1.5: take a number of at least 0"),
        (torch.ones(1, 1, 2, 2), 0.5, "all", "expansion is 'all': take 'attributed' or 'area'"),
    ],
)
def test_what_leaves_no_pixels_to_choose_is_refused(maps, ratio, expansion, message):
    with pytest.raises(AttributionLabError, match=message):
        included_pixels(maps, ratio, expansion=expansion)
