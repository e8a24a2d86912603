"""Unseen data and attribution methods: scores by dose, and what a method shows the network."""

import math

import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab import cli
from attributionlab.verdicts.unseen import queries_of
from refusals import refused

NODES = pytest.mark.filterwarnings("ignore:.*do not sum to the change")
SMALL = {"n": 2, "image_size": 24, "jobs": 1}


def shown_black(times, others=0):
    """A method that shows the network black images, and the image itself."""

    def method(model, inputs, targets):
        with torch.no_grad():
            for _ in range(times):
                model(torch.zeros_like(inputs))
            for _ in range(others):
                model(inputs)
        return inputs

    return method


@pytest.mark.parametrize(
    ("times", "others", "share"), [(1, 1, 1 / 2), (3, 0, 1.0), (0, 2, 0.0), (1, 3, 1 / 4)]
)
def test_queries_are_counted_by_the_colors_that_they_have(times, others, share):
    env = al.load("multi-color-sum-distractors", image_size=16)
    found = queries_of(shown_black(times, others), env)
    known = set(map(tuple, env.batch(1)[0][0].flatten(1).T.tolist()))
    assert (0.0, 0.0, 0.0) not in known  # so that black is unseen
    assert found.images == times + others
    assert found.share == pytest.approx(share)
    assert found.pixels == found.share  # all pixels of a black image


def test_one_pixel_of_another_value_is_unseen():
    env = al.load("multi-color-sum", image_size=16)

    def method(model, inputs, targets):
        changed = inputs.clone()
        changed[:, 0, 3, 4] += 0.5
        with torch.no_grad():
            model(changed)
        return inputs

    found = queries_of(method, env)
    assert found.share * found.images == pytest.approx(1)
    assert found.pixels * found.images == pytest.approx(1 / 256)


def test_the_pass_that_checks_a_gradient_for_kinks_is_no_query_of_the_method():
    env = al.load("multi-color-sum", image_size=16)
    assert queries_of("saliency", env).images == 1


def test_a_method_that_never_asks_has_no_queries():
    env = al.load("multi-color-sum", image_size=16)
    assert queries_of("sobel", env) is None  # a control, of the image alone


@pytest.mark.long
@NODES
def test_a_path_from_black_fails_from_the_smallest_dose_on_and_ablation_never():
    doses = {"strength": [0, 0.25, 4], "channels": [0, 2]}
    found = al.unseen_test("integrated-gradients", doses=doses, **SMALL)
    assert found.doses.axis.tolist() == ["strength"] * 3 + ["channels"] * 2
    assert found.doses.solved.tolist() == [2, 0, 0, 2, 0]
    assert found.queries.share > 0.9
    still = al.unseen_test("feature-ablation-true-baseline", doses=doses, **SMALL)
    assert still.doses.solved.tolist() == [2] * 5
    assert still.queries.share == 0
    assert "0 of 2" in repr(found)
    assert "96% of" in found.sentence
    assert found.figure().axes[0].get_title() == "largest weight of a redundant channel"


@pytest.mark.long
@NODES
def test_the_doses_are_those_of_the_environment_where_it_states_them():
    env = al.load("multi-color-sum", image_size=24, redundant_strength=4)
    one = al.unseen_test("integrated-gradients", env, {"strength": [1]}, n=2, jobs=1)
    plain = al.load("multi-color-sum", image_size=24, redundant_strength=1)
    by_hand = al.compare(["integrated-gradients"], plain, n=2, jobs=1).results[0][1]
    assert one.doses.f1.tolist() == [by_hand.claim_f1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"doses": {"share": [1]}}, "'share' ... chooses its own ... strength or channels"),
        ({"doses": {"strenght": [1]}}, "'strenght' ... did you mean 'strength'"),
        ({"env": "quadrants"}, "quadrants ... no redundant channels ... take multi-color-sum"),
        ({"doses": {"channels": [0.5]}}, "channels is 0.5 ... integer"),
        ({"doses": {"strength": [math.nan]}}, "strength is nan"),
        ({"doses": {}}, "doses ... {}"),
        ({"doses": {"strength": []}}, "doses ... []"),
        ({"doses": [1]}, "doses ... [1]"),
        ({"method": "salency"}, "'salency' ... saliency"),
    ],
)
def test_what_cannot_be_asked_is_refused(wrong, said):
    refused(al.unseen_test, {"method": "saliency", **SMALL}, wrong, said)


@pytest.mark.parametrize(
    ("name", "function"), [("saliency", "unseen_test"), ("cosine", "metric_test")]
)
def test_without_n_the_function_says_how_many_questions(name, function, monkeypatch):
    given = {}

    def asked(_, **named):
        given.update(named)
        raise al.AttributionLabError("asked")

    monkeypatch.setattr(f"attributionlab.verdicts.{function}", asked)
    assert cli.main(["unseen", name, "--image-size", "16"]) == 2
    assert given["seed"] == 0
    assert "n" not in given


@pytest.mark.long
def test_the_command_asks_a_method_and_a_metric(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import attributionlab as al\n"
        "def method(model, inputs, targets):\n    return inputs\n"
        "@al.metrics.metric(higher_is_better=True, per_sample=True)\n"
        "def metric(model, images, targets, attributions):\n"
        "    return model(images * (attributions > 0)).gather(1, targets[:, None])[:, 0]\n"
        "@al.metrics.metric(higher_is_better=True, per_sample=True)\n"
        "def faulty(model, images, targets, attributions):\n    raise ValueError('no')\n"
    )
    words = ["--dose", "strength=0,4", "--n", "2", "--image-size", "16", "--jobs", "1"]
    for name, column in (("mine.py:method", "solved"), ("mine.py:metric", "correlation")):
        files = ["--csv", "t.csv", "--figure", "f.png"]
        assert cli.main(["unseen", name, *words, *files]) == 0, capsys.readouterr().err
        table = pd.read_csv("t.csv")
        assert sorted({*table.dose}) == [0, 4]
        assert column in table
        assert "strength" in capsys.readouterr().out
        (tmp_path / "t.csv").unlink()
        (tmp_path / "f.png").unlink()
    assert cli.main(["unseen", "insertion", *words, "--set", "a=1"]) == 2
    assert cli.main(["unseen", "mine.py:faulty", *words, "--figure", "f.png"]) == 2
    assert "mine.py:faulty has no result at any dose" in capsys.readouterr().err
    assert not (tmp_path / "f.png").exists()
