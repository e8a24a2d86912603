"""Generators: what is in an image, and the schema of their constants."""

import inspect
import typing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributionlab.worlds import images
from images.image_cases import ALL_SHAPES, BLUE, CYAN, GRAY, GREEN, ORANGE, RED, generators, make
from oracles_images import naive_drawing

seeds = st.integers(0, 2**64 - 1)
indices = st.integers(0, 2**40)


@pytest.mark.long
@settings(max_examples=100)
@given(
    seed=seeds,
    index=indices,
    image_size=st.integers(8, 90),
    distractors=st.integers(0, 3),
    patches_per_color=st.integers(1, 2),
    fill=st.floats(0.05, 1),
)
def test_a_color_patch_has_only_its_color_or_the_background(
    seed, index, image_size, distractors, patches_per_color, fill
):
    recipe = images.color_patches(
        image_size=image_size,
        colors=(RED, GREEN),
        background=GRAY,
        distractor_colors=(ORANGE, CYAN),
        distractors=distractors,
        patches_per_color=patches_per_color,
        fill=fill,
    )
    image, patches = images.draw(recipe, seed, index)
    expected = [RED, GREEN] * patches_per_color + [ORANGE, CYAN, ORANGE][:distractors]
    assert (image.dtype, image.shape) == (np.uint8, (3, image_size, image_size))
    assert (patches.dtype, patches.shape) == (np.int16, (image_size, image_size))
    assert np.unique(patches).tolist() == list(range(len(expected) + 1))
    assert {tuple(pixel) for pixel in image[:, patches == 0].T.tolist()} == {GRAY}
    for patch, color in enumerate(expected, start=1):
        pixels = {tuple(pixel) for pixel in image[:, patches == patch].T.tolist()}
        assert pixels <= {color, GRAY}


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), index=st.integers(0, 2**32), image_size=st.integers(8, 40))
@generators
def test_a_drawing_equals_its_naive_twin(generator, seed, index, image_size):
    content = {
        "color-patches": {"colors": (RED, GREEN, BLUE), "fill": 0.5},
        "binary-patches": {"colors": ((1,),) * 4, "fill": 0.5},
        "number-patches": {"values": (40, 90)},
    }[generator]
    recipe = make(generator, image_size=image_size, shapes=ALL_SHAPES)
    image, labels = naive_drawing(
        seed,
        index,
        image_size=image_size,
        background=recipe.background,
        count=3 if generator == "color-patches" else 4,
        shapes=ALL_SHAPES,
        patch_size=(0.14, 0.245),
        **content,
    )
    drawing = images.draw(recipe, seed, index)
    assert drawing.image.tolist() == image
    assert drawing.patches.tolist() == labels


def test_a_fill_of_one_leaves_no_hole():
    image, patches = images.draw(images.binary_patches(image_size=64, fill=1), 0, 0)
    assert np.array_equal(image[0] == 1, patches > 0)


# (images, tolerance): 411 / sqrt(images) is the standard error of the mean, 21 and 9 pixels.
@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "most"), [(400, 0.025), pytest.param(2000, 0.02, marks=pytest.mark.slow)]
)
def test_the_default_patches_have_the_papers_mean_of_white_pixels(count, most):
    """Table 4: a mean of 2,469 at 224, and the modulo network counts to 4,899."""
    recipe = images.binary_patches(image_size=224)
    counts = [int(images.draw(recipe, 0, index).image.sum()) for index in range(count)]
    assert abs(np.mean(counts) - 2469) <= most * 2469
    assert max(counts) < 4500


@pytest.mark.parametrize("image_size", [8, 9, 15, 33, 224, 1024])
@generators
def test_the_defaults_work_at_every_image_size(generator, image_size):
    image, patches = images.draw(make(generator, image_size=image_size), 0, 0)
    assert image.shape[1:] == patches.shape == (image_size, image_size)
    assert np.unique(patches).size == 1 + (3 if generator == "color-patches" else 4)


def test_lists_as_in_a_file_give_the_same_recipe_as_tuples():
    lists = images.color_patches(
        image_size=48,
        colors=[list(RED), list(GREEN), list(BLUE)],
        background=list(GRAY),
        shapes=["bezier"],
        patch_size=[0.14, 0.245],
    )
    assert lists == make("color-patches")
    assert hash(lists) == hash(make("color-patches"))


@generators
def test_signatures_are_a_schema_of_keywords_with_types_and_immutable_defaults(generator):
    """The catalog reads these types; none may be missing or hard to check."""
    known = {
        int,
        float,
        tuple[int, int],
        tuple[float, float],
        tuple[int, int, int],
        tuple[str, ...],
        tuple[tuple[int, int, int], ...],
    }
    function = images.GENERATORS[generator]
    types = typing.get_type_hints(function)
    for name, parameter in inspect.signature(function).parameters.items():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert types[name] in known
        if parameter.default is not parameter.empty:
            assert isinstance(parameter.default, int | float | tuple)


def test_no_distractor_is_drawn_unless_asked_for():
    recipe = make("color-patches", distractor_colors=(ORANGE,))
    assert images.draw(recipe, 0, 0).patches.max() == 3
