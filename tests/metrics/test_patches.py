"""A grid numbers its cells in reading order, and training images lose one patch with known odds."""

import numpy as np
import pytest
import torch

import oracles_deletion as oracles
from attributionlab import AttributionLabError
from attributionlab.metrics import grid_patches, patch_deleted


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("height", "width", "side"), [(4, 4, 2), (6, 9, 3), (8, 4, 4), (5, 5, 5)])
def test_every_pixel_lies_in_the_cell_that_its_place_says(height, width, side):
    grid = grid_patches(height, width, side**2)
    for row in range(height):
        for column in range(width):
            assert int(grid[row, column]) == oracles.cell((row, column), height, width, side)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((8, 8, 15), "patches is 15: take a square number from 4 on"),
        ((8, 8, 1), "patches is 1: take a square number"),
        ((8, 8, -4), "patches is -4: take a square number"),
        ((8, 8, True), "patches are of type bool"),
        ((8, 8, "16"), "patches are of type str"),
        ((8, 10, 16), "4 x 4, which does not divide 8 x 10 pixels: take another number, crop"),
        ((10, 8, 16), "4 x 4, which does not divide 10 x 8 pixels"),
        ((0, 8, 16), "height is 0"),
        ((8, 1.5, 16), "width is 1.5"),
    ],
)
def test_a_grid_that_does_not_fit_is_refused_in_one_line(asked, said):
    with pytest.raises(AttributionLabError, match=said) as refusal:
        grid_patches(*asked)
    assert "\n" not in str(refusal.value)


def test_an_image_loses_one_whole_patch_or_nothing():
    images = 1 + torch.rand(200, 3, 6, 6, generator=generator(1))
    cells = grid_patches(6, 6, 9)
    lost = (patch_deleted(images, 9, 0.0, generator=generator()) == 0).all(1)
    for gone in lost:
        found = cells[gone].unique()
        assert len(found) <= 1
        assert bool(gone.any()) == (len(found) == 1)
        if len(found):
            assert torch.equal(gone, cells == found)


def test_half_of_the_images_lose_a_patch_and_each_patch_equally_often():
    n = 20_000
    lost = patch_deleted(torch.ones(n, 1, 2, 2), 4, 0.0, generator=generator())[:, 0] == 0
    # Five standard deviations of binomial counts.
    assert abs(int(lost.any(2).any(1).sum()) - n / 2) < 5 * (n / 4) ** 0.5
    for count in lost.sum(0).flatten().tolist():
        assert abs(count - n / 8) < 5 * (n * 7 / 64) ** 0.5


def test_shares_of_none_and_all_are_exact():
    images = torch.ones(50, 1, 4, 4)
    assert torch.equal(patch_deleted(images, 4, 0.0, share=0, generator=generator()), images)
    lost = patch_deleted(images, 4, 0.0, share=1, generator=generator())
    assert lost.sum((1, 2, 3)).tolist() == [12] * 50


def test_the_replacement_may_be_an_image_and_the_patches_those_of_each_image():
    images, filling = torch.zeros(2, 1, 2, 2), torch.arange(4.0).view(1, 2, 2) + 1
    patches = torch.tensor([[[[0, 0], [1, -1]]], [[[1, 2], [-1, 0]]]])
    allowed = [{(1, 2, 0, 0), (0, 0, 3, 0)}, {(1, 0, 0, 0), (0, 2, 0, 0), (0, 0, 0, 4)}]
    seen = [set(), set()]
    for seed in range(40):
        made = patch_deleted(images, patches, filling, share=1, generator=generator(seed))
        for each, found in zip(seen, made, strict=True):
            each.add(tuple(found.flatten().int().tolist()))
    assert seen == allowed


def test_only_patches_that_an_image_has_are_drawn():
    images = torch.ones(300, 1, 2, 2)
    lost = patch_deleted(
        images, torch.tensor([[0, 0], [-1, 3]]), 0.0, share=1, generator=generator()
    )
    counts = [int((each == 0).sum()) for each in lost]
    assert set(counts) == {1, 2}


def test_an_image_without_patches_loses_nothing():
    patches = torch.tensor([[[[0, 0], [1, 1]]], [[[-1, -1], [-1, -1]]]])
    lost = patch_deleted(torch.ones(2, 1, 2, 2), patches, 0.0, share=1, generator=generator())
    assert lost.sum((1, 2, 3)).tolist() == [2, 4]


def test_pixels_in_no_patch_are_never_deleted():
    images, patches = torch.ones(40, 1, 2, 2), torch.tensor([[0, 1], [-1, -1]])
    lost = patch_deleted(images, patches, 0.0, generator=generator()) == 0
    assert 0 < int(lost.any(3).any(2).sum()) < 40
    assert not lost[:, :, 1].any()


def test_draws_repeat_with_the_seed_and_leave_the_global_generator_alone():
    images, before = torch.ones(20, 1, 4, 4), torch.get_rng_state()
    one, same, other = (patch_deleted(images, 4, 0.0, generator=generator(s)) for s in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)
    assert bool((images == 1).all())


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"share": 1.5}, "share is 1.5"),
        ({"generator": None}, "the generator is of type NoneType"),
        ({"patches": torch.zeros(4, 4)}, "pass a label map of integers"),
        ({"patches": torch.zeros(3, 4, dtype=torch.int64)}, "pass a label map of integers"),
        ({"patches": torch.zeros(4, 4, dtype=torch.int64)}, "numbered up to 0"),
        ({"patches": torch.full((4, 4), 10**9)}, "numbered up to 1000000000"),
        ({"patches": 25}, "does not divide 4 x 4"),
        ({"patches": np.zeros((4, 4), dtype=int)}, "patches are of type ndarray"),
        ({"images": torch.ones(2, 1, 4, 4, dtype=torch.uint8)}, "pass images.float"),
        ({"replacement": torch.nan}, "nan at .* is no finite"),
        ({"replacement": torch.tensor(1j)}, "is no type of real numbers"),
        ({"images": torch.zeros(4, 4)}, "images are torch.float32"),
    ],
)
def test_bad_settings_are_refused_in_one_line(changed, said):
    call = {"images": torch.ones(2, 1, 4, 4), "patches": 4, "replacement": 0.0}
    with pytest.raises(AttributionLabError, match=said) as refusal:
        patch_deleted(**{**call, "generator": generator(), **changed})
    assert "\n" not in str(refusal.value)
