"""Changes followed through random networks, and through maps of all kinds, give what passes give."""

import pytest
import torch
from torch import nn

from attributionlab.base.exact import trajectory
from attributionlab.base.exact.stepwise.incremental import MOST_VALUES
from exact.stepwise.random_trees import agreed
from exact.stepwise.small_networks import by_passes, followed, given, linear, pair, pointwise


@pytest.fixture
def agrees(monkeypatch):
    """The route of a random network, if its outputs are those of forward passes."""
    monkeypatch.setattr("attributionlab.base.exact.stepwise.replacement.PIXELS_AT_ONCE", 1)
    return lambda seed, dtype=torch.float32: agreed(seed, dtype, trajectory, by_passes)


@pytest.mark.long
def test_random_networks_are_followed_exactly(agrees):
    routes = [agrees(seed) for seed in range(200)]
    assert routes.count("incremental") > 130


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_random_networks_of_other_types_are_followed_exactly(agrees, dtype):
    routes = [agrees(seed, dtype) for seed in range(200, 240)]
    assert routes.count("incremental") > 5


def test_a_network_in_bfloat16_is_followed_exactly(generator):
    # Not a convolution: oneDNN crashes on some in bfloat16.
    layers = [nn.Flatten(), nn.Linear(12, 3), nn.ReLU(), nn.Linear(3, 2)]
    model = nn.Sequential(*layers).bfloat16()
    for parameter in model.parameters():
        integers = torch.randint(-2, 3, parameter.shape, generator=generator)
        parameter.data = integers.bfloat16()
    image = torch.randint(-2, 3, (3, 2, 2), generator=generator).bfloat16()
    outputs = followed(model, image, torch.ones(1), torch.tensor([2, 0, 3, 1]))
    assert outputs.dtype == torch.bfloat16
    expected = by_passes(model, image, torch.ones(1).bfloat16(), torch.tensor([2, 0, 3, 1]))
    assert outputs.tolist() == expected


@pytest.mark.slow
def test_thousands_of_random_networks_are_followed_exactly(agrees):
    routes = [agrees(seed) for seed in range(1000, 6000)]
    assert routes.count("incremental") > 3500


# What maps may hold


@pytest.mark.parametrize("highest", [MOST_VALUES - 1, MOST_VALUES])
def test_last_maps_of_many_values_are_exact(highest):
    # Behind a head that bends, a table of its values or the layers themselves.
    model = nn.Sequential(
        *pair([[1.0, -1.0]]), linear(2, [1.0, -2.0], [-3.0, 5.0]), nn.ReLU(), nn.Softmax(dim=1)
    )
    half = highest // 2
    image = torch.tensor([[[half, half - highest]]]).float()
    for order in (torch.tensor([0, 1]), torch.tensor([1, 0])):
        outputs = followed(model, image, torch.zeros(1), order)
        assert outputs.tolist() == by_passes(model, image, torch.zeros(1), order)


def test_bounds_that_no_mixture_reaches_do_not_shift_the_values():
    # Columns add up to 1, so the sums are integers, while the lower bounds add up to -1/4.
    blocks = [[-0.25, 0.25, 0.5, 0.75], [1.25, 0.75, 0.5, 0.25]]
    convolution = given(nn.Conv2d(1, 2, 2, bias=False), blocks)
    model = nn.Sequential(convolution, pointwise(1, [1.0, 1.0]), nn.Flatten())
    image = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]])
    order = torch.tensor([2, 1, 0, 3])
    end = 1 - image
    assert followed(model, image, end, order).flatten().tolist() == [3, 2, 3, 2, 1]


def test_what_a_relu_cuts_is_on_the_grid_of_its_inputs():
    # As above, until the first sum of -1/4 becomes 0: then 5/4 is left of 1.
    blocks = [[-0.25, 0.25, 0.5, 0.75], [1.25, 0.75, 0.5, 0.25]]
    convolution = given(nn.Conv2d(1, 2, 2, bias=False), blocks)
    model = nn.Sequential(convolution, nn.ReLU(), pointwise(1, [1.0, 1.0]), nn.Flatten())
    image, order = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]]), torch.tensor([2, 1, 3, 0])
    outputs = followed(model, image, torch.zeros(1), order)
    assert outputs.flatten().tolist() == [3, 2, 2, 1.25, 0]


