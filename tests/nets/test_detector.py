"""The color detector C and the redundant channels R."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attributionlab.base import AttributionLabError
from attributionlab.worlds import nets
from cases import BACKGROUND, FOUR_COLORS, NUMBERS, PALETTES
from oracles import is_color, is_greater, is_number, is_unseen

ALL_VALUES = list(range(256))


def column(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)[:, None]


def test_each_number_checker_answers_1_for_its_number_and_0_for_all_other_255():
    answers = nets.evaluate(nets.number_checker(ALL_VALUES), column(ALL_VALUES))[-1]
    assert answers.tolist() == [[is_number(x, n) for n in ALL_VALUES] for x in ALL_VALUES]


@pytest.mark.parametrize("numbers", NUMBERS)
def test_convolutions_in_float32_give_the_same_answers(numbers):
    image = torch.arange(256.0).reshape(1, 1, 16, 16)
    answers = nn.Sequential(*nets.to_convolutions(nets.number_checker(numbers)))(image)
    expected = [[is_number(x, n) for x in ALL_VALUES] for n in numbers]
    assert answers.flatten(2)[0].tolist() == expected


@given(st.integers(-(2**20), 2**20), st.integers(-3, 3))
def test_numbers_may_be_negative_or_large(number, distance):
    x = number + distance
    answer = nn.Sequential(*nets.to_linears(nets.number_checker([number])))(column([x]))
    assert answer.tolist() == [[is_number(x, number)]]


def test_between_integers_the_number_checker_is_a_hat():
    # I_{>i}(x) is x - i cut off at 0 and 1; the difference of two, one apart, is 1 - |x - N|.
    quarters = torch.arange(0, 10, 0.25)
    answers = nets.evaluate(nets.number_checker([5]), quarters[:, None])[-1]
    assert answers[:, 0].tolist() == [max(0.0, 1 - abs(x - 5)) for x in quarters.tolist()]


@given(st.integers(-(2**20), 2**20), st.integers(-3, 3))
def test_comparisons_are_right_around_any_threshold(threshold, distance):
    x = threshold + distance
    answer = nn.Sequential(*nets.to_linears(nets.greater_than([threshold])))(column([x]))
    assert answer.tolist() == [[is_greater(x, threshold)]]


COLOR = st.tuples(*[st.integers(0, 255)] * 3)


def detected(colors, background, redundant_channels, pixels) -> list[list[float]]:
    """What the detector's convolutions answer in float32, pixel by pixel."""
    stages = nets.color_detector(colors, background, redundant_channels)
    image = torch.tensor(pixels, dtype=torch.float32).T[None, :, None]  # (1, 3, 1, P)
    return nn.Sequential(*nets.to_convolutions(stages))(image)[0, :, 0].T.tolist()


def expected(colors, background, redundant_channels, pixels) -> list[list[int]]:
    return [
        [is_color(pixel, color) for color in colors]
        + [is_unseen(pixel, [*colors, background])] * redundant_channels
        for pixel in pixels
    ]


@pytest.mark.parametrize("palette", PALETTES)
def test_every_channel_agrees_with_its_definition_around_the_known_colors(palette):
    colors, background = PALETTES[palette]
    known = [*colors, background]
    axes = []
    for channel in range(3):
        near = {color[channel] + step for color in known for step in (-1, 0, 1)}
        axes.append(sorted({0, 1, 128, 254, 255} | {value for value in near if 0 <= value <= 255}))
    pixels = list(product(*axes))
    assert detected(colors, background, 2, pixels) == expected(colors, background, 2, pixels)


@given(st.lists(COLOR, min_size=2, max_size=5, unique=True), st.data())
def test_every_channel_agrees_with_its_definition_for_any_colors(known, data):
    *colors, background = known
    # Pixels made of the known colors' values hit more often than pixels drawn from all.
    values = st.sampled_from([value for color in known for value in color])
    pixels = data.draw(st.lists(COLOR | st.tuples(values, values, values), min_size=1, max_size=20))
    pixels += known
    assert detected(colors, background, 1, pixels) == expected(colors, background, 1, pixels)


