"""Accumulators: kernel chains, exact sums, redundant weights, the grid of the weights."""

import re
from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attributionlab.base import AttributionLabError
from attributionlab.worlds import nets
from cases import SIZES
from oracles import coverage, total


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def binary_images(side: int, channels: int, fills=(0.1, 0.5, 1.0)) -> torch.Tensor:
    """(fills, channels, side, side) of 0 and 1."""
    draws = torch.rand(len(fills), channels, side, side, generator=seeded(side))
    return (draws < torch.tensor(fills)[:, None, None, None]).float()


def make(weights: str, side: int, channels: int = 1, seed: int = 0, redundant=None):
    if weights == "uniform":
        return nets.uniform_accumulator(side, channels, redundant)
    return nets.nonuniform_accumulator(side, channels, seeded(seed), redundant)


def convolutions(accumulator) -> list[nn.Conv2d]:
    return [module for module in accumulator.module if isinstance(module, nn.Conv2d)]


def blocks(accumulator) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(w, m) of each block of a non-uniform accumulator: (3C, C, 3, 3) and (C, 3C)."""
    weights = [layer.weight.detach() for layer in convolutions(accumulator)]
    assert len(weights) % 2 == 0
    return [(w, m[:, :, 0, 0]) for w, m in zip(weights[::2], weights[1::2], strict=True)]


# The kernel chain


@pytest.mark.parametrize("first", range(8, 1025, 113))
def test_the_chain_covers_each_pixel_of_every_image_size_exactly_once(first):
    for image_size in range(first, min(first + 113, 1025)):
        side = image_size
        for next_side, stride, padding in nets.kernel_chain(image_size):
            assert 0 <= padding <= 2
            # the size that a convolution makes: positions of its kernel on the padded map
            assert next_side == (side + 2 * padding - 3) // stride + 1
            assert coverage(side, next_side, stride, padding) == [1] * side
            side = next_side
        assert side == 1


def test_the_chain_at_224_is_that_of_the_paper():
    assert nets.kernel_chain(224) == [(75, 3, 1), (25, 3, 0), (9, 3, 2), (3, 3, 0), (1, 1, 0)]


# Sums


@given(st.integers(8, 60), st.integers(0, 2**31), st.integers(1, 3))
@pytest.mark.parametrize("weights", ["uniform", "nonuniform"])
def test_sums_are_exact_for_any_size_and_seed(weights, side, seed, channels):
    images = binary_images(side, channels, fills=(0.5, 1.0))
    sums = make(weights, side, channels, seed).module(images)
    assert sums.shape == (2, channels, 1, 1)
    assert sums.flatten(1).tolist() == [[total(c[None]) for c in image] for image in images]


# The weights


@pytest.mark.parametrize("side", [8, 73, 224, 1024])
def test_the_products_of_a_block_sum_to_1_exactly_at_every_position(side):
    for w, m in blocks(make("nonuniform", side, channels=2)):
        products = torch.einsum("ok,kiyx->oiyx", m.double(), w.double())
        ones_on_own_channel = torch.eye(2)[:, :, None, None].expand(2, 2, 3, 3)
        assert torch.equal(products, ones_on_own_channel.double())


def test_the_weights_of_a_block_are_not_negative():
    for w, m in blocks(make("nonuniform", 224, channels=2)):
        assert float(w.min()) >= 0
        assert float(m.min()) >= 0


def test_the_weights_of_a_block_are_not_uniform():
    for w, m in blocks(make("nonuniform", 224, channels=4)):
        kernels = [w[3 * c + k, c].flatten().tolist() for c in range(4) for k in range(3)]
        assert all(len(set(kernel)) > 3 for kernel in kernels)
        assert len({tuple(kernel) for kernel in kernels}) == len(kernels)
        assert {float(value) for value in m[m != 0]} == {0.5, 1.0, 2.0}


def test_the_seed_alone_determines_the_weights_of_both_layers_of_a_block():
    def weights(seed: int) -> list[list[float]]:
        layers = convolutions(make("nonuniform", 100, channels=2, seed=seed))
        return [layer.weight.flatten().tolist() for layer in layers]

    assert weights(3) == weights(3)
    assert all(one != other for one, other in zip(weights(3), weights(4), strict=True))


def test_uniform_kernels_are_ones():
    for layer in convolutions(make("uniform", 100)):
        assert torch.equal(layer.weight, torch.ones(1, 1, 3, 3))


# Redundant channels


@pytest.mark.parametrize("strength", [0.25, 1.0, 2.5, 4.0])
def test_redundant_weights_are_signed_quarters_up_to_the_strength(strength):
    weights = nets.redundant_weights(4, 3, strength, seeded(0))
    assert weights.shape == (4, 3, 3, 3)
    magnitudes = set(weights.abs().flatten().tolist())
    assert magnitudes == {0.25 * k for k in range(1, int(4 * strength) + 1)}
    assert (weights > 0).any()
    assert (weights < 0).any()


def test_a_stronger_dose_keeps_the_signs_and_weakens_no_weight():
    doses = [nets.redundant_weights(4, 2, strength / 4, seeded(5)) for strength in range(1, 17)]
    for weaker, stronger in pairwise(doses):
        assert torch.equal(weaker.sign(), stronger.sign())
        assert bool((stronger.abs() >= weaker.abs()).all())
    assert float(doses[-1].abs().sum()) > 4 * float(doses[0].abs().sum())


@pytest.mark.parametrize("weights", ["uniform", "nonuniform"])
def test_redundant_channels_enter_the_first_sum_and_nothing_else(weights):
    redundant = nets.redundant_weights(2, 2, 1.0, seeded(0))
    accumulator = make(weights, 10, channels=2, redundant=redundant)
    first = convolutions(accumulator)[0]
    assert torch.equal(first.weight[:, 2:], redundant)
    counted = torch.eye(2)[:, :, None, None].expand(2, 2, 3, 3)
    assert torch.equal(first.weight[:, :2], counted)
    assert all(layer.in_channels % 2 == 0 for layer in convolutions(accumulator)[1:])

    # Behind the first ReLU all is added up: 10 pixels and padding 2 make 4 tiles a side.
    images = binary_images(10, channels=4)
    padded = nn.functional.pad(images, (2, 2, 2, 2))
    answers = accumulator.module(images)[:, :, 0, 0].tolist()
    for image, sums in zip(padded, answers, strict=True):
        for channel in range(2):
            expected = 0.0
            for y in range(0, 12, 3):
                for x in range(0, 12, 3):
                    tile = image[:, y : y + 3, x : x + 3]
                    disturbance = float((tile[2:] * redundant[channel]).sum())
                    expected += max(0.0, float(tile[channel].sum()) + disturbance)
            assert sums[channel] == expected


# The grid of the weights


def grid_of(accumulator) -> Fraction:
    """The power of two on which all products of a block lie: what their denominators say."""
    largest = 1
    for w, m in blocks(accumulator):
        for value in (m.sum(0)[:, None] * w.sum(1).flatten(1)).flatten().tolist():
            largest = max(largest, Fraction(value).denominator)
    return Fraction(1, largest)


# A sum over the whole image of multiples of 2^-e needs side^2 2^e <= 2^24 steps.
@pytest.mark.parametrize(
    ("side", "exponent"), [(8, 6), (224, 6), (512, 6), (513, 5), (724, 5), (725, 4), (1024, 4)]
)
def test_the_grid_is_as_fine_as_the_budget_allows(side, exponent):
    accumulator = make("nonuniform", side)
    assert grid_of(accumulator) == Fraction(1, 2**exponent)
    assert max(budget.steps for budget in accumulator.budgets) == side**2 * 2**exponent
    assert max(budget.steps for budget in accumulator.budgets) <= 2**24


def test_stronger_redundant_channels_coarsen_the_grid():
    redundant = nets.redundant_weights(1, 4, 4.0, seeded(0))
    # per pixel at most sum |w|, in quarters: 224^2 sum|w| 4 2^e <= 2^24
    steps = 224**2 * float(redundant.abs().sum(1).max()) * 4
    accumulator = make("nonuniform", 224, redundant=redundant)
    tightest = max(budget.steps for budget in accumulator.budgets)
    assert tightest <= 2**24 < 2 * tightest
    assert steps * 64 > 2**24


def test_what_even_halves_cannot_hold_is_refused_with_the_remedies():
    redundant = torch.full((1, 8, 3, 3), 4.25)
    # The sixth step is the first that covers too many pixels: 9^6, of 34 each, on halves of quarters.
    message = (
        f"accumulator layer 10 needs {9**6 * 34 * 8:,} grid steps, float32 is exact up to "
        "16,777,216: take a smaller image_size, fewer or weaker redundant channels, or the "
        "uniform accumulator"
    )
    with pytest.raises(AttributionLabError, match=re.escape(message)):
        make("nonuniform", 1024, redundant=redundant)


def test_the_uniform_accumulator_holds_more_and_refuses_too():
    held = torch.full((1, 2, 3, 3), 1.25)  # 2^20 * 2.5 * 4 < 2^24
    with pytest.raises(AttributionLabError, match="accumulator layer"):
        make("nonuniform", 1024, redundant=held)
    assert max(budget.steps for budget in make("uniform", 1024, redundant=held).budgets) <= 2**24
    message = f"accumulator layer 6 needs {int(9**6 * 8.5 * 4):,} grid steps"
    with pytest.raises(AttributionLabError, match=message):
        make("uniform", 1024, redundant=torch.full((1, 2, 3, 3), 4.25))


def test_the_budget_of_a_block_is_in_the_units_of_its_kernels():
    # Divided by m = 1/2, the kernels of some channel see more on nine white pixels than nine.
    accumulator = make("nonuniform", 9, channels=256)
    largest = float(blocks(accumulator)[0][0].sum((1, 2, 3)).max())
    assert 9 < largest <= accumulator.budgets[0].largest_sum == 18


# Where map-based methods attach


@pytest.mark.parametrize("side", SIZES)
@pytest.mark.parametrize("hidden", [False, True])
def test_methods_attach_to_maps_that_are_larger_than_a_pixel(side, hidden):
    accumulator = make("nonuniform", side)
    for depth in (2, 3):
        layer = nets.layer_at(accumulator.levels, depth, hidden)
        shapes = []
        handle = layer.register_forward_hook(lambda m, i, o, seen=shapes: seen.append(o.shape))
        accumulator.module(torch.zeros(1, 1, side, side))
        handle.remove()
        assert len(shapes) == 1
        assert shapes[0][2] == shapes[0][3] > 1
        assert shapes[0][1] == (3 if hidden else 1)
