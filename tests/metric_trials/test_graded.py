"""Graded attributions are the truth, damaged as their names say and by as much."""

import math
from itertools import pairwise

import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.metrics import parts_f1
from attributionlab.verdicts import graded_attributions, pixel_kinds
from attributionlab.verdicts.metric_trials.graded import DAMAGES, MIXED


@pytest.fixture(scope="module")
def given():
    """The truth and the kinds of pixels of six images with distractors."""
    env = al.load("multi-color-sum-distractors", image_size=48)
    dataset = env.dataset(6)
    samples = [dataset[i] for i in range(6)]
    images = torch.stack([sample.image for sample in samples])
    signed = env.truth(images, torch.stack([sample.label for sample in samples])).signed
    patches = torch.stack([sample.patches for sample in samples])
    kinds = pixel_kinds(images, patches, env.counting.classes_of(images), env.baseline)
    return signed, kinds


@pytest.fixture(scope="module")
def graded(given):
    return graded_attributions(*given, distractors=True, seed=3)


def of_kind(graded, kind):
    return {each.dose: each.maps for each in graded if each.kind == kind}


def test_there_are_more_than_a_hundred_with_names_of_their_own_and_the_truth_comes_first(
    given, graded
):
    assert len({each.name for each in graded}) == len(graded) == 122
    assert len(graded_attributions(*given)) == 119
    assert graded[0].name == "exact"
    assert torch.equal(graded[0].maps, given[0].float())
    assert all(each.maps.shape == given[0].shape for each in graded)
    assert all(each.maps.isfinite().all() for each in graded)


def test_an_image_has_the_same_maps_whatever_images_are_beside_it(given, graded):
    signed, kinds = given
    alone = graded_attributions(signed[4:5], kinds[4:5], distractors=True, seed=3, first=4)
    for one, all_ in zip(alone, graded, strict=True):
        assert one.name == all_.name
        # A blur of one image and of six may sum in another order.
        torch.testing.assert_close(one.maps, all_.maps[4:5], rtol=0, atol=1e-6)


def test_seeds_and_images_have_random_numbers_of_their_own(given, graded):
    signed, kinds = given
    noise = of_kind(graded, "noise")[1.0] - signed
    other = graded_attributions(signed, kinds, seed=4)
    assert not torch.equal(noise, of_kind(other, "noise")[1.0] - signed)
    assert not torch.equal(noise[0], noise[1])


@pytest.mark.parametrize("dose", [0.1, 0.4])
def test_so_many_pixels_have_the_wrong_sign(given, graded, dose):
    signed = given[0].float()
    maps = of_kind(graded, "signs")[dose]
    relevant = signed != 0
    assert torch.equal(maps.abs(), signed.abs())
    share = (maps == -signed)[relevant].double().mean()
    # Five standard deviations of a binomial share.
    assert abs(share - dose) < 5 * math.sqrt(dose * (1 - dose) / int(relevant.sum()))
    assert torch.equal(of_kind(graded, "signs")[1.0], -signed)


@pytest.mark.long
def test_images_are_reversed_as_a_whole(given):
    signed = given[0][:1].repeat(200, 1, 1, 1)
    kinds = given[1][:1].repeat(200, 1, 1, 1)
    maps = of_kind(graded_attributions(signed, kinds), "image signs")[0.25]
    reversed_ = (maps == -signed).flatten(1).all(1)
    assert ((maps == signed).flatten(1).all(1) | reversed_).all()
    # 50 of 200 with a standard deviation of 6.1.
    assert 25 < int(reversed_.sum()) < 75


def test_a_larger_dose_flips_drops_and_adds_where_a_smaller_one_does(graded):
    for kind, at in (("signs", -1), ("missing pixels", 0), ("specks", 1)):
        smaller = None
        for maps in of_kind(graded, kind).values():
            damaged = {
                -1: maps != graded[0].maps,
                0: (maps == 0) & (graded[0].maps != 0),
                1: (maps == 1) & (graded[0].maps == 0),
            }[at]
            assert smaller is None or (damaged | ~smaller).all()
            assert smaller is None or int(damaged.sum()) > int(smaller.sum())
            smaller = damaged


def test_rows_are_dropped_from_the_top(given, graded):
    signed = given[0].float()
    maps = of_kind(graded, "missing top")[0.25]
    for truth, found in zip(signed.flatten(1), maps.flatten(1), strict=True):
        relevant = truth.nonzero()[:, 0]
        dropped = int(0.25 * len(relevant))
        assert not found[relevant[:dropped]].any()
        assert torch.equal(found[relevant[dropped:]], truth[relevant[dropped:]])


