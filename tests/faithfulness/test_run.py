"""What a method is offered, and what is kept of a run."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError, AttributionWarning
from attributionlab.base import CostWarning, mean_score
from attributionlab.methods import declares, run
from attributionlab.metrics import alignment, normalize
from attributionlab.show import Panel, as_text, comparison_table, faithfulness_page, report_table
from attributionlab.verdicts.faithfulness import run as running
from attributionlab.verdicts.faithfulness.report import SCORES

# Offers


@pytest.mark.long
def test_a_method_that_asks_is_offered_other_images_and_the_largest_value(colors, modulo):
    seen = []

    def method(model, inputs, targets, *, reference_images, highest):
        seen.append((inputs, reference_images, highest))
        return torch.ones_like(inputs)

    al.faithfulness_test(method, [colors, modulo], n=1, seed=3, also=None)
    al.faithfulness_test(method, colors, n=1, seed=3, also=None)
    al.faithfulness_test(method, colors, n=1, seed=4, also=None)
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

    report = al.faithfulness_test(method, colors, n=3, one_network=True)
    [result] = report.environments
    images, _ = colors.batch(3, 0)
    expected = normalize((images - 30).double().sum(1, keepdim=True)).float()[:, 0]
    assert np.array_equal(result.attributions, expected.numpy())
    assert result.seconds > 0
    assert report.to_dict()["environments"][0]["seconds_per_image"] == result.seconds


def test_the_completeness_gap_is_that_of_each_image(colors, tmp_path):
    with pytest.warns(AttributionWarning, match="do not sum to the change of the output"):
        report = al.faithfulness_test("deep-lift-true-baseline", colors, n=3, one_network=True)
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


@pytest.mark.long
def test_each_guard_is_said_once_with_the_number_of_images(colors):
    saturated = al.load("multi-color-sum", image_size=72, temperature=2.0**-4)
    with pytest.warns(AttributionWarning) as caught:
        report = al.faithfulness_test("saliency", saturated, n=13, also=None)
    said = [w for w in report.warnings if "softmax is saturated" in w]
    assert len(said) == 1
    empty = (report.environments[0].attributions == 0).all((1, 2))
    assert f"of {empty.sum()} images" in said[0]
    assert empty.sum() > 1
    assert "now 0.0625" in said[0]
    assert len(caught) == len(report.warnings)


def test_a_guard_that_does_not_fit_in_memory_takes_no_result_with_it(colors, monkeypatch):
    monkeypatch.setattr(run, "kinks", out_of_memory)
    with pytest.warns(AttributionWarning, match="were not checked for"):
        report = al.faithfulness_test("saliency", colors, n=13, one_network=True)
    assert report.verdict == "pass"


def out_of_memory(*_):
    raise RuntimeError("CUDA out of memory")


# Seeds


def drawing(model, inputs, targets, *, generator):
    """The truth of a classifier's positive part by luck."""
    return torch.rand(inputs.shape, generator=generator)


@pytest.mark.long
def test_only_a_method_that_draws_is_run_again(colors):
    calls = []

    def steady(model, inputs, targets, *, generator):
        calls.append(len(inputs))
        return torch.ones_like(inputs)

    arguments = {"n": 3, "also": "seeds:5"}
    [result] = al.compare(steady, colors, **arguments).reports[0].environments
    assert calls == [1, 1, 1]  # it declares a generator, so each image has a seed of its own
    assert (result.stochastic, result.seeds, result.seed_sd) == (False, 1, None)
    [result] = al.compare(drawing, colors, claim="overall", **arguments).reports[0].environments
    assert (result.stochastic, result.seeds) == (True, 5)
    assert result.seed_sd > 0


@pytest.mark.parametrize(
    "draw", [lambda: torch.rand(()), lambda: np.random.rand(), lambda: random.random()]
)
def test_drawing_from_a_global_state_is_noticed(colors, draw):
    def method(model, inputs, targets):
        draw()
        return torch.ones_like(inputs)

    [result] = al.faithfulness_test(method, colors, n=1, also=None).environments
    assert result.stochastic


def test_scores_are_means_over_seeds_of_which_the_first_is_that_of_a_single_run(colors):
    maps = []

    def noted(model, inputs, targets, *, generator):
        maps.append(drawing(model, inputs, targets, generator=generator))
        return maps[-1]

    arguments = {"n": 3, "seed": 2, "one_network": True}
    [report] = al.compare(noted, colors, also="seeds:3", **arguments).reports
    [several] = report.environments
    truth = colors.truth(*colors.batch(3, 2)).overall
    assert len(maps) == 9  # three images, one by one, for each of three seeds
    runs = [torch.cat(maps[start : start + 3]) for start in (0, 3, 6)]
    f1 = torch.stack(
        [alignment(normalize(each.sum(1, keepdim=True)).abs(), truth).f1 for each in runs]
    )
    # Maps are kept in float32: 2^-24 of values of one sign, in sums and their ratio.
    assert np.allclose(several.scores["overall"]["f1"], f1.mean(0), rtol=1e-6)
    part = several.claim_part
    assert part == "negative"  # which a map of positive values misses
    [overall] = al.faithfulness_test(
        drawing, colors, also="seeds:3", claim="overall", **arguments
    ).environments
    assert overall.seed_sd == pytest.approx(float(f1.var(0).mean().sqrt()), rel=1e-4)
    [single] = al.faithfulness_test(drawing, colors, **arguments).environments
    assert np.array_equal(single.attributions, several.attributions)


