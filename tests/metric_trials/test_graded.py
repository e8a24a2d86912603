"""Graded attributions are the truth, damaged as their names say and by as much."""

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import attributionlab as al
import oracles_leaderboard as oracles
from attributionlab.metrics import parts_f1
from attributionlab.metrics.ranking import CorrelationInterval
from attributionlab.verdicts import graded_attributions, pixel_kinds
from attributionlab.verdicts.leaderboard.metric_board import MetricInWorld, nearest_definition
from attributionlab.verdicts.metric_trials.graded import (
    ALIKE,
    DAMAGES,
    DEFINITIONS,
    DOSES,
    MIXED,
    SHARES,
    compared,
    definition_correlations,
    definition_panel,
    in_words,
)
from attributionlab.worlds import Questions


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
    assert {in_words(each.name)[:9] for each in graded[1:]} == {"the truth"}
    assert len([each for each in graded if each.kind == "mixture"]) == 2 * math.comb(len(MIXED), 2)


DAMAGES = sum(map(len, DOSES.values()))


def asked(env, number=0, seed=0):
    question = Questions(env, seed)[number]
    image, target = question.image[None], torch.tensor([question.target])
    output = question.env.outputs[0]
    truth = question.env.truth(image, target, output)
    return question, question.env.truths(image, target, output), truth


@pytest.fixture(scope="module")
def distractors():
    return asked(al.load("multi-color-sum-distractors", image_size=16))


@pytest.fixture(scope="module")
def conjunction():
    return asked(al.load("all-four", image_size=16))


def plain_cosine(first, second):
    first, second = first.flatten().numpy(), second.flatten().numpy()
    sizes = np.sqrt((first**2).sum()) * np.sqrt((second**2).sum())
    return float((first * second).sum() / sizes) if sizes else 0.0


def test_every_distinct_definition_is_damaged_alike_and_every_two_are_mixed(distractors):
    _, truths, truth = distractors
    panel = definition_panel(truths, truth, 0, 0)
    assert len(panel.maps) == 4 * (1 + DAMAGES) + 6 * len(SHARES)
    values = [truths[name].values for name in DEFINITIONS]
    scaled = [each / each[each != 0].square().mean().sqrt() for each in values]
    # float32 keeps 24 bits of maps of size 1.
    for own, each in zip(panel.maps, scaled, strict=False):
        assert torch.allclose(own.double(), each[0], atol=1e-6)
    for share, own in zip(SHARES, panel.maps[-len(SHARES) :], strict=True):
        mixed = share * scaled[2] + (1 - share) * scaled[3]
        assert torch.allclose(own.double(), mixed[0], atol=1e-6)


def test_nearness_is_the_lowest_f1_to_the_mask_and_the_cosine_to_values(distractors):
    _, truths, truth = distractors
    panel = definition_panel(truths, truth, 0, 0)
    assert not truth.mixed.any()
    # Sums of 256 values of float32 maps: 256 x 2^-24 and some.
    assert panel.nearness[:, 0] == pytest.approx(by_signs(None, panel.maps, truths), abs=1e-4)
    assert panel.nearness[0, 0] == pytest.approx(1.0)
    for place, name in enumerate(DEFINITIONS[1:], start=1):
        for row in (0, 1, place, 7, 20, -1):
            # Both sums have 256 products of float32 maps: 256 x 2^-24 and some.
            assert panel.nearness[row, place] == pytest.approx(
                plain_cosine(panel.maps[row].double(), truths[name].values), abs=1e-4
            )
        assert panel.nearness[place, place] == pytest.approx(1.0)
    noise = panel.nearness[4 + DAMAGES - 3 : 4 + DAMAGES, 0]
    assert all(less < more for more, less in pairwise(noise))


def test_two_definitions_are_apart_where_their_cosine_is_lower(distractors):
    _, truths, truth = distractors
    panel = definition_panel(truths, truth, 0, 0)
    for one, first in enumerate(DEFINITIONS):
        for two, second in enumerate(DEFINITIONS):
            cosine = plain_cosine(truths[first].values, truths[second].values)
            assert panel.apart[one, two] == (cosine < ALIKE)


def test_definitions_that_are_alike_count_once_and_one_without_values_has_no_map(conjunction):
    _, truths, truth = conjunction
    assert not truths["insertion"].values.any()  # one color alone does nothing
    panel = definition_panel(truths, truth, 0, 0)
    assert np.isnan(panel.nearness[:, 3]).all()
    assert not panel.apart[3].any()
    assert not panel.apart[:, 3].any()
    distinct = []
    for name in DEFINITIONS[:3]:
        if all(plain_cosine(truths[name].values, each) < ALIKE for each in distinct):
            distinct.append(truths[name].values)
    pairs = len(distinct) * (len(distinct) - 1) // 2
    assert len(distinct) < 3
    assert len(panel.maps) == len(distinct) * (1 + DAMAGES) + pairs * len(SHARES)


def test_a_definition_is_dropped_only_for_one_that_is_kept(distractors):
    _, _, truth = distractors
    # Each is like the one before it alone: cosines of 0.025 and 0.05 are 0.9997 and 0.9988.
    turned = torch.tensor([[math.cos(0.025 * step), math.sin(0.025 * step)] for step in range(4)])
    assert math.cos(0.025) > ALIKE > math.cos(0.05)
    values = torch.zeros(4, 1, 16, 16, dtype=torch.float64)
    values[:, 0, 0, :2] = turned
    maps = {
        name: SimpleNamespace(certain=each[None])
        for name, each in zip(DEFINITIONS, values, strict=True)
    }
    panel = definition_panel(maps, truth, 0, 0)
    assert len(panel.maps) == 2 * (1 + DAMAGES) + len(SHARES)
    for own, place in zip(panel.maps, (0, 2), strict=False):
        assert plain_cosine(own.double(), values[place]) == pytest.approx(1)


