"""Half precision is reported: what is proved is so, and what overflows says so."""

import json

import pytest
import torch

import attributionlab as al
from attributionlab.worlds.verification.certificate import Certificate, Check, Precision, Tally
from attributionlab.worlds.verification.certification import half_precisions


def tally_of(got: list[list[float]], expected: list[list[float]]) -> Check:
    tally = Tally("name", "Claim.")
    rows = torch.tensor(got).double(), torch.tensor(expected).double()
    tally.compare(*rows, lambda i: f"input {i}")
    return tally.check()


def test_equal_outputs_pass_and_are_counted():
    check = tally_of([[1, 2], [3, 4]], [[1, 2], [3, 4]])
    assert check == Check("name", "Claim.", 2, 0, "2 of 2 agree")
    assert check.passed


def test_the_first_counterexample_names_input_got_and_expected():
    check = tally_of([[1, 2], [3, 5], [0, 0]], [[1, 2], [3, 4], [1, 1]])
    assert not check.passed
    assert (check.tested, check.mismatches) == (3, 2)
    assert check.detail == "2 of 3 disagree, first input 1: output 1: got 5, expected 4"


def test_many_unequal_outputs_are_cut_short():
    check = tally_of([[1.0] * 6], [[0.0] * 6])
    assert check.detail.endswith("output 3: got 1, expected 0 (and 2 more)")


def test_nan_agrees_with_nothing():
    assert tally_of([[float("nan")]], [[float("nan")]]).mismatches == 1


def test_a_check_that_tested_nothing_does_not_pass():
    assert not Check("name", "Claim.", 0, 0, "").passed


def test_one_failed_check_fails_the_certificate_and_it_is_json():
    good, bad = Check("a", "A.", 1, 0, ""), Check("b", "B.", 2, 1, "input 0")
    certificate = Certificate("env", [good, bad])
    assert Certificate("env", [good]).passed
    assert not certificate.passed
    document = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert document["environment"] == "env"
    assert document["passed"] is False
    assert document["checks"][1] == {
        "name": "b",
        "claim": "B.",
        "tested": 2,
        "mismatches": 1,
        "detail": "input 0",
        "passed": False,
    }


def anywhere(env: al.Environment, count: int = 8) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    shape = (count, len(env.baseline), env.recipe.image_size, env.recipe.image_size)
    images = torch.randint(0, env.max_value + 1, shape, generator=generator).float()
    images[0], images[1] = 0, env.max_value
    return images


@pytest.mark.parametrize(
    ("side", "proved"),
    # The sum of the whole image needs side^2 steps: float16 counts 2,048 of them, bfloat16 256.
    [(16, [True, True]), (17, [True, False]), (45, [True, False]), (46, [False, False])],
)
def test_counts_are_proved_up_to_the_steps_of_the_type(side, proved):
    env = al.load("uniform-accumulator", image_size=side)
    precisions = half_precisions(env, anywhere(env))
    assert [precision.dtype for precision in precisions] == ["float16", "bfloat16"]
    assert [precision.proved for precision in precisions] == proved
    assert all(p.equal == p.images == 8 for p in precisions if p.proved)


def test_a_rounded_logit_is_counted_and_measured():
    env = al.load("uniform-accumulator", image_size=46)
    images = torch.zeros(2, 1, 46, 46)
    images[1].flatten()[:2049] = 1  # float16 has 2048 and 2050
    half = half_precisions(env, images)[0]
    assert half == Precision("float16", images=2, equal=1, largest_difference=1.0, proved=False)


def test_overflow_is_no_number_and_still_json():
    env = al.load("uniform-accumulator", image_size=9)
    with torch.no_grad():
        env.model.get_parameter("head.0.weight").fill_(2.0**12)
    half, brain = half_precisions(env, torch.ones(1, 1, 9, 9))
    assert (half.equal, half.largest_difference) == (0, None)
    assert brain.largest_difference is not None
    json.dumps(al.verify(env).to_dict(), allow_nan=False)


def test_a_weight_that_the_type_rounds_is_no_proof():
    env = al.load("uniform-accumulator", image_size=9)
    with torch.no_grad():
        env.model.get_parameter("head.0.weight").fill_(1 + 2.0**-20)
    assert not any(precision.proved for precision in half_precisions(env, anywhere(env)))


def test_the_network_is_left_in_float32():
    env = al.load("uniform-accumulator", image_size=9)
    half_precisions(env, anywhere(env))
    assert all(parameter.dtype == torch.float32 for parameter in env.model.parameters())