# Runs of a method that optimizes


def optimizing(maps):
    """A stand-in for an optimization, whose run `nudge` ends with the map of that place."""

    @declares(claim="overall", runs=len(maps))
    def method(model, inputs, targets, *, nudge):
        return maps[nudge](inputs)

    return method


def ones(inputs):
    return torch.ones_like(inputs[:, :1])


def zeros(inputs):
    return torch.zeros_like(inputs[:, :1])


@pytest.fixture
def white(modulo):
    """The truth of single-color-modulo: white pixels."""
    return lambda inputs: inputs


@pytest.mark.long
def test_the_lowest_and_highest_of_known_runs_stand_beside_the_first(modulo, white):
    method = optimizing([ones, zeros, white])
    [result] = al.faithfulness_test(method, modulo, n=3, also=None).environments
    images, _ = modulo.batch(3, 0)
    share = images.double().mean((1, 2, 3))  # the precision of a map that is 1 everywhere
    of_ones = float((2 * share / (1 + share)).mean())
    assert result.claim_f1 == pytest.approx(of_ones, rel=1e-6)  # maps are kept in float32
    lowest, highest = result.spread()
    assert (lowest["of"], highest["of"]) == ("lowest of 3 runs", "highest of 3 runs")
    assert lowest["overall"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert highest["overall"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0}
    assert lowest["negative"] is None  # of which these images have nothing
    assert result.to_dict()["spread"] == [lowest, highest]


@pytest.mark.long
def test_the_runs_of_a_deterministic_method_do_not_differ(modulo):
    [result] = al.faithfulness_test(optimizing([ones] * 3), modulo, n=2).environments
    assert {key: [row[key] for row in result.spread()] for key in ("overall", "positive")} == {
        key: [{score: result.mean(key, score) for score in SCORES}] * 2
        for key in ("overall", "positive")
    }


@pytest.mark.long
def test_other_runs_see_the_first_images_only_and_say_so(modulo, white):
    seen = []

    def noted(inputs):
        seen.append(len(inputs))
        return white(inputs)

    method = optimizing([ones, noted])
    [result] = al.faithfulness_test(method, modulo, n=10, also=None).environments
    lowest, highest = result.spread()
    assert sum(seen) == 8
    assert (lowest["of"], lowest["images"]) == ("lowest of 2 runs, first 8 images", 8)
    assert lowest["overall"]["f1"] == mean_score(result.scores["overall"]["f1"][:8])
    assert highest["overall"]["f1"] == 1


@pytest.mark.long
def test_seeds_that_are_asked_for_are_the_runs_of_a_method_that_draws(colors):
    declared = declares(runs=3)(drawing)
    try:
        [few] = al.faithfulness_test(declared, colors, n=2, also=None).environments
        [many] = al.faithfulness_test(declared, colors, n=2, also="seeds:5").environments
    finally:
        declares()(drawing)
    f1 = [float(run["overall"]["f1"].mean()) for run in many.compared_runs]
    assert len(set(f1)) == 5
    assert [row["overall"]["f1"] for row in many.spread()] == [min(f1), max(f1)]
    # The first runs are those of the same seeds.
    assert [row["overall"]["f1"] for row in few.spread()] == [min(f1[:3]), max(f1[:3])]


def test_a_method_of_one_run_has_no_spread(colors):
    [result] = al.faithfulness_test("random", colors, n=1, also="seeds:2").environments
    assert result.spread() == result.to_dict()["spread"] == []


@pytest.mark.long
def test_every_table_has_the_lowest_and_highest_below_a_method_that_optimizes(modulo, white):
    names = ["method", "method, lowest of 2 runs", "method, highest of 2 runs"]
    comparison = al.compare(["saliency", optimizing([zeros, white])], modulo, n=2)
    summary = comparison.summary()
    assert summary.method.tolist() == ["saliency", *names]
    assert summary.claim_f1.tolist()[1:] == [0, 0, 1]
    frame = comparison.to_frame()
    overall = frame[frame.part == "overall"]
    assert overall.method.tolist() == ["saliency", *names]
    assert overall.f1.tolist()[1:] == [0, 0, 1]
    said = as_text(comparison_table(comparison.to_dict()), 120)
    assert "highest of 2 runs" in said
    [report] = [each for each in comparison.reports if each.method == "method"]
    told = as_text(report_table(report.to_dict()), 80).splitlines()
    [row] = [line.split() for line in told if line.startswith(" ") and "highest " in line][:1]
    assert row == ["highest", "1.00", "1.00", "1.00"]
    assert "0.00 to 1.00 over runs" in faithfulness_page(
        report.to_dict(), [Panel([], report.environments[0].scores["overall"]["f1"])]
    )


# The runner-up


def test_the_class_with_the_second_most_pixels_is_explained_too(colors):
    asked = []

    def method(model, inputs, targets):
        asked.append(targets)
        return torch.ones_like(inputs)

    report = al.faithfulness_test(method, colors, n=11, one_network=True)
    images, labels = colors.batch(11)
    counts = colors.counting.counts(images)
    second = counts.argsort(dim=1, descending=True, stable=True)[:, 1]
    assert torch.equal(asked[0], labels)
    assert torch.equal(counts.gather(1, asked[1][:, None]), counts.gather(1, second[:8, None]))
    assert (asked[1] != labels[:8]).all()
    truth = colors.truth(images[:8], asked[1])
    ones = torch.ones(8, 1, 24, 24)
    [result] = report.environments
    assert result.studied_images == report.to_dict()["environments"][0]["runner_up"]["images"] == 8
    assert result.runner_up == {
        "overall": pytest.approx(float(alignment(ones, truth.overall).f1.mean())),
        "positive": pytest.approx(float(alignment(ones, truth.positive).f1.mean())),
        "negative": 0.0,
    }


def test_there_is_no_runner_up_without_classes_or_a_method_to_ask(colors, modulo):
    [result] = al.faithfulness_test("constant", modulo, n=2, one_network=True).environments
    assert result.runner_up is None
    maps = colors.truth(*colors.batch(2)).signed.float()
    [result] = al.faithfulness_test(maps, colors, n=2, one_network=True).environments
    assert result.runner_up is None
    [result] = al.faithfulness_test(
        "constant", colors, n=2, also=None, one_network=True
    ).environments
    assert (result.runner_up, result.diagnosis, result.resolution) == (None, None, None)


def test_a_part_that_the_first_images_lack_has_no_lowest_and_highest(modulo, white):
    """As where only later images than those of the other runs have negative truth."""
    comparison = al.compare(optimizing([ones, white]), modulo, n=2)
    [report] = comparison.reports
    [result] = report.environments
    nothing = {part: dict.fromkeys(SCORES, np.full(2, np.nan)) for part in result.scores}
    lacking = replace(result, compared_runs=[nothing, nothing])
    report = replace(report, environments=[lacking])
    comparison = replace(comparison, reports=[report])
    assert all(row["overall"] is None for row in lacking.spread())
    assert "highest" not in as_text(report_table(report.to_dict()), 100).split("spread")[0]
    assert "overall F1" not in as_text(comparison_table(comparison.to_dict()), 120)
    assert comparison.summary().claim_f1.isna().tolist() == [False, True, True]
    assert comparison.to_frame().f1.isna().sum() >= 2


@pytest.mark.long
def test_worlds_are_scored_at_the_strict_level_too(colors):
    """Of min(black@top, 2) many black pixels hardly matter: only the strict level asks for them."""
    env = al.world("red@left - blue@right + min(black@top, 2)", image_size=24)
    images, labels = env.batch(3)
    signed = torch.zeros(3, 1, 24, 24, dtype=torch.int8)
    for name, sign, place in (
        ("red", 1, np.s_[:, 0, :, :12]),
        ("blue", -1, np.s_[:, 0, :, 12:]),
        ("black", 1, np.s_[:, 0, :12]),
    ):
        color = torch.tensor(env.colors[name])[:, None, None]
        signed[place][(images == color).all(1, keepdim=True)[place]] = sign
    [exact] = al.faithfulness_test(signed.float(), env, n=3, one_network=True).environments
    assert exact.strict == {"overall": 1.0, "positive": 1.0, "negative": 1.0}
    report = al.faithfulness_test("oracle", env, n=3, one_network=True)
    [result] = report.environments
    assert result.claim_f1 == 1.0
    asked = env.truth(images, env.targets(labels)).asked
    recall = ((signed > 0) & asked).sum((1, 2, 3)) / (signed > 0).sum((1, 2, 3))
    assert recall.min() < 1
    f1 = (2 * recall / (1 + recall)).mean()  # what the oracle marks is right
    assert result.strict["positive"] == pytest.approx(float(f1), abs=1e-6)  # f1 is in float32
    document = report.to_dict()
    assert document["environments"][0]["strict"] == result.strict
    shown = f"positive {result.strict['positive']:.2f}, negative 1.00, if every"
    assert shown in " ".join(as_text(report_table(document), 200).split())
    page = faithfulness_page(document, [Panel([], np.ones(3))])
    assert "Strict level" in page
    [elsewhere] = al.faithfulness_test("oracle", colors, n=2).to_dict()["environments"]
    assert "strict" not in elsewhere


def test_what_will_take_hours_is_announced(monkeypatch):
    monkeypatch.setattr(running, "SOON", -1.0)
    monkeypatch.setattr(running, "LONG", -1.0)
    env = al.load("number-checker", image_size=8)
    with pytest.warns(
        CostWarning, match=r"random on number-checker: 1 of 2 images took .* a smaller n"
    ):
        al.faithfulness_test("random", env, n=2, also=None)


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
