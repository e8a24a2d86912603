"""Verdicts of a test: counts, controls, the bar, examples."""

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.base import Interval, Tally, mean_interval
from attributionlab.metrics import alignment, best_map
from attributionlab.verdicts import CONTROLS
from attributionlab.verdicts.controls import ALONGSIDE, BLIND
from attributionlab.verdicts.faithfulness.verdicts import ClaimScore, control_score
from attributionlab.worlds.truth import smoothed
from cases import loaded

shapes = loaded("multi-color-sum-distractors", image_size=72)
"""Patches as in full size, among distractors."""


def truth_of(env, n, seed=0):
    images, labels = env.batch(n, seed)
    return env.truth(images, env.targets(labels))


def right_on(env, n, count):
    """The truth for some images, its opposite for the others."""
    maps = truth_of(env, n).signed.float()
    maps[count:] *= -1
    return maps


# Counts


@pytest.mark.long
def test_means_have_intervals_that_describe_them(colors):
    asked = {"n": 9, "seed": 3, "also": None}
    [result] = al.faithfulness_test("random", colors, **asked).environments
    for part, scores in result.scores.items():
        for score, values in scores.items():
            assert result.intervals[part][score] == mean_interval(values, 3)
    assert result.claim_interval == result.intervals[result.claim_part]["f1"]
    document = result.to_dict()
    assert document["claim_ci"] == list(result.claim_interval)
    assert document["overall"]["f1_ci"] == list(result.intervals["overall"]["f1"])


def test_a_question_is_solved_by_its_lowest_part_and_the_verdict_counts(colors):
    report = al.faithfulness_test(right_on(colors, 16, 9), colors, n=16, one_network=True)
    [result] = report.environments
    parts = [result.scores[part]["f1"] for part in ("overall", "positive", "negative")]
    assert np.array_equal(result.lowest, np.min(parts, axis=0))
    assert result.lowest.tolist() == [1.0] * 9 + [0.0] * 7
    assert result.scores["overall"]["f1"].tolist() == [1.0] * 16  # signs decide
    assert result.count == (9, 16)
    assert report.verdict == result.verdict == "inconclusive"
    needed = result.questions_to_decide
    assert needed == Tally(9, 16).questions_to_decide() > 16
    document = result.to_dict()
    written = [document[key] for key in ("solved", "asked", "questions_to_decide")]
    assert written == [9, 16, needed]
    assert document["solved_ci"] == list(Tally(9, 16).interval)
    said = " ".join(report.text().split())
    assert "9 of 16" in said
    assert f"bout {needed} questions" in said


@pytest.mark.parametrize(("count", "verdict"), [(19, "pass"), (18, "inconclusive"), (10, "fail")])
def test_nineteen_of_twenty_pass(colors, count, verdict):
    report = al.faithfulness_test(
        right_on(colors, 20, count), colors, n=20, one_network=True, also=None
    )
    assert report.environments[0].count == (count, 20)
    assert report.verdict == verdict


def test_the_papers_criterion_is_a_column_beside_the_verdict(colors):
    report = al.faithfulness_test(right_on(colors, 16, 9), colors, n=16, one_network=True)
    [result] = report.environments
    assert result.claim_f1 == 9 / 16
    assert result.to_dict()["reaches_gamma"]
    report = al.faithfulness_test(right_on(colors, 16, 7), colors, n=16, one_network=True)
    assert not report.environments[0].to_dict()["reaches_gamma"]


def test_two_thirds_are_not_enough(colors):
    """As many false pixels as right ones: each part has F1 of two thirds exactly."""
    right = truth_of(colors, 13).signed
    maps = right.double()
    for signed, each in zip(right.flatten(1), maps.flatten(1), strict=True):
        free, start = (signed == 0).nonzero()[:, 0], 0
        for sign in (1, -1):
            many = int((signed == sign).sum())
            each[free[start : start + many]] = sign
            start += many
    report = al.faithfulness_test(maps.float(), colors, n=13, one_network=True)
    [result] = report.environments
    assert result.count == (0, 13)
    assert result.claim_f1 == pytest.approx(2 / 3, abs=1e-12)


def test_with_fewer_than_thirteen_questions_there_is_no_pass_and_a_warning_says_so(colors):
    for n in (1, 12):
        with pytest.warns(al.AttributionWarning, match=f"n is {n}: with fewer than 13 questions"):
            report = al.faithfulness_test("oracle", colors, n=n, one_network=True)
        [result] = report.environments
        assert (report.verdict, result.count) == ("inconclusive", (n, n))
        assert "with fewer than 13 questions no method passes" in " ".join(report.text().split())


