"""The gradient methods agree with their formulas on networks small enough to do by hand."""

import pytest
import torch
from torch import nn

from attributionlab import methods


@pytest.fixture
def square():
    """f(x) = (sum of w x)^2 in two outputs of opposite sign: gradients are 2 (w x) w."""

    class Square(nn.Module):
        def forward(self, inputs):
            value = (inputs.flatten(1) * torch.tensor([1.0, -2.0, 3.0, 0.5])).sum(1) ** 2
            return torch.stack([value, -value], dim=1)

    return Square()


INPUTS = torch.tensor([[[[1.0, 2.0], [0.0, 4.0]]], [[[3.0, -1.0], [1.0, 0.0]]]])
WEIGHTS = torch.tensor([1.0, -2.0, 3.0, 0.5]).reshape(1, 1, 2, 2)
TARGETS = torch.tensor([0, 1])
SIGN = torch.tensor([1.0, -1.0]).reshape(2, 1, 1, 1)


def gradient(inputs):
    return SIGN * 2 * (WEIGHTS * inputs).sum((1, 2, 3), keepdim=True) * WEIGHTS


def test_saliency_is_the_signed_gradient_of_the_target(square):
    got = methods.saliency(square, INPUTS, TARGETS)
    assert torch.equal(got, gradient(INPUTS))
    assert torch.equal(methods.saliency(square, INPUTS, TARGETS, abs=True), got.abs())


def test_input_x_gradient_is_their_product(square):
    assert torch.equal(methods.input_x_gradient(square, INPUTS, TARGETS), INPUTS * gradient(INPUTS))


@pytest.mark.parametrize("baseline", [0.0, 2.0])
def test_integrated_gradients_of_a_quadratic_are_exact(square, baseline):
    start = torch.full((1, 1, 1), baseline)
    if baseline:
        got = methods.integrated_gradients_true_baseline(square, INPUTS, TARGETS, baseline=start)
    else:
        got = methods.integrated_gradients(square, INPUTS, TARGETS)
    # The gradient is linear along the path, so its mean is the gradient at the midpoint.
    expected = (INPUTS - start) * gradient((INPUTS + start) / 2)
    # 50 float32 terms of at most 60: 50 * 60 * 2^-24 < 2e-4.
    torch.testing.assert_close(got, expected, rtol=0, atol=2e-4)


def test_inputs_are_left_alone(square):
    inputs = INPUTS.clone()
    for method in methods.METHODS.values():
        offered = {"baseline": torch.zeros(1, 1, 1)} if "true" in method.__name__ else {}
        method(square, inputs, TARGETS, **offered)
    assert torch.equal(inputs, INPUTS)
    assert not inputs.requires_grad
