"""Random worlds: what is drawn, and what is kept."""

import itertools
import re
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attributionlab as al
from attributionlab.metrics import parts_f1
from attributionlab.worlds import AREA, FEATURES, QUADRANTS, Count, WorldDrawing, load_call
from attributionlab.worlds.environment import random_rules
from attributionlab.worlds.environment.random_worlds import LINEAR, REJECTED
from attributionlab.worlds.rules.expressions import counts_in
from attributionlab.worlds.rules.parsing import parse
from rules.random_rules import operations_in

COLORS = ("red", "green", "blue", "yellow", "cyan", "magenta")
COUNTS = [Count((color,), "", place) for color in COLORS for place in QUADRANTS] + [
    Count(("red", "blue"), motif, place) for motif in ("stripes", "checks") for place in QUADRANTS
]
SIDE = 32


def read(text):
    return parse(text, COLORS, QUADRANTS)


@pytest.fixture(scope="module")
def drawn():
    """Seven worlds of each difficulty: of medium every feature once, and a sum."""
    return {
        name: al.random_worlds(7, seed=3, difficulty=name, image_size=SIDE)
        for name in ("easy", "medium")
    } | {"hard": al.random_worlds(2, seed=3, difficulty="hard", image_size=SIDE)}


@pytest.fixture(scope="module")
def worlds(drawn):
    return [env for some in drawn.values() for env in some]


# What is drawn


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    difficulty=st.sampled_from(list(random_rules.DIFFICULTIES)),
    wanted=st.sampled_from([*FEATURES, "linear"]),
)
def test_rules_are_of_the_grammar(seed, difficulty, wanted):
    level = random_rules.DIFFICULTIES[difficulty]
    if wanted not in (*level.features, "linear"):
        return
    drawing = random_rules.RuleDrawing(np.random.default_rng(seed), level, COUNTS, 5, wanted)
    rule = drawing.rule()
    assert str(read(str(rule))) == str(rule)
    allowed = {*level.numbers, *level.conditions, "*", "+", "-", ">", ">=", "<", "<=", "min", "max"}
    assert operators(rule) <= allowed | {"if"}
    assert random_rules.is_linear(rule) == (operators(rule) <= {"+", "-", "*"})
    assert wanted not in ("negation", "xor") or wanted in random_rules.features_of(rule)
    if not level.repeats:
        counts = list(counts_in(rule))
        assert len(counts) == len(set(counts))


def operators(rule):
    if not operations_in(rule):
        return set()
    return {rule.operator}.union(*map(operators, rule.operands))


@pytest.mark.parametrize(
    ("text", "features"),
    [
        ("red@top_left - blue@top_left", ""),
        ("min(red@top_left, 3)", "saturation"),
        ("max(red@top_left, blue@top_left)", ""),
        ("min(red@top_left, blue@top_left)", "conjunction"),
        ("min(red@top_left, blue@top_left, 3)", "conjunction saturation"),
        ("red@top_left if not blue@top_left > 2 else 0", "negation saturation"),
        ("0 if xor(red@top_left > 2, blue@top_left < 1) else green@top_left", "saturation xor"),
        ("0 if red@top_left > 2 and blue@top_left < 1 else 7", "conjunction saturation"),
        ("relu(4 * (stripes(red, blue)@top_left) - green@top_left)", "texture"),
    ],
)
def test_features_stand_in_the_text(text, features):
    assert random_rules.features_of(read(text)) == set(features.split())


@pytest.mark.parametrize(
    ("text", "idle"),
    [
        ("min(red, blue)", False),
        ("min(red, red)", True),
        ("min(red, red + blue)", True),
        ("min(red, blue, red)", True),
        ("max(red, 30)", True),
        ("max(red, 6)", False),
        ("relu(red + blue)", True),
        ("relu(red - blue)", False),
        ("abs(2 * red - blue)", False),
        ("(red + blue) % 100", True),
        ("(red + blue) % 7", False),
        ("blue if red > 4 else green", False),
        ("blue if red > 40 else green", True),
        ("blue if red > 4 and red > 2 else green", True),
        ("blue if red > 4 or green > 2 else 0", False),
        ("blue if xor(red > 4, green > 40) else 0", True),
        ("min(blue, 3) if not red > 4 else 0", False),
        ("red - 2 * blue", False),
    ],
)
def test_a_part_is_idle_if_the_rule_is_the_same_without_it(text, idle):
    """Counts up to 18: where a part matters, it does so in more than 1 of 19 cases, so that 256 drawn
    ones miss it with a probability below (18/19)^256 = 1e-6."""
    assert random_rules.has_idle_part(read(text), 18, np.random.default_rng(0)) is idle


