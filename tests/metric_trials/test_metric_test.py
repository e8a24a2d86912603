"""The test of a metric: right about metrics of which it is known what they do."""

import dataclasses
import json
import math

import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.metrics import metric, parts_f1
from attributionlab.metrics.ranking import CorrelationInterval
from attributionlab.verdicts import Break, MetricReport, as_metric, metric_tests
from attributionlab.verdicts.metric_trials.report import DoseScore
from attributionlab.verdicts.metric_trials.run import metric_trial

SMALL = {"distance": [0, 1, 20], "share": [0, 1]}


def on_one_network(metric, env, n, seed=0, **settings):
    """The test on images whose networks have the same roles, at every dose."""
    return metric_trial(metric, env, n, seed, one_network=True, **settings)


@pytest.fixture(scope="module")
def env():
    return al.load("multi-color-sum", image_size=12)


@pytest.fixture(scope="module")
def deletion(env):
    return on_one_network("deletion", env, 2, doses=SMALL, methods=["input-x-gradient", "lrp"])


@metric(higher_is_better=True, per_sample=True)
def truth_itself(attributions, truth):
    return parts_f1(attributions, truth.to(torch.int8))["positive"]


@metric(higher_is_better=True, per_sample=True)
def turned_by_unseen_data(model, images, targets, attributions, *, replacement, truth):
    score = truth_itself(attributions, truth)
    return -score if (replacement == 0).any() else score


def test_the_truth_agrees_with_itself_at_every_dose(env):
    report = on_one_network(truth_itself, env, 2, doses=SMALL)
    for each in report.doses:
        value, low, high = each.correlations["positive"]
        assert (value, high) == pytest.approx((1, 1), abs=1e-12)
        assert low > 0.99
        assert each.measures_the_truth
        assert each.oracle == each.best == 1
    assert [each.dose for each in report.breaks("positive")] == [None, None]
    assert report.summary().exact_mask_beaten.tolist() == ["at 0 of 3 doses", "at 0 of 2 doses"]
    assert report.summary().by.tolist() == ["", ""]


def test_a_metric_that_turns_round_breaks_where_it_does(env):
    report = on_one_network(turned_by_unseen_data, env, 2, doses=SMALL)
    assert report.breaks("positive") == [Break("distance", 20, 20), Break("share", 1, 1)]
    assert report.along("distance")[-1].correlations["positive"].value == pytest.approx(-1)
    row = report.summary().iloc[0]
    assert (row["axis"], row["break"], row["at"]) == ("distance", "breaks at 20", 20)
    assert row["lowest_correlation"].startswith("-")
    assert "gray levels from true baseline to replacement" in str(report)


def test_lower_is_better_turns_the_ranking_and_the_best_map(env):
    def distance_from_truth(attributions, truth):
        return -truth_itself(attributions, truth)

    report = on_one_network(distance_from_truth, env, 2, doses=SMALL, higher_is_better=False)
    for each in report.doses:
        assert each.correlations["positive"].value == pytest.approx(1, abs=1e-12)
        assert each.best == each.oracle == -1


@pytest.mark.long
def test_deletion_ranks_better_without_unseen_data_and_its_distance_is_a_step(deletion):
    clean, near, far = deletion.along("distance")
    assert clean.correlations["signed"].value > far.correlations["signed"].value + 0.1
    assert near.correlations == far.correlations
    assert near[4:] == far[4:]
    assert (clean.unseen, near.unseen) == (0, 1)
    assert deletion.along("share")[0].correlations == clean.correlations
    assert clean.oracle == pytest.approx(clean.shapley, abs=0.01)
    assert far.best < far.oracle
    assert far.shapley == pytest.approx(far.oracle, abs=0.01)
    assert far.best_map == "Shapley values of the replacement's game"
    [row] = deletion.summary().query("axis == 'distance'").itertuples()
    assert row.exact_mask_beaten == "at 2 of 3 doses"
    assert row.by == far.best_map
    assert row.largest_gap == f"{far.oracle:.3g} to {far.best:.3g}"


