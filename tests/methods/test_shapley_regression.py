"""KernelSHAP is its least squares problem, exact with all coalitions, and says when samples are few."""

import math
import warnings

import pytest
import torch

import attributionlab as al
import oracles_masking as oracles
from attributionlab import AttributionLabError, GuardWarning
from attributionlab.methods import notices, shapley
from attributionlab.methods.shapley import kernel_shap, kernel_shap_true_baseline
from masking_cases import BASELINES, IMAGES, LABELS, TARGETS, Constant, Curved, seeded, value_of

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


def test_it_is_least_squares_with_the_sum_held():
    got, source, labels = run(), seeded(), LABELS.tolist()
    for k, (value, image, baseline, players) in enumerate(games()):
        kept, weights = shapley._coalitions(len(players), FEW, source)
        assert weights is None
        nobody = value(baseline)
        outputs = [
            oracles.worth(value, image, baseline, labels, {players[i] for i in z.nonzero()[:, 0]})
            - nobody
            for z in kept
        ]
        outside = [label for label in range(5) if label not in players]
        assert oracles.worth(value, image, baseline, labels, set(outside)) == nobody
        phi = oracles.constrained_least_squares(kept.tolist(), outputs, value(image) - nobody)
        expected = torch.tensor(oracles.spread(labels, dict(zip(players, phi, strict=True))))
        # Float64 systems of condition < 1e3; the result in float32.
        torch.testing.assert_close(got[k, 0], expected, rtol=2**-22, atol=1e-9)


def test_all_coalitions_give_the_shapley_values():
    got = run(n_samples=30)
    for k, (value, image, baseline, _) in enumerate(games()):
        exact = oracles.shapley_values(value, image, baseline, LABELS.tolist())
        expected = torch.tensor(oracles.spread(LABELS.tolist(), exact))
        torch.testing.assert_close(got[k, 0], expected, rtol=2**-22, atol=1e-9)


