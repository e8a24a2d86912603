"""KernelSHAP is its least squares problem, exact with all coalitions, and says when samples are few."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attributionlab as al
import oracles_masking as oracles
from attributionlab import GuardWarning
from attributionlab.methods import kernel_shap, kernel_shap_true_baseline, notices, shapley
from masking_cases import BASELINES, IMAGES, LABELS, TARGETS, Curved, seeded, value_of

FEW = 12
"""Samples; fewer than all 2^4 - 2 or 2^5 - 2 coalitions, and enough to tell 5 superpixels apart."""


def loud(model=None, method=kernel_shap, **settings):
    settings = {
        "segmentation": LABELS,
        "highest": 255,
        "baselines": 1.0,
        "generator": seeded(),
        "n_samples": FEW,
    } | settings
    return method(model or Curved(), IMAGES, TARGETS, **settings)


def run(model=None, **settings):
    """The map, whatever is said about its noise."""
    with notices.collect_notices():
        return loud(model, **settings)


def games():
    """For each image: value, image, baseline and players, as lists."""
    for k in range(2):
        image, baseline = IMAGES[k].tolist(), BASELINES[k].tolist()
        players = oracles.players_of(image, baseline, LABELS.tolist())
        yield value_of(TARGETS[k]), image, baseline, players


def asked(players, source):
    """Coalitions with their weights: pairs, and then their complements."""
    pairs = shapley._pairs(players, FEW // 2, source)
    return torch.cat([pairs.kept, ~pairs.kept]), pairs.weights.repeat(2)


def test_it_is_least_squares_with_the_sum_held():
    got, source, labels = run(), seeded(), LABELS.tolist()
    for k, (value, image, baseline, players) in enumerate(games()):
        kept, weights = asked(len(players), source)
        nobody = value(baseline)
        outputs = [
            oracles.worth(value, image, baseline, labels, {players[i] for i in z.nonzero()[:, 0]})
            - nobody
            for z in kept
        ]
        outside = [label for label in range(5) if label not in players]
        assert oracles.worth(value, image, baseline, labels, set(outside)) == nobody
        phi = oracles.constrained_least_squares(
            kept.tolist(), outputs, value(image) - nobody, weights.tolist()
        )
        expected = torch.tensor(oracles.spread(labels, dict(zip(players, phi, strict=True))))
        # Float64 systems of condition < 1e3; the result in float32.
        torch.testing.assert_close(got[k, 0], expected, rtol=2**-22, atol=1e-9)


def test_all_coalitions_give_the_shapley_values():
    got = run(n_samples=30)
    for k, (value, image, baseline, _) in enumerate(games()):
        exact = oracles.shapley_values(value, image, baseline, LABELS.tolist())
        expected = torch.tensor(oracles.spread(LABELS.tolist(), exact))
        torch.testing.assert_close(got[k, 0], expected, rtol=2**-22, atol=1e-9)


@pytest.mark.parametrize("n", [2, 3, FEW, 1000])
def test_they_sum_to_the_change_of_the_output(n):
    with torch.no_grad():
        change = (Curved()(IMAGES) - Curved()(BASELINES)).gather(1, TARGETS[:, None])[:, 0]
    sums = run(n_samples=n).sum((1, 2, 3))
    torch.testing.assert_close(sums, change, rtol=0, atol=15 * 3 * 2**-14)


def sizes_of(players):
    """The pairs and the kernel's mass of each size up to half the players, by enumeration."""
    found = {}
    for number in range(1, 2 ** (players - 1)):  # without the last player: one of each pair
        size = number.bit_count()
        small = min(size, players - size)
        kernel = (players - 1) / (math.comb(players, size) * size * (players - size))
        there, mass = found.get(small, (0, 0.0))
        found[small] = there + 1, mass + 2 * kernel
    return dict(sorted(found.items()))


@given(players=st.integers(1, 9), n=st.integers(0, 140), seed=st.integers(0, 99))
def test_pairs_are_different_and_as_many_as_there_are_or_asked(players, n, seed):
    pairs = shapley._pairs(players, n, seeded(seed))
    known = sizes_of(players)
    there = sum(each for each, _ in known.values())
    assert pairs.kept.shape == (min(n, there), players)
    assert pairs.weights.shape == pairs.unknown.shape == (min(n, there),)
    rows = {tuple(row) for row in torch.cat([pairs.kept, ~pairs.kept]).tolist()}
    assert len(rows) == 2 * len(pairs.kept)
    assert not rows & {(True,) * players, (False,) * players}
    if n >= there:
        assert not pairs.unknown.any()
        expected = [known[size][1] / known[size][0] for size in pairs.kept.sum(1).tolist()]
        kernel = pairs.weights * 2 * (players - 1)  # of both coalitions, without its constant
        assert kernel.tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.long
