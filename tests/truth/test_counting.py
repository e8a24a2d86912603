"""What counts: classes, counts, labels and degenerate images, against loops over the pixels."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import oracles
from attributionlab.truth import Counting

# Few values, so that pixels match, nearly match, and tie.
VALUE = st.integers(0, 2)
NO_MODULUS, ANY_MODULUS = st.none(), st.none() | st.integers(2, 4)


@st.composite
def colors_modulus_and_images(draw, modulus) -> tuple[list[tuple[int, ...]], int | None, Tensor]:
    channels = draw(st.sampled_from([1, 3]))
    color = st.tuples(*[VALUE] * channels)
    modulo = draw(modulus)
    most = 1 if modulo else 4
    colors = draw(st.lists(color, min_size=1, max_size=min(most, 3**channels), unique=True))
    batch, height, width = (draw(st.integers(1, 3)) for _ in range(3))
    flat = draw(st.lists(VALUE, min_size=(n := batch * channels * height * width), max_size=n))
    images = torch.tensor(flat).float().reshape(batch, channels, height, width)
    return colors, modulo, images


@given(colors_modulus_and_images(NO_MODULUS))
def test_each_pixel_counts_for_the_class_of_its_color(case):
    colors, modulus, images = case
    counting = Counting(tuple(colors), modulus)
    classes = counting.classes_of(images)
    assert classes.shape == (len(images), 1, *images.shape[2:])
    for image, of_image in zip(images, classes, strict=True):
        for y, row in enumerate(oracles.pixels(image)):
            for x, pixel in enumerate(row):
                matches = [k for k, color in enumerate(colors) if color == pixel]
                assert int(of_image[0, y, x]) == (matches[0] if matches else -1)


@given(colors_modulus_and_images(NO_MODULUS))
def test_counts_are_those_of_a_loop_over_all_pixels(case):
    colors, modulus, images = case
    counting = Counting(tuple(colors), modulus)
    expected = [oracles.counts(image, colors) for image in images]
    assert counting.counts(images).tolist() == expected


@given(colors_modulus_and_images(ANY_MODULUS))
def test_labels_are_the_winner_the_count_or_the_remainder(case):
    colors, modulus, images = case
    counting = Counting(tuple(colors), modulus)
    labels = counting.labels(images)
    assert labels.dtype == torch.int64
    assert labels.tolist() == [oracles.label(image, colors, modulus) for image in images]


@given(colors_modulus_and_images(ANY_MODULUS))
def test_degenerate_are_an_empty_truth_a_tie_and_a_remainder_of_0(case):
    colors, modulus, images = case
    counting = Counting(tuple(colors), modulus)
    for image in images:
        expected = oracles.is_degenerate(image, colors, modulus)
        assert counting.is_degenerate(image) == expected


@pytest.mark.parametrize("values", [((0,), (1,), (2,)), ((2,), (1,), (0,))])
def test_the_first_of_equal_winners_is_the_label(values):
    image = torch.tensor([[[[0.0, 1, 2, 0, 1, 2]]]])
    assert Counting(values).labels(image).tolist() == [0]


def test_the_counts_do_not_depend_on_dtype_or_memory_format():
    images = torch.randint(0, 3, (2, 3, 4, 4), generator=torch.Generator().manual_seed(0)).float()
    counting = Counting(((0, 1, 2), (1, 1, 1), (2, 0, 0)))
    expected = counting.counts(images)
    assert torch.equal(counting.counts(images.double()), expected)
    assert torch.equal(counting.counts(images.to(memory_format=torch.channels_last)), expected)
