"""Localization scores are means over all ways to break ties."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles_metrics as oracles
import oracles_metrics_patches
import oracles_unified
from attributionlab import metrics

VALUES = [-1.0, 0.0, 0.0, 0.5, 2.0]
CASES = st.lists(
    st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES), st.booleans(), st.booleans()),
    min_size=1,
    max_size=5,
)


def tensors(case):
    """Two images (2, 1, 1, P) and their masks."""
    first, second, mask, other = (list(column) for column in zip(*case, strict=True))
    maps = torch.tensor([first, second])[:, None, None]
    return maps, torch.tensor([mask, other])[:, None, None]


@given(CASES, st.sampled_from(["pointing", "mass", "rank"]))
def test_scores_are_their_definitions(case, name):
    function, definition = {
        "pointing": (metrics.pointing_game, oracles.pointing_game),
        "mass": (metrics.relevance_mass_accuracy, oracles.mass_accuracy),
        "rank": (metrics.relevance_rank_accuracy, oracles.rank_accuracy),
    }[name]
    maps, masks = tensors(case)
    if name == "mass":
        maps = maps.abs()
    expected = [
        definition(values.flatten().tolist(), mask.flatten().tolist())
        for values, mask in zip(maps, masks, strict=True)
    ]
    expected = [math.nan if score is None else score for score in expected]
    # Ratios of sums of five small numbers, in float64 and in a mean over at most 120 orders.
    assert function(maps, masks).tolist() == pytest.approx(expected, abs=1e-13, nan_ok=True)


@given(CASES, st.integers(1, 5))
def test_the_share_of_the_first_pixels_on_the_truth_is_its_definition(case, k):
    maps, masks = tensors(case)
    pixels = maps.shape[3]
    k = min(k, pixels)
    expected = [
        oracles_metrics_patches.top_share(values.flatten().tolist(), mask.flatten().tolist(), k)
        for values, mask in zip(maps, masks, strict=True)
    ]
    expected = [math.nan if score is None else score for score in expected]
    # As above.
    found = metrics.top_k_intersection(maps, masks, share=k / pixels).tolist()
    assert found == pytest.approx(expected, abs=1e-13, nan_ok=True)


def test_the_first_pixels_are_a_tenth_of_all_unless_said_and_one_at_least():
    maps, mask = torch.arange(30.0).view(1, 1, 5, 6), torch.zeros(1, 1, 5, 6).bool()
    mask[..., 4, 4:] = True
    assert metrics.top_k_intersection(maps, mask) == pytest.approx(2 / 3, abs=1e-15)
    assert metrics.top_k_intersection(maps, mask, share=1e-9) == 1


GRIDS = st.lists(st.tuples(st.sampled_from(VALUES), st.booleans()), min_size=12, max_size=12)


def grids(cells):
    """A map and a mask of 3 x 4 pixels."""
    values, mask = zip(*cells, strict=True)
    return torch.tensor(values).view(1, 1, 3, 4), torch.tensor(mask).view(1, 1, 3, 4)


@given(GRIDS, st.sampled_from([0, 1, 2, 4, 5, 8, 9]))
def test_a_hit_may_be_as_far_from_the_nearest_pixel_of_the_mask_as_the_tolerance(cells, squared):
    values, mask = grids(cells)
    expected = oracles_unified.hits_nearby(values[0, 0].tolist(), mask[0, 0].tolist(), squared)
    found = metrics.pointing_game(values, mask, tolerance=math.sqrt(squared)).tolist()
    # A share of at most 12 pixels, in float64 here and there.
    assert found == pytest.approx([math.nan if expected is None else expected], nan_ok=True)


def test_a_tolerance_of_0_is_none_and_images_have_their_own_masks():
    maps = torch.zeros(3, 1, 1, 4)
    maps[:, 0, 0, 0] = 1
    masks = torch.zeros(3, 1, 1, 4, dtype=torch.bool)
    masks[0, 0, 0, 1] = masks[1, 0, 0, 3] = True
    assert torch.equal(
        metrics.pointing_game(maps, masks, tolerance=0).nan_to_num(-1),
        torch.tensor([0.0, 0, -1]).double(),
    )
    assert torch.equal(
        metrics.pointing_game(maps, masks, tolerance=1.5).nan_to_num(-1),
        torch.tensor([1.0, 0, -1]).double(),
    )


@pytest.mark.parametrize("tolerance", [1e300, 10**300], ids=["float", "integer"])
def test_a_tolerance_beyond_the_image_makes_every_pixel_a_hit(tolerance):
    mask = torch.tensor([[[[True, False, False]]]])
    maps = torch.tensor([[[[0.0, 0.0, 1.0]]]])
    assert metrics.pointing_game(maps, mask, tolerance=tolerance).tolist() == [1]


@given(GRIDS, st.integers(-3, 3))
def test_a_box_is_the_smallest_and_a_margin_widens_it_within_the_image(cells, margin):
    _, mask = grids(cells)
    both = torch.cat([mask, torch.zeros_like(mask)])
    found = metrics.bounding_boxes(both, margin=margin)
    assert found.dtype == torch.bool
    assert found[0, 0].tolist() == oracles_unified.smallest_box(mask[0, 0].tolist(), margin)
    assert not found[1].any()


def test_the_boxes_of_appendix_d_have_their_edges_next_to_the_outermost_pixels():
    digit = torch.zeros(1, 1, 6, 6, dtype=torch.bool)
    digit[0, 0, 2, 2] = digit[0, 0, 3, 3] = True
    within, with_edges = metrics.bounding_boxes(digit), metrics.bounding_boxes(digit, margin=1)
    edges = with_edges & ~within
    assert within.sum() == 4
    assert edges.sum() == 12
    assert torch.equal(
        metrics.bounding_boxes(edges, margin=-1), within
    )  # strictly within these edges