def test_real_methods_are_ranked_beside_the_graded_attributions(deletion):
    assert deletion.candidates[-2:] == ["input-x-gradient", "lrp"]
    assert len(deletion.candidates) == 121
    assert deletion.candidates[0] == "exact"


def test_a_function_named_like_a_built_in_method_does_not_get_the_paper_s_settings(env):
    got = []

    def occlusion(model, inputs, targets, window=1):
        got.append((window, model is env.softmax_model))
        return inputs

    report = on_one_network("f1", env, 2, doses={"share": [0]}, methods=[occlusion])
    assert report.candidates[-1] == "occlusion"
    assert set(got) == {(1, True)}


@pytest.mark.long
def test_roads_answers_at_a_dose_do_not_depend_on_the_other_axes(env):
    # ROAD imputes colors that are unseen to a network with redundant channels, whatever the share.
    alone = on_one_network("road", env, 2, doses={"strength": [0]})
    beside = on_one_network("road", env, 2, doses={"strength": [0], "share": [0]})
    assert beside.along("strength") == alone.along("strength")
    [none], [some] = beside.along("strength"), beside.along("share")
    assert (none.unseen, some.unseen) == (0, 0)
    assert none.correlations != some.correlations


@pytest.mark.long
def test_the_same_seed_gives_the_same_report(env):
    doses = {"share": [0.5]}
    one, same, other = (on_one_network("sensitivity-n", env, 2, s, doses=doses) for s in (0, 0, 1))
    assert one.to_dict() == same.to_dict()
    assert one.doses != other.doses


@pytest.mark.long
def test_several_metrics_at_once_get_what_each_gets_alone(env, deletion):
    settings = {"doses": SMALL, "one_network": True, "methods": ["input-x-gradient", "lrp"]}
    both = metric_tests([as_metric("insertion"), as_metric("deletion")], env, 2, **settings)
    assert [each.metric for each in both] == ["insertion", "deletion"]
    assert both[1].doses == deletion.doses


def test_the_logit_is_another_output_with_another_truth(env):
    report = on_one_network("deletion", env, 2, output="logit", doses={"share": [0]})
    assert report.output == "logit"
    images, labels = env.batch(2)
    counts = env.truth(images, labels, "logit").positive.sum((1, 2, 3)).double()
    # The count falls by 1 at each of the first n of P steps, then stays 0: an area of n^2 / 2 P.
    assert report.doses[0].oracle == pytest.approx(float((counts**2).mean() / (2 * 144)), rel=1e-12)
    assert report.doses[0].measures_the_truth
    assert any(name.startswith("distractors") for name in report.candidates)


def test_tables_and_files_hold_every_dose(deletion, tmp_path):
    frame = deletion.dose_frame()
    assert len(frame) == 5 * 3
    deletion.to_json(tmp_path / "report.json")
    document = json.loads((tmp_path / "report.json").read_text())
    assert (document["schema"], document["metric"]) == (4, "deletion")
    assert document["doses"][0]["axis"] == "distance"
    assert set(document["breaks"]) == {"overall", "positive", "signed"}
    assert [row["axis"] for row in document["summary"]] == ["distance", "share"]
    assert "n = 2" in document["notes"][-1]
    deletion.to_csv(tmp_path / "report.csv")
    assert (tmp_path / "report.csv").read_text().startswith("metric,axis,dose,unseen,ranked_by")
    assert repr(deletion) == "MetricReport('deletion', 'multi-color-sum', 5 doses)"


def report_of(*highs):
    doses = [
        DoseScore("share", i / 4, i / 4, {"signed": CorrelationInterval(high - 0.1, high - 0.2, high)},
                  0.0, 0.0, 0.0, "exact")
        for i, high in enumerate(highs)
    ]  # fmt: skip
    return MetricReport("m", True, "e", "logit", 2, 0, ["exact"], doses, threshold=0.5)


