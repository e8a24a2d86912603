"""Half precision is reported: what is proved is so, and what overflows says so."""

import json

import pytest
import torch

import attributionlab as al
from attributionlab.verification import Precision
from attributionlab.verification.certification import half_precisions


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
