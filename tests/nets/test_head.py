"""The identity head and the softmax with its temperature."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attributionlab.base import AttributionLabError
from attributionlab.worlds import nets
from cases import MODULI
from oracles import remainder


def remainders(modulus: int, max_count: int, counts: list[int]) -> list[float]:
    """What the linear layers answer in float32."""
    mlp = nn.Sequential(*nets.to_linears(nets.modulo_mlp(modulus, max_count)))
    with torch.no_grad():
        return mlp(torch.tensor(counts, dtype=torch.float32)[:, None])[:, 0].tolist()


def counts_up_to(largest: float) -> nets.Signal:
    return nets.Signal(torch.tensor([largest]).double(), torch.ones(1).double())


def test_the_papers_setting_is_right_for_every_count_to_its_bound():
    counts = list(range(4921))
    assert remainders(30, 4899, counts) == [remainder(count, 30) for count in counts]


def test_the_papers_setting_has_its_layer_sizes_and_parameters():
    layers = nets.to_linears(nets.modulo_mlp(30, 4899))[::2]
    sizes = [1, 165, 164, 656, 492, 328, 164, 1]
    assert [(layer.in_features, layer.out_features) for layer in layers] == [
        (inputs, outputs) for inputs, outputs in pairwise(sizes)
    ]
    assert sum(p.numel() for layer in layers for p in layer.parameters()) == 674_863


@pytest.mark.parametrize(("modulus", "max_count"), MODULI)
def test_the_bound_is_the_first_multiple_of_the_modulus_from_max_count_on(modulus, max_count):
    bound = nets.modulo_bound(nets.modulo_mlp(modulus, max_count))
    assert bound >= max_count
    assert bound - max_count < modulus
    assert remainder(bound, modulus) == 0


@pytest.mark.parametrize(("modulus", "max_count"), MODULI)
def test_remainders_are_right_up_to_the_bound_and_wrong_one_beyond(modulus, max_count):
    bound = nets.modulo_bound(nets.modulo_mlp(modulus, max_count))
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
        outputs[0].tolist()
        for outputs in nets.evaluate(nets.modulo_mlp(5, 15), torch.tensor([[8.0]]))
    ]
    assert f1 == [8, 3, 0, 0]
    assert f2 == [5, 3, 0]
    assert f3[-1] == [5, 1, 3, 0, 0, 0]
    assert f4 == [0, 3, 0]
    assert f5 == [3]


@pytest.mark.parametrize("largest", [3.0, 12.0, 400.0])
def test_the_budget_knows_the_largest_output_of_every_neuron(largest):
    stages = nets.modulo_mlp(5, 12)
    signal, budgets = nets.modulo_budget(stages, counts_up_to(largest))
    every_count = torch.arange(largest + 1)[:, None]
    inputs = every_count.double()
    for stage, budget, outputs in zip(
        stages, budgets, nets.evaluate(stages, every_count), strict=True
    ):
        sums = inputs @ stage.weight.abs().double().T + stage.bias.abs()
        assert float(sums.max()) <= budget.largest_sum
        inputs = outputs
    assert signal.upper.tolist() == outputs.amax(0).tolist()
    assert signal.step.tolist() == [1.0]


def test_the_budget_refuses_counts_that_float32_cannot_hold():
    with pytest.raises(AttributionLabError, match="modulo layer 1 needs 16,777,226 grid steps"):
        nets.modulo_budget(nets.modulo_mlp(5, 10), counts_up_to(2.0**24))


POWERS_OF_TWO = [2.0**k for k in (-20, *range(-10, 21), 30)]


@pytest.mark.parametrize(("classes", "dropped"), [(1, 0), (4, 0), (4, 2), (1, 3)])
def test_the_head_hands_on_the_counts_and_drops_the_distractors(classes, dropped):
    counts = torch.arange(1.0, 1 + 2 * (classes + dropped)).reshape(2, -1)
    logits = nn.Sequential(*nets.identity_head(classes, dropped))(counts)
    assert torch.equal(logits, counts[:, :classes])


@pytest.mark.parametrize("temperature", POWERS_OF_TWO)
def test_every_power_of_two_is_a_temperature_and_divides_exactly(temperature):
    model = nets.with_softmax(nn.Identity(), 3, temperature)
    logits = torch.tensor([[3.0, 1001, 7]])
    assert torch.equal(model[:2](logits), logits / temperature)
    assert torch.equal(model(logits), torch.softmax(logits / temperature, dim=1))


def gradient_of_the_winner(quotient: float, losers: int, far: float = 0.0) -> float:
    """d p_winner / d logit_winner in float32, one loser `quotient` below and the others `far` more."""
    logits = torch.tensor([[quotient + far, far] + [0.0] * (losers - 1)], requires_grad=True)
    torch.softmax(logits, dim=1)[0, 0].backward()
    return float(logits.grad[0, 0])


# The winner's gradient is p (1 - p). With one loser close enough to matter, p = 1 / (1 + e) where
# e = exp(-gap / T). The float32 next to 1 is 1 + 2^-23, so the sum 1 + e is rounded to 1 (ties go to
# the even 1) exactly where e <= 2^-24, that is gap / T >= 24 ln 2. Further losers only add to the sum.
LIMIT = 24 * math.log(2)


@pytest.mark.parametrize("losers", [1, 3, 7])
def test_the_winners_gradient_vanishes_at_24_ln_2_and_not_before(losers):
    # exp in float32 is off by a few units of 2^-24 in relative terms: 1e-4 is far outside.
    assert gradient_of_the_winner(LIMIT - 1e-4, losers) > 0
    assert gradient_of_the_winner(LIMIT + 1e-4, losers, far=20.0) == 0


@given(st.integers(1, 2**20))
def test_the_default_temperature_keeps_the_winners_gradient_at_the_stated_gap(gap):
    temperature = nets.default_temperature(gap)
    assert temperature in POWERS_OF_TWO
    assert gradient_of_the_winner(gap / temperature, losers=1) > 0


@given(st.integers(1, 2**20))
def test_the_default_temperature_is_the_smallest_power_of_two_that_does(gap):
    temperature = nets.default_temperature(gap)
    assert temperature == 1 or gap / (temperature / 2) >= LIMIT


@pytest.mark.parametrize("gap", [17, 34, 1065, 17044])
def test_half_the_default_temperature_loses_the_gradient_just_below_the_bound(gap):
    # Gaps just above 24 ln 2 times a power of two: 16.64, 33.27, 1064.7, 17034.8.
    temperature = nets.default_temperature(gap)
    assert gradient_of_the_winner(gap / temperature, losers=1) > 0
    assert gradient_of_the_winner(gap / (temperature / 2), losers=1) == 0