@pytest.mark.parametrize("redundant_channels", [0, 1, 4])
@pytest.mark.parametrize("count", [1, 4, 6])
def test_layer_widths_are_those_of_the_paper(count, redundant_channels):
    colors = [(10 * k, 0, 0) for k in range(1, count + 1)]
    stages = nets.color_detector(colors, BACKGROUND, redundant_channels)
    k = count + 1
    widths = [3, 9 * k, 6 * k, 3 * k, k, count + redundant_channels]
    assert [tuple(s.weight.shape) for s in stages] == [
        (outputs, inputs) for inputs, outputs in pairwise(widths)
    ]


def test_the_budget_knows_the_exact_range_of_every_number_checker():
    stages = nets.color_detector(FOUR_COLORS, BACKGROUND, 2)
    signal, budgets = nets.detector_budget(stages)
    everything = torch.arange(256.0).expand(3, -1).T
    first = nets.evaluate(stages[:1], everything)[0]
    # |x| + |N + 1| at x = 255 and the largest number there is
    assert budgets[0].largest_sum == 255 + 221
    assert first.max() == 255 - 19
    assert signal.upper.tolist() == [1.0] * 6
    assert signal.step.tolist() == [1.0] * 6
    assert len(budgets) == 5


# Colors of several values


SHADES = (
    [(200, 100, 20), (210, 110, 30), (200, 110, 20)],
    [(20, 20, 200)],
    [(0, 255, 7), (1, 255, 7)],
)


def shades_detected(colors, pixels):
    image = torch.tensor(pixels, dtype=torch.float32).T[None, :, None]  # (1, 3, 1, P)
    return nn.Sequential(*nets.to_convolutions(nets.shade_detector(colors)))(image)[
        0, :, 0
    ].T.tolist()


def shades_expected(colors, pixels):
    return [[int(any(is_color(pixel, s) for s in color)) for color in colors] for pixel in pixels]


def test_a_color_answers_on_each_of_its_shades_and_nowhere_around_them():
    """Mixtures of the shades' numbers, which the checkers know one by one, are none of them."""
    axes = [
        sorted({min(255, max(0, shade[k] + step)) for color in SHADES for shade in color
                for step in (-1, 0, 1)})
        for k in range(3)
    ]  # fmt: skip
    pixels = list(product(*axes))
    assert shades_detected(SHADES, pixels) == shades_expected(SHADES, pixels)


@given(st.lists(COLOR, min_size=3, max_size=9, unique=True), st.data())
def test_any_values_may_be_shades_of_any_color(known, data):
    first = data.draw(st.integers(1, len(known) - 1))
    colors = [known[:first], known[first:]]
    values = st.sampled_from([value for color in known for value in color])
    pixels = data.draw(st.lists(COLOR | st.tuples(values, values, values), min_size=1, max_size=20))
    pixels += known
    assert shades_detected(colors, pixels) == shades_expected(colors, pixels)


def test_a_number_that_several_shades_have_is_checked_once():
    numbers = [{shade[k] for color in SHADES for shade in color} for k in range(3)]
    checked = sum(map(len, numbers))
    widths = [3, 3 * checked, 2 * checked, checked, 6, 3]
    stages = nets.shade_detector(SHADES)
    assert [tuple(stage.weight.shape) for stage in stages] == [
        (outputs, inputs) for inputs, outputs in pairwise(widths)
    ]
    signal, budgets = nets.detector_budget(stages)
    assert signal.upper.tolist() == [1.0] * 3  # no pixel has two values
    assert budgets[-1].largest_sum == 3  # absolute terms: the shades of one color


def test_a_value_of_two_colors_is_refused():
    with pytest.raises(
        AttributionLabError, match=r"\(9, 9, 9\) twice: give each value to one color"
    ):
        nets.shade_detector([[(9, 9, 9), (8, 8, 8)], [(9, 9, 9)]])
