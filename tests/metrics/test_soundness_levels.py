"""Soundness is Algorithms 1 and 3, and pixels are put back in their order."""

import math
import warnings
from fractions import Fraction
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attributionlab as al
import oracles_soundness as oracles
from attributionlab import AttributionLabError, AttributionLabWarning
from attributionlab.metrics import included_pixels, soundness_at, soundness_sweep, true_soundness
from soundness_cases import (
    INDICATORS,
    KINDS,
    SETUP,
    Share,
    black,
    case_of,
    falling_ratios,
    first_output,
    floats,
    fraction,
    linear,
)

# Shares of sums of at most 12 float64 numbers, and means of at most ten of them.
CLOSE = 1e-14

SEEDS, EPSILONS = st.integers(0, 2**31), st.sampled_from([0, 0.01, 0.05, 0.1, 0.25, 1])


def mean_of(values):
    """Over those that are there."""
    there = [value for value in values if value is not None]
    return float(sum(there) / len(there)) if there else math.nan


@settings(max_examples=30)
@given(
    SEEDS,
    st.sampled_from(KINDS),
    EPSILONS,
    st.sampled_from(list(INDICATORS)),
    st.sampled_from(["paper", "released"]),
    st.sampled_from(["area", "attributed"]),
)
def test_a_sweep_is_algorithm_3_or_the_released_codes(
    seed, kind, epsilon, indicator, variant, expansion
):
    case = case_of(seed, kind)
    ratios = falling_ratios(case.maps[0].numel(), seed)
    sweep = soundness_sweep(
        *case,
        ratios=ratios,
        epsilon=epsilon,
        indicator=indicator,
        variant=variant,
        expansion=expansion,
        **SETUP,
    )
    twin = oracles.soundness_steps if variant == "paper" else oracles.released_steps
    steps = twin(
        case.performance(INDICATORS[indicator]),
        [oracles.map_of(each) for each in case.maps],
        ratios,
        fraction(epsilon),
        expansion == "attributed",
    )
    assert sweep.ratios.tolist() == ratios
    assert sweep.false.tolist() == [step.false for step in steps]
    assert sweep.performance.tolist() == pytest.approx(
        [float(step.performance) for step in steps], abs=CLOSE
    )
    for found, step in zip(sweep.per_sample.tolist(), steps, strict=True):
        assert found == pytest.approx(floats(step.sound), abs=CLOSE, nan_ok=True)
    assert sweep.soundness.tolist() == pytest.approx(
        [mean_of(step.sound) for step in steps], abs=CLOSE, nan_ok=True
    )


LEVELS = st.sampled_from([Fraction(k, 10) for k in range(1, 13)] + [Fraction(1, 3)])


@settings(max_examples=30)
@given(SEEDS, st.sampled_from(KINDS), LEVELS, EPSILONS)
def test_soundness_at_a_level_is_algorithm_1(seed, kind, level, epsilon):
    case = case_of(seed, kind)
    maps, performance = case.twin()
    ratios = falling_ratios(case.maps[0].numel(), seed)
    expected = oracles.soundness_at_level(performance, maps, ratios, level, fraction(epsilon))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = soundness_at(*case, level=float(level), ratios=ratios, epsilon=epsilon, **SETUP)
    messages = [str(each.message) for each in caught]
    assert found.dtype == torch.float64
    assert found.shape == ()
    sweep = soundness_sweep(
        *case, ratios=ratios, epsilon=epsilon, expansion="attributed", **SETUP
    ).at(float(level))
    assert sweep.level == float(level)
    if expected is None:
        assert found.isnan()
        assert [message for message in messages if "was not reached" in message] == messages
        assert len(messages) == 1
        assert (sweep.reached, sweep.jumped) == (False, False)
        assert sweep.per_sample.isnan().all()
        assert math.isnan(sweep.soundness)
        assert math.isnan(sweep.ratio)
        assert math.isnan(sweep.performance)
        return
    assert float(found) == pytest.approx(mean_of(expected.sound), abs=CLOSE, nan_ok=True)
    assert (sweep.soundness, sweep.performance) == pytest.approx(
        (mean_of(expected.sound), float(expected.performance)), abs=CLOSE, nan_ok=True
    )
    assert sweep.per_sample.tolist() == pytest.approx(
        floats(expected.sound), abs=CLOSE, nan_ok=True
    )
    assert sweep.reached
    jumped = expected.performance - level > fraction(epsilon)
    assert sweep.jumped == jumped
    if found.isnan():
        assert ["without attribution" in message for message in messages] == [True]
    else:
        assert ["jumped over" in message for message in messages] == [True] * jumped
    included = included_pixels(case.maps, sweep.ratio, expansion="attributed")
    assert included.sum((1, 2, 3)).tolist() == [len(each) for each in expected.included]