@pytest.mark.long
def test_a_pass_needs_an_environment_for_each_hidden_thing(colors):
    asked = {"n": 13, "also": None}
    names = ["multi-color-sum-distractors", "quadrants", "marker-flips"]
    hiding = [al.load(name, image_size=40) for name in names]
    alone = al.faithfulness_test("oracle", hiding[0], **asked)
    assert alone.environments[0].verdict == "pass"
    assert (alone.verdict, alone.not_excluded) == ("inconclusive", ["place", "sign", "context"])
    two = al.faithfulness_test("oracle", hiding[:2], **asked)
    assert (two.verdict, two.not_excluded) == ("inconclusive", ["sign", "context"])
    # Signs and contexts are nothing to "overall", and the relevant pixels of other roles overlap here.
    overall = {"claim": "overall", **asked}
    assert al.faithfulness_test("oracle", hiding[:2], **overall).not_excluded == [
        "roles",
        "place",
        "color",
    ]
    all_four = al.load("all-four", image_size=40)
    assert al.faithfulness_test("oracle", all_four, **overall).verdict == "pass"
    three = al.faithfulness_test("oracle", hiding, **asked)
    assert (three.verdict, three.not_excluded) == ("pass", [])
    document = three.to_dict()["excludes"]
    assert document["context"] == {
        "alternatives": 2,
        "chance": pytest.approx(2.0**-13),
        "environment": "marker-flips",
    }
    assert document["target"]["alternatives"] == 4
    # In smaller images of marker-flips marks may have no sign of their own: nothing is stated there.
    assert al.load("marker-flips", image_size=24).hidden() == {}
    failed = al.faithfulness_test("random", hiding[:1], **asked)
    assert failed.verdict == "fail"  # whatever is not hidden


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
        "solved": 0,
        "asked": n,
        "claim_f1": 0.0,
    }


# Controls


@pytest.mark.long
def test_controls_score_what_they_score_when_they_are_tested_themselves(shapes):
    for claim in ("signed", "positive-smoothed"):
        asked = {"n": 3, "claim": claim, "also": None}
        [result] = al.faithfulness_test("sobel", shapes, **asked, one_network=True).environments
        assert set(result.controls) == set(ALONGSIDE)
        for name, control in result.controls.items():
            [itself] = al.faithfulness_test(name, shapes, **asked, one_network=True).environments
            # Maps of a method under test are kept in float32, those of a control are not.
            assert control.claim_f1 == pytest.approx(itself.claim_f1, abs=1e-6)
            assert control.count == itself.count


def test_a_test_whose_oracle_fails_is_invalid(colors, monkeypatch):
    monkeypatch.setitem(CONTROLS, "oracle", CONTROLS["sobel"])
    report = al.faithfulness_test("sobel", colors, n=2)
    assert report.verdict == "invalid"
    reason = report.environments[0].reason
    assert reason.startswith("the oracle solves only 0 of 2 questions")
    assert "no verdict" in " ".join(report.text().split())


@pytest.mark.parametrize("control", ["random", "constant"])
def test_a_bar_that_random_or_constant_maps_reach_is_none(colors, control, monkeypatch):
    for name in ("random", "constant"):
        monkeypatch.setitem(CONTROLS, name, CONTROLS["sobel"])
    monkeypatch.setitem(CONTROLS, control, CONTROLS["oracle"])
    report = al.faithfulness_test("sobel", colors, n=13)
    assert report.verdict == "invalid"
    [result] = report.environments
    assert f"the control {control}, which must fail, solves 13 of 13" in result.reason


def test_an_inverted_map_must_fail_only_where_signs_count(colors, monkeypatch):
    right, asked = truth_of(colors, 13).signed.float(), {"n": 13, "one_network": True}
    assert al.faithfulness_test(right, colors, claim="overall", **asked).verdict == "pass"
    monkeypatch.setitem(CONTROLS, "inverted-oracle", CONTROLS["oracle"])
    assert al.faithfulness_test(right, colors, claim="overall", **asked).verdict == "pass"
    report = al.faithfulness_test(right, colors, **asked)
    assert report.verdict == "invalid"
    assert "inverted-oracle" in report.environments[0].reason


def test_a_blind_control_that_passes_invalidates_where_its_blindness_matters(colors, monkeypatch):
    monkeypatch.setitem(CONTROLS, "wrong-target", CONTROLS["oracle"])
    hiding = al.load("multi-color-sum-distractors", image_size=24)
    report = al.faithfulness_test("sobel", hiding, n=13)
    assert report.verdict == "invalid"
    assert "wrong-target" in report.environments[0].reason
    # One network for all images hides nothing, and no other environment does.
    assert al.faithfulness_test("sobel", hiding, n=13, one_network=True).verdict == "fail"
    modulo = al.load("single-color-modulo", image_size=24)
    assert al.faithfulness_test("sobel", modulo, n=13).verdict == "fail"


