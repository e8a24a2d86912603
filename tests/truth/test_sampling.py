"""Sampled Shapley values: unbiased, with errors that can be trusted, the same for the same seed."""

import math
import statistics

import pytest
import torch
from torch import nn

import attributionlab as al
import oracles
import oracles_truth
from attributionlab.worlds.truth import sampled_shapley, sampling
from exact.random_networks import Opaque

BLACK = torch.zeros(1)


def first(outputs):
    """The first output as it is."""
    return outputs[..., 0]


def probability(outputs):
    """Probability of the first of several outputs."""
    return torch.softmax(outputs, -1)[..., 0]


def bent(seed, pixels):
    """A small network, far from additive, whose sums are exact."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(pixels, 6), nn.ReLU(), nn.Linear(6, 2, bias=False)
    )
    for parameter in model.parameters():
        parameter.data = torch.randint(-4, 5, parameter.shape, generator=generator) / 4
    return model


class Total(nn.Module):
    """A function of the sum of all pixels."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, images):
        return self.function(images.sum((1, 2, 3)))[:, None]


def game_of(model, image, end, readout=first):
    """What is explained, for a set of pixels: one forward pass."""

    def explained(mixed):
        with torch.no_grad():
            return float(readout(model(mixed).double())[0])

    return oracles_truth.pixel_game(explained, image, end.expand_as(image))


@pytest.fixture
def followed(monkeypatch):
    """Orders that a model is followed along, as they are asked for."""
    asked = []
    along = sampling.trajectories

    def watched(model, images, replacements, orders, *, counts):
        if list(counts) != [0]:
            asked.append(orders[0])
        return along(model, images, replacements, orders, counts=counts)

    monkeypatch.setattr(sampling, "trajectories", watched)
    return asked


# By hand


def test_an_additive_game_is_known_after_any_order():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 1, bias=False))
    model[1].weight.data = torch.tensor([[1.0, -2.0, 0.5, 4.0]])
    found = sampled_shapley(model, torch.ones(1, 2, 2), 0, first, precision=0.1)
    assert found.values.tolist() == [[[1, -2], [0.5, 4]]]
    assert found.standard_errors.tolist() == [[[0, 0], [0, 0]]]
    assert (found.permutations, found.reached) == (64, True)
    assert found.values.dtype == found.standard_errors.dtype == torch.float64


def test_an_order_and_its_reverse_know_a_game_of_pairs_of_players():
    # f = s^2: a player x adds x (2 r + x), r the sum of those that stay. In the reverse they are those
    # that left, so the mean is x times the sum of all, in every pair.
    image = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    found = sampled_shapley(Total(torch.square), image, 0, first, precision=1e-3, seed=5)
    assert found.values.tolist() == [[[10, 20], [30, 40]]]
    assert found.standard_errors.max() == 0


def test_pixels_equal_to_their_replacement_are_no_players(followed):
    # The first pixel is equal in both channels, the second in one of them.
    image = torch.tensor([[[1.0, 2.0, 5.0]], [[3.0, 4.0, 6.0]]])
    end = torch.tensor([[[1.0, 2.0, 5.0]], [[3.0, 0.0, 0.0]]])
    found = sampled_shapley(Total(torch.square), image, end, first, precision=1.0, most=8)
    assert found.values[0, 0, 0] == 0
    assert found.standard_errors[0, 0, 0] == 0
    assert found.values.sum() == 21**2 - 11**2
    assert all(orders[:, 2].eq(0).all() for orders in followed)


def test_without_players_there_is_nothing_to_draw():
    image = torch.ones(1, 2, 2)
    found = sampled_shapley(bent(0, 4), image, image, first, precision=1e-9)
    assert found.values.tolist() == found.standard_errors.tolist() == [[[0, 0], [0, 0]]]
    assert (found.permutations, found.reached) == (0, True)


# What an estimate is made of


