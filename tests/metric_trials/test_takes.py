"""What a metric is handed is what it declares, and one that applies a softmax itself is found out."""

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError, check_metric
from attributionlab.metrics import insertion, metric
from attributionlab.verdicts.metric_trials.run import metric_trial

CLEAN = {"share": [0]}


@pytest.fixture(scope="module")
def env():
    return al.load("multi-color-sum", image_size=12)


def plain(model, images, targets, attributions, *, replacement):
    return insertion(model, images, targets, attributions, replacement=replacement)


def with_softmax(model, images, targets, attributions, *, replacement):
    of_softmax = torch.nn.Sequential(model, torch.nn.Softmax(1)).eval()
    return insertion(of_softmax, images, targets, attributions, replacement=replacement)


def margin(model, images, targets, attributions, *, replacement):
    outputs = model(images)
    return (attributions * images).sum((1, 2, 3)) + outputs[:, 0] - outputs[:, 1]


@pytest.mark.long
def test_a_metric_with_a_softmax_of_its_own_that_takes_logits_sees_what_is_explained(env):
    right = metric_trial(plain, env, 2, doses=CLEAN, higher_is_better=True)
    own = metric_trial(with_softmax, env, 2, doses=CLEAN, higher_is_better=True, takes="logits")
    twice = metric_trial(with_softmax, env, 2, doses=CLEAN, higher_is_better=True)
    scores = [each.trial.attributions.score.to_numpy() for each in (right, own, twice)]
    # Means of 145 probabilities in float32, each off by some 2^-24.
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)
    assert np.abs(scores[0] - scores[2]).max() > 0.05
    assert "handed logits" in own.title
    assert (own.to_dict()["takes"], right.to_dict()["takes"]) == ("logits", None)


def test_what_is_declared_is_handed(env):
    seen = []

    @metric(higher_is_better=True, per_sample=True, takes="logits")
    def spy(model, images, targets, attributions):
        seen.append(model(images[:1]).detach())
        return attributions.sum((1, 2, 3))

    metric_trial(spy, env, 2, doses=CLEAN)
    totals = torch.cat(seen).sum(1)
    assert (totals - 1).abs().min() > 1e-3  # no probabilities
    seen.clear()
    spy.takes = "probabilities"
    metric_trial(spy, env, 2, doses=CLEAN)
    torch.testing.assert_close(torch.cat(seen).sum(1), torch.ones(len(seen)))
    with pytest.raises(AttributionLabError, match="spy takes probabilities, and output is 'logit'"):
        metric_trial(spy, env, 2, doses=CLEAN, output="logit")


@pytest.mark.parametrize(
    ("function", "takes", "status", "said"),
    [
        (with_softmax, None, "note", "it applies a softmax itself"),
        (with_softmax, "probabilities", "note", 'declare takes="logits"'),
        (with_softmax, "logits", "pass", "it applies a softmax"),
        (margin, None, "note", "or compares classes"),
        (plain, None, "pass", "other scores"),
        (plain, "logits", "pass", "its truth is that of the logits"),
    ],
)
def test_a_softmax_of_its_own_is_found_by_calling_it_with_both(function, takes, status, said):
    [row] = check_metric(
        function, higher_is_better=True, takes=takes, only=["own-softmax"], time_limit=None
    ).checks
    assert row.status == status
    assert said in row.found


def test_other_words_are_refused(env):
    with pytest.raises(AttributionLabError, match=r"takes is 'logit': take .*'logits'"):
        metric_trial(plain, env, 2, higher_is_better=True, takes="logit")
    with pytest.raises(AttributionLabError, match="insertion is handed what is explained"):
        metric_trial("insertion", env, 2, takes="logits")
