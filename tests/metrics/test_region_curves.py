"""Curves of regions, and what is made of them, are their definitions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles_metrics
import oracles_metrics_patches as oracles
from attributionlab import metrics
from small_networks import Squares, summing


def drawn(seed, height=3, width=4):
    """Model, images, targets, maps, replacement, labels of regions and the regions of each image."""
    g = torch.Generator().manual_seed(seed)

    def integers(*shape):
        return torch.randint(-3, 4, shape, generator=g).float()

    labels = torch.randint(-1, 4, (2, 1, height, width), generator=g)
    labels[0, 0, 0, :3] = torch.tensor([0, 1, 2])  # two regions at least
    regions = [
        [r for n in range(4) if (r := (each.flatten() == n).nonzero()[:, 0].tolist())]
        for each in labels
    ]
    return (
        *(Squares(integers(3, 2, height, width)).eval(), integers(2, 2, height, width)),
        *(torch.randint(3, (2,), generator=g), integers(2, 1, height, width)),
        *(integers(2, 2, 1, 1), labels, regions),
    )


@given(st.integers(0, 2**31), st.sampled_from(["morf", "lerf"]), st.booleans())
def test_curves_and_scores_are_their_definitions(seed, order, one):
    model, images, targets, maps, replacement, labels, regions = drawn(seed)
    if one:  # of the same regions, which are evaluated together
        labels, regions = labels[0, 0], regions[:1] * 2
    settings = {"replacement": replacement, "patches": labels}
    call = (model, images, targets, maps)
    curves = metrics.region_curve(*call, **settings, order=order)
    expected = [
        oracles.region_curve(
            *(model, images[i], replacement[i].expand(images[i].shape)),
            *(maps[i].flatten().tolist(), regions[i], int(targets[i]), order == "morf"),
        )
        for i in range(2)
    ]
    longest = max(map(len, expected))
    padded = [each + [math.nan] * (longest - len(each)) for each in expected]
    assert repr(curves.tolist()) == repr(padded)  # integers
    if order == "lerf" or not all(regions):
        return
    shares = [[place / (len(each) - 1) for place in range(len(each))] for each in expected]
    areas = [oracles_metrics.area(*each) for each in zip(expected, shares, strict=True)]
    # Means of at most four float64 numbers, which are integers below 2^20.
    close = {"rel": 1e-14, "abs": 1e-9, "nan_ok": True}
    assert metrics.selectivity(*call, **settings).tolist() == pytest.approx(areas, **close)
    drops = [oracles_metrics.aopc(each) for each in expected]
    assert metrics.region_perturbation(*call, **settings).tolist() == pytest.approx(drops, **close)
    above = [
        1 - area / each[0] if each[0] else math.nan
        for area, each in zip(areas, expected, strict=True)
    ]
    assert metrics.irof(*call, **settings).tolist() == pytest.approx(above, **close)


def test_regions_of_one_pixel_give_pixel_flipping():
    model, images, targets, maps, replacement, *_ = drawn(0)
    call = (model, images, targets, maps)
    pixels = torch.arange(12).view(3, 4)
    found = metrics.region_perturbation(*call, replacement=replacement, patches=pixels)
    # Means of 13 integers.
    torch.testing.assert_close(
        found, metrics.pixel_flipping(*call, replacement=replacement), rtol=1e-14, atol=0
    )


def test_what_matters_first_scores_best_in_each_direction():
    total = summing(16)
    image = torch.arange(1.0, 17).view(1, 1, 4, 4)
    call = {"images": image, "targets": torch.tensor([0]), "replacement": 0.0, "patches": 4}
    for score in (metrics.selectivity, metrics.region_perturbation, metrics.irof):
        right, wrong = (score(total, attributions=sign * image, **call) for sign in (1, -1))
        assert bool(right > wrong) == score.higher_is_better
        assert right != wrong
