"""The identity head and the softmax with its temperature."""

import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attributionlab.errors import AttributionLabError
from attributionlab.nets import default_temperature, identity_head, with_softmax

POWERS_OF_TWO = [2.0**k for k in range(-10, 21)]


@pytest.mark.parametrize(("classes", "dropped"), [(1, 0), (4, 0), (4, 2), (1, 3)])
def test_the_head_hands_on_the_counts_and_drops_the_distractors(classes, dropped):
    counts = torch.arange(1.0, 1 + 2 * (classes + dropped)).reshape(2, -1)
    logits = nn.Sequential(*identity_head(classes, dropped))(counts)
    assert torch.equal(logits, counts[:, :classes])


def test_the_head_is_two_linear_layers_with_one_relu_between():
    assert [type(module) for module in identity_head(4, 2)] == [nn.Linear, nn.ReLU, nn.Linear]


@pytest.mark.parametrize("temperature", POWERS_OF_TWO)
def test_every_power_of_two_is_a_temperature_and_divides_exactly(temperature):
    model = with_softmax(nn.Identity(), 3, temperature)
    logits = torch.tensor([[3.0, 1001, 7]])
    assert torch.equal(model[:2](logits), logits / temperature)
    assert torch.equal(model(logits), torch.softmax(logits / temperature, dim=1))


@pytest.mark.parametrize(
    "temperature", [0.0, -2.0, 3.0, 300.0, 0.3, math.inf, math.nan, 2.0 + 2.0**-40]
)
def test_a_temperature_that_is_no_power_of_two_is_refused(temperature):
    message = f"temperature is {temperature}: take a power of two, such as 1 or 256"
    with pytest.raises(AttributionLabError, match=re.escape(message)):
        with_softmax(nn.Identity(), 2, temperature)


def test_the_softmax_model_shares_the_modules_of_the_model():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    softmax_model = with_softmax(model, 3, 4.0)
    assert softmax_model.model is model
    assert type(softmax_model.softmax) is nn.Softmax
    assert softmax_model.temperature.bias is None
    assert not softmax_model.training


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
    temperature = default_temperature(gap)
    assert temperature in POWERS_OF_TWO
    assert gradient_of_the_winner(gap / temperature, losers=1) > 0


@given(st.integers(1, 2**20))
def test_the_default_temperature_is_the_smallest_power_of_two_that_does(gap):
    temperature = default_temperature(gap)
    assert temperature == 1 or gap / (temperature / 2) >= LIMIT


@pytest.mark.parametrize("gap", [17, 34, 1065, 17044])
def test_half_the_default_temperature_loses_the_gradient_just_below_the_bound(gap):
    # Gaps just above 24 ln 2 times a power of two: 16.64, 33.27, 1064.7, 17034.8.
    temperature = default_temperature(gap)
    assert gradient_of_the_winner(gap / temperature, losers=1) > 0
    assert gradient_of_the_winner(gap / (temperature / 2), losers=1) == 0
