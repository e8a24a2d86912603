"""The trial of a metric: right about metrics of which it is known what they do, and what is refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.metrics import insertion, metric, parts_f1
from attributionlab.metrics.ranking import CorrelationInterval
from attributionlab.verdicts import Break, MetricReport, as_metric, metric_tests, quick_doses
from attributionlab.verdicts.metric_trials.report import DoseScore
from attributionlab.verdicts.metric_trials.words import DECIDES
from cases import loaded
from schemas import problems
from trials import metric_trial

SMALL = {"distance": [0, 1, 20], "share": [0, 1]}
CLEAN = {"share": [0]}


def on_one_network(metric, env, n=2, seed=0, **settings):
    """The trial on images whose networks have the same roles, at every dose."""
    return metric_trial(metric, env, n, seed, **{"doses": SMALL, "one_network": True, **settings})


env = loaded("multi-color-sum", image_size=12)


@pytest.fixture(scope="module")
def deletion(env):
    return on_one_network("deletion", env, methods=["input-x-gradient", "lrp"])


@metric(higher_is_better=True, per_sample=True)
def truth_itself(attributions, truth):
    return parts_f1(attributions, truth.to(torch.int8))["positive"]


@metric(higher_is_better=True, per_sample=True)
def turned_by_unseen_data(model, images, targets, attributions, *, replacement, truth):
    score = truth_itself(attributions, truth)
    return -score if (replacement == 0).any() else score


@pytest.mark.parametrize("sign", [1, -1])
def test_the_truth_agrees_with_itself_at_every_dose_whichever_direction_is_better(env, sign):
    def scored(attributions, truth):
        return sign * truth_itself(attributions, truth)

    report = on_one_network(scored, env, higher_is_better=sign > 0)
    for each in report.doses:
        value, low, high = each.correlations["positive"]
        assert (value, high) == pytest.approx((1, 1), abs=1e-12)
        assert low > 0.99
        assert each.measures_the_truth
        assert each.oracle == each.best == sign
    assert [each.dose for each in report.breaks("positive")] == [None, None]
    assert report.summary().exact_mask_beaten.tolist() == ["at 0 of 3 doses", "at 0 of 2 doses"]
    assert report.summary().by.tolist() == ["", ""]


def test_a_metric_that_turns_round_breaks_where_it_does(env):
    report = on_one_network(turned_by_unseen_data, env)
    assert report.breaks("positive") == [Break("distance", 20, 20), Break("share", 1, 1)]
    assert report.along("distance")[-1].correlations["positive"].value == pytest.approx(-1)
    row = report.summary().iloc[0]
    assert (row["axis"], row["break"], row["at"]) == ("distance", "breaks at 20", 20)
    assert row["lowest_correlation"].startswith("-")
    assert "gray levels from true baseline to replacement" in str(report)


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


def test_real_methods_are_ranked_beside_the_graded_attributions(env, deletion):
    assert deletion.candidates[-2:] == ["input-x-gradient", "lrp"]
    assert len(deletion.candidates) == 121
    assert deletion.candidates[0] == "exact"
    got = []

    def occlusion(model, inputs, targets, window=1):
        """A function that is named like a method here does not get its settings in the paper."""
        got.append((window, model is env.softmax_model))
        return inputs

    report = on_one_network("f1", env, doses=CLEAN, methods=[occlusion])
    assert report.candidates[-1] == "occlusion"
    assert set(got) == {(1, True)}


@pytest.mark.long
def test_roads_answers_at_a_dose_do_not_depend_on_the_other_axes(env):
    # ROAD imputes colors that are unseen to a network with redundant channels, whatever the share.
    alone = on_one_network("road", env, doses={"strength": [0]})
    beside = on_one_network("road", env, doses={"strength": [0], "share": [0]})
    assert beside.along("strength") == alone.along("strength")
    [none], [some] = beside.along("strength"), beside.along("share")
    assert (none.unseen, some.unseen) == (0, 0)
    assert none.correlations != some.correlations


@pytest.mark.long
def test_the_same_seed_gives_the_same_report(env):
    asked = {"doses": {"share": [0.5]}}
    one, same, other = (on_one_network("sensitivity-n", env, 2, s, **asked) for s in (0, 0, 1))
    assert one.to_dict() == same.to_dict()
    assert one.doses != other.doses


@pytest.mark.long
def test_several_metrics_at_once_get_what_each_gets_alone(env, deletion):
    settings = {"doses": SMALL, "one_network": True, "methods": ["input-x-gradient", "lrp"]}
    both = metric_tests([as_metric("insertion"), as_metric("deletion")], env, 2, **settings)
    assert [each.metric for each in both] == ["insertion", "deletion"]
    assert both[1].doses == deletion.doses


def test_the_logit_is_another_output_with_another_truth(env):
    report = on_one_network("deletion", env, output="logit", doses=CLEAN)
    assert report.output == "logit"
    images, labels = env.batch(2)
    counts = env.truth(images, labels, "logit").positive.sum((1, 2, 3)).double()
    # The count falls by 1 at each of the first n of P steps, then stays 0: an area of n^2 / 2 P.
    assert report.doses[0].oracle == pytest.approx(float((counts**2).mean() / (2 * 144)), rel=1e-12)
    assert report.doses[0].measures_the_truth
    assert any(name.startswith("distractors") for name in report.candidates)


def test_soundness_ranks_attributions_of_which_many_reach_no_level(env):
    report = on_one_network("soundness", env, doses=CLEAN)
    [dose] = report.doses
    assert dose.correlations["signed"].value > 0
    assert "undefined" not in str(report)
    assert dose.oracle == 1


def test_tables_and_files_hold_every_dose(deletion, tmp_path):
    assert len(deletion.dose_frame()) == 5 * 3
    deletion.to_json(tmp_path / "report.json")
    document = json.loads((tmp_path / "report.json").read_text())
    assert (document["schema"], document["metric"]) == (4, "deletion")
    assert document["doses"][0]["axis"] == "distance"
    assert set(document["breaks"]) == {"overall", "positive", "signed"}
    assert [row["axis"] for row in document["summary"]] == ["distance", "share"]
    assert "n = 2" in document["notes"][0]
    deletion.to_csv(tmp_path / "report.csv")
    assert (tmp_path / "report.csv").read_text().startswith("metric,axis,dose,unseen,ranked_by")
    assert repr(deletion) == "MetricReport('deletion', 'multi-color-sum', 5 doses)"
    with pytest.raises(AttributionLabError, match="no axis named 'strength' here"):
        deletion.along("strength")


def report_of(*highs):
    doses = [
        DoseScore("share", i / 4, i / 4, {"signed": CorrelationInterval(high - 0.1, high - 0.2, high)},
                  0.0, 0.0, 0.0, "exact")
        for i, high in enumerate(highs)
    ]  # fmt: skip
    return MetricReport("m", True, "e", "logit", 2, 0, ["exact"], doses, threshold=0.5)


UNKNOWN = "undefined"


@pytest.mark.parametrize(
    ("highs", "dose", "said", "lowest", "at"),
    [
        ((0.9, 0.8, 0.7), None, "no break is shown up to 0.5", "0.60 [0.50, 0.70]", 0.5),
        ((0.9, 0.4, 0.3), 0.25, "breaks at 0.25", "0.20 [0.10, 0.30]", 0.5),
        ((0.9, 0.4, 0.7), None, "no break is shown up to 0.5", "0.30 [0.20, 0.40]", 0.25),
        ((0.9, 0.6, math.nan), None, "no break is shown up to 0.25, undefined at 0.5", UNKNOWN, 0.5),
        ((0.9, 0.4, math.nan), 0.25, "breaks at 0.25, undefined at 0.5", UNKNOWN, 0.5),
        ((0.9, math.nan, 0.4), 0.5, "breaks at 0.5, undefined at 0.25", UNKNOWN, 0.25),
        ((0.4, math.nan), 0, "broken even at dose 0, undefined at 0.25", UNKNOWN, 0.25),
        ((math.nan, math.nan), None, "undefined at every dose", UNKNOWN, 0),
        ((0.5, 0.5, 0.49), 0.5, "breaks at 0.5", "0.39 [0.29, 0.49]", 0.5),
        ((0.4, 0.3, 0.2), 0, "broken even at dose 0", "0.10 [0.00, 0.20]", 0.5),
    ],
)  # fmt: skip
def test_a_metric_breaks_where_the_upper_end_falls_below_the_threshold_for_good(
    highs, dose, said, lowest, at
):
    report = report_of(*highs)
    [broken] = report.breaks()
    assert (broken.dose, str(broken)) == (dose, said)
    [row] = report.summary().itertuples()
    assert (row.lowest_correlation, row.at) == (lowest, at)


def test_undefined_numbers_are_written_as_none_and_few_images_are_warned_of():
    report = report_of(math.nan)
    assert report.to_dict()["doses"][0]["correlations"]["signed"]["value"] is None
    doses = [each._replace(oracle=math.nan) for each in report.doses]
    unscored = replace(report, doses=doses).summary()
    assert (unscored.without_score.tolist(), unscored["by"].tolist()) == ([1], [""])
    assert "n = 2: intervals of fewer than 6 questions" in report.notes[0]
    assert replace(report, n=6).notes == report.notes[1:]


@pytest.mark.long
@pytest.mark.parametrize("one_network", [False, True])
def test_a_metric_without_any_score_is_refused_by_its_name(env, one_network):
    def silent(attributions):
        return attributions[:, 0, 0, 0] * math.nan

    def speaks(attributions):
        return torch.where(torch.arange(len(attributions)) == 1, 1.0, math.nan)

    given = {"env": env, "n": 2, "doses": CLEAN, "higher_is_better": True}
    given["one_network"] = one_network
    with pytest.raises(AttributionLabError, match=r"^silent is NaN for every attribution of every"):
        metric_trial(silent, **given)
    assert metric_trial(speaks, **given).verdict != "valid"


def silent_in_color(model, images, targets, attributions):
    """Numbers for the gray images of the checks."""
    return attributions.sum((1, 2, 3)) * (math.nan if images.shape[1] == 3 else 1)


def gray_only(model, images, targets, attributions):
    if images.shape[1] == 3:
        raise ValueError("gray images only")
    return attributions.sum((1, 2, 3))


@pytest.mark.parametrize(
    ("function", "isolated", "found"),
    [
        (silent_in_color, False, "NaN for every attribution of every image of the trial"),
        (gray_only, False, "gray_only raised ValueError: gray images only"),
        (gray_only, True, "gray_only raised ValueError: gray images only"),
    ],
)
def test_code_that_fails_in_the_trial_alone_is_faulty(env, function, isolated, found):
    given = {"doses": CLEAN, "higher_is_better": True, "quick": True, "isolated": isolated}
    report = al.metric_test(function, env, 2, **given)
    assert report.verdict == "faulty"
    [fault] = report.checks.faults
    assert fault.id == "one-number"
    assert found in fault.found
    assert found in report.sentence
    assert problems(report.to_dict(), "metric") == []


@pytest.mark.long
def test_one_of_ours_without_any_score_is_refused(env, monkeypatch):
    path = "attributionlab.verdicts.metric_trials.registry.Metric.scores"
    monkeypatch.setattr(path, lambda metric, seen: np.full(len(seen.case.maps), math.nan))
    with pytest.raises(AttributionLabError, match=r"^deletion is NaN for every attribution"):
        al.metric_test("deletion", env, 2, doses=CLEAN, quick=True)


def test_a_quick_test_asks_for_errors_alone_at_two_doses_and_says_so(env):
    report = al.metric_test("sparsity", env, 2, quick=True)
    ids = [row.id for row in report.checks.checks]
    assert ids == ["one-number", "repeatable", "arguments-kept", "model-kept"]
    assert [each.dose for each in report.doses] == []  # it ignores them
    assert report.unmoved == ["strength"]
    [note] = [each for each in report.notes if each.startswith("Quick: unseen data")]
    assert report.asked == "2 questions of 12 x 12 pixels, seed 0"
    assert note.endswith("find an error.")  # more changes no blindness
    document = report.to_dict()
    assert document["quick"] is True
    assert problems(document, "metric") == problems(document["checks"], "metric", "check") == []
    given = al.metric_test("sparsity", env, 2, quick=True, doses={"share": [0, 1]})
    assert given.unmoved == ["share"]
    assert quick_doses(al.load("quadrants", image_size=12)) is None


def test_what_decides_stands_first_beside_the_metric_and_its_controls(env):
    report = metric_trial("insertion", env, 2, doses=CLEAN)
    table = report.tables()[DECIDES].set_index("metric")
    assert table.columns[0] == "both networks"
    lead = report.trial.lead
    assert table.loc["insertion", "both networks"] == lead.agreement
    assert table["both networks"].drop("insertion").idxmax() == lead.control
    assert table.loc[lead.control, "both networks"] == lead.of_control
    # Of one network alone a blind metric has more than the truth would give it on both.
    blind = table.filter(like="(blind)", axis=0)
    assert (blind["own network"] > blind["both networks"]).all()
    assert report.notes[1].startswith("both networks: each question has two networks")


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
        ({"doses": {"shares": [0]}}, "no axis named 'shares'"),
        ({"takes": "logits"}, "insertion gets the explained output"),
        ({"metric": insertion, "takes": "logit"}, r"takes is 'logit': take .*'logits'"),
        (
            {"metric": insertion, "takes": "probabilities", "output": "logit"},
            "insertion takes probabilities, and output is 'logit'",
        ),
    ],
)
def test_impossible_questions_are_refused_before_the_check(env, settings, message, monkeypatch):
    monkeypatch.setattr("attributionlab.verdicts.metric_trials.check.checked", None)
    question = {"metric": "insertion", "env": env, "n": 2, "doses": SMALL} | settings
    with pytest.raises(AttributionLabError, match=message):
        al.metric_test(**question)


# What the outputs are that a metric is handed


def with_softmax(model, images, targets, attributions, *, replacement):
    of_softmax = torch.nn.Sequential(model, torch.nn.Softmax(1)).eval()
    return insertion(of_softmax, images, targets, attributions, replacement=replacement)


@pytest.mark.long
def test_a_metric_with_a_softmax_of_its_own_that_takes_logits_sees_what_is_explained(env):
    right, own, twice = (
        metric_trial(function, env, 2, doses=CLEAN, higher_is_better=True, takes=takes)
        for function, takes in ((insertion, None), (with_softmax, "logits"), (with_softmax, None))
    )
    scores = [each.trial.attributions.score.to_numpy() for each in (right, own, twice)]
    # Means of 145 probabilities in float32, each off by some 2^-24.
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)
    assert np.abs(scores[0] - scores[2]).max() > 0.05
    assert "handed logits" in own.title
    assert (own.to_dict()["takes"], right.to_dict()["takes"]) == ("logits", None)


@pytest.mark.parametrize("takes", ["logits", "probabilities"])
def test_what_is_declared_is_handed(env, takes):
    seen = []

    @metric(higher_is_better=True, per_sample=True, takes=takes)
    def spy(model, images, targets, attributions):
        seen.append(model(images[:1]).detach())
        return attributions.sum((1, 2, 3))

    metric_trial(spy, env, 2, doses=CLEAN)
    totals = torch.cat(seen).sum(1)
    if takes == "logits":
        assert (totals - 1).abs().min() > 1e-3  # no probabilities
    else:
        torch.testing.assert_close(totals, torch.ones(len(seen)))


def margin(model, images, targets, attributions, *, replacement):
    outputs = model(images)
    return (attributions * images).sum((1, 2, 3)) + outputs[:, 0] - outputs[:, 1]


@pytest.mark.parametrize(
    ("function", "takes", "status", "said"),
    [
        (with_softmax, None, "note", "it applies a softmax itself"),
        (with_softmax, "probabilities", "note", 'declare takes="logits"'),
        (with_softmax, "logits", "pass", "it applies a softmax"),
        (margin, None, "note", "or compares classes"),
        (insertion, None, "pass", "other scores"),
        (insertion, "logits", "pass", "its truth is that of the logits"),
    ],
)
def test_a_softmax_of_its_own_is_found_by_calling_it_with_both(function, takes, status, said):
    asked = {"higher_is_better": True, "only": ["own-softmax"], "time_limit": None}
    [row] = al.check_metric(function, takes=takes, **asked).checks
    assert row.status == status
    assert said in row.found


# Metrics that look at next to nothing of a network, or remember their calls: none is valid


class Remembers:
    """Takes the first network of an image for its own, and the maps that come first for those made for
    it; their mean is nearly the exact map. It calls no model.
    """

    higher_is_better = True

    def __init__(self):
        self.of_image = {}

    def __call__(self, model, images, targets, attributions):
        known = self.of_image.setdefault(images[0].numpy().tobytes(), ([], []))
        models, means = known
        if not any(each is model for each in models):
            models.append(model)
        if len(models) == 1:
            means.append(attributions.double().mean(0, keepdim=True))
        [number] = [place for place, each in enumerate(models) if each is model]
        taken = means[min(number, len(means) - 1)]
        return torch.cosine_similarity(attributions.double().flatten(1), taken.flatten(1))


def test_a_metric_that_remembers_which_network_came_first_is_not_valid(env):
    report = metric_trial(Remembers(), env, 8, doses=CLEAN)
    assert report.verdict not in ("valid", "blind")  # blind is who is a function of its arguments
    assert min(report.trial.contrast.each) < 0 < max(report.trial.contrast.each)


def test_the_place_of_a_map_says_nothing_of_it(env):
    places = []

    @metric(higher_is_better=True, per_sample=True)
    def spy(model, images, targets, attributions, *, truth):
        right = ((attributions > 0) == truth).flatten(1).all(1)
        places.append(right.nonzero()[:, 0].tolist())
        return torch.cosine_similarity(attributions.flatten(1), truth.double().flatten(1))

    metric_trial(spy, env, 6, doses=CLEAN)
    first = [each[0] for each in places if each]
    # The own attributions before the own network, the twin's before the twin's.
    assert len(first) >= 12
    assert len(set(first)) > 3


@metric(higher_is_better=True, per_sample=True)
def largest_pixel(model, images, targets, attributions, *, replacement):
    """What the output loses with the pixel of the largest value, image by image."""
    losses = []
    for image, target, maps in zip(images, targets, attributions, strict=True):
        place = int(maps.sum(0).argmax())
        changed = image.clone().flatten(1)
        changed[:, place] = replacement.flatten(1)[:, place]
        pair = torch.stack([image, changed.view_as(image)])
        with torch.no_grad():
            outputs = model(pair)[:, target]
        losses.append(outputs[0] - outputs[1])
    return torch.stack(losses)


@pytest.mark.long
@pytest.mark.parametrize("size", [12, 24])
def test_a_metric_of_one_pixel_is_not_valid(size):
    place = al.load("multi-color-sum", image_size=size)
    report = metric_trial(largest_pixel, place, 8, doses=CLEAN)
    assert report.trial.contrast.mean.low > 0
    assert report.trial.agreement.low > 0
    assert report.trial.lead.control == "one-pixel"
    assert report.verdict == "not valid"


def test_a_metric_of_sizes_is_told_that_it_does_not_follow_signs(env):
    def of_sizes(model, images, targets, attributions, *, replacement):
        return insertion(model, images, targets, attributions.abs(), replacement=replacement)

    report = metric_trial(of_sizes, env, 2, doses=CLEAN, higher_is_better=True)
    assert report.verdict == "not valid"
    assert "it ignores signs" in report.sentence


# The check advises, the trial decides, and there is one report


def in_reading_order(model, images, targets, attributions, *, replacement):
    """Insertion by ranks, equal values as one reads, of float32 alone."""
    if images.dtype == torch.float64:
        raise TypeError("float32 only")
    order = attributions.flatten(1).argsort(dim=1, descending=True, stable=True)
    ranks = -order.argsort(1).view(attributions.shape).float()
    return insertion(model, images, targets, ranks, replacement=replacement)


@pytest.mark.long
def test_notes_stand_beside_the_verdict_of_the_trial(env, tmp_path):
    report = al.metric_test(in_reading_order, env, 6, doses=CLEAN, higher_is_better=True)
    assert report.verdict == "valid"
    notes = {row.id: row.found for row in report.checks.notes}
    assert "raised TypeError: float32 only" in notes["float64"]
    assert "relabelled-ties" in notes
    assert not report.checks.faults
    assert report.to_dict()["checks"] == report.checks.to_dict()
    assert str(report).startswith("in_reading_order: no fault (")
    report.to_html(tmp_path / "page.html")
    assert "float32 only" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_metric_with_an_error_is_faulty_and_not_tried(env):
    drawn = np.random.default_rng(0)

    def unseeded(attributions):
        return drawn.normal(size=len(attributions))

    report = al.metric_test(unseeded, env, 6, doses=CLEAN, higher_is_better=True)
    assert report.verdict == "faulty"
    assert report.sentence.startswith(
        "faulty: its code has an error, so there was no trial: repeatable"
    )
    assert report.trial is None
    assert report.to_dict()["checks"]["passed"] is False
    with pytest.raises(al.AttributionLabError, match=r"unseeded has no trial.*to_json"):
        report.to_html("page.html")


def test_what_cannot_be_sent_to_a_process_is_checked_in_this_one_at_the_size_of_the_trial(env):
    sides = set()

    class Unsendable:
        higher_is_better = True

        def __call__(self, attributions, *, truth):
            sides.add(attributions.shape[-1])
            return torch.cosine_similarity(attributions.flatten(1), truth.double().flatten(1))

        def __reduce__(self):
            raise TypeError("stays here")

    report = al.metric_test(Unsendable(), env, 2, doses=CLEAN)
    assert report.checks.time_limit is None
    assert sides == {8, 12}
    sides.clear()
    al.check_metric(Unsendable(), image_size=12, only=["one-number"], time_limit=None)
    assert sides == {12}
