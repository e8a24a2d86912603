"""Implementations: equal to the rule on the palette bit for bit, graded beside it."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, QhullError
from torch import nn

import attributionlab as al
from attributionlab.base import EXACT_STEPS, AttributionLabError
from attributionlab.worlds.nets import (
    EQUIVALENT,
    IMPLEMENTATIONS,
    camouflaged,
    color_sum,
    equivalents_of,
    implementations_of,
    implemented,
    number_sum,
    white_sum,
)
from attributionlab.worlds.nets.planes import MARGIN, blend, plane_weights, planes
from attributionlab.worlds.nets.transformers import TRANSFORMERS

GRADED = ("planes", "natural")
WITH_COLORS = [
    name for name in al.environments() if "natural" in al.load(name, image_size=16).implementations
]
SIX = (
    (220, 120, 20),
    (220, 20, 120),
    (120, 220, 20),
    (20, 220, 120),
    (120, 20, 220),
    (20, 120, 220),
)
BACKGROUND = (20, 20, 20)


def as_fractions(parts):
    """The layers of a detector as exact numbers."""
    return [
        (
            [[Fraction(w) for w in row] for row in stage.weight.tolist()],
            [Fraction(b) for b in stage.bias.tolist()],
            relu,
        )
        for stage, relu, _ in parts
    ]


def told(parts, pixel):
    """What a detector says of a pixel, in exact arithmetic."""
    values = [Fraction(int(each)) for each in pixel]
    for weight, bias, relu in as_fractions(parts):
        sums = [
            sum((w * v for w, v in zip(row, values, strict=True)), b)
            for row, b in zip(weight, bias, strict=True)
        ]
        values = [max(Fraction(0), each) for each in sums] if relu else sums
    return values


def one_hot(index, palette):
    return [Fraction(int(index == place)) for place in range(len(palette) - 1)]


@pytest.mark.parametrize(
    "make", [planes, lambda palette: blend(palette, 0), lambda palette: blend(palette, 7)]
)
def test_detectors_are_one_hot_on_the_palette_in_exact_arithmetic(make):
    palette = (*SIX, BACKGROUND)
    parts = make(palette)
    for index, pixel in enumerate(palette):
        assert told(parts, pixel) == one_hot(index, palette)


colors = st.tuples(*[st.integers(0, 255)] * 3)


@settings(max_examples=60, deadline=None)
@given(st.lists(colors, min_size=5, max_size=9, unique=True), st.integers(0, 2**31))
def test_any_palette_of_corners_is_told_exactly_or_refused_by_a_color(palette, seed):
    palette = tuple(palette)
    points = np.array(palette, dtype=float)
    try:
        corners = set(ConvexHull(points).vertices.tolist())
    except QhullError:
        assume(False)
    try:
        for parts in (planes(palette), blend(palette, seed)):
            for index, pixel in enumerate(palette):
                assert told(parts, pixel) == one_hot(index, palette)
    except AttributionLabError as error:
        refused = [
            index for index, color in enumerate(palette[:-1]) if f"color {color}" in str(error)
        ]
        assert len(refused) == 1
    else:
        assert corners >= set(range(len(palette) - 1))  # no plane tells a mixture of others


def test_a_mixture_of_other_colors_is_refused_by_name():
    network = color_sum(
        image_size=9, colors=[(20, 20, 20), (220, 220, 220), (120, 120, 120)], background=(0, 0, 0)
    )
    for name in GRADED:
        with pytest.raises(
            AttributionLabError, match=r"color \(20, 20, 20\).*take implementation 'paper'"
        ):
            implemented(network, name)


def test_no_plane_has_a_kink_near_a_color_of_the_palette():
    palette = (*SIX, BACKGROUND)
    weights, offsets = plane_weights(palette)
    answers = np.array(palette) @ weights.T + offsets
    own = np.eye(7, 6, dtype=bool)
    assert (answers[own] == 1).all()
    assert (answers[~own] <= -MARGIN / 2).all()


@pytest.mark.parametrize("name", WITH_COLORS)
@pytest.mark.parametrize("implementation", GRADED)
def test_networks_equal_the_paper_s_bit_for_bit_on_images_of_the_palette(name, implementation):
    env = al.load(name, image_size=24)
    other = env.with_implementation(implementation)
    images, _ = env.batch(6)
    palette = torch.cat(
        [images.permute(0, 2, 3, 1).reshape(-1, 3), env.baseline.reshape(1, 3)]
    ).unique(dim=0)
    drawn = torch.randint(len(palette), (6, 24, 24), generator=torch.Generator().manual_seed(0))
    mixed = torch.cat([images, palette[drawn].permute(0, 3, 1, 2)])
    with torch.no_grad():
        expected = env.model(mixed)
        assert expected.unique().numel() > 1 or name in ("at-least", "either")
        assert torch.equal(other.model(mixed), expected)
        assert torch.equal(other.model.double()(mixed.double()), expected.double())
    assert all(budget.steps <= EXACT_STEPS for budget in other.network.budgets)
    assert other.layers.keys() == env.layers.keys()


@pytest.mark.parametrize("name", ["quadrants", "multi-color-sum-distractors"])
def test_questions_are_the_same_before_a_natural_network(name):
    plain, natural = (
        al.load(name, image_size=24, implementation=each) for each in ("paper", "natural")
    )
    for index in range(4):
        mine, other = (al.Questions(env, 3)[index] for env in (plain, natural))
        assert torch.equal(mine.image, other.image)
        assert (mine.target, mine.roles, mine.values) == (other.target, other.roles, other.values)
        assert torch.equal(mine.truth("logit").signed, other.truth("logit").signed)
        with torch.no_grad():
            assert torch.equal(mine.env.model(mine.image[None]), other.env.model(mine.image[None]))
        assert mine.env.network.plain is None
        assert other.env.network.moves[0].startswith("colors detected by natural")


@pytest.mark.parametrize(
    ("name", "seed", "index"),
    [("quadrants-of-shades", 5, 8), ("multi-color-sum-distractors", 4, 11)],
)
def test_features_that_hardly_tell_two_colors_apart_are_read_out_coarsely(name, seed, index):
    """With weights on the finest grid the readout's sums would need more than 2^24 steps."""
    plain, natural = (
        al.Questions(al.load(name, image_size=24, implementation=each), seed)[index]
        for each in ("paper", "natural")
    )
    convolutions = [each for each in natural.env.model.modules() if isinstance(each, nn.Conv2d)]
    readout = convolutions[1].weight[:, len(natural.env.network.palette) :].double()
    assert readout.any()
    assert torch.equal(readout * 2**9, (readout * 2**9).round())
    with torch.no_grad():
        image = natural.image[None]
        assert torch.equal(natural.env.model(image), plain.env.model(image))
    assert all(budget.steps <= EXACT_STEPS for budget in natural.env.network.budgets)


