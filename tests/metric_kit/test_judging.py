"""Metrics that judge methods: their scores where they are known, and the fault of each wrong twin."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch

import attributionlab as al
from attributionlab import AttributionLabError, check_metric
from attributionlab.metrics import (
    efficient_parameter_randomization,
    local_lipschitz,
    max_sensitivity,
    metric,
    parameter_randomization,
    random_logit,
    relative_input_stability,
)
from attributionlab.verdicts import FUNCTIONS, as_metric
from attributionlab.verdicts.metric_kit.laboratories import PIXELS, linear
from attributionlab.verdicts.metric_kit.run import JUDGE_CHECKS
from attributionlab.verdicts.metric_trials.registry import handed

JUDGES = [name for name, function in FUNCTIONS.items() if handed(function, name) == "attribute"]
LABS = {"rising": True, "signs": False}


def test_these_are_the_metrics_here_that_judge_methods():
    relative = [f"relative-{what}-stability" for what in ("input", "output", "representation")]
    assert set(JUDGES) == {
        *("parameter-randomization", "efficient-parameter-randomization", "random-logit"),
        *("local-lipschitz", "max-sensitivity", *relative),
    }


@pytest.mark.long
@pytest.mark.parametrize("name", JUDGES)
def test_none_of_them_has_a_fault(name):
    report = check_metric(name, time_limit=None)
    assert report.passed, report
    assert [row.id for row in report.checks] == list(JUDGE_CHECKS)
    decided = {row.id: row.status for row in report.checks}
    assert {decided[name] for name in ("varied", "unchanged", "changed", "each-image")} == {"pass"}


def draw_anew(model, *, layers=slice(None)):
    for layer in [each for each in model if hasattr(each, "reset_parameters")][layers]:
        layer.reset_parameters()


def cosines(first, second):
    return torch.cosine_similarity(first.flatten(1), second.flatten(1))


def randomization(model, images, targets, attribute):
    """Cosine of maps before and after all layers are drawn anew."""
    before, kept = attribute(model, images, targets), copy.deepcopy(model.state_dict())
    try:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            draw_anew(model)
        return cosines(before, attribute(model, images, targets))
    finally:
        model.load_state_dict(kept)


def keeps_no_weights(model, images, targets, attribute):
    before = attribute(model, images, targets)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draw_anew(model)
    return cosines(before, attribute(model, images, targets))


def puts_back_unless_it_fails(model, images, targets, attribute):
    kept = copy.deepcopy(model.state_dict())
    scores = keeps_no_weights(model, images, targets, attribute)
    model.load_state_dict(kept)
    return scores


def never_randomizes(model, images, targets, attribute):
    return cosines(attribute(model, images, targets), attribute(model, images, targets).flip(-1))


def randomizes_the_last_layer_only(model, images, targets, attribute):
    other = copy.deepcopy(model)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draw_anew(other, layers=slice(-1, None))
    return cosines(attribute(model, images, targets), attribute(other, images, targets))


def takes_another_target_too(model, images, targets, attribute):
    return randomization(
        model, images, targets, lambda m, x, y: attribute(m, x, y) + attribute(m, x, 1 - y)
    )


def compares_a_map_with_itself(model, images, targets, attribute):
    randomization(model, images, targets, attribute)
    maps = attribute(model, images, targets)
    return cosines(maps, maps)


def draws_from_the_global_state(model, images, targets, attribute):
    other = copy.deepcopy(model)
    draw_anew(other)
    return cosines(attribute(model, images, targets), attribute(other, images, targets))


def seeds_the_global_state(model, images, targets, attribute):
    torch.manual_seed(0)
    return draws_from_the_global_state(model, images, targets, attribute)


def scores_the_first_image_only(model, images, targets, attribute):
    return randomization(model, images, targets, attribute)[:1].expand(len(images))


def scores_the_batch(model, images, targets, attribute):
    return randomization(model, images, targets, attribute).mean().expand(len(images))


def swallows_errors(model, images, targets, attribute):
    try:
        return randomization(model, images, targets, attribute)
    except RuntimeError:
        return torch.zeros(len(images))


def hides_nan(model, images, targets, attribute):
    return randomization(model, images, targets, attribute).nan_to_num()


def divides_by_the_map(model, images, targets, attribute):
    size = attribute(model, images, targets).flatten(1).norm(dim=1)
    return randomization(model, images, targets, attribute) + 1 / size


def scales_count(model, images, targets, attribute):
    return (attribute(model, images, targets) ** 2).mean((1, 2, 3))


TWINS = {
    "model-kept": keeps_no_weights,
    "error-of-method": puts_back_unless_it_fails,
    "varied": never_randomizes,
    "changed": compares_a_map_with_itself,
    "global-seed": draws_from_the_global_state,
    "random-states-kept": seeds_the_global_state,
    "each-image": scores_the_first_image_only,
    "nan-maps": hides_nan,
    "shape-of-maps": swallows_errors,
    "zero-maps": divides_by_the_map,
    "scale": scales_count,
    "unchanged": never_randomizes,
}
MARKS = {"varies": "weights", "unchanged": 1, "sampled": True, "invariances": ("scale",)}


def faults(function, *only, **marks):
    @metric(**({"higher_is_better": False, "per_sample": True} | MARKS | marks))
    def marked(model, images, targets, attribute):
        return function(model, images, targets, attribute)

    report = check_metric(marked, only=only or None, time_limit=None)
    return {row.id: row.found for row in report.findings}


@pytest.mark.long
def test_the_right_metric_has_no_fault():
    assert not faults(randomization)


@pytest.mark.parametrize("expected", TWINS)
def test_each_wrong_twin_is_found_by_its_check(expected):
    assert expected in faults(TWINS[expected], expected)
    assert not faults(randomization, expected)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (never_randomizes, "varied: nothing"),
        (randomizes_the_last_layer_only, "varied: weights 2 of 6"),
        (takes_another_target_too, "varied: weights 6 of 6, target 4 of 4"),
    ],
    ids=["nothing", "last-layer", "target-too"],
)
def test_what_it_varied_is_told(function, said):
    assert faults(function, "varied") == {"varied": said}


@pytest.mark.parametrize(
    ("function", "check"),
    [(scores_the_batch, "each-image"), (swallows_errors, "error-of-method")],
    ids=["batch-mean", "swallowed"],
)
def test_other_twins_are_found_too(function, check):
    assert list(faults(function, check)) == [check]


@pytest.mark.parametrize("check", ["model-kept", "error-of-method", "nan-maps", "shape-of-maps"])
def test_what_is_left_changed_is_said(check):
    function = keeps_no_weights if check == "model-kept" else puts_back_unless_it_fails
    if check == "nan-maps":  # NaN passes through a cosine: nothing is raised

        def function(model, images, targets, attribute):
            scores = keeps_no_weights(model, images, targets, attribute)
            if scores.isnan().any():
                raise ValueError("NaN")
            return scores

    assert "changed: weights" in faults(function, check)[check]


def test_a_wrong_direction_and_a_wrong_declared_score_are_found():
    assert list(faults(randomization, "changed", higher_is_better=True)) == ["changed"]
    assert list(faults(randomization, "unchanged", unchanged=0.5)) == ["unchanged"]
    assert list(faults(randomization, "varied", varies="image")) == ["varied"]


def test_without_declarations_what_needs_them_is_not_asked():
    checks = ["varied", "unchanged", "changed", "each-image"]
    report = check_metric(randomization, higher_is_better=False, only=checks, time_limit=None)
    assert [row.status for row in report.checks] == ["not applicable"] * 4
    assert "varied: weights 6 of 6; declare varies=" in report.checks[0].found
    assert "unchanged=" in report.checks[1].found


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"varies": "layers"}, "varies is 'layers': take None or 'weights'"),
        ({"unchanged": "one"}, "unchanged is 'one': take a finite number"),
        ({"unchanged": float("nan")}, "unchanged is nan: take"),
    ],
    ids=["varies", "text", "nan"],
)
def test_impossible_declarations_are_refused(marks, message):
    with pytest.raises(AttributionLabError, match=message):
        metric(higher_is_better=True, per_sample=True, **marks)


def test_a_function_that_judges_methods_is_no_metric_of_maps():
    with pytest.raises(
        AttributionLabError, match=r"randomization cannot be tested: .*check_metric"
    ):
        as_metric(randomization, higher_is_better=False)
    with pytest.raises(
        AttributionLabError, match=r"random-logit cannot be tested: .*--checks-only"
    ):
        al.metric_test("random-logit")


def by_weights(model, images, targets):
    return model[1].weight[targets].reshape(images.shape).detach()


def thrice(model, images, targets):
    return 3 * images


@pytest.fixture(params=LABS)
def lab(request):
    """A linear laboratory in float64."""
    return replace(linear(0, rising=LABS[request.param]), dtype=torch.float64)


@pytest.mark.parametrize(
    ("function", "method", "score"),
    [
        (local_lipschitz, by_weights, 0),
        (local_lipschitz, thrice, 3),
        (max_sensitivity, by_weights, 0),
        (relative_input_stability, by_weights, 0),
        (relative_input_stability, thrice, 1),
    ],
    ids=["lipschitz-w", "lipschitz-3x", "sensitivity-w", "relative-w", "relative-3x"],
)
def test_the_gradient_of_a_linear_network_is_stable_and_3x_has_the_constant_3(
    lab, function, method, score
):
    scores = function(
        model=lab.model, images=lab.images, targets=lab.targets, attribute=method, radius=0.1
    )
    # In float64 each of 64 values is off by 2^-53 of at most 12, and noise moves an image by 0.1.
    torch.testing.assert_close(scores, torch.full_like(scores, score), rtol=0, atol=1e-12)


def new_weights(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Linear(PIXELS, 2).weight.detach().double()


def entropy(values):
    return scipy.stats.entropy(np.histogram(values, bins=100)[0])


def test_randomization_of_a_linear_network_is_the_correlation_of_its_weights(lab):
    lab = replace(lab, dtype=torch.float32)  # other weights are drawn in float64
    asked = lab.model, lab.images, lab.targets, by_weights
    old, new = lab.weights, new_weights(5)
    rho = scipy.stats.spearmanr(old[0], new[0]).statistic
    assert parameter_randomization(*asked, seed=5).tolist() == pytest.approx([rho] * 4, abs=1e-12)
    rise = entropy(new[0].float()) / entropy(old[0].float()) - 1
    found = efficient_parameter_randomization(*asked, seed=5)
    assert found.tolist() == pytest.approx([rise] * 4, abs=1e-12)
    rho = scipy.stats.spearmanr(old[0], old[1]).statistic
    assert random_logit(*asked).tolist() == pytest.approx([rho] * 4, abs=1e-12)


def test_a_method_that_ignores_the_network_has_the_correlation_1(lab):
    def edges(model, images, targets):
        return images.diff(dim=-1, prepend=images[..., :1]).abs()

    asked = lab.model, lab.images, lab.targets, edges
    one = pytest.approx([1] * 4, abs=1e-12)  # 64 products of ranks in float64
    assert parameter_randomization(*asked).tolist() == one
    assert random_logit(*asked).tolist() == one
    assert efficient_parameter_randomization(*asked).tolist() == [0] * 4
