"""The modulo MLP: remainders of counts."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attributionlab.errors import AttributionLabError
from attributionlab.nets import (
    Signal,
    evaluate,
    modulo_bound,
    modulo_budget,
    modulo_mlp,
    to_linears,
)
from cases import MODULI
from oracles import remainder


def remainders(modulus: int, max_count: int, counts: list[int]) -> list[float]:
    """What the linear layers answer in float32."""
    mlp = nn.Sequential(*to_linears(modulo_mlp(modulus, max_count)))
    with torch.no_grad():
        return mlp(torch.tensor(counts, dtype=torch.float32)[:, None])[:, 0].tolist()


def counts_up_to(largest: float) -> Signal:
    return Signal(torch.tensor([largest]).double(), torch.ones(1).double())


def test_the_papers_setting_is_right_for_every_count_to_its_bound():
    counts = list(range(4921))
    assert remainders(30, 4899, counts) == [remainder(count, 30) for count in counts]


def test_the_papers_setting_has_its_layer_sizes_and_parameters():
    layers = to_linears(modulo_mlp(30, 4899))[::2]
    sizes = [1, 165, 164, 656, 492, 328, 164, 1]
    assert [(layer.in_features, layer.out_features) for layer in layers] == [
        (inputs, outputs) for inputs, outputs in pairwise(sizes)
    ]
    assert sum(p.numel() for layer in layers for p in layer.parameters()) == 674_863


@pytest.mark.parametrize(("modulus", "max_count"), MODULI)
def test_the_bound_is_the_first_multiple_of_the_modulus_from_max_count_on(modulus, max_count):
    bound = modulo_bound(modulo_mlp(modulus, max_count))
    assert bound >= max_count
    assert bound - max_count < modulus
    assert remainder(bound, modulus) == 0


@pytest.mark.parametrize(("modulus", "max_count"), MODULI)
def test_remainders_are_right_up_to_the_bound_and_wrong_one_beyond(modulus, max_count):
    bound = modulo_bound(modulo_mlp(modulus, max_count))
    counts = list(range(bound + 1))
    answers = remainders(modulus, max_count, [*counts, bound + 1])
    assert answers[:-1] == [remainder(count, modulus) for count in counts]
    assert answers[-1] == 0  # U is a bound on the count, not the modulus ("not larger than N")


@given(st.integers(2, 60), st.integers(1, 400), st.data())
def test_remainders_are_right_for_any_modulus_and_bound(modulus, max_count, data):
    counts = data.draw(st.lists(st.integers(0, max_count), min_size=1))
    expected = [remainder(count, modulus) for count in counts]
    assert remainders(modulus, max_count, counts) == expected


def test_every_function_of_the_paper_gives_what_its_text_says():
    # x = 8 modulo 5 (figure 14), with room for 15
    f1, f2, *f3, f4, f5 = [
        outputs[0].tolist() for outputs in evaluate(modulo_mlp(5, 15), torch.tensor([[8.0]]))
    ]
    assert f1 == [8, 3, 0, 0]
    assert f2 == [5, 3, 0]
    assert f3[-1] == [5, 1, 3, 0, 0, 0]
    assert f4 == [0, 3, 0]
    assert f5 == [3]


@pytest.mark.parametrize("largest", [3.0, 12.0, 400.0])
def test_the_budget_knows_the_largest_output_of_every_neuron(largest):
    stages = modulo_mlp(5, 12)
    signal, budgets = modulo_budget(stages, counts_up_to(largest))
    every_count = torch.arange(largest + 1)[:, None]
    inputs = every_count.double()
    for stage, budget, outputs in zip(stages, budgets, evaluate(stages, every_count), strict=True):
        sums = inputs @ stage.weight.abs().double().T + stage.bias.abs()
        assert float(sums.max()) <= budget.largest_sum
        inputs = outputs
    assert signal.upper.tolist() == outputs.amax(0).tolist()
    assert signal.step.tolist() == [1.0]


def test_the_budget_refuses_counts_that_float32_cannot_hold():
    with pytest.raises(AttributionLabError, match="modulo layer 1 needs 16,777,226 grid steps"):
        modulo_budget(modulo_mlp(5, 10), counts_up_to(2.0**24))


@pytest.mark.parametrize(("modulus", "max_count"), [(1, 10), (0, 10), (-3, 10), (5, 0)])
def test_a_modulus_below_2_and_a_count_below_1_are_refused(modulus, max_count):
    message = (
        f"modulus is {modulus} and max_count {max_count}: take a modulus of at least 2 and a count "
        "of at least 1"
    )
    with pytest.raises(AttributionLabError, match=message):
        modulo_mlp(modulus, max_count)
