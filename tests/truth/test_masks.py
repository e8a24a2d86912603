"""Truth masks, against loops and against interventions on counts that need no network."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import oracles
from attributionlab.worlds.truth import Counting, Truth, mask, smoothed

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


def test_the_counts_do_not_depend_on_dtype_or_memory_format():
    images = torch.randint(0, 3, (2, 3, 4, 4), generator=torch.Generator().manual_seed(0)).float()
    counting = Counting(((0, 1, 2), (1, 1, 1), (2, 0, 0)))
    expected = counting.counts(images)
    assert torch.equal(counting.counts(images.double()), expected)
    assert torch.equal(counting.counts(images.to(memory_format=torch.channels_last)), expected)


COLORS = ((0,), (1,), (2,))
NOTHING = 3.0
# (height, width) pixels with one of three counted values or a value that does not count
TINY_IMAGE = st.lists(
    st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=3
).map(lambda rows: torch.tensor(rows).float()[None])


@given(st.lists(TINY_IMAGE.filter(lambda i: i.shape[1] == 2), min_size=1, max_size=3), st.data())
@pytest.mark.parametrize("output", ["logit", "probability"])
def test_masks_are_those_of_a_loop_over_all_pixels(output, images, data):
    targets = [data.draw(st.integers(0, 2)) for _ in images]
    truth = mask(Counting(COLORS).classes_of(torch.stack(images)), torch.tensor(targets), output)
    assert truth.signed.dtype == torch.int8
    for image, target, signed in zip(images, targets, truth.signed, strict=True):
        assert signed[0].tolist() == oracles.mask(image, COLORS, target, output)


def logits(images: torch.Tensor) -> torch.Tensor:
    """Counts of the three values, (B, 3): what the networks compute, by comparison."""
    return torch.stack([(images == value).sum((1, 2, 3)) for value in (0, 1, 2)], dim=1).double()


def probabilities(images: torch.Tensor) -> torch.Tensor:
    return torch.softmax(logits(images), dim=1)


@given(TINY_IMAGE, st.integers(0, 2))
def test_the_logit_rises_by_one_with_the_targets_pixels_and_ignores_all_others(image, target):
    effects = oracles.intervention(logits, image, torch.tensor(NOTHING))
    truth = mask(Counting(COLORS).classes_of(image[None]), torch.tensor([target]), "logit")
    assert truth.signed[0, 0].tolist() == [[e[target] for e in row] for row in effects]
    assert not truth.negative.any()


@given(TINY_IMAGE, st.integers(0, 2))
def test_the_probability_falls_with_the_pixels_of_every_other_class(image, target):
    effects = oracles.intervention(probabilities, image, torch.tensor(NOTHING))
    truth = mask(Counting(COLORS).classes_of(image[None]), torch.tensor([target]), "probability")
    signs = [[(e[target] > 0) - (e[target] < 0) for e in row] for row in effects]
    assert truth.signed[0, 0].tolist() == signs


def test_a_regression_has_one_class_and_no_negative_truth():
    classes = torch.tensor([[[[0, -1, 0]]]])
    for output in ("logit", "probability"):
        assert mask(classes, torch.tensor([0]), output).signed.tolist() == [[[[1, 0, 1]]]]


def test_positive_negative_and_overall_are_read_off_the_signs():
    truth = Truth(torch.tensor([[[[1, -1, 0]]]], dtype=torch.int8))
    assert truth.positive.tolist() == [[[[True, False, False]]]]
    assert truth.negative.tolist() == [[[[False, True, False]]]]
    assert truth.overall.tolist() == [[[[True, True, False]]]]


# The smoothed truth


@given(TINY_IMAGE, st.sampled_from([0.3, 0.7, 1.0, 2.5]))
def test_the_smoothed_truth_is_the_mask_under_a_gaussian(image, sigma):
    positive = (image == 0)[None]
    expected = torch.tensor(oracles.smooth(positive[0, 0].double().tolist(), sigma))
    # Both are at most 1 and computed in float64; what differs is the rounding to float32, 2^-24.
    assert float((smoothed(positive, sigma)[0, 0] - expected).abs().max()) <= 2.0**-23


@given(TINY_IMAGE, TINY_IMAGE)
def test_each_image_is_smoothed_and_scaled_for_itself(one, other):
    assume(one.shape == other.shape)
    both = torch.stack([one, other]) == 0
    alone = torch.cat([smoothed(both[:1], 1.0), smoothed(both[1:], 1.0)])
    assert torch.equal(smoothed(both, 1.0), alone)


# Holes of patches that are not asked


def test_the_holes_of_a_patch_that_is_not_asked_are_not_asked():
    #                      asked patch   not asked patch  outside
    signed = torch.tensor([[[[1, 1, 0, 0, 0, 0, 0, 0, -1]]]], dtype=torch.int8)
    patches = torch.tensor([[[1, 1, 1, 2, 2, 2, 2, 0, 2]]])
    asked = torch.tensor([[[[1, 1, 1, 0, 0, 1, 1, 1, 1]]]], dtype=torch.bool)
    truth = Truth(signed, asked=asked).without_holes(patches)
    assert truth.asked.flatten().tolist() == [True] * 3 + [False] * 4 + [True] * 2
    assert torch.equal(truth.signed, signed)
    assert torch.equal(truth.relevant, signed != 0)


def test_each_image_has_holes_of_its_own_and_background_is_no_patch():
    asked = torch.ones(2, 1, 1, 4, dtype=torch.bool)
    asked[1, 0, 0, 0] = False
    signed, patches = torch.zeros(2, 1, 1, 4, dtype=torch.int8), torch.tensor([[[0, 0, 3, 3]]] * 2)
    assert torch.equal(Truth(signed, asked=asked).without_holes(patches).asked, asked)
    patches[1] = torch.tensor([[3, 0, 3, 3]])
    found = Truth(signed, asked=asked).without_holes(patches).asked
    assert found[0].all()
    assert found[1].flatten().tolist() == [False, True, False, False]


def test_where_all_is_asked_nothing_changes():
    truth = Truth(torch.ones(1, 1, 1, 2, dtype=torch.int8))
    assert truth.without_holes(torch.tensor([[[1, 0]]])) is truth
