"""Times and counts of arriving players: exact means of polynomials, binomials, their convolution."""

import math

import pytest

from attributionlab.worlds.truth import arrivals
from attributionlab.worlds.truth.arrivals import times


@pytest.mark.parametrize("players", [500, 7169, 50_176])
def test_many_players_err_by_no_more_than_the_bound(players):
    u, v, weights, error = times(players)
    assert len(u) <= 5 * math.sqrt(players)
    assert 0 < error * players < 1e-12
    # The most uneven means of all, P(nobody else is there) and P(all others are), are 1 / players;
    # powers of u are rounded by `players` times 2^-53.
    for time in (u, v):
        wrong = abs(float(weights @ time ** (players - 1)) - 1 / players)
        assert wrong <= error + 2.0**-51


@pytest.mark.parametrize("precise", [-6.0, -4.0, 0.0])
def test_the_bound_of_fewer_nodes_holds_and_says_something(monkeypatch, precise):
    # (1 - 2u)^D, the mean of a game that only tells even from odd, is the most uneven of all.
    monkeypatch.setattr(arrivals, "PRECISE", precise)
    u, v, weights, error = times.__wrapped__(2001)
    wrong = abs(float(weights @ (v - u) ** 2000) - 1 / 2001)
    assert wrong <= error
    assert wrong >= 1e-6 * error
