"""The incremental deletion score is a mean over steps; updated maps are asked for what is left."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import oracles_deletion as oracles
from attributionlab.metrics import ids, ids_curve
from small_networks import summing


class Product(nn.Module):
    """Two outputs that are polynomials of integers, so exact in float32."""

    def forward(self, images):
        flat = images.flatten(1)
        total = flat.sum(1)
        return torch.stack([total, total * flat[:, 0]], 1)


def output_of(target):
    def output(image):
        values = list(image.values())
        return sum(values) * (values[0] if target else 1)

    return output


def drawn(seed, n=2, height=3, width=4):
    g = torch.Generator().manual_seed(seed)
    images = torch.randint(-3, 4, (n, 2, height, width), generator=g).float()
    maps = torch.randint(-2, 3, (n, 1, height, width), generator=g).float()
    filling = torch.randint(-1, 2, images.shape, generator=g).float()
    return images, torch.randint(2, (n,), generator=g), maps, filling


def as_image(tensor):
    places = (tensor != torch.inf).nonzero().tolist()
    return {tuple(place): int(tensor[tuple(place)]) for place in places}


def products(images, targets):
    """An explanation that depends on what is left: the product of both channels, with a sign."""
    signs = 1 - 2 * targets.view(-1, 1, 1, 1)
    return signs * (images[:, :1] * images[:, 1:])


def products_of(target):
    def explain(image):
        pixels = {place[1:] for place in image}
        sign = 1 - 2 * target
        return {p: sign * image[0, *p] * image[1, *p] for p in pixels}

    return explain


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.integers(1, 12), st.booleans())
def test_curves_are_their_definition(seed, steps, updated):
    images, targets, maps, filling = drawn(seed)
    found = ids_curve(
        *(Product().eval(), images, targets, maps),
        replacement=filling,
        steps=steps,
        explain=products if updated else None,
    )
    for index, target in enumerate(targets.tolist()):
        expected = oracles.incremental_curve(
            output_of(target),
            as_image(images[index]),
            as_image(filling[index]),
            {place[1:]: value for place, value in as_image(maps[index]).items()},
            steps,
            products_of(target) if updated else None,
        )
        assert found[index].tolist() == expected


@pytest.mark.parametrize("explain", [None, products])
def test_the_score_is_the_mean_over_the_steps(explain):
    images, targets, maps, filling = drawn(3)
    call = (Product().eval(), images, targets, maps)
    shared = {"replacement": filling, "steps": 4, "explain": explain}
    assert torch.equal(ids(*call, **shared), ids_curve(*call, **shared).mean(1))


def test_maps_are_updated_after_every_step_but_the_last():
    images, targets, maps, filling = drawn(5)
    seen = []

    def explain(left, asked):
        seen.append(left.clone())
        assert torch.equal(asked, targets)
        left.zero_()  # what it does to its copy is its own business
        return maps

    ids_curve(
        *(Product().eval(), images, targets, maps), replacement=filling, steps=4, explain=explain
    )
    assert len(seen) == 2
    for count, left in zip((3, 6), seen, strict=True):
        order = maps.flatten(1).argsort(dim=1, stable=True)[:, :count]
        gone = torch.zeros(2, 12, dtype=torch.bool).scatter(1, order, True).view(2, 1, 3, 4)
        assert torch.equal(left, torch.where(gone, filling, images))


def test_infinite_updates_do_not_bring_back_what_is_gone():
    maps = torch.arange(16.0).view(1, 1, 4, 4)
    total = summing(16)

    def explain(left, _):
        return torch.where(left == left.flatten()[-1], 0.0, -torch.inf)

    curve = ids_curve(
        *(total, torch.ones(1, 1, 4, 4), torch.tensor([0]), maps),
        replacement=0.0,
        steps=8,
        explain=explain,
    )
    assert curve.tolist() == [[16, 14, 12, 10, 8, 6, 4, 2]]


@pytest.mark.parametrize("explain", [None, lambda *_: torch.zeros(1, 1, 4, 4)])
def test_integer_images_take_replacements_that_their_type_has_not(explain):
    total = summing(16)
    images, maps = torch.full((1, 1, 4, 4), 200, dtype=torch.uint8), torch.zeros(1, 1, 4, 4)
    call = (total, images, torch.tensor([0]), maps)
    curve = ids_curve(*call, replacement=-1, steps=2, explain=explain)
    assert curve.tolist() == [[3200, 1592]]


def test_thirty_two_steps_are_the_default():
    images, maps = torch.ones(1, 1, 8, 8), torch.arange(64.0).view(1, 1, 8, 8)
    model = summing(64)
    curve = ids_curve(model, images, torch.tensor([0]), maps, replacement=0.0)
    assert curve.tolist() == [[64 - 2 * step for step in range(32)]]
