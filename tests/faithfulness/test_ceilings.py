"""No map under a constraint scores more than its ceiling, and some map scores that much."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linprog
from torch.nn import functional as F

import attributionlab as al
import oracles
from attributionlab import AttributionLabError
from attributionlab.faithfulness.ceilings import (
    best_on_grid,
    best_on_regions,
    claim_ceilings,
    part_ceilings,
    pixel_patches,
)
from attributionlab.metrics import best_map, f1
from attributionlab.truth import Truth, smoothed

# Sums of fewer than 100 terms of at most 1 in float64, and quotients of them: 100 * 2^-52 < 1e-13.
ROUNDING = 1e-12
# The linear program's own tolerance.
SOLVER = 1e-7
TRUTHS = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    elements=st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1, allow_subnormal=False)),
)


def images(rows):
    return torch.from_numpy(np.asarray(rows, dtype=np.float64))[None, None]


def naive_f1(values, truth):
    return oracles.f1(np.ravel(values).tolist(), np.ravel(truth).tolist())


def best_by_trying_all(truth, labels):
    """The largest F1 over all choices of regions that are 1 while the others are 0."""
    names = np.unique(labels)
    choices = itertools.product([False, True], repeat=len(names))
    return max(naive_f1(np.isin(labels, names[list(chosen)]) * 1.0, truth) for chosen in choices)


def enlargement(cells, size):
    """(pixels, cells): what interpolate makes of each cell alone."""
    count = cells[0] * cells[1]
    ones = torch.eye(count, dtype=torch.float64).reshape(count, 1, *cells)
    return F.interpolate(ones, size, mode="bilinear", align_corners=False).reshape(count, -1).T


def best_by_linear_program(truth, cells):
    """max 2 w c / (m c + G) with U c <= 1 and c >= 0, made linear by y = t c, t = 1 / (m c + G)
    (Charnes and Cooper, 1962)."""
    u, g = enlargement(cells, truth.shape).numpy(), truth.ravel()
    gain = np.append(2 * u.T @ g, 0)
    solved = linprog(
        -gain,
        A_ub=np.hstack([u, -np.ones((len(g), 1))]),
        b_ub=np.zeros(len(g)),
        A_eq=np.append(u.sum(0), g.sum())[None],
        b_eq=[1.0],
    )
    assert solved.status == 0
    return -solved.fun


@settings(max_examples=100)
@given(TRUTHS, st.integers(1, 5), st.integers(0, 2**31))
def test_no_choice_of_regions_scores_more_than_the_best_map(truth, count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(count, size=truth.shape)
    best = best_on_regions(images(truth), torch.from_numpy(labels)[None])
    assert best.dtype == torch.float32
    if not truth.any():
        assert not best.any()
        assert f1(best, images(truth)).isnan()
        return
    score = float(f1(best, images(truth)))
    assert score == pytest.approx(best_by_trying_all(truth, labels), abs=ROUNDING)
    assert all(len(best[0, 0][torch.from_numpy(labels == k)].unique()) <= 1 for k in range(count))
    other = images(rng.random(count)[labels])
    assert float(f1(other, images(truth))) <= score + ROUNDING


@given(TRUTHS)
def test_with_one_pixel_a_region_the_best_map_is_that_of_pixels(truth):
    labels = torch.arange(truth.size).reshape(1, *truth.shape)
    assert torch.equal(best_on_regions(images(truth), labels), best_map(images(truth)))


def test_labels_are_any_integers_and_each_image_has_its_own():
    truth = torch.tensor([[[[1, 1, 1, 0, 1, 0, 0, 0]]], [[[0, 1, 0, 1, 0, 0, 0, 0]]]]).bool()
    labels = torch.tensor([[[0, 0, 1, 1, 2, 2, 2, 2]], [[7, 3, 7, 3, 7, 7, 7, 7]]])
    expected = torch.tensor([[[[1, 1, 1, 1, 0, 0, 0, 0]]], [[[0, 1, 0, 1, 0, 0, 0, 0]]]]).float()
    assert torch.equal(best_on_regions(truth, labels), expected)
    assert torch.equal(best_on_regions(truth, 10**12 * labels - 5), expected)
    assert torch.equal(best_on_regions(truth, labels.int()), expected)


@settings(max_examples=40)
@given(
    hnp.arrays(
        np.float64, st.tuples(st.integers(2, 9), st.integers(2, 9)), elements=st.floats(0, 1)
    ),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_the_best_grid_lies_between_what_is_reached_and_the_bound(truth, rows, columns):
    total = float(truth.sum())
    ceiling = best_on_grid(images(truth), (rows, columns))
    if total < 1e-3:  # the program is badly scaled
        return
    best = best_by_linear_program(truth, (rows, columns))
    assert float(ceiling.reached) <= best + SOLVER
    assert best <= float(ceiling.bound) + SOLVER


@settings(max_examples=40)
@given(st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 3, 5]), st.integers(0, 2**31))
def test_with_a_pixel_at_the_center_of_each_cell_the_bound_is_reached(rows, columns, factor, seed):
    truth = np.random.default_rng(seed).random((rows * factor, columns * factor)) ** 4
    ceiling = best_on_grid(images(truth), (rows, columns))
    assert float(ceiling.reached) == pytest.approx(float(ceiling.bound), abs=ROUNDING)
    best = best_by_linear_program(truth, (rows, columns))
    assert float(ceiling.bound) == pytest.approx(best, abs=SOLVER)


@pytest.mark.long
@settings(max_examples=100)
@given(TRUTHS, st.integers(1, 7), st.integers(1, 7), st.integers(0, 2**31), st.floats(0.1, 9))
def test_no_map_enlarged_from_a_grid_scores_more_than_the_bound(truth, rows, columns, seed, power):
    ceiling = best_on_grid(images(truth), (rows, columns))
    if not truth.any():
        assert ceiling.reached.isnan()
        assert ceiling.bound.isnan()
        return
    bound = float(ceiling.bound) + ROUNDING
    cells = torch.from_numpy(np.random.default_rng(seed).random((1, 1, rows, columns)) ** power)
    enlarged = F.interpolate(cells, truth.shape, mode="bilinear", align_corners=False)
    assert float(f1(enlarged / enlarged.amax(), images(truth))) <= bound
    assert float(ceiling.reached) <= bound
    assert bound <= float(f1(best_map(images(truth)), images(truth))) + 2 * ROUNDING


@given(TRUTHS.filter(np.any), st.integers(1, 7), st.integers(1, 7))
def test_what_is_reached_is_the_score_of_a_map_enlarged_from_that_grid(truth, rows, columns):
    best, reached, _ = best_on_grid(images(truth), (rows, columns))
    assert float(reached) == pytest.approx(naive_f1(best, truth), abs=ROUNDING)
    assert float(best.amax()) in (0.0, 1.0)
    assert float(best.amin()) >= 0
    u = enlargement((rows, columns), truth.shape)
    cells = np.linalg.lstsq(u.numpy(), best.flatten().numpy(), rcond=None)[0]
    np.testing.assert_allclose(u.numpy() @ cells, best.flatten().numpy(), atol=1e-9)


def test_cells_of_both_signs_are_not_bounded():
    truth = images([[1.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
    cells = torch.tensor([[[[1.0, -1.0]]]]).double()
    enlarged = F.interpolate(cells, (1, 6), mode="bilinear", align_corners=False)
    # 1, 1, 1/3 and nothing positive behind; from cells >= 0 the least is 1, 1, 2/3, 1/3.
    assert float(f1(enlarged.clamp(min=0), truth)) == pytest.approx(12 / 13, abs=ROUNDING)
    assert float(best_on_grid(truth, (1, 2)).bound) == pytest.approx(4 / 5, abs=ROUNDING)


def test_as_many_cells_as_pixels_reach_what_pixels_reach():
    rng = np.random.default_rng(0)
    truth = torch.from_numpy(rng.random((3, 1, 6, 7)))
    best, reached, bound = best_on_grid(truth, (6, 7))
    assert torch.equal(best.float(), best_map(truth))
    assert torch.equal(reached, f1(best_map(truth), truth))
    torch.testing.assert_close(bound, reached, rtol=0, atol=ROUNDING)
    mask = truth > 0.5
    assert best_on_grid(mask, (6, 7)).reached.tolist() == [1, 1, 1]


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (10, 5), (4, 6)])
@pytest.mark.parametrize("side", [1, 2, 5])
def test_patches_are_squares_from_the_upper_left(shape, side):
    [labels] = pixel_patches(*shape, side).tolist()
    names = {}
    for y, x in itertools.product(range(shape[0]), range(shape[1])):
        place = (y // side, x // side)
        assert names.setdefault(place, labels[y][x]) == labels[y][x]
    assert sorted(names.values()) == list(range(len(names)))


# In the laboratory


@pytest.fixture(scope="module")
def env():
    return al.load("multi-color-sum-distractors", image_size=72)


@pytest.fixture(scope="module")
def known(env):
    """Truth, patches, smoothed truth and Shapley values of two images."""
    samples = [env.dataset(2)[index] for index in range(2)]
    inputs = torch.stack([sample.image for sample in samples])
    labels = torch.stack([sample.label for sample in samples])
    truth = env.truth(inputs, labels)
    patches = torch.stack([torch.as_tensor(sample.patches) for sample in samples])
    values = torch.stack([env.shapley(i, int(t)) for i, t in zip(inputs, labels, strict=True)])
    return truth, patches, smoothed(truth.positive, env.smoothing_sigma), values


def test_every_constraint_has_a_ceiling_for_every_part(known):
    truth, patches, claimed, values = known
    regions, grids = {"true patches": patches}, {"8 x 8 cells": (8, 8)}
    expected = {"overall", "positive", "negative"}
    names = {"true patches", "5 x 5 patches", "8 x 8 cells", "positive only"}
    found = part_ceilings(truth, regions=regions, grids=grids)
    assert set(found) == names
    assert all(set(parts) == expected for parts in found.values())
    found = part_ceilings(truth, claimed, regions=regions, grids=grids, shapley=values)
    assert set(found) == names | {"exact Shapley values"}
    assert all(set(parts) == expected | {"positive-smoothed"} for parts in found.values())
    assert all(f.shape == (2,) for parts in found.values() for f in parts.values())


def test_ceilings_of_regions_and_grids_are_those_of_the_best_map_for_each_part(known):
    truth, patches, claimed, _ = known
    found = part_ceilings(truth, claimed, regions={"p": patches}, grids={"g": (8, 9)})
    truths = {
        "overall": truth.signed != 0,
        "positive": truth.signed > 0,
        "negative": truth.signed < 0,
        "positive-smoothed": claimed,
    }
    fives = pixel_patches(72, 72, 5).expand(2, -1, -1)
    for part, g in truths.items():
        assert torch.equal(found["p"][part], f1(best_on_regions(g, patches), g))
        assert torch.equal(found["5 x 5 patches"][part], f1(best_on_regions(g, fives), g))
        ceiling = best_on_grid(g, (8, 9))
        assert torch.equal(found["g"][part], ceiling.bound)
        # In cells of 8 pixels those nearest to the center are 1/16 of a cell away and feel 15/16 of it.
        assert (ceiling.bound <= ceiling.reached * 16 / 15).all()


def test_a_map_that_is_never_negative_finds_all_but_the_negative_part(known):
    truth, _, claimed, _ = known
    found = part_ceilings(truth, claimed, regions={}, grids={})
    parts = found["positive only"]
    assert parts["overall"].tolist() == parts["positive"].tolist() == [1, 1]
    assert parts["negative"].tolist() == [0, 0]
    assert torch.equal(parts["positive-smoothed"], f1(best_map(claimed), claimed))
    assert claim_ceilings(found, "signed")["positive only"] == 0
    assert claim_ceilings(found, "positive")["positive only"] == 1
    bare = Truth(truth.signed.clamp(min=0))
    found = part_ceilings(bare, regions={}, grids={})
    assert found["positive only"]["negative"].isnan().all()
    assert claim_ceilings(found, "signed")["positive only"] == 1


def test_exact_shapley_values_score_as_any_map(known):
    truth, _, claimed, values = known
    found = part_ceilings(truth, claimed, regions={}, grids={}, shapley=values)[
        "exact Shapley values"
    ]
    for k in range(2):
        scaled = oracles.normalize(values[k].flatten().tolist())
        for part in ("overall", "positive", "negative"):
            pair = oracles.part(scaled, truth.signed[k].flatten().tolist(), part)
            # Some 5,000 terms of at most 1 in float64: 5,000 * 2^-52 of the sum.
            assert float(found[part][k]) == pytest.approx(oracles.f1(*pair), rel=1e-11)
        positive = [max(value, 0.0) for value in scaled]
        expected = naive_f1(positive, claimed[k].double())
        assert float(found["positive-smoothed"][k]) == pytest.approx(expected, rel=1e-11)
    assert found["positive"].tolist() == [1, 1]  # one size for all pixels of the target's color
    assert (found["negative"] < 1).all()


def test_an_image_without_a_truth_is_not_applicable():
    signed = torch.zeros(2, 1, 6, 6, dtype=torch.int8)
    signed[0, 0, :2] = 1
    truth = Truth(signed)
    claimed = smoothed(truth.positive, 1.0)
    labels = torch.arange(36).reshape(1, 6, 6).expand(2, -1, -1)
    found = part_ceilings(
        truth,
        claimed,
        regions={"r": labels},
        grids={"g": (2, 2)},
        shapley=signed.double(),
    )
    for parts in found.values():
        assert parts["negative"].isnan().all()
        for part in ("overall", "positive", "positive-smoothed"):
            assert parts[part].isnan().tolist() == [False, True]


@pytest.mark.parametrize("control", ["filled-patches", "constant", "non-background"])
def test_no_map_that_is_constant_on_the_patches_exceeds_their_ceiling(env, known, control):
    truth, patches, _, _ = known
    inputs = torch.stack([env.dataset(2)[index].image for index in range(2)])
    maps = {
        "filled-patches": (patches > 0).double()[:, None],
        "constant": torch.ones(2, 1, 72, 72).double(),
        "non-background": (inputs != env.baseline).any(1, keepdim=True).double(),
    }[control]
    found = part_ceilings(truth, regions={"true patches": patches}, grids={})
    exceeds = f1(maps, truth.overall) > found["true patches"]["overall"] + ROUNDING
    # The mask of the foreground tells filled pixels from empty ones inside a patch.
    assert exceeds.tolist() == [control == "non-background"] * 2


# Claims


def test_signed_rests_on_the_part_with_the_lowest_mean_over_all_images():
    nan = math.nan
    found = {
        "overall": torch.tensor([0.9, 0.1, 0.2]),
        "positive": torch.tensor([0.4, 0.4, 0.7]),
        "negative": torch.tensor([nan, nan, nan]),
    }
    # Overall (0.9 + 0.1 + 0.2) / 3 = 0.4, positive (0.4 + 0.4 + 0.7) / 3 = 0.5; float32.
    assert claim_ceilings({"a": found}, "signed") == {"a": pytest.approx(0.4, abs=1e-6)}
    assert claim_ceilings({"a": found}, "positive") == {"a": pytest.approx(0.5, abs=1e-6)}
    assert claim_ceilings({"a": found}, "overall") == {"a": pytest.approx(0.4, abs=1e-6)}
    found["negative"][0] = 0.25
    assert claim_ceilings({"a": found}, "signed") == {"a": 0.25}


def test_a_name_that_applies_nowhere_is_left_out():
    one, none = {"positive": torch.ones(1)}, {"positive": torch.full((1,), math.nan)}
    assert claim_ceilings({"a": one, "b": none}, "positive") == {"a": 1}
    assert claim_ceilings({"a": one, "b": none}, "signed") == {"a": 1}


def test_a_smoothed_claim_rests_on_its_own_part_and_signed_never_does(known):
    truth, patches, claimed, values = known
    found = part_ceilings(truth, claimed, regions={"p": patches}, grids={}, shapley=values)
    of_claim = claim_ceilings(found, "positive-smoothed")
    assert of_claim["p"] == float(found["p"]["positive-smoothed"].mean())
    means = {part: float(each.mean()) for part, each in found["exact Shapley values"].items()}
    smoothed_mean = means.pop("positive-smoothed")
    lowest = claim_ceilings(found, "signed")["exact Shapley values"]
    assert smoothed_mean < lowest == min(means.values())


@pytest.mark.usefixtures("without_shape_checks")
def test_what_fits_no_image_is_refused():
    truth = torch.ones(2, 1, 4, 5)
    with pytest.raises(
        AttributionLabError, match=r"shape \(4, 5\): pass labels of shape \(2, 4, 5"
    ):
        best_on_regions(truth, torch.zeros(4, 5, dtype=torch.int64))
    with pytest.raises(AttributionLabError, match=r"grid has \(0, 3\) cells: take at least 1 row"):
        best_on_grid(truth, (0, 3))
