"""Checks of metrics that compare maps or judge methods find the wrong twins that are meant for them."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
from torch import cosine_similarity, nn

from attributionlab import check_metric, metrics
from attributionlab.verdicts.metric_trials.asking import PIXELS, linear
from attributionlab.verdicts.metric_trials.check import checks_of
from attributionlab.verdicts.metric_trials.registry import NAMED
from trials import faults, found

CALLS = itertools.count()


def of_kind(handed):
    return [name for name, each in NAMED.items() if each.handed == handed]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", of_kind("others"))
def test_no_comparison_has_a_fault(name, seed):
    report = check_metric(name, seed=seed, time_limit=None)
    assert report.passed, report
    assert [row.id for row in report.checks] == list(checks_of("others"))
    decided = {row.id: row.status for row in report.checks}
    known = ("equal-maps", "unrelated", "closest", "exchange")
    assert {decided[each] for each in known} == {"pass"}
    assert decided["opposite"] == ("pass" if "sign" in name else "by declaration")


def similarity(a, others):
    """Cosine of the maps of two methods."""
    return cosine_similarity(a.flatten(1), others.flatten(1))


def across(a, others):
    return cosine_similarity(a.flatten(), others.flatten(), dim=0).expand(len(a))


def without_a_norm(a, others):
    return (a * others).flatten(1).sum(1) / others.flatten(1).square().sum(1)


def of_a_sorted_map(a, others):
    others.copy_(others.flatten(1).sort(dim=1).values.view(others.shape))
    return similarity(a, others)


def of_noisy_maps(a, others):
    return similarity(a, others + 0.01 * torch.randn(others.shape))


def from_a_seed_for_all(a, others):
    torch.manual_seed(0)
    return of_noisy_maps(a, others)


def by_rank_of_equal_ones(a, others):
    """Spearman's correlation, with equal values in reading order."""
    ranks = [maps.flatten(1).argsort(1, stable=True).argsort(1) for maps in (a, others)]
    return similarity(*(each - 31.5 for each in ranks))


def over_its_deviation(a, others):
    return similarity(a, others) + 1 / a.flatten(1).std(1)


OF_PAIRS = {
    "one-number": lambda a, others: similarity(a, others)[1:],
    "repeatable": lambda a, others: similarity(a, others) - 0.01 * next(CALLS),
    "global-seed": of_noisy_maps,
    "random-states-kept": from_a_seed_for_all,
    "arguments-kept": of_a_sorted_map,
    "batch-size": across,
    "batch-order": lambda a, others: similarity(a, others) * torch.arange(1, len(others) + 1),
    "float64": lambda a, others: similarity(a, others) - 0.1 * (others.dtype == torch.float64),
    "scale": lambda a, others: -(a - others).flatten(1).norm(dim=1),
    "shift": lambda a, others: similarity(a, others),
    "nan-map": lambda a, others: similarity(a.nan_to_num(), others),
    "nan-other": lambda a, others: similarity(a, others.nan_to_num()),
    "zero-map": over_its_deviation,
    "constant-map": over_its_deviation,
    "relabelled": lambda a, others: similarity(a[:, :, :4], others[:, :, :4]),
    "relabelled-ties": by_rank_of_equal_ones,
    "equal-maps": lambda a, others: similarity(a, others.roll(1, -1)),
    "unrelated": lambda a, others: similarity(a, a),
    "opposite": lambda a, others: similarity(a.abs(), others.abs()),
    "closest": without_a_norm,
    "exchange": without_a_norm,
}
RIGHT = {"invariances": ("scale", "exchange"), "unchanged": 1}


def of_pairs(function, *only, **marks):
    return faults(lambda a, others: function(a, others), *only, **RIGHT | marks)


def test_the_right_comparison_has_no_fault():
    assert not of_pairs(similarity)
    elsewhere = {"model-kept", "gradients-left", "modes-kept", "memory-kept", "cuda"}
    assert checks_of("others").keys() - OF_PAIRS.keys() == elsewhere


@pytest.mark.parametrize("expected", OF_PAIRS)
def test_each_wrong_comparison_is_found_by_its_check(expected):
    marks = {"invariances": ("shift",)} if expected == "shift" else {}
    assert list(of_pairs(OF_PAIRS[expected], expected, **marks)) == [expected]
    if not marks:
        assert not of_pairs(similarity, expected)


@pytest.mark.parametrize(
    ("expected", "marks"),
    [("unrelated", {"higher_is_better": False}), ("equal-maps", {"unchanged": 0})],
)
def test_a_wrong_direction_and_a_wrong_declared_score_are_found(expected, marks):
    assert list(of_pairs(similarity, expected, **marks)) == [expected]


