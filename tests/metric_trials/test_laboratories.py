"""The laboratories' maps are what brute force over all coalitions says."""

from dataclasses import replace
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attributionlab.verdicts.metric_trials.laboratories import Counted, counted, linear


def shapley(lab, image, players):
    """The mean contribution over all orders of the players; the other pixels stay replaced."""
    orders = list(permutations(players))
    canvases = []
    for order in orders:
        canvas = lab.replacement.clone().flatten()
        canvases.append(canvas.clone())
        for pixel in order:
            canvas[pixel] = image.flatten()[pixel]
            canvases.append(canvas.clone())
    with torch.no_grad():
        outputs = lab.model(torch.stack(canvases).view(-1, 1, 8, 8))[:, int(lab.targets[0])]
    steps = outputs.view(len(orders), -1).diff(dim=1)
    values = torch.zeros(64)
    for order, row in zip(orders, steps, strict=True):
        values[list(order)] += row / len(orders)
    return values


@pytest.mark.parametrize("rule", ["count", "conjunction"])
def test_counted_pixels_have_their_shapley_values(rule):
    kinds = torch.zeros(1, 64, dtype=torch.int64)
    kinds[0, [3, 40]], kinds[0, [9, 33]] = 1, 2
    lab = Counted(kinds, rule)
    # Sums of 24 multiples of 1 / 24 in float32.
    found = shapley(lab, lab.images[0], [3, 40, 9, 33])
    torch.testing.assert_close(found, lab.values[0].flatten(), atol=1e-5, rtol=0)


@given(st.lists(st.integers(0, 2), min_size=64, max_size=64))
@settings(max_examples=30, deadline=None)
def test_the_networks_count(pixels):
    ones, twos = pixels.count(1), pixels.count(2)
    for rule, first in (("count", ones), ("conjunction", min(ones, twos))):
        lab = Counted(torch.tensor([pixels]), rule)
        with torch.no_grad():
            assert lab.model(lab.images).tolist() == [[first, twos]]


def test_there_are_as_many_pixels_of_either_kind():
    kinds = counted(0, "conjunction").kinds
    assert ((kinds == 1).sum(1) == 12).all()
    assert ((kinds == 2).sum(1) == 12).all()


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.0, 1.0]), st.integers(0, 1))
@settings(max_examples=20, deadline=None)
def test_a_linear_map_sums_exactly_to_the_change_of_its_output(seed, rising, background, target):
    lab = replace(linear(seed, rising=rising), background=background, target=target)
    with torch.no_grad():
        changes = lab.model(lab.images) - lab.model(lab.replacement[None])
    assert torch.equal(lab.values.sum((1, 2, 3)), changes[:, target])
    assert torch.equal(lab.gradients * (lab.images - background), lab.values)


def test_outputs_rise_from_either_replacement_before_either_network():
    for seed in range(300):  # some of which are drawn again
        lab = linear(seed, rising=True)
        for weights in (lab.weights, lab.weights.flip(1)):
            assert bool((weights @ lab.pixels.T > 0).all())
            assert bool((weights @ (lab.pixels - 1).T > 0).all())


@pytest.mark.parametrize("side", [8, 12, 25])
@pytest.mark.parametrize("rising", [False, True])
def test_each_pixel_changes_the_output_by_its_value_at_any_size(side, rising):
    lab = linear(3, rising=rising, side=side)
    assert lab.images.shape == (4, 1, side, side)
    signs = lab.weights.sign()
    assert (signs > 0).sum(1).tolist() == (signs < 0).sum(1).tolist() == [20 * side**2 // 64] * 2
    before = lab.model(lab.images)[:, 0]
    for place in (0, side * side // 2, side * side - 1):
        without = lab.images.flatten(1)
        without[:, place] = 0
        changed = before - lab.model(without.view_as(lab.images))[:, 0]
        assert changed.tolist() == lab.values.flatten(1)[:, place].tolist()  # exact in float32
