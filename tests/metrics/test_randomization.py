"""Randomization is its definition, on copies of the model; the model itself stays as it was."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import oracles_metrics_methods as oracles
from attributionlab.metrics import (
    efficient_parameter_randomization,
    parameter_randomization,
    parameter_randomization_curve,
    random_logit,
)
from small_networks import gradient

TARGETS = torch.tensor([2, 0])
ORDERS = ["top-down", "bottom-up", "independent"]
SCORES = (parameter_randomization, efficient_parameter_randomization, random_logit)


def drawn(seed):
    """A network with a layer of buffers, and two images."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(
            *(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2), nn.Tanh()),
            *(nn.Flatten(), nn.Linear(12, 3)),
        ).double()
    model[1].running_mean += 0.5
    images = torch.rand(2, 2, 2, 3, generator=generator, dtype=torch.float64)
    return model.eval(), images


def blind(model, images, targets):
    return images


def weights_of(model):
    return {name: each.clone() for name, each in model.state_dict().items()}


def same_weights(model, before):
    after = model.state_dict()
    return after.keys() == before.keys() and all(torch.equal(after[k], before[k]) for k in before)


@pytest.mark.long
@settings(max_examples=15)
@given(st.integers(0, 2**31), st.sampled_from(ORDERS), st.sampled_from([(0.0, 1), (0.2, 3)]))
def test_the_curve_is_its_definition_and_leaves_the_model_alone(seed, order, noise):
    model, images = drawn(seed)
    before, state = weights_of(model), torch.random.get_rng_state()
    radius, draws = noise
    found = parameter_randomization_curve(
        *(model, images, TARGETS, gradient),
        order=order,
        radius=radius,
        draws=draws,
        seed=seed,
    )
    assert same_weights(model, before)
    assert torch.equal(torch.random.get_rng_state(), state)
    stream = torch.Generator().manual_seed(seed)
    copies = [
        images + radius * (torch.rand(images.shape, generator=stream) * 2 - 1).double()
        for _ in range(draws)
    ]

    def explained(network, i):
        maps = [oracles.explained(gradient, network, each[i], int(TARGETS[i])) for each in copies]
        return [math.fsum(values) / draws for values in zip(*maps, strict=True)]

    with torch.random.fork_rng():
        networks = [oracles.randomized(model, each, seed) for each in oracles.stages(3, order)]
    expected = [
        [oracles.spearman(explained(model, i), explained(other, i)) for other in networks]
        for i in range(2)
    ]
    # Rank correlations of six numbers, with gaps far above rounding.
    assert torch.allclose(found, torch.tensor(expected).double(), atol=1e-12)
    mean = parameter_randomization(
        *(model, images, TARGETS, gradient), order=order, radius=radius, draws=draws, seed=seed
    )
    torch.testing.assert_close(mean, found.mean(1), rtol=0, atol=1e-15)


@settings(max_examples=15)
@given(st.integers(0, 2**31), st.sampled_from([2, 5, 100]))
def test_the_efficient_form_is_the_relative_rise_in_entropy(seed, bins):
    model, images = drawn(seed)
    before = weights_of(model)
    found = efficient_parameter_randomization(
        *(model, images, TARGETS, gradient), bins=bins, seed=seed
    )
    assert same_weights(model, before)
    with torch.random.fork_rng():
        other = oracles.randomized(model, range(3), seed)
    for i in range(2):
        first, last = (
            oracles.histogram_entropy(
                oracles.explained(gradient, network, images[i], int(TARGETS[i])), bins
            )
            for network in (model, other)
        )
        # Entropies of six numbers.
        assert float(found[i]) == pytest.approx((last - first) / first, abs=1e-12)


@given(st.integers(0, 2**31))
def test_random_logit_compares_with_another_output(seed):
    model, images = drawn(seed)
    asked = []

    def recorded(model, images, targets):
        asked.append(targets.tolist())
        return gradient(model, images, targets)

    found = random_logit(model, images, TARGETS, recorded, seed=seed)
    assert asked[0] == TARGETS.tolist()
    for i, other in enumerate(asked[1]):
        assert other in {0, 1, 2} - {asked[0][i]}
        maps = [oracles.explained(gradient, model, images[i], t) for t in (asked[0][i], other)]
        assert float(found[i]) == pytest.approx(oracles.spearman(*maps), abs=1e-12)


def test_a_blind_method_is_found_and_a_constant_map_is_not_applicable():
    call = (*drawn(0), TARGETS)
    assert parameter_randomization(*call, blind).tolist() == pytest.approx([1, 1], abs=1e-15)
    assert efficient_parameter_randomization(*call, blind).tolist() == [0, 0]
    assert random_logit(*call, blind).tolist() == pytest.approx([1, 1], abs=1e-15)
    for score in SCORES:
        assert score(*call, lambda *asked: asked[1] * 0).isnan().all()


def test_layers_at_which_a_map_is_constant_are_left_out_of_the_mean():
    model, images = drawn(0)
    trained = model[4].weight.clone()

    def attribute(network, shown, targets):  # constant once the last layer is another one
        return shown if torch.equal(network[4].weight, trained) else shown * 0

    asked = {"order": "bottom-up"}
    curve = parameter_randomization_curve(model, images, TARGETS, attribute, **asked)
    assert torch.equal(curve.isnan(), torch.tensor([[False, False, True]] * 2))
    found = parameter_randomization(model, images, TARGETS, attribute, **asked)
    assert found.tolist() == pytest.approx([1, 1], abs=1e-15)


@pytest.mark.parametrize("score", SCORES[:2], ids=lambda score: score.__name__)
def test_weights_are_put_back_after_an_error_and_after_layers_that_replace_theirs(score):
    class Replacing(nn.Linear):
        def reset_parameters(self):
            self.weight = nn.Parameter(torch.zeros(self.out_features, self.in_features).double())
            self.bias = None

    model, images = drawn(0)
    model.append(Replacing(3, 3, dtype=torch.float64))
    model[5].weight, model[5].bias = nn.Parameter(torch.eye(3).double()), nn.Parameter(
        torch.ones(3).double()
    )  # fmt: skip
    before, identity = weights_of(model), [id(each) for each in model.parameters()]
    calls = []

    def failing(network, shown, targets):
        calls.append(weights_of(network))
        if len(calls) > 1:
            raise RuntimeError("boom")
        return shown

    with pytest.raises(RuntimeError, match="boom"):
        score(model, images, TARGETS, failing)
    assert not all(torch.equal(calls[1][key], before[key]) for key in calls[1])
    assert same_weights(model, before)
    assert [id(each) for each in model.parameters()] == identity
