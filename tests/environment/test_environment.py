"""Environments: deterministic data, right labels, truth masks, and what is refused with which words."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import attributionlab as al
import oracles
from attributionlab.worlds import known_colors
from attributionlab.worlds.environment.samples import Accept
from cases import SMALL_ENVIRONMENTS

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


def test_unseen_colors_have_a_truth_where_no_redundant_channel_hears_them():
    for overrides in ({"redundant_channels": 0}, {"redundant_strength": 0}):
        env = al.load("multi-color-sum", image_size=32, **overrides)
        truth = env.truth(torch.zeros(1, 3, 32, 32), torch.tensor([0]))
        assert not truth.overall.any()


@pytest.fixture
def batch(small) -> tuple[al.Environment, torch.Tensor, torch.Tensor]:
    env = small["multi-color-sum"]
    return env, *env.batch(2)


@pytest.mark.usefixtures("without_shape_checks")
def test_lists_and_arrays_of_integers_are_targets_too(batch):
    env, images, labels = batch
    expected = env.truth(images, labels).signed
    assert torch.equal(env.truth(images, labels.tolist()).signed, expected)
    assert torch.equal(env.truth(images, labels.numpy()).signed, expected)
    assert torch.equal(env.truth(images, labels.to(torch.uint8)).signed, expected)


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
        "of 2^24 grid steps, so float32 is exact",
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
    assert replace(again.spec, claim="?", formula="?", source="?").digest == again.spec.digest
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


@pytest.mark.slow
def test_logits_equal_pixel_counts_on_1000_images():
    logits_are_pixel_counts(1000, step=20)
