"""Equivalent forms: right for every number, color and count, and other derivatives."""

import copy
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attributionlab.base import EXACT_STEPS, AttributionLabError
from attributionlab.base.exact.chain import chain_of
from attributionlab.worlds import nets
from attributionlab.worlds.nets.camouflage.equivalents import CHECKERS, HEADS, PLAIN
from cases import BACKGROUND, FOUR_COLORS, NUMBERS, PALETTES, TWO_DISTRACTORS
from nets.camouflage.test_camouflaging import NETWORKS, SIDE, answers, as_lists, images_of, weighted
from nets.camouflage.test_draft import check_bounds
from oracles import feed_forward, is_greater, is_number

SHAPES = {"plain": PLAIN, **CHECKERS}
KINDS = [(name, form) for name in NETWORKS for form in nets.equivalents_of(NETWORKS[name])]


@cache
def in_form(name: str, form: str) -> nets.Network:
    """A network in a form; tests share it and change nothing about it."""
    return nets.equivalent(NETWORKS[name], form)


def front(network: nets.Network, layers: int) -> nn.Sequential:
    """The first layers, each with its ReLU."""
    return nn.Sequential(*list(network.model[0])[: 2 * layers])


# Number checkers: every number, every value


def respond(form: str, values: torch.Tensor) -> torch.Tensor:
    """All 256 checkers in float32, on gray values: (256 numbers, values)."""
    stages = SHAPES[form].stages(torch.ones(256, 1), torch.arange(256.0))
    return nn.Sequential(*nets.to_convolutions(stages))(values.reshape(1, 1, 1, -1))[0, :, 0]


def distances(values: torch.Tensor) -> np.ndarray:
    return np.abs(values.double().numpy()[None] - np.arange(256)[:, None])


@pytest.mark.parametrize("form", CHECKERS)
def test_every_checker_answers_1_for_its_number_and_0_for_all_other_255(form):
    expected = [[float(is_number(x, n)) for x in range(256)] for n in range(256)]
    with torch.no_grad():
        assert respond(form, torch.arange(256.0)).tolist() == expected


@pytest.mark.parametrize("form", SHAPES)
def test_comparisons_are_is_greater_from_the_left_and_is_less_from_the_right(form):
    def left(x: int, n: int) -> list[int]:
        return [is_greater(x, n - 1), is_greater(x, n)]

    def right(x: int, n: int) -> list[int]:
        return [is_greater(n + 1, x), is_greater(n, x)]

    sides = {"kink-side": [right], "both-sides-averaged": [left, right]}.get(form, [left])
    stages = SHAPES[form].stages(torch.ones(256, 1), torch.arange(256.0))
    found = nets.evaluate(stages, torch.arange(256.0)[:, None])[1].reshape(256, 256, -1)
    expected = [
        [[float(each) for side in sides for each in side(x, n)] for n in range(256)]
        for x in range(256)
    ]
    assert found.tolist() == expected


@pytest.mark.long
@pytest.mark.parametrize("form", ["plain", "kink-side", "both-sides-averaged"])
def test_written_from_any_side_a_checker_is_the_same_hat_on_all_reals(form):
    # Multiples of 1/64 from -2 to 258: float32 is exact.
    values = torch.arange(-128, 258 * 64 + 1) / 64
    with torch.no_grad():
        found = respond(form, values)
    assert np.array_equal(found.numpy(), np.maximum(0, 1 - distances(values)))


@pytest.mark.long
def test_a_plateau_is_flat_for_a_quarter_around_each_integer():
    values = torch.arange(-128, 258 * 64 + 1) / 64
    with torch.no_grad():
        found = respond("plateau", values)
    assert np.array_equal(found.numpy(), np.clip(1.5 - 2 * distances(values), 0, 1))


@pytest.mark.parametrize(
    ("form", "slope"),
    [("plain", 1), ("plateau", 0), ("kink-side", -1), ("both-sides-averaged", 0)],
)
def test_slopes_at_all_integers(form, slope):
    # Each checker reads a channel of its own, with all 256 values.
    stages = SHAPES[form].stages(torch.eye(256), torch.arange(256.0))
    values = torch.arange(256.0).expand(1, 256, 1, 256).clone().requires_grad_()
    nn.Sequential(*nets.to_convolutions(stages))(values).sum().backward()
    expected = [[slope * float(is_number(x, n)) for x in range(256)] for n in range(256)]
    assert values.grad[0, :, 0].tolist() == expected


