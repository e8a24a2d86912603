"""The gradient methods agree with their formulas on networks small enough to do by hand."""

import warnings

import pytest
import torch
from captum.attr import Deconvolution, GuidedBackprop
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import oracles_methods as oracles
from attributionlab import AttributionLabError, methods
from attributionlab.methods import deconvolution, guided_backprop
from random_chains import (
    FUNCTIONS,
    INPUTS,
    SHAPE,
    TARGETS,
    Between,
    Square,
    random_chain,
    silently,
    told,
)
from small_networks import Function


def test_saliency_is_the_signed_gradient_and_its_product_with_the_input():
    gradient = Square.gradient(INPUTS)
    assert torch.equal(methods.saliency(Square(), INPUTS, TARGETS), gradient)
    assert torch.equal(methods.saliency(Square(), INPUTS, TARGETS, abs=True), gradient.abs())
    assert torch.equal(methods.input_x_gradient(Square(), INPUTS, TARGETS), INPUTS * gradient)


def test_the_norm_is_the_length_of_the_gradient_over_channels():
    model, inputs, targets = random_chain(0)
    gradient = methods.saliency(model, inputs, targets)
    got = methods.gradient_norm(model, inputs, targets)
    assert got.shape == (2, 1, *SHAPE[1:])
    for index in range(2):
        for row in range(SHAPE[1]):
            for column in range(SHAPE[2]):
                squares = sum(float(each) ** 2 for each in gradient[index, :, row, column])
                # Two squares of float64 numbers, their sum and its root.
                expected = pytest.approx(squares**0.5, rel=1e-14)
                assert float(got[index, 0, row, column]) == expected


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
    got = silently(guided_backprop, model, inputs, targets)
    stages = oracles.in_matrix_form(model, (2, 5, 5))
    for i, target in enumerate(targets):
        expected = oracles.guided_backward(stages, inputs[i], target)
        # Sums of fewer than 100 float64 numbers of order 1.
        torch.testing.assert_close(got[i], expected, rtol=0, atol=1e-12)


@settings(max_examples=20)
@given(st.integers(0, 2**31))
def test_deconvolution_is_the_backward_pass_of_positive_gradients_through_all_relus(seed):
    model, inputs, targets = random_chain(seed)
    got = silently(deconvolution, model, inputs, targets)
    stages = oracles.in_matrix_form(model, SHAPE)
    for i, target in enumerate(targets):
        expected = oracles.deconvolved_backward(stages, inputs[i], target)
        # Sums of fewer than 100 float64 numbers of order 1.
        torch.testing.assert_close(got[i], expected, rtol=0, atol=1e-12)


BY_CAPTUM = [(guided_backprop, GuidedBackprop), (deconvolution, Deconvolution)]
both = pytest.mark.parametrize("method", [guided_backprop, deconvolution])


def of_captum(kind, model, inputs, targets):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(model).attribute(inputs, target=targets)


@pytest.mark.parametrize(("method", "kind"), BY_CAPTUM)
def test_captum_agrees_on_a_network_with_pooling(method, kind):
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 4, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 3)),
    ).eval()
    inputs, targets = torch.randn(2, 2, 8, 8), torch.tensor([0, 2])
    expected = of_captum(kind, model, inputs, targets)
    assert expected.any()
    assert torch.equal(method(model, inputs, targets), expected)


def test_deconvolution_looks_at_no_sign_of_an_activation():
    """f = ReLU(-x): the unit is off, the gradient 0, and Deconvolution is the weight all the same."""
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(-2.0)
    model = nn.Sequential(nn.Flatten(), layer, nn.ReLU())
    inputs, targets = torch.ones(1, 1, 1, 1), torch.tensor([0])
    assert deconvolution(model, inputs, targets).item() == -2
    assert silently(guided_backprop, model, inputs, targets).item() == 0


class Shared(nn.Module):
    """f = ReLU(x) - 2 x (or + 2 x), where x goes to the ReLU and past it."""

    def __init__(self, past):
        super().__init__()
        self.relu, self.past = nn.ReLU(), past

    def forward(self, inputs):
        hidden = 1 * inputs
        return (self.relu(hidden) + self.past * hidden).flatten(1)


@pytest.mark.parametrize(("method", "kind"), BY_CAPTUM)
@pytest.mark.parametrize("past", [-2.0, 2.0])
def test_what_goes_past_a_relu_is_not_rectified(method, kind, past):
    inputs, targets = torch.ones(1, 1, 1, 1), torch.tensor([0])
    assert method(Shared(past), inputs, targets).item() == 1 + past
    # Captum hooks the input of the module, where both paths meet: it rectifies, or drops, their sum.
    if kind is Deconvolution or past < 0:
        assert of_captum(kind, Shared(past), inputs, targets).item() != 1 + past


@both
def test_a_relu_may_be_used_twice_or_work_in_place(method):
    torch.manual_seed(0)
    relu = nn.ReLU()
    first, second, last = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)
    once = nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), last)
    twice = nn.Sequential(nn.Flatten(), first, relu, second, relu, last)
    within = nn.ReLU(inplace=True)
    in_place = nn.Sequential(nn.Flatten(), first, within, second, within, last)
    inputs, targets = torch.randn(3, 1, 2, 2), torch.tensor([0, 1, 0])
    expected = method(once, inputs, targets)
    assert torch.equal(method(twice, inputs, targets), expected)
    assert torch.equal(method(in_place, inputs, targets), expected)
    assert not torch.equal(methods.saliency(once, inputs, targets), expected)