# What two rules have in common


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), difficulty=st.sampled_from(list(random_rules.DIFFICULTIES)))
def test_other_names_and_another_order_are_the_same_rule(seed, difficulty):
    rng = np.random.default_rng(seed)
    rule = random_rules.RuleDrawing(
        rng, random_rules.DIFFICULTIES[difficulty], COUNTS[:24], 5, "place"
    ).rule()
    names = dict(zip(COLORS, rng.permutation(COLORS), strict=True))
    names |= dict(zip(QUADRANTS, rng.permutation(list(QUADRANTS)), strict=True))
    renamed = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), str(rule))
    renamed = re.sub(r"(min|max)\((\w+@\w+), (\w+@\w+)\)", r"\1(\3, \2)", renamed)
    assert random_rules.canonical(read(renamed)) == random_rules.canonical(rule)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("red@top_left + blue@top_left", "green@top_right + cyan@top_right", True),
        ("red@top_left + blue@top_left", "green@top_right + cyan@top_left", False),
        ("red@top_left + red@top_right", "green@top_right + cyan@top_left", False),
        ("red@top_left - blue@top_left", "red@top_left + blue@top_left", False),
        ("min(red@top_left, 3)", "min(cyan@top_right, 5)", True),
        ("min(red@top_left, 3)", "max(red@top_left, 3)", False),
        ("relu(red@top_left - blue@top_left)", "max(0, cyan@top_left - red@top_left)", True),
        ("abs(2 * red - blue)", "abs(red - 2 * blue)", True),
        ("abs(2 * red - blue)", "abs(red - blue)", False),
        ("red if blue > 3 else 0", "red if 4 <= blue else 0", True),
        ("red if blue > 3 else 0", "0 if blue > 3 else red", False),
        ("red if xor(blue > 3, cyan < 4) else 0", "red if xor(cyan < 6, blue > 5) else 0", True),
        ("4 * (stripes(red, blue)@top_left)", "4 * (checks(red, blue)@top_right)", True),
        ("4 * (stripes(red, blue)@top_left)", "4 * (green@top_left)", False),
        (
            "stripes(red, blue)@top_left - checks(red, blue)@top_left",
            "stripes(red, blue)@top_left - stripes(red, blue)@top_right",
            False,
        ),
    ],
)
def test_which_rules_are_the_same(one, other, same):
    assert (random_rules.canonical(read(one)) == random_rules.canonical(read(other))) is same


# What is kept


@pytest.mark.long
def test_worlds_are_named_and_made_again(worlds):
    assert [env.name for env in worlds[:2]] == ["random-world-3-0-easy", "random-world-3-1-easy"]
    for env in worlds[::5]:
        again = eval(load_call(env), {"attributionlab": al})
        assert again.spec == env.spec
        assert torch.equal(again.batch(2)[0], env.batch(2)[0])


def test_each_world_has_images_of_its_own(drawn, worlds):
    other = al.random_worlds(2, seed=3, difficulty="easy", image_size=SIDE + 1)
    seeds = [env.spec.seed for env in [*worlds, *other]]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.long
def test_the_first_of_many_are_those_of_fewer(drawn):
    few = al.random_worlds(3, seed=3, difficulty="easy", image_size=SIDE)
    assert [env.spec for env in few] == [env.spec for env in drawn["easy"][:3]]
    other = al.random_worlds(3, seed=4, difficulty="easy", image_size=SIDE)
    assert not {env.rule for env in few} & {env.rule for env in other}


def test_no_two_worlds_are_the_same(drawn):
    for some in drawn.values():
        texts = [random_rules.canonical(env.counting.expressions[0]) for env in some]
        assert len(set(texts)) == len(texts)


def test_each_feature_has_its_turn(drawn):
    for name, some in drawn.items():
        level = random_rules.DIFFICULTIES[name]
        in_turn = itertools.cycle(level.features)
        for index, env in enumerate(some):
            rule, features = env.counting.expressions[0], set(env.features)
            assert random_rules.features_of(rule) <= features
            if name != "hard" and index % LINEAR == LINEAR - 1:
                assert random_rules.is_linear(rule)
                continue
            assert next(in_turn) in features
            assert not random_rules.is_linear(rule)
            assert len(features) >= level.least_features
            assert len(set(counts_in(rule))) <= level.most_counts
    sums = sum(random_rules.is_linear(env.counting.expressions[0]) for env in drawn["medium"])
    assert sums / len(drawn["medium"]) <= 0.23


