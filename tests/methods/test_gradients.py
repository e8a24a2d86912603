"""The gradient methods agree with their formulas on networks small enough to do by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import oracles_methods as oracles
from attributionlab import AttributionLabError, methods
from attributionlab.methods.gradients import guided_backprop


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


@pytest.mark.parametrize("value", ["false", 0, None])
def test_saliency_refuses_what_is_no_truth_value(square, value):
    with pytest.raises(
        AttributionLabError, match=f"saliency: abs is {value!r}: take True or False"
    ):
        methods.saliency(square, INPUTS, TARGETS, abs=value)


def test_input_x_gradient_is_their_product(square):
    assert torch.equal(methods.input_x_gradient(square, INPUTS, TARGETS), INPUTS * gradient(INPUTS))


def test_inputs_are_left_alone(square):
    inputs = INPUTS.clone()
    for method in (methods.saliency, methods.input_x_gradient, guided_backprop):
        assert not method(square, inputs, TARGETS).requires_grad
    assert torch.equal(inputs, INPUTS)
    assert not inputs.requires_grad


@settings(max_examples=20)
@given(st.integers(0, 2**31))
def test_guided_backprop_is_the_backward_pass_of_positive_gradients(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(75, 6),
        nn.ReLU(),
        nn.Linear(6, 3),
    ).double()
    inputs, targets = torch.randn(2, 2, 5, 5).double(), torch.tensor([2, 0])
    got = guided_backprop(model, inputs, targets)
    stages = oracles.in_matrix_form(model, (2, 5, 5))
    for i, target in enumerate(targets):
        expected = oracles.guided_backward(stages, inputs[i], target)
        # Sums of fewer than 100 float64 numbers of order 1.
        torch.testing.assert_close(got[i], expected, rtol=0, atol=1e-12)


def test_guided_backprop_is_right_for_a_relu_that_is_used_twice():
    torch.manual_seed(0)
    relu = nn.ReLU()
    first, second, last = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)
    once = nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), last)
    twice = nn.Sequential(nn.Flatten(), first, relu, second, relu, last)
    inputs, targets = torch.randn(3, 1, 2, 2), torch.tensor([0, 1, 0])
    expected = guided_backprop(once, inputs, targets)
    assert torch.equal(guided_backprop(twice, inputs, targets), expected)
    assert not torch.equal(methods.saliency(once, inputs, targets), expected)


def test_gradient_methods_declare_what_they_are():
    for method in (methods.saliency, methods.input_x_gradient, guided_backprop):
        assert method.gradient
    assert guided_backprop.claim == "positive"
    assert methods.saliency.claim is None
