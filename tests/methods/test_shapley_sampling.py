"""Sampled Shapley values are those of their permutations, and tend to the exact ones."""

import pytest
import torch

import attributionlab as al
import oracles_masking as oracles
from attributionlab import GuardWarning, methods
from masking_cases import BASELINES, IMAGES, LABELS, TARGETS, Curved, seeded, value_of


def loud(model=None, **settings):
    settings = {
        "segmentation": LABELS,
        "highest": 255,
        "baselines": 1.0,
        "generator": seeded(),
    } | settings
    return methods.shapley_value_sampling(model or Curved(), IMAGES, TARGETS, **settings)


def run(model=None, **settings):
    """The map, whatever is said about its noise."""
    with methods.notices.collect_notices():
        return loud(model, **settings)


def orders_of(players, n, source):
    return [[players[i] for i in torch.randperm(len(players), generator=source)] for _ in range(n)]


@pytest.mark.parametrize("segmentation", ["pixels", LABELS])
def test_it_is_the_mean_over_permutations_in_loops(segmentation):
    n, source = 4, seeded()
    got = run(segmentation=segmentation, n_samples=n)
    labels = (torch.arange(15).reshape(3, 5) if segmentation == "pixels" else LABELS).tolist()
    for k in range(2):
        image, baseline = IMAGES[k].tolist(), BASELINES[k].tolist()
        players = oracles.players_of(image, baseline, labels)
        means = dict.fromkeys(players, 0.0)
        for order in orders_of(players, n, source):
            taken = oracles.contributions(value_of(TARGETS[k]), image, baseline, labels, order)
            means = {player: means[player] + taken[player] / n for player in players}
        expected = torch.tensor(oracles.spread(labels, means))
        # Fourths of integers are exact; what is left is the division by the size, in either type.
        torch.testing.assert_close(got[k, 0], expected, rtol=2**-22, atol=0)


def test_pixels_of_the_laboratory_are_followed_with_equal_results(monkeypatch):
    env = al.load("multi-color-sum", image_size=8)
    images, labels = env.batch(2)
    targets = env.targets(labels)

    def estimated(model):
        return methods.shapley_value_sampling_true_baseline(
            model,
            images,
            targets,
            baseline=env.baseline,
            highest=env.max_value,
            generator=seeded(),
            n_samples=7,
        )

    followed = estimated(env.softmax_model)
    with monkeypatch.context() as patch:
        patch.setattr(methods.shapley, "coalition_outputs", None)
        patch.setattr(methods.shapley, "OUTPUTS_AT_ONCE", 2 * 65)  # two orders at a time
        # Means over parts of the permutations are rounded otherwise, in float64.
        torch.testing.assert_close(estimated(env.softmax_model), followed, rtol=2**-22, atol=1e-12)
    handle = env.softmax_model.register_forward_hook(lambda *_: None)  # not to be followed with one
    assert torch.equal(estimated(env.softmax_model), followed)
    handle.remove()


def test_parts_have_the_mean_and_the_standard_errors_of_the_whole():
    source = seeded()
    outputs = torch.randn((7, 4), generator=source, dtype=torch.float64)
    orders = torch.stack([torch.randperm(3, generator=source) for _ in range(7)])
    taken = torch.zeros(7, 3, dtype=torch.float64)
    for row, (output, order) in enumerate(zip(outputs, orders, strict=True)):
        for step, player in enumerate(order):
            taken[row, player] = output[step] - output[step + 1]
    for sizes in ([7], [3, 4], [1, 1, 5]):
        estimate = methods.shapley._Estimate(3)
        for some in zip(outputs.split(sizes), orders.split(sizes), strict=True):
            estimate._add(*some)
        torch.testing.assert_close(estimate.mean, taken.mean(0))
        torch.testing.assert_close(estimate.standard_errors, taken.std(0) / 7**0.5)


def test_they_are_the_exact_values_of_counts():
    env = al.load("multi-color-sum", image_size=8)
    images, labels = env.batch(2)
    with methods.notices.collect_notices() as told:
        maps = methods.shapley_value_sampling_true_baseline(
            env.model,
            images,
            labels,
            baseline=env.baseline,
            highest=env.max_value,
            generator=seeded(),
            n_samples=2,
        )
    for k in range(2):
        exact = env.shapley(images[k], int(labels[k]), "logit")
        assert torch.equal(maps[k].double(), exact)  # every permutation has the same contributions
    assert [finding.images for finding in told] == [0, 0, 0, 0]


def test_forward_passes_are_as_many_as_said_and_full():
    model = Curved()
    run(model, n_samples=3, perturbations_per_eval=5)
    assert model.seen == [5, 5, 1, 5, 5, 4]  # 3 x (4 - 1) + 2 and 3 x (5 - 1) + 2
    model = Curved()
    run(model, segmentation=torch.zeros_like(LABELS), n_samples=3, perturbations_per_eval=5)
    assert model.seen == [2, 2]


# Guards


def test_it_says_when_the_map_is_mostly_noise():
    class Majority(Curved):
        def forward(self, inputs):
            shown = (inputs != 1).any(1).flatten(1).sum(1)
            return torch.stack([(shown > 7).float()] * 2, dim=1)

    with pytest.warns(GuardWarning, match="of 2 images are mostly sampling .* larger n_samples"):
        loud(Majority(), segmentation="pixels", n_samples=3)
    with methods.notices.collect_notices() as told:
        loud(Majority(), segmentation="pixels", n_samples=300)
    assert told[-1].images == 0


def test_a_single_permutation_says_nothing_of_its_noise():
    with pytest.warns(GuardWarning, match="of 2 images have a sampling noise of unknown size"):
        loud(n_samples=1)


@pytest.mark.filterwarnings("ignore:.*single superpixel")
def test_a_single_superpixel_has_the_whole_change_for_certain():
    with methods.notices.collect_notices() as told:
        got = loud(segmentation=torch.zeros_like(LABELS), n_samples=1)
    assert [finding.images for finding in told] == [2, 0, 0, 0]
    assert len(got[0].unique()) == len(got[1].unique()) == 1