def test_gradients_are_the_paper_s_kinks_a_plane_s_slope_or_everywhere():
    """Where one pixel of a color that does not count answers in a natural network alone."""
    network = color_sum(
        image_size=9,
        colors=SIX[:1],
        background=BACKGROUND,
        distractor_colors=SIX[1:2],
        redundant_channels=0,
    )
    images = torch.tensor([SIX[0], SIX[1], BACKGROUND]).float()[torch.arange(81).reshape(9, 9) % 3]
    images = images.permute(2, 0, 1)[None].requires_grad_()
    size = {}
    for name in ("paper", *GRADED):
        [gradient] = torch.autograd.grad(implemented(network, name).model(images).sum(), images)
        size[name] = gradient.abs().sum((0, 1)).flatten().reshape(27, 3).amax(0)
    assert size["paper"].tolist() == [3.0, 0.0, 0.0]
    assert size["planes"][0] > 0
    assert size["planes"][1:].tolist() == [0.0, 0.0]
    assert (size["natural"] > 0).all()
    assert size["natural"][0] > 3 * size["natural"][1]


@pytest.mark.parametrize("name", GRADED)
def test_shades_of_a_color_have_one_answer_and_one_gradient(name):
    """Equal as floats at every shade, and no derivative along warmer and cooler."""
    env = al.load("quadrants-of-shades", image_size=16, implementation=name)
    shades = torch.tensor(env.counting.places.shading.of(env.colors["orange"])).float()
    images = env.baseline.reshape(1, 3, 1, 1).repeat(len(shades), 1, 16, 16)
    images[:, :, 0, 0] = shades
    [gradient] = torch.autograd.grad(
        env.model(images.requires_grad_()).sum(), images, retain_graph=True
    )
    at_pixel = gradient[:, :, 0, 0]
    assert env.model(images).tolist() == [[2.0]] * len(shades)
    assert (at_pixel == at_pixel[0]).all()
    assert at_pixel[0].any()
    assert at_pixel[:, :2].sum(1).tolist() == [0.0] * len(shades)
    assert at_pixel.sum(1).all()  # a map of summed channels shows it


