"""Right networks are certified, each kind of wrong one fails its check, and nothing is changed."""

import copy
import json

import pytest
import torch

import attributionlab as al
from attributionlab.worlds.truth import Counting
from cases import SMALL_ENVIRONMENTS

WHOLE = {"logits", "labels", "removal", "insertion", "masks", "float64", "memory-layout", "batch"}
SUMS = {"sum-weights", "sum-slopes", "sum-subsets"}
COLOR = {"number-checkers", "color-detector", "irrelevant", "identity"}


def failures(env: al.Environment) -> dict[str, str]:
    """Name and detail of each failed check."""
    return {check.name: check.detail for check in al.verify(env).checks if not check.passed}


@pytest.mark.long
@pytest.mark.parametrize(("name", "overrides"), SMALL_ENVIRONMENTS)
def test_every_environment_of_the_catalog_is_certified(name, overrides):
    assert failures(al.load(name, **overrides)) == {}


@pytest.mark.long
def test_the_main_environment_is_certified_at_its_own_size():
    assert failures(al.load("multi-color-sum")) == {}


@pytest.mark.long
def test_the_paper_s_modulo_network_is_certified_at_its_own_size():
    env = al.load("single-color-modulo")
    certificate = al.verify(env)
    assert certificate.passed
    remainder = next(check for check in certificate.checks if check.name == "remainder")
    assert remainder.tested == 4921  # 0 to 164 x 30


@pytest.mark.slow
def test_all_colors_agree():
    env = al.load("multi-color-sum", image_size=8)
    certificate = al.verify(env, exhaustive=True)
    detector = next(check for check in certificate.checks if check.name == "color-detector")
    assert detector.passed
    assert detector.tested == 2**24


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("uniform-accumulator", WHOLE | SUMS | {"identity"}),
        ("number-checker", WHOLE | SUMS | {"number-checker", "irrelevant", "identity"}),
        ("color-detector", WHOLE | SUMS | COLOR),
        ("single-color-modulo", WHOLE | SUMS | {"remainder"}),
        (
            "multi-color-sum-distractors",
            WHOLE | SUMS | COLOR | {"redundant-weights", "temperature"},
        ),
    ],
)
def test_a_certificate_holds_the_checks_that_apply(name, expected):
    assert {check.name for check in al.verify(al.load(name, image_size=24)).checks} == expected


@pytest.mark.parametrize(
    "overrides",
    [
        {"redundant_strength": 0.0},
        {"redundant_strength": 1.6, "redundant_channels": 3},
        {"redundant_channels": 0, "distractors": 1},
        {"colors": ((0, 0, 0), (255, 255, 255)), "background": (1, 0, 0)},
        {"keep_degenerate": True, "dataset": "four-colors-shapes"},
    ],
)
def test_other_constants_are_certified_too(overrides):
    assert failures(al.load("multi-color-sum", image_size=24, **overrides)) == {}


