"""Orders take pixels as they are defined to, shuffled or not, and isolation counts their neighbors."""

from collections import Counter
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import oracles_metrics
import oracles_unified as oracles
from attributionlab import metrics

# Few distinct values, so that most maps have ties; two zeros, infinities, neighbors in float64.
VALUES = st.sampled_from([-np.inf, -2.0, -0.0, 0.0, 0.0, 1.0, 1.0 + 2**-52, 3.0, np.inf])
MAPS = hnp.arrays(np.float64, hnp.array_shapes(min_dims=3, max_dims=3, max_side=4), elements=VALUES)


@given(MAPS, st.sampled_from(["morf", "lerf"]))
def test_the_order_takes_the_largest_or_smallest_value_left_and_the_first_of_equals(maps, order):
    got = metrics.removal_order(torch.from_numpy(maps)[:, None], order=order)
    expected = [oracles_metrics.removal_order(list(map_.flat), order == "morf") for map_ in maps]
    assert got.tolist() == expected
    assert got.dtype == torch.int64


@given(MAPS, st.sampled_from(["morf", "lerf"]), st.integers(0, 2**31))
def test_a_random_order_shuffles_nothing_but_ties(maps, order, seed):
    attributions = torch.from_numpy(maps)[:, None]
    generator = torch.Generator().manual_seed(seed)
    shuffled = metrics.removal_order(attributions, order=order, ties="random", generator=generator)
    stable = metrics.removal_order(attributions, order=order)
    flat = attributions.flatten(1)
    assert torch.equal(flat.gather(1, shuffled), flat.gather(1, stable))
    assert torch.equal(shuffled.sort(1).values, torch.arange(flat.shape[1]).expand_as(flat))


def test_random_ties_come_from_the_generator_alone_and_differ_between_images(generator):
    constant = torch.zeros(2, 1, 8, 8)
    before = torch.get_rng_state()
    first = metrics.removal_order(constant, ties="random", generator=generator)
    second = metrics.removal_order(constant, ties="random", generator=generator)
    again = metrics.removal_order(
        constant, ties="random", generator=torch.Generator().manual_seed(0)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(first[0], first[1])


def test_every_order_of_tied_pixels_is_equally_likely(generator):
    maps = torch.tensor([[[[5.0, 1.0, 1.0, 1.0]]]]).expand(6000, 1, 1, 4)
    orders = metrics.removal_order(maps, ties="random", generator=generator)
    assert (orders[:, 0] == 0).all()
    counts = torch.unique(orders, dim=0, return_counts=True)[1]
    assert len(counts) == 6
    # 1000 expected of each of the 3! orders, standard deviation sqrt(6000 * 1/6 * 5/6) = 29.
    assert (counts - 1000).abs().max() < 4 * 29


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.int64])
def test_attributions_may_have_any_real_type(dtype):
    maps = torch.tensor([[[[1, -2], [3, 1]]]]).to(dtype)
    assert metrics.removal_order(maps).tolist() == [[2, 0, 3, 1]]


def test_ties_stay_in_reading_order_in_maps_as_large_as_images(generator):
    # Unstable sorts leave short arrays stable by accident, not 50,176 values.
    maps = torch.randint(-3, 4, (1, 1, 224, 224), generator=generator).float()
    for order in ("morf", "lerf"):
        expected = maps.flatten(1).sort(dim=1, descending=order == "morf", stable=True).indices
        assert torch.equal(metrics.removal_order(maps, order=order), expected)


ORDERS = torch.tensor([[5, 3, 1, 0, 2, 4], [0, 1, 2, 3, 4, 5]])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("reference", range(7))
def test_the_reference_keeps_its_pixels_and_all_others_keep_their_places(reference):
    before = ORDERS.clone()
    shuffled = metrics.reference_order(ORDERS, reference, seeded())
    assert shuffled.dtype == torch.int64
    assert torch.equal(ORDERS, before)
    assert torch.equal(shuffled[:, reference:], ORDERS[:, reference:])
    for row, order in zip(shuffled, ORDERS, strict=True):
        assert sorted(row[:reference].tolist()) == sorted(order[:reference].tolist())
    if reference <= 1:
        assert torch.equal(shuffled, ORDERS)


