"""Superpixels of pictures, and the noise of maps: what the definitions say, pixel by pixel."""

import math

import pytest
import torch

import oracles_photographs as oracles
from attributionlab.papers.attributionlab import segmented_lime
from attributionlab.papers.attributionlab.photographs import Pictured, sign_changes
from attributionlab.papers.attributionlab.segmented_lime import (
    CONTROL,
    DRAWN_REGIONS,
    SAM,
    drawn_regions,
    scattered_share,
    superpixels_of,
    total_variation,
)
from attributionlab.papers.subjects.drawn_pictures import pictures
from attributionlab.papers.subjects.subjects import Subject


def pictured(known=True, n=3):
    drawn = pictures(n, 0)
    model = torch.nn.Flatten()
    empty = torch.full((3, 1, 1), 0.5)
    subject = Subject("pictures", model, model, drawn.images, drawn.labels, 1.0, empty, 1.0)
    return Pictured(subject, drawn.objects if known else None)


def test_drawn_regions_are_background_object_and_connected_clutter():
    """Two patches of clutter on gray, one of them cut by the object, and noise below the threshold."""
    image = torch.full((3, 8, 8), 0.5)
    inside = torch.zeros(1, 8, 8, dtype=torch.bool)
    inside[0, 2:5, 2:5] = True
    image[:, inside[0]] = 0.9
    image[0, 0, :2] = 0.8  # one patch
    image[1, 7, 5:] = 0.1  # another, in another channel
    image[2, 5, 7] = 0.5 + 0.24  # noise: less than five times 0.05
    [labels] = drawn_regions(image[None], inside[None])
    expected = torch.zeros(8, 8, dtype=torch.int64)
    expected[inside[0]] = 1
    expected[0, :2] = 2
    expected[7, 5:] = 3
    assert torch.equal(labels, expected)


def test_every_object_is_one_region_of_its_own():
    drawn = pictures(20, 1)
    labels = drawn_regions(drawn.images, drawn.objects)
    assert torch.equal(labels == 1, drawn.objects[:, 0])
    # three patches of clutter, which touch or are cut in two at times
    assert 4 <= labels.flatten(1).amax(1).double().mean() + 1 <= 6


def test_drawn_pictures_have_their_regions_and_a_grid_of_as_many_squares():
    found = superpixels_of(pictured(), None)
    assert list(found) == [DRAWN_REGIONS, "quickshift", "felzenszwalb", CONTROL]
    numbers = found[DRAWN_REGIONS].flatten(1).amax(1) + 1
    squares = [round(int(number) ** 0.5) ** 2 for number in numbers]
    assert (found[CONTROL].flatten(1).amax(1) + 1).tolist() == squares


def test_photographs_without_weights_of_sam_have_no_reference_and_no_control():
    assert list(superpixels_of(pictured(known=False), None)) == ["quickshift", "felzenszwalb"]


@pytest.mark.parametrize("known", [True, False])
def test_sam_gets_its_weights_and_is_a_reference(known, monkeypatch):
    received = []
    real = segmented_lime.segment

    def segment(images, name, *, highest, settings):
        if name != "sam":
            return real(images, name, highest=highest, settings=settings)
        received.append(settings)
        return torch.arange(9).repeat(len(images), 1024 // 9 + 1)[:, :1024].view(-1, 32, 32)

    monkeypatch.setattr(segmented_lime, "segment", segment)
    found = superpixels_of(pictured(known), "sam.pth")
    assert received == [{"weights": "sam.pth"}]
    first = [DRAWN_REGIONS, SAM] if known else [SAM]
    assert list(found) == [*first, "quickshift", "felzenszwalb", CONTROL]
    if not known:
        assert (found[CONTROL].flatten(1).amax(1) + 1).tolist() == [9, 9, 9]


@pytest.fixture
def maps(generator):
    """Maps of both signs, with exact zeros, and one without positive values; halves are exact."""
    drawn = torch.randint(-6, 7, (6, 1, 5, 4), generator=generator) / 2
    drawn[4] = -drawn[4].abs()
    drawn[5] = 0
    return drawn


def test_total_variation_is_its_definition(maps):
    expected = [oracles.total_variation(each[0].tolist()) for each in maps]
    # float64: 31 terms and a division, each rounded by at most 2^-53
    assert total_variation(maps).tolist() == pytest.approx(expected, rel=1e-14)
    assert expected[5] == 0


def test_total_variation_knows_no_scale(maps):
    assert torch.equal(total_variation(4 * maps), total_variation(maps))
    assert torch.equal(total_variation(-maps), total_variation(maps))


def test_the_largest_total_variation_is_that_of_a_checkerboard():
    board = (torch.arange(4)[:, None] + torch.arange(5)) % 2 * 2.0 - 1
    assert total_variation(board[None, None]).tolist() == [2]
    assert total_variation(torch.full((1, 1, 3, 3), -0.5)).tolist() == [0]


def test_the_scattered_share_is_its_definition(maps):
    expected = [oracles.scattered_share(each[0].tolist()) for each in maps]
    assert [math.isnan(share) for share in expected[4:]] == [True, True]
    # float64: sums of at most 20 halves are exact, one division and one difference are rounded
    assert scattered_share(maps).tolist() == pytest.approx(expected, abs=1e-15, nan_ok=True)


def test_the_main_region_has_the_largest_sum_and_touches_by_sides_alone():
    corner = torch.tensor([[[[2.0, 0.0], [0.0, 2.0]]]])
    assert scattered_share(corner).tolist() == [0.5]
    wide = torch.tensor([[[[4.0, 0.0, 3.0, 3.0, -9.0]]]])
    assert scattered_share(wide).tolist() == [pytest.approx(0.4)]
    half = torch.tensor([[[[4.0, 2.0, 1.0, 1.0]]]])
    assert scattered_share(half).tolist() == [0.25]


def test_sign_changes_are_their_definition(maps, generator):
    everywhere = torch.ones_like(maps, dtype=torch.bool)
    within = torch.rand(maps.shape, generator=generator) < 0.6
    within[3] = False
    for where in (everywhere, within):
        expected = [
            oracles.sign_changes(each[0].tolist(), inside[0].tolist())
            for each, inside in zip(maps, where, strict=True)
        ]
        assert sign_changes(maps, where).tolist() == pytest.approx(expected, nan_ok=True)
    assert math.isnan(sign_changes(maps, within)[3])
