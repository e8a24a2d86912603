"""The proof serves what does not round, up to the last number, and leaves the rest to the model."""

import numpy as np
import pytest
import torch
from torch import nn

from attributionlab.base.exact import route_of, trajectory
from attributionlab.base.exact.stepwise.certified import fits_exactly
from exact.stepwise.small_networks import by_passes, followed, given, linear, pair, pointwise, sums

EDGE = 2.0**24 - 1


def networks(bias):
    """For the image (1, 0): one layer of each reaches EDGE + bias, all others stay far below."""
    return {
        "front": nn.Sequential(pointwise(1, [EDGE], [bias]), *pair([[1.0, 0.0]])),
        "first map": pair([[EDGE, EDGE]], [bias]),
        "later map": nn.Sequential(sums(), pointwise(1, [EDGE], [bias]), nn.Flatten()),
        "last map of two channels": nn.Sequential(
            sums(), pointwise(2, [1.0, EDGE], [0.0, bias]), nn.Flatten()
        ),
        "head of one channel": nn.Sequential(sums(), nn.Flatten(), linear(1, [EDGE], [bias])),
        "head of two channels": nn.Sequential(
            pointwise(2, [1.0, 1.0]), sums(2), nn.Flatten(), linear(1, [EDGE, 0.0], [bias])
        ),
        "behind a head's ReLU": nn.Sequential(
            pointwise(2, [1.0, 1.0]),
            sums(2),
            nn.Flatten(),
            linear(2, [1.0, 0.0, 0.0, 1.0]),
            nn.ReLU(),
            linear(1, [EDGE, 0.0], [bias]),
        ),
    }


PLACES = {"front": 1, "first map": 1, "later map": 2, "last map of two channels": 2}
PLACES |= {"head of one channel": 2, "head of two channels": 3, "behind a head's ReLU": 4}


@pytest.mark.parametrize("place", PLACES)
def test_a_network_is_served_up_to_the_last_number_that_float32_counts(place):
    image, order = torch.tensor([[[1.0, 0.0]]]), torch.tensor([0, 1])
    at_the_limit, beyond = networks(1.0)[place], networks(2.0)[place]
    assert followed(at_the_limit, image, torch.zeros(1), order).tolist() == by_passes(
        at_the_limit, image, torch.zeros(1), order
    )
    route = route_of(beyond, image, torch.zeros(1))
    assert route == (
        "forward",
        f"its layer {PLACES[place]} may round: it needs 1.678e+07 grid steps, but the proof for "
        "float32 reaches up to 16,777,216",
    )
    # It does round: 2^24 + 1 becomes 2^24.
    assert trajectory(beyond, image, torch.zeros(1), order).max() == 2**24
    assert beyond.double()(image[None].double()).max() == 2**24 + 1


def two_sums(*head):
    """Two channels that go from -2^23 (or 2^23) to 0, and layers behind them."""
    return nn.Sequential(pointwise(2, [1.0, -1.0]), sums(2), nn.Flatten(), *head)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (two_sums(linear(1, [2.0, 0.0])), "incremental"),
        (two_sums(linear(1, [2.0, 0.0], [1.0])), "forward"),  # below 0 as well as above
        (two_sums(linear(1, [0.0, 2.0], [1.0])), "forward"),
        (two_sums(linear(2, [-1.0, 0.0, 0.0, 0.0]), linear(1, [2.0, 0.0], [1.0])), "forward"),
        (two_sums(linear(2, [1.0, 0.0, 0.0, 0.0]), linear(1, [2.0, 0.0], [1.0])), "forward"),
        (two_sums(linear(2, [0.0, -1.0, 0.0, 0.0]), linear(1, [2.0, 0.0], [1.0])), "forward"),
        # A ReLU cuts what would be too much.
        (two_sums(nn.ReLU(), linear(1, [2.0, 1.0], [0.0])), "incremental"),
        (two_sums(nn.ReLU(), linear(1, [2.0, 0.0], [1.0])), "incremental"),
        (two_sums(nn.ReLU(), linear(1, [0.0, 2.0], [1.0])), "forward"),
        (
            two_sums(linear(2, [1.0, 0.0, 0.0, 0.0]), nn.ReLU(), linear(1, [2.0, 0.0], [1.0])),
            "incremental",
        ),
    ],
    ids=range(10),
)
def test_a_head_is_held_against_all_that_its_inputs_may_be(model, name):
    image, order = torch.tensor([[[-(2.0**22), -(2.0**22)]]]), torch.tensor([0, 1])
    assert route_of(model, image, torch.zeros(1)).name == name
    outputs = trajectory(model, image, torch.zeros(1), order)
    assert outputs.tolist() == by_passes(model, image, torch.zeros(1), order)


