"""A certificate counts comparisons, keeps the first counterexample and turns into JSON."""

import json

import torch

from attributionlab.verification import Certificate, Check
from attributionlab.verification.certificate import Tally


def tally_of(got: list[list[float]], expected: list[list[float]]) -> Check:
    tally = Tally("name", "Claim.")
    rows = torch.tensor(got).double(), torch.tensor(expected).double()
    tally.compare(*rows, lambda i: f"input {i}")
    return tally.check()


def test_equal_outputs_pass_and_are_counted():
    check = tally_of([[1, 2], [3, 4]], [[1, 2], [3, 4]])
    assert check == Check("name", "Claim.", 2, 0, "2 of 2 agree")
    assert check.passed


def test_the_first_counterexample_names_input_got_and_expected():
    check = tally_of([[1, 2], [3, 5], [0, 0]], [[1, 2], [3, 4], [1, 1]])
    assert not check.passed
    assert (check.tested, check.mismatches) == (3, 2)
    assert check.detail == "2 of 3 disagree, first input 1: output 1: got 5, expected 4"


def test_many_unequal_outputs_are_cut_short():
    check = tally_of([[1.0] * 6], [[0.0] * 6])
    assert check.detail.endswith("output 3: got 1, expected 0 (and 2 more)")


def test_nan_agrees_with_nothing():
    assert tally_of([[float("nan")]], [[float("nan")]]).mismatches == 1


def test_a_check_that_tested_nothing_does_not_pass():
    assert not Check("name", "Claim.", 0, 0, "").passed


def test_one_failed_check_fails_the_certificate_and_it_is_json():
    good, bad = Check("a", "A.", 1, 0, ""), Check("b", "B.", 2, 1, "input 0")
    certificate = Certificate("env", [good, bad])
    assert Certificate("env", [good]).passed
    assert not certificate.passed
    document = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert document["environment"] == "env"
    assert document["passed"] is False
    assert document["checks"][1] == {
        "name": "b",
        "claim": "B.",
        "tested": 2,
        "mismatches": 1,
        "detail": "input 0",
        "passed": False,
    }
