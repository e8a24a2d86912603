"""Trained networks in files: certified ones alone are written, and what was changed is not read."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.base import is_made_here
from attributionlab.worlds.environment.catalog import from_spec, load_call
from attributionlab.worlds.environment.files import specs_folder, trained_networks
from attributionlab.worlds.learned import examination
from attributionlab.worlds.learned.architectures import ARCHITECTURES, made
from attributionlab.worlds.learned.examination import LearnedCertificate, examine
from attributionlab.worlds.learned.pictures import INTERVENTIONS
from attributionlab.worlds.learned.trained import (
    TrainedNetwork,
    lessons_of,
    make_trained,
    rule_of,
    stated_rule,
)
from attributionlab.worlds.learned.training import IMAGE_SIDE, LEARNING_IMAGES, Recipe, rounded
from cases import loaded
from refusals import refusal_of, refused

MOST_BYTES = 8_000_000
KINDS = ("held_out", *INTERVENTIONS, "beside_colors")
PASSED = LearnedCertificate(dict.fromkeys(KINDS, 1.0), dict.fromkeys(KINDS, 1.0), 1.0, 1.0, 0.0)
HOW = {"image_size": 24}
env = loaded("quadrants", **HOW)


@pytest.fixture
def stated(env):
    """A network of first weights that says of itself what a trained one says."""
    torch.manual_seed(0)
    network = rounded(made("cnn", 1, 24))
    return TrainedNetwork(network, rule_of(env), Recipe("cnn", 0, 100), PASSED)


@pytest.fixture
def path(stated, tmp_path):
    stated.write(tmp_path / "a.safetensors")
    return tmp_path / "a.safetensors"


def entries(path):
    with safe_open(path, framework="pt") as file:
        return file.metadata()


def signed(path, tensors=None, **changed):
    """Write a file again with other content and the digest of that."""
    kept = {key: text for key, text in (entries(path) | changed).items() if key != "digest"}
    from attributionlab.worlds.learned.trained import _digest

    tensors = load_file(path) if tensors is None else tensors
    save_file(tensors, path, kept | {"digest": _digest(tensors, kept)})


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_file_has_what_was_written(env, tmp_path, architecture):
    torch.manual_seed(0)
    network = rounded(made(architecture, 1, 24))
    written = TrainedNetwork(network, rule_of(env), Recipe(architecture, 3, 100), PASSED)
    path = tmp_path / "a.safetensors"
    written.write(path)
    found = TrainedNetwork.read(path)
    assert found[1:] == written[1:]
    assert found.digest == written.digest == entries(path)["digest"]
    images = env.batch(2)[0]
    assert torch.equal(found.network(images), network(images))
    assert not found.network.training
    assert {value.dtype for value in load_file(path).values()} <= {torch.float16, torch.int64}
    assert is_made_here(path)  # the command may write it again
    assert path.stat().st_size < 150_000


def unread(path, said):
    refused(TrainedNetwork.read, {"path": path}, {}, said)


def test_a_network_that_is_not_certified_is_not_written(stated, tmp_path):
    failed = stated._replace(certificate=LearnedCertificate(**PASSED.__dict__ | {"signs": 0.5}))
    with pytest.raises(AttributionLabError, match=r"not certified: .*signs .* 0\.500, less than 0"):
        failed.write(tmp_path / "a.safetensors")
    assert not [*tmp_path.iterdir()]


def test_a_changed_file_is_refused(path):
    tensors = load_file(path)
    tensors["0.bias"][0] += 1
    save_file(tensors, path, entries(path))
    unread(path, "a.safetensors has the digest ... changed after")


@pytest.mark.parametrize("key", ["rule", "recipe", "certificate"])
def test_a_changed_statement_is_refused(path, key):
    save_file(load_file(path), path, entries(path) | {key: entries(path)[key] + " "})
    unread(path, "changed after certification")


def test_a_failed_certificate_is_refused_though_its_digest_is_right(path):
    failed = LearnedCertificate(**PASSED.__dict__ | {"shapley": 0.9})
    signed(path, certificate=failed.to_text())
    unread(path, "not certified: ... Shapley values ... 0.900")


def test_weights_of_another_shape_are_refused(path):
    tensors = load_file(path)
    signed(path, tensors | {"0.weight": torch.zeros(32, 3, 5, 5, dtype=torch.float16)})
    unread(path, "0.weight has the shape (32, 3, 5, 5), and a")
    signed(path, {name: value for name, value in tensors.items() if name != "0.weight"})
    unread(path, "0.weight has the shape None")
    signed(path, tensors, recipe=json.dumps(Recipe("vit", 0, 100)._asdict(), sort_keys=True))
    unread(path, "a vit for this rule has")
    signed(path, tensors | {"0.weight": tensors["0.weight"].to(torch.complex64)})
    unread(path, "is not a trained network of this version")


def test_weights_that_are_no_numbers_are_refused(path):
    tensors = load_file(path)
    for value in (float("nan"), float("inf")):
        signed(path, tensors | {"0.bias": torch.full_like(tensors["0.bias"], value)})
        unread(path, "a.safetensors: 0.bias has NaN or infinite weights")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"schema": "2"}, "is not a trained network of this version"),
        ({"written by": "another"}, "is not a trained network of this version"),
        ({"recipe": "{}"}, "which this version does not know"),
        ({"recipe": "x"}, "which this version does not know"),
        ({"recipe": '{"architecture": ["cnn"], "samples": 1, "seed": 0}'}, "has the recipe"),
        ({"recipe": '{"architecture": "cnn", "samples": null, "seed": 0}'}, "has the recipe"),
        ({"recipe": "[" * 100_000}, "has the recipe '[["),
        ({"certificate": "{}"}, "has the certificate '{}', which this version does not know"),
        ({"certificate": PASSED.to_text().replace("1.0", "Infinity")}, "has the certificate"),
        ({"certificate": PASSED.to_text().replace("1.0", "9" * 400)}, "has the certificate"),
        ({"rule": '{"image_size": 24, "outputs": -1}'}, "has the rule"),
        ({"rule": '{"image_size": 1000000, "outputs": 1}'}, "has the rule"),
        ({"rule": '{"image_size": 24, "outputs": 1e400}'}, "has the rule"),
        ({"rule": '{"outputs": 1, "image_size": 24}'}, "has the rule"),  # not as it is written
        ({"more": "x"}, "is not a trained network of this version"),
        ({"rule": "{}"}, "has the rule '{}', which this version does not know"),
    ],
)
def test_other_statements_are_refused(path, changed, said):
    signed(path, **changed)
    unread(path, said)


def test_other_files_are_refused(path, tmp_path):
    (tmp_path / "cut.safetensors").write_bytes(path.read_bytes()[:-10])
    (tmp_path / "text.safetensors").write_text("x")
    for name in ("cut", "text"):
        unread(tmp_path / f"{name}.safetensors", "truncated or not a safetensors file")
    save_file({"a": torch.zeros(1)}, tmp_path / "plain.safetensors")
    unread(tmp_path / "plain.safetensors", "is not a trained network")


def test_an_environment_with_a_trained_network_has_the_rules_images_and_truth(env, path, stated):
    other = al.load("quadrants", **HOW, trained=str(path))
    images, labels = env.batch(2)
    assert torch.equal(other.batch(2)[0], images)
    assert torch.equal(other.batch(2)[1], labels)
    targets = env.targets(labels)
    assert torch.equal(other.truth(images, targets).signed, env.truth(images, targets).signed)
    assert torch.equal(other.shapley(images[0], 0), env.shapley(images[0], 0))
    assert torch.equal(other.model(images), stated.network(images))
    assert other.layers["gradcam"] is other.layers["iba"] is other.model[5]
    assert other.spec.digest != env.spec.digest
    assert other.spec.is_trained
    assert "exactness            none: weights are trained" in other.summary()
    assert f"trained={str(path)!r}" in load_call(other)
    again = from_spec(json.loads(json.dumps(other.spec.__dict__)))
    assert torch.equal(again.model(images), other.model(images))
    assert again.spec.digest == other.spec.digest


def test_a_classifier_has_probabilities_of_a_trained_network(tmp_path):
    env = al.load("multi-color-sum-distractors", **HOW)
    torch.manual_seed(0)
    trained = TrainedNetwork(rounded(made("vit", 4, 24)), rule_of(env), Recipe("vit", 0, 1), PASSED)
    trained.write(tmp_path / "a.safetensors")
    other = al.load("multi-color-sum-distractors", **HOW, trained=str(tmp_path / "a.safetensors"))
    images, _ = other.batch(2)
    assert other.classes == 4
    logits = other.model(images) / other.temperature
    assert torch.allclose(other.softmax_model(images), logits.softmax(1), atol=1e-6)
    # Redundant channels are the hand-weighted network's: no color is unseen here.
    other.truth(images + (images == 20), [0, 0])


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"image_size": 48}, "trained with image_size 24, but here it is 48"),
        ({"rule": "orange"}, "trained with rule ... here it is 'orange': use"),
        ({"trained": "no.safetensors"}, "no trained network at 'no.safetensors': check"),
        ({"trained": "cnn.99"}, "trained is 'cnn.99': ... attributionlab train qu"),
        ({"name": "parity", "trained": "cnn.0"}, "parity has none"),
        ({"trained": 3}, "trained is 3: pass a text"),
        ({"shades": 3, "spread": 20}, "shades is 3, but ... on flat colors: leave shades"),
        ({"trained_digest": "0"}, "and not '0', as trained_digest says: take the network"),
    ],
)
def test_another_rule_size_or_file_is_refused(path, how, said):
    refused(al.load, {"name": "quadrants", **HOW, "trained": str(path)}, how, said)


def test_refusals_name_the_world_once_and_the_constant_that_is_wrong(path):
    for how, said in (
        ({"image_size": 48, "trained": str(path)}, f"quadrants: trained is {str(path)!r}, which"),
        ({"trained_digest": "0"}, "quadrants: trained_digest is given without trained: name"),
        ({"implementation": "Trained"}, "quadrants: implementation is 'Trained': did you mean 't"),
    ):
        assert refusal_of(lambda how=how: al.load("quadrants", **how)).startswith(said)


def test_a_file_that_was_replaced_is_refused_where_the_environment_is_made_again(path, stated):
    spec = al.load("quadrants", **HOW, trained=str(path)).spec
    stated._replace(recipe=Recipe("cnn", 1, 100)).write(path)
    with pytest.raises(AttributionLabError, match=r"whose digest is .* as trained_digest says"):
        from_spec(spec.__dict__)


def test_what_needs_an_exact_network_is_refused_in_one_line(path):
    env = al.load("quadrants", **HOW, trained=str(path))
    for call in (
        lambda: env.camouflaged(0),
        lambda: env.with_implementation("plateau"),
        lambda: al.verify(env),
        lambda: al.Questions(env),
        lambda: al.load("quadrants", **HOW, trained=str(path), camouflage_seed=1),
        lambda: al.load("quadrants", **HOW, trained=str(path), implementation="plateau"),
        lambda: al.faithfulness_test("saliency", env, n=2),
    ):
        assert "network" in refusal_of(call)


def test_a_method_is_scored_on_a_trained_network(path):
    env = al.load("quadrants", **HOW, trained=str(path))
    images, labels = env.batch(2)
    targets = env.targets(labels)
    shown = images.clone().requires_grad_()
    env.model(shown).sum().backward()
    maps = al.attribute("saliency", env, images, targets)
    expected = shown.grad.sum(1, keepdim=True)
    assert torch.allclose(maps, expected.to(maps), rtol=1e-4)
    with pytest.warns(al.AttributionWarning, match="sums over patches"):
        report = al.faithfulness_test("saliency", env, n=2, one_network=True)
    assert report.environments[0].name == "quadrants (trained)"
    assert report.environments[0].implementation == "trained"


def test_stated_rules_differ_with_all_that_decides_what_is_computed():
    def stated(name="quadrants", **how):
        env = al.load(name, image_size=24, **how)
        assert rule_of(env) == stated_rule(env.spec.constants, env.counting, env.classes)
        return rule_of(env)

    own = stated()
    plain = stated("multi-color-sum")
    assert stated("multi-color-sum", accumulator="uniform") == plain  # how it is written
    assert stated(equal_areas=False, area=(0.004, 0.02)) == own  # and what images show
    others = {
        stated("all-four"),
        stated(background=(21, 20, 20)),
        plain,
        stated("multi-color-sum-distractors"),
        stated(rule="orange"),
    }
    assert len(others | {own}) == 6


def test_making_one_trains_and_examines(monkeypatch):
    from learned.worlds import lessons_of as few
    from learned.worlds import world

    monkeypatch.setattr(examination, "SHAPLEY_IMAGES", 2)
    env = world("red", "blue", "green")
    lessons = few(env, 20, 20)
    found = make_trained(env, "patch-cnn", seed=1, samples=256, lessons=lessons)
    assert found.recipe == Recipe("patch-cnn", 1, 256)
    assert found.certificate == examine(found.network, lessons.questions)
    assert not found.certificate.passed


# The networks that come with the package


def test_shipped_networks_are_few_enough_and_named_by_what_they_are():
    files = [*(specs_folder("designs") / "trained").iterdir()]
    assert {path.stem for path in files} == {*trained_networks()}
    assert trained_networks()
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES


@pytest.mark.parametrize("name", trained_networks())
def test_a_shipped_network_is_read_and_is_near_to_its_rule(name):
    world, architecture, seed = name.split(".")
    env = al.trained_environment(world, architecture, int(seed))
    dataset = {
        key: value for key, value in LEARNING_IMAGES.get(world, {}).items() if key == "dataset"
    }
    exact = al.load(world, **HOW, **dataset)
    assert env.recipe == exact.recipe
    images, _ = exact.batch(8, seed=5)
    found = TrainedNetwork.read(specs_folder("designs") / "trained" / f"{name}.safetensors")
    assert found.recipe[:2] == (architecture, int(seed))
    error = (env.model(images) - exact.model(images)).square().mean()
    # R^2 is at least 0.99 on the images that it learned from, which vary more than these.
    assert error < 0.05 * exact.model(exact.batch(64, seed=6)[0]).square().mean().clamp(min=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", trained_networks())
def test_the_certificate_of_a_shipped_network_is_found_again(name):
    """Tolerance: another processor rounds otherwise, 1e-6 of an output; counts of right signs stay."""
    world = name.split(".")[0]
    env = al.load(world, image_size=IMAGE_SIDE, **LEARNING_IMAGES.get(world, {}))
    found = TrainedNetwork.read(specs_folder("designs") / "trained" / f"{name}.safetensors")
    again = examine(found.network, lessons_of(env).questions)
    assert again.agreement == pytest.approx(found.certificate.agreement, abs=0.003)
    assert again.signs == pytest.approx(found.certificate.signs, abs=0.01)
    assert again.shapley == pytest.approx(found.certificate.shapley, abs=1e-3)
    assert again.null == pytest.approx(found.certificate.null, abs=0.01)