def test_other_features_are_drawn_from_another_seed():
    network = color_sum(image_size=9, colors=SIX, background=BACKGROUND)
    weights = [next(implemented(network, "natural", seed).model.parameters()) for seed in (0, 0, 1)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("name", ["quadrants", "multi-color-sum-distractors"])
def test_features_are_drawn_anew_for_each_question_and_the_same_again(name):
    env = al.load(name, image_size=16, implementation="natural")
    weights = [
        next(al.Questions(env, 5)[index].env.model.parameters())[-1] for index in (0, 0, 1)
    ]  # of the last feature
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_unseen_colors_have_no_truth_and_no_closed_form_before_a_natural_network():
    env = al.load("multi-color-sum-in-distribution", image_size=16)
    natural = env.with_implementation("natural")
    images, labels = env.batch(1)
    black = torch.zeros_like(images)
    assert env.truths(images, labels, baseline=0)["shapley"].source == "closed form"
    assert natural.truths(images, labels)["shapley"].source == "closed form"
    found = natural.truths(images, labels, baseline=0, precision=100)
    assert found["shapley"].source == "estimate"
    with pytest.raises(
        AttributionLabError, match=r"256 pixels of colors.*use the environment's own images"
    ):
        natural.truth(black, labels)
    assert not env.truth(black, labels).overall.any()


@pytest.mark.parametrize("side", [24, 40, 46, 45])
def test_blocks_are_added_up_first_as_far_as_regions_allow(side):
    env = al.load("quadrants", image_size=side, implementation="natural")
    kernels = [m.kernel_size[0] for m in env.model.modules() if isinstance(m, nn.Conv2d)]
    expected = {24: [1, 1, 2, 2, 6], 40: [1, 1, 2, 2, 10], 46: [1, 1, 46], 45: [1, 1, 45]}
    assert kernels == expected[side]
    attached = nn.ReLU if len(kernels) > 3 else nn.Conv2d  # the last sum, or the readout itself
    assert isinstance(env.layers["gradcam"], attached)


def test_every_implementation_is_offered_where_it_applies():
    assert tuple(IMPLEMENTATIONS) == ("paper", *GRADED, *EQUIVALENT, *TRANSFORMERS)
    network = color_sum(image_size=9, colors=SIX, background=BACKGROUND)
    assert implementations_of(network) == (
        *("paper", *GRADED, *equivalents_of(network), *TRANSFORMERS),
    )
    assert implementations_of(number_sum(image_size=9, number=3)) == (
        *("paper", *EQUIVALENT[:3], *TRANSFORMERS),
    )
    assert implementations_of(white_sum(image_size=9)) == ("paper", *TRANSFORMERS)
    assert implementations_of(al.load("quadrants-of-shades", image_size=16).network) == (
        *("paper", *GRADED, *EQUIVALENT[:3], *TRANSFORMERS),
    )
    assert implementations_of(implemented(network, "natural")) == ()
    assert implemented(network, "paper") is network


@pytest.mark.parametrize(
    ("network", "name", "said"),
    [
        (
            color_sum(image_size=9, colors=SIX, background=BACKGROUND),
            "naturl",
            "did you mean 'natural'",
        ),
        (number_sum(image_size=9, number=3), "natural", "lacks a color detector.*paper, plateau"),
        (white_sum(image_size=9), "planes", "lacks a color detector.*are paper, transf"),
        (
            implemented(color_sum(image_size=9, colors=SIX, background=BACKGROUND), "planes"),
            "natural",
            "was rewritten.*pass the plain",
        ),
    ],
    ids=["unknown", "gray", "binary", "twice"],
)
def test_what_cannot_be_implemented_is_refused(network, name, said):
    with pytest.raises(AttributionLabError, match=said):
        implemented(network, name)


def test_a_natural_network_is_not_camouflaged():
    network = color_sum(image_size=9, colors=SIX, background=BACKGROUND)
    with pytest.raises(AttributionLabError, match=r"no camouflage.*original network"):
        camouflaged(implemented(network, "natural"), 0)
    with pytest.raises(AttributionLabError, match="no camouflage"):
        al.load("quadrants", image_size=16, implementation="natural", camouflage_seed=1)


def test_paper_is_what_an_environment_has_where_none_is_named():
    plain, named = (
        al.load("quadrants", image_size=16),
        al.load("quadrants", image_size=16, implementation="paper"),
    )
    assert plain.spec.digest == named.spec.digest
    assert plain.implementation == named.implementation == "paper"
    assert named.with_implementation("paper") is named
    with pytest.raises(AttributionLabError, match="the network of implementation 'natural'"):
        plain.with_implementation("natural").with_implementation("paper")
