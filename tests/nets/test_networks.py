"""Whole networks: their size, their layers, and exact answers in float32."""

import pytest
import torch
from torch import nn

from attributionlab.worlds.nets import BUILDERS, color_sum, modulo_sum, number_sum, white_sum
from cases import BACKGROUND, FOUR_COLORS, SIZES, TWO_DISTRACTORS
from oracles import counts, label

COLORS = {"colors": FOUR_COLORS, "background": BACKGROUND}
# Every builder with constants that leave only the image size open, and the top of its valid box.
SMALL = {
    "color-sum": (lambda **k: color_sum(**COLORS, **k), 3, 255),
    "color-sum with distractors": (
        lambda **k: color_sum(**COLORS, distractor_colors=TWO_DISTRACTORS, **k),
        3,
        255,
    ),
    "modulo-sum": (lambda **k: modulo_sum(modulus=7, max_count=200, **k), 1, 1),
    "number-sum": (lambda **k: number_sum(number=5, **k), 1, 255),
    "white-sum": (white_sum, 1, 1),
}


@pytest.fixture(scope="module")
def papers_modulo():
    return modulo_sum(image_size=224, modulus=30, max_count=4899)


@pytest.fixture(scope="module")
def papers_color_sum():
    return color_sum(image_size=224, **COLORS)


def weighted(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if list(module.parameters(recurse=False))]


def shape_at(network, layer: nn.Module, images: torch.Tensor) -> tuple[int, ...]:
    shapes = []
    handle = layer.register_forward_hook(lambda m, i, output: shapes.append(tuple(output.shape)))
    with torch.no_grad():
        network.model(images)
    handle.remove()
    return shapes[0]


def mosaic(palette, side: int, batch: int = 2, seed: int = 0) -> torch.Tensor:
    """(batch, C, side, side): every pixel one of the palette's colors."""
    generator = torch.Generator().manual_seed(seed)
    choice = torch.randint(0, len(palette), (batch, side, side), generator=generator)
    return torch.tensor(palette).float()[choice].permute(0, 3, 1, 2)


# Size and layers


def test_the_papers_modulo_network_has_675033_parameters_in_17_layers(papers_modulo):
    model = papers_modulo.model
    assert sum(parameter.numel() for parameter in model.parameters()) == 675_033
    assert len(weighted(model)) == 17
    assert sum(p.numel() for p in model.accumulator.parameters()) == 170
    assert papers_modulo.max_count == 4920


def test_the_papers_modulo_network_attaches_to_layers_5_and_11(papers_modulo):
    layers, images = papers_modulo.layers, torch.zeros(1, 1, 224, 224)
    assert layers["gradcam"] is papers_modulo.model.accumulator[5]
    assert layers["iba"] is papers_modulo.model.accumulator[11]
    assert shape_at(papers_modulo, layers["gradcam"], images) == (1, 3, 25, 25)
    assert shape_at(papers_modulo, layers["iba"], images) == (1, 1, 9, 9)


def test_the_papers_color_network_attaches_to_layers_5_and_7(papers_color_sum):
    layers, images = papers_color_sum.layers, torch.zeros(1, 3, 224, 224)
    assert layers["gradcam"] is papers_color_sum.model.accumulator[5]
    assert layers["iba"] is papers_color_sum.model.accumulator[7]
    assert shape_at(papers_color_sum, layers["gradcam"], images) == (1, 4, 25, 25)
    assert shape_at(papers_color_sum, layers["iba"], images) == (1, 12, 9, 9)


def test_the_papers_color_network_has_the_widths_of_its_description(papers_color_sum):
    widths = [layer.weight.shape[:2] for layer in weighted(papers_color_sum.model)]
    detector = [(45, 3), (30, 45), (15, 30), (5, 15), (6, 5)]
    accumulator = [(4, 6), *[(12, 4), (4, 12)] * 4]
    assert [tuple(width) for width in widths] == [*detector, *accumulator, (4, 4), (4, 4)]


@pytest.mark.parametrize("name", SMALL)
def test_only_standard_layers_with_relus_of_their_own_in_eval_mode(name):
    model = SMALL[name][0](image_size=28).model
    allowed = (nn.Conv2d, nn.Linear, nn.ReLU, nn.Flatten, nn.Sequential)
    assert all(type(module) in allowed for module in model.modules())
    # named_modules drops repetitions unless told not to: nothing is used twice
    every_use = [m for _, m in model.named_modules(remove_duplicate=False)]
    assert len(every_use) == len(set(every_use))
    assert not any(module.inplace for module in model.modules() if isinstance(module, nn.ReLU))
    assert not any(module.training for module in model.modules())
    parts = ["accumulator", "flatten", "head"]
    assert [name for name, _ in model.named_children()][-3:] == parts


@pytest.mark.parametrize("name", SMALL)
def test_weights_are_laid_out_channels_last(name):
    for layer in weighted(SMALL[name][0](image_size=28).model):
        if isinstance(layer, nn.Conv2d):
            assert layer.weight.is_contiguous(memory_format=torch.channels_last)


def test_every_builder_of_the_catalog_is_tested_here():
    assert {name.split(" ")[0] for name in SMALL} == set(BUILDERS)


# Answers


@pytest.mark.parametrize("side", SIZES)
def test_color_sum_counts_the_pixels_of_each_color(side):
    images = mosaic([*FOUR_COLORS, BACKGROUND], side)
    logits = color_sum(image_size=side, **COLORS).model(images)
    assert logits.tolist() == [counts(image, FOUR_COLORS) for image in images]


def test_color_sum_drops_the_counts_of_the_distractors():
    images = mosaic([*FOUR_COLORS, *TWO_DISTRACTORS, BACKGROUND], 28)
    network = color_sum(image_size=28, distractor_colors=TWO_DISTRACTORS, **COLORS)
    assert network.classes == 4
    assert network.model(images).tolist() == [counts(image, FOUR_COLORS) for image in images]


