"""The isolation of removed pixels is a mean of shares of neighbors, exactly."""

from fractions import Fraction
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attributionlab import AttributionLabError
from attributionlab.metrics.orders import pixel_isolation

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
    got = pixel_isolation(torch.tensor(orders), size, neighbors=neighbors)
    assert got[:, 0].isnan().all()
    expected = [
        [float(isolation(order, *size, neighbors, n)) for n in range(1, len(pixels) + 1)]
        for order in orders
    ]
    assert got[:, 1:].tolist() == expected  # sums of integers, and one correctly rounded division


@pytest.mark.parametrize("neighbors", [4, 8])
def test_a_uniformly_random_order_has_the_expected_isolation_of_its_closed_form(neighbors):
    orders = torch.tensor(list(permutations(range(6))))
    mean = pixel_isolation(orders, (2, 3), neighbors=neighbors)[:, 1:].mean(0)
    closed = torch.tensor([(6 - n) / 5 for n in range(1, 7)], dtype=torch.float64)
    # The mean of 720 doubles is off by at most 720 roundings of 2^-53 each.
    assert torch.allclose(mean, closed, rtol=0, atol=720 * 2**-53)


def test_a_checkerboard_is_isolated_by_edges_and_half_isolated_by_corners():
    board = torch.arange(36).view(6, 6)
    even = (board.div(6, rounding_mode="floor") + board % 6) % 2 == 0
    order = torch.cat([board[even], board[~even]])[None]
    assert pixel_isolation(order, (6, 6), neighbors=4, counts=[18]).tolist() == [[1.0]]
    by_corners = float(pixel_isolation(order, (6, 6), counts=[18]))
    # 8 inner pixels with 4 of 8 left, 2 corners with 2 of 3, 8 at the border with 3 of 5.
    assert by_corners == float((8 * Fraction(1, 2) + 2 * Fraction(2, 3) + 8 * Fraction(3, 5)) / 18)


def test_counts_choose_among_all_numbers_of_removed_pixels():
    orders = torch.stack([torch.randperm(20, generator=torch.Generator().manual_seed(0))] * 2)
    every = pixel_isolation(orders, (4, 5))
    assert torch.equal(pixel_isolation(orders, (4, 5), counts=[3, 20]), every[:, [3, 20]])
    assert every[:, 20].tolist() == [0, 0]


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"orders": torch.arange(4)}, "orders are torch.int64 of shape"),
        ({"orders": torch.tensor([[0.0, 1, 2, 3]])}, "pass a tensor of torch.int64"),
        ({"orders": torch.tensor([[0, 1, 2, 2]])}, "order 0 is no permutation"),
        ({"orders": torch.tensor([[0, 1, 2, 3], [0, 1, 2, 4]])}, "order 1 is no permutation"),
        ({"size": (2, 3)}, "an order has 4 pixels and the size is 2 x 3"),
        ({"size": 4}, r"size is 4: pass the image's \(height, width\)"),
        ({"size": (-2, -2)}, "height is -2"),
        ({"orders": torch.tensor([[0]]), "size": (1, 1)}, "at least two pixels"),
        ({"neighbors": 6}, "neighbors is 6: take 4 or 8"),
        ({"counts": [5]}, "counts are 5"),
    ],
)
def test_impossible_arguments_are_refused(change, problem):
    arguments = {"orders": torch.tensor([[3, 1, 0, 2]]), "size": (2, 2)} | change
    with pytest.raises(AttributionLabError, match=problem):
        pixel_isolation(arguments.pop("orders"), arguments.pop("size"), **arguments)
