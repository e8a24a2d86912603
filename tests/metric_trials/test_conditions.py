"""Conditions vary one thing, by as much as they say."""

import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.verdicts import AXES
from attributionlab.verdicts.metric_trials.conditions import conditions_of, without_unseen_data
from cases import loaded

env = loaded("multi-color-sum", image_size=16)


@pytest.fixture(scope="module")
def conditions(env):
    return conditions_of(env)


def of_axis(conditions, axis):
    return {each.dose: each for each in conditions if each.axis == axis}


def test_every_axis_has_its_doses_in_rising_order(conditions):
    assert [(each.axis, each.dose) for each in conditions] == [
        (axis, dose) for axis in AXES for dose in AXES[axis].doses
    ]
    backwards = conditions_of(al.load("multi-color-sum", image_size=16), {"share": [1, 0.5]})
    assert [each.dose for each in backwards] == [0.5, 1]


def test_strength_and_channels_change_the_network_alone(env, conditions):
    for axis, constant in (("strength", "redundant_strength"), ("channels", "redundant_channels")):
        for dose, each in of_axis(conditions, axis).items():
            constants = dict(each.network(env, 0).spec.constants)
            assert constants.pop(constant) == dose
            reference = dict(of_axis(conditions, "share")[1].network(env, 0).spec.constants)
            reference.pop(constant)
            assert constants == reference
            assert not each.canvas(env, 0, 0).any()  # black


def test_distance_is_what_lies_between_baseline_and_replacement(env, conditions):
    for dose, each in of_axis(conditions, "distance").items():
        assert (each.canvas(env, 3, 0) == 20 - dose).all()


def test_so_large_a_share_is_unseen_and_a_smaller_one_lies_within_it(env, conditions):
    before = None
    for dose, each in of_axis(conditions, "share").items():
        canvas = each.canvas(env, 5, 1)
        black = (canvas == 0).all(0)
        assert ((canvas == 20).all(0) | black).all()
        # 256 pixels; five standard deviations of a binomial share are at most 0.16.
        assert abs(float(black.double().mean()) - dose) <= 0.16
        assert before is None or (black | ~before).all()
        before = black
        assert torch.equal(each.canvas(env, 5, 1), canvas)
    half = of_axis(conditions, "share")[0.5]
    assert not torch.equal(half.canvas(env, 0, 0), half.canvas(env, 1, 0))
    assert not torch.equal(half.canvas(env, 0, 0), half.canvas(env, 0, 1))


def test_conditions_with_an_equal_key_give_equal_answers(env, conditions):
    images, _ = env.batch(2)
    torch.manual_seed(0)
    kept = torch.rand(2, 1, 16, 16) < 0.5
    answers = {}
    for each in conditions:
        mixed = torch.where(kept, images, each.canvas(env, 0, 0))
        with torch.no_grad():
            answer = each.network(env, 0).model(mixed)
        assert torch.equal(answer, answers.setdefault(each.key, answer))
    # Six strengths, four numbers, five distances and five shares, some of which coincide; without any
    # unseen data two: a network with redundant channels may still see what a metric imputes.
    assert len(answers) == 18
    assert sum(each.unseen == 0 for each in conditions) == 4
    assert of_axis(conditions, "share")[0.25].unseen == 0.25


def test_each_image_has_random_weights_of_its_own_at_every_dose(env, conditions):
    strong, weak = (of_axis(conditions, "strength")[dose] for dose in (4, 0.25))
    image = torch.zeros(1, 3, 16, 16)

    def signs(condition, number):
        weights = condition.network(env, number).model.accumulator[0].weight[:, 4:]
        return weights.sign()

    assert torch.equal(signs(strong, 2), signs(weak, 2))
    assert not torch.equal(signs(strong, 2), signs(strong, 3))
    with torch.no_grad():
        assert not torch.equal(*(strong.network(env, number).model(image) for number in (0, 1)))


def test_weight_seeds_count_from_that_of_the_environment():
    env = al.load("multi-color-sum", image_size=16, weight_seed=5)
    [condition] = conditions_of(env, {"share": [1]})
    assert condition.network(env, 0).spec.constants == env.spec.constants
    assert condition.network(env, 3).spec.constants["weight_seed"] == 8


def test_an_environment_without_the_effect_gets_two_channels_of_strength_one():
    env = al.load("multi-color-sum-in-distribution", image_size=16)
    [condition] = conditions_of(env, {"share": [1]})
    assert condition.key == (2, 1, 20, 1)


@pytest.mark.parametrize(
    ("doses", "message"),
    [
        ({"sharing": [1]}, "no axis named 'sharing': did you mean 'share'?"),
        ({1: [1]}, "no axis named 1: known are channels, distance, share, strength"),
        ({"share": []}, r"doses of share are \[\]: give a list of numbers"),
        ({"share": 0.5}, "doses of share are 0.5: give a list"),
        ({"share": [1.5]}, "share is 1.5: take a number of at least 0 and of at most 1"),
        ({"channels": [1.5]}, "channels is 1.5: take an integer"),
        ({"distance": [float("nan")]}, "distance is nan: take a number"),
        ({}, r"doses are \{\}: pass a list of doses for each axis"),
        ([1], r"doses are \[1\]: pass a list of doses for each axis"),
        ({"strength": [0.3]}, "strength is 0.3: take a multiple of 0.25"),
        ({"distance": [-1], "strength": [-1]}, "distance is -1.*strength is -1"),
        (
            {"distance": [250]},
            r"distance 250 from \[20.0, 20.0, 20.0\] leads outside of \[0, 255\]",
        ),
    ],
)
def test_impossible_doses_are_refused(env, doses, message):
    with pytest.raises(AttributionLabError, match=message):
        conditions_of(env, doses)


def test_a_replacement_that_is_a_known_color_is_refused(tmp_path):
    dataset = """
generator = "color-patches"
size = 4
seed = 0
[constants]
image_size = 16
colors = [[10, 10, 10], [200, 0, 0]]
background = [20, 20, 20]
"""
    design = """
claim = "c"
formula = "f"
source = "s"
builder = "color-sum"
dataset = "gray.toml"
"""
    (tmp_path / "gray.toml").write_text(dataset)
    (tmp_path / "mine.toml").write_text(design)
    env = al.load(str(tmp_path / "mine.toml"))
    with pytest.raises(AttributionLabError, match=r"leads to \[10.0, 10.0, 10.0\], a color that"):
        conditions_of(env, {"distance": [0, 10]})


@pytest.mark.parametrize("name", ["single-color-modulo", "quadrants"])
def test_where_no_color_is_unseen_there_are_no_doses_and_one_condition(name):
    env = al.load(name, image_size=16)
    with pytest.raises(AttributionLabError, match=r"doses are .*leave doses out.*multi-color-sum"):
        conditions_of(env, {"share": [0]})
    assert conditions_of(env) == []
    clean = without_unseen_data(env)
    assert clean.network(env, 3) is env
    assert clean.unseen == 0
    assert torch.equal(clean.canvas(env, 0, 0), env.baseline.expand(-1, 16, 16))