@pytest.mark.parametrize("most", [60, 2000])
def test_the_estimate_is_the_mean_over_pairs_of_the_last_orders(most, followed):
    model = bent(1, 4)
    image = torch.tensor([[[3.0, -2.0], [1.0, 2.0]]])
    found = sampled_shapley(model, image, 0, probability, precision=0.02, most=most)
    pairs = []
    for orders in followed:
        there, back = orders.chunk(2)
        assert torch.equal(back, there.flip(1))
        pairs += zip(there.tolist(), back.tolist(), strict=True)
    if most == 60:
        assert found.permutations == 2 * len(pairs) == 60
    else:  # a pilot went before
        assert 64 <= 2 * len(pairs) - found.permutations < most - found.permutations
    game = game_of(model, image, BLACK, probability)
    rows = [
        [sum(both) / 2 for both in zip(*oracles_truth.shapley_of_orders(game, pair), strict=True)]
        for pair in pairs[-found.permutations // 2 :]
    ]
    # Sums of some hundred terms below 1 in another order: each rounds to 2^-53.
    for value, error, column in zip(
        found.values.flatten().tolist(),
        found.standard_errors.flatten().tolist(),
        zip(*rows, strict=True),
        strict=True,
    ):
        assert value == pytest.approx(statistics.fmean(column), abs=1e-13)
        expected = statistics.stdev(column) / math.sqrt(len(column))
        assert error == pytest.approx(expected, rel=1e-9)


def test_orders_are_random_permutations_of_the_players(followed):
    # Each of four players leaves first in a quarter of the orders: 750 +- 5 sqrt(3000 3 / 16) = 119.
    sampled_shapley(bent(1, 4), torch.ones(1, 2, 2), 0, first, precision=1e-9, most=6000)
    orders = torch.cat([each.chunk(2)[0] for each in followed])
    assert len(orders) == 3000
    assert torch.equal(orders.sort(1).values, torch.arange(4).expand(3000, 4))
    for place in range(4):
        assert (orders[:, place].bincount() - 750).abs().max() < 119


@pytest.mark.parametrize("output", ["logit", "probability"])
def test_the_values_sum_to_the_change_of_the_output_with_unseen_colors_too(output):
    env = al.load("multi-color-sum", image_size=20)
    image = env.batch(1)[0][0]
    readout = first if output == "logit" else lambda outputs: probability(outputs / 8)
    found = sampled_shapley(env.model, image, 0, readout, precision=1e9, most=4)
    game = game_of(env.model, image, BLACK, readout)
    change = game(frozenset(range(400))) - game(frozenset())
    assert change != 0
    # 400 differences and their sums, each rounded to 2^-53 of at most some thousand.
    assert float(found.values.sum()) == pytest.approx(change, abs=400 * 2.0**-53 * 10_000)


def test_an_estimate_does_not_depend_on_how_many_orders_are_followed_at_once(monkeypatch):
    model, image = bent(2, 9), torch.arange(9.0).reshape(1, 3, 3)
    asked = {"precision": 0.02, "most": 100}
    whole = sampled_shapley(model, image, 0, probability, **asked)
    for numbers in (1, 300):
        monkeypatch.setattr(sampling, "NUMBERS_AT_ONCE", numbers)
        parts = sampled_shapley(model, image, 0, probability, **asked)
        assert parts.permutations == whole.permutations == 100
        assert torch.allclose(parts.values, whole.values, rtol=0, atol=1e-13)
        assert torch.allclose(parts.standard_errors, whole.standard_errors, rtol=1e-9, atol=0)


def test_memory_bounds_how_many_orders_are_followed_at_once(monkeypatch, followed):
    env = al.load("multi-color-sum", image_size=16)
    monkeypatch.setattr(sampling, "NUMBERS_AT_ONCE", 10_000)
    sampled_shapley(env.model, env.batch(1)[0][0], 0, first, precision=1e9, most=40)
    # 256 pixels with four outputs each: nine orders fit, four pairs of them are drawn.
    assert [len(orders) for orders in followed] == [8, 8, 8, 8, 8]


def test_any_model_has_the_same_estimate():
    env = al.load("multi-color-sum", image_size=16)
    image = env.batch(1)[0][0]
    served, shown = (
        sampled_shapley(model, image, 0, probability, precision=1.0, most=4, seed=3)
        for model in (env.model, Opaque(env.model))
    )
    assert torch.equal(served.values, shown.values)
    assert torch.equal(served.standard_errors, shown.standard_errors)


def test_the_readout_gets_exact_outputs_in_float64():
    seen = []

    def watching(outputs):
        seen.append(outputs)
        return first(outputs)

    sampled_shapley(bent(0, 4), torch.ones(1, 2, 2), 0, watching, precision=1.0, most=4)
    assert {outputs.dtype for outputs in seen} == {torch.float64}
    # 2^-40 is lost in float32 beside 1.
    tiny = Total(lambda total: total)
    found = sampled_shapley(
        tiny, torch.ones(1, 1, 1), 0, lambda y: 1 + first(y) * 2.0**-40, precision=1.0
    )
    assert float(found.values) == 2.0**-40
    # So is 2^-40 in the outputs of a network in float64.
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 1)).double()
    model[1].weight.data[:], model[1].bias.data[:] = 2.0**-40, 1.0
    found = sampled_shapley(model, torch.ones(1, 1, 1), 0, first, precision=1.0)
    assert float(found.values) == 2.0**-40


