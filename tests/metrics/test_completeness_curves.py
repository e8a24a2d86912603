"""Completeness is Algorithms 2 and 4: what is lost with all pixels above a threshold."""

from fractions import Fraction

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import oracles_soundness as oracles
from attributionlab import AttributionLabError
from attributionlab.metrics import completeness_at, completeness_curve, true_completeness
from soundness_cases import (
    INDICATORS,
    KINDS,
    SETUP,
    Share,
    black,
    case_of,
    first_output,
)

# Means of at most ten float64 numbers in [0, 1], and their difference.
CLOSE = 1e-14

SEEDS = st.integers(0, 2**31)
THRESHOLDS = st.lists(
    st.sampled_from([0, 0.1, 0.125, 0.2, 0.25, 0.5, 0.7, 0.875, 0.9, 1, 1.5]),
    min_size=1,
    max_size=4,
)


@pytest.mark.long
@settings(max_examples=25)
@given(
    SEEDS,
    st.sampled_from(KINDS),
    THRESHOLDS,
    st.sampled_from(list(INDICATORS)),
    st.sampled_from(["paper", "released"]),
)
@example(178, "levels", [0.2], "accuracy", "paper")  # has a map with a level of 0.2
def test_a_curve_is_algorithm_4_or_the_released_codes(seed, kind, thresholds, indicator, variant):
    case = case_of(seed, kind)
    maps, performance = case.twin()
    performance = case.performance(INDICATORS[indicator])
    curve = completeness_curve(
        *case, thresholds=thresholds, indicator=indicator, variant=variant, **SETUP
    )
    if variant == "paper":
        # A threshold is a number of the maps' type: a level of 51 / 255 is not above 0.2.
        limits = [Fraction(torch.tensor(each, dtype=torch.float32).item()) for each in thresholds]
        expected = oracles.completeness_steps(performance, maps, limits)
    else:
        expected = oracles.released_completeness_steps(performance, maps, thresholds)
    assert curve.thresholds.tolist() == thresholds
    assert curve.emptied.tolist() == [rest.emptied for rest in expected]
    for found, wanted in (
        (curve.differences, [rest.difference for rest in expected]),
        (curve.removed, [rest.removed for rest in expected]),
        (curve.intact - curve.performance, curve.differences.tolist()),
        ([curve.intact], [performance([set(values) for values in maps])]),
    ):
        assert list(found) == pytest.approx([float(each) for each in wanted], abs=CLOSE)
    for threshold, difference in zip(thresholds, curve.differences, strict=True):
        point = completeness_at(
            *case, threshold=threshold, indicator=indicator, variant=variant, **SETUP
        )
        assert torch.equal(point, difference)


@settings(max_examples=20)
@given(SEEDS, st.sampled_from(KINDS))
def test_where_the_performance_is_the_information_it_is_the_true_completeness(seed, kind):
    # Theorem 4.12 with equality: removing attributed information lowers the performance by as much.
    maps = case_of(seed, kind).maps[-1:]
    phi = torch.randint(0, 3, maps.shape, generator=torch.Generator().manual_seed(seed))
    phi[..., 0, 0] = 1
    curve = completeness_curve(
        Share(phi),
        torch.ones(maps.shape, dtype=torch.float64),
        torch.tensor([0]),
        maps,
        thresholds=(0.9, 0.5, 0.1, 0),
        indicator=first_output,
        imputation=black,
        nothing_kept=0,
    )
    for threshold, found in zip((0.9, 0.5, 0.1, 0), curve.differences, strict=True):
        expected = true_completeness(maps, phi, threshold=threshold)
        # Sums of at most 12 shares.
        assert float(found) == pytest.approx(float(expected), abs=CLOSE)


def test_thresholds_are_by_default_nine_tenths_to_one():
    curve = completeness_curve(*case_of(1), **SETUP)
    assert curve.thresholds.tolist() == [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_value_at_a_threshold_stays_in_any_precision(dtype):
    case = case_of(7)
    for threshold in completeness_curve(*case, **SETUP).thresholds.tolist():
        maps = torch.full(case.maps.shape, threshold, dtype=dtype)
        at, below = completeness_curve(
            *case[:3], maps, thresholds=[threshold, threshold - 0.05], **SETUP
        ).removed
        assert (at, below) == (0, 1)


def test_a_map_of_zeros_loses_nothing_and_a_constant_one_everything_or_nothing():
    case = case_of(9)
    for variant in ("paper", "released"):
        zeros = completeness_curve(*case[:3], 0 * case.maps, variant=variant, **SETUP)
        assert not zeros.removed.any()
        assert not zeros.differences.any()
        assert not zeros.emptied.any()
    constant = torch.full_like(case.maps, 0.5)
    curve = completeness_curve(*case[:3], constant, **SETUP)
    assert curve.removed.tolist() == [0] * 5 + [1] * 4
    assert curve.emptied.tolist() == [0] * 5 + [len(constant)] * 4
    # Of its own maximum every constant map is above 0.9.
    released = completeness_curve(*case[:3], constant, variant="released", **SETUP)
    assert (released.removed == 1).all()


@pytest.mark.long
def test_a_level_at_the_released_threshold_is_not_above_it():
    # In float64 many products of a tenth and a level are not the integers that they should be.
    for tenth in range(1, 10):
        for most in range(10, 256, 10):
            maps = torch.full((1, 1, 1, 3), tenth * most / 10 / 255, dtype=torch.float64)
            maps[..., 0], maps[..., 1] = most / 255, (tenth * most // 10 + 1) / 255
            found = completeness_curve(
                Share(torch.ones(1, 1, 3)),
                torch.ones(1, 1, 1, 3, dtype=torch.float64),
                torch.tensor([0]),
                maps,
                thresholds=(tenth / 10,),
                variant="released",
                indicator=first_output,
                imputation=black,
            )
            assert float(found.removed) == pytest.approx(2 / 3, abs=CLOSE)


def test_what_is_left_of_an_emptied_image_must_be_said():
    case = case_of(9)
    maps, setup = torch.ones_like(case.maps), {"value_range": (0, 3), "imputation": black}
    maps[0] = 0
    message = (
        rf"no pixel of image 1 is kept \({len(maps) - 1} of {len(maps)} images\): .* nothing_kept="
    )
    with pytest.raises(AttributionLabError, match=message):
        completeness_curve(*case[:3], maps, **setup)
    assert completeness_curve(*case[:3], maps, thresholds=[1], **setup).removed == 0
