"""Verdicts of a test: uncertainty, controls, the bar, examples."""

import numpy as np
import pytest

import attributionlab as al
from attributionlab.methods.controls import ALONGSIDE, CONTROLS
from attributionlab.metrics import alignment, best_map
from attributionlab.stats.intervals import images_to_decide, least_mean_interval, mean_interval
from attributionlab.truth import smoothed


@pytest.fixture(scope="module")
def colors():
    return al.load("multi-color-sum", image_size=24)


@pytest.fixture(scope="module")
def shapes():
    """Patches as in full size, among distractors."""
    return al.load("multi-color-sum-distractors", image_size=72)


@pytest.fixture(scope="module")
def modulo():
    return al.load("single-color-modulo", image_size=24)


def truth_of(env, n, seed=0):
    images, labels = env.batch(n, seed)
    return env.truth(images, env.targets(labels))


def right_on(env, n, count):
    """The truth for some images, its opposite for the others."""
    maps = truth_of(env, n).signed.float()
    maps[count:] *= -1
    return maps


# Uncertainty


@pytest.mark.long
def test_the_intervals_are_those_of_the_scores_of_the_images(colors):
    asked = {"n": 9, "seed": 3, "diagnosed": False}
    [result] = al.faithfulness_test("random", colors, **asked).environments
    for part, scores in result.scores.items():
        for score, values in scores.items():
            assert result.intervals[part][score] == mean_interval(values, 3)
    claimed = {part: result.scores[part]["f1"] for part in ("overall", "positive", "negative")}
    assert result.claim_interval == least_mean_interval(claimed, 3)
    [overall] = al.faithfulness_test("random", colors, claim="overall", **asked).environments
    assert overall.claim_interval == mean_interval(overall.scores["overall"]["f1"], 3)
    document = result.to_dict()
    assert document["claim_ci"] == list(result.claim_interval)
    assert document["overall"]["f1_ci"] == list(result.intervals["overall"]["f1"])


def test_gamma_inside_the_interval_is_undecided_and_says_what_would_decide(colors):
    report = al.faithfulness_test(right_on(colors, 16, 9), colors, n=16, one_network=True)
    [result] = report.environments
    assert report.verdict == result.verdict == "inconclusive"
    low, high = result.claim_interval
    assert low < 0.5 < high
    claimed = {part: result.scores[part]["f1"] for part in ("overall", "positive", "negative")}
    assert result.images_to_decide == images_to_decide(claimed, 0.5) > 16
    said = " ".join(repr(report).split())
    assert f"bout {result.images_to_decide} images like these would decide" in said


def test_a_single_image_decides_nothing(colors):
    report = al.faithfulness_test("oracle", colors, n=1, one_network=True)
    [result] = report.environments
    assert (report.verdict, result.claim_interval, result.images_to_decide) == (
        "inconclusive",
        None,
        None,
    )
    assert "a part of the claim applies to fewer than two images" in " ".join(repr(report).split())


@pytest.mark.long
def test_the_gravest_verdict_of_the_environments_is_that_of_the_test(colors, modulo):
    n = 16
    maps = {colors.name: right_on(colors, n, 9), modulo.name: truth_of(modulo, n).signed.float()}
    assert (
        al.faithfulness_test(maps, [colors, modulo], n=n, one_network=True).verdict
        == "inconclusive"
    )
    maps[modulo.name] = -maps[modulo.name]
    report = al.faithfulness_test(maps, [colors, modulo], n=n, one_network=True)
    assert report.verdict == "fail"
    assert report.least.name == modulo.name
    assert report.to_dict()["least"] == {
        "environment": modulo.name,
        "claim_f1": 0.0,
        "claim_ci": [0.0, 0.0],
    }


# Controls


@pytest.mark.long
def test_controls_score_what_they_score_when_they_are_tested_themselves(shapes):
    for claim in ("signed", "positive-smoothed"):
        asked = {"n": 3, "claim": claim, "diagnosed": False}
        [result] = al.faithfulness_test("sobel", shapes, **asked, one_network=True).environments
        assert set(result.controls) == set(ALONGSIDE)
        for name, control in result.controls.items():
            [itself] = al.faithfulness_test(name, shapes, **asked, one_network=True).environments
            # Maps of a method under test are kept in float32, those of a control are not.
            assert control.claim_f1 == pytest.approx(itself.claim_f1, abs=1e-6)
            assert control.passes == (itself.claim_f1 >= 0.5)


