"""A report as text, in a notebook, as files and as a curve over gamma."""

import json

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import attributionlab as al
from attributionlab.faithfulness.report import plain
from attributionlab.report import report_table


@pytest.fixture(scope="module")
def environments():
    return [
        al.load("multi-color-sum", image_size=24),
        al.load("single-color-modulo", image_size=24),
    ]


@pytest.fixture(scope="module")
def report(environments):
    return al.faithfulness_test("inverted-oracle", environments, n=6)


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


def test_a_notebook_shows_a_small_table_in_which_names_are_text(environments):
    def method(model, inputs, targets):
        return inputs

    method.__name__ = "<script>alert(1)</script>"
    shown = al.faithfulness_test(method, environments[1], n=2)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "<table>" in shown
    assert "single-color-modulo" in shown


@pytest.mark.long
def test_every_gamma_has_its_share_of_images_and_its_verdict(environments):
    def judged(gamma):
        asked = {"n": 8, "gamma": gamma, "claim": "overall", "diagnosed": False}
        return al.faithfulness_test("sobel", environments, **asked)

    report = judged(0.5)
    frame = report.to_gamma_frame()
    assert list(frame.columns) == [
        "method", "environment", "spec", "part", "gamma", "share", "verdict",
    ]  # fmt: skip
    for result in report.environments:
        rows = frame[frame.environment == result.name]
        assert rows.gamma.tolist() == pytest.approx([k / 100 for k in range(1, 101)])
        f1 = result.scores[result.claim_part]["f1"]
        for row in rows.itertuples():
            assert row.share == np.mean(f1 >= row.gamma)
    verdicts = set()
    for gamma in (0.05, 0.5, 0.95, 1.0):
        for again in judged(gamma).environments:
            row = frame[(frame.environment == again.name) & np.isclose(frame.gamma, gamma)]
            assert row.verdict.item() == again.verdict
            verdicts.add(again.verdict)
    assert len(verdicts) > 1


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
            "passes": True,
            "must": "pass",
            "ceiling": None,
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
    report = al.faithfulness_test("random", environments, n=3, diagnosed=False)
    assert report.hints == []
    for result in report.to_dict()["environments"]:
        assert (result["diagnosis"], result["ceilings"], result["runner_up"]) == (None, {}, None)
    assert "likely cause" not in repr(report)
    assert "controls" in repr(report)


def test_the_lowest_environment_is_the_one_that_eq_2_rests_on(report):
    lowest = min(report.environments, key=lambda result: result.claim_f1)
    assert report.least is lowest
    assert report.to_dict()["least"]["claim_ci"] == list(lowest.claim_interval)


def test_settings_are_written_as_numbers_up_to_64_bits_and_as_text_beyond():
    assert plain(2**63 - 1) == 2**63 - 1
    assert plain(2**63) == str(2**63)
    assert plain(-(2**63)) == str(-(2**63))
    assert plain(0.5) == 0.5
    assert plain(float("inf")) == "inf"
