"""Worlds of tokens as environments: inputs, truth, questions, what they hide, and whole tests."""

import pickle
from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch
from captum.attr import (
    InternalInfluence,
    LayerConductance,
    LayerDeepLift,
    LayerFeatureAblation,
    LayerGradientXActivation,
    LayerIntegratedGradients,
)

import attributionlab as al
from alternatives import of_tokens
from attributionlab.base import AttributionLabError
from attributionlab.cli import app as cli
from attributionlab.worlds.environment.files import TOKEN_WORLDS
from attributionlab.worlds.environment.token_worlds import TokenEnvironment
from attributionlab.worlds.tokens.languages import LANGUAGES

# What a report remarks on (kinks, noise of few samples) is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::attributionlab.AttributionLabWarning")
NAMES = sorted(LANGUAGES)
QUESTIONS = 12


@cache
def world(name: str) -> TokenEnvironment:
    return al.load(name)


@cache
def questions(name: str) -> list[al.Question]:
    asked = al.Questions(world(name), seed=1)
    return [asked[index] for index in range(QUESTIONS)]


def count(method, name, n=16, **options):
    report = al.faithfulness_test(method, name, n=n, also=None, isolated=False, **options)
    assert f"{n} questions of 15 tokens each" in repr(report)
    [found] = report.environments
    assert found.count.asked == n
    return found.count.solved


def test_the_list_of_worlds_is_the_languages():
    assert sorted(TOKEN_WORLDS) == NAMES == al.environments("tokens")
    assert not {*NAMES} & {*al.environments()}  # a name means one thing


@pytest.mark.parametrize("name", NAMES)
def test_images_ids_and_labels_fit(name):
    env = world(name)
    images, labels = env.batch(16, seed=2)
    assert images.shape == (16, *env.image_shape)
    assert torch.equal(env.one_hot(env.ids(images)), images)
    with torch.no_grad():
        outputs = env.model(images)
    found = outputs.argmax(1) if env.task == "classification" else outputs[:, 0]
    assert torch.equal(found.long(), labels)
    truth = env.truth(images, env.targets(labels))
    assert truth.relevant.flatten(1).any(1).all()
    assert torch.equal(images[3], env.batch(5, seed=2)[0][3])
    assert [each != "[PAD]" for each in env.said(images[0])] == [True] * 15
    again = pickle.loads(pickle.dumps(env))
    assert torch.equal(again.model(images), outputs)


