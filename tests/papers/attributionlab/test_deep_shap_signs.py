"""The same function with module and with functional ReLUs, and what DeepSHAP makes of it."""

import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab.papers import reproduce
from attributionlab.papers.attributionlab.deep_shap_signs import FunctionalReLU
from claims_held import all_hold


@pytest.fixture(scope="module")
def outcome():
    return reproduce("deepshap-signs", n=1, quick=True)


def case(outcome, relu, baseline, temperature):
    table = outcome.tables["means"]
    found = table[
        (table.relu == relu) & (table.baseline == baseline) & (table.temperature == temperature)
    ]
    [row] = found.itertuples()
    return row


@pytest.mark.parametrize("name", ["multi-color-sum", "single-color-modulo"])
def test_functional_relus_compute_the_same_function(name):
    env = al.load(name, image_size=24)
    images, _ = env.batch(3)
    model = env.softmax_model or env.model
    assert torch.equal(FunctionalReLU(model)(images), model(images))
    noise = torch.rand(3, *images.shape[1:]) * env.max_value
    assert torch.equal(FunctionalReLU(model)(noise), model(noise))


@pytest.mark.long
def test_module_relus_and_the_true_baseline_meet_every_mask_but_not_the_output_change(outcome):
    row = case(outcome, "module", "true", 256.0)
    assert (row.f1_overall, row.f1_positive, row.f1_negative) == pytest.approx((1, 1, 1), abs=1e-3)
    assert (row.signs_right, row.empty, row.flipped) == (1, 0, 0)
    assert row.target_to_others == pytest.approx(-3, abs=1e-3)
    assert row.completeness_gap > 0.3


def test_from_black_module_relus_fail_overall(outcome):
    assert case(outcome, "module", "zero", 256.0).f1_overall < 0.5


def test_there_is_a_row_for_each_case(outcome):
    table = outcome.tables["means"]
    assert len(table) == 12 == len(table.drop_duplicates(["temperature", "relu", "baseline"]))


def test_wrong_maps_of_functional_relus_are_counted_apart(outcome):
    images, table = outcome.tables["images"], outcome.tables["multipliers"]
    functional = images[images.relu == "functional"]
    assert table.maps.sum() == len(functional) == 6
    assert table.at_most_0.sum() == (functional.multiplier <= 0).sum()


def held(overall, signs, gap, wrong):
    means = pd.DataFrame(
        {
            "relu": ["functional", "module"],
            "baseline": ["zero", "true"],
            "f1_overall": [overall, 1.0],
            "f1_positive": [0.3, signs],
            "f1_negative": [0.3, 1.0],
            "completeness_gap": [9.0, gap],
        }
    )
    multipliers = pd.DataFrame(wrong, columns=["right_in_every_sign", "maps", "at_most_0"])
    return all_hold({"means": means, "multipliers": multipliers}, "deepshap-signs")


PATTERN = "some_case_has_the_papers_pattern"
EXPLAINED = "multipliers_explain_wrong_signs"
BEST = "true_baselines_have_right_signs_and_wrong_sums"


def test_claims_follow_the_tables():
    found = held(0.498, 1.0, 0.5, [(False, 2, 2), (True, 4, 0)])  # 0.5, as printed
    assert found == {PATTERN: "agrees", EXPLAINED: "agrees", BEST: "agrees"}
    found = held(0.4, 0.6, 0.5, [(False, 2, 1), (True, 4, 0)])
    assert found == {PATTERN: "differs", EXPLAINED: "differs", BEST: "differs"}
    found = held(0.4, 1.0, 0.0, [(False, 2, 2), (True, 4, 1)])
    assert found == {PATTERN: "differs", EXPLAINED: "differs", BEST: "differs"}
    assert held(0.4, 1.0, 0.0, [(True, 4, 0)])[EXPLAINED] == "undecided"
