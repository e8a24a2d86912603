"""Tables say in plain text what the report holds."""

import io

import pytest
from rich.console import Console

import attributionlab as al
from attributionlab.report import certificates_table, comparison_table, report_table


def text(renderable, width):
    buffer = io.StringIO()
    Console(file=buffer, width=width).print(renderable)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def document():
    environments = [
        al.load("multi-color-sum-distractors", image_size=24),
        al.load("nonuniform-accumulator", image_size=24),
    ]
    return al.faithfulness_test("oracle", environments, n=2).to_dict()


def test_a_report_fits_in_80_columns_and_shows_every_score(document):
    shown = text(report_table(document), width=80)
    lines = [line.rstrip() for line in shown.splitlines()]
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines]
    temperature = document["environments"][0]["temperature"]
    label = ["probability,", "temperature", f"{temperature:g}"]
    ones = ["1.00", "1.00", "1.00", "1.00", "to", "1.00"]
    assert [*label, "positive", *ones] in rows
    assert ["logit", "positive", *ones] in rows
    assert ["multi-color-sum-distractors", "overall", *ones, "pass"] in rows
    assert ["negative", *ones] in rows
    assert ["nonuniform-accumulator", "overall", *ones, "pass"] in rows
    assert [row[:1] for row in rows].count(["negative"]) == 1  # not applicable to the regression
    assert lines[0] == "oracle: pass"
    assert lines[1] == "claim signed, F1 of at least 0.5, 2 images each, seed 0"


def test_the_verdict_stands_beside_the_part_that_decides(document):
    document = {**document, "environments": [dict(document["environments"][0])]}
    document["environments"][0] |= {
        "claim_part": "negative",
        "verdict": "fail",
        "temperature": None,
    }
    rows = [line.split() for line in text(report_table(document), 80).splitlines()]
    assert ["negative", "1.00", "1.00", "1.00", "1.00", "to", "1.00", "fail"] in rows
    assert ["probability", "positive", "1.00", "1.00", "1.00", "1.00", "to", "1.00"] in rows


def test_a_certificate_shows_mismatches_and_their_first_example():
    check = {"name": "sums", "tested": 1234, "mismatches": 2, "passed": False, "detail": "at 3"}
    fine = {"name": "heads", "tested": 5, "mismatches": 0, "passed": True, "detail": ""}
    shown = text(certificates_table([{"environment": "mine", "checks": [check, fine]}]), 80)
    rows = [line.split() for line in shown.splitlines()]
    assert ["mine", "sums", "1,234", "2"] in rows
    assert ["heads", "5", "0"] in rows
    assert "mine, sums: at 3" in shown
    assert "heads:" not in shown


def compared(method, *, output="probability", truth="probability", gap=None):
    parts = {"overall": {"precision": 0.91, "recall": 0.82, "f1": 0.73}}
    return {
        "environment": "place",
        "method": method,
        "output": output,
        "truth_output": truth,
        "temperature": 32.0,
        "claim": "signed",
        "claim_f1": 0.64,
        "verdict": "pass",
        "positive": {"f1": 0.64},
        "negative": None,
        "completeness_gap": gap,
        "seconds_per_image": 0.012,
        "warnings": ["something"] if gap else [],
        **parts,
    }


def test_a_comparison_folds_long_names_and_leaves_numbers_whole_in_a_narrow_terminal():
    results = [
        compared("a-method-with-a-name-of-more-than-forty-letters", gap=359.0),
        compared("b"),
        compared("other", output="logit"),
    ]
    document = {"results": results, "refused": [], "gamma": 0.5}
    for width in (80, 120):
        shown = text(comparison_table(document), width)
        assert max(map(len, shown.splitlines())) <= width
        for whole in ("0.91  0.82  0.73", "35900%", "pass signed 0.64!", "0.012"):
            assert whole in shown
        assert "place: probability, temperature 32" in shown
        assert "other *" in shown
        assert "* other: logit, temperature 32, truth of the probability." in shown