@settings(max_examples=15)
@given(SEEDS, st.sampled_from(KINDS), LEVELS)
def test_the_released_soundness_at_a_level_is_that_of_its_first_step_that_reaches_it(
    seed, kind, level
):
    case = case_of(seed, kind)
    maps, performance = case.twin()
    ratios = falling_ratios(case.maps[0].numel(), seed)
    steps = oracles.released_steps(performance, maps, ratios, Fraction(1, 100), attributed=True)
    reached = [step for step in steps if step.performance >= level]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionLabWarning)
        found = soundness_at(*case, level=float(level), ratios=ratios, variant="released", **SETUP)
    expected = mean_of(reached[0].sound) if reached else math.nan
    assert float(found) == pytest.approx(expected, abs=CLOSE, nan_ok=True)


@settings(max_examples=10)
@given(SEEDS, st.sampled_from(KINDS))
def test_where_every_bit_of_information_raises_the_performance_it_is_the_true_soundness(seed, kind):
    # Theorem 4.11: pixel by pixel, Assumption 4.10 holds, and no rise is below epsilon.
    case = case_of(seed, kind)
    maps = case.maps[-1:]
    pixels = maps.numel()
    generator = torch.Generator().manual_seed(seed)
    phi = torch.randint(0, 3, maps.shape, generator=generator)
    phi[..., 0, 0] = 1
    images, labels = torch.ones(maps.shape, dtype=torch.float64), torch.tensor([0])
    ratios = [(pixels - kept) / pixels for kept in range(1, pixels + 1)]
    sweep = soundness_sweep(
        Share(phi),
        images,
        labels,
        maps,
        ratios=ratios,
        epsilon=0.5 / float(phi.sum()),
        indicator=first_output,
        imputation=black,
    )
    for ratio, found in zip(ratios, sweep.per_sample, strict=True):
        expected = true_soundness(maps, phi, included=included_pixels(maps, ratio))
        assert float(found) == pytest.approx(float(expected), abs=CLOSE, nan_ok=True)


def answers(*performances):
    """Ten images of ten pixels, of which this many are right with 1, 2, ... pixels kept."""
    images = torch.ones(10, 1, 1, 10)
    weights = torch.zeros(2, 10)
    weights[0] = 1

    def indicator(outputs, targets):
        kept = outputs[:, 0].long()
        right = torch.tensor((0, *performances))[kept]
        return (torch.arange(10) < right).double()

    maps = torch.arange(10.0, 0, -1).view(1, 1, 1, 10).expand(10, -1, -1, -1)
    ratios = [(10 - kept) / 10 for kept in range(1, len(performances) + 1)]
    call = (linear(weights), images, torch.zeros(10, dtype=torch.int64), maps)
    return call, {"ratios": ratios, "indicator": indicator, "imputation": black}


def test_a_rise_of_exactly_epsilon_is_information_for_the_paper_and_none_for_the_code():
    # 0.3 - 0.2 and 0.8 - 0.7 are below 0.1 in float64, 0.4 - 0.3 is above it.
    call, setup = answers(1, 2, 3, 4, 5, 6, 7, 8)
    assert not soundness_sweep(*call, epsilon=0.1, **setup).false.any()
    call = (*call[:3], call[3] / 10)
    assert soundness_sweep(*call, epsilon=0.1, variant="released", **setup).false.all()


def test_a_level_that_is_met_exactly_is_reached_and_not_jumped_over():
    call, setup = answers(1, 2, 3, 4, 5, 6, 7, 8)
    sweep = soundness_sweep(*call, epsilon=0.1, **setup)
    for tenths in range(1, 9):
        level = sweep.at(tenths / 10)
        assert level.ratio == (10 - tenths) / 10
        assert not level.jumped
        # A tenth above the level is epsilon: not more than it.
        assert not sweep.at((tenths - 0.9999999) / 10).jumped
        assert float(soundness_at(*call, level=tenths / 10, epsilon=0.1, **setup)) == 1


def test_a_level_passed_by_exactly_epsilon_is_not_jumped_over():
    call, setup = answers(6, 8)
    assert 0.8 - 0.7 > 0.1  # in float64
    assert not soundness_sweep(*call, epsilon=0.1, **setup).at(0.7).jumped
    assert soundness_at(*call, level=0.7, epsilon=0.1, **setup) == 1


