"""Each rule speaks where its evidence is complete, and is silent where one part is missing."""

from dataclasses import replace

import pytest

from attributionlab.assess.evidence import Evidence
from attributionlab.assess.hints import diagnose
from attributionlab.assess.likeness import Likeness, LookAlike
from attributionlab.assess.texture import Texture

CLEAN = Texture(0, 0, 0, 0, 0, 0, 0)
LIKE_NOTHING = Likeness(0.3, 0.2, (), CLEAN)


def evidence(likeness=LIKE_NOTHING, **known):
    facts = {
        "environment": "multi-color-sum",
        "method": "mine",
        "claim": "signed",
        "part": "overall",
        "gamma": 0.5,
        "missing": 0.8,
        "shares": {"uneven values": 0.4, "background": 0.4},
        "unseen_colors_disturb": True,
    }
    return Evidence(likeness=likeness, **(facts | known))


def like(*ranked, truth=0.3, texture=CLEAN):
    return Likeness(truth, 0.2, ranked, texture)


def causes(of):
    return [hint.cause for hint in diagnose(of).hints]


BLURRED = LookAlike("blur", "the truth blurred, sigma about 4 pixels", 0.9, None, 0.5)
SHIFTED = LookAlike("shift", "the truth shifted by 1 row, 0 columns", 0.9, 0.9, 0.7)
PATTERN = Texture(0.2, 0.5, 0.1, 0, 0, 0, 0)
RIPPLE = Texture(0, 0, 0, 0.2, 1.0, 0.9, 0.1)


def test_without_evidence_nothing_is_said():
    assert causes(evidence()) == []


@pytest.mark.parametrize(
    ("look_alike", "truth", "named"),
    [
        (BLURRED, 0.3, ["blur"]),
        (BLURRED._replace(similarity=0.49), 0.1, []),
        (BLURRED._replace(similarity=0.55), 0.5, []),
        (BLURRED._replace(explains=0.04), 0.3, []),
        (BLURRED._replace(explains=0.15), 0.3, []),  # less than a fifth of 0.8
        (SHIFTED, 0.3, ["shift"]),
        (SHIFTED._replace(similarity=0.6), 0.6, ["shift"]),  # undone, it need not be more alike
        (SHIFTED._replace(similarity=0.6), 0.7, []),
    ],
)
def test_a_resemblance_must_be_close_and_closer_than_the_truth_and_explain_enough(
    look_alike, truth, named
):
    assert causes(evidence(like(look_alike, truth=truth))) == named


def test_the_failure_that_explains_most_is_named_alone():
    assert causes(evidence(like(SHIFTED, BLURRED))) == ["shift"]
    assert causes(evidence(like(BLURRED, SHIFTED))) == ["shift"]


@pytest.mark.parametrize(
    ("known", "named"),
    [
        ({"guards": ["are zero because the softmax is saturated"], "all_zero": 1.0}, "saturation"),
        ({"guards": ["where a softmax is saturated explain the logit"], "all_zero": 1.0}, "empty-maps"),
        ({"all_zero": 0.5}, "empty-maps"),
        ({"guards": ["which DeepLift misses because it hooks modules"]}, "hooks"),
        ({"guards": ["take a larger n_steps"], "completeness_gap": 0.9}, "quadrature"),
        ({"settings": {"n_steps": 20}, "completeness_gap": 0.9}, "quadrature"),
        ({"settings": {"n_steps": 20}, "completeness_gap": 0.05}, None),
        ({"settings": {"n_steps": 20}}, None),
        ({"completeness_gap": 0.9}, None),
        ({"own_ceiling": 0.55, "own_resolution": "9 x 9 cells"}, "resolution"),
        ({"own_ceiling": 0.65, "own_resolution": "9 x 9 cells"}, None),
        ({"own_ceiling": 0.55, "own_resolution": "own regions", "method": "lime"}, "segmentation"),
    ],
)  # fmt: skip
def test_what_guards_and_constants_speak_for(known, named):
    assert causes(evidence(**known)) == ([named] if named else [])


