"""Layouts: patches never overlap, lie inside, fit or are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributionlab.base import AttributionLabError
from attributionlab.worlds.images import SHAPES, circle
from attributionlab.worlds.images.layout import MOST_PATCHES, layout_problems, place_patches
from oracles_images import naive_layout

CIRCLES = {"shapes": ["circle"], "patch_size": (0.1, 0.25)}

fractions = st.floats(0.01, 0.3)
size_ranges = st.tuples(fractions, fractions).map(lambda pair: tuple(sorted(pair)))
shape_lists = st.lists(st.sampled_from(sorted(SHAPES)), min_size=1, max_size=4)


@pytest.mark.long
@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    image_size=st.integers(8, 48),
    count=st.integers(1, 5),
    shapes=shape_lists,
    patch_size=size_ranges,
)
def test_a_layout_equals_its_naive_twin(seed, image_size, count, shapes, patch_size):
    wanted = {"image_size": image_size, "count": count, "shapes": shapes, "patch_size": patch_size}
    labels = place_patches(np.random.default_rng(seed), **wanted)
    assert labels.dtype == np.int16
    assert labels.tolist() == naive_layout(np.random.default_rng(seed), **wanted)


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32 - 1), image_size=st.integers(8, 100), count=st.integers(1, 8))
def test_patches_never_overlap_and_lie_wholly_inside(seed, image_size, count):
    """An overlapped or cut circle would lack pixels of the full circle of its size."""
    rng = np.random.default_rng(seed)
    labels = place_patches(rng, image_size=image_size, count=count, **CIRCLES)
    assert labels.shape == (image_size, image_size)
    assert np.unique(labels).tolist() == list(range(count + 1))
    for patch in range(1, count + 1):
        rows, columns = np.nonzero(labels == patch)
        diameter = rows.max() - rows.min() + 1
        assert 0.1 * image_size - 0.5 <= diameter <= max(1, 0.25 * image_size + 0.5)
        crop = labels[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1] == patch
        assert np.array_equal(crop, circle(rng, diameter))


@pytest.mark.long
@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    image_size=st.integers(8, 40),
    count=st.integers(1, 60),
    shapes=shape_lists,
    patch_size=size_ranges,
)
def test_a_layout_that_can_be_placed_is_never_called_impossible(
    seed, image_size, count, shapes, patch_size
):
    wanted = {"image_size": image_size, "count": count, "shapes": shapes, "patch_size": patch_size}
    try:
        place_patches(np.random.default_rng(seed), **wanted, attempts=3)
    except AttributionLabError:
        return
    assert layout_problems(**wanted) == []


@pytest.mark.long
def test_the_label_tells_nothing_of_the_size_or_the_position():
    """Largest first must not mean label 1 first: distractors have to look like the rest."""
    rng = np.random.default_rng(0)
    layouts = 400
    areas, offsets = np.empty((2, layouts, 6))
    for k in range(layouts):
        labels = place_patches(
            rng, image_size=40, count=6, shapes=["bezier"], patch_size=(0.15, 0.35)
        )
        for patch in range(6):
            rows, columns = np.nonzero(labels == patch + 1)
            areas[k, patch] = rows.size
            offsets[k, patch] = np.hypot(rows.mean() - 19.5, columns.mean() - 19.5)
    for values in (areas, offsets):
        # Five standard errors of a mean of 400; patches of one image are nearly independent.
        tolerance = 5 * values.std() / np.sqrt(layouts)
        assert np.abs(values.mean(axis=0) - values.mean()).max() <= tolerance


@pytest.mark.parametrize("count", [0, -3, MOST_PATCHES + 1])
def test_a_number_of_patches_outside_the_labels_is_impossible(count):
    (problem,) = layout_problems(image_size=1024, count=count, **CIRCLES)
    assert problem == f"{count} patches in one image; choose 1 to 32767"


def test_patches_with_more_blocks_than_the_image_are_impossible_without_drawing():
    """A circle of 80 pixels holds a block of 56; floor(100 / 56)^2 = 1."""
    wanted = {"image_size": 100, "shapes": ["circle"], "patch_size": (0.8, 1.0)}
    assert layout_problems(count=1, **wanted) == []
    assert layout_problems(count=2, **wanted) == [
        "2 patches of at least 80 pixels across cannot fit into an image of 100 x 100, which has "
        "room for 1 at most; use fewer or smaller patches or a larger image"
    ]


def test_the_smallest_shape_of_the_list_decides_what_is_impossible():
    wanted = {"image_size": 100, "count": 2, "patch_size": (0.8, 1.0)}
    assert layout_problems(shapes=["circle", "triangle"], **wanted) == []


def test_a_layout_without_room_is_refused_with_counts_and_remedy():
    found = (
        "2 patches of 58 .* 64 x 64.*1 of 2 .*3 attempts.*fewer or smaller patches.*larger image"
    )
    with pytest.raises(AttributionLabError, match=found):
        place_patches(
            np.random.default_rng(0),
            image_size=64,
            count=2,
            shapes=["bezier"],
            patch_size=(0.9, 0.9),
            attempts=3,
        )


def test_a_failed_attempt_starts_afresh():
    """Two circles of 28 and 31 pixels meet in most of the attempts but fit in a 56 image."""
    wanted = {"image_size": 56, "count": 2, "shapes": ["circle"], "patch_size": (0.5, 0.55)}
    lucky = 0
    for seed in range(30):
        try:
            place_patches(np.random.default_rng(seed), **wanted, attempts=1)
        except AttributionLabError:
            continue
        lucky += 1
    assert lucky < 30
    for seed in range(30):
        labels = place_patches(np.random.default_rng(seed), **wanted)
        assert labels.max() == 2