def test_a_level_is_reached_by_a_mean_that_is_it_but_for_rounding():
    call, setup = answers(1)
    setup["indicator"] = lambda outputs, targets: torch.full((9,), 0.7, dtype=torch.float64)
    call = (call[0], *(each[:9] for each in call[1:]))
    sweep = soundness_sweep(*call, **setup)
    assert float(sweep.performance) < 0.7
    assert sweep.at(0.7).reached
    assert soundness_at(*call, level=0.7, **setup) == 1  # warnings are errors


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1, 100])
def test_rises_and_levels_are_compared_in_the_precision_of_the_indicator(dtype, scale):
    # Sums of tenths, added up in this precision: 0.3 - 0.2 and 0.7 are off by some of its steps.
    steps = torch.full((8,), 0.1, dtype=dtype).cumsum(0) * scale
    call, setup = answers(*range(1, 9))
    setup["indicator"] = lambda outputs, targets: steps[outputs[:, 0].long() - 1]
    sweep = soundness_sweep(*call, epsilon=0.1 * scale, **setup)
    assert not sweep.false.any()
    for tenths in range(1, 9):
        assert sweep.at(tenths / 10 * scale).ratio == (10 - tenths) / 10
        assert not sweep.at(tenths / 10 * scale).jumped
        level = soundness_at(*call, level=tenths / 10 * scale, epsilon=0.1 * scale, **setup)
        assert level == 1  # warnings are errors
    released = soundness_sweep(
        *call[:3], call[3] / 10, epsilon=0.1 * scale, variant="released", **setup
    )
    assert released.false.all()


def test_a_rise_that_is_smaller_than_epsilon_by_more_than_rounding_is_none():
    call, setup = answers(1, 2, 3)
    for dtype, rise in ((torch.float32, 0.1 - 1e-5), (torch.float64, 0.1 - 1e-10)):
        setup["indicator"] = lambda outputs, targets: (rise * outputs[:, 0].double()).to(dtype)  # noqa: B023
        assert soundness_sweep(*call, epsilon=0.1, **setup).false.all()


def test_levels_and_epsilon_may_be_fractions():
    call, setup = answers(2, 10)
    setup["epsilon"] = Fraction(1, 10)
    with pytest.warns(AttributionLabWarning, match="level 0.5 was jumped over"):
        assert soundness_at(*call, level=Fraction(1, 2), **setup) == 1
    assert soundness_at(*call, level=Fraction(1, 1), **setup) == 1
    level = soundness_sweep(*call, **setup).at(Fraction(1, 1))
    assert (level.level, level.reached, level.jumped) == (1, True, False)


def test_a_level_never_reached_is_nan_with_a_warning_and_not_extrapolated():
    call, setup = answers(2, 4)
    with pytest.warns(AttributionLabWarning) as caught:
        assert soundness_at(*call, level=0.5, **setup).isnan()
    assert [str(each.message) for each in caught] == [
        "level 0.5 was not reached: the performance of the attributed pixels is at most 0.4; take a "
        "lower level"
    ]
    level = soundness_sweep(*call, **setup).at(0.5)
    assert not level.reached
    assert not level.jumped
    assert math.isnan(level.soundness)


def test_a_level_that_is_jumped_over_is_reported():
    call, setup = answers(2, 7)
    with pytest.warns(AttributionLabWarning) as caught:
        assert soundness_at(*call, level=0.5, **setup) == 1
    assert [str(each.message) for each in caught] == [
        "level 0.5 was jumped over: the performance went from below it to 0.7 in one step; this is the "
        "soundness there"
    ]
    level = soundness_sweep(*call, **setup).at(0.5)
    assert level.reached
    assert level.jumped
    assert level.performance == pytest.approx(0.7, abs=CLOSE)


def test_maps_of_zeros_have_no_soundness_even_where_the_level_is_reached_by_chance():
    case = case_of(5)
    settings = {**SETUP, "ratios": (0.5,)}
    zeros = torch.zeros_like(case.maps)
    with pytest.warns(AttributionLabWarning, match="reached by pixels without attribution"):
        assert soundness_at(*case[:3], zeros, level=0.1, **settings).isnan()
    sweep = soundness_sweep(*case[:3], zeros, **settings)
    assert sweep.per_sample.isnan().all()


