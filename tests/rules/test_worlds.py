"""Worlds: of the catalog and of one's own, their truth, and the questions that are asked in them."""

import json
import re
from dataclasses import asdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attributionlab as al
from attributionlab.metrics import parts_f1
from attributionlab.verdicts.controls import BLIND
from attributionlab.worlds import QUADRANTS, from_spec, load_call, soft_sister
from attributionlab.worlds.environment.roles import MOST_ROLES, Roles, renamed_counts
from attributionlab.worlds.rules.kinds import kinds_of
from attributionlab.worlds.rules.networks import head_size
from cases import SMALL_WORLDS

WORLDS = pytest.mark.parametrize("name", [name for name, _ in SMALL_WORLDS])


@pytest.fixture(scope="module")
def worlds():
    return {name: al.load(name, **overrides) for name, overrides in SMALL_WORLDS}


@WORLDS
def test_the_network_gives_the_labels_and_the_rule_gives_both(worlds, name):
    env = worlds[name]
    images, labels = env.batch(6)
    logits = env.model(images)
    assert torch.equal(logits, env.counting.outputs(images).float())
    answers = logits.argmax(1) if env.task == "classification" else logits[:, 0]
    assert answers.tolist() == labels.tolist()


@WORLDS
def test_exact_shapley_values_find_what_is_asked(worlds, name):
    """Every world asks what the game's own answer finds; parity alone has pixels without a sign."""
    env = worlds[name]
    images, labels = env.batch(4)
    targets = env.targets(labels)
    truth = env.truth(images, targets)
    assert bool(truth.relevant.flatten(1).any(1).all())
    assert bool((truth.relevant <= truth.asked).all())
    assert not bool((truth.signed != 0)[~truth.relevant].any())
    games = [
        env.counting.game(image, int(target), env.outputs[0], env.temperature)
        for image, target in zip(images, targets, strict=True)
    ]
    maps = torch.stack([game.shapley().values for game in games]) * truth.asked
    found = parts_f1(maps, truth.signed, truth.mixed)
    if name == "parity":
        assert bool(truth.mixed.any())
        assert not bool(truth.signed.any())
        return
    assert not bool(truth.mixed.any())
    assert all(float(f1.nanmean()) >= 0.8 for f1 in found.values() if not bool(f1.isnan().all()))


@WORLDS
def test_a_world_is_made_again_from_its_specification(worlds, name):
    spec = worlds[name].spec
    again = from_spec(json.loads(json.dumps(asdict(spec))))
    assert again.spec == spec
    assert again.spec.digest == spec.digest
    assert torch.equal(again.batch(2)[0], worlds[name].batch(2)[0])


def test_the_order_of_classes_is_part_of_a_world():
    one, other = (
        al.world(dict(pairs), image_size=24)
        for pairs in (
            [("warm", "red"), ("cold", "blue")],
            [("cold", "blue"), ("warm", "red")],
        )
    )
    assert one.spec.digest != other.spec.digest
    images = one.batch(3)[0]
    assert torch.equal(one.model(images), other.model(images).flip(1))


@pytest.mark.long
def test_a_wrong_truth_is_noticed(monkeypatch):
    """The truth of another rule: some pixel that it calls irrelevant changes the output."""
    env = al.world("red@left - blue", image_size=24)
    other = al.world("red@right - blue", image_size=24)
    monkeypatch.setattr(env, "truth", other.truth)
    [check] = [check for check in al.verify(env).checks if check.name == "irrelevance"]
    assert not check.passed


# A user's own


def test_a_text_makes_a_world():
    env = al.world("min(red, blue@left) > 40", image_size=72)
    assert env.rule == "min(red, blue@left) > 40"
    assert env.colors["blue"] == (0, 0, 255)
    images, labels = env.batch(8)
    counted = (images == torch.tensor([255.0, 0, 0])[:, None, None]).all(1).sum((1, 2))
    left = images[..., :36]
    beside = (left == torch.tensor([0.0, 0, 255])[:, None, None]).all(1).sum((1, 2))
    assert labels.tolist() == (torch.minimum(counted, beside) > 40).long().tolist()
    assert load_call(env) == (
        "attributionlab.world('min(red, blue@left) > 40', image_size=72, seed=0)"
    )


def test_colors_and_regions_of_ones_own():
    env = al.world(
        "teal@door - gold",
        image_size=40,
        colors={"teal": (0, 128, 128), "gold": (255, 215, 0)},
        regions={"door": (0.0, 0.25, 0.5, 0.75)},
    )
    assert env.colors == {"teal": (0, 128, 128), "gold": (255, 215, 0)}
    images, labels = env.batch(4)
    assert env.model(images)[:, 0].tolist() == labels.tolist()
    again = eval(load_call(env), {"attributionlab": al})
    assert torch.equal(again.batch(4)[0], images)


def test_a_share_of_the_image_fits_every_size():
    for image_size in (24, 48):
        env = al.world("red - {0.01}", image_size=image_size)
        assert str(env.counting.expressions[0]) == f"red - {round(0.01 * image_size**2)}"