@both
def test_a_relu_in_place_on_a_view_is_refused(method):
    for relu in (nn.ReLU(inplace=True), Function(torch.relu_), Function(lambda z: z.relu_())):
        model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten(), relu)
        with pytest.raises(
            AttributionLabError, match=r"in place on a view .* nn\.ReLU\(inplace=False\)"
        ):
            method(model, torch.rand(1, 1, 2, 2), torch.tensor([0]))
        assert not any(module._forward_hooks for module in model.modules())


def drawn():
    return torch.randn(3, 1, 2, 2, generator=torch.Generator().manual_seed(0)).double()


WHICH = torch.tensor([0, 1, 0])


@both
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_relu_may_be_a_function(method, function):
    expected, _ = told(method, Between(nn.ReLU(), nn.ReLU()), drawn(), WHICH)
    assert expected.any()
    for pair in ((function, function), (nn.ReLU(), function)):
        got, findings = told(method, Between(*pair), drawn(), WHICH)
        assert torch.equal(got, expected)
        assert not findings


class OfTheirOwn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z.clamp(min=0)

    @staticmethod
    def backward(ctx, given):
        return given * (ctx.saved_tensors[0] > 0)


def assigned(z):
    z = z.clone()
    z[z < 0] = 0
    return z


OTHERS = {
    "ReLU6": [nn.ReLU6(), nn.ReLU6(inplace=True), nn.functional.relu6, nn.Hardtanh(0, 6)],
    "Hardtanh": [nn.Hardtanh(), nn.functional.hardtanh],
    "LeakyReLU": [nn.LeakyReLU(), nn.LeakyReLU(inplace=True), nn.functional.leaky_relu],
    "PReLU": [nn.PReLU(dtype=torch.float64)],
    "RReLU": [nn.RReLU().eval()],
    "Hardswish": [nn.Hardswish(), nn.Hardswish(inplace=True)],
    "Threshold": [nn.Threshold(0.0, 0.0), nn.Threshold(0.0, 0.0, inplace=True)],
    "clamp": [lambda z: z.clamp(min=0), lambda z: (z * 1).clamp_(min=0), lambda z: z.clamp_min(0)],
    "where": [lambda z: torch.where(z > 0, z, 0.0)],
    "maximum or minimum": [lambda z: torch.maximum(z, 0 * z), lambda z: torch.fmax(z, 0 * z)],
    "masked_fill or assignment": [lambda z: z.masked_fill(z < 0, 0.0), assigned],
    "abs": [lambda z: (z + z.abs()) / 2],
    **{name: [getattr(nn, name)()] for name in ("ELU", "CELU", "GELU", "SiLU", "Mish", "Softplus")},
    "operation in place on a view": [lambda z: nn.functional.hardtanh_((1 * z).view(-1, 6), 0, 6)],
    "autograd function OfTheirOwn": [OfTheirOwn.apply],
}
CASES = [
    pytest.param(name, each, id=f"{name}-{i}")
    for name, some in OTHERS.items()
    for i, each in enumerate(some)
]


@both
@pytest.mark.parametrize(("name", "rectifier"), CASES)
def test_rectifiers_without_a_rule_keep_their_gradient_and_are_named(method, name, rectifier):
    """Alone the map is the plain gradient; beside a ReLU, which keeps its rule, it is not."""
    model = Between(rectifier, rectifier)
    got, [finding] = told(method, model, drawn(), WHICH)
    assert torch.equal(got, methods.saliency(model, drawn(), WHICH))
    assert finding.images == 3
    assert f"the network has no ReLU but 2 {name}, and " in finding.text
    model = Between(nn.ReLU(), rectifier)
    got, [finding] = told(method, model, drawn(), WHICH)
    assert not torch.equal(got, methods.saliency(model, drawn(), WHICH))
    assert f"rest on the plain gradient of 1 {name}, because " in finding.text


@both
def test_rectifiers_of_several_kinds_are_counted(method):
    model = nn.Sequential(Between(nn.ReLU6(), nn.LeakyReLU()), nn.ReLU(), nn.ReLU6())
    _, [finding] = told(method, model, drawn(), WHICH)
    assert "gradient of 1 LeakyReLU, 2 ReLU6, because" in finding.text


@both
def test_no_module_is_hooked_while_it_runs(method):
    """Another thread may run the same network."""
    seen = []

    def second(z):
        seen.extend(module._forward_hooks or module._backward_hooks for module in model.modules())
        return z.relu()

    model = Between(nn.ReLU(), second)
    told(method, model, drawn(), WHICH)
    assert seen
    assert not any(seen)


@both
def test_what_is_no_rectifier_is_not_named(method):
    model = Between(nn.ReLU(), lambda z: torch.tanh(z).sigmoid().softmax(1))
    assert not told(method, model, drawn(), WHICH)[1]
