"""What a document says in sentences."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import attributionlab as al
import page_cases as cases
from attributionlab.digits import score_text
from attributionlab.report import as_text, report_table
from attributionlab.report.page import faithfulness_page
from attributionlab.report.reading import (
    bands_text,
    ceiling_phrase,
    controls_text,
    drift_meaning,
    drift_seeds_text,
    drift_text,
    few_images_text,
    gap_text,
    labels,
    listed,
    sentences,
)


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_all_environments_of_one_kind_are_counted_not_named():
    invalid = cases.whole(*(cases.environment(name, "invalid", 0.6) for name in "ab"))
    assert sentences(invalid)[0] == "The method could not be judged in any of the 2 environments."
    first, second, proof = sentences(cases.DOCUMENTS["pass"]())
    assert first == "The method passes in all 3 environments."
    assert re.findall(r"([\d.]+) without the (\w+)", proof) == [
        ("0.38", "network"),
        ("0.38", "target"),
    ]
    assert plain(second) == (
        "Its lowest score, that in multi-color-sum-distractors, is F1 0.93; its 95 % interval, "
        "0.88 to 0.98, lies wholly at or above gamma = 0.5."
    )


def test_of_one_network_and_of_older_documents_no_proof_is_claimed():
    documents = [cases.whole(cases.environment("a", "pass", 0.9), one_network=True)]
    documents.append({key: value for key, value in documents[0].items() if key != "one_network"})
    for document in documents:
        _, _, proof = sentences(document)
        assert "one network" in proof
        assert "at most" not in proof


def test_an_open_verdict_says_how_many_images_would_close_it():
    first, second, _, third = sentences(cases.DOCUMENTS["inconclusive"]())
    assert first == "The method is undecided in multi-color-sum-distractors."
    assert plain(second).startswith(
        "It scores F1 0.49; its 95 % interval, 0.44 to 0.54, lies on both"
    )
    assert third == (
        "About 140 images like these would decide multi-color-sum-distractors; 32 were used."
    )


@pytest.mark.parametrize(
    ("spread", "said"),
    [
        (
            0.05,
            "More images will hardly decide place: its mean F1 lies too close to gamma; report it as "
            "undecided.",
        ),
        (None, "In place a part of the claim applies to fewer than two images; take 8 or more."),
    ],
)
def test_where_no_number_of_images_is_known_the_reason_is_said(spread, said):
    result = cases.environment("place", "inconclusive", 0.5, spread=spread, images_to_decide=None)
    assert sentences(cases.whole(result))[-1] == said


def test_without_an_interval_the_mean_alone_is_held_against_gamma():
    for f1, side in ((0.5, "at least"), (0.4, "below")):
        result = cases.environment("place", "inconclusive", f1, spread=None)
        said = plain(sentences(cases.whole(result))[1])
        assert said.startswith(f"It scores F1 {f1:.2f}, {side} gamma = 0.5, without an interval")


def test_an_interval_that_ends_below_gamma_lies_wholly_below_and_one_that_begins_at_it_does_not():
    for interval, said in (
        ([0.3, 0.4999], "wholly below"),
        ([0.5, 0.6], "wholly at or above"),
        ([0.4, 0.5], "on both sides of"),
    ):
        result = cases.environment("place", "fail", 0.5, claim_ci=interval)
        assert f"lies {said} gamma" in plain(sentences(cases.whole(result))[1])


def test_the_environment_with_the_lowest_score_is_named_as_elsewhere_on_the_page():
    document = cases.nine()
    document["environments"][4]["claim_f1"] = 0.2
    assert "that in multi-color-sum-distractors (44444444), is F1 0.20" in sentences(document)[1]
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


def test_the_lowest_score_is_named_among_the_environments_that_carry_the_verdict():
    wide = cases.environment("wide", "inconclusive", 0.45, spread=0.1)
    tight = cases.environment("tight", "fail", 0.47, spread=0.01)
    worse = cases.environment("worse", "fail", 0.48, spread=0.01)
    said = plain(sentences(cases.whole(wide, tight, worse))[1])
    assert said == (
        "Its lowest score where it fails, that in tight, is F1 0.47; its 95 % interval, 0.46 to 0.48, "
        "lies wholly below gamma = 0.5."
    )
    lowest = cases.environment("lowest", "fail", 0.2)
    assert "Its lowest score, that in lowest, is" in sentences(cases.whole(wide, lowest))[1]


def banded(**ends):
    return [{"up_to": end, "verdict": verdict.strip("_")} for verdict, end in ends.items()]


@pytest.mark.parametrize(
    ("bands", "said"),
    [
        (
            banded(invalid=0.17, **{"pass": 0.62}, inconclusive=0.7, fail=1.0),
            "passes up to gamma = 0.62, is inconclusive up to 0.70, fails above; "
            "up to 0.17 a random map would pass, so the test says nothing",
        ),
        (
            banded(invalid=0.17, inconclusive=0.3, fail=0.9, invalid_=1.0),
            "is inconclusive up to gamma = 0.30, fails up to 0.90; up to 0.17 a random map would pass "
            "and above 0.90 even the best possible map would fail, so the test says nothing",
        ),
        (banded(**{"pass": 1.0}), "passes at every gamma"),
        (banded(inconclusive=1.0), "is inconclusive at every gamma"),
        (banded(invalid=1.0), "no gamma gives a verdict"),
        (
            banded(invalid=0.17, fail=1.0),
            "fails above gamma = 0.17; up to 0.17 a random map would pass, so the test says nothing",
        ),
        (
            banded(**{"pass": 0.9}, invalid=1.0),
            "passes up to gamma = 0.90; "
            "above 0.90 even the best possible map would fail, so the test says nothing",
        ),
        (
            banded(invalid=0.17, fail=0.9, invalid_=1.0),
            "fails above gamma = 0.17 up to 0.90; up to 0.17 a random map would pass "
            "and above 0.90 even the best possible map would fail, so the test says nothing",
        ),
    ],
)
def test_gammas_are_said_to_give_the_verdicts_of_their_bands(bands, said):
    assert bands_text(bands, 0.5) == said


def test_the_control_that_reaches_the_largest_gamma_is_named_and_ends_lie_on_their_side_of_gamma():
    bands = banded(invalid=0.4996, fail=1.0)
    assert bands_text(bands, 0.5, "constant") == (
        "fails above gamma = 0.4996; up to 0.4996 a constant map would pass, so the test says nothing"
    )
    assert "the control mine would pass" in bands_text(bands, 0.5, "mine")


def test_what_controls_must_do_is_said_only_of_those_that_must():
    document = cases.failing()
    met = "oracle passes; random, constant and inverted-oracle fail, as they must"
    assert controls_text(document) == met
    for row in document["controls"]["inverted-oracle"]:
        row |= {"must": None, "passes": True}
    assert controls_text(document) == "oracle passes; random and constant fail, as they must"
    document["controls"]["random"][1]["passes"] = True
    document["controls"]["oracle"][0]["passes"] = document["controls"]["oracle"][2]["passes"] = (
        False
    )
    assert controls_text(document) == (
        "(!) oracle fails in multi-color-sum and single-color-modulo, where it must pass; "
        "(!) random passes in multi-color-sum-distractors, where it must fail; "
        "constant fails, as it must"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("positive only", "maps without negative values"),
        ("own regions", "maps constant on its own superpixels"),
        ("25 x 25 cells", "maps enlarged from 25 x 25 cells"),
        ("true patches", "maps constant on the true patches"),
        ("5 x 5 patches", "maps constant on 5 x 5 pixels"),
    ],
)
def test_ceilings_are_phrases_in_a_sentence(name, said):
    assert ceiling_phrase(name) == said


def test_every_ceiling_of_a_real_test_has_a_phrase():
    report = al.faithfulness_test("sobel", al.load("multi-color-sum", image_size=24), n=2)
    ceilings = report.to_dict()["environments"][0]["ceilings"]
    assert "exact Shapley values" in ceilings
    for name in set(ceilings) - {"exact Shapley values"}:
        assert ceiling_phrase(name).startswith("maps ")


def test_fewer_than_six_images_are_said_to_be_few():
    few = "fewer than six images: the interval covers less than 95 %; take 8 or more"
    assert [few_images_text(n) for n in (2, 5, 6, 8)] == [few, few, "", ""]
    assert few_images_text(1) == "a single image gives no interval; take 8 or more"


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


def test_words_are_joined_as_in_a_sentence():
    assert [listed(list("abc")[:count]) for count in range(4)] == ["", "a", "a and b", "a, b and c"]


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


def drift_note(drift):
    shown = as_text(report_table(cases.whole(cases.environment("here", "pass", 0.9, drift=drift))))
    assert max(map(len, shown.splitlines())) <= 80
    return " ".join(shown.split())


def test_a_drift_is_told_with_its_size_its_meaning_and_the_f1s():
    assert drift_text(FOUND) == (
        "median 0.012, largest 1.5 of the plain map's norm (4 networks, 8 images); more than rounding "
        "of sums: equal functions get different maps (0.02 is left in float64); F1 0.31 to 0.78, 0.80 "
        "on the plain network"
    )
    assert "drift here: median 0.012, largest 1.5" in drift_note(FOUND)
    assert (
        "to load them attributionlab.load(..., camouflage_seed=SEED), SEED 11, 12, 13"
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
    assert said in drift_meaning(FOUND | {"reading": reading})


def test_a_bound_and_maps_that_appear_are_told():
    drift = FOUND | {"reading": "within rounding", "rounding_bound": 1e-5, "appeared": 1}
    assert "(0.02 is left in float64, bound 1e-05)" in drift_text(drift)
    assert "1 map not zero where the plain one is, up to 7" in drift_text(drift)


def test_what_does_not_apply_says_why():
    drift = FOUND | {"refused": "no model", "reading": "", "median": None, "plain_f1": None}
    assert drift_text(drift) == "not applicable: no model"
    assert "to load them" not in drift_note(drift)


def test_few_seeds_are_all_named():
    assert drift_seeds_text([1, 2, 3]).endswith("SEED 1, 2, 3")
    assert drift_seeds_text([1, 2, 3, 4]).endswith("SEED 1, 2, 3 and 1 more (--json)")


def test_the_page_has_a_section_where_there_is_a_drift():
    refused = FOUND | {"refused": "no model", "reading": "", "appeared": 0}
    document = cases.whole(
        cases.environment("here", "pass", 0.9, drift=FOUND | {"appeared": 2}),
        cases.environment("there", "pass", 0.9, drift=refused),
    )
    page = faithfulness_page(document, cases.panels(document))
    section = page[page.index('<h2 id="invariance">') :].partition("</section>")[0]
    assert 'href="#invariance"' in page
    for said in (
        "0.012",
        "1.5",
        "0.31 to 0.78",
        "In 2 cases",
        "Not applicable: no model",
        "11, 12",
    ):
        assert said in section
    without = cases.whole(cases.environment("here", "pass", 0.9))
    assert "invariance" not in faithfulness_page(without, cases.panels(without))