@pytest.mark.parametrize("form", CHECKERS)
@pytest.mark.parametrize("number", sorted({n for numbers in NUMBERS for n in numbers}))
def test_the_checker_of_a_network_is_right_for_all_values(form, number):
    network = nets.equivalent(nets.number_sum(image_size=8, number=number), form)
    with torch.no_grad():
        found = front(network, 3)(torch.arange(256.0).reshape(1, 1, 16, 16)).flatten()
    assert found.tolist() == [float(is_number(x, number)) for x in range(256)]


# Color detectors: every color


def mismatches(network: nets.Network, known: tuple, numbers: np.ndarray) -> int:
    """Wrong pixels of a color detector, of colors r 2^16 + g 2^8 + b, against comparing these numbers.

    The detected colors have a channel each, redundant channels follow, the background has none.
    """
    *colors, background = known
    pixels = np.stack([numbers >> 16, numbers >> 8 & 255, numbers & 255], axis=1)
    pixels = torch.from_numpy(pixels).float().T[None, :, None]  # (1, 3, 1, pixels)
    with torch.no_grad():
        found = front(network, 5)(pixels)[0, :, 0].numpy()  # (channels, pixels)
    codes = [r << 16 | g << 8 | b for r, g, b in (*colors, background)]
    expected = [numbers == code for code in codes[:-1]]
    expected += [~np.isin(numbers, codes)] * (len(found) - len(colors))
    return int((found != np.stack(expected)).any(0).sum())


def detector(form: str, palette: str) -> tuple[nets.Network, tuple]:
    colors, background = PALETTES[palette]
    network = nets.color_sum(image_size=8, colors=colors, background=background)
    return nets.equivalent(network, form), (*colors, background)


@pytest.mark.long
@pytest.mark.parametrize("form", CHECKERS)
@pytest.mark.parametrize("palette", ["four-colors", "corners", "neighbors"])
def test_a_detector_is_right_for_a_million_colors_and_all_neighbors_of_known_ones(form, palette):
    network, known = detector(form, palette)
    steps = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), axis=-1).reshape(-1, 3)
    near = np.clip(np.array(known)[:, None] + steps, 0, 255).reshape(-1, 3)
    # Every value of each channel, the other two as in a known color.
    lines = np.repeat(np.array(known), 3 * 256, axis=0).reshape(-1, 3, 256, 3)
    for channel in range(3):
        lines[:, channel, :, channel] = np.arange(256)
    colors = np.concatenate([near, lines.reshape(-1, 3)])
    numbers = colors @ np.array([1 << 16, 1 << 8, 1])
    anywhere = np.random.default_rng(0).integers(0, 2**24, 2**20)
    for part in (numbers, *np.split(anywhere, 8)):
        assert mismatches(network, known, part) == 0


@pytest.mark.slow
@pytest.mark.parametrize("form", CHECKERS)
def test_a_detector_is_right_for_all_colors(form):
    network, known = detector(form, "four-colors")
    wrong = [mismatches(network, known, part) for part in np.split(np.arange(2**24), 128)]
    assert sum(wrong) == 0


# Heads: every pair of counts