def test_color_sum_ignores_unseen_colors_without_redundant_channels():
    images = mosaic([*FOUR_COLORS, BACKGROUND, (0, 0, 0), (219, 120, 20)], 28)
    expected = [counts(image, FOUR_COLORS) for image in images]
    for switched_off in ({"redundant_channels": 0}, {"redundant_strength": 0.0}):
        network = color_sum(image_size=28, **COLORS, **switched_off)
        assert network.model(images).tolist() == expected


def test_color_sum_is_disturbed_by_unseen_colors_with_redundant_channels():
    images = mosaic([*FOUR_COLORS, BACKGROUND, (0, 0, 0)], 28)
    logits = color_sum(image_size=28, **COLORS).model(images)
    assert all(
        row != counts(image, FOUR_COLORS)
        for row, image in zip(logits.tolist(), images, strict=True)
    )


def test_unseen_colors_disturb_the_sums_of_distractors_no_logit_hears_of():
    few = color_sum(image_size=28, **COLORS, redundant_channels=2)
    assert few.model.accumulator[0].weight.shape[:2] == (4, 6)
    more = color_sum(image_size=28, **COLORS, distractor_colors=TWO_DISTRACTORS)
    assert more.model.accumulator[0].weight.shape[:2] == (6, 8)


@pytest.mark.parametrize("number", [0, 5, 255])
def test_number_sum_counts_the_pixels_that_equal_its_number(number):
    near = sorted({0, 255, *range(max(0, number - 2), min(255, number + 2) + 1)})
    images = mosaic([(value,) for value in near], 28)
    logits = number_sum(image_size=28, number=number).model(images)
    assert logits.tolist() == [counts(image, [(number,)]) for image in images]


@pytest.mark.parametrize("accumulator", ["uniform", "nonuniform"])
def test_white_sum_counts_white_pixels(accumulator):
    images = mosaic([(0,), (1,)], 28)
    logits = white_sum(image_size=28, accumulator=accumulator).model(images)
    assert logits.tolist() == [counts(image, [(1,)]) for image in images]


def test_modulo_sum_gives_the_remainder_of_every_count():
    network = modulo_sum(image_size=10, modulus=7, max_count=100)
    images = torch.ones(101, 100).tril(-1).reshape(101, 1, 10, 10)  # 0, 1, ..., 100 white pixels
    assert network.model(images)[:, 0].tolist() == [label(i, [(1,)], 7) for i in images]


@pytest.mark.parametrize(("max_count", "bound"), [(50, 56), (100, 100), (99, 100)])
def test_the_largest_count_is_the_modulo_bound_or_the_whole_image(max_count, bound):
    assert modulo_sum(image_size=10, modulus=7, max_count=max_count).max_count == bound


# Exactness


@pytest.mark.parametrize("accumulator", ["uniform", "nonuniform"])
@pytest.mark.parametrize("name", SMALL)
def test_float32_equals_float64_on_unseen_images_in_either_memory_format(name, accumulator):
    build, channels, top = SMALL[name]
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, top + 1, (3, channels, 28, 28), generator=generator).float()
    model = build(image_size=28, accumulator=accumulator).model
    with torch.no_grad():
        last = model(images.to(memory_format=torch.channels_last))
        first = model.to(memory_format=torch.contiguous_format)(images)
        exact = model.double()(images.double())
    assert torch.equal(last.double(), exact)
    assert torch.equal(first.double(), exact)


def test_strong_redundant_channels_stay_exact():
    network = color_sum(
        image_size=73, **COLORS, redundant_channels=4, redundant_strength=4.0, weight_seed=3
    )
    generator = torch.Generator().manual_seed(2)
    images = torch.randint(0, 256, (4, 3, 73, 73), generator=generator).float()
    with torch.no_grad():
        single, exact = network.model(images), network.model.double()(images.double())
    assert torch.equal(single.double(), exact)
    assert bool((exact != exact.round()).any())  # the quarters are really there


@pytest.mark.parametrize(
    ("asked", "in_force"),
    [(0.0, 0.0), (0.1, 0.0), (0.13, 0.25), (1.0, 1.0), (1.1, 1.0), (3.9, 4.0)],
)
def test_the_strength_snaps_to_quarters_and_says_so(asked, in_force):
    network = color_sum(image_size=8, **COLORS, redundant_strength=asked)
    assert network.effective == {"redundant_strength": in_force}
    assert network.model.accumulator[0].weight[:, 4:].abs().max().item() == in_force


def test_no_strength_is_in_force_without_redundant_channels():
    assert color_sum(image_size=8, **COLORS, redundant_channels=0).effective == {}


def test_the_weight_seed_changes_the_weights_and_no_answer():
    images = mosaic([*FOUR_COLORS, BACKGROUND], 28)
    one, other = (color_sum(image_size=28, **COLORS, weight_seed=seed).model for seed in (0, 1))
    assert not torch.equal(one.accumulator[2].weight, other.accumulator[2].weight)
    assert torch.equal(one(images), other(images))


# Refusals


def test_redundant_channels_do_not_change_the_other_weights():
    """With and without the Unseen Data Effect it is the same network otherwise."""
    plain, disturbed = (
        color_sum(
            image_size=72, colors=FOUR_COLORS, background=BACKGROUND, redundant_channels=count
        )
        for count in (0, 3)
    )
    first, *others = plain.model.accumulator.parameters()
    first_disturbed, *others_disturbed = disturbed.model.accumulator.parameters()
    assert torch.equal(first_disturbed[:, :4], first)
    for one, other in zip(others, others_disturbed, strict=True):
        assert torch.equal(one, other)
