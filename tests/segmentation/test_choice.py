"""A segmentation comes from a name, a function, a mask generator or label maps."""

import numpy as np
import pytest
import torch

from attributionlab import AttributionLabError
from attributionlab.base.segmentation import SEGMENTATIONS, segment

IMAGES = torch.arange(2 * 3 * 6 * 8).reshape(2, 3, 6, 8).float() % 256
MAP = torch.tensor([[4] * 8] * 3 + [[9] * 8] * 3)


def test_a_name_stands_for_its_function():
    for name in set(SEGMENTATIONS) - {"sam"}:
        settings = {"cells": 3} if name == "grid" else {}
        got = segment(IMAGES, name, highest=255, settings=settings)
        assert got.shape == (2, 6, 8)
        for image, labels in zip(IMAGES, got, strict=True):
            assert torch.equal(labels, SEGMENTATIONS[name](image, 255, **settings))


def test_the_largest_value_is_handed_on():
    seen = []
    segment(IMAGES, lambda image, highest: seen.append(highest) or MAP, highest=300.0)
    assert seen == [300.0, 300.0]


def test_a_function_gets_the_settings_and_its_labels_become_contiguous():
    def own(image, highest, *, split):
        labels = np.zeros(image.shape[1:], dtype=np.int32)
        labels[split:] = 5
        return labels

    got = segment(IMAGES, own, highest=255, settings={"split": 2})
    assert got.dtype == torch.int64
    assert (got[:, :2] == 0).all()
    assert (got[:, 2:] == 1).all()


@pytest.mark.parametrize("maps", [MAP, MAP.numpy(), MAP.expand(2, -1, -1), MAP.int()])
def test_label_maps_are_taken_for_one_image_or_for_each(maps):
    expected = (MAP == 9).long().expand(2, -1, -1)
    assert torch.equal(segment(IMAGES, maps, highest=255), expected)


def test_each_image_has_labels_of_its_own():
    maps = torch.stack([MAP, torch.arange(48).reshape(6, 8)])
    got = segment(IMAGES, maps, highest=255)
    assert got.amax((1, 2)).tolist() == [1, 47]


def test_patches_are_the_environments_own():
    patches = torch.zeros(2, 6, 8, dtype=torch.int64)
    patches[0, :2, :2], patches[0, 4:, 4:], patches[1, 0, 0] = 1, 2, 2
    got = segment(IMAGES, "patches", highest=255, patches=patches)
    assert torch.equal(got[0], patches[0])
    assert torch.equal(got[1], (patches[1] > 0).long())


def test_an_object_that_generates_masks_is_a_segmentation():
    class Masks:
        def generate(self, image):
            return [{"segmentation": image[..., 0] > image.mean()}]

    got = segment(IMAGES, Masks(), highest=255)
    for image, labels in zip(IMAGES, got, strict=True):
        shown = image.numpy().astype(np.uint8)
        assert torch.equal(labels.bool(), torch.from_numpy(shown[0] > shown.mean()))


@pytest.mark.parametrize(
    ("segmentation", "settings", "message"),
    [
        ("quikshift", {}, "segmentation is 'quikshift': did you mean 'quickshift'?"),
        ("patch", {}, "segmentation is 'patch': did you mean 'patches'?"),
        ("zzz", {}, "known are felzenszwalb, grid, patches, pixels, quickshift, sam, slic"),
        ("slic", {"n_segment": 3}, "'slic' has no setting 'n_segment': did you mean 'n_segments'?"),
        ("grid", {"image": 3}, "'grid' has no setting 'image': known are cells"),
        ("patches", {}, "segmentation 'patches' has no label map: pass patches="),
        (MAP, {"cells": 3}, "settings are {'cells': 3}: this segmentation takes none"),
        (MAP[:5], {}, r"label maps of shape \(5, 8\): .* of shape \(6, 8\) or \(2, 6, 8\)"),
        (17, {}, "segmentation is 17: pass a name, a function, an object with generate"),
        (MAP.float(), {}, r"labels of shape \(6, 8\) \(kind 'f'\) .*one integer for each pixel"),
        (lambda image, highest: MAP.T, {}, r"labels of shape \(8, 6\) .* an image of \(6, 8\)"),
        (lambda image, highest: "labels", {}, r"labels of shape \(\) \(kind 'U'\)"),
    ],
)
def test_what_is_no_segmentation_is_refused(segmentation, settings, message, without_shape_checks):
    with pytest.raises(AttributionLabError, match=message):
        segment(IMAGES, segmentation, highest=255, settings=settings)
