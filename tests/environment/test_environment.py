"""Environments: deterministic data, right labels, truth masks, and what is refused with which words."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import attributionlab as al
import oracles
from attributionlab.worlds import known_colors
from attributionlab.worlds.environment.samples import Accept
from cases import SMALL_ENVIRONMENTS, SMALL_WORLDS

NAMES = [name for name, _ in SMALL_ENVIRONMENTS]


@pytest.fixture(scope="module")
def small() -> dict[str, al.Environment]:
    """Every environment of the catalog at a small size; tests do not change them."""
    return {name: al.load(name, **overrides) for name, overrides in SMALL_ENVIRONMENTS}


def sources(env: al.Environment) -> tuple[list[tuple[int, ...]], int | None]:
    """(values that count, modulus) as the constants of the files say it."""
    constants = env.spec.constants
    modulus = constants.get("modulus")
    if "colors" in constants:
        return list(constants["colors"]), modulus
    return [(constants.get("number", 1),)], modulus


def same(one: al.Sample, other: al.Sample) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def refused(text: str):
    return pytest.raises(al.AttributionLabError, match=re.escape(text))


def test_every_environment_of_the_catalog_is_tested_here():
    assert sorted([*NAMES, *(name for name, _ in SMALL_WORLDS)]) == al.environments()


# Data sets


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_what_loops_over_the_pixels_count(small, name):
    env = small[name]
    values, modulus = sources(env)
    for sample in env.dataset(4, seed=1):
        assert int(sample.label) == oracles.label(sample.image, values, modulus)


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_integers_of_the_valid_box_with_a_label_map(small, name):
    env = small[name]
    image, label, patches = env.dataset(1)[0]
    assert image.dtype == torch.float32
    assert image.shape == (env.recipe.channels, 32, 32)
    assert torch.equal(image, image.round().clamp(0, env.max_value))
    assert label.dtype == patches.dtype == torch.int64
    assert label.shape == ()
    assert patches.shape == (32, 32)
    assert bool((image.permute(1, 2, 0)[patches == 0] == env.baseline.flatten()).all())


@pytest.mark.parametrize("name", NAMES)
def test_the_network_gives_the_labels(small, name):
    env = small[name]
    images, labels = env.batch(8)
    logits = env.model(images)
    answers = logits.argmax(1) if env.task == "classification" else logits[:, 0]
    assert answers.tolist() == labels.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_depends_on_seed_and_index_alone(small, name):
    env = small[name]
    few, many = env.dataset(3, seed=5), env.dataset(9, seed=5)
    backwards = [many[index] for index in reversed(range(9))][::-1]
    assert all(same(few[index], many[index]) for index in range(3))
    assert all(same(few[index], backwards[index]) for index in range(3))
    assert same(few[-1], few[2])
    assert not same(few[0], few[1])
    assert not same(few[0], env.dataset(1, seed=6)[0])


def test_a_data_set_has_its_length_and_ends(small):
    dataset = small["multi-color-sum"].dataset(3)
    assert len(dataset) == 3
    assert len(list(dataset)) == 3
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"sample {index} of 3"):
            dataset[index]


def test_a_data_set_has_the_size_and_seed_of_its_file_unless_told_otherwise(small):
    env = small["multi-color-sum"]
    assert len(env.dataset()) == env.spec.size == 256
    other = al.Environment(replace(env.spec, size=5, seed=9), env.network, env.recipe)
    assert len(other.dataset()) == 5
    assert same(other.dataset()[0], env.dataset(1, seed=9)[0])
    assert len(other.dataset(2)) == 2


def test_a_batch_is_the_first_samples_of_the_data_set_channels_last(small):
    env = small["multi-color-sum"]
    images, labels = env.batch(3, seed=2)
    samples = list(env.dataset(3, seed=2))
    assert torch.equal(images, torch.stack([sample.image for sample in samples]))
    assert torch.equal(labels, torch.stack([sample.label for sample in samples]))
    assert images.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.long
def test_a_worker_process_makes_the_same_bytes(small):
    dataset = small["multi-color-sum-distractors"].dataset(6, seed=3)
    direct = list(dataset)
    loader = DataLoader(dataset, batch_size=4, num_workers=1, multiprocessing_context="spawn")
    batches = list(loader)
    assert all(isinstance(batch, al.Sample) for batch in batches)
    assert [len(batch.label) for batch in batches] == [4, 2]
    for field in al.Sample._fields:
        loaded = torch.cat([getattr(batch, field) for batch in batches])
        made = torch.stack([getattr(sample, field) for sample in direct])
        assert loaded.dtype == made.dtype
        assert loaded.numpy().tobytes() == made.numpy().tobytes()


# What is drawn again


@pytest.mark.parametrize("name", NAMES)
def test_no_image_has_an_empty_or_tied_truth_or_a_count_beyond_the_bound(name):
    # At 10 pixels a patch is one to three pixels wide: ties and empty images are the rule.
    overrides = {"modulus": 3, "max_count": 9} if name == "single-color-modulo" else {}
    env = al.load(name, image_size=10, patch_size=(0.1, 0.3), **overrides)
    values, modulus = sources(env)
    for image, _, _ in env.dataset(40):
        assert not oracles.is_degenerate(image, values, modulus)
        assert max(oracles.counts(image, values)) <= env.network.max_count


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("multi-color-sum", {}),
        ("single-color-modulo", {"modulus": 3, "max_count": 9}),
        ("uniform-accumulator", {"patches": 1}),
    ],
)
def test_degenerate_images_are_kept_on_request(name, overrides):
    env = al.load(name, image_size=10, patch_size=(0.1, 0.2), keep_degenerate=True, **overrides)
    values, modulus = sources(env)
    kept = [oracles.is_degenerate(sample.image, values, modulus) for sample in env.dataset(60)]
    assert True in kept
    assert False in kept


def test_an_image_with_exactly_as_many_counted_pixels_as_the_bound_is_kept():
    counting = al.load("single-color-modulo", image_size=24, max_count=120).counting
    accept = Accept(counting, 9, keep_degenerate=True)
    image = np.zeros((1, 24, 24), dtype=np.uint8)
    image[0, 0, :9] = 1
    assert accept(image)
    image[0, 1, 0] = 1
    assert not accept(image)


def test_counts_beyond_the_bound_are_drawn_again_even_where_degenerate_images_are_kept():
    env = al.load(
        "single-color-modulo", image_size=32, modulus=3, max_count=40, keep_degenerate=True
    )
    assert env.network.max_count == 42
    assert max(oracles.count(sample.image, (1,)) for sample in env.dataset(20)) <= 42


# Truth


@pytest.mark.parametrize("name", NAMES)
def test_truth_is_the_mask_of_a_loop_for_every_target_and_output(small, name):
    env = small[name]
    values, _ = sources(env)
    images, _ = env.batch(2)
    for target in range(env.network.classes):
        for output in env.outputs:
            truth = env.truth(images, torch.tensor([target, target]), output)
            for image, signed in zip(images, truth.signed, strict=True):
                assert signed[0].tolist() == oracles.mask(image, values, target, output)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "single-color-modulo"])
def test_truth_agrees_with_changing_one_pixel_at_a_time(name):
    # Props. 3.1 and 3.2 on the smallest images; every pixel of every image and the signs of both.
    env = al.load(name, image_size=8, patch_size=(0.3, 0.4))
    images, labels = env.batch(2)
    targets = env.targets(labels)
    for output in env.outputs:
        model = env.explained_model(output).double()
        signed = env.truth(images, targets, output).signed
        for image, target, signs in zip(images, targets, signed, strict=True):
            with torch.no_grad():
                effects = oracles.intervention(model, image.double(), env.baseline)
            effects = [[effect[target] for effect in row] for row in effects]
            assert signs[0].tolist() == [[(e > 0) - (e < 0) for e in row] for row in effects]
            if output == "logit":
                assert signs[0].tolist() == effects


@pytest.mark.long
def test_the_support_of_the_modulo_truth_agrees_with_changing_one_pixel_at_a_time(small):
    # Signs do not: the remainder wraps. One pixel more or less always changes it.
    env = small["single-color-modulo"]
    images, labels = env.batch(1)
    with torch.no_grad():
        effects = oracles.intervention(env.model, images[0], env.baseline)
    support = [[effect[0] != 0 for effect in row] for row in effects]
    assert env.truth(images, env.targets(labels)).overall[0, 0].tolist() == support


def test_the_default_output_is_the_probability_for_classes_and_the_logit_for_regression(small):
    images, labels = small["multi-color-sum"].batch(2)
    env = small["multi-color-sum"]
    assert env.outputs == ("probability", "logit")
    default = env.truth(images, labels).signed
    assert torch.equal(default, env.truth(images, labels, "probability").signed)
    assert not torch.equal(default, env.truth(images, labels, "logit").signed)
    assert small["color-detector"].outputs == ("logit",)


def test_targets_are_the_labels_or_the_zeros_of_a_regression(small):
    labels = torch.tensor([3, 1])
    assert torch.equal(small["multi-color-sum"].targets(labels), labels)
    assert small["number-checker"].targets(labels).tolist() == [0, 0]


def test_distractors_and_background_are_no_part_of_the_truth(small):
    env = small["multi-color-sum-distractors"]
    images, labels = env.batch(4)
    distractors = torch.tensor(env.spec.constants["distractor_colors"]).float()
    shown = (images[:, None] == distractors[None, :, :, None, None]).all(2).any(1, keepdim=True)
    assert bool(shown.any())
    assert not (env.truth(images, labels).overall & shown).any()


def test_unseen_colors_have_a_truth_where_no_redundant_channel_hears_them():
    for overrides in ({"redundant_channels": 0}, {"redundant_strength": 0}):
        env = al.load("multi-color-sum", image_size=32, **overrides)
        truth = env.truth(torch.zeros(1, 3, 32, 32), torch.tensor([0]))
        assert not truth.overall.any()


@pytest.fixture
def batch(small) -> tuple[al.Environment, torch.Tensor, torch.Tensor]:
    env = small["multi-color-sum"]
    return env, *env.batch(2)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(-1.0, "-1"), (256.0, "256"), (0.5, "0.5"), (float("nan"), "nan"), (float("inf"), "inf")],
)
def test_a_value_outside_the_valid_box_is_refused_with_its_place(batch, value, shown):
    env, images, labels = batch
    images = images.clone()
    images[1, 2, 3, 4] = value
    with refused(
        f"images have the value {shown} at (1, 2, 3, 4): multi-color-sum takes integers in "
        "[0, 255], not scaled or normalized ones"
    ):
        env.truth(images, labels)


def test_images_scaled_to_1_are_refused(batch):
    env, images, labels = batch
    with refused("not scaled or normalized ones"):
        env.truth(images / 255, labels)


def test_binary_images_are_0_and_1_and_not_0_and_255(small):
    env = small["uniform-accumulator"]
    images, labels = env.batch(1)
    with refused("images have the value 255 at"):
        env.truth(images * 255, env.targets(labels))


@pytest.mark.usefixtures("without_shape_checks")
def test_lists_and_arrays_of_integers_are_targets_too(batch):
    env, images, labels = batch
    expected = env.truth(images, labels).signed
    assert torch.equal(env.truth(images, labels.tolist()).signed, expected)
    assert torch.equal(env.truth(images, labels.numpy()).signed, expected)
    assert torch.equal(env.truth(images, labels.to(torch.uint8)).signed, expected)


def test_a_regression_has_no_other_target_than_0(small):
    env = small["single-color-modulo"]
    images, labels = env.batch(1)
    with refused(
        f"target {int(labels)} does not exist: single-color-modulo has the outputs 0 to 0 (a "
        "regression's targets are zeros)"
    ):
        env.truth(images, labels)


def test_colors_that_set_off_the_unseen_data_effect_are_refused(batch):
    env, images, labels = batch
    images = images.clone()
    images[1, :, 5:7, 9] = torch.tensor([1.0, 2.0, 3.0])[:, None]
    with refused(
        "image 1 has 2 pixels of colors that multi-color-sum was not made for, the first (1, 2, 3) "
        "at (5, 9): no mask holds there; set redundant_strength=0 or use the environment's own images"
    ):
        env.truth(images, labels)


def test_known_colors_are_those_on_which_no_redundant_channel_fires(small):
    for name in ("multi-color-sum", "multi-color-sum-distractors"):
        env = small[name]
        shown = 2 if name.endswith("distractors") else 0
        constants = env.spec.constants
        known = known_colors(env.spec)
        assert len(known) == 4 + shown + 1
        unknown = constants["distractor_colors"][shown:]
        for color in [*known, *unknown, (0, 0, 0)]:
            pixel = torch.tensor(color).float()[None, :, None, None]
            fired = env.model.detector(pixel)[0, 4 + shown :, 0, 0].tolist()
            assert fired == [float(color not in known)] * 2


def test_an_output_that_a_regression_does_not_have_is_refused(small):
    env = small["color-detector"]
    images, labels = env.batch(1)
    with refused("color-detector is a regression: its only output is 'logit', not 'probability'"):
        env.truth(images, env.targets(labels), "probability")


def test_counts_beyond_the_bound_of_the_network_are_refused():
    env = al.load("single-color-modulo", image_size=32, modulus=5, max_count=100)
    with refused(
        "single-color-modulo: an image has 1024 counted pixels, the network is right up to 100: use "
        "smaller patches or a larger max_count"
    ):
        env.truth(torch.ones(1, 1, 32, 32), torch.tensor([0]))


# Models


def test_the_softmax_model_gives_probabilities_and_shares_the_model(small):
    for env in small.values():
        if env.task == "regression":
            assert env.softmax_model is None
            assert env.temperature is None
            assert env.explained_model("logit") is env.model
            continue
        images, _ = env.batch(3)
        with torch.no_grad():
            probabilities = env.softmax_model.double()(images.double())
        env.softmax_model.float()
        # Each of the 4 terms and their sum are rounded once: 8 units of 2^-53.
        assert float((probabilities.sum(1) - 1).abs().max()) < 2.0**-50
        shared = set(env.model.parameters())
        own = [p for p in env.softmax_model.parameters() if p not in shared]
        assert shared <= set(env.softmax_model.parameters())
        assert [tuple(parameter.shape) for parameter in own] == [(4, 4)]
        assert env.explained_model("probability") is env.softmax_model
        assert env.explained_model("logit") is env.model


def test_the_default_temperature_leaves_no_gradient_of_the_own_images_at_zero():
    env = al.load("multi-color-sum", image_size=100)
    images, labels = env.batch(16)
    logits = env.model(images).detach().requires_grad_()
    head = nn.Sequential(env.softmax_model.temperature, env.softmax_model.softmax)
    head(logits)[range(16), labels].sum().backward()
    assert bool((logits.grad != 0).all())


def test_the_temperature_can_be_chosen():
    env = al.load("multi-color-sum", image_size=32, temperature=1)
    assert env.temperature == 1
    images, _ = env.batch(2)
    assert torch.equal(env.softmax_model(images), torch.softmax(env.model(images), 1))


def test_moving_to_a_device_moves_model_and_baseline_and_returns_the_environment(monkeypatch):
    for name in ("multi-color-sum", "uniform-accumulator"):
        env = al.load(name, image_size=8)
        assert env.to("cpu") is env
        assert env.device == torch.device("cpu")
        # A device without memory stands in for an accelerator.
        monkeypatch.setattr("attributionlab.worlds.environment.environment.as_device", torch.device)
        with al.exact_arithmetic():  # or it would warn of rounded products
            assert env.to("meta").baseline.device.type == env.device.type == "meta"
        model = env.softmax_model or env.model
        assert {p.device.type for p in model.parameters()} == {"meta"}
        monkeypatch.undo()


@pytest.mark.parametrize("device", ["gpu", "meta", "cuda:99", 3.5])
def test_a_device_that_is_not_there_is_refused_and_changes_nothing(device):
    env = al.load("multi-color-sum", image_size=8)
    with refused(f"device is '{device}'" if isinstance(device, str) else f"device is {device}"):
        env.to(device)
    assert env.device == env.baseline.device == torch.device("cpu")


def test_the_baseline_is_the_background_and_counts_for_nothing(small):
    for env in small.values():
        assert env.baseline.shape == (env.recipe.channels, 1, 1)
        empty = env.baseline.expand(1, -1, 32, 32)
        assert not env.model(empty).any()
        assert env.baseline.flatten().tolist() == list(env.recipe.background)


# Descriptions


def test_the_summary_states_the_facts():
    text = al.load("single-color-modulo").summary()
    for fact in (
        "single-color-modulo",
        "regression, 1 output\n",
        "17 with weights, 675,033 parameters",
        "1 x 224 x 224",
        "integers in [0, 1]",
        "(0,)",
        "4,920",
        "of 2^24 grid steps",
        "gradcam: model.accumulator.5, iba: model.accumulator.11",
        "appendix D",
    ):
        assert fact in text
    assert "temperature" not in text


def test_the_summary_of_a_classifier_states_temperature_and_strength_in_force():
    env = al.load("multi-color-sum", image_size=32, redundant_strength=0.9, temperature=64)
    text = env.summary()
    for fact in ("classification, 4 outputs", "integers in [0, 255]", "(20, 20, 20)"):
        assert fact in text
    assert re.search(r"temperature +64\n", text)
    assert re.search(r"redundant_strength +1 in force", text)
    assert re.search(rf"spec +{env.spec.digest[:16]}$", text)


def test_a_smoothed_truth_has_a_sigma_in_pixels(small):
    env = small["multi-color-sum"]
    assert env.smoothing_sigma == env.spec.constants["smoothing"] * 32


def test_environments_have_a_short_name_for_people(small):
    assert repr(small["multi-color-sum"]) == "Environment('multi-color-sum', classification, 32 px)"


def test_digests_tell_environments_and_constants_apart(small):
    digests = {name: env.spec.digest for name, env in small.items()}
    assert len(set(digests.values())) == len(digests)
    again = al.load("multi-color-sum", image_size=32)
    assert again.spec.digest == digests["multi-color-sum"]
    for overrides in ({"fill": 0.4}, {"weight_seed": 1}, {"redundant_strength": 0.5}):
        other = al.load("multi-color-sum", image_size=32, **overrides)
        assert other.spec.digest != digests["multi-color-sum"]
    assert replace(again.spec, seed=1).digest != again.spec.digest
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests.values())


@pytest.mark.long
def test_digests_are_the_same_in_every_process(small):
    code = (
        "import json, attributionlab as al\n"
        f"print(json.dumps([al.load(n, **o).spec.digest for n, o in {SMALL_ENVIRONMENTS!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) == [env.spec.digest for env in small.values()]


# The main claim


def logits_are_pixel_counts(n: int, step: int) -> None:
    env = al.load("multi-color-sum-in-distribution")
    dataset = env.dataset(n)
    for start in range(0, n, step):
        images = torch.stack([dataset[index].image for index in range(start, start + step)])
        colors = torch.tensor(env.spec.constants["colors"]).float()
        # one comparison a color and value, beside the detector's 16 layers
        equal = (images[:, None] == colors[None, :, :, None, None]).all(2)
        with torch.no_grad():
            logits = env.model(images.to(memory_format=torch.channels_last))
        assert logits.tolist() == equal.sum((2, 3)).tolist()


@pytest.mark.long
def test_logits_equal_pixel_counts_on_16_images():
    logits_are_pixel_counts(16, step=8)


@pytest.mark.slow
def test_logits_equal_pixel_counts_on_1000_images():
    logits_are_pixel_counts(1000, step=20)