def test_captum_gives_every_pixel_the_whole_value_for_the_same_coalitions():
    from captum.attr import KernelShap

    got, source, sizes = run(), seeded(), LABELS.unique(return_counts=True)[1][LABELS]
    for k, (_, _, _, players) in enumerate(games()):
        kept, _ = shapley._coalitions(len(players), FEW, source)
        rows = torch.ones(2 + FEW, 5, dtype=torch.long)
        rows[1, players] = 0
        rows[2:, players] = kept.long()

        def drawn(inputs, each=rows, **kwargs):
            yield from each[:, None]

        explainer = KernelShap(Curved().double())
        explainer.perturb_func = drawn
        # In place of its weight for 0 or all of the superpixels: the constant one is always there.
        explainer.similarity_func = lambda _, __, z, own=players, **kwargs: torch.tensor(
            [1e6 if int(z[0, own].sum()) in (0, len(own)) else 1.0]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = explainer.attribute(
                IMAGES[k : k + 1].double(),
                BASELINES[k : k + 1].double(),
                target=int(TARGETS[k]),
                feature_mask=LABELS.repeat(1, 3, 1, 1),
                n_samples=2 + FEW,
            )
        # Its weight of 1e6 lets the sum deviate by 1e-5 of the residuals, and it fits in float32.
        scale = float(theirs.abs().max())
        torch.testing.assert_close(
            (got[k, 0] * sizes).double(), theirs[0, 0].double(), rtol=0, atol=1e-4 * scale
        )


@pytest.mark.parametrize("n", [1, 3, FEW, 1000])
def test_they_sum_to_the_change_of_the_output(n):
    with torch.no_grad():
        change = (Curved()(IMAGES) - Curved()(BASELINES)).gather(1, TARGETS[:, None])[:, 0]
    sums = run(n_samples=n).sum((1, 2, 3))
    torch.testing.assert_close(sums, change, rtol=0, atol=15 * 3 * 2**-14)


def test_sizes_and_members_are_those_of_the_shapley_kernel():
    players, n = 16, 20_000
    kept, weights = shapley._coalitions(players, n, seeded())
    assert weights is None
    assert kept.shape == (n, players)
    sizes = kept.sum(1)
    kernel = [(players - 1) / (k * (players - k)) for k in range(1, players)]
    for k, weight in enumerate(kernel, start=1):
        chance = weight / sum(kernel)
        error = math.sqrt(chance * (1 - chance) / n)
        assert abs(float((sizes == k).float().mean()) - chance) < 4 * error
        here = kept[sizes == k].float().mean(0)
        spread = math.sqrt(k / players * (1 - k / players) / int((sizes == k).sum()))
        assert (here - k / players).abs().max() < 4.5 * spread


def test_all_coalitions_are_weighted_by_the_kernel():
    kept, weights = shapley._coalitions(3, 6, seeded())
    assert sorted(map(tuple, kept.tolist())) == sorted(
        (bool(i & 1), bool(i & 2), bool(i & 4)) for i in range(1, 7)
    )
    assert weights.tolist() == [1 / 6] * 6  # 1 / (3 x 1 x 2) for sizes 1 and 2
    _, weights = shapley._coalitions(4, 14, seeded())
    assert set(weights.tolist()) == {1 / 12, 1 / 24}
    assert shapley._coalitions(4, 13, seeded())[1] is None


@pytest.mark.parametrize("n", [40, 200])
def test_the_standard_errors_are_those_of_repetitions(n):
    source, players = seeded(), 12
    slopes = torch.randn(players, generator=source, dtype=torch.float64)
    values, claimed = [], []
    for _ in range(60):
        kept, _ = shapley._coalitions(players, n, source)
        present = torch.cat(
            [torch.zeros(1, players), torch.ones(1, players), kept.float()]
        ).double()
        outputs = present @ slopes + (present[:, 0] != present[:, 1]) * present[:, 2:].sum(1)
        fit = shapley._fit(kept, outputs, None)
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


def test_float64_stays():
    with notices.collect_notices():
        got = kernel_shap(
            Curved(),
            IMAGES.double(),
            TARGETS,
            segmentation=LABELS,
            highest=255,
            generator=seeded(),
        )
    assert got.dtype == torch.float64


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
        GuardWarning, match="of 2 images are not determined .* too few for the super"
    ):
        loud(n_samples=2)
    with notices.collect_notices() as told:
        loud(n_samples=2)
    assert told[-1].images == 0  # nothing is known of their noise


@pytest.mark.filterwarnings("ignore:.*not determined")
def test_it_says_when_the_map_is_mostly_noise():
    with pytest.warns(GuardWarning, match="mostly noise .* take a larger n_samples"):
        loud(segmentation="pixels", n_samples=20)


def test_as_many_samples_as_unknowns_say_nothing_of_their_noise():
    kept = torch.eye(3)[:2].bool()
    fit = shapley._fit(kept, torch.tensor([0.0, 6.0, 1.0, 2.0]).double(), None)
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


def test_it_says_when_nothing_moves_the_output():
    with pytest.warns(GuardWarning, match="of 2 images are zero because no perturbation changes"):
        got = loud(Constant(0.1, 1))
    assert not got.any()
    with pytest.warns(GuardWarning, match="of 2 images are zero because no perturbation"):
        assert not loud(baselines=IMAGES).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_samples": 0}, "kernel-shap: n_samples is 0: take an integer"),
        ({"n_samples": True}, "n_samples is True: take an integer"),
        ({"generator": None}, "generator is of type NoneType: pass a torch.Generator"),
        ({"highest": "x"}, "highest is 'x': take a number above 0"),
        ({"segmentation": "quickshif"}, "did you mean 'quickshift'?"),
    ],
)
def test_bad_settings_are_refused(settings, message, without_shape_checks):
    with pytest.raises(AttributionLabError, match=message):
        loud(**settings)
