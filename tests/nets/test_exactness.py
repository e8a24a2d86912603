"""The exactness budget: grid steps, and bounds that real images do not exceed."""

import re
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attributionlab.base import EXACT_STEPS, AttributionLabError, grid_step
from attributionlab.worlds import nets
from cases import BACKGROUND, FOUR_COLORS, TWO_DISTRACTORS


def test_the_budget_is_met_with_exactly_2_to_the_24_steps():
    sums, steps = torch.tensor([3.0, 2.0**22]).double(), torch.tensor([1.0, 0.25]).double()
    budget = nets.check_budget("a layer", sums, steps)
    assert (budget.layer, budget.largest_sum, budget.steps) == ("a layer", 2.0**22, 2.0**24)


def test_one_step_more_is_refused_with_the_layer_the_number_and_the_remedies():
    message = (
        "a layer needs 16,777,217 grid steps, float32 is exact up to 16,777,216: take a smaller "
        "image_size, fewer or weaker redundant channels, or the uniform accumulator"
    )
    one_more = torch.tensor([2.0**24 + 1], dtype=torch.float64)
    with pytest.raises(AttributionLabError, match=re.escape(message)):
        nets.check_budget("a layer", one_more, torch.ones(1).double())


# Small integers over a power of two, so that float64 holds every sum exactly.
DYADIC = st.integers(-40, 40).map(lambda k: k / 8)


@given(st.lists(st.lists(DYADIC, min_size=3, max_size=3), min_size=1, max_size=4), st.data())
def test_a_stage_stays_within_its_bounds_and_on_its_grid(rows, data):
    bias = data.draw(st.lists(DYADIC, min_size=len(rows), max_size=len(rows)))
    stage = nets.Stage.of(torch.tensor(rows), bias)
    upper = torch.tensor([5.0, 1.0, 12.0]).double()
    step = torch.tensor([1.0, 0.25, 4.0]).double()
    signal, budget = nets.stage_budget("stage", stage, nets.Signal(upper, step))
    multiples = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 3)))
    values = torch.tensor(multiples).double() * step
    output = nets.evaluate([stage], values[None])[0][0]
    terms = (stage.weight.double() * values).abs().sum(1) + stage.bias.double().abs()
    assert float(terms.max()) <= budget.largest_sum
    for value, limit, grid in zip(output, signal.upper, signal.step, strict=True):
        assert 0 <= float(value) <= float(limit)
        assert value == 0 or (Fraction(float(value)) / Fraction(float(grid))).denominator == 1


def test_known_largest_outputs_replace_the_interval_bound():
    stage = nets.Stage.of(torch.tensor([[1.0, 1.0]]))
    signal = nets.Signal(torch.tensor([1.0, 1.0]).double(), torch.ones(2).double())
    assert nets.stage_budget("stage", stage, signal)[0].upper.tolist() == [2.0]
    known, _ = nets.stage_budget("stage", stage, signal, torch.tensor([1.0]).double())
    assert known.upper.tolist() == [1.0]


# Whole networks


def needed(layer: nn.Conv2d | nn.Linear, inputs: torch.Tensor) -> tuple[float, float]:
    """Largest sum of absolute terms over all positions, and largest number of steps, as defined."""
    weight = layer.weight.detach().flatten(1).double()  # (outputs, terms)
    if isinstance(layer, nn.Conv2d):
        patches = nn.functional.unfold(
            inputs, layer.kernel_size, padding=layer.padding, stride=layer.stride
        )
        inputs = patches.transpose(1, 2).flatten(0, 1)  # (positions, terms)
    largest, most = 0.0, 0.0
    for neuron, bias in zip(weight, layer.bias.detach().double(), strict=True):
        terms = neuron * inputs
        sums = terms.abs().sum(1) + bias.abs()
        grid = torch.minimum(grid_step(terms).amin(1), grid_step(bias))
        largest = max(largest, float(sums.max()))
        most = max(most, float((sums / grid).max()))
    return largest, most


def inputs_of(layers, model: nn.Module, images: torch.Tensor) -> dict[nn.Module, torch.Tensor]:
    """What each layer receives."""
    seen = {}
    for layer in layers:
        layer.register_forward_hook(lambda layer, inputs, _: seen.update({layer: inputs[0]}))
    with torch.no_grad():
        model(images)
    return seen


def noise(channels: int, top: int, side: int, palette=None) -> torch.Tensor:
    """Images of the box: noise, both corners, and a mix of known colors and noise."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, top + 1, (4, channels, side, side), generator=generator).double()
    images[1], images[2] = 0, top
    if palette is not None:
        colors = torch.tensor(palette).double()
        shown = colors[torch.randint(0, len(palette), (side, side), generator=generator)]
        images[3] = torch.where(images[3] < 60, images[3], shown.permute(2, 0, 1))
    return images


COLORS = {"colors": FOUR_COLORS, "background": BACKGROUND}
NETWORKS = {
    "color-sum": (
        lambda **k: nets.color_sum(**COLORS, **k),
        noise(3, 255, 20, [*FOUR_COLORS, BACKGROUND]),
    ),
    "strong redundancy": (
        lambda **k: nets.color_sum(**COLORS, redundant_channels=4, redundant_strength=4.0, **k),
        noise(3, 255, 20, [*FOUR_COLORS, BACKGROUND]),
    ),
    "distractors": (
        lambda **k: nets.color_sum(**COLORS, distractor_colors=TWO_DISTRACTORS, **k),
        noise(3, 255, 20, [*FOUR_COLORS, *TWO_DISTRACTORS, BACKGROUND]),
    ),
    "number-sum": (lambda **k: nets.number_sum(number=5, **k), noise(1, 255, 20)),
    "white-sum": (nets.white_sum, noise(1, 1, 20)),
    "modulo-sum": (lambda **k: nets.modulo_sum(modulus=7, max_count=100, **k), noise(1, 1, 20)),
}


@pytest.mark.parametrize("accumulator", ["uniform", "nonuniform"])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_image_exceeds_the_budget_of_any_layer(name, accumulator):
    build, images = NETWORKS[name]
    for weight_seed in range(3):
        network = build(image_size=20, accumulator=accumulator, weight_seed=weight_seed)
        layers = [m for m in network.model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        seen = inputs_of(layers, network.model.double(), images)
        for layer, budget in zip(layers, network.budgets, strict=False):
            largest, steps = needed(layer, seen[layer])
            assert largest <= budget.largest_sum, budget.layer
            assert steps <= budget.steps <= EXACT_STEPS, budget.layer
        # What has no budget of its own hands numbers on, one term a neuron.
        for layer in layers[len(network.budgets) :]:
            assert set(layer.weight.flatten().tolist()) <= {0.0, 1.0}
            assert set(layer.weight.sum(1).tolist()) == {1.0}
            assert not layer.bias.any()


def test_the_bounds_of_an_accumulator_are_reached_by_a_white_image():
    network = nets.white_sum(image_size=20, accumulator="uniform")
    images = torch.ones(1, 1, 20, 20)
    assert network.budgets[-1].largest_sum == 400 == network.model(images).item()
