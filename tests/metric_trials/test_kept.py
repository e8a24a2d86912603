"""The test of a metric on the store: stopped and continued, extended, in two processes."""

import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab.base import AttributionLabError, AttributionWarning, Stopped
from attributionlab.methods import as_method
from attributionlab.metrics import metric, parts_f1
from attributionlab.runs import Store
from attributionlab.runs.running import outcome_of
from attributionlab.verdicts import as_metric, metric_tests
from attributionlab.verdicts.metric_trials.conditions import conditions_of
from attributionlab.verdicts.metric_trials.panel import Asked, Panels
from attributionlab.verdicts.metric_trials.registry import METRICS
from attributionlab.verdicts.metric_trials.test import reports_of
from cases import loaded
from trials import metric_trial

DOSES = {"share": [0]}
asked = []
"""Seeds of the questions that `watched` was asked about, in their order."""
at_question = {}
"""What `watched` does at its k-th question: an exception, or a function."""


@metric(higher_is_better=True, per_sample=True)
def watched(model, images, targets, attributions, *, truth, seed):
    if seed not in asked:
        asked.append(seed)
    event = at_question.get(len(asked) - 1)
    if event is not None:
        event(model)
    return parts_f1(attributions, truth.char())["positive"] + model(images)[:, 0] * 1e-3


def stop(model):
    raise KeyboardInterrupt


def fail(model):
    raise ValueError("no such luck")


def change(model):
    next(model.parameters()).data.mul_(2)


@pytest.fixture(autouse=True)
def fresh():
    asked.clear()
    at_question.clear()


env = loaded("multi-color-sum", image_size=12)


@pytest.fixture(scope="module")
def undisturbed(env):
    at_question.clear()
    return {
        (n, one): metric_trial(watched, env, n, doses=DOSES, methods=["lrp"], one_network=one)
        for n in (2, 3)
        for one in (False, True)
    }


def same(one, other):
    """Whether two reports hold the same numbers, all of them."""
    pd.testing.assert_frame_equal(one.to_frame(), other.to_frame(), check_exact=True)
    pd.testing.assert_frame_equal(one.dose_frame(), other.dose_frame(), check_exact=True)
    return one.to_dict() == other.to_dict() and one.title == other.title


def rows(folder):
    with Store(folder, writable=False) as store:
        return list(store.rows("metric"))


@pytest.mark.long
@pytest.mark.parametrize("one_network", [False, True])
def test_a_stopped_test_reports_what_is_done_and_goes_on(env, undisturbed, tmp_path, one_network):
    def again():
        asked.clear()
        options = {"doses": DOSES, "methods": ["lrp"], "one_network": one_network}
        return metric_trial(watched, env, 3, out=tmp_path / "kept", **options)

    at_question[2] = stop
    with pytest.raises(Stopped, match="2 of 3 questions were done: watched undecided") as stopped:
        again()
    part = stopped.value.result
    assert part.n == 2
    assert part.title.endswith("stopped after 2 of 3 questions")
    assert part.notes[0].startswith("Stopped after 2 of 3 questions")
    two = undisturbed[2, one_network]
    pd.testing.assert_frame_equal(part.to_frame(), two.to_frame(), check_exact=True)
    assert part.doses == two.doses
    at_question.clear()
    assert same(again(), undisturbed[3, one_network])
    assert len(asked) == 1
    assert same(again(), undisturbed[3, one_network])
    assert not asked


@pytest.mark.long
def test_kept_panels_answer_for_any_number_of_questions(env, undisturbed):
    panels = Panels(env, 3, 0, "probability", ["lrp"], one_network=False, keep=True)
    for n in (2, 3):
        [found] = reports_of(Asked(panels, [as_metric(watched)], conditions_of(env, DOSES)), n)
        assert same(found, undisturbed[n, False])


@pytest.mark.long
def test_fewer_than_two_images_are_no_report(env, tmp_path):
    at_question[1] = stop
    with pytest.raises(Stopped, match=r"^1 of 3 questions were done$") as stopped:
        metric_trial(watched, env, 3, doses=DOSES, out=tmp_path / "kept")
    assert stopped.value.result is None
    assert [row.place["question"] for row in rows(tmp_path / "kept")] == [0]


@pytest.mark.long
@pytest.mark.parametrize("one_network", [False, True])
def test_more_images_are_computed_beside_those_that_are_there(
    env, undisturbed, tmp_path, one_network
):
    def of(n):
        asked.clear()
        options = {"doses": DOSES, "methods": ["lrp"], "one_network": one_network}
        return metric_trial(watched, env, n, out=tmp_path / "kept", **options)

    assert same(of(2), undisturbed[2, one_network])
    assert same(of(3), undisturbed[3, one_network])
    assert len(asked) == 1
    assert same(of(2), undisturbed[2, one_network])
    assert not asked


@pytest.mark.long
def test_neither_order_nor_gaps_change_what_is_known_of_a_question(env, undisturbed, monkeypatch):
    """Of several processes the last question may be done first."""

    def backward(cells, *_, **__):
        yield from ((cell, outcome_of(cell.compute)) for cell in reversed(cells[1:]))
        raise KeyboardInterrupt

    monkeypatch.setattr("attributionlab.runs.running.run_cells", backward)
    with pytest.raises(Stopped) as stopped:
        metric_trial(watched, env, 3, doses=DOSES, methods=["lrp"])
    whole = undisturbed[3, False].to_frame()
    pd.testing.assert_frame_equal(
        stopped.value.result.to_frame(),
        whole[whole.question > 0].reset_index(drop=True),
        check_exact=True,
    )


