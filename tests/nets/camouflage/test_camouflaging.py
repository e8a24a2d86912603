"""Camouflaged networks: equal answers everywhere in the box, standard layers, weights of all kinds."""

import copy
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attributionlab.base.exact import route_of
from attributionlab.base.exact.chain import chain_of
from attributionlab.worlds import nets
from cases import BACKGROUND, FOUR_COLORS, TWO_DISTRACTORS
from oracles import feed_forward

COLORS = {"colors": FOUR_COLORS, "background": BACKGROUND}
SIDE = 16
NETWORKS = {
    "color-sum": nets.color_sum(image_size=SIDE, **COLORS),
    "strong redundancy": nets.color_sum(
        image_size=SIDE, redundant_channels=4, redundant_strength=8.0, weight_seed=2, **COLORS
    ),
    "distractors": nets.color_sum(
        image_size=SIDE, distractor_colors=TWO_DISTRACTORS, accumulator="uniform", **COLORS
    ),
    "number-sum": nets.number_sum(image_size=SIDE, number=5),
    "white-sum": nets.white_sum(image_size=SIDE),
    "modulo-sum": nets.modulo_sum(image_size=SIDE, modulus=7, max_count=200),
}
SEEDS = (0, 1)
REARRANGING = ("convolution-linear", "rescaling", "permutation")


@cache
def disguised(name: str, seed: int) -> nets.Network:
    """A network after all moves; tests share it and change nothing about it."""
    return nets.camouflaged(NETWORKS[name], seed)


def images_of(
    network: nets.Network, count: int = 12, side: int = SIDE, seed: int = 0
) -> torch.Tensor:
    """Noise, known colors with a little noise, and both corners of the box."""
    generator = torch.Generator().manual_seed(seed)
    shape = (count, network.channels, side, side)
    images = torch.randint(0, network.highest + 1, shape, generator=generator).float()
    if network.channels == 3:
        palette = torch.tensor([*FOUR_COLORS, *TWO_DISTRACTORS, BACKGROUND]).float()
    else:
        palette = (
            torch.tensor([[0.0], [1.0]]) if network.highest == 1 else torch.arange(9.0)[:, None]
        )
    which = torch.randint(0, len(palette), (count, side, side), generator=generator)
    known = palette[which].permute(0, 3, 1, 2)
    share = torch.linspace(0, 1, count)[:, None, None, None]
    shown = torch.rand((count, 1, side, side), generator=generator) < share
    images = torch.where(shown, known, images)
    if network.highest == 1:  # few white pixels too: remainders are right up to a bound
        density = torch.linspace(0, 1, count)[:, None, None, None] ** 3
        images = (torch.rand(shape, generator=generator) < density).float()
    images[0], images[1] = 0, network.highest
    return images