def test_rejections_are_counted():
    for difficulty in random_rules.DIFFICULTIES:
        rejected = Counter()
        WorldDrawing(3, difficulty, SIDE, 0).found(set(), rejected)
        assert set(rejected) <= set(REJECTED)
        assert all(count > 0 for count in rejected.values())


@pytest.mark.long
def test_every_color_is_in_every_quadrant_in_equal_areas(worlds):
    for env in worlds:
        pixels = set()
        for image in env.batch(4)[0].numpy().astype(int):
            of_image = set()
            for place in QUADRANTS:
                inside = env.counting.places.mask(place)
                rgb, counts = np.unique(image[:, inside], axis=1, return_counts=True)
                assert rgb.shape[1] == 1 + len(COLORS)
                background = (rgb == np.array([[20], [20], [20]])).all(0)
                of_image |= set(counts[~background].tolist())
            textured = "stripes" in env.rule or "checks" in env.rule
            if not textured and "stripes(red, blue)@top_left" not in env.spec.constants["items"]:
                assert len(of_image) == 1
            pixels |= of_image
        assert len(pixels) > 1  # other areas in other images
        least, most = (round(area * SIDE**2) for area in AREA)
        assert min(pixels) >= min(least, 4)
        assert max(pixels) <= 2 * most + 8  # a color of two motifs


@pytest.mark.long
def test_the_conditions_hold_on_the_first_images(worlds):
    """From the truth of the environment, with maps by brute force."""
    for env in worlds:
        images, _ = env.batch(3)
        targets = torch.zeros(3, dtype=torch.int64)
        truth = env.truth(images, targets)
        read = env.counting.classes_of(images) == 0
        assert torch.equal(truth.relevant, read)  # every count matters, nothing else does
        assert bool(truth.asked.all())
        assert not bool(truth.mixed.any())
        assert bool(truth.positive.flatten(1).any(1).all())
        games = [env.counting.game(image, 0, "logit") for image in images]
        assert {game.source for game in games} == {"closed form"}
        exact = torch.stack([game.shapley().values for game in games])
        assert lowest(exact, truth.signed) >= 0.8
        colors = [
            image.float() @ torch.tensor([1.0, 256.0, 65536.0]) for image in images.movedim(1, -1)
        ]
        quadrants = sum(k * env.counting.places.mask(place) for k, place in enumerate(QUADRANTS))
        for groups in (torch.stack(colors), torch.from_numpy(quadrants).expand(3, -1, -1)):
            assert best_constant(groups, truth.signed, images) < 0.45


def lowest(maps, signed):
    found = [f1 for f1 in parts_f1(maps, signed).values() if not f1.isnan().all()]
    return min(float(f1.nanmean()) for f1 in found)


def best_constant(groups, signed, images):
    """The best lowest mean F1 of maps with -1, 0 or 1 on each group, 0 on the background."""
    shown = (images != 20).any(1)
    values = torch.unique(groups[shown])
    index = torch.searchsorted(values, groups.contiguous()).clamp(max=len(values) - 1)
    choices = torch.tensor(list(itertools.product((-1.0, 0.0, 1.0), repeat=len(values))))
    best = [
        torch.stack(
            [
                torch.nan_to_num(f1, nan=2.0)  # parts that an image lacks never are the lowest
                for f1 in parts_f1(
                    (choices[:, index[k]] * shown[k])[:, None],
                    signed[k].expand(len(choices), -1, -1, -1),
                ).values()
            ]
        )
        for k in range(len(images))
    ]
    return float(torch.stack(best).mean(0).amin(0).max())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("red@top_left - red@top_right", ""),
        ("red@top_left % 1", "constant"),
        ("red@top_left + blue@top_left % 1", "a count changes nothing"),
        ("5 * (red@top_left) + blue@top_left", "a count changes too little"),
        ("abs(red@top_left - blue@top_left)", "a count has no sign"),
        ("0 - red@top_left", "nothing raises the output"),
        (
            "4 * (red@top_left) + blue@top_left + green@top_right + cyan@top_right + blue@top_right",
            "Shapley values do not find it",
        ),
        (" + ".join(f"red@{place}" for place in QUADRANTS), "a map without place suffices"),
        (" + ".join(f"{color}@top_left" for color in COLORS), "a map without color suffices"),
    ],
)
def test_why_a_rule_is_not_kept(text, reason):
    drawing = WorldDrawing(seed=0, difficulty="medium", image_size=SIDE, index=4)
    assert drawing.wanted == "linear"  # no feature is missed
    assert drawing.effect_reason(read(text))[0] == reason
