"""The test of a metric in worlds from rules, where nothing is unseen and not every pixel is asked."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.cli import main as command
from attributionlab.metrics import metric, parts_f1
from attributionlab.verdicts import as_metric, metric_tests
from attributionlab.verdicts.metric_trials.agreement import f1_of_maps
from attributionlab.verdicts.metric_trials.case import Evaluation
from attributionlab.verdicts.metric_trials.panel import Panels, refuse_equal_twins
from attributionlab.worlds.truth import Truth
from trials import metric_trial

SIDE = 24
NAMES = ("insertion", "deletion", "foreground-share", "edge-share")


@pytest.fixture(scope="module")
def reports():
    env = al.load("quadrants", image_size=48)
    return {each.metric: each for each in metric_tests(list(map(as_metric, NAMES)), env, 6)}


@pytest.mark.long
@pytest.mark.parametrize("name", ["insertion", "deletion"])
def test_perturbation_ranks_as_the_truth_does_in_quadrants(reports, name):
    report = reports[name]
    assert report.verdict == "valid"
    assert report.doses == report.breaks() == []
    assert [row.what for row in report.headline().itertuples()] == [
        "agreement",
        "swap contrast",
        "lead over control",
    ]


@pytest.mark.long
@pytest.mark.parametrize("name", ["foreground-share", "edge-share"])
def test_who_never_looks_at_the_network_is_blind_in_quadrants(reports, name):
    assert reports[name].verdict == "blind"
    assert reports[name].trial.contrast.each.tolist() == [0] * 6


@pytest.mark.long
def test_a_report_says_that_nothing_is_unseen(reports, tmp_path):
    report, said = reports["insertion"], "quadrants has no unseen data, so no drop was measured."
    report.to_json(tmp_path / "report.json")
    report.to_html(tmp_path / "report.html")
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert document["has_unseen_data"] is False
    assert document["doses"] == document["summary"] == []
    for text in (
        *(str(report), document["sentence"], report.to_frame().attrs["sentence"]),
        *(report.figure().get_suptitle(), (tmp_path / "report.html").read_text(encoding="utf-8")),
    ):
        assert said in text
    assert not any("dose" in note for note in report.notes)
    elsewhere = metric_trial("sparsity", al.load("multi-color-sum", image_size=12), 2)
    assert elsewhere.doses == []  # it never sees the replacement, but others do
    assert "no unseen data" not in str(elsewhere)


@pytest.fixture(scope="module")
def objects():
    """A classification in which some pixels are too weak to be asked."""
    env = al.load("several-objects", image_size=SIDE)
    panels = Panels(env, 6, 0, "probability", ["saliency"], one_network=False)
    return panels, [panels[number] for number in range(6)]


@pytest.mark.long
def test_what_is_not_asked_counts_for_no_f1(objects):
    _, drawn = objects
    changed = 0
    for panel in drawn:
        case = panel.case
        noise = torch.randn(case.maps.shape, generator=torch.Generator().manual_seed(0))
        other = torch.where(case.truth.asked, case.maps, noise)
        changed += int((other != case.maps).sum())
        before, after = f1_of_maps(case.maps, case.truth), f1_of_maps(other, case.truth)
        assert all(np.array_equal(before[part], after[part], equal_nan=True) for part in before)
    assert changed


@pytest.mark.long
def test_graded_attributions_say_nothing_of_what_is_not_asked(objects):
    _, drawn = objects
    for panel in drawn:
        graded = [k for k, each in enumerate(panel.candidates) if each.family != "saliency"]
        assert not panel.case.maps[graded][:, ~panel.case.truth.asked[0]].any()
        exact = {part: f1[0] for part, f1 in f1_of_maps(panel.case.maps, panel.case.truth).items()}
        assert set(exact.values()) == {1.0}


@pytest.mark.long
def test_a_metric_that_is_given_the_truth_gets_maps_of_what_is_asked(objects):
    panel = objects[1][0]
    kept = []

    @metric(higher_is_better=True, per_sample=True)
    def seen(attributions, truth):
        kept.append(attributions)
        return parts_f1(attributions, truth.to(torch.int8))["positive"]

    as_metric(seen).scores(Evaluation(panel.case, panel.env.model, panel.case.image))
    assert not torch.cat(kept)[:, ~panel.case.truth.asked[0]].any()
    assert panel.case.maps[:, ~panel.case.truth.asked[0]].any()


def test_a_mixed_pixel_may_have_any_sign():
    truth = Truth(
        torch.tensor([[[[1, 0, 0, -1]]]], dtype=torch.int8),
        torch.tensor([[[[True, True, False, True]]]]),
    )
    maps = torch.tensor([[[[1.0, sign, 0.0, -1.0]]] for sign in (1, -1)])
    assert {part: f1.tolist() for part, f1 in f1_of_maps(maps, truth).items()} == {
        "overall": [1, 1],
        "positive": [1, 1],
        "negative": [1, 1],
    }
    env = al.world("2 * red - abs(blue - green)", image_size=SIDE)
    panel = Panels(env, 1, 0, "logit", [], one_network=False)[0]
    assert panel.case.truth.mixed.any()
    assert {
        f1[0] for f1 in f1_of_maps(panel.case.maps, panel.case.truth).values() if f1[0] == f1[0]
    } == {1}


@pytest.mark.long
def test_one_process_or_two_give_the_same_report():
    env = al.load("all-four", image_size=SIDE)
    one, two = (metric_trial("ids", env, 3, jobs=jobs) for jobs in (1, 2))
    assert one.to_dict() == two.to_dict()


@pytest.mark.long
def test_values_are_the_exact_shapley_values_of_each_network(objects):
    panels, drawn = objects
    for number, panel in enumerate(drawn):
        question = panels.questions[number]
        values = question.env.shapley(question.image, question.target, "probability")
        assert torch.equal(panel.case.values, values[None].float())


@pytest.mark.long
def test_estimated_values_are_said_to_be_estimates(monkeypatch):
    env = al.load("all-four", image_size=SIDE)
    found = al.Environment.truths
    monkeypatch.setattr(
        al.Environment,
        "truths",
        lambda *given: {"shapley": replace(found(*given)["shapley"], source="estimate")},
    )
    with pytest.warns(al.AttributionWarning, match="Shapley values of all-four.*are estimates"):
        metric_trial("cosine", env, 2)


def test_twins_in_a_world_have_other_truths():
    questions = al.Questions(al.load("quadrants", image_size=SIDE), 0)
    refuse_equal_twins(questions[0], questions.twin(0))
    with pytest.raises(AttributionLabError, match=r"count the same pixels.*@.*Questions\.twin"):
        refuse_equal_twins(questions[0], questions[0])


ASYMMETRIC = partial(
    al.world, items=["red@left:0.05", "blue@right:0.1", "green@top:0.02"], image_size=SIDE
)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (lambda: al.load("parity", image_size=SIDE), "in no other role of its rule"),
        (lambda: ASYMMETRIC("red - blue"), "in no other role of its rule"),
        (lambda: al.load("single-color-modulo", image_size=SIDE), "single kind of pixels"),
    ],
)
def test_worlds_in_which_nothing_can_be_decided_are_refused(env, said):
    with pytest.raises(AttributionLabError, match=said):
        metric_trial("insertion", env(), 2)


def test_in_one_network_nothing_is_decided():
    env = al.load("quadrants", image_size=SIDE)
    report = metric_trial("insertion", env, 2, one_network=True)
    assert report.sentence.startswith("undecided: not decisive: ")
    assert report.trial.contrast is None


@pytest.mark.long
def test_the_command_tests_a_metric_in_a_world(capsys, unchecked):
    words = ["metric", "sparsity", "--env", "all-four", "--n", "2", "--image-size", "24"]
    assert command([*words, "--dose", "share=0", "--jobs", "1"]) == 2
    assert "leave doses out" in capsys.readouterr().err
    assert command([*words, "--jobs", "1"]) == 1
    shown = capsys.readouterr().out
    assert "all-four has no unseen data, so no drop was measured." in shown
    assert "By dose" not in shown


# Random worlds


def test_the_panels_of_random_worlds_are_those_of_their_worlds():
    env = al.load("random:2:easy:3", image_size=SIDE)
    panels = Panels(env, 4, 0, "logit", ["saliency"], one_network=False)
    for number in (1, 2):
        own = Panels(env.worlds[number % 2], 4, 0, "logit", ["saliency"], one_network=False)[number]
        assert torch.equal(panels[number].case.maps, own.case.maps)
        assert torch.equal(panels[number].others.maps, own.others.maps)
        assert panels[number].env.rule == own.env.rule


@pytest.mark.long
def test_a_metric_is_tried_in_random_worlds(capsys, unchecked):
    words = ["metric", "sparsity", "--env", "random:2:easy:3", "--n", "2", "--image-size", "24"]
    assert command([*words, "--jobs", "2"]) == 1
    shown = capsys.readouterr().out
    assert "sparsity" in shown
    assert "random:2:easy:3 has no unseen data, so no drop was measured." in shown
    assert command([*words, "--dose", "share=0"]) == 2
    assert "leave doses out" in capsys.readouterr().err
