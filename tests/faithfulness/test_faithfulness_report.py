"""A report as text, in a notebook and as files."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from rich.console import Console

import attributionlab as al
from attributionlab.base import Tally
from attributionlab.show import report_table
from attributionlab.verdicts.faithfulness.report import plain


@pytest.fixture(scope="module")
def environments():
    return [
        al.load("multi-color-sum", image_size=24),
        al.load("single-color-modulo", image_size=24),
    ]


@pytest.fixture(scope="module")
def report(environments):
    return al.faithfulness_test("inverted-oracle", environments, n=13)


def test_it_prints_as_its_table_at_80_columns_without_color(report):
    text = repr(report)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    console = Console(width=80, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(report_table(report.to_dict()))
    assert text.split() == captured.get().split()
    for word in ("inverted-oracle: fail", "likely cause", "to confirm", "missing F1", "controls"):
        assert word in text


def test_a_notebook_shows_the_table_in_which_names_are_text(environments):
    def method(model, inputs, targets):
        return inputs

    method.__name__ = "<script>alert(1)</script>"
    shown = al.faithfulness_test(method, environments[1], n=2)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "single-color-modulo" in shown


def test_files_hold_what_the_report_holds(report, tmp_path):
    report.to_csv(tmp_path / "t.csv")
    report.to_parquet(tmp_path / "t.parquet")
    report.to_json(tmp_path / "t.json")
    report.to_html(tmp_path / "t.html")
    frame = report.to_frame()
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), frame)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "t.csv"), frame)
    document = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert document == report.to_dict()
    assert document["hints"] == [
        {"cause": hint.cause, "says": hint.says, "confirm": hint.confirm} for hint in report.hints
    ]
    assert document["controls"]["oracle"] == [
        {
            "environment": result.name,
            "claim_f1": 1.0,
            "solved": 13,
            "asked": 13,
            "passes": True,
            "must": "pass",
        }
        for result in report.environments
    ]
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    for result in report.environments:
        assert result.name in page
        for example in result.examples:
            assert f"ample {example.sample}" in page


@pytest.mark.long
def test_what_is_missing_is_split_without_a_remainder(environments):
    for claim in ("signed", "overall", "positive", "positive-smoothed"):
        report = al.faithfulness_test("random", environments, n=5, claim=claim)
        for result in report.environments:
            assert result.diagnosis.missing == pytest.approx(1 - result.claim_f1, abs=1e-6)
            total = sum(result.diagnosis.shares.values())
            # Maps in float32, 2^-24 of values in [0, 1], in means of ratios of sums of them.
            assert total == pytest.approx(1 - result.claim_f1, abs=1e-6)


@pytest.mark.long
def test_an_undiagnosed_report_has_verdicts_and_controls_only(environments):
    report = al.faithfulness_test("random", environments, n=3, also=None)
    assert report.hints == []
    for result in report.to_dict()["environments"]:
        assert (result["diagnosis"], result["resolution"], result["runner_up"]) == (
            None,
            None,
            None,
        )
    assert "likely cause" not in repr(report)
    assert "controls" in repr(report)


def test_the_least_environment_is_that_with_the_fewest_solved_and_then_the_lowest_mean(report):
    assert [result.count for result in report.environments] == [(0, 13)] * 2
    lowest = min(report.environments, key=lambda result: result.claim_f1)
    assert report.least is lowest
    assert report.to_dict()["least"] == {
        "environment": lowest.name,
        "solved": 0,
        "asked": 13,
        "claim_f1": lowest.claim_f1,
    }
    first, second = report.environments
    better = replace(first, count=Tally(1, 13), claim_f1=-1.0)
    assert replace(report, environments=[better, second]).least is second


def test_settings_are_written_as_numbers_up_to_64_bits_and_as_text_beyond():
    assert plain(2**63 - 1) == 2**63 - 1
    assert plain(2**63) == str(2**63)
    assert plain(-(2**63)) == str(-(2**63))
    assert plain(0.5) == 0.5
    assert plain(float("inf")) == "inf"
