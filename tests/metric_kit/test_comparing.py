"""Metrics that compare the maps of two methods: ours have no fault, and each wrong twin has its own."""

import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError, check_metric
from attributionlab.metrics import metric
from attributionlab.verdicts import FUNCTIONS, as_metric
from attributionlab.verdicts.metric_kit.comparing import COMPARING
from attributionlab.verdicts.metric_kit.run import COMPARE_CHECKS, OF_MAPS
from attributionlab.verdicts.metric_trials.registry import handed

COMPARERS = [name for name, function in FUNCTIONS.items() if handed(function, name) == "others"]


def test_these_are_the_metrics_here_that_compare_maps():
    kinds = ("feature", "rank", "sign", "signed-rank")
    assert set(COMPARERS) == {f"top-{kind}-agreement" for kind in kinds}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", COMPARERS)
def test_none_of_them_has_a_fault(name, seed):
    report = check_metric(name, seed=seed, time_limit=None)
    assert report.passed, report
    assert [row.id for row in report.checks] == list(COMPARE_CHECKS)
    decided = {row.id: row.status for row in report.checks}
    assert {decided[each] for each in ("equal-maps", "unrelated", "closest", "exchange")} == {
        "pass"
    }
    assert decided["opposite"] == ("pass" if "sign" in name else "by declaration")


def similarity(attributions, others):
    """Cosine of the maps of two methods."""
    return torch.cosine_similarity(attributions.flatten(1), others.flatten(1))


def of_another_image(attributions, others):
    return similarity(attributions, others.roll(1, 0))


def across_images(attributions, others):
    cosine = torch.cosine_similarity(attributions.flatten(), others.flatten(), dim=0)
    return cosine.expand(len(attributions))


def with_itself(attributions, others):
    return similarity(attributions, attributions)


def of_magnitudes(attributions, others):
    return similarity(attributions.abs(), others.abs())


def of_moved_pixels(attributions, others):
    return similarity(attributions, others.roll(1, -1))


def without_a_norm(attributions, others):
    return (attributions * others).flatten(1).sum(1) / others.flatten(1).square().sum(1)


def of_the_upper_half(attributions, others):
    return similarity(attributions[:, :, :4], others[:, :, :4])


def of_a_sorted_map(attributions, others):
    others.copy_(others.flatten(1).sort(dim=1).values.view(others.shape))
    return similarity(attributions, others)


def of_noisy_maps(attributions, others):
    return similarity(attributions, others + 0.01 * torch.randn(others.shape))


def from_a_seed_for_all(attributions, others):
    torch.manual_seed(0)
    return of_noisy_maps(attributions, others)


def by_calls(attributions, others, calls=[]):  # noqa: B006
    calls.append(1)
    return similarity(attributions, others) - 0.01 * len(calls)


def by_place(attributions, others):
    return similarity(attributions, others) * torch.arange(1, len(others) + 1)


def in_single_precision(attributions, others):
    return similarity(attributions, others) - 0.1 * (others.dtype == torch.float64)


def with_nan_as_zero(attributions, others):
    return similarity(attributions.nan_to_num(), others)


def with_nan_as_zero_in_the_second(attributions, others):
    return similarity(attributions, others.nan_to_num())


def divided_by_the_deviation(attributions, others):
    return similarity(attributions, others) + 1 / attributions.flatten(1).std(1)


def by_distance(attributions, others):
    return -(attributions - others).flatten(1).norm(dim=1)


def one_too_few(attributions, others):
    return similarity(attributions, others)[1:]


def by_rank_of_equal_ones(attributions, others):
    """Spearman's correlation, with equal values in reading order."""
    ranks = [maps.flatten(1).argsort(1, stable=True).argsort(1) for maps in (attributions, others)]
    return similarity(*(each - 31.5 for each in ranks))