@pytest.mark.parametrize(
    ("highs", "dose", "said"),
    [
        ((0.9, 0.8, 0.7), None, "no break is shown up to 0.5"),
        ((0.9, 0.4, 0.3), 0.25, "breaks at 0.25"),
        ((0.9, 0.4, 0.7), None, "no break is shown up to 0.5"),
        ((0.9, 0.6, math.nan), None, "no break is shown up to 0.25, undefined at 0.5"),
        ((0.9, 0.4, math.nan), 0.25, "breaks at 0.25, undefined at 0.5"),
        ((0.9, math.nan, 0.4), 0.5, "breaks at 0.5, undefined at 0.25"),
        ((0.4, math.nan, math.nan), 0, "breaks without any dose, undefined at 0.25, 0.5"),
        ((math.nan, math.nan), None, "undefined at every dose"),
        ((0.5, 0.5, 0.49), 0.5, "breaks at 0.5"),
        ((0.4, 0.3, 0.2), 0, "breaks without any dose"),
    ],
)
def test_a_metric_breaks_where_the_upper_end_falls_below_the_threshold_for_good(highs, dose, said):
    [broken] = report_of(*highs).breaks()
    assert (broken.dose, str(broken)) == (dose, said)


def test_soundness_ranks_attributions_of_which_many_reach_no_level(env):
    report = on_one_network("soundness", env, 2, doses={"share": [0]})
    [dose] = report.doses
    assert dose.correlations["signed"].value > 0
    assert "undefined" not in str(report)
    assert dose.oracle == 1


def test_undefined_correlations_and_scores_are_said_and_written_as_none():
    report = report_of(math.nan)
    assert report.summary().lowest_correlation.tolist() == ["undefined"]
    assert report.to_dict()["doses"][0]["correlations"]["signed"]["value"] is None
    doses = [each._replace(oracle=math.nan) for each in report.doses]
    unscored = dataclasses.replace(report, doses=doses).summary()
    assert (unscored.without_score.tolist(), unscored["by"].tolist()) == ([1], [""])


def test_the_lowest_correlation_of_an_axis_is_named_with_its_dose():
    for highs, text, dose in (
        ((0.9, 0.4, 0.6), "0.30 [0.20, 0.40]", 0.25),
        ((0.9, 0.4, math.nan), "undefined", 0.5),
    ):
        [row] = report_of(*highs).summary().itertuples()
        assert (row.lowest_correlation, row.at) == (text, dose)


def test_a_warning_of_few_images_stands_in_the_notes_only_where_they_are_few():
    report = report_of(0.9)
    assert "n = 2: intervals of fewer than 6 images" in report.notes[-1]
    assert dataclasses.replace(report, n=6).notes == report.notes[:-1]


def test_an_axis_that_was_not_tried_is_refused(deletion):
    with pytest.raises(AttributionLabError, match="no axis named 'strength' here"):
        deletion.along("strength")


@pytest.mark.long
@pytest.mark.parametrize("one_network", [False, True])
def test_a_metric_without_any_score_is_refused_by_its_name(env, one_network):
    def silent(attributions):
        return attributions[:, 0, 0, 0] * math.nan

    def speaks(attributions):
        return torch.where(torch.arange(len(attributions)) == 1, 1.0, math.nan)

    given = {"env": env, "n": 2, "doses": {"share": [0]}, "higher_is_better": True}
    given["one_network"] = one_network
    with pytest.raises(AttributionLabError, match=r"^silent is NaN for every attribution of every"):
        metric_trial(silent, **given)
    assert metric_trial(speaks, **given).verdict != "valid"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 1}, "n is 1.*integer.* 2"),
        ({"seed": -1, "threshold": 2}, "seed is -1.*; threshold is 2"),
        ({"confidence": 1}, "confidence is 1: take a number"),
        ({"output": "class"}, "output is 'class'"),
        ({"methods": ["saliencies"]}, "no method named 'saliencies'"),
        ({"methods": "saliency"}, r"methods is 'saliency': give a list, such as \['saliency'\]"),
        ({"methods": None}, "methods is None: give a list"),
        ({"metric": "insertions"}, "did you mean 'insertion'"),
        ({"env": "single-color-modulo"}, "has no redundant channels"),
    ],
)
def test_impossible_questions_are_refused(env, settings, message):
    question = {"metric": "insertion", "env": env, "n": 2, "doses": SMALL} | settings
    with pytest.raises(AttributionLabError, match=message):
        metric_trial(**question)
