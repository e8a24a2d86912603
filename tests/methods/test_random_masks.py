"""RISE agrees with its formula, written mask by mask, and says when its map is chance."""

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import nn

import oracles_rise as twins
from attributionlab.base import GuardWarning
from attributionlab.methods import collect_notices, rise, rise_uniform
from attributionlab.methods.random_masks import Masks

TARGETS = torch.tensor([1, 0])


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        *(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(3 * 5 * 4, 2)),
    ).double()


def images(count=2):
    return torch.rand(count, 2, 7, 6, generator=torch.Generator().manual_seed(1)).double()


def draws(generator, n_samples, cells, probability, size):
    """What the method draws: coins as nested lists, and where masks begin."""
    coins = torch.rand((n_samples, cells, cells), generator=generator) < probability
    shifts = [
        torch.randint(-(-side // cells), (n_samples,), generator=generator).tolist()
        for side in size
    ]
    return coins.double().tolist(), list(zip(*shifts, strict=True))


def close(got, wanted, limit):
    torch.testing.assert_close(got, torch.tensor(wanted, dtype=got.dtype), rtol=0, atol=limit)


def explained(model, target):
    def output(image):
        return model(torch.tensor(image, dtype=torch.float64)[None])[0, target].item()

    return output


@pytest.mark.parametrize(("cells", "probability"), [(3, 0.5), (2, 0.3), (6, 0.8)])
def test_rise_is_the_mean_output_over_masks_that_show_a_pixel(cells, probability):
    model, inputs, starts = network(), images(), torch.rand(2, 2, 1, 1).double()
    settings = {"n_samples": 9, "cells": cells, "probability": probability}
    with collect_notices():
        got = rise(
            *(model, inputs, TARGETS),
            generator=torch.Generator().manual_seed(3),
            baselines=starts,
            **settings,
        )
    assert got.shape == (2, 1, 7, 6)
    generator = torch.Generator().manual_seed(3)
    for image, target, start, each in zip(inputs, TARGETS, starts, got, strict=True):
        background = start.expand(2, 7, 6).tolist()
        coins, places = draws(generator, 9, cells, probability, (7, 6))
        masks = [twins.mask(c, *place, 7, 6) for c, place in zip(coins, places, strict=True)]
        wanted = twins.rise(
            explained(model, target), image.tolist(), [background] * 9, masks, probability
        )
        # Sums of some hundred float64 numbers of order 1.
        close(each[0], wanted, 1e-12)


def test_rise_uniform_starts_each_mask_from_noise_of_its_own():
    model, inputs = network(), images()
    with collect_notices():
        got = rise_uniform(
            *(model, inputs, TARGETS),
            highest=3.0,
            generator=torch.Generator().manual_seed(3),
            n_samples=5,
            cells=2,
        )
    generator = torch.Generator().manual_seed(3)
    for image, target, each in zip(inputs, TARGETS, got, strict=True):
        coins, places = draws(generator, 5, 2, 0.5, (7, 6))
        starts = [3 * torch.rand((2, 7, 6), generator=generator).double() for _ in coins]
        masks = [twins.mask(c, *place, 7, 6) for c, place in zip(coins, places, strict=True)]
        wanted = twins.rise(
            *(explained(model, target), image.tolist(), [s.tolist() for s in starts], masks, 0.5)
        )
        # Sums of some hundred float64 numbers of order 1.
        close(each[0], wanted, 1e-12)


@hypothesis_settings(max_examples=10)
@given(
    st.integers(2, 5), st.integers(5, 11), st.integers(5, 9), st.integers(0, 2**32), st.booleans()
)
def test_masks_are_their_coins_enlarged_and_cut(cells, height, width, seed, whole):
    generator = torch.Generator().manual_seed(seed)
    coins, places = draws(generator, 3, cells, 1.0 if whole else 0.5, (height, width))
    masks = Masks(torch.tensor(coins).bool(), torch.tensor(places))
    got = masks.enlarged(1, 3, torch.zeros(1, 2, height, width))
    wanted = [
        twins.mask(c, *place, height, width) for c, place in zip(coins[1:], places[1:], strict=True)
    ]
    # Four products of float32 weights in [0, 1].
    torch.testing.assert_close(got[:, 0], torch.tensor(wanted), rtol=0, atol=1e-6)
    if whole:
        torch.testing.assert_close(got, torch.ones_like(got))


def test_known_values_reach_the_network_as_they_are():
    seen = []

    class Seeing(nn.Module):
        def forward(self, inputs):
            seen.append(inputs)
            return inputs.sum((2, 3))

    inputs = torch.full((1, 1, 8, 8), 0.1)
    with collect_notices():
        rise(
            *(Seeing(), inputs, torch.tensor([0])),
            generator=torch.Generator().manual_seed(0),
            baselines=0.7,
            n_samples=20,
            cells=2,
        )
    values = torch.cat(seen[1:]).unique()
    assert torch.tensor(0.1) in values
    assert torch.tensor(0.7) in values
    assert values.min() == torch.tensor(0.1)
    assert values.max() == torch.tensor(0.7)


class Offset(nn.Module):
    """The image's upper left quarter, and a number that no mask moves."""

    def __init__(self, scale, offset):
        super().__init__()
        self.scale, self.offset = scale, offset

    def forward(self, inputs):
        return self.offset + self.scale * inputs[:, :, :4, :4].mean((1, 2, 3))[:, None]


def offset_map(scale, offset, n_samples=60, count=1, dtype=torch.float64):
    given = torch.ones(count, 1, 8, 8, dtype=dtype), torch.zeros(count, dtype=int)
    return rise(
        *(Offset(scale, offset), *given),
        generator=torch.Generator().manual_seed(0),
        n_samples=n_samples,
        cells=2,
    )


@pytest.mark.parametrize("offset", [20.0, 1.5])
def test_a_map_that_is_mostly_chance_is_told_of(offset):
    with collect_notices() as findings:
        offset_map(1.0, offset)
    told = {each.text: each for each in findings}
    [chance] = [each for text, each in told.items() if "draw of the masks" in text]
    assert (chance.images, chance.worst > 0.5) == (1, True)
    coins, places = draws(torch.Generator().manual_seed(0), 60, 2, 0.5, (8, 8))
    masks = [twins.mask(c, *place, 8, 8) for c, place in zip(coins, places, strict=True)]
    products = []
    for shown in masks:
        output = offset + sum(shown[y][x] for y in range(4) for x in range(4)) / 16
        products.append([output * value for row in shown for value in row])
    # A float64 sum of some thousand numbers of order 100, and the difference of two of them.
    assert chance.worst == pytest.approx(min(1, twins.share_of_noise(products)), rel=1e-9)


def test_a_map_that_the_output_makes_is_not_told_of():
    with collect_notices() as findings:
        got = offset_map(1.0, 0.0, n_samples=200)
    assert not any(each.images for each in findings)
    [chance] = [each for each in findings if "draw of the masks" in each.text]
    assert 0 < chance.worst < 0.2
    assert got[..., :3, :3].mean() > 1.2 * got[..., 5:, 5:].mean()


def test_chance_is_told_of_where_outputs_are_as_small_as_behind_a_saturated_softmax():
    with collect_notices() as findings:
        got = offset_map(1e-24, 2e-23, dtype=torch.float32)
    assert got.any()
    assert any("draw of the masks" in each.text and each.images for each in findings)


def test_masks_that_do_not_move_the_output_give_one_value():
    with pytest.warns(
        GuardWarning, match="2 images have one value for all pixels, because no mask"
    ):
        got = offset_map(0.0, 3.0, count=2)
    assert torch.equal(got, torch.full_like(got, 3.0))


@pytest.mark.parametrize("probability", [1e-9, 1 - 1e-9])
@pytest.mark.parametrize("method", [rise, rise_uniform])
def test_masks_that_show_all_or_nothing_are_told_of(method, probability):
    settings = {"highest": 1.0} if method is rise_uniform else {}
    with collect_notices() as findings:
        got = method(
            *(network(), images(), TARGETS),
            generator=torch.Generator().manual_seed(0),
            n_samples=5,
            cells=2,
            probability=probability,
            **settings,
        )
    [told] = [each for each in findings if each.images]
    assert told.images == 2
    assert "because each mask shows all of the image or nothing: take a probability" in told.text
    assert torch.equal(got, got[..., :1, :1].expand(2, 1, 7, 6))
    assert got.all()


@pytest.mark.parametrize("striped", [[[0, 0], [1, 1]], [[0, 1], [0, 1]], [[0, 0], [0, 1]]])
def test_masks_are_flat_only_if_all_of_them_are(striped):
    flat = [[[1, 1], [1, 1]], [[0, 0], [0, 0]]]
    shifts = torch.zeros(2, 2, dtype=torch.int64)
    assert Masks(torch.tensor(flat).bool(), shifts).flat()
    assert not Masks(torch.tensor([flat[0], striped]).bool(), shifts).flat()