TWINS = {
    "one-number": one_too_few,
    "repeatable": by_calls,
    "global-seed": of_noisy_maps,
    "random-states-kept": from_a_seed_for_all,
    "arguments-kept": of_a_sorted_map,
    "batch-size": across_images,
    "batch-order": by_place,
    "float64": in_single_precision,
    "scale": by_distance,
    "shift": similarity,
    "nan-map": with_nan_as_zero,
    "nan-other": with_nan_as_zero_in_the_second,
    "zero-map": divided_by_the_deviation,
    "constant-map": divided_by_the_deviation,
    "relabelled": of_the_upper_half,
    "relabelled-ties": by_rank_of_equal_ones,
    "equal-maps": of_moved_pixels,
    "unrelated": with_itself,
    "opposite": of_magnitudes,
    "closest": without_a_norm,
    "exchange": without_a_norm,
}
RIGHT = {"invariances": ("scale", "exchange"), "unchanged": 1}


def faults(function, *only, **marks):
    @metric(**({"higher_is_better": True, "per_sample": True} | RIGHT | marks))
    def marked(attributions, others):
        return function(attributions, others)

    report = check_metric(marked, only=only or None, time_limit=None)
    return {row.id: row.found for row in report.findings}


def test_the_right_metric_has_no_fault():
    assert not faults(similarity)


def test_every_check_of_pairs_has_a_wrong_twin():
    assert COMPARING.keys() | {*OF_MAPS} <= TWINS.keys()


@pytest.mark.parametrize("expected", TWINS)
def test_each_wrong_twin_is_found_by_its_check(expected):
    marks = {"invariances": ("shift",)} if expected == "shift" else {}
    assert list(faults(TWINS[expected], expected, **marks)) == [expected]
    if not marks:
        assert not faults(similarity, expected)


def test_maps_of_other_images_are_found():
    assert {"batch-size", "equal-maps"} <= faults(of_another_image).keys()


def test_a_wrong_direction_and_a_wrong_declared_score_are_found():
    assert list(faults(similarity, "unrelated", higher_is_better=False)) == ["unrelated"]
    assert list(faults(similarity, "equal-maps", unchanged=0)) == ["equal-maps"]


def test_what_is_not_declared_is_not_asked_and_what_is_alike_is_said():
    checks = ["scale", "equal-maps", "exchange"]
    report = check_metric(similarity, higher_is_better=True, only=checks, time_limit=None)
    assert [row.status for row in report.checks] == ["not applicable"] * 3
    assert "unchanged=" in report.checks[1].found
    assert 'declare invariances=("sign",)' in faults(of_magnitudes, "opposite")["opposite"]
    assert not faults(of_magnitudes, "opposite", invariances=("sign",))


def test_a_metric_of_a_network_and_of_other_maps_gets_both():
    def on_the_network(model, images, targets, attributions, others, *, replacement):
        moved = model(images) - model(replacement[None])
        return similarity(attributions, others) * (moved.abs().sum(1) > 0)

    report = check_metric(
        on_the_network, higher_is_better=True, only=["unrelated"], time_limit=None
    )
    assert report.passed, report


def test_a_metric_of_positive_maps_gets_two_of_them():
    asked = []

    @metric(higher_is_better=True, per_sample=True, maps="unit", unchanged=1)
    def covered(attributions, others):
        asked.extend([attributions, others])
        return similarity(attributions, others)

    report = check_metric(covered, time_limit=None)
    assert [row.id for row in report.findings] == ["memory-kept"], report  # `asked` grows
    known = [each[~each.isnan()] for each in asked]
    assert all(bool((each >= 0).all()) and float(each.max()) <= 1 for each in known if len(each))


def test_a_function_that_compares_maps_cannot_rank_those_of_one_method():
    with pytest.raises(AttributionLabError, match=r"similarity cannot be tested: .*check_metric"):
        as_metric(similarity, higher_is_better=True)
    with pytest.raises(AttributionLabError, match=r"cannot be tested: it compares .*--checks-only"):
        al.metric_test("top-rank-agreement")
