"""Which output is explained, what a method is offered, and what is kept of a run."""

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError


@pytest.fixture(scope="module")
def colors():
    return al.load("multi-color-sum", image_size=24)


@pytest.fixture(scope="module")
def modulo():
    return al.load("single-color-modulo", image_size=24)


def recorder(seen, **declared):
    """A method that notes which model it is given."""

    def method(model, inputs, targets):
        seen.append(model)
        return torch.ones_like(inputs)

    vars(method).update(declared)
    return method


# Outputs


@pytest.mark.parametrize(
    ("declared", "asked", "explained", "held"),
    [
        ({}, {}, "probability", "probability"),
        ({}, {"explain": "logit"}, "logit", "logit"),
        ({"output": "logit"}, {}, "logit", "logit"),
        ({"output": "logit"}, {"explain": "probability"}, "probability", "probability"),
        ({}, {"explain": ["probability", "logit"]}, "probability", "logit"),
        ({"output": "probability"}, {"explain": ("logit", "probability")}, "logit", "probability"),
    ],
)
def test_the_output_asked_for_comes_before_the_methods_own(
    colors, declared, asked, explained, held
):
    seen = []
    report = al.faithfulness_test(
        recorder(seen, **declared), colors, n=1, **asked, one_network=True
    )
    [result] = report.environments
    assert (result.output, result.truth_output) == (explained, held)
    assert set(seen) == {colors.explained_model(explained)}
    negative = result.mean("negative", "recall")
    assert negative is None if held == "logit" else negative == 0  # the logit has no such truth


@pytest.mark.parametrize("asked", [{}, {"explain": "logit"}, {"explain": ("logit", "probability")}])
def test_a_regression_has_one_output(modulo, asked):
    [result] = al.faithfulness_test("sobel", modulo, n=1, **asked, one_network=True).environments
    assert (result.output, result.truth_output) == ("logit", "logit")


def test_an_output_that_does_not_exist_is_refused(colors):
    with pytest.raises(
        AttributionLabError, match="no output 'logits' to explain: did you mean 'logit'"
    ):
        al.faithfulness_test("sobel", colors, explain=("logit", "logits"), one_network=True)


# Presets


def test_a_preset_brings_settings_and_output_by_task(colors, modulo):
    report = al.faithfulness_test(
        "occlusion", [colors, modulo], n=1, preset="paper", one_network=True
    )
    first, second = report.environments
    assert (first.output, first.truth_output) == ("logit", "probability")
    assert (second.output, second.truth_output) == ("logit", "logit")
    assert first.settings == {"window": 5, "stride": 3, "baselines": 0.0}
    assert (report.preset, report.settings) == ("paper", {})
    alone = al.faithfulness_test(
        "occlusion", colors, n=1, explain=("logit", "probability"),
        settings={"window": 5, "stride": 3},one_network=True
    )  # fmt: skip
    assert np.array_equal(alone.environments[0].attributions, first.attributions)


def test_settings_and_output_override_a_preset(colors):
    report = al.faithfulness_test(
        "occlusion",
        colors,
        n=1,
        preset="paper",
        settings={"window": 7},
        explain="probability",
        one_network=True,
    )
    [result] = report.environments
    assert (result.output, result.truth_output) == ("probability", "probability")
    assert result.settings == {"window": 7, "stride": 3, "baselines": 0.0}
    assert report.settings == {"window": 7}