def test_every_order_of_the_reference_comes_as_often_as_any_other():
    draws = 6000
    orders = torch.arange(5).expand(draws, 5)
    found = Counter(tuple(row[:3].tolist()) for row in metrics.reference_order(orders, 3, seeded()))
    assert set(found) == set(permutations(range(3)))
    # 1,000 of each are expected, with a standard deviation of sqrt(6000 * 5 / 36) = 29; 5 of them.
    assert all(abs(count - draws / 6) < 145 for count in found.values())


def test_images_are_shuffled_each_in_its_own_way_and_a_seed_repeats_all():
    orders = torch.arange(64).expand(2, 64)
    first, second = metrics.reference_order(orders, 64, seeded())
    assert not torch.equal(first, second)
    assert torch.equal(metrics.reference_order(orders, 64, seeded()), torch.stack([first, second]))
    assert not torch.equal(metrics.reference_order(orders, 64, seeded(1))[0], first)


@given(st.sets(st.integers(0, 8), min_size=1), st.sets(st.integers(0, 8), min_size=1))
def test_dice_is_its_definition(first, second):
    found = metrics.dice(torch.tensor(sorted(first)), torch.tensor(sorted(second)))
    assert found == oracles.dice(first, second)
    assert isinstance(found, Fraction)


def test_two_empty_sets_are_the_same():
    empty = torch.zeros(0, dtype=torch.int64)
    assert metrics.dice(empty, empty) == 1
    assert metrics.dice(empty, torch.tensor([1])) == 0


def test_the_expected_similarity_is_the_mean_over_all_subsets_exactly():
    for reference in range(1, 8):
        for masked in range(1, reference + 1):
            assert metrics.expected_dice(masked, reference) == oracles.mean_dice(masked, reference)


SIZES = st.tuples(st.integers(1, 4), st.integers(1, 4)).filter(lambda size: size != (1, 1))


def isolation(order, height, width, neighbors, n):
    """As the definition reads: one removed pixel after the other, one neighbor after the other."""
    removed = set(order[:n])
    shares = []
    for pixel in removed:
        row, column = divmod(pixel, width)
        around = [
            y * width + x
            for y in range(height)
            for x in range(width)
            if (abs(y - row) + abs(x - column) == 1)
            or (neighbors == 8 and abs(y - row) == 1 and abs(x - column) == 1)
        ]
        shares.append(Fraction(sum(other not in removed for other in around), len(around)))
    return sum(shares, Fraction(0)) / n


@settings(max_examples=40)
@given(SIZES, st.sampled_from([4, 8]), st.randoms(use_true_random=False))
def test_isolation_is_the_mean_share_of_neighbors_that_are_left(size, neighbors, random):
    pixels = list(range(size[0] * size[1]))
    orders = [random.sample(pixels, len(pixels)) for _ in range(2)]
    got = metrics.pixel_isolation(torch.tensor(orders), size, neighbors=neighbors)
    assert got[:, 0].isnan().all()
    expected = [
        [float(isolation(order, *size, neighbors, n)) for n in range(1, len(pixels) + 1)]
        for order in orders
    ]
    assert got[:, 1:].tolist() == expected  # sums of integers, and one correctly rounded division


def test_counts_choose_among_all_numbers_of_removed_pixels():
    orders = torch.stack([torch.randperm(20, generator=torch.Generator().manual_seed(0))] * 2)
    every = metrics.pixel_isolation(orders, (4, 5))
    assert torch.equal(metrics.pixel_isolation(orders, (4, 5), counts=[3, 20]), every[:, [3, 20]])
    assert every[:, 20].tolist() == [0, 0]