def test_places_above_padding_have_a_grid_of_their_own():
    # In the middle x + 1/2 + 1/2; on both sides 1/2, which integers do not divide.
    model = nn.Sequential(
        given(nn.Conv2d(1, 1, 1, (1, 2)), [1.0], [0.5]),
        given(nn.Conv2d(1, 1, 1, (1, 2), (0, 2)), [1.0], [0.5]),
        given(nn.Conv2d(1, 1, (1, 3), bias=False), [1.0, 1.0, 0.0]),
        nn.Flatten(),
    )
    image, order = torch.tensor([[[3.0, 1.0]]]), torch.tensor([0, 1])
    outputs = followed(model, image, torch.zeros(1), order)
    assert outputs.flatten().tolist() == [4.5, 1.5, 1.5]


def test_products_that_float64_rounds_say_nothing_about_a_grid():
    # The first channel is 2^10 throughout, as a difference of large numbers. The product of its
    # biases and weights has 70 binary digits, of which float64 loses the last: the final bias of 1.
    unit, large = 2.0**10, 2.0**22 - 1
    first = given(nn.Conv2d(1, 2, (1, 2)), [1.0, 0.0, 0.0, 1.0], [large * unit, 0.0])
    second = pointwise(2, [large, 0.0, 0.0, 1.0], [(1 - large) * unit, 0.0])
    third = pointwise(1, [2.0**12 + 1, 1.0], [1.0])
    model = nn.Sequential(first, second, third, nn.Flatten())
    image = torch.tensor([[[(1 - large) * unit, unit]]])
    end = image * torch.tensor([1.0, 0.0])
    outputs = followed(model, image, end, torch.tensor([0, 1]))
    last = (2.0**12 + 1) * unit + 1
    assert outputs.flatten().tolist() == [last + unit, last + unit, last]


def test_layers_that_cancel_fine_parts_are_merged_only_if_float64_holds_the_product():
    # Each row of the second layer is orthogonal to (-3, 2, 9), the third adds (4, 5) up to 9/2: every
    # layer's sums fit float32, while a change times the product of layers needs 63 binary digits.
    fine = [1 / 4 - 99423 / 2**22, 1 / 4 + 66282 / 2**22, 1 / 4 + 298269 / 2**22]
    first = given(nn.Conv2d(1, 3, (1, 3), bias=False), [each for each in fine for _ in range(3)])
    model = nn.Sequential(
        first,
        pointwise(2, [3.0, 0.0, 1.0, 2.0, 3.0, 0.0]),
        pointwise(1, [1 / 2 - 5 * 225737 / 2**21, 1 / 2 + 4 * 225737 / 2**21]),
        pointwise(1, [1 / 4 + 160383 / 2**20]),
        nn.Flatten(),
    )
    image, order = torch.tensor([[[1.0, 1.0, -1.0]]]), torch.tensor([0, 2, 1])
    outputs = followed(model, image, torch.zeros(1), order)
    assert outputs.tolist() == by_passes(model, image, torch.zeros(1), order)


def test_a_map_that_is_always_zero_is_followed(generator):
    model = nn.Sequential(*pair([[0.0, 0.0]]), linear(2, [1.0, 2.0], [3.0, 4.0]))
    outputs = followed(model, torch.ones(1, 1, 2), torch.zeros(1), torch.tensor([1, 0]))
    assert outputs.tolist() == [[3, 4]] * 3


def test_windows_that_see_padding_alone_are_followed():
    blind = nn.Conv2d(1, 1, 1, stride=9, padding=2)
    model = nn.Sequential(
        given(nn.Conv2d(1, 1, 1, stride=2, bias=False), [2.0]),
        given(blind, [1.0], [3.0]),
        pointwise(1, [1.0], [1.0]),
        pointwise(1, [2.0], [1.0]),
        nn.Flatten(),
    )
    outputs = followed(model, torch.ones(1, 3, 3), torch.zeros(1), torch.arange(9))
    assert outputs.flatten().tolist() == [9] * 10
