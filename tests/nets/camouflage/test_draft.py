"""Bounds and budgets of camouflaged networks, held against what images really cause."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from attributionlab.base import EXACT_STEPS, grid_step
from attributionlab.worlds.nets import Network
from attributionlab.worlds.nets.camouflage.draft import Draft
from nets.camouflage.test_camouflaging import NETWORKS, SEEDS, disguised, images_of, weighted


def seen_by(network: Network, images: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What each layer receives, and its output behind the ReLU if there is one, in float64."""
    inputs, outputs = {}, {}
    layers = weighted(network.model)
    following = {}
    modules = [m for m in network.model.modules() if not isinstance(m, nn.Sequential)]
    for module, after in pairwise(modules):
        following[module] = after if isinstance(after, nn.ReLU) else module
    values = images.double()
    for module in modules:
        if module in layers:
            inputs[module] = values
        values = module.double()(values)
        outputs[module] = values
    network.model.float()
    return [(inputs[m], outputs[following.get(m, m)]) for m in layers]


@pytest.mark.parametrize("name", NETWORKS)
def test_no_image_exceeds_a_bound_a_grid_or_the_budget(name):
    images = images_of(NETWORKS[name])
    for seed in (None, *SEEDS):
        network = NETWORKS[name] if seed is None else disguised(name, seed)
        if seed is not None:
            assert len(network.budgets) == len(weighted(network.model))
        check_bounds(network, images)


def check_bounds(network: Network, images: torch.Tensor) -> None:
    """Hold what images cause in every layer against its budget."""
    layers = weighted(network.model)
    with torch.no_grad():
        seen = seen_by(network, images)
    for layer, budget, (received, left) in zip(layers, network.budgets, seen, strict=False):
        weight = layer.weight.detach().double()
        bias = layer.bias.detach().double()
        if isinstance(layer, nn.Conv2d):
            settings = (layer.stride, layer.padding)
            sums = nn.functional.conv2d(received.abs(), weight.abs(), bias.abs(), *settings)
        else:
            sums = nn.functional.linear(received.abs(), weight.abs(), bias.abs())
        assert float(sums.max()) <= budget.largest_sum
        assert budget.steps <= EXACT_STEPS
        upper = budget.signal.upper
        if left.ndim == 2:
            left = left[:, :, None, None]
        if upper.ndim == 1:
            upper = upper[:, None, None]
        assert bool((left <= upper).all()), budget.layer
        steps = budget.signal.step[None, :, None, None].expand_as(left)
        here = left != 0
        assert bool((grid_step(left)[here] >= steps[here]).all()), budget.layer


def test_the_bound_of_the_last_sum_is_the_whole_image():
    draft = Draft.of(NETWORKS["white-sum"])
    # The last convolution is the one before the head's first layer.
    upper = draft.layers[draft.flatten - 1].signal.upper
    assert upper.flatten().tolist() == [256.0]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_draft_without_moves_is_the_network_again(name):
    network = NETWORKS[name]
    draft = Draft.of(network)
    model, layers = draft.built()
    for one, other in zip(weighted(network.model), weighted(model), strict=True):
        assert type(one) is type(other)
        assert torch.equal(one.weight, other.weight)
        assert torch.equal(one.bias, other.bias)
    names = [m for m in network.model.modules() if isinstance(m, nn.ReLU)]
    others = [m for m in model.modules() if isinstance(m, nn.ReLU)]
    for place, layer in layers.items():
        assert others.index(layer) == names.index(network.layers[place])