@pytest.mark.parametrize("name", NAMES)
def test_shapley_values_are_those_of_the_network(name):
    """The network itself over 10 random orders of deletion telescopes to the same total."""
    env = world(name)
    image, label = (each[0] for each in env.batch(1, seed=3))
    target = int(env.targets(label[None])[0])
    values = env.shapley(image, target)
    empty = env.baseline.expand_as(image)
    with torch.no_grad():
        whole, nothing = env.model(torch.stack([image, empty]))[:, target]
    assert values.sum() == pytest.approx(float(whole - nothing), abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_question_has_words_in_other_roles_and_a_truth(name):
    asked = al.Questions(world(name), seed=5)
    own, other = asked[0], asked.twin(0)
    assert torch.equal(own.image, other.image)
    assert torch.equal(asked[0].truth("logit").signed, own.truth("logit").signed)
    assert not own.truth("logit").signed.equal(other.truth("logit").signed)
    for question in (own, other):
        truth = question.env.truth(question.image[None], torch.tensor([question.target]))
        assert torch.equal(truth.signed, question.truth("logit").signed)
        with torch.no_grad():
            outputs = question.env.model(question.image[None])
        assert torch.equal(outputs.long(), question.env.counting.outputs(question.image[None]))
    references = asked.reference_images(own, 3)
    with torch.no_grad():
        outputs = own.env.model(references)
    assert torch.equal(outputs.long(), own.env.counting.outputs(references))


@pytest.mark.parametrize(
    ("name", "thing"), [(name, thing) for name in NAMES for thing in LANGUAGES[name].hidden]
)
def test_what_is_hidden_has_as_many_alternatives(name, thing):
    """Positive sets are disjoint, all of them asked; a sign turns all; queries share one token."""
    number = LANGUAGES[name].hidden[thing]
    for question in questions(name):
        truths = of_tokens(question, thing)
        assert torch.equal(truths[0].signed, question.truth("logit").signed)
        if thing == "sign":
            assert len(truths) == number
            assert truths[0].signed.any()
            assert torch.equal(truths[1].signed, -truths[0].signed) or name == "more-words"
        if thing == "context":
            # A map solves at most two of seven: 3 h > P + 3 for three would need 6 q > 9.
            assert len(truths) == 7
            sets = [truth.relevant.flatten() for truth in truths]
            assert all(int(each.sum()) == 3 and each[-1] for each in sets)
            assert all(int((a & b).sum()) == 1 for a, b in combinations(sets, 2))
            assert 2 / len(truths) <= 1 / number
        else:
            assert len(truths) == number
            for one, two in combinations(truths, 2):
                assert not (one.positive & two.positive).any()
                assert bool(one.asked[two.positive].all())
            assert all(truth.relevant.any() for truth in truths)


def test_gates_in_scores_are_not_seen_by_gradients_and_gates_in_values_are():
    """One function, bit for bit: input x gradient solves no question of one, and all of the other."""
    assert [count("input-x-gradient", f"retrieve-{way}") for way in ("scores", "values")] == [0, 16]
    assert [count("feature-ablation", f"retrieve-{way}") for way in ("scores", "values")] == [
        16,
        16,
    ]


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_solves_all_and_chance_does_not(name):
    env = world(name)
    assert count("oracle", env, n=13) == 13
    assert count("random", env, n=13) < 10


# What does not see something

SETTING = ("halves", "more-words", "retrieve-scores", "retrieve-values", "word-counts")


def position_only(model, inputs, targets):
    """The same places in each sequence."""
    return torch.linspace(0, 1, inputs.shape[-1]).expand(len(inputs), -1)


def word_only(model, inputs, targets):
    """Each word's output alone at every place, on the whole: blind to where the word stands."""
    ids = inputs[:, :, 0].argmax(1)
    maps = torch.zeros(ids.shape)
    with torch.no_grad():
        for row, target, one in zip(ids, targets, maps, strict=True):
            for word in row.unique():
                everywhere = torch.where(row == word, row, 0)
                only = torch.full_like(row, int(word))
                outputs = model(torch.stack([everywhere, only, 0 * row]))[:, target]
                one[row == word] = (outputs[0] + outputs[1] - 2 * outputs[2]).sign()
    return maps


def target_only(model, inputs, targets):
    """A word for each target, whatever the network: blind to roles."""
    ids = inputs[:, :, 0].argmax(1)
    return (ids == 1 + targets[:, None]).float()


def most_frequent(model, inputs, targets):
    """The word that occurs most often."""
    ids = inputs[:, :, 0].argmax(1)
    return (ids == ids.mode(1).values[:, None]).float()


@pytest.mark.long
@pytest.mark.parametrize("method", [position_only, word_only, target_only, most_frequent])
def test_blind_methods_fail_in_the_set(method):
    report = al.faithfulness_test(method, "tokens", n=20, also=None, isolated=False)
    assert report.verdict == "fail"
    assert report.not_excluded == []


@pytest.mark.long
def test_the_oracle_passes_the_set():
    report = al.faithfulness_test("oracle", "tokens", n=13, also=None)
    assert report.verdict == "pass"
    assert [each.name for each in report.environments] == list(SETTING)


# Methods of users


def embedding_gradient(model, ids, targets, *, embedding):
    """Input x gradient over embeddings, for the words that [PAD] has not."""
    embedded = embedding(ids).detach().requires_grad_()
    outputs = model(inputs_embeds=embedded).gather(1, targets[:, None]).sum()
    return (torch.autograd.grad(outputs, embedded)[0] * embedded).sum(-1).detach()


def test_methods_of_ids_and_embeddings_are_asked_as_those_of_images():
    assert count(embedding_gradient, "retrieve-values") == 16
    assert count(embedding_gradient, "retrieve-scores") == 0
    assert count(LayerIntegratedGradients, "word-counts") == 16


@pytest.mark.parametrize(
    "method",
    [
        LayerIntegratedGradients,
        LayerGradientXActivation,
        LayerDeepLift,
        LayerFeatureAblation,
    ],
)
def test_captums_methods_of_layers_attach_to_the_embedding(method):
    env = world("word-counts")
    images, labels = env.batch(4)
    maps = al.attribute(method, env, images, labels)
    assert maps.shape == (4, 1, 1, 15)
    # Counts are linear in the embeddings: each token that counts has 1, by steps of float32.
    assert torch.allclose(maps, env.truth(images, labels).positive.to(maps), atol=1e-5)


def test_methods_of_attention_find_the_tokens_behind_registers():
    """The second head attends to the latest of the deepest tokens."""
    env = world("deepest")
    images, _ = env.batch(4)
    zeros = torch.zeros(4).long()
    maps = al.attribute("attention-rollout", env, images, zeros)
    for ids, found in zip(env.ids(images), maps, strict=True):
        depths = ((ids == 1).long() - (ids == 2).long()).cumsum(0)
        assert int(found.argmax()) == int((depths == depths.max()).nonzero()[-1])


@pytest.mark.parametrize("method", [LayerConductance, InternalInfluence])
def test_steps_between_ids_are_refused_with_the_reason(method):
    env = world("word-counts")
    with pytest.raises(AttributionLabError, match=r"ids are torch.float32.* interpolates inputs"):
        al.attribute(method, env, *env.batch(1))


def test_ids_and_embeddings_pass_by_the_names_of_the_transformers_library():
    env = world("word-counts")
    ids = env.ids(env.batch(4)[0])
    outputs = env.model(ids)
    assert torch.equal(env.model(input_ids=ids), outputs)
    assert torch.equal(env.model(inputs_embeds=env.embedding(ids)), outputs)


def test_captums_methods_of_layers_are_tested_with_all_that_a_report_says():
    report = al.faithfulness_test(LayerGradientXActivation, "word-counts", n=2)
    assert report.environments[0].count.solved == 2
    assert "15 tokens each" in report.text()


def test_what_has_no_places_is_not_drawn(tmp_path, capsys):
    assert cli.main(["show", "last", "--draw", str(tmp_path / "heads.png")]) == 2
    refused = capsys.readouterr().err
    assert "last is a world of tokens, whose heads have no image positions to draw" in refused
    assert cli.main(["show", "last"]) == 0
    said = capsys.readouterr().out
    assert "block 1, head 1      of the last token present: good, fine, bad, poor" in said


def test_one_instance_of_captum_explains_one_network():
    env = world("word-counts")
    instance = LayerIntegratedGradients(env.model, env.embedding)
    report = al.faithfulness_test(instance, env, n=13, one_network=True, also=None)
    assert report.environments[0].count.solved == 13


@pytest.mark.parametrize("method", ["lime", "kernel-shap", "occlusion", "rise"])
def test_a_token_is_a_segment_by_default(method):
    """Each value belongs to one token: no two of a linear rule's are equal by construction alone."""
    env = world("word-counts")
    images, labels = env.batch(1)
    [maps] = al.attribute(method, env, images, labels)
    relevant = env.truth(images, labels).relevant[0]
    assert maps[relevant].min() > maps[~relevant].max()


# Bad input


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: al.load("retrieve-scores", image_size=9), "or take an environment of images"),
        (lambda: al.load("retrieve-scores", length=16), "length is 16: take one of 7, 15, 31"),
        (lambda: al.load("last", length=31), "can be enumerated"),
        (lambda: al.load("word-counts", length=31), "also be enumerated in other roles"),
        (lambda: al.load("after-marker", length=31), "also be enumerated in other roles"),
        (lambda: al.load("retreive-scores"), "retrieve-scores"),
        (lambda: al.environments("words"), "'images' or 'tokens'"),
        (lambda: al.token_world("min(a, b@left)"), "no region named 'left'"),
        (lambda: al.token_world("min(zzz, b)"), "no word named 'zzz'"),
        (lambda: al.token_world("min(a, b)@first_half"), r"one word, .* as in 2\*\(a@first_half\)"),
        (lambda: al.token_world("a@3"), "write a name, as in a@first_half"),
        (lambda: al.token_world("first_half"), "write word@first_half"),
        (lambda: al.token_world("3 > 2"), "let it depend on a word"),
        (lambda: al.token_world("a + b", ["a", "b"]), "add one that it does not"),
        (lambda: al.token_world("a", ["a", "b c"]), "'b c'"),
        (lambda: al.token_world("a > 100"), "fewer words or another rule"),
        (lambda: world("last").one_hot(torch.zeros(1, 14, dtype=torch.int64)), r"\(B, 15\)"),
        (lambda: world("last").one_hot(torch.full((1, 15), 99)), "ids hold 99"),
        (lambda: world("last").truth(torch.zeros(1, 11, 1, 15), [0]), "one-hot"),
        (lambda: world("last").truth(world("last").batch(1)[0], [1]), "target"),
        (lambda: world("last").truths(None, None), "one definition"),
        (lambda: world("last").truth(0.5 * world("last").batch(1)[0], [0]), "one 1 for each token"),
        (lambda: world("last").said(world("last").batch(1)[0]), "image is .*words, 1, tokens"),
        (lambda: world("last").recipe, "world of tokens"),
        (lambda: world("last").camouflaged(1), "only network, a transformer, cannot be "),
        (lambda: world("last").with_implementation("natural"), "cannot be "),
        (lambda: count("saliency", "last", implementations="transformer-gelu"), "only one network"),
        (
            lambda: world("last").model(world("last").batch(1)[0], inputs_embeds=0),
            "pass one of them",
        ),
        (lambda: world("last").model(), "inputs are of type NoneType: pass a tensor of ids"),
        (lambda: world("last").model(np.zeros((1, 15), int)), "inputs are of type ndarray"),
        (
            lambda: world("last").model(world("last").batch(1)[0].double()),
            r"by inputs.to\(torch.flo",
        ),
        (
            lambda: world("last").model(inputs_embeds=torch.zeros(1, 15, 29).half()),
            "are torch.float16",
        ),
        (lambda: count("saliency", "word-counts", explain="probability"), "only output is 'logit'"),
        (lambda: count("saliency", "last", claim="positive-smoothed"), "about pixels"),
        (lambda: count("saliency", "last", claim="agreed"), "about pixels"),
        (lambda: al.faithfulness_test("saliency", "last", also="truths"), "about pixels"),
        (lambda: al.compare(["saliency"], "last", also="truths"), "about pixels"),
        (lambda: count(unsummed, "last"), r"attributions.sum\(-1\)"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, said):
    with pytest.raises(AttributionLabError, match=said) as refused:
        call()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("word", ["equivalent", "camouflage:1"])