@pytest.mark.long
def test_the_first_failure_ends_the_work_and_is_kept(env, undisturbed, tmp_path):
    options = {"doses": DOSES, "methods": ["lrp"], "out": tmp_path / "kept"}
    at_question[1] = fail
    for _ in range(2):
        with pytest.raises(AttributionLabError, match="watched raised ValueError: no such luck"):
            metric_trial(watched, env, 3, **options)
    assert len(asked) == 2
    at_question.clear()
    assert same(metric_trial(watched, env, 3, retry_failed=True, **options), undisturbed[3, False])


@pytest.mark.long
def test_a_metric_that_changes_the_model_is_named_whenever_its_scores_are_used(env, tmp_path):
    at_question[0] = change
    for _ in range(2):
        with pytest.warns(AttributionWarning, match="watched changed weights .* restored"):
            metric_trial(watched, env, 2, doses=DOSES, out=tmp_path / "kept")
    assert len(asked) == 2


def keys(monkeypatch, **changes):
    """Keys of the cells of a test."""
    seen = []

    def nothing(cells, *_, **__):
        seen.extend(cells)
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("attributionlab.runs.running.run_cells", nothing)
    base = {"metrics": [as_metric("f1")], "env": "multi-color-sum-in-distribution", "n": 2}
    given = base | {"doses": DOSES} | changes
    if isinstance(given["env"], str):
        given["env"] = al.load(given["env"], image_size=12)
    with pytest.raises(Stopped):
        metric_tests(**given)
    return [cell.key for cell in seen]


def factor(by):
    def scaled(attributions):
        return attributions.sum((1, 2, 3)) * by

    return as_metric(scaled, True)


@pytest.mark.long
def test_a_cell_depends_on_all_that_its_answers_do_and_on_nothing_else(monkeypatch):
    def scores(attributions):
        return attributions.sum((1, 2, 3))

    def method(model, inputs, targets):
        return inputs

    def same_name(which):
        def method(model, inputs, targets):
            return inputs * which

        return method

    maps = torch.zeros(2, 1, 12, 12)
    different = [
        {},
        {"seed": 1},
        {"doses": {"share": [0, 0.5]}},
        {"doses": {"share": [1]}},
        {"output": "logit"},
        {"one_network": True},
        {"env": al.load("multi-color-sum-in-distribution", image_size=16)},
        {"env": "multi-color-sum-distractors"},
        {"metrics": [as_metric("road")]},
        {"metrics": [as_metric("f1"), as_metric("road")]},
        {"metrics": [as_metric(scores, True)]},
        {"metrics": [as_metric(scores, False)]},
        {"metrics": [factor(1)]},
        {"metrics": [factor(2)]},
        {"methods": ["lrp"]},
        {"methods": ["lrp-absolute"]},
        {"methods": [method]},
        {"methods": [same_name(1)]},
        {"methods": [same_name(2)]},
        {"methods": [maps]},
        {"methods": [maps + 1]},
    ]
    found = [keys(monkeypatch, **each) for each in different]
    assert len({key for each in found for key in each}) == 2 * len(different)
    for alike in ({"threshold": 0.1}, {"confidence": 0.9}, {"command": "x"}, {"jobs": 2}):
        assert keys(monkeypatch, **alike) == found[0]
    assert keys(monkeypatch, n=3)[:2] == found[0]
    assert keys(monkeypatch, methods=[maps], n=3)[:2] != found[-2]  # of which there are two
    assert keys(monkeypatch, metrics=[factor(1)]) == found[12]


FILE = """
import beside

def mine(model, images, targets, attributions):
    return (model(images)[:, 0] + attributions.sum((1, 2, 3))) * beside.FACTOR
"""


@pytest.mark.long
def test_two_processes_find_what_one_does_with_a_metric_of_a_file(env, tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "beside.py").write_text("FACTOR = 2")
    [one, two] = (
        metric_trial(
            as_method(f"{tmp_path / 'mine.py'}:mine", {}).function,
            *(env, 3),
            higher_is_better=True,
            doses=DOSES,
            jobs=jobs,
            out=tmp_path / f"kept {jobs}",
        )
        for jobs in (1, 2)
    )
    assert same(one, two)
    kept = [list(records(tmp_path / f"kept {jobs}")) for jobs in (1, 2)]
    assert kept[0] == kept[1]


def records(folder):
    with Store(folder, writable=False) as store:
        for row in store.rows("metric"):
            yield row.key, store.outcome(row.key).record


def test_the_title_of_work_for_many_metrics_names_some_and_the_key_has_all(env):
    def cell(names):
        panels = Panels(env, 1, 0, "probability", (), one_network=False)
        return Asked(panels, [as_metric(name) for name in names], []).cells(1)[0]

    names = list(METRICS)[:9]
    first, other = cell(names), cell([*names[:8], list(METRICS)[9]])
    assert first.place["metric"] == f"{', '.join(names[:6])}, 3 more" == other.place["metric"]
    assert first.key != other.key
    assert cell(names[:6]).place["metric"] == ", ".join(names[:6])