def test_one_wrong_region_is_said_once():
    """Network and images both look at it."""
    for side in (2, 1e-9):
        with pytest.raises(al.AttributionLabError) as refused:
            al.world("red", image_size=24, regions={"door": (0, 0, side, 1)})
        assert str(refused.value).count("region 'door'") == 1


@pytest.mark.parametrize("name", ["all-four", "at-least", "either", "no-orange"])
def test_a_soft_sister_has_the_truth_of_its_sister_and_a_gradient_everywhere(worlds, name):
    hard, soft = worlds[name], worlds[f"soft-{name}"]
    images, _ = hard.batch(4)
    assert torch.equal(images, soft.batch(4)[0])
    targets = torch.zeros(4, dtype=torch.long)
    one, two = hard.truth(images, targets), soft.truth(images, targets)
    assert bool((one.asked <= two.asked).all())
    assert torch.equal(one.signed[one.asked], two.signed[one.asked])

    def has_gradient(env):
        leaf = images.clone().requires_grad_()
        env.with_implementation("planes").model(leaf).sum().backward()
        return (leaf.grad != 0).any(1, keepdim=True)[one.relevant].float().mean().item()

    assert has_gradient(soft) == 1
    # In no-orange the kink of `orange == 0` has one.
    assert has_gradient(hard) < 1 or name == "no-orange"


def test_show_states_what_stands_behind_the_counts():
    env = al.world("min(red, blue) % 7", image_size=24)
    size = head_size(env.network)
    assert (
        f"neurons {size.neurons}, layers {size.layers}, parameters {size.parameters}"
        in env.summary()
    )


# Soft sisters that no file states


@pytest.mark.parametrize(
    ("rule", "made"),
    [
        ("min(red@left, blue@left)", "20 * (min(red@left, blue@left)) + blue@left + red@left"),
        ("relu(red - blue@top)", "20 * (relu(red - blue@top)) - blue@top + red"),
        ("red + blue - max(red, blue)", "20 * (red + blue - max(red, blue)) + blue + red"),
        ("red > blue@left", "1000 * (red > blue@left) - blue@left + red"),
    ],
)
def test_the_soft_sister_of_a_rule_adds_each_count_with_its_sign(rule, made):
    sister = soft_sister(al.world(rule, image_size=48))
    assert (sister.name, sister.rule) == (f"soft-{rule}", made)


@pytest.mark.parametrize("seed", [3, 5])
def test_soft_sisters_of_random_worlds_have_their_truth_and_a_gradient_everywhere(seed):
    softened = [(env, soft_sister(env)) for env in al.random_worlds(4, seed, "easy", 24)]
    for env, sister in softened:
        images, _ = env.batch(4, seed=env.spec.seed + 1)  # others than those it was made with
        targets = torch.zeros(4, dtype=torch.long)
        one, two = env.truth(images, targets), sister.truth(images, targets)
        assert bool((one.asked <= two.asked).all())
        assert torch.equal(one.signed[one.asked], two.signed[one.asked])
        leaf = images.clone().requires_grad_()
        sister.with_implementation("planes").model(leaf).sum().backward()
        assert (leaf.grad != 0).any(1, keepdim=True)[one.relevant].all()


def test_a_rule_that_needs_no_soft_sister_or_can_have_none_has_none():
    for rule in (
        "red - 2 * blue",
        "(red + blue) % 2",
        "abs(red - blue)",
        {"a": "min(red, blue)", "b": "blue"},
    ):
        assert soft_sister(al.world(rule, image_size=24)) is None
    assert soft_sister(al.load("uniform-accumulator")) is None
    # A sum above 2^24; then counts that would change the truth.
    assert soft_sister(al.world("min(100 * red, 100 * blue)", image_size=224)) is None
    *_, env = al.random_worlds(4, 3, "hard", 24)
    assert soft_sister(env) is None


# Roles


def symmetric(env):
    return Roles(env.counting, env.recipe)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("quadrants", 360 * 24),
        ("quadrants-of-shades", 360 * 24),
        ("all-four", 360 * 24),
        ("marker-flips", 360 * 24 * 2),
        ("soft-all-four", 360 * 24),
        ("at-least", 6),
        ("soft-at-least", 6),
        ("more-than", 30),
        ("no-orange", 5),
        ("soft-no-orange", 5),
        ("stripes-or-checks", 2),
    ],
)
def test_colors_quadrants_and_motifs_change_places_where_patches_stay_the_same(
    worlds, name, number
):
    assert symmetric(worlds[name]).number == number


def test_what_an_image_tells_apart_keeps_its_role():
    """Only green has a patch at the top: neither it nor the quadrants change places."""
    items = [f"{name}@{place}" for name in ("red", "blue") for place in QUADRANTS]
    env = al.world("red@left - green", image_size=40, items=[*items, "green@top"])
    renamings = symmetric(env).drawn(np.random.default_rng(0))
    texts = {str(symmetric(env).renamed(each).text) for each in renamings}
    assert texts == {
        "red@left - green",
        "blue@left - green",
        "red@right - green",
        "blue@right - green",
    }