def test_what_a_comparison_does_not_declare_is_not_asked_and_what_is_alike_is_said():
    of_others = of_pairs(lambda a, others: similarity(a, others.roll(1, 0)))
    assert {"batch-size", "equal-maps"} <= of_others.keys()
    ends = found(lambda a, others: similarity(a, others), "scale", "equal-maps", "exchange")
    assert [status for status, _ in ends.values()] == ["not applicable"] * 3
    assert "unchanged=" in ends["equal-maps"][1]
    sizes = OF_PAIRS["opposite"]
    assert 'declare invariances=("sign",)' in of_pairs(sizes, "opposite")["opposite"]
    assert not of_pairs(sizes, "opposite", invariances=("sign",))


def test_a_comparison_gets_a_network_and_what_else_it_declares():
    def on_the_network(model, images, targets, attributions, others, *, replacement):
        moved = model(images) - model(replacement[None])
        return similarity(attributions, others) * (moved.abs().sum(1) > 0)

    assert found(on_the_network, "unrelated")["unrelated"][0] == "pass"
    asked = []

    def covered(attributions, others):
        asked.extend([attributions, others])
        return similarity(attributions, others)

    assert list(faults(covered, maps="unit", unchanged=1)) == ["memory-kept"]  # `asked` grows
    known = [each[~each.isnan()] for each in asked]
    assert all(bool((each >= 0).all()) and float(each.max()) <= 1 for each in known if len(each))


# Metrics that judge methods


@pytest.mark.long
@pytest.mark.parametrize("name", of_kind("attribute"))
def test_no_metric_that_judges_methods_has_a_fault(name):
    report = check_metric(name, time_limit=None)
    assert report.passed, report
    assert [row.id for row in report.checks] == list(checks_of("attribute"))
    decided = {row.id: row.status for row in report.checks}
    known = ("varied", "unchanged", "changed", "each-image")
    assert {decided[each] for each in known} == {"pass"}


def draw_anew(model, layers=slice(None)):
    for layer in [each for each in model if hasattr(each, "reset_parameters")][layers]:
        layer.reset_parameters()


def cosines(first, second):
    return cosine_similarity(first.flatten(1), second.flatten(1))


def randomization(model, images, targets, attribute, *, layers=slice(None), put_back="always"):
    """Cosine of maps before and after layers are drawn anew."""
    before, kept = attribute(model, images, targets), copy.deepcopy(model.state_dict())
    failed = True
    try:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            draw_anew(model, layers)
        scores, failed = cosines(before, attribute(model, images, targets)), False
        return scores
    finally:
        if put_back == "always" or (put_back == "on success" and not failed):
            model.load_state_dict(kept)


def never_randomizes(model, images, targets, attribute):
    return cosines(attribute(model, images, targets), attribute(model, images, targets).flip(-1))


def takes_another_target_too(model, images, targets, attribute):
    return randomization(
        model, images, targets, lambda m, x, y: attribute(m, x, y) + attribute(m, x, 1 - y)
    )


def compares_a_map_with_itself(*asked):
    randomization(*asked)
    maps = asked[-1](*asked[:-1])
    return cosines(maps, maps)


def draws_from_the_global_state(model, images, targets, attribute):
    other = copy.deepcopy(model)
    draw_anew(other)
    return cosines(attribute(model, images, targets), attribute(other, images, targets))


def seeds_the_global_state(*asked):
    torch.manual_seed(0)
    return draws_from_the_global_state(*asked)


def swallows_errors(*asked):
    try:
        return randomization(*asked)
    except RuntimeError:
        return torch.zeros(len(asked[1]))


def fails_at_nan(*asked):  # which passes through a cosine: nothing is raised
    scores = keeps_new_weights(*asked)
    if scores.isnan().any():
        raise ValueError("NaN")
    return scores


def keeps_new_weights(*asked):
    return randomization(*asked, put_back="never")


def puts_back_unless_it_fails(*asked):
    return randomization(*asked, put_back="on success")


def divides_by_the_map(*asked):
    return randomization(*asked) + 1 / asked[-1](*asked[:-1]).flatten(1).norm(dim=1)


OF_METHODS = [
    ("model-kept", keeps_new_weights, "changed: weights"),
    ("error-of-method", puts_back_unless_it_fails, "changed: weights"),
    ("nan-maps", fails_at_nan, "changed: weights"),
    ("shape-of-maps", puts_back_unless_it_fails, "changed: weights"),
    ("varied", never_randomizes, "varied: nothing"),
    (
        "varied",
        lambda *asked: randomization(*asked, layers=slice(-1, None)),
        "varied: weights 2 of 6",
    ),
    ("varied", takes_another_target_too, "varied: weights 6 of 6, target 4 of 4"),
    ("changed", compares_a_map_with_itself, ""),
    ("global-seed", draws_from_the_global_state, ""),
    ("random-states-kept", seeds_the_global_state, ""),
    ("each-image", lambda *asked: randomization(*asked)[:1].expand(len(asked[1])), ""),
    ("each-image", lambda *asked: randomization(*asked).mean().expand(len(asked[1])), ""),
    ("nan-maps", lambda *asked: randomization(*asked).nan_to_num(), ""),
    ("shape-of-maps", swallows_errors, ""),
    ("error-of-method", swallows_errors, ""),
    ("zero-maps", divides_by_the_map, ""),
    ("scale", lambda *asked: (asked[-1](*asked[:-1]) ** 2).mean((1, 2, 3)), ""),
    ("unchanged", never_randomizes, ""),
]
MARKS = {"varies": "weights", "unchanged": 1, "sampled": True, "invariances": ("scale",)}