def test_worlds_of_tokens_are_not_rewritten_beside_a_test(word):
    with pytest.raises(
        AttributionLabError, match="consists of tokens: pass an environment of images"
    ):
        al.faithfulness_test("saliency", "last", n=2, also=word)


def test_what_images_alone_have_is_absent():
    assert not hasattr(world("last"), "recipe")
    assert getattr(world("last"), "recipe", None) is None


def unsummed(model, ids, targets, *, embedding):
    return embedding(ids).detach()


TOO_LONG = ("after-marker", "last", "word-counts")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TOO_LONG])
def test_sequences_of_31_tokens_have_a_truth_in_other_roles_too(name):
    env = al.load(name, length=31)
    images, labels = env.batch(2)
    assert env.truth(images, env.targets(labels)).relevant.any()
    asked = al.Questions(env, seed=3)
    for question in (asked[index] for index in range(4)):
        for roles in range(1 + len(env.language.turns)):
            question.world.roles.truth(roles, question.target, "logit")


def test_a_rule_makes_a_world():
    env = al.token_world("min(a, b@first_half)")
    images, labels = env.batch(4)
    assert torch.equal(env.model(images)[:, 0].long(), labels)
    truth = env.truth(images, [0] * 4)
    ids = env.ids(images)
    a, b, first = ids == 1, ids == 2, torch.arange(15) < 7
    assert torch.equal(truth.relevant[:, 0, 0] & truth.asked[:, 0, 0], truth.positive[:, 0, 0])
    assert not (truth.positive[:, 0, 0] & ~(a | (b & first))).any()
    assert np.isfinite(env.shapley(images[0]).numpy()).all()
