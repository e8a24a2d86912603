"""A certificate takes the rule itself, and refuses networks that learned nothing or another rule."""

import json
import math

import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.worlds.learned import examination as module
from attributionlab.worlds.learned import training
from attributionlab.worlds.learned.architectures import ARCHITECTURES, made
from attributionlab.worlds.learned.examination import (
    AGREEMENT,
    LEAST_ASKED,
    NULL,
    SHAPLEY,
    SIGNS,
    LearnedCertificate,
    beside_threshold,
    examine,
    explained,
    held_out,
    shapley_over_patches,
)
from attributionlab.worlds.learned.pictures import INTERVENTIONS, RuleAnswers
from learned.worlds import RULE, Nearest, Noisy, lessons_of, rng, world
from oracles_learned_rules import certificate_by_loops, is_beside, shapley_by_permutations

KINDS = ("held_out", *INTERVENTIONS, "beside_colors")


@pytest.fixture(scope="module", autouse=True)
def few_coalitions():
    """Enough to see what Shapley values depend on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SHAPLEY_IMAGES", 3)
        patch.setattr(module, "PERMUTATIONS", 8)
        yield


@pytest.fixture(scope="module")
def env():
    return world("red", "blue", "green")


@pytest.fixture(scope="module")
def lessons(env):
    return lessons_of(env)


@pytest.fixture(scope="module")
def right(env, lessons):
    """What a network that computes the rule everywhere is certified for."""
    return examine(Nearest(env, lessons.pictures.colors), lessons.questions)


@pytest.mark.long
@pytest.mark.parametrize("rule", [RULE, "8 * red - blue", "red > blue"])
@pytest.mark.parametrize(("size", "scale"), [(0, 1), (0.4, 1), (4, 1), (0, 0.3)])
def test_a_certificate_is_what_loops_find(rule, size, scale):
    env = world("red", "blue", "green", rule=rule)
    questions = held_out(env, 40, seed=0)
    network = Noisy(Nearest(env, questions.pictures.colors), size, scale)
    found = examine(network, questions)
    exact = {name: outputs for name, (_, outputs, _) in questions.asked.items()}
    images = {name: each for name, (each, _, _) in questions.asked.items()}
    # The rule of images beside the colors is that of the images that they were.
    alone = [*questions.single[0]]
    listed = {name: [*each] for name, each in images.items()}
    known = {
        id(image): row
        for name, each in listed.items()
        for image, row in zip(each, exact[name], strict=True)
    } | {id(image): row for image, row in zip(alone, questions.single[1], strict=True)}
    expected = certificate_by_loops(
        lambda image: network(image[None])[0].tolist(),
        lambda image: known[id(image)].tolist(),
        listed,
        alone,
        {name: clear.tolist() for name, (_, _, clear) in questions.asked.items()},
        questions.single[2].tolist(),
    )
    assert {**found.agreement, "signs": found.signs} == pytest.approx(expected, abs=1e-5)


def test_r_squared_is_that_of_its_definition():
    exact, found = torch.randn(50, 1, generator=rng()), torch.randn(50, 1, generator=rng(1))
    error, spread = ((exact - found) ** 2).sum(), 49 * exact.var()
    assert explained(found, exact) == pytest.approx(float(1 - error / spread), abs=1e-6)
    assert explained(exact, exact) == 1
    assert explained(exact.mean().expand(50, 1), exact) == pytest.approx(0, abs=1e-6)
    constant = torch.ones(5, 1)
    assert explained(constant, constant) == 1
    assert explained(constant + 1, constant) == 1 - 1e6  # finite, for JSON


def test_the_rule_itself_is_certified(right):
    assert {*right.agreement} == {*right.asked} == {*KINDS}
    assert {*right.agreement.values()} == {*right.asked.values()} == {1.0}
    assert right.signs == right.shapley == 1
    assert right.null == 0
    assert right.passed
    assert right.problems == []


def test_one_patch_is_removed_where_signs_are_asked(lessons):
    pictures = lessons.questions.pictures
    gone = [
        {*patches[(before != after).any(0)].tolist()}
        for before, after, patches in zip(
            pictures.images, lessons.questions.single[0], pictures.patches, strict=True
        )
    ]
    assert {len(each) for each in gone} == {1}
    assert set.union(*gone) == {1, 2, 3}


def test_every_pixel_is_moved_a_little_beside_the_colors(lessons):
    at, outputs, _ = lessons.questions.asked["held_out"]
    moved, same, _ = lessons.questions.asked["beside_colors"]
    assert torch.equal(outputs, same)
    assert moved.min() >= 0
    assert moved.max() <= 255
    distance = (moved - at).abs()
    assert {*distance.unique().tolist()} == {0, 1, 2}
    # 0 only where the box ends: half of the moves of 0 and of 255.
    assert ((distance > 0) | (at == 0) | (at == 255)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_images_must_agree(right, kind):
    for table, least in (("agreement", AGREEMENT), ("asked", LEAST_ASKED)):
        reached = right.__dict__ | {table: getattr(right, table) | {kind: least}}
        assert LearnedCertificate(**reached).passed
        for value in (least - 1e-6, math.nan):
            reached[table] = getattr(right, table) | {kind: value}
            [problem] = LearnedCertificate(**reached).problems
            assert kind in problem
        reached[table] = {key: 1.0 for key in KINDS if key != kind}
        assert LearnedCertificate(**reached).passed == (table == "asked")


@pytest.mark.parametrize(
    ("name", "limit", "worse"), [("signs", SIGNS, -1), ("shapley", SHAPLEY, -1), ("null", NULL, 1)]
)
def test_signs_and_shapley_values_must_be_right(right, name, limit, worse):
    assert LearnedCertificate(**right.__dict__ | {name: limit}).passed
    for value in (limit + worse * 1e-6, math.nan):
        assert len(LearnedCertificate(**right.__dict__ | {name: value}).problems) == 1


def test_a_certificate_is_read_as_it_was_written(right):
    assert LearnedCertificate.from_text(right.to_text()) == right
    document = json.loads(right.to_text())
    for wrong in (
        *("", "[]", "{}", "1"),
        json.dumps(document | {"signs": "1"}),
        json.dumps(document | {"null": True}),
        json.dumps(document | {"agreement": 1}),
    ):
        with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
            LearnedCertificate.from_text(wrong)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_untrained_network_is_refused(lessons, architecture):
    torch.manual_seed(0)
    found = examine(made(architecture, 1, 16), lessons.questions)
    assert not found.passed
    assert found.agreement["held_out"] < AGREEMENT
    assert found.shapley < SHAPLEY


def test_a_network_right_on_the_colors_and_wrong_beside_them_is_refused():
    """The paper's network, whose redundant channels fire for every color that it was not made for."""
    env = al.load("multi-color-sum", image_size=16)
    found = examine(env.model, held_out(env, 20, 0))
    assert found.agreement["beside_colors"] < 0
    assert {found.agreement[kind] for kind in KINDS if kind != "beside_colors"} == {1.0}
    assert found.shapley == 1
    assert len(found.problems) == 1