def answers(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(images)


def weighted(model: nn.Module) -> list[nn.Conv2d | nn.Linear]:
    return [module for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([layer.weight.detach().flatten() for layer in weighted(model)])


# Equal answers


@pytest.mark.parametrize("name", NETWORKS)
def test_all_moves_together_change_no_answer_anywhere_in_the_box(name):
    network = NETWORKS[name]
    images = images_of(network)
    expected = answers(network.model, images)
    for seed in SEEDS:
        model = disguised(name, seed).model
        assert torch.equal(answers(model, images), expected)
        assert torch.equal(answers(copy.deepcopy(model).double(), images.double()), expected)


@pytest.mark.parametrize("move", nets.MOVES)
@pytest.mark.parametrize("name", ["distractors", "number-sum", "modulo-sum"])
def test_no_move_changes_an_answer_and_every_move_changes_the_weights(name, move):
    network = NETWORKS[name]
    images = images_of(network)
    other = nets.camouflaged(network, 1, moves=[move])
    assert torch.equal(answers(other.model, images), answers(network.model, images))
    before, after = chain_of(network.model), chain_of(other.model)
    shapes = [
        [getattr(layer, "weight", torch.zeros(0)).shape for layer in chain.layers]
        for chain in (before, after)
    ]
    assert shapes[0] != shapes[1] or not torch.equal(weights(network.model), weights(other.model))


@pytest.mark.long
@settings(max_examples=8)
@given(
    st.sampled_from(("color-sum", "number-sum", "modulo-sum")),
    st.lists(st.sampled_from(sorted(nets.MOVES)), min_size=2, max_size=4),
    st.integers(0, 2**40),
)
def test_moves_go_together_in_any_order(name, moves, seed):
    network = NETWORKS[name]
    images = images_of(network, count=4)
    other = nets.camouflaged(network, seed, moves=moves)
    assert len(other.moves) == len(moves)
    assert torch.equal(answers(other.model, images), answers(network.model, images))


@pytest.mark.parametrize("side", [8, 9, 10, 27])
def test_all_kinds_of_padding_are_served(side):
    network = nets.number_sum(image_size=side, number=5)
    images = images_of(network, side=side)
    other = nets.camouflaged(network, side)
    assert torch.equal(answers(other.model, images), answers(network.model, images))


def as_lists(model: nn.Module) -> list[dict]:
    modules = [module for module in model.modules() if not isinstance(module, nn.Sequential)]
    layers = []
    for module in modules:
        if isinstance(module, nn.ReLU):
            layers[-1]["relu"] = True
        elif not isinstance(module, nn.Flatten):
            layer = {"weight": module.weight.tolist(), "bias": module.bias.tolist(), "relu": False}
            if isinstance(module, nn.Conv2d):
                layer |= {"stride": module.stride[0], "padding": module.padding[0]}
            layers.append(layer)
    return layers


@pytest.mark.parametrize("name", ["number-sum", "white-sum", "modulo-sum"])
def test_in_fractions_the_two_networks_are_one_function(name):
    build = {
        "number-sum": lambda: nets.number_sum(image_size=8, number=5),
        "white-sum": lambda: nets.white_sum(image_size=8),
        "modulo-sum": lambda: nets.modulo_sum(image_size=8, modulus=7, max_count=20),
    }
    network = build[name]()
    other = nets.camouflaged(network, 3)
    [image] = images_of(network, count=3, side=8)[2:]
    fractions = feed_forward(as_lists(other.model), image.int().tolist())
    assert fractions == feed_forward(as_lists(network.model), image.int().tolist())
    assert [float(value) for value in fractions] == answers(other.model, image[None])[0].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["color-sum", "modulo-sum"])
def test_ten_camouflaged_networks_agree_on_a_thousand_images(name):
    network = {
        "color-sum": lambda: nets.color_sum(image_size=72, **COLORS),
        "modulo-sum": lambda: nets.modulo_sum(image_size=72, modulus=30, max_count=4899),
    }[name]()
    images = images_of(network, count=1000, side=72)
    expected = torch.cat([answers(network.model, part) for part in images.split(50)])
    for seed in range(10):
        model = nets.camouflaged(network, seed).model
        got = torch.cat([answers(model, part) for part in images.split(50)])
        assert torch.equal(got, expected)


# Form


@pytest.mark.parametrize("name", NETWORKS)
def test_only_standard_layers_with_relus_of_their_own_in_eval_mode(name):
    for seed in SEEDS:
        model = disguised(name, seed).model
        allowed = (nn.Conv2d, nn.Linear, nn.ReLU, nn.Flatten, nn.Sequential)
        assert all(type(module) in allowed for module in model.modules())
        every_use = [m for _, m in model.named_modules(remove_duplicate=False)]
        assert len(every_use) == len(set(every_use))
        assert not any(module.training for module in model.modules())
        for layer in weighted(model):
            assert layer.weight.dtype == torch.float32
            if isinstance(layer, nn.Conv2d):
                assert layer.weight.is_contiguous(memory_format=torch.channels_last)
        assert chain_of(model) is not None


@pytest.mark.parametrize("name", NETWORKS)
def test_maps_are_attached_where_they_have_the_same_side(name):
    network = NETWORKS[name]
    images = images_of(network, count=2)

    def side_at(model: nn.Module, layer: nn.Module) -> tuple[int, ...]:
        shapes = []
        handle = layer.register_forward_hook(lambda m, i, output: shapes.append(output.shape[2:]))
        answers(model, images)
        handle.remove()
        return tuple(shapes[0])

    for seed in SEEDS:
        other = disguised(name, seed)
        assert other.layers.keys() == network.layers.keys()
        for place, layer in other.layers.items():
            assert isinstance(layer, nn.ReLU)
            assert side_at(other.model, layer) == side_at(network.model, network.layers[place])


@pytest.mark.parametrize("name", NETWORKS)
def test_the_histogram_of_weights_does_not_look_hand_made(name):
    network = NETWORKS[name]
    before, after = weights(network.model), weights(disguised(name, 0).model)
    assert len(after.unique()) >= len(before.unique()) + 60
    # Both signs are common: hand-made accumulators have none but positive weights.
    negative = (after < 0).sum() / (after != 0).sum()
    assert 0.2 < float(negative) < 0.6


def test_changes_are_still_followed_where_channels_are_only_rearranged():
    network = NETWORKS["color-sum"]
    model = nets.camouflaged(network, 0, moves=REARRANGING).model
    assert route_of(model, images_of(network, count=3)[2], 0).name == "incremental"


# State


@pytest.mark.long
def test_the_seed_decides_and_the_global_random_state_does_not():
    network = NETWORKS["color-sum"]
    state = torch.get_rng_state()
    first, again, other = (weights(nets.camouflaged(network, seed).model) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    assert first.shape != other.shape or not torch.equal(first, other)


def test_a_move_s_random_numbers_do_not_depend_on_the_moves_before():
    network = NETWORKS["white-sum"]
    one, other = (
        nets.camouflaged(network, 0, moves=[first, "permutation"]).model
        for first in ("convolution-linear", "rescaling")
    )
    signs = [weighted(model)[0].weight.detach().sign() for model in (one, other)]
    assert torch.equal(*signs)
    ratios = weighted(one)[0].weight / weighted(other)[0].weight
    assert set(ratios[ratios.isfinite()].log2().frac().tolist()) == {0.0}


def test_a_move_made_twice_draws_other_numbers():
    network = NETWORKS["white-sum"]
    twice = nets.camouflaged(network, 0, moves=["rescaling", "rescaling"])
    first = weighted(network.model)[0].weight, weighted(twice.model)[0].weight
    exponents = (first[1] / first[0])[first[0] != 0].log2()
    # The same numbers again would square every scale.
    assert bool((exponents % 2 == 1).any())


def test_the_given_network_is_left_as_it_is():
    network = nets.color_sum(image_size=9, **COLORS)
    before = copy.deepcopy(network.model.state_dict())
    budgets = list(network.budgets)
    other = nets.camouflaged(network, 0)
    assert all(torch.equal(before[key], value) for key, value in network.model.state_dict().items())
    assert (network.plain, network.moves, network.budgets) == (None, (), budgets)
    assert other.plain is network.model
    ours, theirs = set(other.model.parameters()), set(network.model.parameters())
    assert not ours & theirs


def test_a_record_says_what_was_done_in_order():
    network = NETWORKS["white-sum"]
    moves = ["dead-units", "permutation", "dead-units"]
    said = nets.camouflaged(network, 0, moves=moves).moves
    hidden = len(weighted(network.model)) - 1
    assert said == (
        f"{hidden} dead neurons added",
        f"the channels of {hidden} hidden layers permuted",
        f"{hidden} dead neurons added",
    )


def test_a_camouflaged_network_can_be_camouflaged_again():
    for name in ("color-sum", "modulo-sum"):
        network, once = NETWORKS[name], disguised(name, 0)
        twice = nets.camouflaged(once, 1)
        assert twice.plain is network.model
        assert twice.moves[: len(once.moves)] == once.moves
        assert len(twice.moves) == 2 * len(nets.MOVES)
        images = images_of(network, count=6)
        assert torch.equal(answers(twice.model, images), answers(network.model, images))


# Refusals