def head_answers(network: nets.Network, counts: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return network.model.head(counts)


def pairs(values: torch.Tensor) -> torch.Tensor:
    """Counts (pairs, 6): of four classes, the first one's first, then of two distractors."""
    count, distractor = torch.cartesian_prod(values, values).T
    others = [count.flip(0), distractor, torch.zeros_like(count)]
    return torch.stack([count, *others, distractor, count], dim=1)


@pytest.mark.parametrize("form", HEADS)
@pytest.mark.parametrize("redundant", [0, 2])
def test_a_head_hands_on_every_pair_of_counts(form, redundant):
    network = nets.color_sum(
        image_size=SIDE,
        redundant_channels=redundant,
        colors=FOUR_COLORS,
        background=BACKGROUND,
        distractor_colors=TWO_DISTRACTORS,
    )
    other = nets.equivalent(network, form)
    values = torch.arange(SIDE**2 + 1.0)  # all that images of known colors have
    for shown in (values, values / 4 if redundant else values):  # unseen ones add multiples of 1/4
        counts = pairs(shown)
        assert torch.equal(head_answers(other, counts), counts[:, :4])
    assert max(budget.steps for budget in other.budgets[-3:]) <= EXACT_STEPS


def test_the_budget_of_the_heads_is_the_sum_of_their_terms():
    # c is 4 and 512; a count is at most 256 here, each of the AND's three terms at most 1.
    network = nets.color_sum(
        image_size=SIDE,
        redundant_channels=0,
        colors=FOUR_COLORS,
        background=BACKGROUND,
        distractor_colors=TWO_DISTRACTORS,
    )
    guided, both_ways = (nets.equivalent(network, form).budgets[-1] for form in HEADS)
    assert guided.steps == SIDE**2 * (1 + 2 * 4)
    assert both_ways.steps == SIDE**2 + 3 * 512


@pytest.mark.long
def test_one_unseen_pixel_makes_counts_that_are_fractions_and_changes_no_answer():
    images = torch.tensor(BACKGROUND).float()[:, None, None].repeat(20, 1, 8, 8)
    images[:, :, 4, 4] = 1.0
    fractions = 0
    for seed in range(20):
        network = nets.color_sum(
            image_size=8,
            colors=FOUR_COLORS,
            background=BACKGROUND,
            distractor_colors=TWO_DISTRACTORS,
            weight_seed=seed,
        )
        sums = answers(network.model[:3], images[:1])[0]
        fractions += bool((sums[4] % 1 != 0) & (sums[:4] % 1 != 0).any() & (sums[4] < 1))
        for form in HEADS:
            other = nets.equivalent(network, form)
            assert torch.equal(answers(other.model, images[:1]), answers(network.model, images[:1]))
    assert fractions >= 3


# Whole networks


@pytest.mark.parametrize(("name", "form"), KINDS)
def test_no_form_changes_an_answer_anywhere_in_the_box(name, form):
    network = NETWORKS[name]
    images = images_of(network, count=24)
    expected = answers(network.model, images)
    model = in_form(name, form).model
    assert torch.equal(answers(model, images), expected)
    assert torch.equal(answers(copy.deepcopy(model).double(), images.double()), expected.double())


COLOR = st.tuples(*[st.integers(0, 255)] * 3)


@settings(max_examples=12)
@given(
    st.sampled_from(nets.EQUIVALENT),
    st.lists(COLOR, min_size=4, max_size=4, unique=True),
    st.integers(0, 3),
    st.sampled_from(["uniform", "nonuniform"]),
    st.integers(0, 2**20),
)
def test_any_colors_and_weights_can_take_every_form(form, colors, redundant, accumulator, seed):
    background, *known, distractor = colors
    network = nets.color_sum(
        image_size=9,
        colors=known,
        background=background,
        distractor_colors=[distractor],
        redundant_channels=redundant,
        accumulator=accumulator,
        weight_seed=seed,
    )
    generator = torch.Generator().manual_seed(seed)
    palette = torch.tensor([*colors, *colors, (0, 0, 1), (255, 0, 255)]).float()
    images = palette[torch.randint(len(palette), (6, 9, 9), generator=generator)]
    images = images.permute(0, 3, 1, 2).contiguous()
    other = nets.equivalent(network, form)
    assert torch.equal(answers(other.model, images), answers(network.model, images))


@pytest.mark.parametrize("form", nets.EQUIVALENT)
def test_in_fractions_the_answers_are_equal(form):
    network = (
        nets.number_sum(image_size=8, number=5)
        if form in CHECKERS
        else nets.color_sum(
            image_size=8,
            colors=FOUR_COLORS[:1],
            background=BACKGROUND,
            distractor_colors=TWO_DISTRACTORS[:1],
        )
    )
    [image] = images_of(network, count=3, side=8)[2:]
    pixels = image.int().tolist()
    fractions = feed_forward(as_lists(nets.equivalent(network, form).model), pixels)
    assert fractions == feed_forward(as_lists(network.model), pixels)
    assert fractions[0] == Fraction(answers(network.model, image[None]).item())


@pytest.mark.parametrize(("name", "form"), KINDS)
def test_no_image_exceeds_a_bound_a_grid_or_the_budget(name, form):
    network = in_form(name, form)
    assert len(network.budgets) == len(weighted(network.model))
    check_bounds(network, images_of(network))


# Form


@pytest.mark.parametrize(("name", "form"), KINDS)
def test_only_standard_layers_with_relus_of_their_own_in_eval_mode(name, form):
    network, other = NETWORKS[name], in_form(name, form)
    allowed = (nn.Conv2d, nn.Linear, nn.ReLU, nn.Flatten, nn.Sequential)
    assert all(type(module) in allowed for module in other.model.modules())
    every_use = [m for _, m in other.model.named_modules(remove_duplicate=False)]
    assert len(every_use) == len(set(every_use))
    assert not any(module.training for module in other.model.modules())
    assert chain_of(other.model) is not None
    images = images_of(network, count=2)
    assert other.layers.keys() == network.layers.keys()
    for place, layer in other.layers.items():
        # Nothing in front of it has changed: the same maps.
        maps = [attached(each.model, each.layers[place], images) for each in (network, other)]
        assert torch.equal(*maps)
        assert isinstance(layer, nn.ReLU)


def attached(model: nn.Module, layer: nn.Module, images: torch.Tensor) -> torch.Tensor:
    maps = []
    handle = layer.register_forward_hook(lambda module, inputs, output: maps.append(output))
    answers(model, images)
    handle.remove()
    return maps[0]


@pytest.mark.parametrize(("name", "form"), KINDS)
def test_the_given_network_is_left_as_it_is(name, form):
    network, other = NETWORKS[name], in_form(name, form)
    assert (network.plain, network.moves) == (None, ())
    assert other.plain is network.model
    assert other.moves == (f"{'number checkers' if form in CHECKERS else 'head'} as {form}",)
    assert not set(other.model.parameters()) & set(network.model.parameters())
    assert [layer.weight.shape for layer in weighted(other.model)] != [
        layer.weight.shape for layer in weighted(network.model)
    ] or form == "kink-side"


@pytest.mark.long
def test_a_form_can_be_camouflaged():
    for form in nets.EQUIVALENT:
        network = in_form("distractors", form)
        twice = nets.camouflaged(network, 1)
        assert twice.plain is NETWORKS["distractors"].model
        assert twice.moves[0] == network.moves[0]
        images = images_of(network)
        assert torch.equal(answers(twice.model, images), answers(network.plain, images))


# Which forms apply


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("number-sum", ("plateau", "kink-side", "both-sides-averaged")),
        ("color-sum", ("plateau", "kink-side", "both-sides-averaged")),
        ("distractors", nets.EQUIVALENT),
        ("white-sum", ()),
        ("modulo-sum", ()),
    ],
)
def test_forms_are_found_from_the_network(name, expected):
    network = NETWORKS[name]
    assert nets.equivalents_of(network) == expected
    assert nets.equivalents_of(nets.camouflaged(network, 0)) == ()
    for form in set(nets.EQUIVALENT) - set(expected):
        with pytest.raises(AttributionLabError, match=f"implementation '{form}' does not apply"):
            nets.equivalent(network, form)


