"""Drawings of small networks: every weight is there, with its color, and large networks are refused."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

import attributionlab as al
from attributionlab.show import LOWERS, RAISES, network_drawing
from attributionlab.show.network_drawings import MOST_LAYERS, MOST_NEURONS
from attributionlab.worlds import nets


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def layer(outputs, inputs, *kernel):
    return np.ones((outputs, inputs, *kernel)), np.zeros(outputs)


def test_every_weight_and_bias_is_drawn_with_its_sign():
    checker = nets.number_checker([5])
    figure = network_drawing(checker, inputs=["x"], outputs=["five"], title="a checker")
    weights = [value.item() for stage in checker for value in stage.weight.flatten() if value]
    colors = [to_hex(line.get_color()) for line in figure.axes[0].lines]
    assert [color == RAISES for color in colors] == [weight > 0 for weight in weights]
    assert {RAISES, LOWERS} == set(colors)
    drawn = texts(figure)
    assert [text for text in drawn if text in ("+1", "-1")] == [f"{w:+g}" for w in weights]
    biases = [value.item() for stage in checker for value in stage.bias]
    assert [text for text in drawn if text in ("0", "-4", "-5", "-6")] == [f"{b:g}" for b in biases]
    assert {"x", "five"} <= set(drawn)
    assert figure.get_suptitle() == "a checker"


def test_a_kernel_is_one_connection_with_its_size_and_numbers():
    weight = np.arange(9.0).reshape(1, 1, 3, 3) - 1
    figure = network_drawing([(weight, np.array([0.5]))])
    assert len(figure.axes[0].lines) == 1
    assert {"kernel 3 x 3", "-1  0  1\n2  3  4\n5  6  7", "+0.5"} <= set(texts(figure))


def test_a_large_kernel_is_its_range():
    weight = np.arange(81.0).reshape(1, 1, 9, 9)
    drawn = texts(network_drawing([(weight, np.zeros(1))]))
    assert {"kernel 9 x 9", "0 to +80"} <= set(drawn)
    assert not any("\n" in text for text in drawn)


def test_a_weight_that_is_no_number_is_drawn():
    drawn = texts(network_drawing([(np.array([[np.nan, 1.0]]), np.zeros(1))]))
    assert any("nan" in text for text in drawn)


def test_a_kernel_of_equal_numbers_is_one_number():
    assert "+1" in texts(network_drawing([layer(1, 1, 3, 3)]))


def test_parameters_of_torch_are_drawn_as_their_numbers_are():
    parameters = torch.nn.Linear(2, 3).requires_grad_()
    numbers = [(parameters.weight.detach().numpy(), parameters.bias.detach().numpy())]
    examples = torch.ones(2, requires_grad=True)
    for kind in (torch.float32, torch.float64):
        layers = [(parameters.weight.to(kind), parameters.bias.to(kind))]
        drawn = texts(network_drawing(layers, examples={"ones": examples}))
        assert drawn == texts(network_drawing(numbers, examples={"ones": [1, 1]}))
    network_drawing([(parameters.weight.bfloat16(), parameters.bias.bfloat16())])


def test_boxes_say_what_neurons_give_for_examples():
    figure = network_drawing(nets.number_checker([5]), examples={"four": [4], "six": [6]})
    # x - 4, x - 5 and x - 6 behind a ReLU, their differences, and the difference of these
    answers = ["-4 → 0, 2", "-5 → 0, 1", "-6 → 0, 0", "0 → 0, 1", "0 → 0, 1", "0 → 0, 0"]
    assert [text for text in texts(figure) if "," in text] == ["4, 6", *answers]
    [legend] = figure.legends
    assert "for four, six" in legend.texts[-1].get_text()


@pytest.mark.parametrize(
    ("layers", "example", "why"),
    [
        ([layer(1, 2)], [1], "'one' does not have 2 values"),
        ([layer(1, 2)], ["a", "b"], "'one' does not have 2 values"),
        ([layer(1, 2)], [[1], [1, 2]], "'one' does not have 2 values"),
        ([layer(1, 2)], None, "'one' does not have 2 values"),
        ([layer(1, 1, 3, 3)], [1], "one here is a convolution"),
    ],
)
def test_examples_that_do_not_fit_are_refused(layers, example, why):
    with pytest.raises(al.AttributionLabError, match=why):
        network_drawing(layers, examples={"one": example})


def test_examples_have_names():
    with pytest.raises(
        al.AttributionLabError, match=r"examples are \[1, 2\]: give a dict of names"
    ):
        network_drawing([layer(1, 2)], examples=[1, 2])


def test_weights_of_many_connections_stand_below_them():
    figure = network_drawing([layer(5, 5)])
    assert len(figure.axes[0].lines) == 25
    assert "weights +1" in texts(figure)


def test_connections_without_a_weight_are_left_out():
    figure = network_drawing([(np.eye(3), np.zeros(3))])
    assert len(figure.axes[0].lines) == 3


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        ([], "without weights"),
        ([layer(1, 1)] * (MOST_LAYERS + 1), f"{MOST_LAYERS + 1} layers.*at most {MOST_LAYERS}"),
        ([layer(MOST_NEURONS + 1, 1)], "33 neurons in layer 1.*at most 32"),
        ([layer(1, MOST_NEURONS + 1)], "33 neurons in layer 1.*at most 32"),
        (
            [layer(2, 1), layer(11, 2), layer(10, 11)],
            "110 connections to layer 3.* 100 connections",
        ),
        ([layer(1, 2), layer(1, 9)], "layer 2 has 9 inputs, and the one before 1 neurons"),
        ([(np.ones((1, 2)), None)], r"layer 1 has weights \(1, 2\) and biases \(\): give a pair"),
        ([(np.ones((1, 2)), np.ones(2))], r"biases \(2,\): give a pair"),
        ([(np.ones(2), np.ones(2))], r"weights \(2,\)"),
        ([(np.ones((0, 2)), np.ones(0))], r"weights \(0, 2\)"),
        ([layer(1, 1), 5], "layer 2 is not a pair of arrays"),
        ([("a", "b")], "layer 1 is not a pair of arrays"),
        (5, "layers are 5: give pairs"),
        ([(torch.ones(1, 2, device="meta"), np.ones(1))], "layer 1 is not a pair of arrays"),
    ],
    ids=[
        *("none", "layers", "outputs", "inputs", "connections", "no chain"),
        *("no bias", "long bias", "flat", "empty", "number", "texts", "no list", "no numbers"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_remedy(layers, why):
    with pytest.raises(al.AttributionLabError, match=why) as refusal:
        network_drawing(layers)
    assert "\n" not in str(refusal.value)
