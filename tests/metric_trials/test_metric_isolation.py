"""A user's metric is called in a process of its own: what it finds there, and what it cannot do."""

import json
import os
import textwrap

import psutil
import pytest
import torch

import attributionlab as al
from attributionlab.base import located
from attributionlab.cli import main
from attributionlab.verdicts import as_metric, own_process
from attributionlab.verdicts.metric_trials import isolation
from cases import loaded
from trials import metric_trial

pytestmark = pytest.mark.isolated

CLEAN = {"share": [0]}
env = loaded("multi-color-sum-distractors", image_size=12)


@pytest.fixture
def metric(tmp_path):
    """A metric of a file, from its text."""

    def of(text, name="metric"):
        path = tmp_path / "mine.py"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return located(f"{path}:{name}", {})

    return of


def children():
    return {each.pid for each in psutil.Process().children(recursive=True)}


RIGHT = """
    import warnings
    import torch
    from attributionlab import AttributionWarning
    from attributionlab.metrics import insertion

    def metric(model, images, targets, attributions, *, replacement, seed):
        warnings.warn("some pixels were left out", AttributionWarning)
        torch.manual_seed(seed)
        model.bias = torch.nn.Parameter(torch.ones(1))
        found = insertion(model, images, targets, attributions, replacement=replacement)
        return found.numpy() + 0 * torch.rand(len(images)).numpy()

    metric.higher_is_better = True
"""


@pytest.mark.long
def test_a_metric_that_runs_alone_has_the_same_scores_and_warnings(metric, env):
    scorer, found, texts = metric(RIGHT), [], []
    for isolated in (True, False):
        with pytest.warns(al.AttributionWarning) as caught:
            report = metric_trial(scorer, env, 2, doses=CLEAN, isolated=isolated)
        found.append((report.trial, report.doses, report.sentence))
        texts.append(sorted({str(each.message) for each in caught}))
    assert repr(found[0]) == repr(found[1])
    assert texts[0] == texts[1]
    assert [("changed weights" in text, "left out" in text) for text in texts[0]] == [
        (True, False),
        (False, True),
    ]


WATCHED = """
    import gc, json, os, sys

    def metric(model, images, targets, attributions, *, replacement):
        frames, frame = [], sys._getframe()
        while frame:
            frames += [type(each).__name__ for each in frame.f_locals.values()]
            frame = frame.f_back
        kinds = sorted({type(each).__name__ for each in gc.get_objects()} | set(frames))
        with open(PATH, "a") as file:
            file.write(json.dumps([os.getpid(), kinds]) + chr(10))
        return attributions.sum((1, 2, 3))

    metric.higher_is_better = True
"""


def test_one_process_has_neither_truth_nor_candidates_and_none_is_left(metric, env, tmp_path):
    told, before = tmp_path / "told.json", children()
    scorer = metric(WATCHED.replace("PATH", repr(str(told))))
    metric_trial(scorer, env, 2, doses=CLEAN)
    calls = [json.loads(line) for line in told.read_text().splitlines()]
    assert len({pid for pid, _ in calls} | {os.getpid()}) == 2
    for _, kinds in calls:
        assert {"_Score", "Conv2d"} <= set(kinds)  # it looked at the right place
        hidden = {"Truth", "Case", "Evaluation", "Panel", "Candidate", "Question", "Environment"}
        assert not hidden & set(kinds)
    assert children() == before


PEEKING = """
    import sys
    from attributionlab.metrics import parts_f1

    def metric(model, images, targets, attributions):
        frame = sys._getframe()
        while frame:
            case = frame.f_locals.get("case")
            if hasattr(case, "truth"):
                signed, mixed = (
                    each.expand(len(images), -1, -1, -1)
                    for each in (case.truth.signed, case.truth.mixed)
                )
                f1 = parts_f1(attributions * case.truth.asked, signed, mixed)
                return f1["overall"].minimum(f1["positive"]).minimum(f1["negative"])
            frame = frame.f_back
        return attributions.abs().amax((1, 2, 3)) + attributions[:, 0, 0, 0]

    metric.higher_is_better = True
"""


