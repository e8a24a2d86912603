"""Patch shapes: their size, their form, and their twins in plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.draw import polygon
from skimage.measure import euler_number, label

from attributionlab.worlds.images import SHAPES
from attributionlab.worlds.images.shapes import ANCHORS, LEAST_ARC, LEAST_SIDE, RADII, STRAY
from oracles_images import NAIVE_SHAPES

shapes = st.sampled_from(sorted(SHAPES))
seeds = st.integers(0, 2**32 - 1)


def mask_of(shape, seed, diameter):
    return SHAPES[shape](np.random.default_rng(seed), diameter)


@settings(max_examples=150)
@given(shape=shapes, seed=seeds, diameter=st.integers(1, 120))
def test_a_mask_fits_its_diameter_and_is_cropped_to_its_pixels(shape, seed, diameter):
    mask = mask_of(shape, seed, diameter)
    assert mask.dtype == np.bool_
    assert 1 <= max(mask.shape) <= diameter
    for edge in (mask[0], mask[-1], mask[:, 0], mask[:, -1]):
        assert edge.any()


@settings(max_examples=150)
@given(shape=shapes, seed=seeds, diameter=st.integers(1, 26))
def test_a_mask_equals_its_naive_twin_in_every_pixel(shape, seed, diameter):
    twin = NAIVE_SHAPES[shape](np.random.default_rng(seed), diameter)
    assert mask_of(shape, seed, diameter).tolist() == twin


@pytest.mark.parametrize("shape", ["bezier", "triangle", "square"])
def test_no_pixel_center_lies_on_the_outline_where_rounding_would_decide(shape, monkeypatch):
    """An outline moved by a millionth of its size gives the same mask, as far as chance allows."""
    draws = [(seed, diameter) for seed in range(300) for diameter in (3, 5, 8)]
    masks = [mask_of(shape, *each) for each in draws]
    monkeypatch.setattr(
        "attributionlab.worlds.images.shapes.polygon",
        lambda rows, columns, shape: polygon(rows + 1e-6, columns - 2e-6, shape=shape),
    )
    changed = sum(
        not np.array_equal(mask, mask_of(shape, *each))
        for mask, each in zip(masks, draws, strict=True)
    )
    # A mask has some 40 pixels: a change has a probability of the order of 1e-4 in each draw.
    assert changed <= 2


@settings(max_examples=150)
@given(shape=shapes, seed=seeds, diameter=st.integers(1, 120))
def test_a_mask_holds_the_block_of_pixels_that_the_layout_counts_on(shape, seed, diameter):
    """The bound refuses layouts as impossible, so it must never be too large."""
    mask = mask_of(shape, seed, diameter)
    side = max(1, int(LEAST_SIDE[shape] * diameter))
    # Cumulative sums give the number of pixels in every block of side x side.
    total = np.pad(mask.astype(int).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    inside = total[side:, side:] - total[:-side, side:] - total[side:, :-side]
    inside += total[:-side, :-side]
    assert inside.max() == side**2


def test_the_block_of_a_bezier_patch_follows_from_its_constants():
    """No random patch comes near the bound, so the argument itself is recomputed."""
    half_gap = np.pi * (1 + 2 * STRAY) / ANCHORS[0]
    nearest = RADII[0] * np.cos(half_gap)
    farthest = RADII[1] * (1 + 2 / 6)
    assert LEAST_SIDE["bezier"] <= np.sqrt(2) * nearest / (2 * farthest)


def test_the_block_of_a_triangle_follows_from_its_sharpest_angles():
    sharpest = np.radians(LEAST_ARC / 2)
    inradius = 2 * np.cos(sharpest) + np.cos(np.pi - 2 * sharpest) - 1
    assert LEAST_SIDE["triangle"] <= inradius / np.sqrt(2)


@pytest.mark.parametrize("diameter", [12, 17, 40])
def test_a_bezier_patch_is_one_piece_without_holes(diameter):
    for seed in range(100):
        mask = mask_of("bezier", seed, diameter)
        assert label(mask, connectivity=1).max() == 1
        assert euler_number(mask, connectivity=1) == 1


@pytest.mark.parametrize("diameter", [12, 17, 40])
def test_a_bezier_patch_is_as_long_as_its_diameter(diameter):
    """A smooth outline has no tip thin enough to slip between pixel centers."""
    for seed in range(100):
        assert max(mask_of("bezier", seed, diameter).shape) == diameter


@pytest.mark.parametrize("shape", ["bezier", "triangle", "square"])
def test_a_shape_varies_in_form_or_orientation(shape):
    forms = {mask_of(shape, seed, 20).tobytes() for seed in range(50)}
    assert len(forms) > 25


def test_a_circle_is_full_and_takes_nothing_from_the_stream():
    rng = np.random.default_rng(5)
    mask = SHAPES["circle"](rng, 9)
    assert mask.shape == (9, 9)
    assert mask.sum() == 69  # lattice points with i^2 + j^2 < 4.5^2
    assert rng.random() == np.random.default_rng(5).random()