def test_steps_smaller_than_a_pixel_are_left_out_unless_it_is_said_what_nothing_is():
    call, setup = answers(2, 4, 6)
    ratios = {"ratios": (0.99, 0.96, 0.9, 0.8)}  # 0, 0, 1 and 2 of 10 pixels
    left_out = soundness_sweep(*call, **setup | ratios)
    assert left_out.ratios.tolist() == [0.9, 0.8]
    told = soundness_sweep(*call, **setup | ratios, nothing_kept=0.0)
    assert told.ratios.tolist() == [0.99, 0.96, 0.9, 0.8]
    assert told.performance.tolist() == [0, 0, *left_out.performance.tolist()]
    assert torch.equal(told.per_sample[2:], left_out.per_sample)
    assert told.per_sample[:2].isnan().all()
    # The ratios by default, of ten pixels.
    assert soundness_at(*call, level=1, **{**setup, "ratios": None, "indicator": "accuracy"}) == 1


def test_where_no_step_keeps_a_pixel_it_is_said_why():
    call, setup = answers(2, 4, 6)
    small = (
        "no step keeps a pixel: a share of 0.04 of 10 pixels rounds to none; pass smaller ratios,"
    )
    none = "no step keeps a pixel: no image has any attribution; pass other maps, or pass nothing_kept="
    some = (
        r"image 0 has no attribution \(1 of 10 images\), so that no pixel of it is kept: leave such"
    )
    zeros, maps = 0 * call[3], call[3].clone()
    maps[0] = 0
    within = {"expansion": "attributed"}
    for function in (soundness_sweep, partial(soundness_at, level=0.1)):
        with pytest.raises(AttributionLabError, match=small):
            function(*call, **setup | {"ratios": (0.99, 0.96)})
    for each, message in ((zeros, none), (maps, some)):
        with pytest.raises(AttributionLabError, match=message):
            soundness_sweep(*call[:3], each, **setup, **within)
        with pytest.raises(AttributionLabError, match=message):
            soundness_at(*call[:3], each, level=0.1, **setup)
    told = soundness_sweep(*call[:3], maps, **setup, **within, nothing_kept=0.0)
    assert told.per_sample[:, 0].isnan().all()
    assert told.per_sample[:, 1:].isfinite().all()


def test_masks_that_stay_the_same_are_asked_about_once():
    case = case_of(3)
    maps = torch.zeros_like(case.maps)
    maps[..., 0, 0] = 1
    asked = []

    def watched(images, keep):
        asked.append(keep)
        return images * keep

    setup = {**SETUP, "imputation": watched}
    with pytest.warns(AttributionLabWarning, match="was not reached"):
        soundness_at(*case[:3], maps, level=2, **setup)
    assert len(asked) <= 2  # nothing kept, which needs no pixel, and one pixel


def test_ratios_are_by_default_those_of_the_paper_and_of_the_code():
    env = al.load("multi-color-sum", image_size=16)
    images, labels = env.batch(1)
    setup = {"value_range": (0.0, 255.0), "imputation": black, "nothing_kept": env.baseline}
    maps = env.truth(images, labels).positive.float()
    paper = soundness_sweep(env.model, images, labels, maps, **setup)
    released = soundness_sweep(env.model, images, labels, maps, variant="released", **setup)
    assert paper.ratios.tolist() == [percent / 100 for percent in range(99, 0, -1)]
    assert released.ratios.tolist() == [percent / 100 for percent in range(98, 2, -1)]
    # Down to 0, where all attributed pixels are in: a level that only they reach together.
    ones = torch.ones(1, 1, 10, 10)
    call = (Share(ones[0]), ones.double(), torch.tensor([0]), ones)
    setup = {"indicator": first_output, "imputation": black, "level": 1}
    assert soundness_at(*call, **setup) == 1
    with pytest.warns(AttributionLabWarning, match="level 1 was not .* is at most 0.97; take"):
        soundness_at(*call, variant="released", **setup)


def pixels_of(mask):
    """A mask (1, H, W) as a set."""
    return {(int(y), int(x)) for y, x in mask[0].nonzero()}


@settings(max_examples=30)
@given(
    st.integers(0, 2**31),
    st.sampled_from(KINDS),
    st.one_of(st.floats(0, 1), st.sampled_from([0, 0.5, 0.99, 1])),
    st.booleans(),
)
def test_included_pixels_are_the_highest_that_a_ratio_leaves(seed, kind, ratio, attributed):
    maps = case_of(seed, kind).maps
    found = included_pixels(maps, ratio, expansion="attributed" if attributed else "area")
    assert found.shape == maps.shape
    for mask, values in zip(found, maps, strict=True):
        expected = oracles.kept_pixels(oracles.map_of(values), ratio, attributed)
        assert pixels_of(mask) == expected
