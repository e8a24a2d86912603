"""The same function with module and with functional ReLUs, and what DeepSHAP makes of it."""

import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab.papers.attributionlab import deep_shap_signs
from attributionlab.papers.attributionlab.deep_shap_signs import FunctionalReLU
from attributionlab.papers.registry import experiment


@pytest.fixture(scope="module")
def outcome():
    return experiment("deepshap-signs", n=1, quick=True)


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


def test_module_relus_and_the_true_baseline_meet_every_mask_but_not_the_output_change(outcome):
    row = case(outcome, "module", "true", 256.0)
    assert (row.f1_overall, row.f1_positive, row.f1_negative) == pytest.approx((1, 1, 1), abs=1e-3)
    assert row.signs_right == 1
    assert row.target_to_others == pytest.approx(-3, abs=1e-3)
    assert row.completeness_gap > 0.3


def test_from_black_module_relus_fail_overall(outcome):
    assert case(outcome, "module", "zero", 256.0).f1_overall < 0.5


def test_there_is_a_row_for_each_case(outcome):
    table = outcome.tables["means"]
    assert len(table) == 12 == len(table.drop_duplicates(["temperature", "relu", "baseline"]))


def test_cases_that_show_the_pattern_are_named():
    scores = {"f1_overall": [0.6, 0.6, 0.4], "f1_positive": [0.3, 0.6, 0.3]}
    table = pd.DataFrame(
        {
            "temperature": 1.0,
            "relu": ["functional", "module", "module"],
            "baseline": "true",
            "empty": [0.25, 0, 0],
            "flipped": [0.5, 0, 0],
            **scores,
            "f1_negative": 0.2,
            "completeness_gap": [9.0, 0.5, 0.7],
        }
    )
    images = pd.DataFrame(
        {
            "relu": ["functional"] * 3 + ["module"],
            "signs_right": [0, 0.2, 1, 0],
            "multiplier": [-1, 1, 2, 0],
        }
    )
    sentences = deep_shap_signs._findings(table, images, 4)
    assert "for functional ReLU, true baseline, temperature 1 (F1" in sentences[1]
    assert sentences[1].count("ReLU") == 1
    assert "up to 1 of 4 maps are empty and up to 2 wrong in every sign" in sentences[3]
    assert "Of the 2 maps in all cases that are not right in every sign 1 have" in sentences[3]
    assert "of the 1 that are 0" in sentences[3]
    assert "F1 is at least 0.20" in sentences[4]
    assert "50% to 70%" in sentences[4]
