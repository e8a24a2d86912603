"""Methods broken on purpose, and real ones that fail for a known reason, get the right first hint."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.base import SOLVED_ABOVE
from attributionlab.methods import METHODS, Call, as_method, attribute, collect_notices
from attributionlab.verdicts.diagnosis.hints import across, diagnose
from diagnosis.failures import (
    blurred,
    case_of,
    evidence_of,
    flipped,
    foreground,
    noise,
    right,
    shifted,
)

ENVIRONMENTS = ("multi-color-sum", "multi-color-sum-distractors", "single-color-modulo")
"""All that counts is the foreground; some of it does not count; a remainder."""


@pytest.fixture(scope="module")
def large():
    return [case_of(al.load(name), 4) for name in ENVIRONMENTS]


@pytest.fixture(scope="module")
def small():
    return [case_of(al.load(name, image_size=72), 4) for name in ENVIRONMENTS]


def first(evidence):
    return next(iter(diagnose(evidence).hints), None)


def gaussian(case, sigma):
    generator = torch.Generator().manual_seed(0)
    return right(case) + sigma * torch.randn(right(case).shape, generator=generator)


BROKEN = {
    "sign-flips": (flipped, "all signs wrong in 3 of the 4 images (samples 1, 2, 3)"),
    "shift": (shifted, "3 rows, 3 columns"),
    "blur": (blurred, "sigma about 12 pixels"),
    "foreground": (foreground, "the foreground"),
    "unrelated": (noise, "noise"),
}


@pytest.mark.parametrize("cause", BROKEN)
@pytest.mark.parametrize(
    ("size", "claim"),
    [(72, "signed"), (72, "overall"), pytest.param(224, "signed", marks=pytest.mark.slow)],
)
def test_a_broken_method_gets_its_own_diagnosis_wherever_it_fails(small, large, size, cause, claim):
    broken, words = BROKEN[cause]
    failed = 0
    for case in small if size == 72 else large:
        evidence = evidence_of(case, broken(case), claim)
        if 1 - evidence.missing > SOLVED_ABOVE:
            continue
        failed += 1
        hint = first(evidence)
        assert hint.cause == cause
        assert words in hint.says
        assert evidence.missing / 2 < hint.explains <= evidence.missing
        assert hint.confirm
    # Overall, signs do not count, and foreground reaches 0.5 with two distractors.
    if (cause, claim) in (("sign-flips", "overall"), ("foreground", "overall")):
        assert failed == 0
    else:
        assert failed == (2 if cause == "foreground" else 3)


@pytest.mark.long
def test_a_method_right_on_one_environment_only_is_told_so_before_all_but_concrete_causes(small):
    color = small[0]
    zeros = lambda case: torch.zeros_like(right(case))  # noqa: E731
    for wrong, concrete in ((noise, False), (flipped, True), (zeros, True), (shifted, True)):
        evidence = [evidence_of(color, right(color))]
        evidence += [evidence_of(case, wrong(case)) for case in small[1:]]
        hint, *others = across(evidence)[:: -1 if concrete else 1]
        assert hint.cause == "one-environment"
        assert "right on multi-color-sum (F1 1.00) and wrong on multi-color-sum-distr" in hint.says
        assert "single-color-modulo (F1 " in hint.says
        [other] = others
        assert other.says.startswith("in multi-color-sum-distractors and single-color-modulo")


def test_a_failure_that_no_other_sign_shows_accounts_for_what_is_passed(small):
    """Min-max normalization moves nothing where the truth is never negative, nor has it classes."""

    def scaled(case):
        lowest = right(case).amin((1, 2, 3), keepdim=True)
        return (right(case) - lowest) / (1 - lowest)

    hints = across([evidence_of(case, scaled(case)) for case in small])
    assert [hint.cause for hint in hints] == ["offset"]


def test_a_map_of_the_foreground_is_right_nowhere_though_it_passes_where_that_is_the_truth(small):
    evidence = [evidence_of(case, foreground(case)) for case in small]
    assert [round(1 - each.missing, 2) for each in evidence] == [0, 0, 1]
    assert across(evidence)[0].cause == "foreground"


def test_environments_that_can_decide_for_those_that_cannot(small):
    """On multi-color-sum all that is not background is the truth without its signs."""
    evidence = [evidence_of(case, right(case).abs()) for case in small]
    assert first(evidence[0]).cause == "foreground"
    assert across(evidence)[0].cause == "unsigned"
    assert "multi-color-sum and multi-color-sum-distractors" in across(evidence)[0].says


def test_a_cause_in_several_environments_is_named_once(small):
    hints = across([evidence_of(case, shifted(case)) for case in small])
    assert [hint.cause for hint in hints] == ["shift"]
    [alone] = across([evidence_of(small[0], shifted(small[0]))])
    assert alone.says.startswith("the maps look like the truth shifted by 3 rows")


@pytest.mark.parametrize("claim", ["signed", "overall", "positive"])
def test_the_truth_gets_no_hint(small, claim):
    evidence = [evidence_of(case, right(case), claim) for case in small]
    assert [diagnose(each).hints for each in evidence] == [(), (), ()]
    assert across(evidence) == ()


@pytest.mark.long
def test_small_noise_tells_no_story_but_its_own(small):
    for case in small:
        for sigma in (1e-4, 0.02, 0.1):
            hints = diagnose(evidence_of(case, gaussian(case, sigma))).hints
            assert {hint.cause for hint in hints} <= {"noise-floor", "sizes", "stray-signs"}
        if case.truth.negative.any():
            assert not diagnose(evidence_of(case, gaussian(case, 1e-6), "overall")).hints
        else:  # where nothing is negative, rounding below 0 is scaled to -1
            hint = first(evidence_of(case, gaussian(case, 1e-6), "overall"))
            assert hint.cause == "stray-signs"


def test_uneven_sizes_by_chance_are_no_unseen_colors(small):
    for case in small:
        evidence = evidence_of(case, right(case) * noise(case))
        assert [hint.cause for hint in diagnose(evidence).hints] == ["sizes"]


@pytest.mark.long
def test_coarse_maps_that_leak_into_the_background_have_no_wrong_baseline(small):
    for case in small:
        for sigma in (4, 12):
            for claim in ("signed", "positive"):
                evidence = evidence_of(case, blurred(case, sigma), claim)
                assert "baseline" not in {hint.cause for hint in diagnose(evidence).hints}


def test_a_diagnosis_repeats_what_is_missing(small):
    evidence = evidence_of(small[0], blurred(small[0]))
    diagnosis = diagnose(evidence)
    assert diagnosis.missing == evidence.missing
    assert diagnosis.shares == evidence.shares
    # Means over images of float64 sums that are exact to rounding.
    assert sum(diagnosis.shares.values()) == pytest.approx(diagnosis.missing, abs=1e-12)


def test_an_outlier_is_named(small):
    for case in small:
        maps = right(case)
        maps[:, 0, 0, 0] = 1000
        hint = first(evidence_of(case, maps))
        assert hint.cause == "outliers"
        assert "raises F1" in hint.says
        assert "quantile" in hint.confirm


def test_what_a_rule_says_needs_its_evidence(small):
    case = small[0]
    plain = evidence_of(case, noise(case))
    expected = {
        "saturation": {"guards": frozenset({"saturation"})},
        "hooks": {"guards": frozenset({"hooks"})},
        "quadrature": {"guards": frozenset({"quadrature"}), "completeness_gap": 1.5},
        "segmentation": {
            "own_ceiling": 0.4, "own_resolution": "own regions", "takes": frozenset({"segmentation"}),
        },
        "resolution": {"own_ceiling": 0.75, "own_resolution": "9 x 9 cells"},
    }  # fmt: skip
    for cause, known in expected.items():
        if cause == "saturation":
            known["all_zero"] = 1.0
        evidence = replace(plain, **known)
        assert cause in {hint.cause for hint in diagnose(evidence).hints}
    for known in (
        {"own_ceiling": 0.78, "own_resolution": "25 x 25 cells"},
        {"completeness_gap": 1.5},
        {"completeness_gap": 1.5, "guards": frozenset({"completeness"})},
        {"guards": frozenset({"kinks", "zeros"})},
    ):
        causes = {hint.cause for hint in diagnose(replace(plain, **known)).hints}
        assert causes == {"unrelated"}


def test_a_claim_about_signs_of_a_positive_method_is_named(small):
    for case in small[:2]:
        hint = first(evidence_of(case, right(case).clamp(min=0)))
        assert hint.cause == "positive-only"
        assert "--claim positive" in hint.confirm
        coarse = diagnose(evidence_of(case, blurred(case, 4).clamp(min=0)))
        assert {"positive-only", "blur"} & {hint.cause for hint in coarse.hints}


@pytest.mark.long
def test_a_distance_from_the_background_has_no_negative_values_first_of_all():
    # On multi-color-sum alone it is the foreground; gray numbers lie at different distances.
    environments = [al.load(name, image_size=72) for name in ("multi-color-sum", "number-checker")]
    report = al.faithfulness_test("baseline-distance", environments, n=4)
    assert [hint.cause for hint in report.hints][:2] == ["unsigned", "baseline-distance"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("single-color-modulo", "across a wrap"), ("color-detector", "a division")],
)
def test_flipped_signs_are_explained_by_what_the_output_does(name, words):
    env = al.load(name, image_size=72)
    images, labels = env.batch(8)
    maps = env.truth(images, env.targets(labels)).signed.numpy().copy()
    maps[1:] *= -1
    with pytest.warns(al.AttributionWarning, match="int8"):
        report = al.faithfulness_test(maps, env, n=8, one_network=True)
    assert report.hints[0].cause == "sign-flips"
    assert words in report.hints[0].confirm


# Real methods


def diagnosed(method, name, size=48, n=3, settings=None, **overrides):
    """As a test would, without its controls."""
    case = case_of(al.load(name, image_size=size, **overrides), n)
    env, adapted = case.env, as_method(method, METHODS, settings or {})
    output = env.outputs[0]
    targets = env.targets(torch.stack([env.dataset(n)[index].label for index in range(n)]))
    offered = {"baseline": env.baseline, "layers": env.layers, "highest": env.max_value}
    call = Call(env.name, env.explained_model(output), case.images, targets, 0, n, offered)
    with collect_notices() as told:
        maps = attribute(adapted, call, 0).maps
    gaps = next((each.gaps for each in told if len(each.gaps) == n), None)
    return evidence_of(
        case,
        maps.float(),
        adapted.claim or "signed",
        method=method,
        guards=frozenset(finding.kind for finding in told if finding.images and finding.kind),
        completeness_gap=None if gaps is None else float(np.median(gaps)),
        settings=adapted.settings,
        takes=frozenset({"baseline"} if adapted.asks_for("baseline") else ()),
        temperature=env.temperature,
    )


@pytest.mark.parametrize(
    ("cause", "method", "name", "more"),
    [
        ("baseline", "integrated-gradients", "multi-color-sum", {}),
        ("baseline", "integrated-gradients-exact", "multi-color-sum-distractors", {}),
        ("baseline", "deep-lift", "multi-color-sum", {}),
        ("unseen-colors", "integrated-gradients-exact-true-baseline", "multi-color-sum", {}),
        ("unseen-colors", "integrated-gradients-true-baseline", "multi-color-sum", {}),
        ("unseen-colors", "integrated-gradients-true-baseline", "multi-color-sum-distractors", {}),
        ("quadrature", "integrated-gradients", "single-color-modulo", {"n": 8}),
        ("saturation", "saliency", "multi-color-sum", {"temperature": 1, "size": 224, "n": 1}),
    ],
)
def test_a_real_method_gets_the_known_cause_of_its_failure_first(cause, method, name, more):
    hint = first(diagnosed(method, name, **more))
    assert hint.cause == cause
    assert "attributionlab test" in hint.confirm


@pytest.mark.long
@pytest.mark.parametrize("method", ["saliency", "guided-backprop"])
@pytest.mark.filterwarnings("ignore::attributionlab.base.errors.AttributionWarning")
def test_a_gradient_without_its_input_is_no_blur(method):
    env = al.load("single-color-modulo", image_size=72)
    report = al.faithfulness_test(method, env, n=2)
    assert [hint.cause for hint in report.hints] == ["gradient-without-input"]


def explained(model, inputs, targets):
    inputs = inputs.clone().requires_grad_()
    model(inputs).gather(1, targets[:, None]).sum().backward()
    return (inputs.grad * inputs).detach().sum(1, keepdim=True).sign()


def next_class(model, inputs, targets):
    return explained(model, inputs, (targets + 1) % model(inputs[:1]).shape[1])


def predicted_class(model, inputs, targets):
    return explained(model, inputs, model(inputs).argmax(1))


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "one_network", "cause"),
    [
        (next_class, True, "wrong-class"),
        (next_class, False, "wrong-class"),
        (predicted_class, True, "runner-up"),
        # Targets of questions are any class, so that no further run has to ask for another one.
        (predicted_class, False, "target"),
    ],
)
def test_a_method_that_explains_another_class_than_it_was_asked_for_is_told(
    method, one_network, cause
):
    env = al.load("multi-color-sum", image_size=48)
    hint, *_ = al.faithfulness_test(method, env, n=6, one_network=one_network).hints
    assert hint.cause == cause


@pytest.mark.long
@pytest.mark.parametrize(
    ("cause", "method", "settings"),
    [
        ("segmentation", "lime-true-baseline", {"segmentation": "grid", "n_samples": 100}),
        ("resolution", "gradcam", {}),
    ],
)
@pytest.mark.filterwarnings("ignore::attributionlab.base.errors.AttributionWarning")
def test_a_coarse_method_is_told_its_own_ceiling_by_the_test_itself(cause, method, settings):
    env = al.load("multi-color-sum", image_size=48)
    report = al.faithfulness_test(method, env, n=2, settings=settings)
    assert report.hints[0].cause == cause
    assert "allows a mean F1 up to" in report.hints[0].says


@pytest.mark.long
def test_the_experiment_that_a_hint_names_removes_the_cause():
    """Another baseline, no unseen colors: what is left is that masks state signs, not sizes."""
    for method, name in (
        ("deep-lift-true-baseline", "multi-color-sum"),
        ("integrated-gradients-exact-true-baseline", "multi-color-sum-in-distribution"),
        ("integrated-gradients-exact", "single-color-modulo"),
    ):
        evidence = diagnosed(method, name)
        assert {hint.cause for hint in diagnose(evidence).hints} <= {"sizes"}
        assert evidence.missing < 0.15