def test_the_proof_is_made_for_the_pixels_at_hand():
    model, order = pair([[1.0, 1.0]]), torch.tensor([0, 1])
    for first, second, name in ((2**23, 2**23, "incremental"), (2**23 + 1, 2**23, "forward")):
        image = torch.tensor([[[float(first), float(second)]]])
        assert route_of(model, image, torch.zeros(1)).name == name
        assert route_of(model, torch.zeros(1, 1, 2), image).name == name
        outputs = trajectory(model, image, torch.zeros(1), order)
        assert outputs.tolist() == by_passes(model, image, torch.zeros(1), order)


def test_sums_that_cancel_count_with_their_sizes():
    # 2^24 + 1 - 2^24 is 0 or 1 in float32, by the order of the additions.
    image = torch.tensor([[[2.0**24, 2.0**24]]])
    assert route_of(pair([[1.0, -1.0]]), image, torch.zeros(1)).name == "incremental"
    assert route_of(pair([[1.0, -1.0]], [1.0]), image, torch.zeros(1)).name == "forward"


def test_channels_of_one_pixel_count_with_their_sizes():
    model = nn.Sequential(
        given(nn.Conv2d(2, 1, (1, 2), bias=False), [1.0, 1.0, -1.0, 0.0]), nn.Flatten()
    )
    for size, name in ((2.0**23 - 1, "incremental"), (2.0**23, "forward")):
        image = torch.tensor([[[size, 1.0]], [[size, 0.0]]])
        assert route_of(model, image, torch.zeros(1)).name == name


def test_values_below_zero_count_in_later_maps():
    for bias, name in ((0.0, "incremental"), (1.0, "forward")):
        model = nn.Sequential(sums(), pointwise(1, [2.0], [bias]), nn.Flatten())
        image = torch.full((1, 1, 2), -(2.0**22))
        assert route_of(model, image, torch.zeros(1)).name == name


def test_the_place_with_the_largest_sum_decides():
    first = given(nn.Conv2d(1, 1, (1, 2), (1, 2), bias=False), [1.0, 1.0])
    model = nn.Sequential(first, *pair([[0.0, 1.0]]))
    image = torch.tensor([[[2.0**23, 2.0**23 + 1, 0.0, 1.0]]])
    assert route_of(model, image, torch.zeros(1)).reason.startswith("its layer 1 may round")


def test_changes_in_float64_have_room_for_twice_the_sums():
    # A change from 2^53 - 1 to -(2^53 - 1) has more digits than a float64.
    model = pair([[1.0, 1.0]]).double()
    for edge, name in ((2.0**52 - 1, "incremental"), (2.0**52, "forward")):
        image = torch.tensor([[[edge, 1.0]]], dtype=torch.float64)
        end = -image
        assert route_of(model, image, end).name == name
        for order in (torch.tensor([0, 1]), torch.tensor([1, 0])):
            assert trajectory(model, image, end, order).tolist() == by_passes(
                model, image, end, order
            )


@pytest.mark.parametrize(
    ("dtype", "value", "weight"),
    [
        (torch.float16, 2.0**14, 2.0),  # 2^16 is no float16
        (torch.float16, 2.0**-10, 2.0**-8),
        (torch.float32, 2.0**100, 2.0**28),
        (torch.float32, 2.0**-100, 2.0**-50),
        (torch.bfloat16, 2.0**-100, 2.0**-30),
    ],
)
def test_numbers_beyond_the_range_of_a_type_are_left_to_the_model(dtype, value, weight):
    model = pair([[weight, weight]]).to(dtype)
    image, order = torch.full((1, 1, 2), value).to(dtype), torch.tensor([0, 1])
    route = route_of(model, image, torch.zeros(1))
    assert route.name == "forward"
    assert (
        f"its layer 1 may leave the range of {str(dtype).split('.')[1]}: it needs" in route.reason
    )
    outputs = trajectory(model, image, torch.zeros(1), order)
    assert outputs.tolist() == by_passes(model, image, torch.zeros(1).to(dtype), order)


@pytest.mark.parametrize("place", ["weight", "bias"])
def test_weights_that_are_no_numbers_are_left_to_the_model(place):
    model = pair([[1.0, 1.0]], [0.0])
    getattr(model[0], place).data.fill_(float("inf"))
    image = torch.zeros(1, 1, 2)
    route = route_of(model, image, torch.ones(1))
    assert route == ("forward", "its layer 1 has weights that are not finite")
    outputs = trajectory(model, image, torch.ones(1), torch.tensor([0, 1]))
    assert torch.equal(outputs.isnan(), torch.tensor([[place == "weight"]] * 2 + [[False]]))


@pytest.mark.parametrize("exponent", [-600, 600])
def test_products_beyond_the_range_of_float64_do_not_fit(exponent):
    """They round to 0 or infinity, and so does their grid: neither is less than the other."""
    matrix = np.full((1, 1, 1), 2.0**exponent)
    with np.errstate(over="ignore"):
        grid = float(np.float64(2.0**exponent) ** 2)
    assert not fits_exactly(matrix, matrix, grid)
    assert fits_exactly(matrix, np.ones((1, 1, 1)), 2.0**exponent)
