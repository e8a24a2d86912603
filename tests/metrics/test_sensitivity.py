"""Sensitivity-N is its definition, for all sizes of subsets at once."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles_metrics as oracles
from attributionlab.metrics import (
    SubsetEffects,
    sensitivity,
    sensitivity_n,
    sensitivity_n_curve,
    subset_effects,
)
from attributionlab.metrics.sensitivity import each_effects

TARGETS = torch.tensor([0, 0])


def additive_model(weights: torch.Tensor) -> nn.Module:
    """The sum of weighted pixels of one channel."""
    linear = nn.Linear(weights.numel(), 1, bias=False)
    linear.weight.data = weights.reshape(1, -1).float()
    return nn.Sequential(nn.Flatten(), linear)


TOTAL = additive_model(torch.ones(12))


@pytest.fixture
def images(generator):
    return torch.randint(0, 9, (2, 1, 3, 4), generator=generator).float()


@pytest.mark.parametrize("measure", ["output", "changed-steps"])
def test_the_curve_is_the_correlations_of_the_shared_subsets(images, generator, measure):
    maps = torch.randn(images.shape, generator=generator)
    settings = {"replacement": 1, "sizes": [1, 3, 7, 12], "draws": 9, "seed": 5, "measure": measure}
    curves = sensitivity_n_curve(TOTAL, images, TARGETS, maps, **settings)
    shared = subset_effects(TOTAL, images, TARGETS, **settings)
    torch.testing.assert_close(curves, shared.correlations(maps), rtol=0, atol=0, equal_nan=True)
    assert curves.shape == (2, 4)
    scores = sensitivity_n(TOTAL, images, TARGETS, maps, **settings)
    assert curves[:, 3].isnan().all()
    # A mean of three float64 values.
    torch.testing.assert_close(scores, curves[:, :3].mean(1), rtol=0, atol=1e-15)


def test_an_image_that_no_subset_changes_is_not_applicable():
    images = torch.zeros(2, 1, 2, 2)
    images[1] = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    scores = sensitivity_n(
        additive_model(torch.ones(4)), images, TARGETS, images + 1, replacement=0, draws=5
    )
    assert scores.tolist() == pytest.approx([math.nan, 1], abs=1e-12, nan_ok=True)


MEASURES = st.sampled_from(["output", "changed-steps"])
BLACK = torch.zeros(1)


def foreign_model(seed: int, channels: int, pixels: int) -> nn.Module:
    """A network that is none of ours, with two outputs and weights that are multiples of 1/4."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(channels, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(2 * pixels, 2)
    )
    for parameter in model.parameters():
        parameter.data = torch.randint(-2, 3, parameter.shape, generator=generator) / 4
    return model.eval()


def by_hand(changes: list[list[float]], orders: list[list[int]], shape: tuple[int, int]):
    """Effects of one image: changes (D, P) at all sizes."""
    return SubsetEffects(
        torch.tensor([orders]),
        torch.arange(1, len(orders[0]) + 1),
        torch.tensor([changes], dtype=torch.float64),
        shape,
    )


def nan_for_none(values):
    return [math.nan if value is None else value for value in values]


