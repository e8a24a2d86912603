"""The table that a notebook shows says what decides, and what does not."""

import re

import pytest

import page_cases as cases
from attributionlab.report import report_fragment


def words(document):
    shown = re.sub(r"<[^>]+>", " ", report_fragment(document)).replace("&#39;", "'")
    return " ".join(shown.split())


def test_a_row_has_its_deciding_score_interval_bar_and_verdict():
    shown = words(cases.failing())
    assert "multi-color-sum positive 0.81 0.76 to 0.86 non-background pass" in shown
    assert "multi-color-sum-distractors positive 0.31 0.26 to 0.36 fail" in shown
    assert "Bar: these see the input only and pass all the same." in shown
    assert "Bar:" not in words(cases.DOCUMENTS["pass"]())


def test_what_would_decide_controls_and_the_limit_are_said():
    shown = words(cases.failing())
    assert "About 140 images like these would decide single-color-modulo; 32 were used." in shown
    controls = "oracle passes; random, constant and inverted-oracle fail, as they must."
    assert f"Controls: {controls} Bar" in shown
    assert shown.endswith("Passing is necessary, never sufficient.")


@pytest.mark.parametrize(("n", "said"), [(5, True), (6, False)])
def test_few_images_are_told(n, said):
    shown = words(cases.whole(cases.environment("alone", "fail", 0.4), n=n))
    few = "fewer than six images: the interval covers less than 95 %; take 8 or more"
    assert (f"{n} images each; {few})" in shown) == said
    assert f"{n} images each" in shown


def test_two_hints_are_shown_at_most():
    hint = {"cause": "a", "says": "says", "confirm": "confirm"}
    document = cases.whole(cases.environment("alone", "fail", 0.4), hints=[hint] * 3)
    assert words(document).count("Likely cause: says To confirm: confirm") == 2


def test_names_are_text_whatever_they_contain():
    evil = "<script>alert(1)</script>"
    document = cases.whole(cases.environment(evil, "fail", 0.4), method=evil)
    shown = report_fragment(document)
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") == 2