def test_images_have_other_damages_and_the_same_ones_again(distractors):
    _, truths, truth = distractors
    first, again, other, seed = (
        definition_panel(truths, truth, *key).maps for key in ((0, 0), (0, 0), (0, 1), (1, 0))
    )
    assert first.equal(again)
    assert not first.equal(other)
    assert not first.equal(seed)


def test_correlations_are_spearmans_and_of_a_definitions_own_nearness_one(conjunction):
    _, truths, truth = conjunction
    panel = definition_panel(truths, truth, 0, 0)
    scores = np.round(np.random.default_rng(0).normal(size=len(panel.maps)), 1)
    found = definition_correlations(scores, panel)
    for place in range(3):
        nearness = np.round(panel.nearness[:, place], 9).tolist()
        expected = oracles.spearman(scores.tolist(), nearness)
        assert found[place] == pytest.approx(expected, abs=1e-12)  # sums of half integers
    assert np.isnan(found[3])
    assert definition_correlations(panel.nearness[:, 1], panel)[1] == 1
    assert np.isnan(definition_correlations(np.zeros(len(panel.maps)), panel)).all()


numbers = st.one_of(st.none(), st.floats(-1, 1))


@drawn(
    st.lists(
        st.tuples(st.tuples(*[numbers] * 4), st.lists(st.booleans(), min_size=16, max_size=16)),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=50, deadline=None)
def test_questions_count_where_they_tell_two_definitions_apart(questions):
    correlations = [each for each, _ in questions]
    apart = [np.array(told).reshape(4, 4) for _, told in questions]
    means, differences = compared(np.array(correlations, float), np.array(apart))
    for one in range(4):
        expected = oracles.mean([each[one] for each in correlations])
        # Sums of four numbers up to 2: 4 x 2 x 2^-53 and some.
        assert means[one] == pytest.approx(
            math.nan if expected is None else expected, abs=1e-14, nan_ok=True
        )
        for two in range(4):
            expected = oracles.between(correlations, apart, one, two)
            assert differences[one, two] == pytest.approx(
                math.nan if expected is None else expected, abs=1e-14, nan_ok=True
            )


def interventions(model, start, end, target):
    """The output of an image with one pixel of another, for each pixel, and without any."""
    pixels = start[0].numel()
    images = start.repeat(pixels + 1, 1, 1, 1)
    flat = images.view(pixels + 1, len(start), pixels)
    for pixel in range(pixels):
        flat[pixel, :, pixel] = end.reshape(len(end), pixels)[:, pixel]
    with torch.no_grad():
        outputs = model(images)[:, target].double()
    return outputs[:-1], outputs[-1]


def by_ablation(question, maps, values):
    baseline = question.env.baseline.expand_as(question.image)
    changed, whole = interventions(
        question.env.explained_model(question.env.outputs[0]),
        question.image,
        baseline,
        question.target,
    )
    return [plain_cosine(each, whole - changed) for each in maps.double()]


def by_insertion(question, maps, values):
    baseline = question.env.baseline.expand_as(question.image).contiguous()
    changed, nothing = interventions(
        question.env.explained_model(question.env.outputs[0]),
        baseline,
        question.image,
        question.target,
    )
    return [plain_cosine(each, changed - nothing) for each in maps.double()]


def by_shapley(question, maps, values):
    return [plain_cosine(each, values["shapley"].values) for each in maps.double()]


def by_signs(question, maps, values):
    """F1 with the mask, lowest over positive, negative and all pixels, each side up to 1 (eq. 17)."""
    sign = values["mask"].values.flatten()
    found = []
    for each in maps.double():
        sides = [(side * each.flatten()).clamp(min=0) for side in (1, -1)]
        up, down = (side / side.max() if side.max() > 0 else side for side in sides)
        parts = []
        for wanted, shown in ((sign > 0, up), (sign < 0, down), (sign != 0, up + down)):
            if wanted.any():
                both = float(shown.sum()) + int(wanted.sum())
                parts.append(2 * float(shown[wanted].sum()) / both)
        found.append(min(parts))
    return found


@pytest.mark.long
def test_an_oracle_of_each_definition_estimates_it():
    rows = {name: [] for name in DEFINITIONS}
    scorers = dict(zip(DEFINITIONS, (by_signs, by_shapley, by_ablation, by_insertion), strict=True))
    for env in al.random_worlds(11, 3, "medium", 24):
        found = {name: ([], []) for name in rows}
        for number in range(3):
            question, truths, truth = asked(env, number, env.spec.seed)
            panel = definition_panel(truths, truth, 0, number)
            for name in rows:
                scores = scorers[name](question, panel.maps, truths)
                found[name][0].append(definition_correlations(np.array(scores), panel))
                found[name][1].append(panel.apart)
        for name, each in found.items():
            contrast = CorrelationInterval(1.0, 1.0, 1.0)
            row = MetricInWorld(name, env.name, "", (), "valid", "", contrast, contrast)
            means, differences = compared(*map(np.array, each))
            rows[name].append(row._replace(correlations=means, differences=differences))
    assert {name: nearest_definition(each) for name, each in rows.items()} == {
        name: name for name in DEFINITIONS
    }
