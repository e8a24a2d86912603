"""LRP agrees with its rule in matrix form, and with Captum's where that is right."""

import warnings

import pytest
import torch
from captum.attr import LRP
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles_methods as oracles
from attributionlab import AttributionLabError
from attributionlab.methods.findings import collect_notices
from attributionlab.methods.gradients import input_x_gradient
from attributionlab.methods.relevance import lrp
from random_chains import EXACT, SHAPE, random_chain, silently

seeds = st.integers(0, 2**31)
few = settings(max_examples=15)


def captum(kind, model, inputs, *arguments, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(model).attribute(inputs, *arguments, **settings).detach()


@few
@given(seeds, st.booleans(), st.sampled_from([1e-9, 1e-3, 0.5]))
def test_lrp_is_the_epsilon_rule_in_matrix_form(seed, bias, epsilon):
    model, inputs, targets = random_chain(seed, bias)
    got = silently(lrp, model, inputs, targets, epsilon=epsilon)
    stages = oracles.in_matrix_form(model, SHAPE)
    for i, target in enumerate(targets):
        expected = oracles.epsilon_rule(stages, inputs[i], target, epsilon)
        torch.testing.assert_close(got[i], expected, **EXACT)


def test_lrp_of_a_linear_network_is_the_input_times_the_weights():
    weight = torch.tensor([[1.0, -2.0, 3.0, 0.5], [0.0, 1.0, 1.0, 1.0]])
    layer = nn.Linear(4, 2, bias=False)
    layer.weight.data = weight
    inputs = torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 2, 2)
    got = lrp(nn.Sequential(nn.Flatten(), layer), inputs, torch.tensor([0]))
    assert got.flatten().tolist() == [1.0, -4.0, 9.0, 2.0]


def test_lrp_at_a_unit_of_exactly_zero_has_nothing_to_distribute():
    # z = 1 - 1 = 0 carries no relevance, although its parts are large and the gradient is not 0.
    first, last = nn.Linear(2, 1, bias=False), nn.Linear(1, 1)
    first.weight.data, last.weight.data = torch.tensor([[1.0, -1.0]]), torch.ones(1, 1)
    model = nn.Sequential(nn.Flatten(), first, last)
    got = silently(lrp, model, torch.ones(1, 1, 1, 2), torch.tensor([0]))
    assert got.flatten().tolist() == [0.0, 0.0]


@few
@given(seeds)
def test_lrp_agrees_with_captums_on_a_chain_without_flatten(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).double().eval()
    inputs, targets = torch.randn(3, 4).double(), torch.tensor([0, 1, 2])
    expected = captum(LRP, model, inputs, target=targets)
    torch.testing.assert_close(silently(lrp, model, inputs, targets), expected, **EXACT)


def test_lrp_splits_at_a_skip_connection_which_captums_does_not():
    # f = w (h + V h): relevance of h is h (w + w V), in matrix form one layer w (I + V).
    torch.manual_seed(0)

    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.inner, self.last = (nn.Linear(4, 4, bias=False) for _ in range(3))

        def forward(self, inputs):
            hidden = self.first(inputs)
            return self.last(self.inner(hidden) + hidden)

    model = Skip().double()
    inputs, target = torch.randn(1, 4).double(), torch.tensor([1])
    merged = torch.eye(4) + model.inner.weight.detach()
    stages = [(w.double(), torch.zeros(4).double()) for w in (model.first.weight, merged)]
    stages.append((model.last.weight, torch.zeros(4).double()))
    expected = oracles.epsilon_rule(stages, inputs[0], 1, 1e-9).detach()
    # Epsilon shifts a unit by up to 1e-9 / |z|, here below 1e-7.
    torch.testing.assert_close(lrp(model, inputs, target)[0], expected, rtol=0, atol=1e-6)
    wrong = captum(LRP, model, inputs, target=target)[0]
    assert (wrong - expected).abs().max() > 0.01


def test_lrp_in_the_environments_is_the_input_times_the_gradient():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(2)
    got = silently(lrp, env.model, images, labels)
    assert torch.equal(got, input_x_gradient(env.model, images, labels).detach())
    assert lrp.output == "logit"


def test_lrp_refuses_what_it_has_no_rule_for():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(1)
    with pytest.raises(AttributionLabError, match="softmax: pass output='logit'"):
        lrp(env.softmax_model, images, labels)
    smooth = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.Tanh())
    one = torch.ones(1, 1, 2, 2), torch.tensor([0])
    with pytest.raises(AttributionLabError, match="no rule for Tanh"):
        lrp(smooth, *one)
    with pytest.raises(AttributionLabError, match=r"lrp: epsilon is 0\.0: take a number above 0"):
        lrp(smooth, *one, epsilon=0.0)
    for value in ("x", float("nan"), True):
        with pytest.raises(AttributionLabError, match=f"epsilon is {value!r}: take a number"):
            lrp(smooth, *one, epsilon=value)
    assert not any(module._forward_hooks for module in smooth.modules())


def test_lrp_says_how_much_relevance_biases_absorb():
    layer = nn.Linear(2, 1)
    layer.weight.data, layer.bias.data = torch.ones(1, 2), torch.tensor([2.0])
    model = nn.Sequential(nn.Flatten(), layer)
    with collect_notices() as findings:
        lrp(model, torch.ones(1, 1, 1, 2), torch.tensor([0]))
    (finding,) = findings
    # f = 1 + 1 + 2 = 4, of which the bias keeps 2.
    assert finding.images == 1
    assert list(finding.gaps) == [0.5]
    assert finding.text.startswith(
        "do not sum to the output but miss up to {worst} of it: the layers'"
    )


def test_attributions_are_plain_and_inputs_untouched():
    model, inputs, targets = random_chain(8)
    given_inputs = inputs.clone()
    attributions = silently(lrp, model, inputs, targets)
    assert not attributions.requires_grad
    assert attributions.shape == inputs.shape
    assert torch.equal(inputs, given_inputs)
    assert not inputs.requires_grad
    with torch.no_grad():
        assert torch.equal(silently(lrp, model, inputs, targets), attributions)
