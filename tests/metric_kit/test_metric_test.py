"""The test of a metric from Python: the checks advise, the trial decides, and there is one report."""

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.metrics import insertion

CLEAN = {"share": [0]}


@pytest.fixture(scope="module")
def env():
    return al.load("multi-color-sum", image_size=12)


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
    document = report.to_dict()
    assert document["checks"] == report.checks.to_dict()
    assert str(report).startswith("in_reading_order: no fault (")
    report.to_html(tmp_path / "page.html")
    assert "float32 only" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_metric_with_an_error_is_faulty_and_not_tried(env):
    drawn = np.random.default_rng(0)

    def draws(images, attributions):
        raise AssertionError

    def unseeded(attributions):
        return drawn.normal(size=len(attributions))

    report = al.metric_test(unseeded, env, 6, doses=CLEAN, higher_is_better=True)
    assert report.verdict == "faulty"
    assert report.sentence.startswith(
        "faulty: its code has an error, so it was not tried: repeatable"
    )
    assert report.trial is None
    assert report.to_dict()["checks"]["passed"] is False
    with pytest.raises(AttributionLabError, match="draws takes"):
        al.metric_test(draws, env, 6, doses=CLEAN, higher_is_better=True)


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


def test_what_the_trial_refuses_is_refused_before_the_checks(env, monkeypatch):
    monkeypatch.setattr("attributionlab.verdicts.metric_kit.testing.check_metric", None)
    with pytest.raises(AttributionLabError, match="n is 1"):
        al.metric_test(in_reading_order, env, 1, higher_is_better=True)
    with pytest.raises(AttributionLabError, match="no axis named 'shares'"):
        al.metric_test(in_reading_order, env, 2, doses={"shares": [0]}, higher_is_better=True)