def test_a_test_whose_oracle_fails_is_invalid(colors, monkeypatch):
    monkeypatch.setitem(CONTROLS, "oracle", CONTROLS["sobel"])
    report = al.faithfulness_test("sobel", colors, n=2)
    assert report.verdict == "invalid"
    assert "the oracle scores 0." in report.environments[0].reason
    assert "best possible map scores 1.000" in report.environments[0].reason
    assert "no verdict" in " ".join(repr(report).split())


@pytest.mark.parametrize("control", ["random", "constant"])
def test_a_bar_that_random_or_constant_maps_reach_is_none(colors, control, monkeypatch):
    for name in ("random", "constant"):
        monkeypatch.setitem(CONTROLS, name, CONTROLS["sobel"])
    monkeypatch.setitem(CONTROLS, control, CONTROLS["oracle"])
    report = al.faithfulness_test("sobel", colors, n=2)
    assert report.verdict == "invalid"
    assert f"the control {control}, which must fail, scores 1.00" in report.environments[0].reason


def test_a_small_gamma_is_no_bar(colors):
    report = al.faithfulness_test("sobel", colors, n=2, gamma=0.02, claim="overall")
    assert report.verdict == "invalid"
    assert "choose a larger one" in report.environments[0].reason


def test_an_inverted_map_must_fail_only_where_signs_count(colors, monkeypatch):
    right = truth_of(colors, 2).signed.float()
    assert (
        al.faithfulness_test(right, colors, n=2, claim="overall", one_network=True).verdict
        == "pass"
    )
    monkeypatch.setitem(CONTROLS, "inverted-oracle", CONTROLS["oracle"])
    assert (
        al.faithfulness_test(right, colors, n=2, claim="overall", one_network=True).verdict
        == "pass"
    )
    report = al.faithfulness_test(right, colors, n=2, one_network=True)
    assert report.verdict == "invalid"
    assert "inverted-oracle" in report.environments[0].reason


def test_a_gamma_above_what_the_best_map_reaches_is_invalid(shapes):
    report = al.faithfulness_test(
        "oracle", shapes, n=2, gamma=0.95, claim="positive-smoothed", one_network=True
    )
    assert report.verdict == "invalid"
    [result] = report.environments
    assert f"even the best possible map scores {result.ceiling:.2f}" in result.reason
    truth = smoothed(truth_of(shapes, 2).positive, shapes.smoothing_sigma)
    assert result.ceiling == float(alignment(best_map(truth), truth).f1.mean())


@pytest.mark.long
def test_input_only_controls_that_pass_are_the_bar(colors, shapes):
    [plain] = al.faithfulness_test("oracle", colors, n=4, claim="overall").environments
    assert "non-background" in plain.bar
    [result] = al.faithfulness_test("oracle", shapes, n=4).environments
    assert result.bar == []
    assert result.to_dict()["bar"] == []


# Examples


@pytest.mark.long
@pytest.mark.parametrize(
    ("n", "ranks"),
    [
        (1, ["median"]),
        (2, ["worst", "median"]),
        (3, ["worst", "median", "best"]),
        (9, ["worst", "lower quartile", "median", "upper quartile", "best"]),
    ],
)
def test_examples_go_from_the_worst_to_the_best_image(colors, n, ranks):
    [result] = al.faithfulness_test("random", colors, n=n, claim="overall").environments
    f1 = result.scores["overall"]["f1"]
    assert [example.rank for example in result.examples] == ranks
    assert [example.f1 for example in result.examples] == [
        f1[example.sample] for example in result.examples
    ]
    shown = dict(zip(ranks, (example.f1 for example in result.examples), strict=True))
    assert shown["median"] == np.sort(f1)[n // 2]
    if "best" in shown:
        assert (shown["worst"], shown["best"]) == (f1.min(), f1.max())