# environment, parameter, entry (all by default), its wrong value, and what must be said by which check
BREAKS = (
    ("number-checker", "detector.4.bias", ..., 1.0, {"number-checker": "first value 0: output 0: "
        "got 1, expected 0"}),
    ("multi-color-sum", "detector.4.weight", (0, 0), 0.0, {
        "number-checkers": "color (220, 0, 20): output 0: got 0, expected 1",
        "color-detector": "color (220, 120, 20): output 0: got 0, expected 1",
        "logits": "first sample 0: output 0: got",
        "removal": "expected",
    }),
    ("multi-color-sum", "detector.8.bias", (4,), 0.0, {
        "color-detector": "first color (0, 0, 0): output 4: got 0, expected 1",
    }),
    ("multi-color-sum", "accumulator.0.weight", (0, 0, 0, 0), 2.0, {
        "sum-slopes": "sum 0, channel 0, pixel (0, 0): got 2, expected 1",
        "sum-subsets": "output 0: got",
    }),
    ("multi-color-sum", "accumulator.0.bias", (0,), -1.0, {
        "sum-weights": "accumulator.0.bias[0] is -1",
    }),
    ("multi-color-sum", "accumulator.0.weight", (0, 4, 0, 0), 0.3, {
        "redundant-weights": "first weight 0 of the redundant channels: 0.3",
    }),
    ("color-detector", "head.0.weight", (0, 1), 1.0, {
        "identity": "expected 0",
        "irrelevant": "output 0: got",
    }),
    ("uniform-accumulator", "head.2.bias", ..., 1.0, {
        "identity": "first counts [0]: output 0: got 1, expected 0",
        "logits": "got",
    }),
    ("single-color-modulo", "head.10.weight", (0, 1), 0.0, {
        "remainder": "first counts [30]: output 0: got 30, expected 0",
    }),
    ("multi-color-sum", "temperature.weight", (1, 0), 1.0, {"temperature": "output 1: got"}),
)  # fmt: skip


@pytest.mark.parametrize(("name", "parameter", "entry", "value", "said"), BREAKS)
def test_a_wrong_network_fails_with_a_counterexample(name, parameter, entry, value, said):
    env = al.load(name, image_size=24)
    model = env.softmax_model if parameter.startswith("temperature") else env.model
    with torch.no_grad():
        model.get_parameter(parameter)[entry] = value
    found = failures(env)
    for check, text in said.items():
        assert text in found[check]


def test_a_network_that_rounds_fails_the_comparison_with_float64():
    env = al.load("multi-color-sum", image_size=24)
    with torch.no_grad():
        env.model.get_parameter("accumulator.0.weight").mul_(0.1)
    assert "float64" in failures(env)


def test_an_answer_that_depends_on_the_batch_is_noticed():
    env = al.load("uniform-accumulator", image_size=24)
    env.model.register_forward_hook(lambda model, inputs, output: output + (len(inputs[0]) > 1))
    assert "batch" in failures(env)


def test_a_wrong_truth_fails_masks_and_labels():
    env = al.load("multi-color-sum", image_size=24)
    env.counting = Counting(env.counting.values[::-1])
    assert {"masks", "labels"} <= failures(env).keys()


def test_masks_must_hold_for_the_background_too():
    env = al.load("uniform-accumulator", image_size=24)
    env.counting = Counting(((0,),))
    assert "pixel" in failures(env)["masks"]


def test_the_network_and_the_random_state_are_left_as_they_are():
    env = al.load("multi-color-sum", image_size=24)
    env.model.train()
    weight, bias = env.model.get_parameter("head.0.weight"), env.model.get_parameter("head.0.bias")
    weight.grad = torch.ones_like(weight)
    bias.requires_grad_(False)
    before = copy.deepcopy(env.model.state_dict())
    strides = [parameter.stride() for parameter in env.model.parameters()]
    random_state = torch.get_rng_state()
    assert al.verify(env).passed
    assert env.model.training
    assert torch.equal(weight.grad, torch.ones_like(weight))
    assert all(p.grad is None for p in env.model.parameters() if p is not weight)
    assert not bias.requires_grad
    after = env.model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert all(value.dtype == torch.float32 for value in after.values())
    assert strides == [parameter.stride() for parameter in env.model.parameters()]
    assert torch.equal(random_state, torch.get_rng_state())


@pytest.mark.long
def test_the_same_seed_gives_the_same_certificate_and_it_is_json():
    env = al.load("multi-color-sum-distractors", image_size=24)
    first, second = al.verify(env, seed=3).to_dict(), al.verify(env, seed=3).to_dict()
    assert first == second
    assert json.loads(json.dumps(first, allow_nan=False)) == first


def test_verify_works_without_gradients_switched_on():
    env = al.load("nonuniform-accumulator", image_size=9)
    with torch.no_grad():
        assert al.verify(env).passed
