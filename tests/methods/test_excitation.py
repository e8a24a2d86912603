"""Excitation backpropagation agrees with its definition, unit by unit, and loses nothing unsaid."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles_methods as oracles
from attributionlab.errors import AttributionLabError
from attributionlab.methods.excitation import excitation_backprop
from attributionlab.methods.findings import collect_notices
from random_chains import SHAPE, random_chain, silently

seeds = st.integers(0, 2**31)
few = settings(max_examples=8)
# Some thousand float64 products and quotients of numbers between 0 and 1.
EXACT = {"rtol": 0, "atol": 1e-12}


@few
@given(seeds, st.booleans())
def test_each_winner_is_drawn_among_what_excites_it(seed, bias):
    model, inputs, targets = random_chain(seed, bias)
    got = silently(excitation_backprop, model, inputs, targets)
    stages = oracles.in_matrix_form(model, SHAPE)
    assert got.shape == (2, 1, 5, 5)
    for i, target in enumerate(targets):
        *_, expected = oracles.winning_probabilities(stages, inputs[i], target)
        torch.testing.assert_close(got[i, 0], expected.reshape(SHAPE).sum(0), **EXACT)


@few
@given(seeds)
def test_a_layer_gets_what_the_units_that_it_returns_win(seed):
    model, inputs, targets = random_chain(seed)
    got = silently(excitation_backprop, model, inputs, targets, layer="1")
    stages = oracles.in_matrix_form(model, SHAPE)
    for i, target in enumerate(targets):
        expected = oracles.winning_probabilities(stages, inputs[i], target)[-3]
        # The layer has the size of the image: nothing is enlarged.
        torch.testing.assert_close(got[i, 0], expected.reshape(3, 5, 5).sum(0), **EXACT)


@pytest.mark.parametrize("layer", ["2", "3"])
def test_a_smaller_layer_is_enlarged_bilinearly(layer):
    model, inputs, targets = random_chain(1, bias=False)
    got = excitation_backprop(model, inputs, targets, layer=layer)
    stages = oracles.in_matrix_form(model, SHAPE)
    for i, target in enumerate(targets):
        coarse = oracles.winning_probabilities(stages, inputs[i], target)[-int(layer) - 2]
        rows = coarse.reshape(2, 2, 2).sum(0).tolist()
        expected = torch.tensor(oracles.enlarge(rows, 5, 5), dtype=torch.float64)
        torch.testing.assert_close(got[i, 0], expected, **EXACT)
        assert expected.any()


@few
@given(seeds)
def test_contrastive_subtracts_what_the_negated_last_layer_wins(seed):
    model, inputs, targets = random_chain(seed)
    got = excitation_backprop(model, inputs, targets, contrastive=True)
    stages = oracles.in_matrix_form(model, SHAPE)
    for i, target in enumerate(targets):
        *_, own = oracles.winning_probabilities(stages, inputs[i], target)
        *_, dual = oracles.winning_probabilities(stages, inputs[i], target, dual=True)
        expected = (own - dual).reshape(SHAPE).sum(0).clamp(min=0)
        torch.testing.assert_close(got[i, 0], expected, **EXACT)


def chain_of(*, seed, inputs):
    """A network without biases and its positive images, every winner of which has an exciting input."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        *(nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(6, 3, bias=False)),
    )
    return model.double().eval(), torch.rand(inputs, 2, 12, 12).double(), torch.arange(inputs) % 3


@few
@given(seeds)
def test_probability_is_conserved_where_every_winner_has_an_exciting_input(seed):
    model, inputs, targets = chain_of(seed=seed, inputs=3)
    last = model[:-1](inputs)
    with collect_notices() as findings:
        sums = excitation_backprop(model, inputs, targets).sum((1, 2, 3))
    excited = ((last > 0) & (model[-1].weight[targets] > 0)).any(1)
    torch.testing.assert_close(sums, excited.double(), **EXACT)
    assert findings[0].images == int((~excited).sum())


