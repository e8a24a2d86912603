"""What a path integral refuses, in one line: what is wrong, the value, the remedy."""

import re

import pytest
import torch
from torch import nn

from attributionlab.base import AttributionLabError
from attributionlab.base.exact import path_integral
from small_networks import Function

pytestmark = pytest.mark.usefixtures("without_shape_checks")

LINEAR = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
IMAGES = torch.ones(2, 1, 2, 2)
ZERO = torch.zeros(1)
TARGETS = torch.tensor([0, 1])


class Uncopied(nn.Module):
    """A model with a mind of its own."""

    def __deepcopy__(self, memo):
        raise RuntimeError("no copies\nof me")


def refused(*arguments, **settings):
    with pytest.raises(AttributionLabError) as caught:
        path_integral(*arguments, **settings)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tolerance": 0}, "tolerance is 0: take a number above 0"),
        ({"tolerance": float("nan")}, "tolerance is nan: take"),
        ({"tolerance": "small"}, "tolerance is 'small': take"),
        ({"max_panels": 0}, "max_panels is 0: take an integer"),
        ({"max_evaluations": 14}, "max_evaluations is 14: take an integer"),
        ({"max_evaluations": 1e3}, "max_evaluations is 1000.0: take"),
        ({"max_panels": True}, "max_panels is True: take"),
    ],
)
def test_settings_out_of_range(settings, message):
    assert message in refused(LINEAR, IMAGES, ZERO, TARGETS, **settings)


def test_all_settings_at_once():
    message = refused(LINEAR, IMAGES, ZERO, TARGETS, tolerance=-1, max_panels=0)
    assert "tolerance" in message
    assert "max_panels" in message


@pytest.mark.parametrize(
    ("inputs", "baselines", "message"),
    [
        (IMAGES[0], ZERO, "inputs are torch.float32 of shape (1, 2, 2): pass a tensor of shape"),
        (IMAGES[:0], ZERO, "inputs are torch.float32 of shape (0, 1, 2, 2): pass"),
        (IMAGES.numpy(), ZERO, "inputs are of type ndarray: pass a tensor"),
        (IMAGES, 0.0, "baselines are of type float: pass a tensor of real numbers"),
        (IMAGES, torch.zeros(3, 1, 1), "the shape of the baselines is (3, 1, 1): pass one"),
        (IMAGES > 0, ZERO, "inputs are torch.bool: pass real numbers"),
        (IMAGES, ZERO + 0j, "baselines are torch.complex64: pass real numbers"),
        (IMAGES / 0, ZERO, "inputs have the value inf at (0, 0, 0, 0): pass finite numbers"),
        (IMAGES, ZERO / 0, "baselines have the value nan at (0, 0, 0, 0): pass finite numbers"),
    ],
)
def test_paths_that_are_none(inputs, baselines, message):
    assert message in refused(LINEAR, inputs, baselines, TARGETS)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (torch.tensor([0, 2]), "target 2 does not exist: the model has the outputs 0 to 1"),
        (torch.tensor([-1, 0]), "target -1 does not exist"),
        (torch.tensor([0]), "targets are torch.int64 of shape (1,): pass a tensor of one integer"),
        (torch.tensor([0.0, 1.0]), "targets are torch.float32: pass integers"),
        ([0, 1], "targets are of type list: pass"),
    ],
)
def test_targets_that_do_not_fit(targets, message):
    assert message in refused(LINEAR, IMAGES, ZERO, targets)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Uncopied(), "Uncopied cannot be copied in float64 (no copies): pass a module"),
        (len, "the model is of type builtin_function_or_method: pass an nn.Module"),
        (nn.Sequential(nn.Flatten(), nn.Linear(5, 2)), "Sequential fails on float64 images of"),
        (
            Function(lambda x: x @ torch.ones(2, 2)),
            "Function fails on float64 images of shape (2, 1",
        ),
        (nn.Sequential(nn.ReLU()), "the model's output is (2, 1, 2, 2) for 2 images: pass one"),
        (Function(lambda x: x.sum()), "the model's output is () for 2 images"),
        (Function(lambda x: [x]), "the model's output is (2, 1, 2, 2) for 2 images"),
        (Function(lambda x: (x / 0).flatten(1)), "output 0 is [nan, inf] at the baseline and the"),
        (
            Function(lambda x: x.flatten(1).round().detach()),
            "Function has no gradient (element 0 of",
        ),
    ],
)
def test_models_that_do_not_serve(model, message):
    assert re.search(re.escape(message), refused(model, IMAGES, ZERO, TARGETS))
