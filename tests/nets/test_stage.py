"""Weights before they become layers."""

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

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


def test_layers_own_their_weights():
    stage = random_stages(0, [3, 2])[0]
    for modules in (to_convolutions([stage]), to_linears([stage])):
        weight, bias = stage.weight.clone(), stage.bias.clone()
        with torch.no_grad():
            modules[0].weight.add_(1)
            modules[0].bias.add_(1)
        assert torch.equal(stage.weight, weight)
        assert torch.equal(stage.bias, bias)
