"""Names of random worlds: what they mean, what is asked in them, and what one of many cannot give."""

import json
import pickle

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.cli import main as command
from attributionlab.worlds import FEATURES, load_call
from attributionlab.worlds.environment import world_set
from cases import loaded

pytestmark = pytest.mark.filterwarnings("ignore::attributionlab.base.errors.AttributionWarning")

SIDE = 24
NAME = "random:3:easy:3"
env = loaded(NAME, image_size=SIDE)


@pytest.fixture(scope="module")
def report(env):
    return al.faithfulness_test("saliency", env, n=14, also=None)


@pytest.mark.parametrize(
    ("name", "n", "difficulty", "seed"),
    [
        ("random", 20, "medium", 0),
        ("random:7", 7, "medium", 0),
        ("random:7:hard", 7, "hard", 0),
        ("random:7:hard:12", 7, "hard", 12),
        ("random:7::12", 7, "medium", 12),
        ("random::easy", 20, "easy", 0),
    ],
)
def test_parts_that_are_left_out_have_defaults_and_nothing_is_drawn_yet(
    monkeypatch, name, n, difficulty, seed
):
    monkeypatch.setattr(world_set, "random_worlds", None)
    env = al.load(name)
    assert env.drawn_by == (n, seed, difficulty, 48)
    assert env.name == f"random:{n}:{difficulty}:{seed}"


def test_a_fresh_seed_is_drawn_and_stands_in_the_name():
    one, other = (al.load("random:5:easy:fresh") for _ in range(2))
    assert one.name != other.name
    assert al.load(one.name).drawn_by == one.drawn_by


def test_one_world_is_that_world():
    env = al.load("random:1:easy:3", image_size=SIDE)
    [world] = al.random_worlds(1, 3, "easy", SIDE)
    assert env.worlds == [env]
    assert env.spec == world.spec
    assert env.name == "random:1:easy:3"
    again = eval(load_call(env), {"attributionlab": al})
    assert torch.equal(again.batch(1)[0], world.batch(1)[0])


def test_questions_are_those_of_the_worlds_in_turn(env):
    drawn = al.random_worlds(3, 3, "easy", SIDE)
    assert [each.spec for each in env.worlds] == [each.spec for each in drawn]
    questions = al.Questions(env, 5)
    for index in (0, 1, 5):
        own = al.Questions(drawn[index % 3], 5)
        for found, wanted in (
            (questions[index], own[index]),
            (questions.twin(index), own.twin(index)),
        ):
            assert torch.equal(found.image, wanted.image)
            assert (found.env.rule, found.env.name) == (wanted.env.rule, wanted.env.name)
        images = questions.reference_images(questions[index], 2)
        assert torch.equal(images, own.reference_images(own[index], 2))


def test_what_every_world_hides_is_hidden_with_the_fewest_alternatives(monkeypatch):
    stated = {"roles": 3, "place": 4, "color": 5}, {"roles": 6, "color": 2}
    worlds = [al.world("red - blue", SIDE, hidden={**each, "overall": each}) for each in stated]
    monkeypatch.setattr(world_set, "random_worlds", lambda *_: worlds)
    env = al.load("random:2", image_size=SIDE)
    assert env.hidden() == env.hidden("overall") == {"roles": 3, "color": 2}


def test_the_specification_is_that_of_the_worlds(env):
    assert al.load(NAME, image_size=SIDE).spec.digest == env.spec.digest
    assert al.load("random:3:easy:4", image_size=SIDE).spec.digest != env.spec.digest
    assert al.load(NAME, image_size=SIDE + 1).spec.digest != env.spec.digest
    summary = env.summary()
    for each in env.worlds:
        assert f"{each.rule} ({', '.join(each.features)})" in summary


def test_it_goes_to_another_process_with_its_worlds(env, monkeypatch):
    sent = pickle.dumps(env)
    monkeypatch.setattr(world_set, "random_worlds", None)
    again = pickle.loads(sent)
    assert again.spec == env.spec
    assert [each.features for each in again.worlds] == [each.features for each in env.worlds]


@pytest.mark.parametrize(
    "ask",
    [
        lambda env: env.model,
        lambda env: env.batch(1),
        lambda env: env.camouflaged(1),
        lambda env: env.truth(torch.zeros(1, 3, SIDE, SIDE), torch.zeros(1, dtype=torch.int64)),
        lambda env: al.faithfulness_test("random", env, n=13, one_network=True),
        lambda env: al.attribute(
            "random", env, torch.zeros(1, 3, SIDE, SIDE), torch.zeros(1, dtype=torch.int64)
        ),
    ],
)
def test_what_one_world_has_is_refused_with_the_remedy(env, ask):
    with pytest.raises(
        al.AttributionLabError, match=r"is 3 worlds, each .* random:1:easy:3, .* worlds"
    ):
        ask(env)


