"""Which output is explained, what a method is offered, and what is kept of a run."""

import json

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError, AttributionWarning
from attributionlab.methods import run
from attributionlab.metrics import normalize


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
        ({}, {"output": "logit"}, "logit", "logit"),
        ({"output": "logit"}, {}, "logit", "logit"),
        ({"output": "logit"}, {"output": "probability"}, "probability", "probability"),
        ({}, {"truth_output": "logit"}, "probability", "logit"),
        ({"output": "logit"}, {"truth_output": "probability"}, "logit", "probability"),
        ({}, {"output": "logit", "truth_output": "probability"}, "logit", "probability"),
    ],
)
def test_the_output_asked_for_comes_before_the_methods_own(
    colors, declared, asked, explained, held
):
    seen = []
    report = al.faithfulness_test(recorder(seen, **declared), colors, n=1, **asked)
    [result] = report.environments
    assert (result.output, result.truth_output) == (explained, held)
    assert set(seen) == {colors.explained_model(explained)}
    negative = result.mean("negative", "recall")
    assert negative is None if held == "logit" else negative == 0  # the logit has no such truth


@pytest.mark.parametrize("asked", [{}, {"output": "logit"}, {"truth_output": "probability"}])
def test_a_regression_has_one_output(modulo, asked):
    [result] = al.faithfulness_test("sobel", modulo, n=1, **asked).environments
    assert (result.output, result.truth_output) == ("logit", "logit")


def test_an_output_that_does_not_exist_is_refused(colors):
    with pytest.raises(AttributionLabError, match="output is 'logits': did you mean 'logit'"):
        al.faithfulness_test("sobel", colors, truth_output="logits")


# Presets


def test_a_preset_brings_settings_and_output_by_task(colors, modulo):
    report = al.faithfulness_test("occlusion", [colors, modulo], n=1, preset="paper")
    first, second = report.environments
    assert (first.output, first.truth_output) == ("logit", "probability")
    assert (second.output, second.truth_output) == ("logit", "logit")
    assert first.settings == {"window": 5, "stride": 3, "baselines": 0.0}
    assert (report.preset, report.settings) == ("paper", {})
    alone = al.faithfulness_test(
        "occlusion", colors, n=1, output="logit", truth_output="probability",
        settings={"window": 5, "stride": 3},
    )  # fmt: skip
    assert np.array_equal(alone.environments[0].attributions, first.attributions)


def test_settings_and_output_override_a_preset(colors):
    report = al.faithfulness_test(
        "occlusion", colors, n=1, preset="paper", settings={"window": 7}, output="probability"
    )
    [result] = report.environments
    assert (result.output, result.truth_output) == ("probability", "probability")
    assert result.settings == {"window": 7, "stride": 3, "baselines": 0.0}
    assert report.settings == {"window": 7}


# Offers


def test_a_method_that_asks_is_offered_other_images_and_the_largest_value(colors, modulo):
    seen = []

    def method(model, inputs, targets, *, reference_images, highest):
        seen.append((inputs, reference_images, highest))
        return torch.ones_like(inputs)

    al.faithfulness_test(method, [colors, modulo], n=1, seed=3)
    al.faithfulness_test(method, colors, n=1, seed=3)
    al.faithfulness_test(method, colors, n=1, seed=4)
    (image, others, highest), (_, gray, one), (_, again, _), (_, different, _) = seen
    assert others.shape == (256, 3, 24, 24)
    assert gray.shape == (256, 1, 24, 24)
    assert (highest, one) == (255, 1)
    assert torch.equal(others, again)
    assert not torch.equal(others, different)
    assert not (others == image).flatten(1).all(1).any()


# Results


def test_what_a_run_keeps_of_the_attributions(colors):
    def method(model, inputs, targets):
        return inputs - 30

    report = al.faithfulness_test(method, colors, n=3)
    [result] = report.environments
    images, _ = colors.batch(3, 0)
    expected = normalize((images - 30).double().sum(1, keepdim=True)).float()[:, 0]
    assert np.array_equal(result.attributions, expected.numpy())
    assert result.seconds > 0
    assert report.to_dict()["environments"][0]["seconds_per_image"] == result.seconds


def test_the_completeness_gap_is_that_of_each_image(colors, tmp_path):
    with pytest.warns(AttributionWarning, match="do not sum to the change of the output"):
        report = al.faithfulness_test("deep-lift-true-baseline", colors, n=3)
    [result] = report.environments
    images, labels = colors.batch(3, 0)
    with torch.no_grad():
        after = colors.softmax_model(images).gather(1, labels[:, None])[:, 0]
        blank = colors.baseline.expand_as(images)
        before = colors.softmax_model(blank).gather(1, labels[:, None])[:, 0]
    with pytest.warns(al.GuardWarning):
        sums = al.methods.deep_lift_true_baseline(
            colors.softmax_model, images, labels, baseline=colors.baseline
        ).sum((1, 2, 3))
    change = after - before
    gaps = ((sums - change).abs() / change.abs()).numpy()
    # Two sums of some thousand float32 terms in different orders.
    assert np.allclose(result.completeness_gap, gaps, rtol=0, atol=1e-3)
    report.to_json(tmp_path / "out.json")
    document = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    written = document["environments"][0]["completeness_gap"]
    assert written == pytest.approx(float(np.median(result.completeness_gap)))


def test_without_a_sum_to_keep_there_is_no_gap(colors):
    [result] = al.faithfulness_test("sobel", colors, n=1).environments
    assert result.completeness_gap is None
    assert "completeness_gap" not in result.to_dict()


def test_each_guard_is_said_once_with_the_number_of_images(colors):
    saturated = al.load("multi-color-sum", image_size=72, temperature=2.0**-4)
    with pytest.warns(AttributionWarning) as caught:
        report = al.faithfulness_test("saliency", saturated, n=3)
    said = [w for w in report.warnings if "softmax is saturated" in w]
    assert len(said) == 1
    assert "of 3 images" in said[0]
    assert "now 0.0625" in said[0]
    assert len(caught) == len(report.warnings)


def test_a_guard_that_does_not_fit_in_memory_takes_no_result_with_it(colors, monkeypatch):
    monkeypatch.setattr(run, "kinks", out_of_memory)
    with pytest.warns(AttributionWarning, match="were not looked at"):
        report = al.faithfulness_test("saliency", colors, n=1)
    assert report.verdict == "pass"


def out_of_memory(*_):
    raise RuntimeError("CUDA out of memory")
