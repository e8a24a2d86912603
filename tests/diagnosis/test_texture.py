"""How values vary over equal pixels: by chance, or in the pattern of a kernel."""

import math

import numpy as np
import pytest
import torch
from scipy import ndimage

import attributionlab as al
from attributionlab.verdicts.diagnosis.likeness import texture_of
from diagnosis.failures import blurred, case_of, noise, right


@pytest.fixture(scope="module")
def case():
    return case_of(al.load("multi-color-sum", image_size=72), 3)


def texture(case, maps):
    return texture_of(maps, case.truth.signed, case.images, case.patches)


def pixels(case, reach, within):
    """How many lie within reach of a patch, or do not."""
    grown = ndimage.maximum_filter(case.patches.numpy() > 0, (1, 2 * reach + 1, 2 * reach + 1))
    return int((grown == within).sum())


def chance(*counts):
    """Four standard deviations of a ratio of two means of n uniform values, sqrt(1 / (3 n)) of each."""
    return 4 * sum(math.sqrt(1 / (3 * count)) for count in counts)


def periodic(case):
    """Values that depend on the position under a kernel of three by three alone."""
    kernel = torch.rand(3, 3, generator=torch.Generator().manual_seed(0))
    side = case.images.shape[-1]
    return kernel.repeat(side // 3, side // 3).expand(len(case.images), 1, side, side)


def test_the_truth_is_even_on_a_clean_background(case):
    assert texture(case, right(case)) == (0,) * 7


def test_values_that_differ_between_colors_only_are_even(case):
    colors = case.env.counting.classes_of(case.images) + 1
    even = texture(case, colors / 4 * right(case))
    assert even.unevenness == pytest.approx(0, abs=1e-14)


def test_chance_has_no_pattern(case):
    found = texture(case, noise(case) * right(case))
    # Uniform values: variance 1/12 over a mean square of 1/3. Of n values either has a relative
    # standard deviation of sqrt(0.8 / n), from fourth moments of 1/80 and 1/5; four of both together.
    relevant = int((case.truth.signed != 0).sum())
    assert found.unevenness == pytest.approx(0.25, rel=4 * 2 * math.sqrt(0.8 / relevant))
    assert (found.recurrence, found.smoothness) == (0, 0)
    found = texture(case, noise(case))
    assert found.background_level == pytest.approx(1, rel=chance(relevant, pixels(case, 9, False)))
    assert found.background_recurrence == 0


def test_a_kernels_pattern_recurs_and_a_blur_is_smooth(case):
    found = texture(case, periodic(case) * right(case).abs())
    assert found.recurrence > 0.95
    assert found.smoothness < 0.5
    found = texture(case, periodic(case))
    assert found.background_recurrence > 0.95
    found = texture(case, blurred(case, 6).float())
    assert found.smoothness > found.recurrence > 0.2


def test_correlations_are_those_of_pairs_one_by_one(case):
    maps = (noise(case) + periodic(case)) * right(case)
    values, colors, residuals = maps[:, 0].double().numpy(), case.images.numpy(), {}
    for b, image in enumerate(values):
        groups = {}
        for y, x in np.argwhere(case.truth.signed[b, 0].numpy() != 0):
            groups.setdefault(tuple(colors[b, :, y, x]), []).append((y, x))
        for color, places in groups.items():
            mean = np.mean([image[place] for place in places])
            residuals |= {(b, *place): (color, image[place] - mean) for place in places}
    products, squares = [], []
    for (b, y, x), (color, value) in residuals.items():
        for other in ((b, y + 3, x), (b, y, x + 3)):
            if other in residuals and residuals[other][0] == color:
                products.append(value * residuals[other][1])
                squares.append((value**2 + residuals[other][1] ** 2) / 2)
    found = texture(case, maps)
    # Sums of some thousand float64 terms in another order.
    assert found.recurrence == pytest.approx(sum(products) / sum(squares), abs=1e-9)
    within = sum(value**2 for _, value in residuals.values())
    assert found.unevenness == pytest.approx(within / (values**2).sum(), abs=1e-9)


@pytest.mark.long
def test_background_is_near_within_a_16th_and_far_beyond_an_eighth(case):
    patches = case.patches.numpy() > 0
    maps = (case.truth.signed != 0).float()
    for b, y, x in np.argwhere(~patches):
        near, reach = (
            patches[b, max(0, y - r) : y + r + 1, max(0, x - r) : x + r + 1].any() for r in (4, 9)
        )
        maps[b, 0, y, x] = 0.5 if near else 7 if reach else -0.25
    found = texture(case, maps)
    assert (found.background_level, found.background_reach) == (0.25, 0.5)


def test_what_leaks_out_of_patches_does_not_reach_far(case):
    assert texture(case, blurred(case, 4).float()).background_reach < 0.1
    near = pixels(case, 4, True) - int((case.patches > 0).sum())
    reach = texture(case, noise(case)).background_reach
    assert reach == pytest.approx(1, rel=chance(near, pixels(case, 9, False)))


def test_a_single_color_channel_will_do():
    gray = case_of(al.load("single-color-modulo", image_size=24), 2)
    assert texture(gray, right(gray)) == (0,) * 7
    assert texture(gray, torch.zeros_like(right(gray))) == (0,) * 7
