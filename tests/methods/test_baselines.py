"""A baseline in any form becomes one image for each input."""

import inspect

import numpy as np
import pytest
import torch

from attributionlab import AttributionLabError
from attributionlab.methods import as_baselines, declares
from attributionlab.methods.baselines import from_true_baseline

INPUTS = torch.zeros(2, 3, 4, 5)
PIXEL = torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "baselines",
    [
        (1, 2, 3),
        [1.0, 2.0, 3.0],
        PIXEL,
        PIXEL.numpy(),
        PIXEL[:, None, None],
        PIXEL[:, None, None].expand(3, 4, 5),
        PIXEL[:, None, None].expand(2, 3, 4, 5),
        PIXEL.double(),
    ],
)
def test_every_form_of_a_pixel_is_the_same_image(baselines):
    images = as_baselines(baselines, INPUTS)
    assert images.dtype == torch.float32
    assert torch.equal(images, PIXEL[:, None, None].expand(2, 3, 4, 5))


@pytest.mark.parametrize("number", [7, 7.0, np.float64(7), torch.tensor(7)])
def test_a_number_holds_for_all_channels(number):
    assert torch.equal(as_baselines(number, INPUTS), torch.full((2, 3, 4, 5), 7.0))


@pytest.mark.parametrize(
    ("baselines", "message"),
    [
        ((1, 2), r"shape \(2,\): pass a number, 3 numbers"),
        (torch.zeros(3, 5, 4), r"shape \(3, 5, 4\)"),
        (torch.zeros(1, 2, 3, 4, 5), r"shape \(1, 2, 3, 4, 5\)"),
        (torch.zeros(3, 3, 4, 5), r"shape \(3, 3, 4, 5\)"),
        ((), r"shape \(0,\)"),
        ("black", "'black': pass a number"),
        (None, "None: pass a number"),
        (float("nan"), "NaN or infinity"),
        ((0, 0, float("inf")), "NaN or infinity"),
    ],
)
def test_what_is_no_baseline_is_refused_in_one_line(baselines, message, without_shape_checks):
    with pytest.raises(AttributionLabError, match=message):
        as_baselines(baselines, INPUTS)


def test_a_variant_from_the_true_baseline_asks_for_it_and_keeps_the_other_settings():
    @declares(claim="positive", output="logit")
    def method(model, inputs, targets, *, baselines=0.0, steps=5):
        """A method."""
        return as_baselines(baselines, inputs) * steps

    variant = from_true_baseline(method, "From the background.")
    assert list(inspect.signature(variant).parameters) == [
        *("model", "inputs", "targets", "baseline", "steps")
    ]
    assert (variant.__name__, variant.__doc__) == ("method_true_baseline", "From the background.")
    assert (variant.claim, variant.output) == ("positive", "logit")
    got = variant(None, INPUTS, None, baseline=PIXEL[:, None, None], steps=2)
    assert torch.equal(got, method(None, INPUTS, None, baselines=PIXEL, steps=2))


def test_a_variant_from_the_true_baseline_refuses_another_one():
    def method(model, inputs, targets, *, baselines=0.0, **others):
        raise AssertionError

    variant = from_true_baseline(method, "From the background.")
    with pytest.raises(
        AttributionLabError, match=r"method_true_baseline: baselines is 0: .* or take method"
    ):
        variant(None, INPUTS, None, baseline=PIXEL, baselines=0)


def test_numbers_keep_the_digits_of_the_images():
    images = as_baselines((0.2, -0.1, 1e-17), INPUTS.double())
    assert images[0, :, 0, 0].tolist() == [0.2, -0.1, 1e-17]