# Seeds


def test_the_seed_decides_and_the_global_state_does_not():
    model, image = bent(3, 9), torch.arange(9.0).reshape(1, 3, 3)
    before = torch.get_rng_state()

    def values(seed):
        return sampled_shapley(model, image, 0, probability, precision=0.05, seed=seed)

    one = values(7)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    again = values(7)
    assert torch.equal(one.values, again.values)
    assert torch.equal(one.standard_errors, again.standard_errors)
    assert one[2:] == again[2:]
    assert not torch.equal(one.values, values(8).values)
    assert values(2**64 - 1).reached


# Statistics: many seeds against all coalitions


def many(model, image, readout, seeds, **settings):
    return [sampled_shapley(model, image, 0, readout, seed=seed, **settings) for seed in seeds]


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "piloted"),
    [({"precision": 1e-9, "most": 20}, False), ({"precision": 0.006, "most": 10_000}, True)],
)
def test_estimates_are_unbiased_and_their_errors_true(settings, piloted):
    model = Opaque(bent(4, 9))  # a route without preparations
    image = torch.tensor([[[3.0, -2, 1], [2, 1, -1], [1, 2, 4]]])
    readout = lambda outputs: probability(outputs / 4)  # noqa: E731 - the output in one line
    exact = torch.tensor(oracles.shapley(game_of(model, image, BLACK, readout), 9))
    runs = 200
    found = many(model, image, readout, range(runs), **settings)
    sizes = {each.permutations for each in found}
    assert (len(sizes) > 20) == piloted  # of another size for nearly every pilot
    values = torch.stack([each.values.flatten() for each in found])
    errors = torch.stack([each.standard_errors.flatten() for each in found])
    # The mean of independent estimates is normal: beyond 4.5 in one of 9 values once in 16,000 times.
    z = (values.mean(0) - exact) / (values.std(0) / math.sqrt(runs))
    assert z.abs().max() < 4.5
    # Squared errors estimate the estimates' variance, which itself is known to sqrt(2 / 200) = 10 %;
    # where sizes vary, both are means over the same sizes. Five times that.
    assert ((errors.square().mean(0) / values.var(0)).log().abs() < 5 * math.sqrt(2 / runs)).all()
    # 2 SE cover 95.4 % of a normal distribution, and 92.3 % of Student's t with the 9 degrees of
    # freedom of ten pairs. One standard deviation of 200 runs is 1.9 %, of the mean over nine values
    # no more.
    covered = ((values - exact).abs() <= 2 * errors).double().mean()
    expected = 0.954 if piloted else 0.923
    assert abs(covered - expected) < 5 * 0.019
    if piloted:
        assert sum(each.reached for each in found) > 0.9 * runs


# Precision


def test_a_pilot_grows_with_the_sample_that_it_decides_on(followed):
    model, image = bent(4, 9), torch.arange(9.0).reshape(1, 3, 3)
    sizes = []
    for precision in (1.0, 0.02, 0.005):
        followed.clear()
        found = sampled_shapley(model, image, 0, probability, precision=precision, most=50_000)
        drawn = sum(len(orders) for orders in followed)
        pilot = drawn - found.permutations
        assert found.reached
        assert found.standard_errors.max() <= precision
        assert pilot in [64 * 2**doublings for doublings in range(8)]
        assert 64 <= found.permutations <= 8 * pilot
        sizes.append(found.permutations)
    assert sizes == sorted(set(sizes))
    assert sizes[0] == 64


@pytest.mark.parametrize("most", [4, 5, 255, 256, 257, 600])
def test_a_precision_out_of_reach_uses_up_what_is_allowed_and_says_so(most, followed):
    image = torch.arange(9.0).reshape(1, 3, 3)
    found = sampled_shapley(bent(4, 9), image, 0, probability, precision=1e-300, most=most)
    assert not found.reached
    assert sum(len(orders) for orders in followed) == most - most % 2
    assert found.permutations == {4: 4, 5: 4, 255: 254, 256: 192, 257: 192, 600: 472}[most]


# Refusals


@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**700])
def test_errors_of_very_small_and_very_large_outputs_are_as_large_in_their_unit(unit):
    model, image = bent(3, 9), torch.arange(9.0).reshape(1, 3, 3)

    def estimate(unit):
        return sampled_shapley(
            model, image, 0, lambda outputs: outputs[..., 0] * unit, precision=1e300, most=64
        )

    plain, other = estimate(1.0), estimate(unit)
    assert float(plain.standard_errors.max()) > 0
    assert torch.equal(other.standard_errors, plain.standard_errors * unit)
    assert torch.equal(other.values, plain.values * unit)
