"""Networks from rules: exact on every image, standard layers, and refusals that say why."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from attributionlab.base import EXACT_STEPS, AttributionLabError, exact
from attributionlab.worlds import nets
from attributionlab.worlds.rules.compiling import CONSTRUCTIONS
from attributionlab.worlds.rules.expressions import MEANINGS, Expression
from attributionlab.worlds.rules.networks import HeadSize, head_size, rule_network
from attributionlab.worlds.rules.parsing import parse
from attributionlab.worlds.verification.rules import rule_checks
from oracles_rules import Picture, rule_value
from rules.random_rules import (
    BACKGROUND,
    COLORS,
    EVERYWHERE,
    OWN,
    places_of,
    random_rule,
    tried_images,
)


def read(text: str) -> Expression:
    return parse(text, COLORS, EVERYWHERE)


def built(*texts: str, side: int = 24, **settings):
    return rule_network([read(text) for text in texts], places_of(side), BACKGROUND, **settings)


def outputs(model: nn.Module, images: np.ndarray) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([model(part.float()) for part in torch.from_numpy(images).split(16)])


def differences(text: str, side: int, images: np.ndarray) -> list[str]:
    """Where the network of a rule and the text run by Python differ."""
    got = outputs(built(text, side=side).model, images)[:, 0].tolist()
    expected = [
        rule_value(text, Picture(image.tolist(), COLORS, OWN), list(COLORS)) for image in images
    ]
    return [
        f"image {i}: {g} for {e}"
        for i, (g, e) in enumerate(zip(got, expected, strict=True))
        if g != e
    ]


# Every rule equals its oracle


def drawn_rules(n: int, largest: int) -> Iterator[tuple[str, int, random.Random]]:
    """Rules that depend on the image, of any depth, with and without regions and motifs."""
    found = seed = 0
    while found < n:
        rng = random.Random(seed)
        text = str(random_rule(rng, depth=2 + seed % 3, places=seed % 3 > 0))
        side = rng.randint(24, largest)
        seed += 1
        if not is_constant(text, side):
            found += 1
            yield text, side, rng


def is_constant(text: str, side: int) -> bool:
    """Whether no image changes a rule; no other refusal is expected, none exceeds the budget."""
    try:
        built(text, side=side)
    except AttributionLabError as error:
        if "for every input" in str(error):
            return True
        raise
    return False


@pytest.mark.long
def test_40_random_rules_equal_their_oracle():
    wrong = {
        (text, side): found
        for text, side, rng in drawn_rules(40, 36)
        if (found := differences(text, side, tried_images(rng, side, 50)))
    }
    assert not wrong


@pytest.mark.parametrize("side", [24, 25, 37])
@pytest.mark.parametrize(
    "text",
    [
        "red@left - 2 * (red@right) + 3 * (blue@top) - blue@bottom",
        "red@top_left - red@top_right + 2 * (red@bottom_left) - 3 * (red@bottom_right)",
        "red@center - 5 * (red@ring) + 2 * (blue@corner_stone) - blue@bar",
        "stripes(red, blue) - 2 * checks(red, blue) + 3 * corner(gray) - 4 * stripes(blue, red)",
        "stripes(red, blue)@left - stripes(red, blue)@center + corner(red)@bar - red - 2 * (blue@ring)",
        "checks(white, gray)@bottom_right + white",
    ],
)
def test_every_region_and_motif_at_even_and_odd_sides(text, side):
    assert not differences(text, side, tried_images(random.Random(side), side, 40))


def test_every_operator_has_a_construction():
    assert set(CONSTRUCTIONS) == set(MEANINGS)


OPERATIONS = [
    *(
        "red - 2 * blue + 7",
        "relu(red - blue)",
        "abs(red - 2 * blue)",
        "abs(blue + 1)",
        "relu(5 - blue)",
    ),
    *(
        "min(red, blue)",
        "max(red, blue)",
        "min(red, blue, 9, red - 3)",
        "max(red, 2 * blue, 30, -red)",
    ),
    *(f"red {sign} blue" for sign in (">", ">=", "<", "<=", "==", "!=")),
    *(f"red {sign} 17" for sign in (">", ">=", "<", "<=", "==", "!=")),
    *(
        "red > 3 and blue > 4",
        "red > 3 and blue > 4 and red < blue",
        "red > 9 or blue < 3 or red == 4",
    ),
    *(
        "not red > 3",
        "xor(red > 9, blue > 9)",
        "xor(red > 9, not blue > 9)",
        "(red > 3) + 2 * (blue > 4)",
    ),
    *("red - 5 if blue > 9 else 2 * blue", "-7 if blue > red else red", "red if blue > 3 else 0"),
    *("red % 2", "red % 30", "red % 64", "red % 65", "(red - 2 * blue) % 7", "(3 * red + 5) % 10"),
    *("(red - blue - 40) % 3", "((red % 7) + (blue % 5)) % 4", "min(red, blue) % 3 == 1"),
    "abs(red - 5 if blue > 9 else 2 * blue)",
    "(red if red % 2 == 0 else blue) - min(red, blue, red % 5) * 3",
    "max(min(red, 9), min(blue, 9)) - abs((red > 4) - (blue > 4))",
]


@pytest.mark.parametrize("text", OPERATIONS)
def test_heads_are_exact_for_all_counts(text):
    # The sum of a network of 8 x 8 pixels is at most 64; its head holds any pair of counts.
    counts = torch.zeros(65, 65, len(COLORS))
    counts[..., 0] = torch.arange(65.0)[:, None]
    counts[..., list(COLORS).index("blue")] = torch.arange(65.0)
    got = built(text, side=8).model.head(counts.flatten(0, 1))[:, 0].tolist()
    names = {"relu": lambda x: max(x, 0), "xor": lambda a, b: a != b}
    expected = [
        int(eval(text, names | {"red": red, "blue": blue}))
        for red, blue in product(range(65), repeat=2)
    ]
    assert got == expected


@pytest.mark.parametrize("modulus", [1000, 30, 7, 2])
def test_remainders_are_exact_for_all_counts_of_a_large_image(modulus):
    counts = torch.zeros(72**2 + 1, len(COLORS))
    counts[:, 0] = torch.arange(72**2 + 1)
    got = built(f"red % {modulus}", side=72).model.head(counts)[:, 0].tolist()
    assert got == [count % modulus for count in range(72**2 + 1)]


# What networks are made of

SHAPES = [
    "red % 30",
    "min(red, blue@left) > 40",
    "stripes(red, blue) - red@left",
    "stripes(red, blue)",
]


@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("side", [24, 25])
def test_layers_are_standard_and_each_relu_is_a_module_of_its_own(text, side):
    network = built(text, "blue - red", side=side)
    modules = [each for each in network.model.modules() if not isinstance(each, nn.Sequential)]
    assert {type(each) for each in modules} <= {nn.Conv2d, nn.Linear, nn.ReLU, nn.Flatten}
    assert not any(each.inplace for each in modules if isinstance(each, nn.ReLU))
    weighted = [each for each in modules if isinstance(each, nn.Conv2d | nn.Linear)]
    relus = [each for each in modules if isinstance(each, nn.ReLU)]
    assert len(relus) == len(weighted) - 1
    assert list(dict(network.model.named_children())) == [
        "detector",
        "accumulator",
        "flatten",
        "head",
    ]
    assert len(network.budgets) == len(weighted)
    assert (network.classes, network.channels, network.highest) == (2, 3, 255)


@pytest.mark.parametrize(
    ("text", "side", "gradcam", "iba"),
    [
        ("red", 72, (5, 8, 8), (5, 3, 3)),
        ("red@left", 24, (5, 24, 24), (5, 24, 24)),
        ("stripes(red, blue) + red", 24, (5, 12, 12), (5, 12, 12)),
        ("stripes(red, blue) + red", 25, (10, 12, 12), (10, 12, 12)),
        ("stripes(red, blue) + red@top_left", 25, (5, 12, 12), (5, 12, 12)),
        ("stripes(red, blue)", 25, (1, 12, 12), (1, 12, 12)),
    ],
)
def test_methods_attach_to_maps_with_places(text, side, gradcam, iba):
    network, shapes = built(text, side=side), {}
    for name, layer in network.layers.items():
        layer.register_forward_hook(
            lambda m, i, o, name=name: shapes.update({name: tuple(o.shape)})
        )
    network.model(torch.zeros(1, 3, side, side))
    assert shapes == {"gradcam": (1, *gradcam), "iba": (1, *iba)}


def test_colors_that_no_rule_mentions_are_detected_and_dropped():
    network = built("red", side=24)
    images = np.broadcast_to(np.array(COLORS["green"])[None, :, None, None], (1, 3, 24, 24)).copy()
    with torch.no_grad():
        sums = network.model.accumulator(network.model.detector(torch.from_numpy(images).float()))
    assert sums.flatten().tolist() == [0, 24**2, 0, 0, 0]
    assert outputs(network.model, images).item() == 0


@pytest.mark.parametrize("text", ["red % 30 + blue", "relu(red - 2 * gray)"])
def test_nonuniform_weights_give_the_same_answers(text):
    images = tried_images(random.Random(0), 24, 24)
    plain = built(text)
    other, again = (built(text, weights="nonuniform", weight_seed=5) for _ in range(2))
    assert torch.equal(outputs(plain.model, images), outputs(other.model, images))
    first, second = (each.model.accumulator[2].weight for each in (other, again))
    assert torch.equal(first, second)
    assert first.shape != plain.model.accumulator[2].weight.shape


def test_what_stands_in_several_places_is_built_once():
    once = head_size(built("min(red, blue) % 7"))
    twice = head_size(built("3 * (min(red, blue) % 7) - (min(red, blue) % 7)"))
    as_two = head_size(built("min(red, blue) % 7", "1 - min(red, blue) % 7"))
    assert twice == once
    assert as_two.neurons == once.neurons + 1  # the second output


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("red", HeadSize(1, 1, 6)),
        ("relu(red + blue + 3)", HeadSize(1, 1, 6)),  # never negative
        ("min(red, 3)", HeadSize(2, 2, 8)),  # 3 - ReLU(3 - red), not red - ReLU(red - 3)
        ("max(red, 3)", HeadSize(2, 2, 8)),
        ("max(red, blue) + relu(blue - red)", HeadSize(3, 2, 15)),  # one ReLU(blue - red)
        ("red > 3", HeadSize(4, 3, 17)),
        ("red@left > 3", HeadSize(4, 3, 9)),
        ("red > 3 and blue > 3", HeadSize(8, 4, 39)),
        ("red % 30", HeadSize(26, 11, 97)),
    ],
)
def test_sizes_behind_the_counts(text, size):
    assert head_size(built(text, side=24)) == size


# Budgets


@pytest.mark.long
def test_no_image_exceeds_what_budgets_state():
    for text, side, rng in drawn_rules(10, largest=32):
        hold_budgets(text, side, torch.from_numpy(tried_images(rng, side, 24)).double())


def hold_budgets(text: str, side: int, images: torch.Tensor) -> None:
    network = built(text, side=side)
    model = network.model.double()
    weighted = [each for each in model.modules() if isinstance(each, nn.Conv2d | nn.Linear)]
    seen: dict[nn.Module, tuple[torch.Tensor, torch.Tensor]] = {}
    hooks = [
        layer.register_forward_hook(lambda m, i, o: seen.update({m: (i[0], o)}))
        for layer in weighted
    ]
    with torch.no_grad():
        model(images)
    for layer, budget, hook in zip(weighted, network.budgets, hooks, strict=True):
        hook.remove()
        received, gave = seen[layer]
        assert (received >= 0).all()
        with torch.no_grad():
            layer.weight.abs_()
            layer.bias.abs_()
            terms = layer(received)
        assert terms.max() <= budget.largest_sum, (text, budget)
        assert budget.steps <= EXACT_STEPS
        if budget.signal is not None:
            upper = budget.signal.upper
            upper = upper.reshape(*upper.shape, *[1] * (gave.ndim - 1 - upper.ndim))
            assert (gave <= upper.reshape(upper.shape[: gave.ndim - 1])).all(), (text, budget)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(AttributionLabError) as error:
        call()
    return str(error.value)


def test_what_float32_might_round_is_refused_with_its_part():
    message = refusal(lambda: built("red + (5000 * (red - blue) > 3)", side=72))
    assert message == (
        "'5000 * (red - blue) > 3' needs 51,840,003 grid steps, float32 is exact up to 16,777,216: "
        "take smaller factors or a smaller image_size"
    )


def test_all_outputs_that_exceed_the_budget_are_named_at_once():
    message = refusal(lambda: built("4000 * red", "red", "9000 * blue", side=72))
    assert "'4000 * red' needs 20,736,000" in message
    assert "'9000 * blue' needs 46,656,000" in message


def test_the_largest_multiple_within_the_budget_is_exact():
    factor = EXACT_STEPS // 24**2
    images = tried_images(random.Random(0), 24, 24)
    red = [Picture(image.tolist(), COLORS, OWN).pixels("red", "") for image in images]
    got = outputs(built(f"{factor} * red").model, images)[:, 0].tolist()
    assert got == [factor * count for count in red]
    assert "grid steps" in refusal(lambda: built(f"{factor + 1} * red"))


@pytest.mark.parametrize(
    "text",
    [
        "3000 * min(red, blue)",  # as two terms it would take twice the budget
        "3000 * (min(red, blue, gray) - 7)",
        "4000000 * min(red, 4)",
        "-16777216 * (not max(red, blue, 9) > 9)",
        "1500 * red if xor(red > 5, blue > 5) else 0",
        "16777215 * (red % 2)",
    ],
)
def test_large_multiples_of_what_cannot_be_large_are_no_problem(text):
    assert not differences(text, 72, tried_images(random.Random(0), 72, 30))


@pytest.mark.parametrize("text", ["red - red", "red >= 0", "red % 1", "min(red, blue) < 0"])
def test_rules_that_no_image_changes_are_refused(text):
    assert "for every input: let it depend on a color" in refusal(lambda: built(text))


def test_one_constant_output_among_others_is_no_problem():
    network = built("red", "blue >= 0")
    assert outputs(network.model, tried_images(random.Random(0), 24, 4))[:, 1].tolist() == [1] * 4


@pytest.mark.parametrize("text", ["red@left", "corner(red)"])
def test_kernels_as_large_as_the_image_are_uniform(text):
    assert "take 'uniform'" in refusal(lambda: built(text, weights="nonuniform"))


# What the rest of the laboratory does with them


@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("side", [24, 25])
def test_camouflages_and_forms_give_the_same_answers(text, side):
    network = built(text, side=side)
    images = tried_images(random.Random(1), side, 24)
    expected = outputs(network.model, images)
    assert torch.equal(outputs(nets.camouflaged(network, seed=side).model, images), expected)
    assert nets.equivalents_of(network) == nets.EQUIVALENT[:3]  # those of number checkers
    for form in nets.equivalents_of(network):
        assert torch.equal(outputs(nets.equivalent(network, form).model, images), expected)


@pytest.mark.parametrize(
    ("text", "side", "route"),
    [
        ("red % 30", 24, "incremental"),
        ("min(red, blue@left) > 40", 24, "incremental"),
        ("stripes(red, blue) - red@left", 24, "incremental"),
        ("stripes(red, blue)", 25, "incremental"),
        ("stripes(red, blue) - red@left", 25, "forward"),  # its 3 x 3 windows overlap
    ],
)
def test_trajectories_pass_through_the_rules_values(text, side, route):
    network = built(text, side=side)
    image, other = torch.from_numpy(tried_images(random.Random(2), side, 20)[-2:]).float()
    assert exact.route_of(network.model, image, other).name == route
    order = torch.randperm(side**2, generator=torch.Generator().manual_seed(0))
    steps = exact.trajectory(network.model, image, other, order)[:, 0]
    mixed = image.clone()
    for step in range(0, side**2 + 1, 97):
        mixed.flatten(1)[:, order[:step]] = other.flatten(1)[:, order[:step]]
        picture = Picture(mixed.int().tolist(), COLORS, OWN)
        assert steps[step] == rule_value(text, picture, list(COLORS))


# Verification, and what it notices


def environment(network):
    """As much of an environment as the checks of rules ask for."""
    return SimpleNamespace(
        model=network.model, network=network, recipe=SimpleNamespace(background=BACKGROUND)
    )


def checks_of(network, *texts: str, side: int):
    rules, places = [read(text) for text in texts], places_of(side)
    env = environment(network)
    return rule_checks(env, rules, places, torch.Generator().manual_seed(0))


CHECKED = [
    ("red % 30",),
    ("min(red, blue@left) > 40", "red@center - gray"),
    ("relu(stripes(red, blue)@left - checks(red, blue)) + red@left",),
    ("red - red + blue@left", "white@right"),
]


@pytest.mark.parametrize("texts", CHECKED)
@pytest.mark.parametrize("side", [16, 25])
def test_networks_pass_the_checks_of_their_rules(texts, side):
    network = built(*texts, side=side)
    checks = checks_of(network, *texts, side=side)
    assert [check.name for check in checks] == ["rule-counts", "rule-head", "rule-logits"]
    assert all(check.passed for check in checks), checks
    hidden = checks_of(nets.camouflaged(network, 1), *texts, side=side)
    assert all(check.passed for check in hidden), hidden


@pytest.mark.parametrize("texts", [("red % 29",), ("red",), ("blue % 30",), ("red@left % 30",)])
def test_the_network_of_another_rule_does_not_pass(texts):
    checks = checks_of(built(*texts, side=16), "red % 30", side=16)
    assert not all(check.passed for check in checks)


@contextmanager
def one_weight_changed(
    parameter: nn.Parameter, index: tuple[int, ...], by: float
) -> Iterator[None]:
    with torch.no_grad():
        parameter[index] += by
        yield
        parameter[index] -= by


@pytest.mark.parametrize(
    ("name", "index", "failing"),
    [
        ("accumulator.2.weight", (0, 0, 1, 1), {"rule-counts", "rule-head", "rule-logits"}),
        ("head.2.bias", (0,), {"rule-head", "rule-logits"}),
    ],
)
def test_checks_say_which_part_is_wrong(name, index, failing):
    network = built("red@left + max(stripes(red, blue), 2)", side=8)
    with one_weight_changed(network.model.get_parameter(name), index, 1.0):
        checks = checks_of(network, "red@left + max(stripes(red, blue), 2)", side=8)
    assert {check.name for check in checks if not check.passed} == failing
    for check in checks:
        assert check.passed or "got" in check.detail


@pytest.mark.long
@pytest.mark.parametrize(
    "texts",
    [
        ("red@left % 5",),
        ("min(red@left, 2 * (blue@right)) > 7", "red@left if blue@right > 3 else 5"),
        ("xor(red@top > 3, checks(red, blue) > 2)",),
        ("max(red@top, 3, 9 - red@top) - abs(blue@left - 10)",),
    ],
)
def test_every_wrong_weight_is_noticed_or_no_image_shows_it(texts):
    """Single weights and biases of the counting layers and the head, 1 more or 1 less."""
    network, rng, noticed = built(*texts, side=8), random.Random(0), 0
    images = tried_images(rng, 8, 200)
    right = outputs(network.model, images)
    parameters = [p for name, p in network.model.named_parameters() if "detector" not in name]
    for _ in range(60):
        parameter = rng.choice(parameters)
        present = parameter.detach().nonzero().tolist()
        if present and rng.random() < 0.5:
            index = rng.choice(present)
        else:
            index = [rng.randrange(size) for size in parameter.shape]
        with one_weight_changed(parameter, tuple(index), rng.choice([-1.0, 1.0])):
            passed = all(check.passed for check in checks_of(network, *texts, side=8))
            assert not passed or torch.equal(outputs(network.model, images), right), index
        noticed += not passed
    assert noticed >= 40
