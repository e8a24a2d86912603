"""Insertion, Deletion and Pixel Flipping are their definitions and reach the values known for them."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles_metrics
from attributionlab.metrics import (
    deletion,
    deletion_curve,
    insertion,
    insertion_curve,
    pixel_flipping,
)


class Foreign(nn.Module):
    """A network of no kind that the package builds: smooth, with a skip connection and a norm."""

    def __init__(self, seed=0):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.first = nn.Conv2d(2, 4, 3, padding=1)
            self.second = nn.Conv2d(4, 4, 3, padding=1)
            self.norm = nn.BatchNorm2d(4)
            self.head = nn.Linear(4, 3)
        self.eval()

    def forward(self, x):
        x = torch.tanh(self.first(x))
        x = x + self.norm(self.second(x))
        return self.head(x.mean((2, 3))).softmax(1)


def case_of(seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(2, 2, 4, 3, generator=generator)
    canvases = torch.rand(2, 2, 4, 3, generator=generator)
    targets = torch.randint(0, 3, (2,), generator=generator)
    maps = torch.randint(-2, 3, (2, 1, 4, 3), generator=generator).float()  # with ties
    return images, canvases, targets, maps


# Probabilities in float32 of the same image, alone and in a batch, after four layers with sums of at
# most 36 terms of magnitude below 1: 4 * 36 * 2^-24 < 1e-5. Means and areas over [0, 1] keep the bound.
CLOSE = 1e-5


@pytest.mark.long
@settings(max_examples=25)
@given(st.integers(0, 2**31), st.sampled_from(["morf", "lerf"]), st.integers(1, 13))
def test_curves_and_scores_of_any_model_are_their_definitions(seed, order, step):
    model = Foreign(seed)
    images, canvases, targets, maps = case_of(seed)
    arguments = (model, images, targets, maps)
    chosen = {"replacement": canvases, "order": order, "step": step}
    kept = oracles_metrics.kept_steps(12, step)
    places = [count / 12 for count in kept]
    removed, inserted = (
        deletion_curve(*arguments, **chosen),
        insertion_curve(*arguments, **chosen),
    )
    areas = deletion(*arguments, **chosen), insertion(*arguments, **chosen)
    drops = pixel_flipping(*arguments, **chosen)
    for i, (image, canvas, target) in enumerate(zip(images, canvases, targets, strict=True)):
        taken = oracles_metrics.removal_order(maps[i].flatten().tolist(), order == "morf")
        for curves, area, ends in (
            (removed, areas[0], (image, canvas)),
            (inserted, areas[1], (canvas, image)),
        ):
            outputs = oracles_metrics.outputs_along(model, *ends, taken, int(target))
            expected = [outputs[count] for count in kept]
            assert curves[i].tolist() == pytest.approx(expected, abs=CLOSE)
            assert float(area[i]) == pytest.approx(
                oracles_metrics.area(expected, places), abs=CLOSE
            )
            if curves is removed:
                assert float(drops[i]) == pytest.approx(
                    oracles_metrics.aopc(expected), abs=2 * CLOSE
                )


@pytest.fixture(scope="module")
def modulo():
    """A count mod 30 of white pixels, its images and the truth."""
    env = al.load("single-color-modulo", image_size=24)
    images, labels = env.batch(4)
    truth = env.truth(images, env.targets(labels))
    return env, images, env.targets(labels), truth.overall


def white_share(truth):
    return truth.double().mean((1, 2, 3))


# Sums of 577 float64 numbers up to 1, divided by their count: 577 * 2^-53 * 2 < 2e-13.
EXACT = 2e-13


def test_the_best_areas_of_changed_steps_are_half_the_white_share_and_one_minus_it(modulo):
    # Table 4's 0.0246 and 0.9754: trapezoids at every pixel follow the broken line exactly.
    env, images, targets, truth = modulo
    chosen = {"replacement": env.baseline, "measure": "changed-steps"}
    best = truth.float()
    share = white_share(truth)
    assert (share > 0).all()
    assert len(share.unique()) > 1
    low = deletion(env.model, images, targets, best, **chosen)
    high = insertion(env.model, images, targets, best, **chosen)
    torch.testing.assert_close(low, share / 2, atol=EXACT, rtol=0)
    torch.testing.assert_close(high, 1 - share / 2, atol=EXACT, rtol=0)
    worst = deletion(env.model, images, targets, -best, **chosen)
    torch.testing.assert_close(worst, 1 - share / 2, atol=EXACT, rtol=0)


def test_areas_of_changed_steps_are_the_mean_places_of_white_pixels(modulo, generator):
    # A pixel that comes after c others holds the curve up over c + 1/2 of P steps.
    env, images, targets, truth = modulo
    maps = torch.randn(truth.shape, generator=generator)
    chosen = {"replacement": 0, "measure": "changed-steps"}
    pixels = truth[0].numel()
    places = maps.flatten(1).argsort(1, descending=True).argsort(1).double()
    expected = torch.stack(
        [
            (place[mask].mean() + 0.5) / pixels
            for place, mask in zip(places, truth.flatten(1), strict=True)
        ]
    )
    removed = deletion(env.model, images, targets, maps, **chosen)
    inserted = insertion(env.model, images, targets, maps, **chosen)
    torch.testing.assert_close(removed, expected, atol=EXACT, rtol=0)
    torch.testing.assert_close(inserted, 1 - expected, atol=EXACT, rtol=0)
    # Means of n places of P, drawn without repetition: variance (1 - n/P) / 12 n.
    white = truth.sum((1, 2, 3)).double()
    deviation = ((1 - white / pixels) / (12 * white)).sqrt()
    assert ((removed - 0.5).abs() < 4 * deviation).all()


def test_the_output_itself_misleads_where_a_count_wraps(modulo):
    # Why F.4 adapts the metric: a sawtooth has about the same area in any order of its teeth.
    env, images, targets, truth = modulo
    plain = deletion_curve(env.model, images, targets, truth.float(), replacement=0)
    white = int(truth[0].sum())
    assert plain[0, : white + 1].tolist() == [count % 30 for count in range(white, -1, -1)]


def test_an_image_that_no_step_changes_is_not_applicable_under_changed_steps(modulo):
    env, images, targets, _ = modulo
    black, maps = torch.zeros_like(images), torch.zeros(len(images), 1, 24, 24)
    for function in (deletion, insertion, pixel_flipping):
        scores = function(env.model, black, targets, maps, replacement=0, measure="changed-steps")
        assert scores.isnan().all()


def permutation_maps(pixels):
    return torch.tensor(list(itertools.permutations(range(pixels)))).double()[:, None, None]


def test_no_order_beats_the_exact_contributions_to_a_sum():
    effects = torch.tensor([3.0, -1.0, 0.0, 2.0, -2.0])
    model = nn.Sequential(nn.Flatten(), nn.Linear(5, 1, bias=False))
    model[1].weight.data = effects[None]
    maps = permutation_maps(5)
    images, targets = torch.ones(len(maps), 1, 1, 5), torch.zeros(len(maps), dtype=torch.int64)
    truth = effects.reshape(1, 1, 1, 5)
    one = (model, images[:1], targets[:1], truth)
    every = (model, images, targets, maps)
    for function, best in ((deletion, "min"), (insertion, "max"), (pixel_flipping, "max")):
        wanted = float(getattr(function(*every, replacement=0), best)())
        # Means of at most six integers of sizes up to 5: fewer than 12 roundings of sums up to 30.
        found = float(function(*one, replacement=0))
        assert found == pytest.approx(wanted, rel=0, abs=12 * 30 * 2.0**-53)


def test_of_a_softmax_of_counts_no_order_beats_target_then_background_then_the_rarest_others():
    class Counts(nn.Module):
        """Counts of the values 1 (the target), 2 and 3."""

        def forward(self, x):
            return torch.stack([(x == color).double().sum((1, 2, 3)) for color in (1, 2, 3)], 1)

    model = nn.Sequential(Counts(), nn.Softmax(1))
    image = torch.tensor([1.0, 1.0, 2.0, 3.0, 3.0, 0.0])
    best = torch.tensor([2.0, 2.0, 0.0, -1.0, -1.0, 1.0]).reshape(1, 1, 1, 6)
    maps = permutation_maps(6)
    images, targets = image.expand(len(maps), 1, 1, 6), torch.zeros(len(maps), dtype=torch.int64)
    every = deletion(model, images, targets, maps, replacement=0)
    # Outputs in float64; six of them are added.
    assert deletion(model, images[:1], targets[:1], best, replacement=0) <= every.min() + 1e-14
    signed = best.sign() * torch.tensor([1, 1, 1, 1, 1, 0])
    assert deletion(model, images[:1], targets[:1], signed, replacement=0) < every.mean()


def test_the_least_relevant_first_is_the_most_relevant_first_of_the_negated_map():
    images, canvases, targets, maps = case_of(5)
    model = Foreign()
    for function in (deletion, insertion, pixel_flipping):
        lerf = function(model, images, targets, maps, replacement=canvases, order="lerf")
        morf = function(model, images, targets, -maps, replacement=canvases)
        assert torch.equal(lerf, morf)


def test_random_ties_are_those_of_the_generator():
    images, canvases, targets, maps = case_of(9)
    for function in (deletion, insertion, pixel_flipping):
        first, again, other = (
            function(
                *(Foreign(), images, targets, 0 * maps),
                replacement=canvases,
                ties="random",
                generator=torch.Generator().manual_seed(seed),
            )
            for seed in (1, 1, 2)
        )
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