@pytest.mark.long
def test_a_network_that_learned_shuffled_outputs_is_refused(env, lessons, monkeypatch):
    class Shuffled(RuleAnswers):
        """The outputs of each call in another order."""

        def __call__(self, shown):
            exact = super().__call__(shown)
            return exact[torch.randperm(len(exact), generator=rng())]

    monkeypatch.setattr(training, "RuleAnswers", Shuffled)
    network = training.train_network(env, "patch-cnn", lessons.pictures, samples=8000)
    found = examine(network, lessons.questions)
    assert not found.passed
    assert found.agreement["held_out"] < 0.1


@pytest.mark.long
def test_a_network_that_reads_a_correlated_color_is_refused_by_interventions_alone():
    """Red and blue always come together, with equal areas: whoever counts blue is right about red."""
    env = world("red & blue", "green:0.02-0.08", rule="red", equal_areas=True)
    blue = world("red & blue", "green:0.02-0.08", rule="blue", equal_areas=True)
    questions = held_out(env, 60, seed=0)
    found = examine(Nearest(blue, questions.pictures.colors), questions)
    assert found.agreement["held_out"] == 1  # it is right on what images show
    assert found.agreement["places_moved"] == 1
    assert found.agreement["colors_swapped"] < 0.5
    assert found.agreement["patches_removed"] < AGREEMENT
    assert found.signs < SIGNS
    assert found.shapley < SHAPLEY
    assert not found.passed