def test_motifs_of_one_color_and_of_two_are_exchanged_independently():
    """Identity once and the exchange once: they are equally likely."""
    items = ["stripes(red, blue):0.03", "checks(red, blue):0.03", "corner(green):0.03"]
    env = al.world("stripes(red, blue) - corner(green)", image_size=48, items=items)
    texts = [symmetric(env).renamed(each).text for each in symmetric(env).drawn(None)]
    assert sorted(texts) == [
        "checks(red, blue) - corner(green)",
        "stripes(red, blue) - corner(green)",
    ]


@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(["quadrants", "marker-flips", "either"]))
def test_kinds_answer_as_the_pixels_do(worlds, seed, name):
    env = worlds[name]
    image = env.batch(1, seed)[0][0]
    space = symmetric(env)
    renamings = space.drawn(np.random.default_rng(seed))
    assert len(renamings) <= MOST_ROLES
    kinds = kinds_of(image.numpy(), env.counting.places, space.counts)
    assert kinds.sizes.sum() == (kinds.labels >= 0).sum()
    for renaming in renamings[:3]:
        found = kinds.asked(
            env.counting.expressions, renamed_counts(env.counting, renaming), 0, None
        )
        target = torch.zeros(1, dtype=torch.int64)
        truth = space.renamed(renaming).truth(image[None], target, "logit")
        for name_, outside in (("signed", 0), ("relevant", False), ("asked", True)):
            on_pixels = np.append(getattr(found, name_), outside)[kinds.labels]
            assert (on_pixels == getattr(truth, name_)[0, 0].numpy()).all()


# Questions


def test_a_twin_has_the_image_and_another_truth(worlds):
    questions = al.Questions(worlds["quadrants"], seed=1)
    own, twin = questions[0], questions.twin(0)
    assert torch.equal(own.image, twin.image)
    assert own.env.rule != twin.env.rule
    target = torch.tensor([0])
    truths = [each.env.truth(own.image[None], target).signed for each in (own, twin)]
    assert not torch.equal(*truths)


@pytest.mark.long
@pytest.mark.parametrize("name", ["quadrants", "marker-flips", "all-four"])
def test_controls_that_do_not_see_what_a_world_hides_solve_next_to_nothing(worlds, name):
    [result] = al.faithfulness_test("oracle", worlds[name], n=13, also=None).environments
    assert result.verdict == "pass"
    blind = {thing: control for thing, control in result.controls.items() if thing in BLIND}
    assert "fail" in {control.must for control in blind.values()}
    for control in blind.values():
        if control.must == "fail":
            # 8 or more of 13 by a chance of 1/4 each: 0.3 %.
            assert control.count.solved < 8


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::attributionlab.AttributionWarning")  # zeros, kinks
@pytest.mark.parametrize(
    ("name", "kind", "color"),
    [("parity", "mixed", "#8a63b0"), ("several-objects", "not asked", "#9aa0a6")],
)
def test_a_report_shows_what_has_no_sign_and_misses_nothing_for_it(tmp_path, name, kind, color):
    report = al.faithfulness_test("saliency", [al.load(name, image_size=36)], n=2)
    [result] = report.environments
    where = result.signless[kind]
    assert where.any()
    assert not (where & (result.truth != 0)).any()
    for example in result.examples:
        assert np.array_equal(example.signless[kind], where[example.sample])
        if kind == "not asked":
            assert (example.attribution[example.signless[kind]] == 0).all()
    # The split of 1 - F1 is exact up to the rounding of some thousand float64 numbers in [0, 1].
    assert sum(result.evidence.shares.values()) == pytest.approx(1 - result.claim_f1, abs=1e-12)
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.search(rf'fill="{color}"[^>]*/></svg>{kind}', page)


@pytest.mark.long
@WORLDS
def test_an_image_is_degenerate_where_a_tie_or_the_game_says_so(worlds, name):
    """An output that differs from the baseline's answers before the game does; the game agrees."""
    rule, rng = worlds[name].counting, np.random.default_rng(0)
    images, _ = worlds[name].batch(6)
    palette = torch.tensor(list(rule.places.shades.values()), dtype=images.dtype)  # (K, shades, 3)
    background = torch.tensor(rule.background, dtype=images.dtype)
    found = set()
    for image in images:
        for _ in range(4):
            shown = image.clone()  # without some of the colors
            gone = rng.random(len(palette)) < rng.choice([0.0, 0.3, 0.6, 1.0])
            for color in palette[gone].flatten(0, 1):
                shown[:, (image == color[:, None, None]).all(0)] = background[:, None]
            logits = sorted(rule.outputs(shown[None])[0].tolist())
            if rule.names:
                expected = logits[-1] == logits[-2]
            else:
                expected = not bool(rule.game(shown, 0, "logit").asked().relevant.any())
            assert rule.is_degenerate(shown) == expected
            found.add(expected)
    assert found == {True, False}
