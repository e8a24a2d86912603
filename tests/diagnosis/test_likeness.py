"""What maps look like is recognized, with its parameter, and undone where that is possible."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

import attributionlab as al
from attributionlab.verdicts import blurred as gaussian
from attributionlab.verdicts.diagnosis.likeness import (
    LARGEST_SHIFT,
    SIGMAS,
    best_shift,
    correlation,
    look_alikes,
    translated,
)
from attributionlab.verdicts.diagnosis.texture import texture_of
from diagnosis.failures import (
    blurred,
    case_of,
    flipped,
    foreground,
    likeness_of,
    noise,
    right,
    targets_of,
    truths_of,
)

CLAIMS = ("signed", "overall", "positive", "positive-smoothed")


@pytest.fixture(scope="module")
def cases():
    names = ("multi-color-sum", "multi-color-sum-distractors", "single-color-modulo")
    return [case_of(al.load(name, image_size=72), 4) for name in names]


@pytest.fixture(scope="module")
def case(cases):
    return cases[1]


def found(likeness, cause):
    [each] = [each for each in likeness.ranked if each.cause == cause]
    return each


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_truth_is_most_like_itself(cases, claim):
    for case in cases:
        likeness = likeness_of(case, right(case), claim)
        assert likeness.truth == pytest.approx(1, abs=1e-5)  # float32 sums over 5,184 pixels
        if claim != "positive-smoothed":
            assert likeness.f1 == 1
            assert all(each.explains <= 0 for each in likeness.ranked)


def test_flipped_images_are_counted_and_righted(cases):
    for case in cases:
        each = found(likeness_of(case, flipped(case)), "sign-flips")
        assert "3 of the 4 images (samples 1, 2, 3)" in each.looks
        assert (each.f1, each.explains) == (1, 0.75)
        assert each.similarity == pytest.approx(1, abs=1e-5)


def test_images_keep_their_numbers_though_some_have_no_truth(case):
    signed = case.truth.signed.clone()
    signed[1] = 0
    given = (flipped(case), signed, case.images, case.patches, case.env.baseline, "signed")
    said = found(look_alikes(*given), "sign-flips").looks
    assert said.endswith("wrong in 2 of the 3 images with such a truth (samples 2, 3)")
    said = found(look_alikes(*given, tested=32), "sign-flips").looks
    assert said.endswith("3 images with such a truth among the first 4 (samples 2, 3)")


def test_of_more_images_that_were_tested_these_are_the_first(case):
    given = (case.truth.signed, case.images, case.patches, case.env.baseline, "signed")
    some = found(look_alikes(flipped(case), *given, tested=5), "sign-flips")
    assert some.looks.endswith("wrong in 3 of the first 4 images (samples 1, 2, 3)")
    assert not some.throughout
    every = found(look_alikes(-right(case), *given, tested=5), "sign-flips")
    assert every.looks.endswith("wrong in each of the first 4 images")
    assert every.throughout
    every = found(look_alikes(-right(case), *given, tested=4), "sign-flips")
    assert every.looks.endswith("wrong in each of the 4 images")


def test_signs_are_no_failure_where_the_claim_is_about_none(case):
    likeness = likeness_of(case, flipped(case), "overall")
    assert likeness.f1 == 1
    assert "sign-flips" not in {each.cause for each in likeness.ranked}


@pytest.mark.parametrize(
    ("step", "claim"),
    [
        *((step, "signed") for step in [(3, 0), (0, -3), (-1, 2), (8, 8), (-8, 0)]),
        *(((-1, 2), claim) for claim in ("overall", "positive")),
    ],
)
def test_shifts_are_measured_and_taken_back(case, step, claim):
    maps = torch.roll(right(case), step, (2, 3))
    each = likeness_of(case, maps, claim).ranked[0]
    rows, columns = (
        f"{number} {noun}{'s' * (abs(number) != 1)}"
        for number, noun in zip(step, ("row", "column"), strict=True)
    )
    assert each.looks == f"the truth shifted by {rows}, {columns}"
    # Patches that a roll moves out at one edge and in at the other are lost.
    assert each.f1 > 0.8


def test_the_shift_is_the_best_of_all_shifts_one_by_one(case):
    generator = torch.Generator().manual_seed(3)
    maps = torch.roll(right(case), (-2, 5), (2, 3)) + 0.5 * torch.randn(
        right(case).shape, generator=generator
    )
    truth = right(case).double()
    scores = {}
    for dy in range(-LARGEST_SHIFT, LARGEST_SHIFT + 1):
        for dx in range(-LARGEST_SHIFT, LARGEST_SHIFT + 1):
            moved = torch.roll(truth, (dy, dx), (2, 3))
            scores[dy, dx] = sum(
                float(np.corrcoef(a.flatten(), b.flatten())[0, 1])
                for a, b in zip(maps, moved, strict=True)
            )
    assert max(scores, key=scores.__getitem__) == (-2, 5)
    assert "-2 rows, 5 columns" in found(likeness_of(case, maps), "shift").looks


def test_a_shift_beyond_those_looked_for_is_not_made_up(case):
    likeness = likeness_of(case, torch.roll(right(case), (30, 0), (2, 3)))
    assert all(each.explains < 0.2 for each in likeness.ranked if each.cause == "shift")


@pytest.mark.parametrize(
    ("sigma", "claim"),
    [
        *((sigma, "signed") for sigma in SIGMAS),
        *((SIGMAS[0], claim) for claim in ("overall", "positive")),
    ],
)
def test_the_width_of_a_blur_is_found(case, sigma, claim):
    each = found(likeness_of(case, blurred(case, sigma), claim), "blur")
    assert each.looks == f"the truth blurred, sigma about {sigma} pixels"
    # scipy cuts its Gaussian at 4 sigma, where 6e-5 of it lie beyond.
    assert each.similarity == pytest.approx(1, abs=1e-3)
    assert each.f1 is None


def test_a_blur_of_the_positive_truth_alone_is_a_blur_too(case):
    positive = ndimage.gaussian_filter(case.truth.positive.double().numpy(), (0, 0, 6, 6))
    for claim in CLAIMS:
        each = found(likeness_of(case, torch.from_numpy(positive), claim), "blur")
        assert each.looks.endswith("6 pixels")
        assert each.similarity > 0.99


@pytest.mark.long
def test_maps_that_look_at_the_input_only_are_recognized(case):
    edges = torch.stack(
        [
            torch.from_numpy(np.hypot(ndimage.sobel(image, 0), ndimage.sobel(image, 1)))
            for image in case.images.sum(1).numpy()
        ]
    )[:, None]
    maps = {
        "foreground": foreground(case),
        "filled-patches": (case.patches > 0).float()[:, None],
        "edges": edges,
    }
    for claim in ("signed", "overall"):
        for cause, each in maps.items():
            best = likeness_of(case, each, claim).ranked[0]
            assert best.cause == cause
            assert best.similarity == pytest.approx(1, abs=1e-5)
    number = case_of(al.load("number-checker", image_size=24), 4)
    distance = (number.images - number.env.baseline).abs().sum(1, keepdim=True)
    assert found(likeness_of(number, distance), "baseline-distance").similarity == pytest.approx(
        1, abs=1e-5
    )


def test_maps_without_signs_or_negative_values_are_recognized(case):
    assert likeness_of(case, right(case).abs()).ranked[0].cause == "unsigned"
    assert likeness_of(case, right(case).clamp(min=0)).ranked[0].cause == "positive-only"
    causes = {each.cause for each in likeness_of(case, right(case)).ranked}
    assert not causes & {"unsigned", "positive-only"}


TURNS = {
    "swapped": lambda maps: maps.transpose(2, 3),
    "left to right": lambda maps: maps.flip(3),
    "upside down": lambda maps: maps.flip(2),
    "180 degrees": lambda maps: maps.flip(2, 3),
    "90 degrees clockwise": lambda maps: maps.rot90(-1, (2, 3)),
    "90 degrees counterclockwise": lambda maps: maps.rot90(1, (2, 3)),
    "each in reverse order": lambda maps: maps.transpose(2, 3).flip(2, 3),
}


@pytest.mark.long
def test_the_truth_of_another_class_is_told_from_wrong_signs(cases):
    for case in cases[:2]:
        classes = torch.stack(truths_of(case))
        targets = targets_of(case)
        images = torch.arange(len(targets))
        for other in ((targets + 1) % len(classes), torch.zeros_like(targets)):
            maps = classes[other, images].float()
            wrong = int((other != targets).sum())
            best = likeness_of(case, maps).ranked[0]
            if 2 * wrong >= len(targets):
                assert best.cause == "wrong-class"
                how_many = "each" if wrong == len(targets) else str(wrong)
                assert f"in {how_many} of the 4 images" in best.looks
                assert best.f1 == 1
                assert best.similarity == pytest.approx(1, abs=1e-5)
        for maps in (right(case), flipped(case), -right(case), noise(case), foreground(case)):
            assert "wrong-class" not in {each.cause for each in likeness_of(case, maps).ranked}


@pytest.mark.parametrize("claim", ["signed", "overall", "positive"])
def test_an_offset_is_measured_on_the_background_and_taken_off(case, claim):
    truth = right(case)
    maps = (truth - truth.amin((1, 2, 3), keepdim=True)) / 2  # min-max, from -1 to 1
    best = likeness_of(case, maps, claim).ranked[0]
    assert (best.cause, best.f1) == ("offset", 1)
    assert best.looks == "the truth plus an offset of about 0.5"


def test_an_offset_smaller_than_almost_nothing_is_none(case):
    causes = {each.cause for each in likeness_of(case, right(case) + 0.04).ranked}
    assert "offset" not in causes


def test_maps_of_zeros_are_left_out_of_what_others_look_like(case):
    maps = torch.roll(right(case), (3, 3), (2, 3))
    maps[1] = 0
    likeness = likeness_of(case, maps)
    assert likeness.without_zeros
    assert likeness.ranked[0].cause == "shift"
    assert likeness.ranked[0].similarity > 0.95
    some = flipped(case)
    some[1] = 0
    said = found(likeness_of(case, some), "sign-flips").looks
    assert said.endswith(
        "2 of the 3 images with such a truth and a map that is not zero (samples 2, 3)"
    )


def windows(case, start):
    """Every window of 3 x 3 that holds relevant pixels, filled, one by one."""
    places = right(case)
    filled = torch.zeros_like(places)
    for y in range(-start, places.shape[2], 3):
        for x in range(-start, places.shape[3], 3):
            window = (..., slice(max(y, 0), y + 3), slice(max(x, 0), x + 3))
            some = places[window]
            highest, lowest = (some.amax((2, 3), keepdim=True), some.amin((2, 3), keepdim=True))
            filled[window] = highest.clamp(min=0) + lowest.clamp(max=0)
    return filled


@pytest.mark.parametrize("start", [0, 1, 2])
def test_a_gradient_without_the_input_is_no_blur(cases, start):
    for case in cases:
        likeness = likeness_of(case, windows(case, start))
        assert likeness.ranked[0].cause == "gradient-without-input"
        assert likeness.ranked[0].similarity == pytest.approx(1, abs=1e-5)
        assert found(likeness, "blur").explains == 0


@pytest.mark.parametrize("sigma", [1, 2, 4])
def test_a_blur_is_no_gradient_without_the_input(cases, sigma):
    for case in cases:
        likeness = likeness_of(case, blurred(case, sigma))
        assert likeness.ranked[0].cause in ("blur", "noise-floor")
        dense = found(likeness, "gradient-without-input")
        assert found(likeness, "blur").explains > dense.explains


@pytest.mark.parametrize("name", TURNS)
def test_turned_maps_are_turned_back(case, name):
    each = likeness_of(case, TURNS[name](right(case))).ranked[0]
    assert (each.cause, each.f1) == ("orientation", 1)
    assert name in each.looks


def test_outliers_a_floor_of_noise_and_unequal_sizes_are_undone(case):
    generator = torch.Generator().manual_seed(0)
    outlier = right(case)
    outlier[:, 0, 0, 0] = 100
    floor = right(case) + 0.05 * torch.randn(outlier.shape, generator=generator)
    sizes = right(case) * torch.empty(outlier.shape).uniform_(0.2, 1, generator=generator)
    for cause, maps in (("outliers", outlier), ("noise-floor", floor), ("sizes", sizes)):
        each = likeness_of(case, maps).ranked[0]
        assert each.cause == cause
        assert each.f1 > 0.9
        assert each.explains > 0.05


def test_a_sign_that_the_truth_lacks_is_told_whatever_its_size(cases):
    """Each sign is scaled by its own maximum (eq. 17), also if that is small."""
    generator = torch.Generator().manual_seed(0)
    for case in cases:
        noise = torch.randn(right(case).shape, generator=generator)
        # Below the floor there is no sign.
        assert likeness_of(case, right(case) + 1e-8 * noise).f1 > 0.99
        likeness = likeness_of(case, right(case) + 1e-5 * noise)
        if case.env.task == "regression":
            assert likeness.ranked[0].cause == "stray-signs"
            assert likeness.f1 < 0.6
            assert likeness.ranked[0].f1 > 0.99
        else:
            assert "stray-signs" not in {each.cause for each in likeness.ranked}


@pytest.mark.long
def test_a_constant_looks_like_a_constant_and_noise_like_nothing(cases):
    for case in cases:
        best = likeness_of(case, torch.ones_like(right(case))).ranked[0]
        assert (best.cause, round(best.similarity, 6)) == ("constant", 1)
        assert best.explains == pytest.approx(
            1 - likeness_of(case, torch.ones_like(right(case))).f1
        )
        likeness = likeness_of(case, noise(case))
        # Of 4 x 5,184 independent values a correlation has a standard deviation of 0.007.
        assert abs(likeness.truth) < 0.03
        assert all(
            abs(each.similarity) < 0.1 for each in likeness.ranked if each.cause != "constant"
        )
        assert all(each.explains < 0.05 for each in likeness.ranked)


@pytest.mark.parametrize(
    ("c", "share"), [(0, 1.0), (1 / math.sqrt(3), 0.0), (1, 0.0), (0.25, None)]
)
def test_what_a_constant_explains_is_its_evenness_beyond_that_of_uniform_noise(case, c, share):
    """Two values, 1 - c and 1 + c on every other pixel: mean 1, rms sqrt(1 + c^2)."""
    even = (
        torch.tensor([1.0 - c, 1.0 + c]).repeat(right(case).numel() // 2).reshape(right(case).shape)
    )
    likeness = likeness_of(case, even, "overall")
    each = found(likeness, "constant")
    # 5,184 float32 terms of the same size, summed in pairs: some 13 x 2^-24.
    assert each.similarity == pytest.approx(1 / math.sqrt(1 + c**2), abs=1e-6)
    noise_has = math.sqrt(3) / 2
    expected = (each.similarity - noise_has) / (1 - noise_has) if share is None else share
    # The same error, over 1 - sqrt(3) / 2 = 0.13.
    assert each.explains == pytest.approx((1 - likeness.f1) * expected, abs=1e-5)


def test_a_map_of_zeros_is_like_nothing(case):
    likeness = likeness_of(case, torch.zeros_like(right(case)))
    assert (likeness.truth, likeness.f1) == (0, 0)
    assert all(each.explains <= 0 for each in likeness.ranked)


def test_images_without_a_truth_are_left_out(case):
    signed = case.truth.signed.clone()
    signed[1:] = 0
    arguments = (case.images, case.patches, case.env.baseline, "signed")
    alone = look_alikes(
        right(case)[:1], signed[:1], *(each[:1] for each in arguments[:2]), *arguments[2:]
    )
    assert look_alikes(right(case), signed, *arguments) == alone
    nothing = look_alikes(right(case), torch.zeros_like(signed), *arguments)
    assert math.isnan(nothing.f1)
    assert nothing.ranked == ()


def test_the_logit_and_a_regression_have_no_negative_truth():
    case = case_of(al.load("multi-color-sum", image_size=24), 4, "logit")
    likeness = likeness_of(case, foreground(case))
    assert likeness.ranked[0].cause == "foreground"
    assert likeness.f1 == pytest.approx(likeness_of(case, foreground(case), "positive").f1)


def test_images_need_not_be_square(case):
    cut = [
        each[..., :60, :] for each in (right(case), case.truth.signed, case.images, case.patches)
    ]
    moved = torch.roll(cut[0], 2, 3)
    likeness = look_alikes(moved, cut[1], cut[2], cut[3], case.env.baseline, "signed")
    assert likeness.ranked[0].looks == "the truth shifted by 0 rows, 2 columns"


@pytest.fixture
def maps(generator):
    return torch.randn(3, 1, 20, 26, generator=generator)


def test_the_correlation_is_pearsons(maps):
    other = maps + torch.roll(maps, 1, 3)
    for one, two, found in zip(maps, other, correlation(maps, other), strict=True):
        expected = np.corrcoef(one.flatten(), two.flatten())[0, 1]
        # Sums of 520 float32 products of about 1 / 520.
        assert float(found) == pytest.approx(expected, abs=1e-5)


def test_a_constant_is_like_nothing(maps):
    for level in (0.0, 1.0, 0.1):
        flat = torch.full_like(maps, level)
        assert correlation(maps, flat).tolist() == [0, 0, 0]
        assert correlation(flat, flat).tolist() == [0, 0, 0]


@given(st.integers(-8, 8), st.integers(-8, 8))
def test_what_moves_out_is_lost_and_zero_moves_in(dy, dx):
    maps = torch.arange(1.0, 1 + 12 * 9).reshape(1, 1, 12, 9)
    moved = translated(maps, dy, dx)
    for y in range(12):
        for x in range(9):
            inside = 0 <= y - dy < 12 and 0 <= x - dx < 9
            assert moved[0, 0, y, x] == (maps[0, 0, y - dy, x - dx] if inside else 0)


@given(st.integers(-6, 6), st.integers(-6, 6))
def test_a_shift_is_found(dy, dx):
    maps = torch.randn(2, 1, 20, 26, generator=torch.Generator().manual_seed(0))
    assert best_shift(translated(maps, dy, dx), maps) == (dy, dx)


def test_no_shift_is_found_where_there_is_nothing(maps):
    assert best_shift(torch.zeros_like(maps), maps) == (0, 0)
    assert best_shift(maps, torch.ones_like(maps)) == (0, 0)


@pytest.mark.parametrize("sigma", [1, 4, 12, 24])
def test_a_blur_mirrors_the_image_at_its_edges(maps, sigma):
    expected = ndimage.gaussian_filter(
        maps.numpy(), (0, 0, sigma, sigma), mode="reflect", truncate=8
    )
    # float32 sums of at most 26 terms, twice.
    assert gaussian(maps, sigma).numpy() == pytest.approx(expected, abs=1e-5)


@pytest.fixture(scope="module")
def plain():
    return case_of(al.load("multi-color-sum", image_size=72), 3)


def texture(plain, maps):
    return texture_of(maps, plain.truth.signed, plain.images, plain.patches)


def pixels(plain, reach, within):
    """How many lie within reach of a patch, or do not."""
    grown = ndimage.maximum_filter(plain.patches.numpy() > 0, (1, 2 * reach + 1, 2 * reach + 1))
    return int((grown == within).sum())


def chance(*counts):
    """Four standard deviations of a ratio of two means of n uniform values, sqrt(1 / (3 n)) of each."""
    return 4 * sum(math.sqrt(1 / (3 * count)) for count in counts)


def periodic(plain):
    """Values that depend on the position under a kernel of three by three alone."""
    kernel = torch.rand(3, 3, generator=torch.Generator().manual_seed(0))
    side = plain.images.shape[-1]
    return kernel.repeat(side // 3, side // 3).expand(len(plain.images), 1, side, side)


def test_the_truth_is_even_on_a_clean_background(plain):
    assert texture(plain, right(plain)) == (0,) * 7


def test_values_that_differ_between_colors_only_are_even(plain):
    colors = plain.env.counting.classes_of(plain.images) + 1
    even = texture(plain, colors / 4 * right(plain))
    assert even.unevenness == pytest.approx(0, abs=1e-14)


def test_chance_has_no_pattern(plain):
    found = texture(plain, noise(plain) * right(plain))
    # Uniform values: variance 1/12 over a mean square of 1/3. Of n values either has a relative
    # standard deviation of sqrt(0.8 / n), from fourth moments of 1/80 and 1/5; four of both together.
    relevant = int((plain.truth.signed != 0).sum())
    assert found.unevenness == pytest.approx(0.25, rel=4 * 2 * math.sqrt(0.8 / relevant))
    assert (found.recurrence, found.smoothness) == (0, 0)
    found = texture(plain, noise(plain))
    assert found.background_level == pytest.approx(1, rel=chance(relevant, pixels(plain, 9, False)))
    assert found.background_recurrence == 0


def test_a_kernels_pattern_recurs_and_a_blur_is_smooth(plain):
    found = texture(plain, periodic(plain) * right(plain).abs())
    assert found.recurrence > 0.95
    assert found.smoothness < 0.5
    found = texture(plain, periodic(plain))
    assert found.background_recurrence > 0.95
    found = texture(plain, blurred(plain, 6).float())
    assert found.smoothness > found.recurrence > 0.2


def test_correlations_are_those_of_pairs_one_by_one(plain):
    maps = (noise(plain) + periodic(plain)) * right(plain)
    values, colors, residuals = maps[:, 0].double().numpy(), plain.images.numpy(), {}
    for b, image in enumerate(values):
        groups = {}
        for y, x in np.argwhere(plain.truth.signed[b, 0].numpy() != 0):
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
    found = texture(plain, maps)
    # Sums of some thousand float64 terms in another order.
    assert found.recurrence == pytest.approx(sum(products) / sum(squares), abs=1e-9)
    within = sum(value**2 for _, value in residuals.values())
    assert found.unevenness == pytest.approx(within / (values**2).sum(), abs=1e-9)


@pytest.mark.long
def test_background_is_near_within_a_16th_and_far_beyond_an_eighth(plain):
    patches = plain.patches.numpy() > 0
    maps = (plain.truth.signed != 0).float()
    for b, y, x in np.argwhere(~patches):
        near, reach = (
            patches[b, max(0, y - r) : y + r + 1, max(0, x - r) : x + r + 1].any() for r in (4, 9)
        )
        maps[b, 0, y, x] = 0.5 if near else 7 if reach else -0.25
    found = texture(plain, maps)
    assert (found.background_level, found.background_reach) == (0.25, 0.5)


def test_what_leaks_out_of_patches_does_not_reach_far(plain):
    assert texture(plain, blurred(plain, 4).float()).background_reach < 0.1
    near = pixels(plain, 4, True) - int((plain.patches > 0).sum())
    reach = texture(plain, noise(plain)).background_reach
    assert reach == pytest.approx(1, rel=chance(near, pixels(plain, 9, False)))


def test_a_single_color_channel_will_do():
    gray = case_of(al.load("single-color-modulo", image_size=24), 2)
    assert texture(gray, right(gray)) == (0,) * 7
    assert texture(gray, torch.zeros_like(right(gray))) == (0,) * 7
