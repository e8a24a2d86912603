"""Cards are made of checks and trials, many of them on one store."""

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.base import Stopped
from attributionlab.verdicts import metric_cards
from attributionlab.verdicts.metric_trials import check as check_module
from attributionlab.verdicts.metric_trials import test
from attributionlab.verdicts.metric_trials.check import checked
from attributionlab.verdicts.metric_trials.words import NUMBERS
from cases import loaded

NAMES = ["precision", "random-logit", "recall"]
SMALL = {"n": 2, "seed": 1, "doses": {"share": [0, 1]}}
env = loaded("multi-color-sum", image_size=12)


@pytest.fixture(autouse=True, scope="module")
def few_checks():
    """Three checks in this process."""

    def check(metric, side, seed, *given, **options):
        only = ["one-number"] + ["sign", "added"] * (metric.name != "random-logit")
        return checked(metric, side, seed, only=only)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check_module, "checked", check)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cards")


@pytest.fixture(scope="module")
def cards(env, folder, few_checks):
    return metric_cards(NAMES, env, out=folder, **SMALL)


@pytest.mark.long
def test_shared_trials_are_those_of_each_metric_alone(cards, env):
    [alone] = metric_cards(["recall"], env, **SMALL).cards
    assert alone.tables().keys() == cards.cards[2].tables().keys()
    for name, table in alone.tables().items():
        assert table.equals(cards.cards[2].tables()[name])
    assert alone.sentences == cards.cards[2].sentences


@pytest.mark.long
def test_every_named_metric_has_its_row_in_their_order(cards):
    table = cards.to_frame()
    assert table["metric"].tolist() == NAMES
    assert table["verdict"].tolist() == ["undecided", "", "undecided"]  # of two questions
    assert np.isnan(table["agreement"]).tolist() == [False, True, False]
    assert table["faults"].tolist() == [0, 0, 0]
    assert "missing" in table["cannot_see"][0]
    assert "added" in table["cannot_see"][2]


@pytest.mark.long
def test_what_is_there_is_not_computed_again(cards, env, folder, monkeypatch):
    def never(*_, **__):
        raise AssertionError("computed again")

    monkeypatch.setattr(check_module, "checked", never)
    monkeypatch.setattr("attributionlab.verdicts.metric_trials.panel._scored", never)
    again = metric_cards(NAMES, env, out=folder, **SMALL)
    assert again.to_frame().equals(cards.to_frame())


@pytest.mark.long
def test_a_stop_in_the_checks_has_no_result_and_later_one_has_what_is_done(
    env, tmp_path, monkeypatch
):
    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopping:
        stopping.setattr(check_module, "checked", stop)
        with pytest.raises(Stopped, match="0 of 3 metrics were checked") as stopped:
            metric_cards(NAMES, env, out=tmp_path, **SMALL)
        assert stopped.value.result is None
    trials = test.reports_of

    def half(*arguments, **options):
        reports = trials(*arguments, **options)
        raise Stopped("2 of 9 images were done: and more", reports)

    monkeypatch.setattr(test, "reports_of", half)
    with pytest.raises(Stopped, match=r"^2 of 9 images were done$") as stopped:
        metric_cards(NAMES, env, out=tmp_path, **SMALL)
    assert len(stopped.value.result.cards) == 3


@al.metrics.metric(higher_is_better=True, per_sample=True, maps="unit")
def index(attributions, *, truth):
    raise AssertionError


@al.metrics.metric(higher_is_better=True, per_sample=True, maps="unit")
def alone(attributions, *, truth):
    return (attributions * truth).sum((1, 2, 3)) / truth.sum((1, 2, 3))


@pytest.mark.long
def test_a_function_has_the_trial_of_the_built_in_metric_that_it_repeats(env):
    names = ["soundness", alone, "recall"]
    short, mine, ours = metric_cards(names, env, n=2, seed=1, doses={"share": [0]}).cards
    assert short.name == "soundness"
    assert (mine.name, mine.facts) == ("alone", None)
    assert mine.check.metric == "alone"
    assert_frame_equal(mine.tables()[NUMBERS], ours.tables()[NUMBERS])


def test_metrics_that_judge_methods_need_no_trial(env, monkeypatch):
    monkeypatch.delattr(test, "reports_of")
    [card] = metric_cards(["random-logit"], env, **SMALL).cards
    assert card.check.passed
    assert card.not_examined.startswith("its code was checked, but there was no trial: it lets a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metrics": ["recal"]}, "no metric named 'recal': did you mean 'recall'?"),
        ({"metrics": []}, r"metrics are \[\]: name at least one, in a list"),
        ({"metrics": "f1"}, "metrics are 'f1': name at least one, in a list"),
        ({"metrics": 5}, "metrics are 5: name at least one, in a list"),
        ({"metrics": ["f1", index]}, "'index', the page of all cards: rename it"),
        ({"metrics": ["f1"], "env": ["parity", "parity"]}, "env is .*: take one environment"),
        ({"metrics": ["recall", "recall"]}, "metrics name 'recall' twice: name each once"),
        ({"metrics": [alone, "f1", alone]}, "metrics name 'alone' twice: name each once"),
        ({"metrics": ["recal"], "seed": -1}, "seed is -1.*; no metric named 'recal'"),
    ],
    ids=[
        *("unknown", "empty", "text", "number", "index", "two-environments"),
        *("twice", "function-twice", "both"),
    ],
)
def test_impossible_cards_are_refused(arguments, message):
    with pytest.raises(AttributionLabError, match=message):
        metric_cards(**arguments)