def test_one_sign_is_too_small_or_missing(given, graded):
    signed = given[0].float()
    for kind, sign in (("missing positive", 1), ("missing negative", -1)):
        maps = of_kind(graded, kind)
        assert torch.equal(maps[0.5], torch.where(signed == sign, signed / 2, signed))
        assert torch.equal(maps[1.0], torch.where(signed == sign, 0, signed))


@pytest.mark.parametrize(("kind", "number"), [("background", 0), ("gaps", 1), ("distractors", 2)])
def test_leaks_lie_on_pixels_of_their_kind_alone(given, graded, kind, number):
    signed, kinds = given
    for dose, maps in of_kind(graded, kind).items():
        expected = torch.where(kinds == number, dose, 0.0)
        assert torch.equal(maps - signed, expected.float())
        assert (kinds == number).any()


def test_specks_lie_on_so_large_a_share_of_irrelevant_pixels(given, graded):
    signed = given[0]
    irrelevant = signed == 0
    for dose, maps in of_kind(graded, "specks").items():
        added = maps - signed
        assert not added[~irrelevant].any()
        assert ((added == 0) | (added == 1)).all()
        share, n = float(added[irrelevant].double().mean()), int(irrelevant.sum())
        assert abs(share - dose) < 5 * math.sqrt(dose * (1 - dose) / n)


def test_uneven_values_keep_their_signs_and_have_the_mean_of_a_power(given, graded):
    signed = given[0].float()
    for power, maps in of_kind(graded, "uneven").items():
        assert torch.equal(maps.sign(), signed.sign())
        values = maps[signed != 0].abs().double()
        # E u^p = 1 / (p + 1); five standard errors, of a variance of at most 1/4.
        assert abs(values.mean() - 1 / (power + 1)) < 5 * 0.5 / math.sqrt(len(values))


def test_noise_is_standard_normal_times_its_dose(given):
    signed, kinds = (each.repeat(5, 1, 1, 1) for each in given)
    maps = of_kind(graded_attributions(signed, kinds), "noise")
    noise = (maps[0.5] - signed).flatten().double() / 0.5
    n = len(noise)
    assert abs(noise.mean()) < 5 / math.sqrt(n)
    assert abs(noise.std() - 1) < 5 / math.sqrt(2 * n)
    assert abs((noise > 1.96).double().mean() - 0.025) < 5 * math.sqrt(0.025 / n)
    torch.testing.assert_close(maps[2.0] - signed, 4 * (maps[0.5] - signed), rtol=0, atol=1e-5)


def test_shifts_go_down_and_to_the_right_by_at_least_a_pixel(given, graded):
    signed = given[0].float()
    shifts = list(of_kind(graded, "shift").values())
    for pixels, maps in ((1, shifts[0]), (9, shifts[-1])):
        assert torch.equal(maps[..., pixels:, pixels:], signed[..., :-pixels, :-pixels])
        assert not maps[..., :pixels, :].any()


def test_a_blur_keeps_sums_and_loses_contrast(given, graded):
    signed = given[0].float()
    spread = [maps.square().sum() for maps in of_kind(graded, "blur").values()]
    assert spread == sorted(spread, reverse=True)
    for maps in of_kind(graded, "blur").values():
        # The image is mirrored at its edges: nothing is lost; 2,304 float32 terms.
        torch.testing.assert_close(maps.sum((1, 2, 3)), signed.sum((1, 2, 3)), rtol=0, atol=0.05)


@pytest.mark.parametrize("kind", [k for k in DAMAGES if k not in ("signs", "image signs")])
def test_more_of_a_damage_never_raises_f1(given, graded, kind):
    lowest = [
        min(float(f1.mean()) for f1 in parts_f1(maps, given[0]).values())
        for maps in of_kind(graded, kind).values()
    ]
    # Steps of chance: noise that happens to help on a few thousand pixels.
    assert all(later <= earlier + 0.01 for earlier, later in pairwise(lowest))


def test_mixtures_undergo_both_damages_in_the_order_of_the_table(given, graded):
    signed = given[0].float()
    maps = {each.name: each.maps for each in graded}
    both = maps["signs 0.1 + background 0.05"]
    flipped, leaked = of_kind(graded, "signs")[0.1], of_kind(graded, "background")[0.05]
    assert torch.equal(both, flipped + leaked - signed)
    assert len([each for each in graded if each.kind == "mixture"]) == 2 * math.comb(len(MIXED), 2)


def test_bad_numbers_and_shapes_are_refused_at_once(given):
    signed, kinds = given
    with pytest.raises(AttributionLabError, match=r"seed is -1.*first is -2.*signed has the shape"):
        graded_attributions(signed, kinds[:1], seed=-1, first=-2)
