"""Proposition 1 by enumeration, by the proof's sum and by samples."""

import math
from fractions import Fraction
from itertools import combinations

import pytest

import oracles_unified as oracles
from attributionlab.papers.catalog import Run
from attributionlab.papers.unified import reference_overlap
from attributionlab.papers.unified.reference_overlap import expected_overlap

ITEM = "unified-proposition-1"


@pytest.fixture(scope="module")
def outcome():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference_overlap, "ENUMERATED", 6)
        patch.setattr(reference_overlap, "SUMMED", 12)
        patch.setattr(reference_overlap, "PIXELS", 100)
        patch.setattr(reference_overlap, "MASKED", (10, 20))
        patch.setattr(reference_overlap, "REFERENCES", (10, 20, 40, 100))
        return expected_overlap(Run(ITEM, n=30))


@pytest.mark.long
def test_every_pair_equals_n_divided_by_the_reference(outcome):
    pairs = outcome.tables["pairs"]
    assert pairs.equal.all()
    assert len(pairs) == 21 + 78
    for row in pairs.itertuples():
        mean = oracles.mean_dice if row.way == "all subsets" else oracles.proof_sum
        assert Fraction(row.mean) == mean(row.masked, row.reference)
    assert outcome.tables["exact"].equal.tolist() == [21, 78]
    assert outcome.tables["exact"].added_up.iloc[0] == sum(2**n - 1 for n in range(1, 7))


def test_samples_are_near_what_is_expected_and_the_reference_itself_is_certain(outcome):
    samples = outcome.tables["samples"].set_index(["masked", "reference"])
    assert list(samples.index) == [
        *((10, reference) for reference in (10, 20, 40, 100)),
        *((20, reference) for reference in (20, 40, 100)),
    ]
    for (masked, reference), row in samples.iterrows():
        assert row.expected == masked / reference
        assert abs(row.errors_off) < 4
        assert row.orders == 30
    for masked in (10, 20):
        assert samples["mean"][masked, masked] == 1
        assert samples.standard_error[masked, masked] == 0
    # k of 20 within 40 is hypergeometric with variance 20/4 * 20/39.
    assert samples.standard_error[20, 40] == pytest.approx((100 / 39 / 30) ** 0.5 / 20, rel=1e-12)


def test_claims_follow_the_tables(outcome, answers):
    tables = outcome.tables
    assert answers(ITEM, tables) == ["agrees", "agrees"]
    unequal = tables["exact"].assign(equal=20)
    assert answers(ITEM, {**tables, "exact": unequal}) == ["differs", "agrees"]
    for wrong in ({"mean": 0.5}, {"errors_off": -4.1}):
        samples = tables["samples"].assign(**wrong)
        assert answers(ITEM, {**tables, "samples": samples}) == ["agrees", "differs"]
    assert samples.within.tolist() == (tables["samples"].errors_off.abs() <= 1.96).tolist()


@pytest.mark.parametrize(("masked", "reference"), [(1, 1), (1, 4), (2, 5), (3, 5), (4, 6)])
def test_the_standard_error_is_that_of_all_subsets(masked, reference):
    first = set(range(masked))
    every = [
        Fraction(len(first & set(chosen)), masked)
        for chosen in combinations(range(reference), masked)
    ]
    mean = sum(every) / len(every)
    variance = sum((each - mean) ** 2 for each in every) / len(every)
    found = reference_overlap._standard_error(masked, reference, 7)
    # Roots of fractions, in float64.
    assert found == pytest.approx(math.sqrt(variance / 7), rel=1e-14)


def test_one_order_is_judged_by_the_same_standard_error():
    [values, *_] = reference_overlap._sample_rows(12_000, 1, 0)
    row = dict(zip(reference_overlap.COLUMNS, values, strict=True))
    assert row["orders"] == 1
    assert 0 < row["standard_error"] < 0.01
    assert abs(row["errors_off"]) < 4
