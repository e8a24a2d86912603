"""Weights before they become layers."""

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attributionlab.worlds.nets import Stage, evaluate, to_convolutions, to_linears


def random_stages(seed: int, widths: list[int]) -> list[Stage]:
    """Small integer weights, so that every arithmetic is exact."""
    generator = torch.Generator().manual_seed(seed)
    return [
        Stage(
            torch.randint(-3, 4, (outputs, inputs), generator=generator).float(),
            torch.randint(-3, 4, (outputs,), generator=generator).float(),
        )
        for inputs, outputs in pairwise(widths)
    ]


def naive_stage(stage: Stage, values: list[float]) -> list[float]:
    """ReLU(weight @ x + bias), neuron by neuron."""
    outputs = []
    for weights, bias in zip(stage.weight.tolist(), stage.bias.tolist(), strict=True):
        total = bias
        for weight, value in zip(weights, values, strict=True):
            total += weight * value
        outputs.append(max(total, 0.0))
    return outputs


@given(st.integers(0, 1000), st.lists(st.integers(1, 5), min_size=2, max_size=4), st.integers(1, 3))
def test_evaluate_returns_the_output_of_every_stage_in_turn(seed, widths, batch):
    stages = random_stages(seed, widths)
    values = torch.arange(batch * widths[0]).reshape(batch, -1).double() - 2
    expected = values.tolist()
    for stage, outputs in zip(stages, evaluate(stages, values), strict=True):
        expected = [naive_stage(stage, row) for row in expected]
        assert outputs.dtype == torch.float64
        assert outputs.tolist() == expected


def test_convolutions_compute_the_stages_at_every_pixel():
    stages = random_stages(0, [3, 5, 4, 2])
    image = torch.randint(0, 9, (2, 3, 4, 5), generator=torch.Generator().manual_seed(1)).float()
    at_pixels = evaluate(stages, image.permute(0, 2, 3, 1).reshape(-1, 3))[-1]
    outputs = nn.Sequential(*to_convolutions(stages))(image)
    assert torch.equal(outputs.permute(0, 2, 3, 1).reshape(-1, 2).double(), at_pixels)


def test_linear_layers_compute_the_stages():
    stages = random_stages(0, [3, 5, 4, 2])
    values = torch.arange(12.0).reshape(4, 3)
    outputs = nn.Sequential(*to_linears(stages))(values)
    assert torch.equal(outputs.double(), evaluate(stages, values)[-1])


def test_every_layer_is_followed_by_a_relu_of_its_own():
    stages = random_stages(0, [3, 5, 4, 2])
    for modules, kind in ((to_convolutions(stages), nn.Conv2d), (to_linears(stages), nn.Linear)):
        assert [type(module) for module in modules] == [kind, nn.ReLU] * 3
        assert len(set(modules)) == len(modules)


def test_layers_own_their_weights():
    stage = random_stages(0, [3, 2])[0]
    for modules in (to_convolutions([stage]), to_linears([stage])):
        weight, bias = stage.weight.clone(), stage.bias.clone()
        with torch.no_grad():
            modules[0].weight.add_(1)
            modules[0].bias.add_(1)
        assert torch.equal(stage.weight, weight)
        assert torch.equal(stage.bias, bias)


def test_a_single_bias_counts_for_every_output():
    assert Stage.of(torch.ones(3, 2), -2.0).bias.tolist() == [-2.0, -2.0, -2.0]


def test_several_biases_are_taken_one_by_one():
    stage = Stage.of(torch.ones(2, 1, dtype=torch.int64), [1.0, -1.0])
    assert stage.bias.tolist() == [1.0, -1.0]
    assert stage.weight.dtype == stage.bias.dtype == torch.float32