# The test of methods


@pytest.mark.long
def test_each_question_is_scored_as_in_its_world_alone(env, report):
    [result] = report.environments
    for place, world in enumerate(env.worlds):
        own = al.faithfulness_test("saliency", world, n=14, also=None).environments[0]
        assert result.lowest[place::3].tolist() == own.lowest[place::3].tolist()


def test_the_count_is_over_all_worlds_and_by_world_and_feature(env, report):
    [result] = report.environments
    counted = [(each.solved, each.asked) for each in result.worlds]
    assert tuple(np.sum(counted, 0)) == result.count
    assert [asked for _, asked in counted] == [5, 5, 4]
    assert 0 < result.count.solved < 14
    document = report.to_dict()["environments"][0]
    assert json.loads(json.dumps(document["worlds"])) == document["worlds"]
    assert [*document["by_feature"]] == [*FEATURES]
    for feature, sides in document["by_feature"].items():
        asked = [feature in each.features for each in env.worlds]
        for side, there in (("with", True), ("without", False)):
            chosen = [count for count, has in zip(counted, asked, strict=True) if has is there]
            assert [*sides[side].values()] == np.sum([(0, 0), *chosen], 0).tolist()
    with_place = document["by_feature"]["place"]["with"]
    said = f"place: {with_place['solved']} of {with_place['asked']} with it"
    assert said in " ".join(report.text().split())


def test_fewer_questions_are_asked_in_the_first_worlds_alone(env):
    [result] = al.faithfulness_test("oracle", env, n=2, also=None).environments
    assert [each.name for each in result.worlds] == [each.name for each in env.worlds[:2]]
    assert result.count == (2, 2)


@pytest.mark.long
def test_all_that_is_asked_of_a_method_is_asked_in_random_worlds(env, tmp_path):
    report = al.faithfulness_test(
        "saliency", env, n=3, also=["truths", "camouflage:1", "equivalent:1", "seeds:2"]
    )
    [result] = report.environments
    assert result.truth_scores
    assert result.drift.images == 3
    assert result.robustness is not None
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="random-worlds"' in page
    assert all(each.rule.replace("<", "&lt;").replace(">", "&gt;") in page for each in env.worlds)


@pytest.mark.long
def test_methods_are_compared_in_random_worlds_and_processes_change_nothing(env, tmp_path):
    options = {"n": 4, "preset": None}
    one = al.compare(["saliency", "random"], env, out=tmp_path, **options)
    two = al.compare(["saliency", "random"], env, jobs=2, **options)
    for each in (two, al.compare(["saliency", "random"], env, out=tmp_path, **options)):
        times = ["seconds_per_image"]
        assert each.to_frame().drop(columns=times).equals(one.to_frame().drop(columns=times))
    again = eval(one.command, {"attributionlab": al})
    assert again.summary().equals(one.summary())


@pytest.mark.long
def test_a_sweep_has_random_worlds_among_its_environments(tmp_path):
    places = [{"name": NAME, "image_size": SIDE}]
    spec = {"environments": places, "methods": ["saliency"], "metrics": ["insertion"], "n": 2}
    sweep = al.run_sweep(spec, tmp_path)
    assert sweep.failed == 0
    assert set(sweep.to_frame().kind) == {"maps", "metric"}


# The command line


@pytest.mark.long
def test_the_command_names_the_seed_that_was_drawn(tmp_path, capsys):
    path = tmp_path / "report.json"
    words = ["test", "oracle", "--env", "random:2:easy:fresh", "--image-size", "24", "--n", "2"]
    words += ["--implementation", "natural"]
    assert command([*words, "--jobs", "1", "--json", str(path)]) == 3
    assert "by feature" in capsys.readouterr().out
    document = json.loads(path.read_text(encoding="utf-8"))
    [result] = document["environments"]
    assert result["name"].startswith("random:2:easy:")
    assert f"--env {result['name'].removesuffix(' (natural)')} " in document["command"]
    assert "fresh" not in document["command"]


@pytest.mark.long
def test_commands_show_and_verify_random_worlds(capsys):
    assert command(["show", "random:2:easy:3"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("random:2:easy:3\n")
    assert "random-world-3-1-easy" in shown
    assert command(["verify", "random:2:easy:3"]) == 0
    shown = capsys.readouterr().out
    assert "random-world-3-0-easy" in shown
    assert "no mismatches" in shown