@pytest.mark.long
@given(
    st.integers(0, 2**31),
    st.integers(1, 3),
    st.sampled_from([(1, 3), (2, 2), (3, 2)]),
    st.integers(3, 6),
    MEASURES,
)
def test_effects_are_losses_and_counts_of_changes_in_forward_passes(
    seed, channels, shape, draws, measure
):
    generator = torch.Generator().manual_seed(seed)
    pixels = shape[0] * shape[1]
    images = torch.randint(0, 4, (2, channels, *shape), generator=generator).float()
    ends = torch.randint(0, 2, (2, channels, *shape), generator=generator).float()
    targets = torch.randint(0, 2, (2,), generator=generator)
    sizes = sorted({1 + seed % pixels, 1 + seed // 7 % pixels})
    model = foreign_model(seed, channels, pixels)
    effects = subset_effects(
        model,
        images,
        targets,
        replacement=ends,
        sizes=sizes,
        draws=draws,
        seed=seed,
        measure=measure,
    )
    orders = oracles.permutations(2, draws, pixels, seed)
    assert effects.orders.tolist() == orders
    assert effects.sizes.tolist() == sizes
    change = oracles.loss if measure == "output" else oracles.changed_steps
    # Weights on a grid of 1/4 and small integers: sums are exact in whatever order.
    assert effects.changes.tolist() == [
        [
            [change(model, images[i], ends[i], order[:size], int(targets[i])) for size in sizes]
            for order in orders[i]
        ]
        for i in range(2)
    ]


@given(st.integers(0, 2**31), st.integers(3, 8), st.integers(0, 40), st.integers(-20, 20))
def test_correlations_are_pearsons_whatever_offset_and_scale_the_numbers_have(
    seed, draws, offset, exponent
):
    generator = torch.Generator().manual_seed(seed)
    pixels, shape = 6, (2, 3)
    values = torch.randint(-3, 4, (pixels,), generator=generator).double() / 8
    values = (values + (offset > 20) * 2.0**20) * 2.0**exponent  # some maps hardly vary
    changes = torch.randint(-3, 4, (draws, pixels), generator=generator).double() / 8 + 2.0**offset
    orders = [torch.randperm(pixels, generator=generator).tolist() for _ in range(draws)]
    effects = by_hand(changes.tolist(), orders, shape)
    got = effects.correlations(values.reshape(1, 1, *shape))[0].tolist()
    expected = [
        oracles.sensitivity(values.tolist(), changes[:, size - 1].tolist(), orders, size)
        for size in range(1, pixels + 1)
    ]
    # Multiples of 1/8 are summed exactly. Means over at most 8 draws then lose a factor of 8 in each of
    # three differences: 2^-53 * 8^3 < 1e-13.
    assert got == pytest.approx(nan_for_none(expected), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("exponent", [-1060, -1022, -600, -500, 500, 600, 1020])
def test_changes_of_any_magnitude_correlate_as_those_about_1_do(exponent, generator):
    orders = torch.stack([torch.randperm(6, generator=generator) for _ in range(7)])
    changes = torch.randint(-7, 8, (7, 6), generator=generator).double()
    changes[:, 2] = torch.tensor([-1, -2, 0, -4, -3, 0, -7])  # none is above 0
    changes[:, 3] = 5  # says nothing
    maps = torch.randn(1, 1, 2, 3, generator=generator)
    expected = by_hand(changes.tolist(), orders.tolist(), (2, 3)).correlations(maps)
    # Not by torch.ldexp, whose powers are of float32 in torch 2.4.
    scaled = changes * 2.0 ** (exponent // 2) * 2.0 ** (exponent - exponent // 2)
    got = by_hand(scaled.tolist(), orders.tolist(), (2, 3)).correlations(maps)
    assert torch.equal(got.nan_to_num(9), expected.nan_to_num(9))
    changes[:, 1] = scaled[:, 1]  # one size of another magnitude than the others
    got = by_hand(changes.tolist(), orders.tolist(), (2, 3)).correlations(maps)
    assert torch.equal(got.nan_to_num(9), expected.nan_to_num(9))
    assert got.isnan().tolist() == [[False, False, False, True, False, True]]


def test_equal_changes_say_nothing_equal_sums_explain_nothing_and_all_pixels_are_one_subset():
    orders = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    changes = [[5.0, 1.0, 0.0], [5.0, 2.0, 1.0], [5.0, 3.0, 2.0]]
    effects = by_hand(changes, orders, (1, 3))
    constant = torch.ones(1, 1, 1, 3)
    assert effects.correlations(constant)[0].tolist() == pytest.approx(
        [math.nan, 0, math.nan], abs=0, nan_ok=True
    )
    assert effects.correlations(0 * constant)[0].tolist() == pytest.approx(
        [math.nan, 0, math.nan], abs=0, nan_ok=True
    )


def test_one_set_of_pixels_has_one_sum_in_whatever_order():
    values = torch.tensor([[[[0.1, 0.2, 0.3, 0.0]]]], dtype=torch.float64)
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1  # rounded, the sums would differ
    orders = [[0, 1, 2, 3], [2, 1, 0, 3], [1, 0, 2, 3]]
    effects = by_hand([[0.0, 0.0, change, 0.0] for change in (1.0, 2.0, 4.0)], orders, (1, 4))
    assert effects.correlations(values)[0, 2] == 0


def test_sums_do_not_overflow_however_large_they_are_and_however_far_apart():
    pixels = 63 * 65  # one less than a power of two
    values = torch.full((pixels,), 1 - 2.0**-24, dtype=torch.float64)
    values[: pixels // 2] *= -1
    values[-1] = 2.0**-40
    lowest_first = torch.arange(pixels)
    orders = torch.stack([lowest_first, lowest_first.flip(0), lowest_first.roll(1000)])
    sizes = torch.tensor([1, pixels // 2, pixels - 1])
    sums = values[orders].cumsum(1)[:, sizes - 1]
    effects = SubsetEffects(orders[None], sizes, sums[None], (63, 65))
    maps = values.reshape(1, 1, 63, 65)
    for factor in (1.0, -1.0, 2.0**-1000, 2.0**1000):
        got = effects.correlations(factor * maps)
        # The smallest value is 16 steps of 2^-44; sums of 4095 float64 values.
        expected = torch.full_like(got, 1 if factor > 0 else -1)
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-9)
    mostly_negative = torch.where(values > 0, 2.0**-40, values)
    sums = mostly_negative[orders].cumsum(1)[:, sizes - 1]
    effects = SubsetEffects(orders[None], sizes, sums[None], (63, 65))
    got = effects.correlations(mostly_negative.reshape(1, 1, 63, 65))
    torch.testing.assert_close(got, torch.ones_like(got), rtol=0, atol=1e-9)


def test_no_correlation_exceeds_1(generator):
    for _ in range(50):
        values = torch.rand(30, generator=generator, dtype=torch.float64)
        orders = torch.stack([torch.randperm(30, generator=generator) for _ in range(5)])
        changes = values[orders].cumsum(1)
        effects = SubsetEffects(orders[None], torch.arange(1, 31), changes[None], (5, 6))
        correlations = effects.correlations(values.reshape(1, 1, 5, 6))[0, :-1]
        assert correlations.max() <= 1
        assert correlations.min() > 1 - 1e-12  # five values: 2^-53 * 5^3, and sums of 30


def test_losses_are_not_rounded_to_the_models_precision():
    model, image = additive_model(torch.tensor([1.0, 2.0**-30])), torch.ones(1, 1, 1, 2)
    effects = subset_effects(model, image, torch.tensor([0]), replacement=BLACK, sizes=[1], draws=9)
    assert set(effects.changes.flatten().tolist()) == {0, 1 - 2.0**-30}


def test_the_truth_correlates_fully_with_changed_steps_of_a_count_that_wraps_and_not_with_its_loss():
    env = al.load("single-color-modulo", image_size=24)
    images, _ = env.batch(2)
    targets = torch.zeros(2, dtype=torch.long)
    maps = env.truth(images, targets).overall.float()
    settings = {"replacement": env.baseline, "draws": 100}
    model = env.explained_model("logit")
    steps = subset_effects(model, images, targets, **settings, measure="changed-steps")
    curves = steps.correlations(maps)
    assert (curves[~curves.isnan()] == 1).all()
    assert not curves[:, 2:-3].isnan().any()
    losses = subset_effects(model, images, targets, **settings)
    assert losses.correlations(maps).nanmean(1)[0] < 0.9  # the other image has less than 30 pixels


def test_sizes_pick_from_all_sizes_and_draws_depend_on_the_seed_alone():
    model, image = foreign_model(0, 1, 9), torch.arange(9.0).reshape(1, 1, 3, 3)
    target = torch.tensor([1])
    full = subset_effects(model, image, target, replacement=BLACK, draws=5, seed=3)
    assert full.sizes.tolist() == list(range(1, 10))
    assert len({tuple(order) for order in full.orders[0].tolist()}) == 5
    for sizes in ([2, 5, 9], range(1, 6), [7]):
        some = subset_effects(model, image, target, replacement=BLACK, sizes=sizes, draws=5, seed=3)
        assert torch.equal(some.orders, full.orders)
        assert torch.equal(some.changes, full.changes[..., torch.tensor(sizes) - 1])
    state = torch.random.get_rng_state()
    other = subset_effects(model, image, target, replacement=BLACK, draws=5, seed=4)
    assert not torch.equal(other.orders, full.orders)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("measure", ["output", "changed-steps"])
def test_neither_images_one_by_one_nor_few_draws_at_a_time_change_the_effects(measure, monkeypatch):
    model = foreign_model(5, 1, 6)
    images = torch.arange(18.0).reshape(3, 1, 2, 3)
    targets = torch.tensor([0, 1, 0])
    settings = {"replacement": BLACK, "draws": 4, "measure": measure}
    together = subset_effects(model, images, targets, **settings)
    counted, trajectories = [], sensitivity.trajectories

    def counting(model, images, ends, orders, counts):
        counted.append(orders.shape[1])
        return trajectories(model, images, ends, orders, counts=counts)

    monkeypatch.setattr(sensitivity, "trajectories", counting)
    monkeypatch.setattr(sensitivity, "OUTPUTS_AT_ONCE", 3 * 7)  # three draws of 0 to 6 pixels
    for i, one in enumerate(each_effects(model, images, targets, **settings)):
        assert torch.equal(one.orders[0], together.orders[i])
        assert torch.equal(one.changes[0], together.changes[i])
        assert one.shape == together.shape == (2, 3)
    assert counted == [3, 1] * 3
