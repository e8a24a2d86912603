"""What a document says in sentences."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import page_cases as cases
from attributionlab.base import Tally, listed, score_text
from attributionlab.show import as_text, faithfulness_page, report_table
from attributionlab.show.asked import needed_text
from attributionlab.show.proof import labels, proof_sentence
from attributionlab.show.reading import (
    asked_text,
    controls_text,
    deciding_place,
    drift_seeds_text,
    drift_text,
    few_images_text,
    gap_text,
    hidden_text,
    in_rows,
    limit_phrase,
    sentences,
    violates,
)


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_all_environments_of_one_kind_are_counted_not_named():
    invalid = cases.whole(*(cases.environment(name, "invalid", 0.6) for name in "ab"))
    assert sentences(invalid)[0] == "The method could not be judged in any of the 2 environments."
    two = cases.whole(*(cases.environment(name, "fail", 0.2) for name in "ab"))
    assert sentences(two)[0] == "The method fails in both environments."
    first, second, proof = map(plain, sentences(cases.DOCUMENTS["pass"]()))
    assert first == "The method passes in all 3 environments."
    assert second == (
        "In each it solves 32 of 32 questions; the 95 % interval of the share solved, 0.89 to 1.00, "
        "lies at or above 0.75."
    )
    assert proof == (
        "At most this share of questions can be solved without seeing: roles 1/6, target 1/4; this "
        "result by chance: p = 3e-07."
    )


def test_environments_in_several_implementations_are_counted_as_tests():
    results = [
        cases.environment(f"{name}{' (natural)' * natural}", "fail", 0.2)
        | {"implementation": "natural" if natural else "paper"}
        for name in "abc"
        for natural in (0, 1)
    ]
    said = sentences(cases.whole(*results))[0]
    assert said == "The method fails in all 6 tests (3 environments x 2 implementations)."
    assert asked_text(results) == "3 environments x 2 implementations"
    assert asked_text(results[1:]) == "5 environments"
    assert asked_text(results[:1]) == "1 environment"
    assert list(in_rows(results[1:])["a"]) == ["natural"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [([13, 13], "13 of 13"), ([32], "30 of 32"), ([12], ""), ([0], ""), ([13, 12], "")],
)
def test_how_many_a_pass_needs(asked, said):
    results = [cases.environment("a", "fail", 0.2, solved=0, asked=each) for each in asked]
    assert needed_text({"environments": results}) == said


def test_of_one_network_no_proof_is_claimed():
    document = cases.whole(cases.environment("a", "pass", 0.9), one_network=True, excludes={})
    assert proof_sentence(document) == (
        "All images of an environment have one network, so nothing is hidden: a lookup table of its "
        "colors could pass. A pass excludes no map that is made without the network."
    )


def test_a_pass_that_excludes_too_little_says_what_is_not_excluded():
    document = cases.whole(
        cases.environment("a", "pass", 0.9),
        verdict="inconclusive",
        not_excluded=["sign", "context"],
    )
    assert "No environment here hides sign and context, so maps made without them" in (
        proof_sentence(document)
    )
    # It keeps the verdict open, and is said before what passes.
    assert [each.split()[:2] for each in sentences(document)[:2]] == [
        ["No", "environment"],
        ["The", "method"],
    ]
    assert proof_sentence(cases.failing()) == ""  # a failure excludes nothing


def test_the_oracle_must_pass_and_what_must_fail_must_not():
    wrong = [
        (must, passes)
        for must, passes in product(("pass", "fail", None), (True, False))
        if violates({"must": must, "passes": passes})
    ]
    assert wrong == [("pass", False), ("fail", True)]


def test_an_open_verdict_says_how_many_questions_would_close_it():
    first, second, third = map(plain, sentences(cases.DOCUMENTS["inconclusive"]()))
    assert first == "The method is inconclusive in multi-color-sum-distractors."
    assert second == (
        "It solves 27 of 32 questions; the 95 % interval of the share solved, 0.67 to 0.95, contains "
        "0.75; a pass needs all of it at or above."
    )
    needed = Tally(27, 32).questions_to_decide()
    assert third == (
        f"About {needed} questions (--n {needed}) would decide multi-color-sum-distractors if the "
        "share solved stayed the same; there were 32."
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"solved": 24, "questions_to_decide": None},
            "More questions will hardly decide place: the share solved is too close to 0.75.",
        ),
        (
            {"solved": 8, "asked": 8},
            "8 questions in place cannot give a pass; take 13 or more (--n 13).",
        ),
        (
            {"solved": 1, "asked": 1},
            "1 question in place cannot give a pass; take 13 or more (--n 13).",
        ),
    ],
)
def test_where_no_number_of_questions_is_known_the_reason_is_said(changes, said):
    result = cases.environment("place", "inconclusive", 0.5, **changes)
    assert sentences(cases.whole(result))[-1] == said


@pytest.mark.parametrize(
    ("solved", "asked", "said"),
    [
        (13, 13, "0.75 to 1.00, lies at or above 0.75"),  # 0.753
        (12, 12, "0.74 to 1.00, contains 0.75"),  # 0.735
        (18, 32, "0.38 to 0.74, lies below 0.75"),  # 0.736
        (19, 32, "0.41 to 0.76, contains 0.75"),  # 0.763
        (0, 0, "No question of place has a truth for the claim 'signed'."),
    ],
)
def test_the_interval_of_the_share_is_held_against_three_quarters(solved, asked, said):
    result = cases.environment("place", "fail", 0.5, solved=solved, asked=asked)
    assert said in plain(sentences(cases.whole(result))[1])


def test_of_environments_that_solve_as_little_one_with_the_first_cause_is_named():
    hint = {"cause": "tie", "says": "", "confirm": "", "explains": 0.5, "tried": False}
    few = [cases.environment(name, "fail", 0.4, solved=3, diagnosis=None) for name in "ab"]
    last = cases.environment("c", "fail", 0.4, solved=3)
    last["diagnosis"] = {"missing": 0.5, "shares": {}, "hints": [hint]}
    document = cases.whole(*few, last) | {"hints": [hint | {"cause": "shift"}]}
    assert deciding_place(document) == 0
    assert deciding_place(document | {"hints": [hint]}) == 2
    assert deciding_place(document | {"hints": []}) == 0
    few[1]["solved"] = 2
    assert deciding_place(cases.whole(*few, last) | {"hints": [hint]}) == 1


def test_the_environment_with_the_smallest_share_is_named_as_elsewhere_on_the_page():
    document = cases.nine()
    document["environments"][4]["solved"] = 2
    said = "It solves the fewest in multi-color-sum-distractors (44444444): 2 of 32 questions"
    assert said in sentences(document)[1]
    assert len(set(labels(document["environments"]))) == 9


def test_no_more_digits_are_printed_than_that_takes():
    assert [score_text(0.49961234, gamma) for gamma in (0.3, 0.5)] == ["0.50", "0.4996"]


@pytest.mark.parametrize(
    ("value", "gamma", "printed"),
    [
        (0.499999999, 0.5, "0.4999"),
        (math.nextafter(0.5, 0), 0.5, "0.4999"),
        (0.5, 0.5, "0.50"),
        (math.nextafter(0.5, 1), 0.5, "0.50"),
        (1 / 3, 1 / 3, "0.3334"),
        (0.123441, 0.12344, "0.1235"),
        (math.nextafter(1, 0), 1.0, "0.9999"),
    ],
)
def test_where_four_digits_hide_the_side_of_gamma_they_are_rounded_away_from_it(
    value, gamma, printed
):
    assert score_text(value, gamma) == printed


@given(value=st.floats(0, 1), gamma=st.floats(0.01, 1))
def test_a_printed_score_lies_on_its_own_side_of_gamma(value, gamma):
    printed = float(score_text(value, gamma))
    assert (printed >= gamma) == (value >= gamma)
    assert abs(printed - value) <= 0.005 + 1e-12  # half of the last of two digits
    assert len(score_text(value, gamma)) <= len("0.1234")


def test_the_smallest_share_is_named_among_the_environments_that_carry_the_verdict():
    few = cases.environment("few", "inconclusive", 0.45, solved=2, asked=5)
    tight = cases.environment("tight", "fail", 0.47, solved=18)
    worse = cases.environment("worse", "fail", 0.48, solved=17)
    said = plain(sentences(cases.whole(few, tight, worse))[1])
    assert said.startswith("In worse it solves 17 of 32 questions; the 95 % interval")
    lowest = cases.environment("lowest", "fail", 0.2)
    assert "It solves the fewest in lowest: 3 of 32" in sentences(cases.whole(few, lowest))[1]


def test_what_controls_must_do_is_said_only_of_those_that_must():
    document = cases.failing()
    met = "oracle passes; random, constant and inverted-oracle fail, as they must"
    assert controls_text(document) == met
    for row in document["controls"]["inverted-oracle"]:
        row |= {"must": None, "passes": True}
    assert controls_text(document) == "oracle passes; random and constant fail, as they must"
    document["controls"]["random"][1]["passes"] = True
    for place in (0, 2):
        document["controls"]["oracle"][place]["passes"] = False
    assert controls_text(document) == (
        "(!) oracle fails in multi-color-sum and single-color-modulo, where it must pass; "
        "(!) random passes in multi-color-sum-distractors, where it must fail; "
        "constant fails, as it must"
    )


SEEDS = "attributionlab.load(..., camouflage_seed=SEED), SEED"
FEW = "with fewer than 13 questions no method passes"


@pytest.mark.parametrize(
    ("in_words", "found", "said"),
    [
        (limit_phrase, "positive only", "maps without negative values"),
        (limit_phrase, "own regions", "maps constant on its own superpixels"),
        (limit_phrase, "25 x 25 cells", "maps upsampled from 25 x 25 cells"),
        (few_images_text, 1, FEW),
        (few_images_text, 12, FEW),
        (few_images_text, 13, ""),
        (hidden_text, {"hidden": {"roles": 6, "sign": 2}}, "roles (1 of 6), sign (1 of 2)"),
        (hidden_text, {"hidden": {}}, ""),
        (listed, [], ""),
        (listed, ["a"], "a"),
        (listed, ["a", "b"], "a and b"),
        (listed, ["a", "b", "c"], "a, b and c"),
        (drift_seeds_text, [1, 2, 3], f"{SEEDS} 1, 2, 3"),
        (drift_seeds_text, [1, 2, 3, 4], f"{SEEDS} 1, 2, 3 and 1 more (--json)"),
    ],
)
def test_what_is_found_stands_in_few_words(in_words, found, said):
    assert in_words(found) == said


@pytest.mark.parametrize(
    ("gap", "off"),
    [
        (0.0, "less than 1 % of"),
        (0.0049, "less than 1 % of"),
        (0.0051, "1 % of"),
        (0.24, "24 % of"),
        (1.0, "100 % of"),
        (1.26, "1.3 times"),
        (146.2, "146 times"),
        (35900.0, "35,900 times"),
    ],
)
def test_a_completeness_gap_is_a_share_or_a_multiple_of_the_change(gap, off):
    assert gap_text(gap).startswith("the attributions should sum to the change of the output")
    assert gap_text(gap).endswith(f"; they are off by {off} that change (median image)")


# Drift


FOUND = {
    "networks": [11, 12, 13, 14],
    "images": 8,
    "refused": "",
    "reading": "drifts",
    "median": 0.0123,
    "largest": 1.5,
    "largest_difference": 7.0,
    "appeared": 0,
    "rank_correlation": 0.9,
    "plain_f1": 0.8,
    "lowest_f1": 0.311,
    "highest_f1": 0.782,
    "integer_images_only": False,
    "rounding_bound": None,
    "in_float64": 0.02,
}


RUNNER_UP = {"images": 8, "overall": 0.9, "positive": 0.31, "negative": None}
STRICT = {"overall": 0.2, "positive": None, "negative": None}
FEATURES = {"min": {"with": {"solved": 3, "asked": 4}, "without": {"solved": 1, "asked": 4}}}


def drift_note(drift):
    shown = as_text(report_table(cases.whole(cases.environment("here", "pass", 0.9, drift=drift))))
    assert max(map(len, shown.splitlines())) <= 80
    return " ".join(shown.split())


def test_a_drift_is_told_with_its_size_its_meaning_and_the_f1s():
    assert drift_text(FOUND) == (
        "median 0.012, largest 1.5 of the plain map's norm (4 networks, 8 images); more than rounding "
        "of sums: equal functions get different maps (0.02 remains in float64); F1 0.31 to 0.78, 0.80 "
        "on the plain network"
    )
    assert "drift here: median 0.012, largest 1.5" in drift_note(FOUND)
    assert (
        "to load them here: attributionlab.load(..., camouflage_seed=SEED), SEED 11, 12, 13"
        in drift_note(FOUND)
    )
    assert "drift" not in drift_note(None)


@pytest.mark.parametrize(
    ("reading", "said"),
    [
        ("equal, as it must be", "0, as it must be"),
        ("differs, where it must not", "(!) it must be 0"),
        ("equal", "bit for bit"),
        ("within rounding", "rounding"),
        ("beyond rounding", "ReLU'(0) = 0"),
        ("drifts", "equal functions get different maps"),
        ("not known", "does not run in float64"),
    ],
)
def test_each_reading_has_its_words(reading, said):
    assert said in drift_text(FOUND | {"reading": reading})


def test_a_bound_and_maps_that_appear_are_told():
    drift = FOUND | {"reading": "within rounding", "rounding_bound": 1e-5, "appeared": 1}
    assert "(0.02 remains in float64, bound 1e-05)" in drift_text(drift)
    assert "1 map not zero where the map of the plain network is, up to 7" in drift_text(drift)


def test_what_does_not_apply_says_why():
    drift = FOUND | {"refused": "no model", "reading": "", "median": None, "plain_f1": None}
    assert drift_text(drift) == "not applicable: no model"
    assert "to load them" not in drift_note(drift)


@pytest.mark.parametrize(
    ("changes", "title", "said"),
    [
        ({"drift": FOUND}, "Drift", "median 0.012, largest 1.5 of"),
        ({"drift": FOUND}, "To load them", "attributionlab.load(..., camouflage_seed=SEED), SEED"),
        ({"drift": FOUND | {"refused": "no model"}}, "Drift", "not applicable: no model"),
        (
            {"resolution_f1": 0.5},
            "Resolution",
            "maps upsampled from 25 x 25 cells reach an F1 of at",
        ),
        ({"runner_up": RUNNER_UP}, "Runner-up", "F1 overall 0.90, positive 0.31, explaining the"),
        ({"strict": STRICT}, "Strict level", "F1 overall 0.20, if every pixel that ever changes"),
        ({"by_feature": FEATURES}, "By feature", "min: 3 of 4 with it, 1 of 4 without"),
        ({"seeds": 3, "seed_sd": 0.012}, "Seeds", "scores are means over 3 seeds, shares are of"),
    ],
)
def test_what_the_table_says_below_itself_the_page_says_of_each_environment(changes, title, said):
    document = cases.whole(cases.environment("here", "fail", 0.4, **changes))
    page = faithfulness_page(document, cases.panels(document))
    assert f"<b>{title}:</b> {said}" in page
    assert said[:20] in " ".join(as_text(report_table(document)).split())
    plain = cases.whole(cases.environment("here", "fail", 0.4, resolution=None))
    assert f"<b>{title}:</b>" not in faithfulness_page(plain, cases.panels(plain))
