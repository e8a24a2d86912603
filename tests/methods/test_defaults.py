"""What a call gets that leaves out what tests hand to methods."""

import inspect
import re

import pytest
import torch
from torch import nn

from attributionlab.base import AttributionLabError
from attributionlab.base.segmentation import SEGMENTATIONS
from attributionlab.methods import METHODS, defaults, rise, saliency, smoothgrad
from few_samples import FEW, few

pytestmark = pytest.mark.filterwarnings("ignore::attributionlab.GuardWarning")

LEFT_OUT = ("generator", "highest", "reference_images")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)).eval()


@pytest.fixture(scope="module")
def images():
    return torch.rand(defaults.FEWEST_OTHERS, 3, 16, 16, generator=torch.Generator().manual_seed(1))


TAKING = {
    name: [each for each in LEFT_OUT if each in inspect.signature(method).parameters]
    for name, method in METHODS.items()
    if "true-baseline" not in name
}


@pytest.mark.parametrize("name", [name for name, taken in TAKING.items() if taken])
def test_what_is_left_out_is_seed_0_the_range_of_the_images_and_the_images_themselves(
    name, model, images
):
    given = few(name)
    if "layer" in inspect.signature(METHODS[name]).parameters:
        given["layer"] = "3"
    drawn = {
        "generator": torch.Generator().manual_seed(0),
        "highest": 1.0,
        "reference_images": images,
    }
    stated = {key: drawn[key] for key in TAKING[name]}
    expected = METHODS[name](model, images, 1, **given, **stated)
    assert torch.equal(METHODS[name](model, images, 1, **given), expected)
    assert torch.equal(METHODS[name](model, images, 1, **given), expected)  # no state moves on


def test_another_seed_gives_other_maps(model, images):
    other = rise(model, images[:1], 1, n_samples=8, generator=torch.Generator().manual_seed(1))
    assert not torch.equal(rise(model, images[:1], 1, n_samples=8), other)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 1.0], 1.0),
        ([0.25, 0.5], 1.0),
        ([0.0, 2.0], 255.0),
        ([0.0, 255.0], 255.0),
        ([7.0, 130.0], 255.0),
    ],
)
def test_images_in_the_unit_interval_and_of_bytes_tell_their_range(values, expected):
    assert defaults.value_range(None, torch.tensor(values).reshape(1, 1, 1, 2), "lime") == expected
    assert defaults.value_range(3.0, torch.tensor(values).reshape(1, 1, 1, 2), "lime") == 3.0


@pytest.mark.parametrize(
    "values", [[0.0, 0.0], [-0.1, 0.9], [-2.0, 2.5], [0.0, 1.5], [0.0, 256.0], [3.0, 254.5]]
)
def test_other_images_do_not_tell_their_range(values):
    says = f"lime: no value for 'highest', and inputs from {values[0]:g} to {values[1]:g} do not reveal"
    with pytest.raises(AttributionLabError, match=re.escape(says)):
        defaults.value_range(None, torch.tensor(values).reshape(1, 1, 1, 2), "lime")


def test_an_ensemble_names_itself_where_images_do_not_tell_their_range(model, images):
    with pytest.raises(AttributionLabError, match=r"^saliency-smoothgrad: no value for 'highest'"):
        smoothgrad(saliency)(model, images - 0.5, 1)


def test_the_range_is_asked_for_only_where_it_matters(model, images):
    shifted = images[:1] - 0.5
    for name in ("lime", "kernel-shap", "shapley-value-sampling", "feature-ablation"):
        METHODS[name](
            model, shifted, 1, **{"segmentation": "grid", "cells": 2, **FEW.get(name, {})}
        )
        with pytest.raises(AttributionLabError, match=f"^{name}: no value for 'highest'"):
            METHODS[name](model, shifted, 1, segmentation="slic")
    METHODS["gradient-shap"](model, shifted, 1, n_samples=4)
    with pytest.raises(AttributionLabError, match=r"^gradient-shap: no value for 'highest'"):
        METHODS["gradient-shap"](model, shifted, 1, n_samples=4, noise=0.1)


@pytest.mark.parametrize("segmentation", sorted({*SEGMENTATIONS} - {"sam"}))
def test_segmentations_by_place_are_those_that_give_every_image_the_same_superpixels(
    segmentation,
):
    halves = torch.zeros(2, 3, 32, 32)
    halves[0, :, :, 16:] = halves[1, :, 16:] = 1
    settings = {"max_dist": 4} if segmentation == "quickshift" else {}
    first, second = defaults.superpixels(halves, segmentation, 1.0, None, settings, (), "lime")
    assert torch.equal(first, second) == (segmentation in defaults.BY_PLACE)


def test_functions_that_segment_are_given_the_range_of_the_images(images):
    seen = []

    def whole(image, highest):
        seen.append(highest)
        return torch.zeros(image.shape[1:], dtype=torch.int64)

    defaults.superpixels((255 * images[:1]).round(), whole, None, None, {}, (), "lime")
    assert seen == [255.0]


def test_too_few_images_do_not_stand_for_others(model, images):
    assert defaults.other_images(None, images, "iba") is images
    assert defaults.other_images(images[:2], images[:1], "iba").shape[0] == 2
    fewer = images[: defaults.FEWEST_OTHERS - 1]
    for name in ("iba", "input-iba", "integrated-gradients-random"):
        layer = {"layer": "3"} if "iba" in name else {}
        with pytest.raises(AttributionLabError, match=f"^{name}: no value for 'reference_images'"):
            METHODS[name](model, fewer, 1, **layer)
