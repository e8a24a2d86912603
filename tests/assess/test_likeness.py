"""What maps look like is recognized, with its parameter, and undone where that is possible."""

import math

import numpy as np
import pytest
import torch
from scipy import ndimage

import attributionlab as al
from assess.failures import blurred, flipped, foreground, likeness_of, noise, right, scene_of
from attributionlab.assess.likeness import SIGMAS, look_alikes
from attributionlab.assess.moves import LARGEST_SHIFT

CLAIMS = ("signed", "overall", "positive", "positive-smoothed")


@pytest.fixture(scope="module")
def scenes():
    names = ("multi-color-sum", "multi-color-sum-distractors", "single-color-modulo")
    return [scene_of(al.load(name, image_size=72), 4) for name in names]


@pytest.fixture(scope="module")
def scene(scenes):
    return scenes[1]


def found(likeness, cause):
    [each] = [each for each in likeness.ranked if each.cause == cause]
    return each


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_truth_is_most_like_itself(scenes, claim):
    for scene in scenes:
        likeness = likeness_of(scene, right(scene), claim)
        assert likeness.truth == pytest.approx(1, abs=1e-5)  # float32 sums over 5,184 pixels
        if claim != "positive-smoothed":
            assert likeness.f1 == 1
            assert all(each.explains <= 0 for each in likeness.ranked)


def test_flipped_images_are_counted_and_righted(scenes):
    for scene in scenes:
        each = found(likeness_of(scene, flipped(scene)), "sign-flips")
        assert "3 of 4 images (1, 2, 3)" in each.looks
        assert (each.f1, each.explains) == (1, 0.75)
        assert each.similarity == pytest.approx(1, abs=1e-5)


def test_images_keep_their_numbers_though_some_have_no_truth(scene):
    signed = scene.truth.signed.clone()
    signed[1] = 0
    given = (flipped(scene), signed, scene.images, scene.patches, scene.env.baseline, "signed")
    assert "2 of 3 images (2, 3)" in found(look_alikes(*given), "sign-flips").looks


def test_signs_are_no_failure_where_the_claim_is_about_none(scene):
    likeness = likeness_of(scene, flipped(scene), "overall")
    assert likeness.f1 == 1
    assert "sign-flips" not in {each.cause for each in likeness.ranked}


@pytest.mark.parametrize("step", [(3, 0), (0, -3), (-1, 2), (8, 8), (-8, 0)])
@pytest.mark.parametrize("claim", ["signed", "overall", "positive"])
def test_shifts_are_measured_and_taken_back(scene, step, claim):
    maps = torch.roll(right(scene), step, (2, 3))
    each = likeness_of(scene, maps, claim).ranked[0]
    rows, columns = (
        f"{number} {noun}{'s' * (abs(number) != 1)}"
        for number, noun in zip(step, ("row", "column"), strict=True)
    )
    assert each.looks == f"the truth shifted by {rows}, {columns}"
    # Patches that a roll moves out at one edge and in at the other are lost.
    assert each.f1 > 0.8


def test_the_shift_is_the_best_of_all_shifts_one_by_one(scene):
    generator = torch.Generator().manual_seed(3)
    maps = torch.roll(right(scene), (-2, 5), (2, 3)) + 0.5 * torch.randn(
        right(scene).shape, generator=generator
    )
    truth = right(scene).double()
    scores = {}
    for dy in range(-LARGEST_SHIFT, LARGEST_SHIFT + 1):
        for dx in range(-LARGEST_SHIFT, LARGEST_SHIFT + 1):
            moved = torch.roll(truth, (dy, dx), (2, 3))
            scores[dy, dx] = sum(
                float(np.corrcoef(a.flatten(), b.flatten())[0, 1])
                for a, b in zip(maps, moved, strict=True)
            )
    assert max(scores, key=scores.__getitem__) == (-2, 5)
    assert "-2 rows, 5 columns" in found(likeness_of(scene, maps), "shift").looks


def test_a_shift_beyond_those_looked_for_is_not_made_up(scene):
    likeness = likeness_of(scene, torch.roll(right(scene), (30, 0), (2, 3)))
    assert all(each.explains < 0.2 for each in likeness.ranked if each.cause == "shift")


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("claim", ["signed", "overall", "positive"])
def test_the_width_of_a_blur_is_found(scene, sigma, claim):
    each = found(likeness_of(scene, blurred(scene, sigma), claim), "blur")
    assert each.looks == f"the truth blurred, sigma about {sigma} pixels"
    # scipy cuts its Gaussian at 4 sigma, where 6e-5 of it lie beyond.
    assert each.similarity == pytest.approx(1, abs=1e-3)
    assert each.f1 is None


def test_a_blur_of_the_positive_truth_alone_is_a_blur_too(scene):
    positive = ndimage.gaussian_filter(scene.truth.positive.double().numpy(), (0, 0, 6, 6))
    for claim in CLAIMS:
        each = found(likeness_of(scene, torch.from_numpy(positive), claim), "blur")
        assert each.looks.endswith("6 pixels")
        assert each.similarity > 0.99


