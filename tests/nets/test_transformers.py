"""Rules as transformers: equal to networks of convolutions bit for bit, with heads that are places."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
from attributionlab.base import EXACT_STEPS, AttributionLabError
from attributionlab.cli import app as cli
from attributionlab.show import place_drawing
from attributionlab.worlds.nets import camouflaged, heads_of
from attributionlab.worlds.nets.transformers import GAP, STEEP, TRANSFORMERS, Head, groups


def as_kinds(env):
    return {name: env.with_implementation(name) for name in TRANSFORMERS}


def shown(env, other):
    """Samples, and integers from anywhere in the box, or other places of known colors."""
    images, _ = env.batch(3)
    if other.network.equal_on == "palette":
        pixels = images.permute(0, 2, 3, 1).reshape(-1, images.shape[1])
        order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0))
        mixed = pixels[order].reshape(images.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2)
    else:
        drawn = torch.Generator().manual_seed(0)
        mixed = torch.randint(0, env.max_value + 1, images.shape, generator=drawn).float()
    return torch.cat([images, mixed])


def attention_of(env, images):
    """What each softmax of a network returns, (B, heads, tokens, tokens)."""
    seen = []
    [softmax] = [
        m for m in env.model.get_submodule("transformer").modules() if isinstance(m, nn.Softmax)
    ]
    handle = softmax.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    with torch.no_grad():
        env.model(images)
    handle.remove()
    return seen[0]


@pytest.mark.parametrize("name", al.environments())
def test_all_kinds_equal_the_network_of_the_catalog_bit_for_bit(name):
    env = al.load(name, image_size=24)
    for other in as_kinds(env).values():
        images = shown(env, other)
        with torch.no_grad():
            expected = env.model(images)
            assert torch.equal(other.model(images), expected)
            assert torch.equal(other.model.double()(images.double()), expected.double())
        assert all(budget.steps <= EXACT_STEPS for budget in other.network.budgets)
        assert {"attention scores", "attention"} <= {each.layer for each in other.network.budgets}
        redundant = bool(env.network.effective.get("redundant_strength"))
        assert (other.network.equal_on == "palette") == redundant


@pytest.mark.parametrize("side", [13, 22, 45, 46])
@pytest.mark.parametrize("name", ["quadrants", "stripes-or-checks", "watermark-read"])
def test_regions_that_are_no_powers_of_two_take_several_heads(name, side):
    env = al.load(name, image_size=side)
    other = env.with_implementation("transformer")
    images = shown(env, other)
    with torch.no_grad():
        assert torch.equal(other.model(images), env.model(images))
    for head in other.model.transformer.heads:
        assert len(head.patches).bit_count() == 1


def test_a_count_in_a_ring_is_the_rule_s_own():
    """The ring cuts through patches, which then tell their part of it."""
    env = al.world("max(red@ring - blue@center, red@left)", image_size=30)
    other = env.with_implementation("transformer")
    images = shown(env, other)
    assert other.model(images).unique().numel() > 2
    assert torch.equal(other.model(images), env.model(images))
    named = {count for head in other.model.transformer.heads for count in head.counts}
    assert named == {"red@ring", "blue@center", "red@left"}


def test_attention_is_one_share_of_each_patch_of_the_head_s_place_and_nothing_elsewhere():
    env = al.load("quadrants", image_size=24, implementation="transformer")
    images, _ = env.batch(2)
    heads = env.model.transformer.heads
    assert [head.place for head in heads] == [
        "rows 1 to 4, columns 1 to 4",
        "rows 1 to 4, columns 5 to 8",
        "rows 5 to 8, columns 1 to 4",
        "rows 5 to 8, columns 5 to 8",
    ]
    for dtype in (torch.float32, torch.float64):
        env.model.to(dtype)
        attention = attention_of(env, images.to(dtype))
        for head, place in enumerate(heads):
            expected = torch.zeros(65)
            expected[[1 + patch for patch in place.patches]] = float(Fraction(1, 16))
            assert torch.equal(attention[:, head, 0], expected.to(attention).expand(2, -1))
            assert (attention[:, head, 1:, 0] == 1).all()  # patches attend to the class token


def test_scores_lie_a_gap_apart():
    env = al.load("quadrants", image_size=24, implementation="transformer")
    attention = env.model.transformer.blocks[0].attention
    tokens = (
        env.model.transformer.pos_embed + torch.eye(1, 65).T[None] * env.model.transformer.cls_token
    )
    query, key = (
        each(tokens).reshape(1, 65, attention.heads, attention.size).transpose(1, 2)
        for each in (attention.query, attention.key)
    )
    scores = query @ key.transpose(-2, -1) / attention.size**0.5
    assert scores.unique().tolist() == [-GAP, 0]


@pytest.mark.parametrize("part", ["key", "query", "value", "projection"])
def test_a_broken_head_is_seen(part):
    env = al.load("quadrants", image_size=24)
    other = env.with_implementation("transformer")
    with torch.no_grad():
        weight = getattr(other.model.transformer.blocks[0].attention, part).weight
        weight[tuple(weight.nonzero()[0])] = 0
    assert not next(each for each in al.verify(other).checks if each.name == "camouflage").passed


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_an_image_is_answered_alone_as_among_others_and_on_any_number_of_threads(kind):
    env = al.load("all-four", image_size=24, implementation=kind)
    images, _ = env.batch(5)
    threads = torch.get_num_threads()
    answers = []
    try:
        with torch.no_grad():
            for number in (1, 2):
                torch.set_num_threads(number)
                answers += [
                    env.model(images),
                    torch.cat([env.model(each[None]) for each in images]),
                ]
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(each, answers[0]) for each in answers)


def test_gelu_leaves_no_gradient_at_a_color_and_relu_the_paper_s():
    env = al.load("quadrants", image_size=24)
    images, _ = env.batch(2)
    gradient = {}
    for name, each in {"paper": env, **as_kinds(env)}.items():
        start = images.clone().requires_grad_()
        [gradient[name]] = torch.autograd.grad(each.model(start).sum(), start)
    assert gradient["paper"].any()
    assert torch.equal(gradient["transformer"], gradient["paper"])
    # Backward it takes exp(score - log 16), two roundings of 2.8 (2^-22 each), and some of the result.
    close = {"rtol": 1e-6, "atol": 0}
    torch.testing.assert_close(gradient["transformer-sdpa"], gradient["paper"], **close)
    assert not gradient["transformer-gelu"].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_steep_gelu_is_a_relu_of_integers(dtype):
    integers = torch.arange(-6000.0, 6000.0, dtype=dtype)
    assert torch.equal(nn.functional.gelu(STEEP * integers) / STEEP, integers.clamp(min=0))


@given(st.lists(st.integers(0, 143), unique=True))
def test_groups_are_powers_of_two_and_hold_each_member_once(members):
    found = groups(members)
    assert [each for group in found for each in group] == members
    sizes = [len(group) for group in found]
    assert all(size.bit_count() == 1 for size in sizes)
    assert sizes == sorted(set(sizes), reverse=True)


def test_places_are_said_in_words():
    whole, corners = (Head(each, (), 8, ("red",)) for each in ((0, 1, 8, 9), (0, 9)))
    assert str(whole) == "rows 1 to 2, columns 1 to 2: red"
    assert corners.place == "2 patches in rows 1 to 2, columns 1 to 2"


@pytest.mark.parametrize("name", ["quadrants", "multi-color-sum-distractors"])
def test_questions_and_truth_are_the_same_before_a_transformer(name):
    plain, other = (
        al.load(name, image_size=24, implementation=each) for each in ("paper", "transformer")
    )
    mine, others = (al.Questions(env, 3)[1] for env in (plain, other))
    assert torch.equal(mine.image, others.image)
    assert (mine.target, mine.roles, mine.values) == (others.target, others.roles, others.values)
    assert torch.equal(mine.truth("logit").signed, others.truth("logit").signed)
    with torch.no_grad():
        assert torch.equal(mine.env.model(mine.image[None]), others.env.model(mine.image[None]))


def test_a_transformer_is_not_rewritten_again():
    env = al.load("quadrants", image_size=16, implementation="transformer")
    assert env.implementations == ()
    with pytest.raises(AttributionLabError, match=r"counted by a transformer.*original network"):
        camouflaged(env.network, 0)
    with pytest.raises(AttributionLabError, match=r"counted by a transformer.*original network"):
        al.load("quadrants", image_size=16, implementation="transformer", camouflage_seed=1)


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionLabWarning")  # biases absorb
@pytest.mark.parametrize("kind", ["transformer", "transformer-sdpa"])
def test_methods_without_a_rule_for_attention_say_so(kind):
    env = al.load("quadrants", image_size=16, implementation=kind)
    images, _ = env.batch(1)
    with pytest.raises(AttributionLabError, match=r"lrp has no rule for .*: take attnlrp"):
        al.attribute("lrp", env, images, torch.zeros(1).long())
    with pytest.raises(
        AttributionLabError, match=r"no rule for .*transformer\.blocks\.0\.attention"
    ):
        al.attribute("excitation-backprop", env, images, torch.zeros(1).long())
    for method in ("attention-rollout", "chefer-lrp", "attnlrp"):
        found = al.attribute(method, env, images, torch.zeros(1).long())
        assert found.any()


def test_heads_are_named_and_drawn(tmp_path, capsys):
    path = tmp_path / "heads.png"
    assert (
        cli.main(["show", "quadrants", "--implementation", "transformer", "--draw", str(path)]) == 0
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "head 4 of 8 x 8 rows 5 to 8, columns 5 to 8: spring@bottom_right, rose" in said
    assert path.read_bytes().startswith(b"\x89PNG")
    assert cli.main(["verify", "number-checker", "--implementation", "planes"]) == 2
    assert "implementation 'planes' does not apply" in capsys.readouterr().err


def test_a_place_is_drawn_dark():
    left, right = place_drawing(2, {"left": [0, 2], "last": [3]}).axes
    assert (left.get_title(), right.get_title()) == ("left", "last")
    assert left.collections[0].get_array().flatten().tolist() == [1, 0, 1, 0]
    assert right.collections[0].get_array().flatten().tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: place_drawing(2, {}), "places are {}: name a head"),
        (lambda: place_drawing("x", {"a": [1]}), "grid is 'x': take an integer of at least 1"),
        (lambda: place_drawing(2, {"a": [9]}), "patch 9: take 0 to 3 in a grid of 2 x 2"),
        (lambda: place_drawing(2, {"a": [-1]}), "is -1: take an integer of at least 0"),
        (lambda: place_drawing(2, None), "places are None: pass a mapping"),
        (lambda: heads_of(None), "the model is of type NoneType: pass an nn.Module"),
    ],
)
def test_odd_heads_and_places_are_refused_in_one_line(call, said):
    with pytest.raises(AttributionLabError, match=said) as refused:
        call()
    assert "\n" not in str(refused.value)


def test_a_network_without_heads_that_were_made_here_has_none():
    assert heads_of(torch.nn.Linear(2, 2)) == ()


def test_building_one_draws_no_random_numbers():
    env = al.load("quadrants", image_size=16)
    before = torch.get_rng_state()
    env.with_implementation("transformer")
    assert torch.equal(torch.get_rng_state(), before)