def test_of_a_smoothed_truth_two_thirds_of_the_best_possible_are_asked(shapes):
    asked = {"n": 13, "claim": "positive-smoothed", "one_network": True, "also": None}
    truth = smoothed(truth_of(shapes, 13).positive, shapes.smoothing_sigma)
    best = best_map(truth)
    scores = alignment(best, truth).f1.numpy()
    # The best map with as many false pixels as it has: some lie between the two thresholds.
    [result] = al.faithfulness_test(best, shapes, **asked).environments
    assert result.count == (13, 13)
    assert result.ceiling == pytest.approx(float(scores.mean()), abs=1e-12)
    thinned = best * (torch.rand(best.shape, generator=torch.Generator().manual_seed(0)) < 0.55)
    [result] = al.faithfulness_test(thinned, shapes, **asked).environments
    expected = alignment(thinned, truth).f1.numpy()
    assert result.count.solved == (expected > 2 / 3 * scores).sum()
    assert (expected <= 2 / 3).all()


@pytest.mark.long
def test_input_only_controls_that_pass_are_the_bar(colors, shapes):
    [plain] = al.faithfulness_test("oracle", colors, n=13, claim="overall").environments
    assert "non-background" in plain.bar
    [result] = al.faithfulness_test("oracle", shapes, n=13).environments
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


HIDDEN = {"roles": 6, "target": 4, "color": 6}


def claim_score(solved=31, mean=0.9, environments=1, claim="signed", hidden=HIDDEN, **controls):
    """Of 32 questions; every control but the oracle solves none, unless it is said."""
    counts = dict.fromkeys(CONTROLS, 0) | {"oracle": 32} | controls
    made = {
        name.replace("_", "-"): control_score(
            name.replace("_", "-"), claim, 0.5, Tally(solved, 32), hidden
        )
        for name, solved in counts.items()
    }
    return ClaimScore(
        count=Tally(solved, 32),
        claim_f1=mean,
        claim_interval=Interval(0.8, 1.0),
        controls=made,
        environments=environments,
    )


@pytest.mark.parametrize(
    ("solved", "verdict"),
    [(32, "pass"), (30, "pass"), (29, "inconclusive"), (19, "inconclusive"), (18, "fail")],
)
def test_the_verdict_is_that_of_the_count_where_the_controls_are_right(solved, verdict):
    # 3/4 gives 18 or fewer of 32 in 1.5 %, 19 or fewer in 3.4 %.
    assert claim_score(solved).verdict == verdict
    assert claim_score(solved).reason == ""


def test_several_environments_share_the_chance_to_fail_and_none_to_pass():
    assert [claim_score(18, environments=k).verdict for k in (1, 4)] == ["fail", "inconclusive"]
    assert claim_score(30, environments=100).verdict == "pass"


def test_the_mean_decides_nothing_and_is_held_against_the_papers_criterion():
    assert claim_score(31, mean=0.1).verdict == "pass"
    assert claim_score(3, mean=0.99).verdict == "fail"
    assert [claim_score(mean=mean).reaches_gamma for mean in (0.49, 0.5)] == [False, True]


def test_an_oracle_that_misses_one_question_contradicts():
    broken = claim_score(oracle=31)
    assert broken.verdict == "invalid"
    assert "the oracle solves only 31 of 32 questions" in broken.reason


def test_an_oracle_that_solves_all_of_few_questions_does_what_it_must():
    for solved, passes in ((2, True), (1, False)):
        oracle = control_score("oracle", "signed", 0.9, Tally(solved, 2), HIDDEN)
        assert oracle.passes == passes
    assert not control_score("random", "signed", 0.9, Tally(2, 2), HIDDEN).passes


@pytest.mark.parametrize("name", ["random", "constant", "inverted-oracle"])
def test_a_control_that_must_fail_may_solve_some_but_not_pass(name):
    assert claim_score(**{name: 29}).verdict == "pass"
    passing = claim_score(**{name: 30})
    assert passing.verdict == "invalid"
    assert f"the control {name}, which must fail, solves 30 of 32 questions" in passing.reason


def test_a_negated_map_may_pass_where_signs_do_not_count():
    assert claim_score(**{"inverted-oracle": 32}, claim="overall").verdict == "pass"


@pytest.mark.parametrize(("name", "thing"), BLIND.items())
def test_a_blind_control_must_fail_where_the_environment_hides_what_it_does_not_see(name, thing):
    assert claim_score(**{name: 32}, hidden={thing: 2}).verdict == "invalid"
    others = {other: 2 for other in ("roles", "target") if other != thing}
    assert claim_score(**{name: 32}, hidden=others).verdict == "pass"
    assert claim_score(**{name: 32}, hidden={}).verdict == "pass"


def test_what_a_control_must_do_depends_on_its_name():
    must = {name: control_score(name, "signed", 0.3, Tally(1, 32), {}).must for name in CONTROLS}
    named = {"oracle": "pass", **dict.fromkeys(("random", "constant", "inverted-oracle"), "fail")}
    assert must == dict.fromkeys(CONTROLS) | named


def test_a_control_is_written_with_its_count():
    written = control_score("sobel", "signed", None, Tally(3, 32), HIDDEN).to_dict()
    counted = {"solved": 3, "asked": 32, "passes": False}
    assert written == {"claim_f1": None, **counted, "must": None}
