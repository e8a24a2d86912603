"""`draw`: the same sample everywhere, rejected drawings, and names of samples that are none."""

import hashlib
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pytest

from attributionlab.base import AttributionLabError
from attributionlab.worlds.images import GENERATORS, Drawing, draw
from images.image_cases import ALL_SHAPES, generators, make


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def digest(drawing):
    return hashlib.sha256(drawing.image.tobytes() + drawing.patches.tobytes()).hexdigest()


# Of thirty samples, so that every shape occurs often. A change of a digest changes every published
# data set: it belongs into the changelog.
GOLDEN = {
    "color-patches": "0fb81e57b7590344535833c61b1d1f05fff8e43455e6d9a3e85abcfade8da620",
    "binary-patches": "569e74f0da7085ebf3d0fa2e483bafdbf470d9b7f59f8fac7929b1934a695150",
    "number-patches": "98b8a9d3ca58c08dc594b83773daa56fb1aa11a59d3c1cf1925e3ec651837cc6",
}


@generators
def test_the_stream_of_random_numbers_has_not_changed(generator):
    recipe = make(generator, image_size=96, shapes=ALL_SHAPES)
    samples = "".join(digest(draw(recipe, 3, index)) for index in range(30))
    assert hashlib.sha256(samples.encode()).hexdigest() == GOLDEN[generator]


@generators
def test_a_sample_does_not_depend_on_what_was_drawn_before(generator):
    recipe = make(generator)
    forward = [digest(draw(recipe, 1, index)) for index in range(6)]
    backward = [digest(draw(recipe, 1, index)) for index in reversed(range(6))]
    alone = [digest(draw(make(generator), 1, index)) for index in range(6)]
    assert forward == backward[::-1] == alone
    assert len(set(forward)) == 6


@pytest.mark.long
def test_a_sample_is_the_same_in_another_process():
    recipes = [make(generator) for generator in sorted(GENERATORS.keys() - {"scenes"})]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for recipe in recipes:
            there = list(pool.map(partial(draw, recipe, 1), [2, 0, 1]))
            assert all(
                same(drawing, draw(recipe, 1, index))
                for drawing, index in zip(there, [2, 0, 1], strict=True)
            )


def test_seed_and_index_are_not_interchangeable():
    recipe = make("binary-patches")
    pairs = [(0, 1), (1, 0), (1, 2**32), (1 + 2**32, 0), (2**32, 1)]
    assert len({digest(draw(recipe, seed, index)) for seed, index in pairs}) == len(pairs)


def test_a_drawing_is_a_named_pair_of_contiguous_arrays():
    drawing = draw(make("color-patches"), 0, 0)
    assert isinstance(drawing, Drawing)
    assert drawing.image.flags.c_contiguous
    assert drawing.patches.flags.c_contiguous


# Rejected drawings


def test_a_rejected_drawing_is_drawn_again_from_the_same_stream():
    recipe = make("binary-patches")
    offered = []

    def third(image):
        offered.append(image)
        return len(offered) == 3

    drawing = draw(recipe, 0, 0, accept=third)
    assert np.array_equal(offered[0], draw(recipe, 0, 0).image)
    assert np.array_equal(offered[2], drawing.image)
    assert len({image.tobytes() for image in offered}) == 3
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0,)))
    for image in offered:
        assert np.array_equal(recipe.sketch(rng).image, image)


def test_an_accepted_drawing_satisfies_the_condition_and_the_rest_stay_as_they_were():
    recipe = make("binary-patches")

    def even(image):
        return int(image.sum()) % 2 == 0

    for index in range(10):
        plain, chosen = draw(recipe, 0, index), draw(recipe, 0, index, accept=even)
        assert even(chosen.image)
        assert same(plain, chosen) == even(plain.image)


def test_a_condition_that_never_comes_true_is_named_in_the_refusal():
    offered = []

    def has_a_purple_pixel(image):
        offered.append(image)
        return False

    with pytest.raises(AttributionLabError) as refusal:
        draw(make("binary-patches", image_size=8), 4, 9, accept=has_a_purple_pixel)
    assert str(refusal.value).startswith(
        "sample 9 of seed 4: none of 200 drawings was accepted by has_a_purple_pixel; relax"
    )
    assert len(offered) == 200