def test_a_constant_network_is_refused(lessons):
    class Constant(nn.Module):
        def forward(self, images):
            return torch.zeros(len(images), 1)

    found = examine(Constant(), lessons.questions)
    assert found.agreement["held_out"] <= 0
    assert found.signs == 0
    assert found.shapley <= 0
    assert found.null == 0


def test_a_world_whose_patches_have_no_effect_certifies_nothing():
    """A rule that is 0 on all its images: a constant network agrees everywhere."""
    env = world("green", "blue", rule="red")
    questions = held_out(env, 20, seed=0)
    questions.asked.pop("colors_swapped")
    assert not any(outputs.any() for _, outputs, _ in questions.asked.values())
    found = examine(Nearest(env, questions.pictures.colors), questions)
    assert found.signs == found.shapley == 0
    assert not found.passed


@pytest.mark.parametrize(
    ("rule", "threshold"), [("red >= 20", 20), ("red > 19", 20), ("not red < 20", 20)]
)
def test_images_beside_a_threshold_are_left_out(rule, threshold):
    env = world("red", "blue", rule=rule)
    images = torch.zeros(256, 3, 16, 16)
    for count in range(256):
        images[count, 0].view(-1)[:count] = 255
    found = beside_threshold(env, images)
    assert found.tolist() == [is_beside(count, threshold, 3) for count in range(256)]
    assert found.nonzero().flatten().tolist() == [17, 18, 19, 20, 21, 22]


def test_nothing_is_left_out_where_a_gate_sees_nothing():
    env = world("red", "blue", rule="blue if red == 0 else 0")
    images = torch.zeros(6, 3, 16, 16)
    for count in range(6):
        images[count, 0].view(-1)[:count] = 255
    assert beside_threshold(env, images).tolist() == [False, True, True, True, False, False]
    assert not beside_threshold(world("red", "blue"), images).any()  # no comparison
    assert not beside_threshold(al.load("multi-color-sum", image_size=16), images).any()


def test_shapley_values_are_those_of_all_orders(env, lessons, monkeypatch):
    """With one image, and permutations drawn so often that all six orders are met alike."""
    pictures = lessons.questions.pictures.part(slice(0, 1))
    orders = module._orders(pictures, rng())
    players = [1, 2, 3]
    assert len(orders) == 8
    assert all(sorted(order) == players for order in orders.tolist())
    assert torch.equal(orders[1::2], orders[::2].flip(1))
    network = Noisy(Nearest(env, pictures.colors), 3, 1)

    def play(shown):
        with torch.no_grad():
            return network(pictures._replace(shown=shown).images)

    def value(present):
        kept = torch.stack([pictures.patches[0] == player for player in present or {300}]).any(0)
        return float(play(pictures.shown * kept)[0, 0])

    every = torch.tensor([[1, 2, 3], [3, 2, 1], [1, 3, 2], [2, 3, 1], [2, 1, 3], [3, 1, 2]])
    found = module._values(play, pictures, every)[:, 0].tolist()
    assert found == pytest.approx([*shapley_by_permutations(value, players).values()], abs=1e-4)


def test_shapley_values_of_a_network_that_sees_a_null_patch(env, lessons):
    class Green(Nearest):
        """The rule, and a tenth of the pixels of green, which the rule does not count."""

        def forward(self, images):
            return super().forward(images) + 0.1 * (images[:, 1] > 128).sum((1, 2))[:, None]

    r_squared, null = shapley_over_patches(Green(env, lessons.pictures.colors), lessons.questions)
    assert 0.9 < r_squared < 1
    assert 0.02 < null < 0.4
