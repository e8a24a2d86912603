"""Single deletion is its definition, and patches are what they are said to be."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles_deletion as oracles
from attributionlab import AttributionLabError
from attributionlab.metrics import (
    deletion_drops,
    grid_patches,
    idsds,
    judged_by_drops,
    patch_deleted,
    patch_sums,
    sds,
    single_deletion,
)
from small_networks import Squares, summing


def drawn(seed, n=2, channels=2, height=4, width=6, classes=3):
    g = torch.Generator().manual_seed(seed)

    def integers(*shape):
        return torch.randint(-3, 4, shape, generator=g).float()

    return (
        Squares(integers(classes, channels, height, width)).eval(),
        integers(n, channels, height, width),
        torch.randint(classes, (n,), generator=g),
        integers(n, 1, height, width),
        integers(n, channels, height, width),
    )


def as_image(tensor):
    return {
        (c, y, x): int(tensor[c, y, x])
        for c in range(tensor.shape[0])
        for y in range(tensor.shape[1])
        for x in range(tensor.shape[2])
    }


def output_of(model, target):
    weights = as_image(model.weights[target].int())

    def output(image):
        total = sum(weights[place] * value for place, value in image.items())
        return total * total - 3 * total

    return output


SEEDS = st.integers(0, 2**31)


@pytest.mark.long
@settings(max_examples=40)
@given(SEEDS, st.sampled_from([1, 3, 64]), st.booleans(), st.booleans())
def test_drops_sums_and_scores_are_their_definitions(seed, batch_size, own_regions, one_filling):
    model, images, targets, maps, filling = drawn(seed)
    height, width = images.shape[2:]
    g = torch.Generator().manual_seed(seed + 1)
    if own_regions:
        patches = torch.randint(-1, 5, maps.shape, generator=g)
        patches[0, 0, 0, 0] = 4  # so that there are five
    else:
        patches = grid_patches(height, width, 4).expand(maps.shape)
    replacement = filling[0, :, :1, :1] if one_filling else filling
    found = single_deletion(
        *(model, images, targets, maps),
        patches=patches if own_regions else 4,
        replacement=replacement,
        batch_size=batch_size,
        undefined="exclude",
    )
    fillings = replacement.expand(images.shape)
    for index in range(len(images)):
        output = output_of(model, int(targets[index]))
        image, other = as_image(images[index]), as_image(fillings[index])
        drops, sums = [], []
        for patch in range(5 if own_regions else 4):
            inside = {
                (y, x)
                for y in range(height)
                for x in range(width)
                if int(patches[index, 0, y, x]) == patch
            }
            if not inside:
                assert math.isnan(found.drops[index, patch])
                assert math.isnan(found.sums[index, patch])
                continue
            drops.append(oracles.drop(output, image, other, inside))
            sums.append(sum(int(maps[index, 0, y, x]) for y, x in inside))
            assert int(found.drops[index, patch]) == drops[-1]
            assert int(found.sums[index, patch]) == sums[-1]
        expected = oracles.rank_correlation(sums, drops)
        # A quotient of integers and one square root.
        assert float(found.scores[index]) == pytest.approx(expected, abs=1e-15, nan_ok=True)
        assert bool(found.constant_maps[index]) == (len(set(sums)) <= 1)
        assert bool(found.constant_drops[index]) == (len(set(drops)) <= 1)


def test_the_scores_are_those_of_the_parts_and_the_two_names_agree():
    model, images, targets, maps, filling = drawn(5)
    shared = {"patches": 4, "replacement": filling}
    found = single_deletion(model, images, targets, maps, **shared)
    drops = deletion_drops(model, images, targets, **shared)
    assert torch.equal(found.drops, drops)
    assert torch.equal(found.sums, patch_sums(maps, 4))
    assert torch.equal(found.scores, judged_by_drops(patch_sums(maps, 4), drops).scores)
    assert torch.equal(found.scores, sds(model, images, targets, maps, **shared))
    assert torch.equal(found.scores, idsds(model, images, targets, maps, **shared))


@pytest.mark.parametrize("metric", [sds, idsds])
def test_settings_reach_the_score(metric):
    model, images, targets, _, filling = drawn(6)
    constant = torch.ones(2, 1, 4, 6)
    shared = {"patches": 4, "replacement": filling}
    assert metric(model, images, targets, constant, **shared).tolist() == [0, 0]
    excluded = metric(model, images, targets, constant, undefined="exclude", **shared)
    assert bool(excluded.isnan().all())


def test_a_map_with_equal_sums_scores_zero_or_is_left_out_and_is_counted():
    sums = torch.tensor([[1.0, 1, 1], [1, 2, 3]]).double()
    drops = torch.tensor([[1.0, 2, 3], [1, 2, 3]]).double()
    zero, excluded = (judged_by_drops(sums, drops, undefined=u) for u in ("zero", "exclude"))
    assert zero.scores.tolist() == [0, 1]
    assert bool(excluded.scores[0].isnan())
    assert excluded.scores[1] == 1
    assert zero.constant_maps.tolist() == excluded.constant_maps.tolist() == [True, False]


def test_a_constant_map_is_constant_whatever_rounding_makes_of_its_sums():
    for seed in range(20):
        value = float(torch.rand((), generator=torch.Generator().manual_seed(seed)))
        sums = patch_sums(torch.full((1, 1, 28, 28), value, dtype=torch.float64), 16)
        assert len(set(sums[0].tolist())) == 1


def test_values_without_a_finite_sum_are_refused():
    with pytest.raises(AttributionLabError, match="up to 1e\\+308 have no finite sum"):
        patch_sums(torch.full((1, 1, 4, 4), 1e308, dtype=torch.float64), 4)


def test_patches_missing_in_an_image_are_left_out_of_its_score():
    nan = math.nan
    sums = torch.tensor([[1.0, nan, 2, 0], [nan, nan, 2, 2]]).double()
    drops = torch.tensor([[5.0, nan, 9, 1], [nan, nan, 1, 2]]).double()
    found = judged_by_drops(sums, drops)
    assert found.scores.tolist() == [1, 0]
    assert found.constant_maps.tolist() == [False, True]
    assert found.constant_drops.tolist() == [False, False]


def test_deleting_what_is_there_already_costs_exactly_nothing():
    class Noisy(nn.Module):
        """No two rows of a batch are alike, as with kernels that depend on the batch."""

        def forward(self, images):
            return torch.arange(len(images)).float()[:, None]

    image = torch.zeros(1, 1, 4, 4)
    image[0, 0, 3, 3] = 1
    drops = deletion_drops(Noisy().eval(), image, torch.tensor([0]), patches=4, replacement=0.0)
    assert drops.tolist() == [[0, 0, 0, -1]]


def test_exact_shapley_values_of_a_count_are_perfect_in_domain_and_not_with_unseen_black():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(4)
    maps = torch.stack(
        [env.shapley(x, int(t), output="logit") for x, t in zip(images, labels, strict=True)]
    )
    call = (env.model, images, labels, maps)
    assert idsds(*call, patches=9, replacement=env.baseline).tolist() == [1] * 4
    assert float(sds(*call, patches=9, replacement=0.0).mean()) < 0.9


def test_no_redundant_channel_notices_a_deletion_by_the_true_baseline():
    env, plain = (
        al.load("multi-color-sum", image_size=24, **more)
        for more in ({}, {"redundant_channels": 0})
    )
    images, labels = env.batch(4)

    def drops(place, replacement):
        return deletion_drops(place.model, images, labels, patches=9, replacement=replacement)

    assert torch.equal(drops(env, env.baseline), drops(plain, env.baseline))
    assert not torch.equal(drops(env, 0.0), drops(plain, 0.0))


@pytest.mark.parametrize("replacement", [-1, 300, 0.5])
def test_integer_images_take_replacements_that_their_type_has_not(replacement):
    total = summing(16)
    images = torch.full((1, 1, 4, 4), 200, dtype=torch.uint8)
    drops = deletion_drops(
        total, images, torch.tensor([0]), patches=4, replacement=replacement, batch_size=np.int32(2)
    )
    assert drops.tolist() == [[4 * (200 - replacement)] * 4]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("height", "width", "side"), [(4, 4, 2), (6, 9, 3), (8, 4, 4), (5, 5, 5)])
def test_every_pixel_lies_in_the_cell_that_its_place_says(height, width, side):
    grid = grid_patches(height, width, side**2)
    for row in range(height):
        for column in range(width):
            assert int(grid[row, column]) == oracles.cell((row, column), height, width, side)


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


@pytest.mark.long
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


def test_an_image_without_patches_loses_nothing():
    patches = torch.tensor([[[[0, 0], [1, 1]]], [[[-1, -1], [-1, -1]]]])
    lost = patch_deleted(torch.ones(2, 1, 2, 2), patches, 0.0, share=1, generator=generator())
    assert lost.sum((1, 2, 3)).tolist() == [2, 4]


def test_draws_repeat_with_the_seed_and_leave_the_global_generator_alone():
    images, before = torch.ones(20, 1, 4, 4), torch.get_rng_state()
    one, same, other = (patch_deleted(images, 4, 0.0, generator=generator(s)) for s in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)
    assert bool((images == 1).all())
