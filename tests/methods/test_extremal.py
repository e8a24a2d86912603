"""Extremal perturbations and their operators agree with the paper's formulas in loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles_methods as twins
from attributionlab.base import GuardWarning
from attributionlab.methods import collect_notices, extremal, extremal_perturbation
from attributionlab.methods.baselines import blur_pyramid
from attributionlab.methods.extremal import SmoothMask, area_gap, blurred


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


@pytest.mark.parametrize("together", [1, 7 * 1152, 2**20], ids=["one", "seven", "all"])
def test_every_bit_is_the_same_however_many_shifts_are_computed_together(monkeypatch, together):
    source = torch.Generator().manual_seed(0)
    masks = SmoothMask(torch.zeros(2, 1, 23, 24), 4.0, 2)  # 1152: 288 cells of 4 pixels
    cells = torch.rand(2, *masks.grid, generator=source).requires_grad_()
    slopes = torch.randn(2, 1, 23, 24, generator=source)

    def found():
        smooth = masks(cells)
        return smooth, torch.autograd.grad(smooth, cells, slopes)[0]

    usual = found()
    monkeypatch.setattr(extremal, "CACHED", together)
    assert all(torch.equal(*both) for both in zip(usual, found(), strict=True))


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


TARGETS = torch.zeros(2, dtype=torch.int64)


class Square(nn.Module):
    """How bright a square of 8 x 8 pixels is, less what lies around it."""

    def __init__(self, y, x):
        super().__init__()
        self.y, self.x = y, x

    def forward(self, inputs):
        inside = inputs[:, 0, self.y : self.y + 8, self.x : self.x + 8]
        return 0.5 * inside.sum((1, 2))[:, None]


@pytest.fixture(scope="module")
def images():
    """White on black, the square among others: what is hidden grows dark."""
    image = torch.zeros(2, 1, 24, 24)
    image[0, :, 2:10, 12:20] = 1
    image[0, :, 14:22, 3:11] = 1
    image[1, :, 2:10, 12:20] = 1
    return image


@pytest.mark.long
def test_the_mask_covers_the_square_that_the_output_reads(images):
    common = {"area": 64 / 576, "blur_sigma": 8.0, "iterations": 200}
    masks = extremal_perturbation(Square(2, 12), images, TARGETS, **common)
    assert masks.shape == (2, 1, 24, 24)
    assert not masks.requires_grad
    assert float(masks.min()) >= 0
    assert float(masks.max()) <= 1
    for mask in masks[:, 0]:
        assert float(mask[2:10, 12:20].mean()) > 0.7
        assert float(mask[12:].max()) < 0.2
        # The area's weight has yet to double: the mask still reaches beyond the square.
        assert 64 / 576 < float(mask.mean()) < 0.2


def test_two_iterations_by_hand():
    """One pixel a cell and a kernel of one cell: the mask is the cells."""
    images = torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]]])
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    common = {"sigma": 0.4, "step": 1, "iterations": 2, "area": 0.25, "blur_sigma": 1e-6}
    with collect_notices():  # without a blur the output has no gradient
        got = extremal_perturbation(model, images, TARGETS[:1], learning_rate=0.001, **common)
    # All four tie for the one place, so each is m - 1/4 too much: the gap's slope is 2 (m - 1/4) / 4.
    first = 300 * 2 * 0.75 / 4
    value = 1 - 0.001 * first
    second = 300 * 1.0035 * 2 * (value - 0.25) / 4
    value -= 0.001 * (0.9 * first + 0.1 * second)
    torch.testing.assert_close(got, torch.full((1, 1, 2, 2), value))


@pytest.mark.long
def test_the_weights_set_the_balance(images):
    common = {"iterations": 40, "blur_sigma": 8.0}
    blind = extremal_perturbation(Square(2, 12), images, TARGETS, output_weight=0, **common)
    assert torch.equal(blind[0], blind[1])  # the area alone decides
    free = extremal_perturbation(Square(2, 12), images, TARGETS, area_weight=0, **common)
    assert float(free.min()) > 0.97  # nothing makes the mask smaller


def test_an_output_without_gradients_is_told_of(images):
    constant = nn.Sequential(nn.Flatten(), nn.Linear(576, 1))
    nn.init.zeros_(constant[1].weight)
    with pytest.warns(GuardWarning, match=r"of 2 images .* \(in up to 100% of them\), for .*es$"):
        extremal_perturbation(constant, images, TARGETS, iterations=2)
    with pytest.warns(
        GuardWarning, match=r"; pass normalized=True \(--set normalized=True\) to st"
    ):
        extremal_perturbation(constant, images, TARGETS, iterations=2, normalized=False)
    with collect_notices() as findings:
        extremal_perturbation(Square(2, 12), images, TARGETS, iterations=2)
    assert [finding.images for finding in findings] == [0]


def test_exact_colors_are_seen_only_through_a_mask_that_begins_at_one():
    env = al.load("multi-color-sum-in-distribution", image_size=72)
    inputs, labels = env.batch(1)
    pyramid = blur_pyramid(inputs, 20 * 72 / 224, 8)
    counts = {}
    for normalized in (False, True):
        smooth = SmoothMask(inputs, 21 * 72 / 224, 2, normalized)
        kept = blurred(pyramid, smooth(torch.ones(1, *smooth.grid)))
        counts[normalized] = env.model(kept)[0, labels[0]]
    assert counts[True] == env.model(inputs)[0, labels[0]] > 50
    assert counts[False] == 0


def test_cells_stay_between_0_and_1(images):
    with collect_notices():
        masks = extremal_perturbation(
            Square(2, 12), images, TARGETS, learning_rate=1.0, output_weight=0, iterations=5
        )
    assert float(masks.min()) >= 0
    assert float(masks.max()) <= 1