@pytest.mark.long
def test_a_metric_that_looks_for_the_truth_in_its_callers_finds_none(metric, env):
    scorer = metric(PEEKING)
    inside = metric_trial(scorer, env, 6, doses=CLEAN, isolated=False)
    assert inside.verdict == "valid"  # what isolation is for
    assert metric_trial(scorer, env, 6, doses=CLEAN).verdict != "valid"


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "said"),
    {
        "ctypes.CDLL(None)._exit(0)": "exit status 0.*isolated=False",
        "os.kill(os.getpid(), 9)": "signal SIGKILL.*isolated=False",
        "os.close(1) or 1 / 0": "metric raised ZeroDivisionError.*mine.py",
        "sys.exit(0)": "SystemExit",
        "attributions[:1, 0, 0, 0]": r"shape \(1,\) for \d+",
        "attributions.sum((1, 2, 3)) * float('inf')": "nan|inf",
    }.items(),
)
def test_what_ends_or_fails_is_refused_in_one_line(body, said, metric, env, capfd):
    scorer = metric(
        f"""
        import ctypes, os, sys
        def metric(attributions):
            print("valid")
            os.write(1, b"valid")
            return {body}
        metric.higher_is_better = True
        """
    )
    with pytest.raises(al.AttributionLabError, match=said) as caught:
        metric_trial(scorer, env, 2, doses=CLEAN)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().out == ""


@pytest.mark.long
def test_what_is_patched_there_stays_there(metric, env):
    before = torch.Tensor.abs, al.metrics.insertion, isolation.checked_scores
    scorer = metric(
        """
        def metric(attributions):
            import torch
            import attributionlab.metrics
            import attributionlab.verdicts.metric_trials.isolation as isolation
            isolation.checked_scores = lambda scores, *_: scores.numpy()
            torch.Tensor.abs = None
            torch.set_default_dtype(torch.float64)
            return attributions.sum((1, 2, 3))
        metric.higher_is_better = True
        """
    )
    metric_trial(scorer, env, 2, doses=CLEAN)
    assert (torch.Tensor.abs, al.metrics.insertion, isolation.checked_scores) == before
    assert torch.get_default_dtype() == torch.float32


def test_what_cannot_be_sent_is_refused_with_the_remedy(env):
    class Unsendable:
        higher_is_better = True

        def __call__(self, attributions):
            return attributions.sum((1, 2, 3))

        def __reduce__(self):
            raise TypeError("stays here")

    with pytest.raises(al.AttributionLabError, match=r"Unsendable cannot be sent.*isolated=False"):
        metric_trial(Unsendable(), env, 2, doses=CLEAN)
    metric_trial(Unsendable(), env, 2, doses=CLEAN, isolated=False)


def test_what_the_laboratory_brings_starts_no_process(env, monkeypatch):
    monkeypatch.setattr(own_process, "Process", None)
    for metric in ("insertion", "foreground-share", al.metrics.sparseness):
        assert not isolation.is_users(as_metric(metric))
        metric_trial(metric, env, 2, doses=CLEAN)


@pytest.mark.long
def test_metrics_are_ranked_in_processes_of_their_own(metric, tmp_path):
    told = tmp_path / "told.json"
    scorer = metric(WATCHED.replace("PATH", repr(str(told))))
    board = al.rank_metrics([scorer], "all-four", 2, image_size=12)
    assert board.to_frame()["metric"].tolist() == ["metric"]
    pids = {json.loads(line)[0] for line in told.read_text().splitlines()}
    assert len(pids) == 1
    assert os.getpid() not in pids


@pytest.mark.long
def test_the_command_line_calls_it_in_a_process_of_its_own(metric, tmp_path):
    told = tmp_path / "told.json"
    metric(WATCHED.replace("PATH", repr(str(told))))
    command = ["metric", f"{tmp_path / 'mine.py'}:metric", "--n", "2", "--image-size", "12"]
    for options, inside in (([], False), (["--no-isolation"], True)):
        told.unlink(missing_ok=True)
        main([*command, *options])
        # The check of the code has workers of its own, whatever is asked.
        pids = {json.loads(line)[0] for line in told.read_text().splitlines()}
        assert (os.getpid() in pids) == inside
