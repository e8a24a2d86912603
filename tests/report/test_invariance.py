"""Drift in words: every reading, in the terminal and on the page."""

import pytest

import page_cases as cases
from attributionlab.report import as_text, report_table
from attributionlab.report.invariance import drift_meaning, drift_seeds_text, drift_text
from attributionlab.report.page import faithfulness_page

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


def words(drift):
    shown = as_text(report_table(cases.whole(cases.environment("here", "pass", 0.9, drift=drift))))
    assert max(map(len, shown.splitlines())) <= 80
    return " ".join(shown.split())


def test_a_drift_is_told_with_its_size_its_meaning_and_the_f1s():
    assert drift_text(FOUND) == (
        "median 0.012, largest 1.5 of the plain map's norm (4 networks, 8 images); more than rounding "
        "of sums: equal functions get different maps (0.02 is left in float64); F1 0.31 to 0.78, 0.80 "
        "on the plain network"
    )
    assert "drift here: median 0.012, largest 1.5" in words(FOUND)
    assert "to load them attributionlab.load(..., camouflage_seed=SEED), SEED 11, 12, 13" in words(
        FOUND
    )
    assert "drift" not in words(None)


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
    assert "to load them" not in words(drift)


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
