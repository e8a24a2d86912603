"""Superpixels of pictures: the drawn regions, the paper's, and as many squares."""

import pytest
import torch

from attributionlab.papers.attributionlab import segmented_lime
from attributionlab.papers.attributionlab.photographs import Pictured
from attributionlab.papers.attributionlab.segmented_lime import (
    CONTROL,
    DRAWN_REGIONS,
    SAM,
    drawn_regions,
    superpixels_of,
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
    asked = []
    real = segmented_lime.segment

    def segment(images, name, *, highest, settings):
        if name != "sam":
            return real(images, name, highest=highest, settings=settings)
        asked.append(settings)
        return torch.arange(9).repeat(len(images), 1024 // 9 + 1)[:, :1024].view(-1, 32, 32)

    monkeypatch.setattr(segmented_lime, "segment", segment)
    found = superpixels_of(pictured(known), "sam.pth")
    assert asked == [{"weights": "sam.pth"}]
    first = [DRAWN_REGIONS, SAM] if known else [SAM]
    assert list(found) == [*first, "quickshift", "felzenszwalb", CONTROL]
    if not known:
        assert (found[CONTROL].flatten(1).amax(1) + 1).tolist() == [9, 9, 9]