def test_what_a_unit_wins_by_its_bias_alone_is_lost_and_told():
    """f = 3 ReLU(x - 0) + 1 ReLU(0 x + 3): a half of the excitation has no input."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    for layer, weight, bias in ((model[1], [[1.0], [-1.0]], [0, 4.0]), (model[3], [[3.0, 1]], [9])):
        layer.weight.data, layer.bias.data = torch.tensor(weight), torch.tensor(bias).float()
    image, target = torch.ones(1, 1, 1, 1), torch.tensor([0])
    with collect_notices() as findings:
        got = excitation_backprop(model, image, target)
    assert got.item() == 0.5  # 3 x 1 of 3 x 1 + 1 x 3
    [finding] = findings
    assert (finding.images, finding.worst) == (1, 0.5)
    assert finding.text.startswith("lose up to {worst} of the probability")
    with collect_notices() as findings:
        excitation_backprop(model, image, target, contrastive=True)
    assert not findings


def test_an_input_below_zero_wins_nothing():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3, 1, bias=False))
    model[1].weight.data = torch.tensor([[1.0, 1.0, -1.0]])
    image = torch.tensor([2.0, -5.0, -1.0]).reshape(1, 1, 1, 3)
    got = excitation_backprop(model, image, torch.tensor([0]))
    assert got.flatten().tolist() == [1, 0, 0]


def test_the_prior_is_one_whatever_the_size_and_sign_of_the_output():
    model, inputs, targets = chain_of(seed=3, inputs=3)
    expected = excitation_backprop(model, inputs, targets)
    model[-1].bias = nn.Parameter(torch.full((3,), -7.0).double())
    assert (model(inputs) < 0).all()
    assert torch.equal(excitation_backprop(model, inputs, targets), expected)
    assert torch.equal(
        excitation_backprop(model.float(), inputs.float(), targets) > 0, expected > 0
    )


@pytest.mark.parametrize("name", ["multi-color-sum", "single-color-modulo"])
def test_on_an_environment_it_finds_what_excites_the_output(name):
    env = al.load(name, image_size=24)
    images, labels = env.batch(2)
    targets = labels if env.task == "classification" else torch.zeros_like(labels)
    with collect_notices() as findings:
        got = excitation_backprop(env.model, images, targets)
    assert not any(finding.images for finding in findings)
    positive = env.truth(images, targets, output="logit").positive.reshape(got.shape)
    assert torch.equal(got > 0, positive > 0)
    # Sums of some thousand float32 numbers.
    torch.testing.assert_close(got.sum((1, 2, 3)), torch.ones(2), rtol=0, atol=1e-4)


def test_a_relu_behind_the_layer_may_work_in_place():
    model, inputs, targets = chain_of(seed=0, inputs=2)
    expected = excitation_backprop(model, inputs, targets, layer="3")
    model[4] = nn.ReLU(inplace=True)
    assert torch.equal(excitation_backprop(model, inputs, targets, layer="3"), expected)
    assert expected.any()


def test_inputs_and_the_network_are_left_alone():
    model, inputs, targets = chain_of(seed=0, inputs=1)
    kept = inputs.clone()
    assert not excitation_backprop(model, inputs, targets, layer="4").requires_grad
    assert torch.equal(inputs, kept)
    assert not inputs.requires_grad
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    with pytest.raises(AttributionLabError, match="no rule for 'gelu'"):
        excitation_backprop(nn.Sequential(model, nn.GELU()), inputs, targets, layer="0.4")
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layer": "7"}, r"the layer returns shape \(1, 6\): name one that returns maps"),
        (
            {"layer": "6"},
            "excitation-backprop: the layer's maps have a single cell, 1 x 1, .* before it",
        ),
        ({"layer": "conv"}, "layer is 'conv', which names no module"),
        ({"contrastive": "false"}, "contrastive is 'false': take True or False"),
        ({"contrastive": 1}, "contrastive is 1: take True or False"),
    ],
)
def test_bad_settings_are_refused(given, message):
    with pytest.raises(AttributionLabError, match=message):
        excitation_backprop(*chain_of(seed=0, inputs=1), **given)


@pytest.mark.parametrize("times", [0, 2])
def test_a_layer_that_does_not_run_once_is_refused(times):
    class Repeated(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(1, 1, 1)

        def forward(self, inputs):
            return sum((self.layer(inputs) for _ in range(times)), inputs).flatten(1)

    with pytest.raises(AttributionLabError, match=f"runs {times} times in a pass: name one that"):
        excitation_backprop(Repeated(), torch.rand(1, 1, 2, 2), torch.tensor([0]), layer="layer")


def test_memory_that_is_short_once_halves_the_batch_with_a_layer_too():
    model, inputs, targets = chain_of(seed=0, inputs=2)
    whole, passed = excitation_backprop(model, inputs, targets, layer="3"), []

    def short(_module, given):
        passed.append(len(given[0]))
        if len(passed) == 2:  # the first image alone has shown the layer's layout
            raise RuntimeError("out of memory")

    model.register_forward_pre_hook(short)
    parts = excitation_backprop(model, inputs, targets, layer="3")
    torch.testing.assert_close(parts, whole, **EXACT)
    assert passed == [1, 2, 1, 1]


def test_a_layer_from_which_nothing_leads_to_the_outputs_is_refused():
    class Aside(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.aside = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1)

        def forward(self, inputs):
            self.aside(inputs)
            return self.used(inputs).flatten(1)

    given = Aside(), torch.rand(1, 1, 2, 2), torch.tensor([0])
    with pytest.raises(AttributionLabError, match="nothing leads from the layer to the outputs"):
        excitation_backprop(*given, layer="aside")
    assert excitation_backprop(*given, layer="used").sum() == 1


def test_what_has_no_weights_may_be_behind_the_last_layer():
    model, inputs, targets = chain_of(seed=3, inputs=3)
    model[-1].weight.data.add_(0.2)  # outputs of which a ReLU lets all pass
    assert (model(inputs)[torch.arange(3), targets] > 0).all()
    expected = excitation_backprop(model, inputs, targets, contrastive=True)
    assert expected.any()
    behind = nn.Sequential(model, nn.ReLU(), nn.Unflatten(1, (3, 1, 1)), nn.AvgPool2d(1))
    behind.append(nn.Flatten())
    got = silently(excitation_backprop, behind, inputs, targets, contrastive=True)
    torch.testing.assert_close(got, expected, **EXACT)


@pytest.mark.parametrize("parts", [0, 2])
def test_contrastive_needs_one_last_layer_with_weights(parts):
    class Parted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Conv2d(1, 1, 1) for _ in range(parts)])

        def forward(self, inputs):
            return torch.cat([layer(inputs) for layer in self.layers] or [inputs], 1).flatten(1)

    given = Parted(), torch.rand(1, 1, 1, 1), torch.tensor([0])
    with pytest.raises(AttributionLabError, match="no single layer with weights is the network's"):
        excitation_backprop(*given, contrastive=True)


def test_it_claims_the_positive_truth_of_a_logit():
    assert (excitation_backprop.claim, excitation_backprop.output) == ("positive", "logit")
