"""Pixels are ordered by falling or rising attribution, ties in reading order or shuffled."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import oracles_metrics
from attributionlab import AttributionLabError
from attributionlab.metrics.orders import removal_order

# Few distinct values, so that most maps have ties; two zeros, infinities, neighbors in float64.
VALUES = st.sampled_from([-np.inf, -2.0, -0.0, 0.0, 0.0, 1.0, 1.0 + 2**-52, 3.0, np.inf])
MAPS = hnp.arrays(np.float64, hnp.array_shapes(min_dims=3, max_dims=3, max_side=4), elements=VALUES)


@given(MAPS, st.sampled_from(["morf", "lerf"]))
def test_the_order_takes_the_largest_or_smallest_value_left_and_the_first_of_equals(maps, order):
    got = removal_order(torch.from_numpy(maps)[:, None], order=order)
    expected = [oracles_metrics.removal_order(list(map_.flat), order == "morf") for map_ in maps]
    assert got.tolist() == expected
    assert got.dtype == torch.int64


@given(MAPS, st.sampled_from(["morf", "lerf"]), st.integers(0, 2**31))
def test_a_random_order_shuffles_nothing_but_ties(maps, order, seed):
    attributions = torch.from_numpy(maps)[:, None]
    generator = torch.Generator().manual_seed(seed)
    shuffled = removal_order(attributions, order=order, ties="random", generator=generator)
    stable = removal_order(attributions, order=order)
    flat = attributions.flatten(1)
    assert torch.equal(flat.gather(1, shuffled), flat.gather(1, stable))
    assert torch.equal(shuffled.sort(1).values, torch.arange(flat.shape[1]).expand_as(flat))


def test_random_ties_come_from_the_generator_alone_and_differ_between_images(generator):
    constant = torch.zeros(2, 1, 8, 8)
    before = torch.get_rng_state()
    first = removal_order(constant, ties="random", generator=generator)
    second = removal_order(constant, ties="random", generator=generator)
    again = removal_order(constant, ties="random", generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(first[0], first[1])


def test_every_order_of_tied_pixels_is_equally_likely(generator):
    maps = torch.tensor([[[[5.0, 1.0, 1.0, 1.0]]]]).expand(6000, 1, 1, 4)
    orders = removal_order(maps, ties="random", generator=generator)
    assert (orders[:, 0] == 0).all()
    counts = torch.unique(orders, dim=0, return_counts=True)[1]
    assert len(counts) == 6
    # 1000 expected of each of the 3! orders, standard deviation sqrt(6000 * 1/6 * 5/6) = 29.
    assert (counts - 1000).abs().max() < 4 * 29


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.int64])
def test_attributions_may_have_any_real_type(dtype):
    maps = torch.tensor([[[[1, -2], [3, 1]]]]).to(dtype)
    assert removal_order(maps).tolist() == [[2, 0, 3, 1]]


def test_infinite_values_have_their_place_and_equal_ones_reading_order():
    infinity = float("inf")
    maps = torch.tensor([[[[1.0, -infinity, infinity], [infinity, -infinity, 2.0]]]])
    assert removal_order(maps).tolist() == [[2, 3, 5, 0, 1, 4]]
    assert removal_order(maps, order="lerf").tolist() == [[1, 4, 0, 5, 2, 3]]


def test_attributions_that_require_a_gradient_are_ordered_like_others():
    assert removal_order(torch.ones(1, 1, 1, 2, requires_grad=True)).tolist() == [[0, 1]]


def test_ties_stay_in_reading_order_in_maps_as_large_as_images(generator):
    # Unstable sorts leave short arrays stable by accident, not 50,176 values.
    maps = torch.randint(-3, 4, (1, 1, 224, 224), generator=generator).float()
    for order in ("morf", "lerf"):
        expected = maps.flatten(1).sort(dim=1, descending=order == "morf", stable=True).indices
        assert torch.equal(removal_order(maps, order=order), expected)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("maps", "settings", "message"),
    [
        (torch.zeros(1, 1, 2, 2), {"order": "MoRF"}, "order is 'MoRF': take 'morf' or 'lerf'"),
        (torch.zeros(1, 1, 2, 2), {"ties": "first"}, "ties is 'first': take 'stable' or 'random'"),
        (
            torch.zeros(1, 1, 2, 2),
            {"ties": "random"},
            r"ties='random' with None for a generator: pass torch.Generator\(\).manual_seed\(0\)",
        ),
        (
            torch.zeros(1, 1, 2, 2),
            {"ties": "random", "generator": 0},
            r"ties='random' with 0 for a generator",
        ),
        (None, {}, "attributions are of type NoneType: pass a tensor"),
        ([[[[1.0]]]], {}, "attributions are of type list: pass a tensor"),
        (np.zeros((1, 1, 2, 2)), {}, "attributions are of type ndarray: pass a tensor"),
        (torch.zeros(0, 1, 2, 2), {}, r"shape \(0, 1, 2, 2\): pass a tensor of shape"),
        (torch.zeros(1, 1, 0, 2), {}, r"shape \(1, 1, 0, 2\): pass a tensor of shape"),
        (torch.zeros(1, 1, 2, 2) * 1j, {}, "attributions are torch.complex64: pass real numbers"),
        (torch.ones(1, 1, 2, 2).bool(), {}, r"torch.bool: pass real numbers, mask.float\(\) for"),
        (
            torch.zeros(1, 3, 2, 2),
            {},
            r"of shape \(1, 3, 2, 2\): pass a tensor of shape \(B, 1, H, W\), .* over channels\)",
        ),
        (
            torch.tensor([[[[0.0, 0.0, 0.0]]], [[[0.0, 0.0, float("nan")]]]]),
            {},
            "the attribution of image 1 at row 0, column 2 is NaN",
        ),
    ],
)
def test_what_has_no_order_is_refused_with_one_line(maps, settings, message):
    with pytest.raises(AttributionLabError, match=message) as caught:
        removal_order(maps, **settings)
    assert "\n" not in str(caught.value)