def test_maps_that_look_at_the_input_only_are_recognized(scene):
    edges = torch.stack(
        [
            torch.from_numpy(np.hypot(ndimage.sobel(image, 0), ndimage.sobel(image, 1)))
            for image in scene.images.sum(1).numpy()
        ]
    )[:, None]
    maps = {
        "foreground": foreground(scene),
        "filled-patches": (scene.patches > 0).float()[:, None],
        "edges": edges,
    }
    for claim in ("signed", "overall"):
        for cause, each in maps.items():
            best = likeness_of(scene, each, claim).ranked[0]
            assert best.cause == cause
            assert best.similarity == pytest.approx(1, abs=1e-5)
    number = scene_of(al.load("number-checker", image_size=24), 4)
    distance = (number.images - number.env.baseline).abs().sum(1, keepdim=True)
    assert found(likeness_of(number, distance), "baseline-distance").similarity == pytest.approx(
        1, abs=1e-5
    )


def test_maps_without_signs_or_negative_values_are_recognized(scene):
    assert likeness_of(scene, right(scene).abs()).ranked[0].cause == "unsigned"
    assert likeness_of(scene, right(scene).clamp(min=0)).ranked[0].cause == "positive-only"
    causes = {each.cause for each in likeness_of(scene, right(scene)).ranked}
    assert not causes & {"unsigned", "positive-only"}


TURNS = {
    "swapped": lambda maps: maps.transpose(2, 3),
    "left to right": lambda maps: maps.flip(3),
    "upside down": lambda maps: maps.flip(2),
    "180 degrees": lambda maps: maps.flip(2, 3),
}


@pytest.mark.parametrize("name", TURNS)
def test_turned_maps_are_turned_back(scene, name):
    each = likeness_of(scene, TURNS[name](right(scene))).ranked[0]
    assert (each.cause, each.f1) == ("orientation", 1)
    assert name in each.looks


def test_outliers_a_floor_of_noise_and_unequal_sizes_are_undone(scene):
    generator = torch.Generator().manual_seed(0)
    outlier = right(scene)
    outlier[:, 0, 0, 0] = 100
    floor = right(scene) + 0.05 * torch.randn(outlier.shape, generator=generator)
    sizes = right(scene) * torch.empty(outlier.shape).uniform_(0.2, 1, generator=generator)
    for cause, maps in (("outliers", outlier), ("noise-floor", floor), ("sizes", sizes)):
        each = likeness_of(scene, maps).ranked[0]
        assert each.cause == cause
        assert each.f1 > 0.9
        assert each.explains > 0.05


def test_a_sign_that_the_truth_lacks_is_told_whatever_its_size(scenes):
    """Each sign is scaled by its own maximum (eq. 17), also if that is rounding."""
    generator = torch.Generator().manual_seed(0)
    for scene in scenes:
        maps = right(scene) + 1e-7 * torch.randn(right(scene).shape, generator=generator)
        likeness = likeness_of(scene, maps)
        if scene.env.task == "regression":
            assert likeness.ranked[0].cause == "stray-signs"
            assert likeness.f1 < 0.6
            assert likeness.ranked[0].f1 > 0.99
        else:
            assert "stray-signs" not in {each.cause for each in likeness.ranked}


def test_a_constant_looks_like_a_constant_and_noise_like_nothing(scenes):
    for scene in scenes:
        best = likeness_of(scene, torch.ones_like(right(scene))).ranked[0]
        assert (best.cause, round(best.similarity, 6)) == ("constant", 1)
        likeness = likeness_of(scene, noise(scene))
        # Of 4 x 5,184 independent values a correlation has a standard deviation of 0.007.
        assert abs(likeness.truth) < 0.03
        assert all(
            abs(each.similarity) < 0.1 for each in likeness.ranked if each.cause != "constant"
        )
        assert all(each.explains < 0.05 for each in likeness.ranked)


def test_a_map_of_zeros_is_like_nothing(scene):
    likeness = likeness_of(scene, torch.zeros_like(right(scene)))
    assert (likeness.truth, likeness.f1) == (0, 0)
    assert all(each.explains <= 0 for each in likeness.ranked)


def test_images_without_a_truth_are_left_out(scene):
    signed = scene.truth.signed.clone()
    signed[1:] = 0
    arguments = (scene.images, scene.patches, scene.env.baseline, "signed")
    alone = look_alikes(
        right(scene)[:1], signed[:1], *(each[:1] for each in arguments[:2]), *arguments[2:]
    )
    assert look_alikes(right(scene), signed, *arguments) == alone
    nothing = look_alikes(right(scene), torch.zeros_like(signed), *arguments)
    assert math.isnan(nothing.f1)
    assert nothing.ranked == ()


def test_the_logit_and_a_regression_have_no_negative_truth():
    scene = scene_of(al.load("multi-color-sum", image_size=24), 4, "logit")
    likeness = likeness_of(scene, foreground(scene))
    assert likeness.ranked[0].cause == "foreground"
    assert likeness.f1 == pytest.approx(likeness_of(scene, foreground(scene), "positive").f1)


def test_images_need_not_be_square(scene):
    cut = [
        each[..., :60, :]
        for each in (right(scene), scene.truth.signed, scene.images, scene.patches)
    ]
    moved = torch.roll(cut[0], 2, 3)
    likeness = look_alikes(moved, cut[1], cut[2], cut[3], scene.env.baseline, "signed")
    assert likeness.ranked[0].looks == "the truth shifted by 0 rows, 2 columns"