def test_a_measured_cause_comes_before_an_equally_good_resemblance():
    known = {"guards": ["take a larger n_steps"], "completeness_gap": 3.0}
    flips = SHIFTED._replace(cause="sign-flips", explains=0.8)
    assert causes(evidence(like(flips), **known)) == ["quadrature", "sign-flips"]
    assert causes(evidence(like(flips), **(known | {"completeness_gap": 0.5}))) == [
        "sign-flips",
        "quadrature",
    ]


@pytest.mark.parametrize(
    ("change", "known", "named"),
    [
        ({}, {}, True),
        ({}, {"asks_for_baseline": True}, False),
        ({}, {"unseen_colors_disturb": False}, False),
        ({"background_level": 0.04}, {}, False),
        ({"background_reach": 0.7}, {}, False),  # it leaks out of patches
        ({"background_recurrence": 0.1}, {}, False),  # noise
        ({"background_recurrence": 0.0, "background_smoothness": 0.6}, {}, True),  # windows, segments
        ({"background_smoothness": 0.96}, {}, False),  # a blur
    ],
)  # fmt: skip
def test_another_baseline_leaves_a_pattern_on_the_whole_background(change, known, named):
    likeness = like(texture=RIPPLE._replace(**change))
    assert causes(evidence(likeness, **known)) == (["baseline"] if named else [])


@pytest.mark.parametrize(
    ("change", "known", "named"),
    [
        ({}, {"shares": {"uneven values": 0.8}}, True),
        ({}, {"shares": {"uneven values": 0.8}, "unseen_colors_disturb": False}, False),
        ({}, {"shares": {"uneven values": 0.7, "background": 0.1}}, False),
        ({"recurrence": 0.1}, {"shares": {"uneven values": 0.8}}, False),
        ({"smoothness": 0.6}, {"shares": {"uneven values": 0.8}}, False),
        ({"unevenness": 0.0}, {"shares": {"uneven values": 0.8}}, False),
    ],
)
def test_unseen_colors_leave_the_first_kernels_pattern_on_a_clean_background(change, known, named):
    likeness = like(texture=PATTERN._replace(**change))
    assert causes(evidence(likeness, **known)) == (["unseen-colors"] if named else [])


def test_a_whole_story_about_the_maps_leaves_no_room_for_another():
    shares = {"uneven values": 0.8}
    assert causes(evidence(like(BLURRED, texture=PATTERN), shares=shares)) == ["blur"]
    assert causes(evidence(like(BLURRED, texture=RIPPLE))) == ["blur"]
    coarse = {"own_ceiling": 0.5, "own_resolution": "9 x 9 cells"}
    assert causes(evidence(like(BLURRED), **coarse)) == ["resolution"]
    assert causes(evidence(like(SHIFTED), **coarse)) == ["shift", "resolution"]


def test_noise_is_a_last_resort():
    nothing = LookAlike("blur", "the truth blurred", 0.05, None, 0.0)
    assert causes(evidence(like(nothing, truth=0.02))) == ["unrelated"]
    assert causes(evidence(like(nothing._replace(similarity=0.2), truth=0.02))) == []
    assert causes(evidence(like(nothing, truth=-0.2))) == []
    assert causes(evidence(like(nothing, truth=0.02, texture=RIPPLE))) == ["baseline"]
    assert causes(evidence(like(nothing, truth=0.0), all_zero=1.0)) == ["empty-maps"]


def test_a_positive_method_with_a_claim_about_signs_is_told_so():
    found = LookAlike("positive-only", "the positive part of the truth alone", 0.95, None, 0.8)
    known = {"part": "negative", "positive_only": True}
    assert causes(evidence(like(found), **known)) == ["positive-only"]
    assert causes(evidence(like(BLURRED), **known)) == ["positive-only", "blur"]
    assert causes(evidence(like(BLURRED._replace(cause="foreground")), **known)) == ["foreground"]
    assert causes(evidence(**known)) == []


def test_commands_name_the_environment_and_the_method():
    [hint] = diagnose(evidence(like(texture=RIPPLE))).hints
    assert hint.confirm.startswith("attributionlab test mine-true-baseline --env multi-color-sum")
    [hint] = diagnose(
        replace(
            evidence(settings={"n_steps": 20}, completeness_gap=0.9), method="integrated-gradients"
        )
    ).hints
    assert "integrated-gradients-exact --env multi-color-sum" in hint.confirm
    assert "--set n_steps=200" in hint.confirm
    assert "20 points" in hint.says