def broken(network: nets.Network, place: str, index: tuple[int, ...]) -> nets.Network:
    """A copy in which one number is another."""
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.model.get_parameter(place)[index] += 1
    return other


@pytest.mark.parametrize(
    ("place", "index"),
    [
        ("detector.0.weight", (0, 0, 0, 0)),
        ("detector.0.bias", (2,)),
        ("detector.2.weight", (1, 1, 0, 0)),
        ("detector.4.bias", (0,)),
    ],
)
def test_checkers_written_otherwise_are_not_rewritten(place, index):
    assert nets.equivalents_of(broken(NETWORKS["number-sum"], place, index)) == ()
    assert nets.equivalents_of(broken(NETWORKS["distractors"], place, index)) == tuple(HEADS)


@pytest.mark.parametrize(
    ("place", "index"),
    [
        ("head.0.weight", (0, 4)),
        ("head.0.bias", (0,)),
        ("head.2.weight", (1, 0)),
        ("head.2.bias", (0,)),
    ],
)
def test_a_head_that_reads_its_distractors_is_not_rewritten(place, index):
    assert nets.equivalents_of(broken(NETWORKS["distractors"], place, index)) == tuple(CHECKERS)


@pytest.mark.parametrize(
    ("name", "form", "message"),
    [
        (
            "color-sum",
            "guided-pair",
            "implementation 'guided-pair' does not apply, the network lacks a distractor color that it "
            "sums and drops: equivalent implementations that apply are plateau, kink-side, "
            "both-sides-averaged",
        ),
        (
            "modulo-sum",
            "plateau",
            "implementation 'plateau' does not apply, the network lacks number checkers that read the "
            "pixels: equivalent implementations that apply are none",
        ),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_what_does_not_apply_is_refused(name, form, message):
    with pytest.raises(AttributionLabError, match=message):
        nets.equivalent(NETWORKS[name], form)


def test_a_second_form_is_refused():
    once = in_form("distractors", "plateau")
    assert nets.equivalents_of(once) == ()
    with pytest.raises(AttributionLabError, match=r"was rewritten \(number checkers as plateau\)"):
        nets.equivalent(once, "guided-pair")