def of_methods(function, *only, **marks):
    def judge(model, images, targets, attribute):
        return function(model, images, targets, attribute)

    return faults(judge, *only, **{"higher_is_better": False, **MARKS, **marks})


@pytest.mark.long
def test_the_right_randomization_has_no_fault():
    assert not of_methods(randomization)


@pytest.mark.parametrize(("expected", "function", "said"), OF_METHODS)
def test_each_wrong_randomization_is_found_by_its_check(expected, function, said):
    assert said in of_methods(function, expected)[expected]


@pytest.mark.parametrize("check", dict.fromkeys(check for check, *_ in OF_METHODS))
def test_no_check_finds_the_right_randomization_wrong(check):
    assert not of_methods(randomization, check)


@pytest.mark.parametrize(
    ("expected", "marks"),
    [
        ("changed", {"higher_is_better": True}),
        ("unchanged", {"unchanged": 0.5}),
        ("varied", {"varies": "image"}),
    ],
)
def test_wrong_declarations_of_a_randomization_are_found(expected, marks):
    assert list(of_methods(randomization, expected, **marks)) == [expected]


def test_without_declarations_what_needs_them_is_not_asked():
    checks = ["varied", "unchanged", "changed", "each-image"]

    def undeclared(model, images, targets, attribute):
        return randomization(model, images, targets, attribute)

    results = found(undeclared, *checks, higher_is_better=False)
    assert [status for status, _ in results.values()] == ["not applicable"] * 4
    assert "varied: weights 6 of 6; declare varies=" in results["varied"][1]
    assert "unchanged=" in results["unchanged"][1]


def by_weights(model, images, targets):
    return model[1].weight[targets].reshape(images.shape).detach()


@pytest.fixture(params=[True, False], ids=["rising", "signs"])
def lab(request):
    """A linear laboratory in float64."""
    return replace(linear(0, rising=request.param), dtype=torch.float64)


@pytest.mark.parametrize(
    ("function", "by_image", "score"),
    [
        (metrics.local_lipschitz, False, 0),
        (metrics.local_lipschitz, True, 3),
        (metrics.max_sensitivity, False, 0),
        (metrics.relative_input_stability, False, 0),
        (metrics.relative_input_stability, True, 1),
    ],
)
def test_the_gradient_of_a_linear_network_is_stable_and_3x_has_the_constant_3(
    lab, function, by_image, score
):
    method = (lambda model, images, targets: 3 * images) if by_image else by_weights
    about = {"model": lab.model, "images": lab.images, "targets": lab.targets}
    scores = function(**about, attribute=method, radius=0.1)
    # In float64 each of 64 values is off by 2^-53 of at most 12, and noise moves an image by 0.1.
    torch.testing.assert_close(scores, torch.full_like(scores, score), rtol=0, atol=1e-12)


def entropy(values):
    return scipy.stats.entropy(np.histogram(values, bins=100)[0])


def test_randomization_of_a_linear_network_is_the_correlation_of_its_weights(lab):
    lab = replace(lab, dtype=torch.float32)  # other weights are drawn in float64
    asked = lab.model, lab.images, lab.targets, by_weights
    with torch.random.fork_rng():
        torch.manual_seed(5)
        new = nn.Linear(PIXELS, 2).weight.detach().double()
    old = lab.weights
    for first, second, scores in (
        (old[0], new[0], metrics.parameter_randomization(*asked, seed=5)),
        (old[0], old[1], metrics.random_logit(*asked)),
    ):
        rho = scipy.stats.spearmanr(first, second).statistic
        assert scores.tolist() == pytest.approx([rho] * 4, abs=1e-12)
    rise = entropy(new[0].float()) / entropy(old[0].float()) - 1
    scores = metrics.efficient_parameter_randomization(*asked, seed=5)
    assert scores.tolist() == pytest.approx([rise] * 4, abs=1e-12)


def test_a_method_that_ignores_the_network_has_the_correlation_1(lab):
    def edges(model, images, targets):
        return images.diff(dim=-1, prepend=images[..., :1]).abs()

    asked = lab.model, lab.images, lab.targets, edges
    one = pytest.approx([1] * 4, abs=1e-12)  # 64 products of ranks in float64
    assert metrics.parameter_randomization(*asked).tolist() == one
    assert metrics.random_logit(*asked).tolist() == one
    assert metrics.efficient_parameter_randomization(*asked).tolist() == [0] * 4
