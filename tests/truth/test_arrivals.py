"""Times and counts of arriving players: exact means of polynomials, binomials, their convolution."""

import math
from fractions import Fraction

import pytest

from attributionlab.worlds.truth import arrivals
from attributionlab.worlds.truth.arrivals import ClassCount, times


def binomial(n, k, u):
    return math.comb(n, k) * u**k * (1 - u) ** (n - k) if 0 <= k <= n else 0


@pytest.mark.parametrize("players", [1, 2, 3, 10, 40])
def test_few_players_have_exact_means(players):
    u, v, weights, error = times(players)
    assert error == 0
    assert u + v == pytest.approx(1)
    for power in range(players):
        assert float(weights @ u**power) == pytest.approx(1 / (power + 1), rel=1e-14)


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


@pytest.mark.parametrize("u", [0.001, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("pixels", [(6, 0, 0), (0, 5, 2), (4, 3, 1), (0, 0, 3)])
def test_a_count_has_the_probabilities_of_independent_pixels(pixels, u):
    arriving, leaving, constant = pixels
    exact = Fraction(u)

    def probability(k, arriving, leaving):
        return sum(
            binomial(arriving, a, exact) * binomial(leaving, k - constant - a, 1 - exact)
            for a in range(arriving + 1)
        )

    low, everybody, without_arriving, without_leaving = ClassCount(*pixels).at(u, 1 - u)
    first, last = ClassCount(*pixels).bounds(u, 1 - u)
    assert (first, last) == (low, low + len(everybody) - 1)
    for k, p in enumerate(everybody, low):
        assert p == pytest.approx(float(probability(k, arriving, leaving)), rel=1e-13)
    for k, p in enumerate(without_arriving, low):
        right = float(probability(k, arriving - 1, leaving)) if arriving else 0
        assert p == pytest.approx(right, rel=1e-13, abs=1e-300)
    for k, p in enumerate(without_leaving, low):
        right = float(probability(k, arriving, leaving - 1)) if leaving else 0
        assert p == pytest.approx(right, rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("u", [1e-5, 0.2, 0.5, 1 - 1e-4])
def test_a_wide_count_leaves_out_less_than_e_to_the_minus_45(u):
    n = 5000
    low, high = ClassCount(n).bounds(u, 1 - u)
    exact = Fraction(u)
    if low > 0:
        assert sum(float(binomial(n, k, exact)) for k in (low - 1, low - 2)) <= math.exp(-45)
    if high < n:
        assert sum(float(binomial(n, k, exact)) for k in (high + 1, high + 2)) <= math.exp(-45)
    assert ClassCount(n).deviation(u, 1 - u) == pytest.approx(math.sqrt(n * u * (1 - u)))
