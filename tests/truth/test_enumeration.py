"""Shapley values over all coalitions: against all orders, by hand, refusals."""

import random

import numpy as np
import pytest
import torch

import attributionlab as al
import oracles_truth
from attributionlab.truth.enumeration import MOST_PLAYERS, enumerated_shapley


def number_of(coalitions):
    """Each row as the number whose bit i is player i."""
    return (coalitions * 2 ** torch.arange(coalitions.shape[1])).sum(1)


@pytest.mark.parametrize("players", range(1, 7))
def test_the_values_are_means_over_all_orders(players):
    chance = random.Random(players)
    worths = [chance.uniform(-1, 1) for _ in range(2**players)]

    def game(coalition):
        return worths[sum(1 << player for player in coalition)]

    values = enumerated_shapley(
        lambda s: torch.tensor(worths, dtype=torch.float64)[number_of(s)], players
    )
    assert values.dtype == torch.float64
    expected = oracles_truth.shapley_over_all_orders(game, players)
    # Sums of at most 32 differences of at most 2 with weights of sum 1
    assert values.tolist() == pytest.approx(expected, abs=2.0**-48)


def test_nobody_has_no_values():
    assert enumerated_shapley(lambda s: s.double().sum(1), 0).shape == (0,)


def test_every_coalition_is_asked_for_once_in_blocks():
    seen = []

    def value(coalitions):
        seen.append(number_of(coalitions))
        return coalitions.double() @ torch.arange(17).double()

    values = enumerated_shapley(value, 17)
    assert [len(block) for block in seen] == [2**16, 2**16]
    assert torch.cat(seen).tolist() == list(range(2**17))
    # An additive game: everybody has what he brings, up to the rounding of sums up to 136.
    assert values.tolist() == pytest.approx(range(17), abs=1e-12)


@pytest.mark.parametrize(
    ("players", "message"),
    [
        (
            MOST_PLAYERS + 1,
            r"players is 21: all 2\^21 coalitions are too many.*env\.sampled_shapley",
        ),
        (-1, "players is -1: take an integer from 0 to 20"),
        (2.0, r"players is 2\.0: take an integer from 0 to 20"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_numbers_of_players_that_cannot_be_enumerated_are_refused(players, message):
    with pytest.raises(al.AttributionLabError, match=message):
        enumerated_shapley(lambda s: s.double().sum(1), players)


def test_numpy_before_2_0_counts_the_players_of_a_coalition_too(monkeypatch):
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert enumerated_shapley(lambda s: s.double().sum(1), 3).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            lambda s: s.double(),
            r"returned torch\.float64 of shape \(8, 3\): return a float64 tensor",
        ),
        (lambda s: s.double().sum(), r"of shape \(\): .*of shape \(8,\), one number a coalition"),
        (lambda s: s.float().sum(1), r"returned torch\.float32 of shape \(8,\): return a float64"),
        (lambda s: s.sum(1).tolist(), "returned list: return a float64 tensor"),
    ],
)
def test_games_that_do_not_give_a_float64_number_a_coalition_are_refused(value, message):
    with pytest.raises(al.AttributionLabError, match=message) as caught:
        enumerated_shapley(value, 3)
    assert "\n" not in str(caught.value)