@pytest.mark.parametrize(("players", "n"), [(9, 60), (10, 40), (16, 100), (30, 12)])
def test_each_size_has_its_share_of_the_kernel_on_average(players, n):
    """Weights sum to the mass of each size in the mean, and its members are equally frequent."""
    draws = 400
    found = [shapley._pairs(players, n, seeded(seed)) for seed in range(draws)]
    sizes = torch.stack([sum_by_size(each) for each in found])
    mass = torch.tensor(
        [1 / (k * (players - k) * (1 + (2 * k == players))) for k in range(1, players // 2 + 1)],
        dtype=torch.float64,
    )
    spread = sizes.std(0) / draws**0.5
    assert ((sizes.mean(0) - mass).abs() <= 4.5 * spread + 1e-12).all()
    complete = sizes.std(0) < 1e-12
    assert bool(complete[0]) == (players < 30)
    small = torch.cat([each.kept[each.unknown > 0] for each in found]).double()
    small = small[small.sum(1) * 2 < players]
    error = 0.5 / len(small) ** 0.5
    assert (small.mean(0) - small.mean()).abs().max() < 5 * error


def sum_by_size(pairs):
    """Weights of the pairs of each size."""
    players = pairs.kept.shape[1]
    return torch.zeros(players // 2, dtype=torch.float64).index_add_(
        0, pairs.kept.sum(1) - 1, pairs.weights
    )


def test_pairs_leave_nothing_of_what_is_even():
    """A game that a coalition and its complement play equally well has no values."""
    pairs = shapley._pairs(8, 20, seeded())
    even = (pairs.kept[:, 0] == pairs.kept[:, 1]).double()
    fit = shapley._fit(pairs, torch.cat([torch.ones(2).double(), even, even]))
    assert fit.values.abs().max() < 1e-15
    assert fit.is_determined


@pytest.mark.parametrize(("players", "n"), [(12, 80), (12, 200), (8, 200)])
def test_the_standard_errors_are_those_of_repetitions(players, n):
    """Eight players have 127 pairs, of which 100 leave little to chance."""
    source = seeded()
    slopes = torch.randn(players, generator=source, dtype=torch.float64)
    values, claimed = [], []
    for _ in range(60):
        pairs = shapley._pairs(players, n // 2, source)
        present = torch.cat(
            [torch.zeros(1, players), torch.ones(1, players), pairs.kept, ~pairs.kept]
        ).double()
        outputs = present @ slopes + present[:, 0] * present[:, 1] * present[:, 2:].sum(1) ** 2
        fit = shapley._fit(pairs, outputs)
        values.append(fit.values)
        claimed.append(fit.standard_errors)
    measured = torch.stack(values).std(0)
    # 60 repetitions tell a standard deviation to 9 %; the estimate of the error is good for large n.
    ratio = torch.stack(claimed).square().mean(0).sqrt() / measured
    assert 0.75 < ratio.mean() < 1.25
    assert ((ratio > 0.6) & (ratio < 1.6)).all()


def test_forward_passes_are_as_many_as_said():
    model = Curved()
    run(model, perturbations_per_eval=5)
    assert model.seen == [5, 5, 4] * 2  # 12 + 2
    model = Curved()
    run(model, n_samples=1000, perturbations_per_eval=50)
    assert model.seen == [2**4, 2**5]


def test_with_the_colors_as_superpixels_it_finds_the_truth():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(2)
    colors = (images * torch.tensor([65536.0, 256.0, 1.0]).reshape(3, 1, 1)).sum(1).long()
    maps = kernel_shap_true_baseline(
        env.model,
        images,
        labels,
        baseline=env.baseline,
        highest=env.max_value,
        segmentation=colors,
        generator=seeded(),
    )
    truth = env.truth(images, labels, "logit")
    # Every pixel of the target's color counts 1, and no other one counts.
    torch.testing.assert_close(maps, truth.positive.float(), rtol=0, atol=1e-6)


# Guards


def test_it_says_when_samples_do_not_determine_the_coefficients():
    with pytest.warns(
        GuardWarning, match="of 2 images are not determined, .* too few samples for the super"
    ):
        loud(n_samples=2)
    with notices.collect_notices() as told:
        loud(n_samples=2)
    assert told[-1].images == 0  # nothing is known of their noise


class Erratic(Curved):
    """Its outputs are no sums of few terms."""

    def forward(self, images):
        return torch.sin(1e3 * super().forward(images))


def test_it_says_when_the_map_is_mostly_noise():
    with pytest.warns(GuardWarning, match="mostly sampling noise.* take a larger n_samples"):
        loud(Erratic(), segmentation="pixels", n_samples=60)


def test_as_many_pairs_as_unknowns_say_nothing_of_their_noise():
    pairs = shapley._Pairs(torch.eye(3)[:2].bool(), torch.ones(2).double(), torch.ones(2).double())
    fit = shapley._fit(pairs, torch.tensor([0.0, 6.0, 1.0, 2.0, 5.0, 4.0]).double())
    torch.testing.assert_close(fit.values, torch.tensor([1.0, 2.0, 3.0]).double())
    assert fit.is_determined
    assert fit.standard_errors.isinf().all()


@pytest.mark.filterwarnings("ignore:.*single superpixel")
def test_a_single_superpixel_has_the_whole_change():
    with notices.collect_notices() as told:
        got = loud(segmentation=torch.zeros_like(LABELS))
    assert [finding.images for finding in told] == [2, 0, 0, 0, 0]
    assert len(got[0].unique()) == 1


def test_it_is_quiet_when_all_is_well():
    with notices.collect_notices() as told:
        loud(n_samples=30)
    assert [finding.images for finding in told] == [0] * 5
    assert torch.equal(told[0].regions, LABELS.expand(2, 3, 5))
