"""Operators on masks agree with their definitions, written with loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles_methods as twins
from attributionlab.methods.masking import SmoothMask, area_gap, blur_pyramid, blurred


def random(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize(
    ("height", "width", "sigma", "step"), [(8, 8, 2.0, 1), (11, 7, 3.0, 2), (10, 13, 5.0, 4)]
)
def test_a_mask_is_the_smooth_maximum_of_the_cells_in_reach(height, width, sigma, step):
    smooth = SmoothMask(torch.zeros(2, 1, height, width).double(), sigma, step)
    cells = random(2, *smooth.grid) * (random(2, *smooth.grid, seed=1) > 0.5)
    wanted = [[twins.smooth_mask(each.tolist(), height, width, sigma, step)] for each in cells]
    torch.testing.assert_close(smooth(cells), torch.tensor(wanted).double())
    single = SmoothMask(torch.zeros(2, 1, height, width), sigma, step)(cells.float())
    # Sums of up to 100 float32 terms, each with an exponent of up to 20 rounded: 20 * 2^-24 * few.
    torch.testing.assert_close(single.double(), torch.tensor(wanted).double(), rtol=0, atol=2e-5)


@pytest.mark.parametrize("normalized", [False, True])
def test_its_gradient_is_that_of_finite_differences(normalized):
    smooth = SmoothMask(torch.zeros(2, 1, 7, 8).double(), 2.5, 3, normalized)
    cells = (0.2 + 0.6 * random(2, *smooth.grid)).requires_grad_()
    assert torch.autograd.gradcheck(smooth, cells)


def test_cells_of_one_give_a_mask_of_one_only_if_it_is_normalized():
    images = torch.zeros(1, 3, 24, 20)
    plain, normalized = (SmoothMask(images, 6.0, 2, n) for n in (False, True))
    ones = torch.ones(1, *plain.grid)
    assert 0.97 < float(plain(ones).min()) < float(plain(ones).max()) < 1
    assert torch.equal(normalized(ones), torch.ones(1, 1, 24, 20))
    # Where far cells are 0 the near ones alone count, and the quotient would exceed 1.
    ones[:, 3:] = 0
    assert float(normalized(ones).max()) == 1
    torch.testing.assert_close(
        normalized(ones), (plain(ones) / plain(torch.ones_like(ones))).clamp(max=1)
    )


def test_at_the_authors_lengths_cells_of_one_give_a_mask_of_0985_to_0996():
    smooth = SmoothMask(torch.zeros(1, 3, 224, 224), 21.0, 7)
    mask = smooth(torch.ones(1, *smooth.grid))
    assert (round(float(mask.min()), 3), round(float(mask.max()), 3)) == (0.985, 0.996)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=12, max_size=12),
    st.floats(0.01, 1.0),
)
def test_the_gap_is_to_the_sorted_ideal_mask(values, area):
    masks = torch.tensor(values).double().reshape(1, 1, 3, 4)
    both = torch.cat([masks, 1 - masks])
    wanted = [twins.area_gap(each.flatten().tolist(), area) for each in both]
    torch.testing.assert_close(area_gap(both, area), torch.tensor(wanted).double())


def test_pixels_that_tie_share_the_gradient():
    masks = torch.tensor([0.5, 0.5, 0.5, 0.9, 0.1]).double().reshape(1, 1, 1, 5).requires_grad_()
    (gradient,) = torch.autograd.grad(area_gap(masks, 0.4).sum(), masks)
    # Two of five are to be 1: the 0.9 and a third of each 0.5. 2 (m - ideal) / 5.
    wanted = torch.tensor([1 / 6, 1 / 6, 1 / 6, -0.1, 0.1]).double() * 2 / 5
    torch.testing.assert_close(gradient.flatten(), wanted)


def test_the_pyramid_is_blurred_in_equal_steps():
    images = random(2, 3, 9, 7) * 255
    pyramid = blur_pyramid(images, 1.5, 4)
    assert pyramid.shape == (4, 2, 3, 9, 7)
    assert torch.equal(pyramid[0], images)
    for level, sigma in ((1, 0.5), (2, 1.0), (3, 1.5)):
        for image, got in zip(images.flatten(0, 1), pyramid[level].flatten(0, 1), strict=True):
            wanted = torch.tensor(twins.gaussian_blur(image.tolist(), sigma)).double()
            torch.testing.assert_close(got, wanted)


def test_an_image_is_blurred_where_the_mask_hides_it():
    pyramid, masks = random(8, 2, 3, 4, 5), random(2, 1, 4, 5, seed=1)
    masks[0, 0, 0, 0], masks[1, 0, 0, 0] = 1.0, 0.0
    got = blurred(pyramid, masks)
    for b, c, y, x in torch.cartesian_prod(*map(torch.arange, got.shape)).tolist():
        wanted = twins.between_levels(pyramid[:, b, c, y, x].tolist(), float(masks[b, 0, y, x]))
        assert float(got[b, c, y, x]) == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    assert torch.equal(got[0, :, 0, 0], pyramid[0, 0, :, 0, 0])
    assert torch.equal(got[1, :, 0, 0], pyramid[-1, 1, :, 0, 0])
    inside = (0.01 + 0.98 * random(2, 1, 4, 5, seed=2)).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: blurred(pyramid, m), inside)
